"""Windows of matches in a batch, one by one: numbers, windows that are asked for, and who is told."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import xscl
from xscl.base.docids import place_of
from xscl.batches.deciding import windows as deciding_windows
from xscl.batches.memory import windows as window_memory
from xscl.batches.windows import answers as aggregate_answers
from xscl.batches.windows import families as aggregate_families
from xscl.batches.windows.answers import begun
from xscl.batches.windows.families import Member, families, kind_of
from xscl.batches.windows.groups import Matches, Runs
from xscl.batches.windows.rows import ROW_SCHEMA, read_kept
from xscl.batches.windows.values import Numbers
from xscl.catalog.tables import STATE_FILES
from xscl.catalog.windows import Windows
from xscl.language.aggregates import Definition, definition_of
from xscl.language.outlines.windows import known_definition
from xscl.language.syntax.parser import parse_query


def matches(times: list[int]) -> Matches:
    """Matches at some times, one after another."""
    count = len(times)
    columns = {
        "ts": times,
        "key": [b"%08d" % number for number in range(count)],
        "first": range(count),
        "came": range(count),
        "received": [0] * count,
        "name": [str(number) for number in range(count)],
        "texts": [["x"]] * count,
    }
    return Matches(pa.table({name: list(values) for name, values in columns.items()}, schema=ROW_SCHEMA))


@pytest.mark.parametrize("digits", [1, 18, 19, 20, 40])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_nothing_are_compared_with_any_number(digits: int, sign: int) -> None:
    sums = Numbers(np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64), np.array([True, False]))
    for number in (Fraction(sign, 10**digits), Fraction(sign * 10**digits)):
        assert sums.compared("<", number).tolist() == [sign > 0, False]


def numbers(times: list[int], every: int, window: int, least: int, most: int) -> list[int]:
    """Numbers of the windows of one group that have matches."""
    return [int(n) for _, some, _ in begun(matches(times).runs(()), every, window, least, most) for n in some]


def test_no_other_windows_are_made_than_are_asked_for() -> None:
    times = [-3, 0, 0, 4, 25, 1000]
    for every, window in [(1, 1), (2, 5), (5, 10), (10, 10)]:
        known = sorted({n for ts in times for n in range(-20, 1001) if n * every <= ts < n * every + window})
        for least, most in [(-20, 1000), (0, 3), (3, 2), (6, 999)]:
            assert numbers(times, every, window, least, most) == [n for n in known if least <= n <= most]
    assert numbers([], 1, 10, 0, 5) == []
    # Each of many matches is in many windows, and two of them are asked for.
    assert numbers(list(range(20_000)), 1, 1 << 40, 7, 8) == [7, 8]


def test_definitions_that_differ_in_constants_are_told_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT k, sum(v) AS n FROM a[./k->k][./v->v] WINDOW 5 s EVERY 1 s GROUP BY k HAVING sum(v) {} {}"
    told_apart: list[Definition] = []

    def counted(definition: Definition) -> aggregate_families.Kind:
        told_apart.append(definition)
        return kind_of(definition)

    monkeypatch.setattr(aggregate_families, "kind_of", counted)
    texts = [text.format(op, constant) for op in (">=", "<") for constant in range(2, 52)]
    definitions = [known_definition(each, (), "a[./k->k][./v->v]") for each in texts]
    (family,) = families(Member(gid, of, (0,)) for gid, of in enumerate(definitions))
    assert [member.gid for member in family.members] == list(range(100))
    assert len(told_apart) < 10
    # What is parsed has terms of its own, and is of the same family.
    parsed = [definition_of(parse_query(each), each) for each in texts[:3]]
    (together,) = families(Member(gid, of, (0,)) for gid, of in enumerate([*definitions[:2], *parsed]))
    assert len(together.members) == 5


ALIKE = [
    ("sum(v) > 3", "3 < sum(v)", "2 * sum(v) + 1 > 7", "0 - sum(v) < 0 - 3", "7 < 1 + sum(v) * 2"),
    ("sum(v) <= 4", "4 >= sum(v)", "sum(v) - 1 <= 3", "0 - 2 * sum(v) >= 0 - 8"),
    ("sum(v) = 6", "6 = sum(v)", "sum(v) + 1 = 7"),
    ("sum(v) != 6", "6 != sum(v)", "0 - sum(v) != 0 - 6"),
]
"""Conditions that say the same."""


@pytest.mark.parametrize("alike", ALIKE, ids=itemgetter(0))
def test_either_side_of_having_may_be_computed(tmp_path: Path, alike: Sequence[str]) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        made = "SELECT k, sum(v) AS n FROM a[./k->k][./v->v] WINDOW 10 s EVERY 10 s GROUP BY k"
        engine.register(made, name="every")
        for number, having in enumerate(alike):
            engine.register(f"{made} HAVING {having}", name=f"q{number}")
        values = [(ts, f"k{ts % 7}", ts % 5) for ts in range(40)]
        engine.ingest([xscl.Event("a", f"e{t}", t, xml=f"<r><k>{k}</k><v>{v}</v></r>") for t, k, v in values])
        engine.ingest([xscl.Event("a", "end", 1000, xml="<r><k>z</k><v>0</v></r>")])
        engine.run_once()

        def told(name: str) -> list[tuple[int, str, str]]:
            return sorted((match.ts, match.values["k"], match.values["n"]) for match in engine.matches(name))

        compare = {">": operator.gt, "<=": operator.le, "=": operator.eq, "!=": operator.ne}
        _, op, constant = alike[0].split()
        due = [row for row in told("every") if compare[op](int(row[2]), int(constant))]
        assert 0 < len(due) < len(told("every"))
        assert [told(f"q{number}") for number in range(len(alike))] == [due] * len(alike)


def test_windows_over_rows_whose_join_follows_a_path(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", kind="rows", schema="k string, t string, v double", lateness="1 s")
        text = "SELECT j, count() AS n, sum(v) AS s FROM a->x[./k->j] JOIN {j = y/t AND x/v != y/v, 5 s} a->y[./v->v]"
        engine.register(f"{text} WINDOW 10 s EVERY 10 s GROUP BY j", name="w")
        rows = [("b", "c", 1.0), ("c", "b", 2.0), ("b", None, 4.0)]
        engine.ingest(
            [xscl.Event("a", str(n), n, row=dict(zip("ktv", row, strict=True))) for n, row in enumerate(rows)]
        )
        engine.ingest([xscl.Event("a", "end", 1000, row={"k": "z", "t": None, "v": None})])
        engine.run_once()
        found = [dict(match.values) for match in engine.matches("w")]
        assert sorted(found, key=itemgetter("j")) == [{"j": "b", "n": "2", "s": "4"}, {"j": "c", "n": "1", "s": "1"}]


@pytest.mark.parametrize("size", [1, 9])
def test_windows_that_compute_with_texts_that_are_no_numbers(tmp_path: Path, size: int) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        names = {"count": "c", "sum": "s", "avg": "a", "min": "lo", "max": "hi", "first": "f", "last": "l"}
        made = ", ".join(f"{function}(2 * v + 1) AS {name}" for function, name in names.items())
        for name, window in (("every", "10 s EVERY 10 s"), ("rows", "LAST 3 PER k")):
            engine.register(
                f"SELECT k, count() AS n, {made} FROM a//x[./k->k][./v->v] WINDOW {window} GROUP BY k", name=name
            )
        for n, value in enumerate(["one", "", "n/a"]):
            engine.ingest([xscl.Event("a", str(n), n, xml=f"<x><k>b</k><v>{value}</v></x>")])
            if size == 1:
                engine.run_once()
        engine.ingest([xscl.Event("a", "end", 1000, xml="<y/>")])
        engine.run_once()
        for name in ("every", "rows"):
            *_, found = engine.matches(name)
            told = {key: value for key, value in found.values.items() if value}
            assert told == {"k": "b", "n": "3", "c": "0"}, name


def test_windows_of_a_channel_that_the_same_batch_publishes_first(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        engine.register("SELECT k FROM a[./k->k] PUBLISH pb", name="p")
        engine.register("SELECT k, count() AS n FROM pb[./k->k] WINDOW 5 min EVERY 5 min GROUP BY k", name="w")
        engine.ingest([xscl.Event("a", f"e{hour}", hour * 3600, xml="<r><k>1</k></r>") for hour in range(2)])
        engine.run_once()
        assert [dict(match.values) for match in engine.matches("w")] == [{"k": "1", "n": "1"}]


def test_a_late_event_counts_in_no_window_when_it_is_replayed(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for name in "ab":
            engine.add_channel(name, lateness="1 s")
        text = "SELECT k, count() AS n FROM a[./k->k] JOIN {k = m, 1 h} b[./m->m] WINDOW 1 h EVERY 1 h GROUP BY k"
        engine.register(text, name="n")
        engine.register("a[./k->k] JOIN {k = m, 1 h} b[./m->m]", name="plain")
        came = [("b", 240, "m"), ("a", 600, "k"), ("a", 300, "k")]
        engine.ingest([xscl.Event(name, f"e{ts}", ts, xml=f"<r><{tag}>x</{tag}></r>") for name, ts, tag in came])
        engine.run_once()
        engine.replay_late()
        engine.run_once()
        engine.ingest([xscl.Event(name, "end", 7200, xml="<r/>") for name in "ab"])
        engine.run_once()
        assert len([*engine.matches("plain")]) == 2
        assert [dict(match.values) for match in engine.matches("n")] == [{"k": "x", "n": "1"}]
        assert [dict(match.values) for match in engine.query_once(text)] == [{"k": "x", "n": "1"}]


@pytest.mark.parametrize("text", ["WINDOW 1 h EVERY 1 h", "WINDOW 1 h"])
def test_a_dropped_query_leaves_the_ids_of_others_alone(tmp_path: Path, text: str) -> None:
    def ids(folder: Path, cut: bool) -> list[tuple[str, str | None]]:
        with xscl.connect(home=folder) as engine:
            engine.add_channel("s", lateness="1 s")
            for number, name in enumerate(["q1", "q2"]):
                engine.register(f"SELECT k, count() AS n FROM s[./k->k] {text} GROUP BY k", name=name)
                engine.ingest([xscl.Event("s", name, 60 * number, xml="<r><k>x</k></r>")])
            engine.drop("q1")
            if cut:
                engine.run_once()
            engine.ingest([xscl.Event("s", "end", 7200, xml="<r><k>x</k></r>")])
            engine.run_once()
            return [(match.events[0].id, match.document) for match in engine.matches("q2")]

    whole = ids(tmp_path / "whole", False)
    assert whole and whole == ids(tmp_path / "cut", True)


def test_matches_that_only_windows_are_over_are_not_written(tmp_path: Path) -> None:
    """The reports count answers alone, whoever else has the matches."""
    text = "SELECT k, count() AS n FROM a[./k->k] WINDOW 1 s EVERY 1 s GROUP BY k"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="0 s")
        engine.register(text, name="counts")
        engine.register(text + " HAVING count() > 9", name="never")
        found = []
        for second in range(6):
            if second == 3:
                engine.register("SELECT k FROM a[./k->k]", name="alone")
            engine.ingest([xscl.Event("a", f"e{second}-{n}", second, xml=f"<r><k>{n}</k></r>") for n in range(4)])
            (report,) = engine.run_once()
            folder = engine.home.root / (report.result_path or "nothing")
            tables = [pq.read_table(file, columns=["relation", "d1"]) for file in folder.rglob("*.parquet")]
            documents = [place for each in tables for place in each.column("d1").drop_null().to_pylist()]
            found.append((report.matches, sum(place_of(doc) == doc for doc in documents)))
        assert found == [(0, 0), (4, 0), (4, 0), (8, 4), (8, 4), (8, 4)]
        assert len([*engine.matches("counts")]) == 20 and len([*engine.matches("alone")]) == 12


ONCE = "SELECT k, count() AS n FROM a[./k->k] WINDOW 1 s GROUP BY k ONCE PER 1 h"


def kept_files(engine: xscl.Engine) -> list[Path]:
    """The file of windows; none, if nothing is kept."""
    return [engine.home.root / row["path"] for row in engine.home.catalog.rows(STATE_FILES) if row["kind"] == "windows"]


def ingest(engine: xscl.Engine, second: int, values: list[str]) -> None:
    engine.ingest(
        [xscl.Event("a", f"e{second}-{n}", second, xml=f"<r><k>{value}</k></r>") for n, value in enumerate(values)]
    )
    engine.run_once()


def test_groups_that_were_told_take_little_however_long_they_are(tmp_path: Path) -> None:
    """Each is told once an hour, and the file has a digest of it."""
    long = [f"{number:02}" + "x" * 100_000 for number in range(20)]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        engine.register(ONCE, name="w")
        for second in (10, 20, 3_700):
            ingest(engine, second, long)
        engine.heartbeat("a", 3_900_000_000)
        engine.run_once()
        times = sorted(match.ts // 1_000_000 for match in engine.matches("w"))
        assert times == [10] * 20 + [3_700] * 20
        (path,) = kept_files(engine)
        (of,) = read_kept(path).told.values()
        assert len(of) == 20 and path.stat().st_size < 20_000


def test_nothing_is_kept_of_queries_that_are_gone(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        for number in range(3):
            engine.register(ONCE.replace("1 h", f"{number + 1} h"), name=f"w{number}")
        engine.register(ONCE.replace("a[./k->k]", "a/r[./k->k]"), name="other")
        ingest(engine, 10, ["1", "2"])
        ingest(engine, 20, ["1"])
        (path,) = kept_files(engine)
        before = read_kept(path)
        assert (len(before.told), len(before.answered)) == (4, 2)
        for name in ("w0", "w2", "other"):
            engine.drop(name)
        ingest(engine, 30, ["3"])
        ingest(engine, 40, ["3"])
        (path,) = kept_files(engine)
        after = read_kept(path)
        assert (len(after.told), len(after.answered)) == (1, 1)


def test_a_batch_reads_who_asks_only_where_that_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    reads = window_memory.read_windows

    def counted(connection: sa.Connection, first: int, last: int) -> Windows:
        read.append(first)
        return reads(connection, first, last)

    monkeypatch.setattr(window_memory, "read_windows", counted)
    text = "SELECT k, count() AS n FROM a[./k->k] WINDOW {} s EVERY {} s GROUP BY k"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        changes: list[Callable[[], object]] = [
            lambda: engine.register(text.format(1, 1), name="one"),
            lambda: engine.register(text.format(1, 1), name="same"),
            lambda: engine.register(text.format(2, 2), name="other"),
            lambda: engine.drop("one"),
            lambda: engine.add_channel("b", of="a"),
        ]
        for number, change in enumerate(changes):
            change()
            for second in range(3):
                ingest(engine, 10 * number + second, ["1"])
            # A query that goes is there in the batch in which it goes.
            assert len(read) <= 2, number
            assert read, number
            read.clear()
        found = [sorted(match.ts // 1_000_000 for match in engine.matches(name)) for name in ("one", "same", "other")]
    assert found == [
        [1, 2, 3, 11, 12, 13, 21],
        [11, 12, 13, 21, 22, 23, 31, 32, 33, 41],
        [22, 24, 32, 34],
    ]


@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_the_last_of_a_group_are_among_the_last_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: tuple[int, ...]
) -> None:
    """However many groups there are, and whenever each was there last, so many matches are kept."""
    monkeypatch.setattr(aggregate_answers, "MAX_LOOKED_BACK", 5)
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        engine.register("SELECT k, count() AS n FROM a[./k->k] WINDOW LAST 3 GROUP BY k", name="w")
        values = ["x", "y", "a", "b", "y", "x", "y", "c", "x", "y"]
        for second, value in enumerate(values):
            engine.ingest([xscl.Event("a", f"e{second}", 10 * second, xml=f"<r><k>{value}</k></r>")])
            if second in cuts:
                engine.run_once()
        engine.heartbeat("a", 1_000_000_000)
        engine.run_once()
        found = [(match.values["k"], match.values["n"]) for match in sorted(engine.matches("w"), key=lambda m: m.ts)]
        assert found == list(zip(values, "1111212122", strict=True))
        (path,) = kept_files(engine)
        assert read_kept(path).size[0] <= 5


def test_windows_of_other_lengths_cost_little_where_no_value_reaches_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[int] = []
    looked: list[int] = []
    by_view, first_at = aggregate_families.Family.by_view, Runs.first_at
    monkeypatch.setattr(
        aggregate_families.Family, "by_view", lambda self, *rest: views.append(0) or by_view(self, *rest)
    )
    monkeypatch.setattr(Runs, "first_at", lambda self, *rest: looked.append(0) or first_at(self, *rest))
    text = "SELECT w, avg(v) AS n FROM R[./w->w][./v->v] WINDOW LAST {} GROUP BY w HAVING avg(v) > {}"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("R", kind="rows", schema="w string, v bigint", lateness="0 s")
        engine.register_many([(f"q{last}", text.format(last, 6 if last == 3 else 100)) for last in range(1, 41)])
        for second, value in enumerate([9, 9, 9, 3, 9, 1, 1, 1, 1]):
            engine.ingest([xscl.Event("R", f"e{second}", second, row={"w": "x", "v": value})])
            engine.run_once()
        assert [match.values["n"] for match in engine.matches("q3")][:5] == ["9", "9", "9", "7", "7"]
        (path,) = kept_files(engine)
        assert read_kept(path).size[0] == 9  # as many as the longest window has
    # Each of nine batches asks one family, and looks at what is kept once.
    assert len(views) <= 9 and len(looked) <= 2 * 9


def test_windows_that_nothing_is_in_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    made = deciding_windows.Windows._of_part

    def counted(self: deciding_windows.Windows, part: int, *rest: Any) -> Any:
        looked.append(part)
        return made(self, part, *rest)

    monkeypatch.setattr(deciding_windows.Windows, "_of_part", counted)
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("R", kind="rows", schema="w string", lateness="0 s")
        for number in range(30):
            engine.register(f"SELECT count() AS n FROM R[./w = 'w{number}'] WINDOW 4 s EVERY 2 s", name=f"q{number}")
        for second, word in enumerate(["w3", "w4", "w3", "x", "x", "w3", *"x" * 8]):
            engine.ingest([xscl.Event("R", f"e{second}", second, row={"w": word})])
            engine.run_once()
        told = {
            name: [(match.ts // 1_000_000, match.values["n"]) for match in engine.matches(name)]
            for name in ("q3", "q4", "q5")
        }
    assert told == {"q3": [(2, "1"), (4, "2"), (6, "2"), (8, "1")], "q4": [(2, "1"), (4, "1")], "q5": []}
    # Each of two words is in windows of a few of the fourteen batches.
    assert len({*looked}) == 2 and len(looked) < 20
