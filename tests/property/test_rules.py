"""Rules of sharing change what queries cost, and no answer."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from budget import examples

import xscl
from xscl import Engine
from xscl.base.settings import Settings

LEFT_OUT = ("all", "s", "none", "c", "s_σ,c_α", "s_σ,s_α,s_⋈,c_⋈", "s_;,s_μ,s_∖,c_;,c_μ")
SHAPES = (
    "R->x[./v < N][./k->a] FOLLOWED BY {a = b, W s} R->y[./v > N][./k->b]",
    "R->x[./k->a][./v->c] JOIN {a = b AND c != d, W s} S->y[./k->b][./v->d]",
    "R->x[./v >= N]",
    "SELECT a, count() AS n, max(c) AS m FROM R[./v < N][./k->a][./v->c] WINDOW W s EVERY 2 s GROUP BY a",
    "SELECT a, last(c) AS m FROM R[./v > N][./k->a][./v->c] WINDOW LAST W GROUP BY a",
    "SELECT a, avg(c) AS m FROM R[./k->a][./v->c] WINDOW W s GROUP BY a HAVING avg(c) > N PUBLISH means",
    "means->x[.//a->a] FOLLOWED BY {a = b, W s} S->y[./k->b]",
    "R->x[./k->a][./v > N] NEXT {a = b} S->y[./k->b] FILTER {DUR <= W s}",
    "SELECT a, c, d FROM R[./k->a][./v->c][./v < N] FOLD {a = b WHILE d > last(d, c)} R[./k->b][./v->d] FILTER {d > N}",
    "R->x[./k->a][./v > N] NOT FOLLOWED BY {a = b, W s} S->y[./k->b]",
)
Row = tuple[str, int, tuple[tuple[str, int], ...], str]


def texts(choose: random.Random) -> list[str]:
    """Queries of few shapes, which differ in constants and windows or are equal."""
    shapes = choose.sample(SHAPES, 4)

    def number(found: re.Match[str]) -> str:
        return str(choose.choice([2, 4, 7] if found[0] == "N" else [2, 4, 6]))

    return [re.sub(r"\b[NW]\b", number, choose.choice(shapes)) for _ in range(10)]


def answers(engine: Engine) -> list[Row]:
    # Documents that windows make have ids of their own in each group.
    return sorted(
        (
            match.query,
            match.ts,
            tuple((event.channel, event.ts) for event in match.events),
            match.document,
        )
        for match in engine.matches()
    )


def played(folder: Path, rules: str, seed: int) -> list[Row]:
    choose = random.Random(seed)
    with xscl.connect(home=folder, settings=Settings(where="driver", rules=rules)) as engine:
        for name in ("R", "S"):
            engine.add_channel(name, kind="rows", schema="k string, v double", lateness="0 s")
        for number, text in enumerate(texts(choose)):
            engine.register(text, name=f"q{number}")
        ts = 0
        for batch in range(3):
            events = []
            for number in range(choose.randrange(5, 16)):
                ts += choose.choice([0, 1, 1, 2])
                row = {"k": choose.choice("ab"), "v": float(choose.randrange(10))}
                events.append(xscl.Event(choose.choice("RRS"), f"{batch}-{number}", ts, row=row))
            engine.ingest(events)
            engine.run_once()
        return answers(engine)


@pytest.mark.parametrize("seed", range(examples(6)))
def test_answers_do_not_depend_on_rules(tmp_path: Path, seed: int) -> None:
    found = {rules: played(tmp_path / str(place), rules, seed) for place, rules in enumerate(LEFT_OUT)}
    assert len(found["all"]) > 5
    for rules, rows in found.items():
        assert rows == found["all"], rules


def test_rules_that_are_left_out_set_queries_apart(tmp_path: Path) -> None:
    text = "R->x[./v < {}][./k->a] FOLLOWED BY {{a = b, {} s}} R->y[./v > 4][./k->b]"
    sizes = {}
    for rules in ("none", "s", "all"):
        with xscl.connect(home=tmp_path / rules, settings=Settings(rules=rules)) as engine:
            engine.add_channel("R", kind="rows", schema="k string, v double")
            for window in (2, 2, 3):
                engine.register(text.format(2, window))
            engine.register(text.format(3, 2))
            with engine.home.catalog.read() as connection:
                from xscl.catalog.tables import GROUPS, INSTANCES

                groups = len(connection.execute(GROUPS.select()).all())
                instances = len(connection.execute(INSTANCES.select()).all())
            joins = sum(each.kind == "join" for each in engine.plan().mops)
            sizes[rules] = groups, instances, joins
    # Instances are the joins that run: the plan shows as many.
    assert sizes == {"none": (4, 4, 4), "s": (3, 2, 2), "all": (3, 1, 1)}
