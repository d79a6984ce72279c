"""Windows of matches: the engine tells what the oracle does, however batches are cut, and who comes when."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from budget import examples
from oracle.absence import Asked, Intake
from oracle.aggregates import Told, told
from oracle.evaluate import Doc
from played_homes import PlayedHome

from xscl.language import ast
from xscl.language.format import format_query

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
GROUPS = ("", " GROUP BY k", " GROUP BY lower(k)", " GROUP BY k, v")


def text_of(choose: random.Random) -> str:
    """A random query."""
    values = choose.sample(VALUES, choose.choice([1, 2, 3]))
    group = choose.choice(GROUPS)
    grouped = [each for each in group.removeprefix(" GROUP BY ").split(", ") if each]
    items = [*grouped, *values]
    atom = (
        f"{choose.choice([values[0], 'count()'])} {choose.choice(['>=', '>', '<', '!=', '='])} {choose.choice('1234')}"
    )
    end = choose.choice(ENDS).format(
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
    return f"SELECT {select} FROM {choose.choice(SOURCES)} {end}"


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


def play(folder: Path, seed: int) -> int:
    """Play one random stream; return the number of answers."""
    return Home(folder, random.Random(seed)).play()


@pytest.mark.parametrize("part", range(2))
def test_windows_are_what_the_oracle_says(tmp_path: Path, part: int) -> None:
    found = [play(tmp_path / str(seed), 1_000 * part + seed) for seed in range(examples(6))]
    assert any(found)
