"""The benches of RUMOR's workloads: answers of patterns, against loops, and equal under all rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from xscl.base.values import digest_text
from xscl.bench.bench import Case, Lab, Options, Sizes, run_bench
from xscl.bench.sharing import BENCHES, Work, answered, channels_work, pattern_work

CHANNELS = next(bench for bench in BENCHES if bench.name == "channels")


def told(work: Work, left: str) -> set[tuple[str, int, int]]:
    """Answers of the queries as (query, number on the left, number on the right), by a loop."""
    of_t = work.tables["T"].to_pylist()
    found = set()
    for name, text in work.texts.items():
        member, window = re.search(r"m > (\d+)", text), int(re.findall(r"(\d+) s\}", text)[0]) * 1_000_000
        for row in work.tables[left].to_pylist():
            if member and row["m"] <= int(member[1]):
                continue
            later = [t for t in of_t if row["ts"] < t["ts"] <= row["ts"] + window and t["a0"] == row["a0"]]
            if later:
                found.add((name, row["s"], min(later, key=lambda t: t["ts"])["t"]))
    return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab[Sizes]]:
    yield Lab(Sizes(), Options(), tmp_path, lambda _: None)


def few_values(work: Work) -> Work:
    """The same with a few values, so that most rows have partners."""
    tables = {}
    for name, table in work.tables.items():
        place = table.schema.get_field_index("a0")
        values = [value % 7 for value in table.column("a0").to_pylist()]
        tables[name] = table.set_column(place, "a0", [values])
    return Work(tables, work.texts, work.events)


@pytest.mark.parametrize("rules", ["all", "none"])
def test_matches_are_those_of_a_loop(lab: Lab[Sizes], rules: str) -> None:
    work = few_values(pattern_work("W2", 3, 60, seed=1))
    outcome = answered(lab, work, rules)
    assert outcome.figures["matches"] == len(told(work, "S")) > 60


def test_copies_of_rows_are_as_one_of_all_streams(lab: Lab[Sizes]) -> None:
    one, copies = (few_values(channels_work(";", 3, 6, 20, 1, tagged=tagged)) for tagged in (False, True))
    outcomes = [answered(lab, work, "all") for work in (one, copies)]
    assert outcomes[0].digest == outcomes[1].digest
    assert outcomes[0].figures["matches"] == len(told(one, "C")) > 60


@pytest.mark.parametrize("rules", ["all", "none"])
def test_averages_over_streams_are_those_of_a_loop(lab: Lab[Sizes], rules: str) -> None:
    works = [channels_work("α", 3, 6, 300, 1, tagged=tagged) for tagged in (False, True)]
    expected = averages(works[1])
    assert len(expected) > 50
    for work in works:
        outcome = answered(lab, work, rules)
        assert outcome.digest == digest_text(*map(repr, sorted(expected)))
    assert outcome.figures["mops"] == (2 if rules == "all" else 12)


def averages(work: Work) -> list[tuple[object, ...]]:
    """Answers to queries of averages, by a loop over windows and groups."""
    rows = work.tables["C"].to_pylist()
    found: list[tuple[object, ...]] = []
    for name, text in work.texts.items():
        stream = int(re.search(r"m = (\d+)", text)[1])  # type: ignore[index]
        window = int(re.search(r"WINDOW (\d+) s", text)[1]) * 1_000_000  # type: ignore[index]
        groups: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            if row["m"] == stream:
                groups.setdefault((row["ts"] // window, row["g"]), []).append(row["a1"])
        for (number, group), values in groups.items():
            average = sum(values) / len(values)
            shown = str(int(average)) if average.is_integer() else repr(average)
            found.append((name, (number + 1) * window, str(group), str(len(values)), shown))
    return found


def test_the_bench_compares_the_variants() -> None:
    works = {tagged: few_values(channels_work(";", 2, 2, 12, 1, tagged=tagged)) for tagged in (False, True)}
    bench = replace(CHANNELS, prepare=lambda _: iter([Case("2 streams", works, {"capacity": 2})]))
    report = run_bench(bench, Options(), lambda _: None)
    assert report.figures["digest_equal"] is True
    assert report.figures["matches"] == report.figures["matches_one_by_one"] > 10
    assert {row["mode"] for row in report.table} == {"membership", "tagged union", "one by one"}
