"""A planner that went from range to range while queries came and went plans what a new one plans."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.versioned_files import load_version
from xscl.catalog.channels import read_channels
from xscl.catalog.queries import read_queries
from xscl.planning.planned import Plan
from xscl.planning.planner import Planner
from xscl.registry.channels import add_channel, set_channel
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home
from xscl.xpath.automaton.states import spec_key
from xscl.xpath.row_files import load_matchers
from xscl.xpath.spec_files import SpecChange

PAIR = "S//a->x JOIN {{x = y, {0} h}} T//b->y"
TEXTS = [
    *(PAIR.format(hours) for hours in (1, 2, 3)),
    "S//a[./c]",
    "S//a//d->x",
    "R//n->x FOLLOWED BY {x = y, 2 h} R//n->y",
    "R//n->x FOLLOWED BY {x = y, 9 h} S//n->y",
    "R//m[. > 3]->x JOIN {x = y} L//n->y",
    "L//n->x JOIN {x < y, 2 s} L//n->y",
    "S//a->x JOIN {x = y, 2 s} T//b->y JOIN {y = z, 3 s} L//n->z",
]
SHAPES = ["n string, m double", "n double, m string"]
STEPS = st.one_of(
    st.tuples(st.just("register"), st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=6)),
    st.tuples(st.just("drop"), st.integers(0, 30)),
    st.tuples(st.just("plan"), st.tuples(st.integers(0, 4), st.integers(0, 12))),
    st.tuples(st.just("back"), st.tuples(st.integers(1, 30), st.integers(0, 30))),
    st.tuples(st.just("columns"), st.sampled_from(SHAPES)),
    st.tuples(st.just("close"), st.just(0)),
)


def asked(path: Path) -> set[object]:
    def applied(keys: set[object], change: SpecChange) -> set[object]:
        return (keys - set(map(spec_key, change.removed))) | set(map(spec_key, change.added))

    return load_version(str(path), {}, 1, set, applied)


def told(plan: Plan | None) -> object:
    if plan is None:
        return None
    matchers = load_matchers(str(plan.rows_path))
    assert {name: matcher.asked for name, matcher in matchers.items()} == {
        name: matcher.asked for name, matcher in plan.matchers.items()
    }
    return (
        dict(plan.program.groups),
        {edge.key for edge in plan.program.edges.values()},
        plan.walked,
        plan.answered,
        plan.shapes,
        asked(plan.specs_path),
        {name: matcher.asked for name, matcher in matchers.items() if matcher},
    )


def check(home: Home, steps: list[tuple[str, object]]) -> None:
    registry, planner = Registry(home.catalog), Planner(home.catalog, home.folder("programs"))
    begin = end = 0
    for what, given_ in steps:
        if what == "register":
            registry.register_many([TEXTS[number] for number in given_])  # type: ignore[attr-defined]
        elif what == "drop":
            live = [info.name for info in home.catalog.ask(read_queries)]
            if live:
                registry.drop(live[given_ % len(live)])  # type: ignore[operator]
        elif what == "columns":
            change = set_channel if "L" in home.catalog.ask(read_channels) else add_channel
            change(home.catalog, "L", kind="rows", schema=str(given_))
        elif what == "close":
            planner.close()
        elif what in ("plan", "back"):
            first, more = given_  # type: ignore[misc]
            begin, end = (begin + first, max(end, begin + first) + more) if what == "plan" else (first, first + more)
            fresh = Planner(home.catalog, home.folder("programs"))
            assert told(planner.plan(begin, end)) == told(fresh.plan(begin, end))
            fresh.close()
    planner.close()


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=25))
def test_a_plan_does_not_depend_on_earlier_ones(steps: list[tuple[str, object]]) -> None:
    with TemporaryDirectory() as folder:
        home = init_home(Path(folder) / "home")
        add_channel(home.catalog, "R", kind="rows", schema="n string, m double")
        begin = [("register", range(len(TEXTS))), ("plan", (0, 20))]
        check(home, [*begin, *steps, ("plan", (0, 1)), ("plan", (3, 5))])
        home.catalog.close()
