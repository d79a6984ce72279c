"""Windows of matches: the engine tells what the oracle does, however batches are cut, and who comes when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from budget import examples
from oracle.absence import Asked, Intake
from oracle.aggregates import Told, told
from oracle.evaluate import Doc
from played_homes import PlayedHome

import xscl
from xscl.answers.status import batch_rows
from xscl.batches.windows import buckets as aggregate_buckets
from xscl.batches.windows import stores as aggregate_stores
from xscl.batches.windows.buckets import together
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Row = tuple[int, tuple[tuple[str, str], ...]]

SOURCES = (
    "A->x[./k->k][./v->v]",
    "A->x[./k->k][./v->v]",
    "A->x[./k->k][./v->v][./v > 1]",
    "A->x[./k->k][./v->v][./v < 3]",
    "A->x[./k->k][./v->v][./k = 'a']",
    "A->x[./k->k] FOLLOWED BY {k = l, 4} B->y[./k->l][./v->v]",
    "A->x[./k->k] JOIN {3} B->y[./v->v]",
)
ENDS = (
    "WINDOW {a} s EVERY {b} s{group}{having}",
    "WINDOW {a} s EVERY {b} s{group}{having}",
    "WINDOW {a} s EVERY {b} s{group} TOP {n} BY {value}",
    "WINDOW {w} s{group}{having}",
    "WINDOW {w} s{group} HAVING {atom} ON CROSSING",
    "WINDOW {w} s{group}{having} ONCE PER {c} s",
    "WINDOW LAST {n}{group}{having}",
    "WINDOW LAST {n} PER {per}{group}{having}",
    "WINDOW LAST {n} PER {per}{group} HAVING {atom} ON CROSSING",
)
VALUES = (
    "count()",
    "count(v)",
    "count(DISTINCT v)",
    "count(DISTINCT lower(k))",
    "sum(v)",
    "avg(2 * v + 1)",
    "min(v)",
    "max(v)",
    "first(v)",
    "last(lower(k))",
)
AB = ("'a'", "'b'", "'A'")
GROUPS = ("", " GROUP BY k", " GROUP BY lower(k)", " GROUP BY k, v")


def text_of(
    choose: random.Random, sources: Sequence[str] = SOURCES, groups: Sequence[str] = GROUPS, ends: Sequence[str] = ENDS
) -> str:
    """A random query."""
    values = choose.sample(VALUES, choose.choice([1, 2, 3]))
    group = choose.choice(groups)
    grouped = [each for each in group.removeprefix(" GROUP BY ").split(", ") if each]
    items = [*grouped, *values]
    op = choose.choice(["=", "!="] if choose.random() < 0.3 else [">=", ">", "<"])
    number = choose.choice("1234")
    atom = choose.choice(
        (
            f"{values[0]} {op} {number}",
            f"count() {op} {number}",
            f"{choose.choice(['count()', 'max(v)', 'sum(v)'])} {op} {number} * {choose.choice(['avg(v)', 'min(v)'])}",
            f"max(v) {op} min(v) + {number}",
            f"last(lower(k)) {choose.choice(['=', '!='])} {choose.choice(AB)}",
            f"first(k) = {choose.choice(AB)}",
        )
    )
    end = choose.choice(ends).format(
        a=(b := choose.choice([1, 2, 3, 5])) + choose.choice([0, 0, 1, 4]),
        b=b,
        w=choose.choice([0, 1, 3, 6]),
        c=choose.choice([0, 2, 5]),
        n=choose.choice([1, 2, 3]),
        per=choose.choice(["k", "v", "lower(k)", "k, v"]),
        group=group,
        having=choose.choice(["", f" HAVING {atom}", f" HAVING {atom}"]),
        atom=atom,
        value=values[0],
    )
    select = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items))
    return f"SELECT {select} FROM {choose.choice(sources)} {end}"


class Home(PlayedHome):
    """A home with windows over documents of two channels."""

    chance_of_another, chance_of_a_drop, most_queries = 0.08, 0.02, 5

    def some_texts(self) -> list[str]:
        return [text_of(self.choose) for _ in range(2)]

    def channel(self) -> str:
        return self.choose.choice("AAB")

    def document(self, channel: str, id_: str, ts: int) -> Doc:
        choose = self.choose
        keys = "".join(f"<k>{choose.choice('aAbB')}</k>" for _ in range(choose.choice([1, 1, 1, 2])))
        value = choose.choice(["1", "2", "2.5", "-0.1", "x", "3"])
        return Doc(channel, id_, ts, f"<e>{keys}<v>{value}</v></e>")

    def compared(self, name: str, asked: Asked, intake: Intake) -> int:
        expected = Counter(_row(each) for each in told(asked, intake))
        listed = [(match.ts, tuple(match.values.items())) for match in self.engine.matches(name)]
        assert Counter(listed) == expected, (name, format_query(asked.query))
        self.compare_current(name, asked, expected, intake)
        return len(listed)

    def compare_current(self, name: str, asked: Asked, told_: Counter[_Row], intake: Intake) -> None:
        """Compare the newest answers of groups, and of windows with EVERY the answers of the last one."""
        aggregate = asked.query.aggregate
        assert aggregate is not None
        listed = [(match.ts, tuple(match.values.items())) for match in self.engine.matches(name, current=True)]
        if aggregate.every is not None and aggregate.window is not None:
            last = max((ts for ts, _ in told_), default=0)
            if asked.until > self.place:
                settled = min(intake.settled(block.channel, self.place) for block in ast.blocks(asked.query.source))
                last = (settled - aggregate.window) // aggregate.every * aggregate.every + aggregate.window
            assert Counter(listed) == Counter({row: n for row, n in told_.items() if row[0] == last})
            return
        of = [(tuple(value for _, value in values[: len(aggregate.group)]), (ts, values)) for ts, values in told_]
        newest = {group: max(row[0] for other, row in of if other == group) for group, _ in of}
        assert len(listed) == len(newest)
        # Of answers of one time, any may be the last.
        assert all((group, row) in of and row[0] == newest[group] for group, row in of if row in listed)
        assert {group for group, row in of if row in listed} == newest.keys()


def _row(each: Told) -> _Row:
    return each.ts, each.values


class OneGrouping(Home):
    """A home whose queries differ in lengths, steps, conditions and TOP of windows over the same groups."""

    most_queries = 8

    def some_texts(self) -> list[str]:
        source, group = self.choose.choice(SOURCES), self.choose.choice(GROUPS)
        return [text_of(self.choose, [source], [group], [*ENDS[:3], *ENDS[:3], ENDS[3]]) for _ in range(4)]


def play(folder: Path, seed: int, home: type[Home] = Home) -> int:
    """Play one random stream; return the number of answers."""
    return home(folder, random.Random(seed)).play()


def test_windows_over_buckets_are_what_the_oracle_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # All windows that may read buckets do, however few matches there are, and buckets are as long as windows allow.
    for name, figure in (("LEAST_ROWS", 0), ("FEWER", 0), ("OLDER", 0), ("PER_WINDOW", 1)):
        monkeypatch.setattr(aggregate_buckets, name, figure)
    made: list[int] = []
    monkeypatch.setattr(aggregate_stores, "together", lambda *of: (made.append(len(of[1])), together(*of))[1])
    found = [play(tmp_path / str(seed), 3_000 + seed, OneGrouping) for seed in range(examples(9))]
    assert any(found) and any(made)


class Changed(Home):
    """The same while channels get other latenesses."""

    chance_of_a_change = 0.12


def test_windows_over_channels_that_change_are_what_the_oracle_says(tmp_path: Path) -> None:
    found = [play(tmp_path / str(seed), 5_000 + seed, Changed) for seed in range(examples(8))]
    assert any(found)


@pytest.mark.parametrize("part", range(2))
def test_windows_are_what_the_oracle_says(tmp_path: Path, part: int) -> None:
    found = [play(tmp_path / str(seed), 1_000 * part + seed) for seed in range(examples(9))]
    assert any(found)


def test_tasks_answer_as_the_driver_does(tmp_path: Path, spark: SparkSession) -> None:
    home = Home(tmp_path / "home", random.Random(40), spark)
    assert home.play(items=14) > 0
    with xscl.connect(home=tmp_path / "home") as engine:
        assert "spark" in {report["joined_in"] for report in batch_rows(engine.home.catalog)}
