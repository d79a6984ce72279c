"""A program to which groups were added, and from which they were removed, is the program of those that are left."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_engine import compiled
from programs import build_program

from xscl.templates import program_files as programs_of_process
from xscl.templates.bounds import Bounds
from xscl.templates.plans import Constraint, GroupChange, InstancePlan, LinkPlan, LiveGroup
from xscl.templates.program import Program
from xscl.templates.program_files import ProgramFiles, load_program

PAIR = "S//a->x JOIN {{x = y, {0} s}} S//b->y"
TEXTS = [
    *(PAIR.format(seconds) for seconds in (1, 7, 400)),
    "S//a->x FOLLOWED BY {x = y} S//b->y",
    "S//a[./b->x][./c->y] JOIN {x = u AND y != v, 5 s} S//d[./b->u][./c->v]",
    "S//a[./b->x][./c->y] JOIN {x = u, 9 s} S//d[./b->u][./c->v]",
    "S//a/b->x JOIN {x != u, 2 s} S//d/b->u",
    "S//a/b->x JOIN {x < u, 3 s} S//d/b->u",
    "S//a[./b]",
    "S//a//c->x",
    "S//a->x JOIN {x = y, 2 s} S//b->y JOIN {y = z, 3 s} U//c->z",
    "S//a->x JOIN {x = y, 1 h} S//b->y JOIN {y = z, 3 s} U//c->z",
    "S//a->x FOLLOWED BY {x = y, 5 s} S//b->y FOLLOWED BY {y = w, 1 s} V//d->w",
    "S//a->x JOIN {x = y, 9 s} S//a->y JOIN {y = z, 9 s} S//a->z",
    "S//a->x JOIN {x = y, 9 s} T//b->y JOIN {x = z AND y = z, 9 s} U//c->z JOIN {1 s} V//d->w",
    "S//a->x JOIN {x = y, 4 s} T//b->y JOIN {x = z AND y = z, 9 s} U//c->z JOIN {7 s} V//d->w",
]


@lru_cache(maxsize=1)
def pool() -> list[LiveGroup]:
    queries = [compiled(text) for text in TEXTS]
    numbers = {key: number for number, key in enumerate({query.group.instance.key: None for query in queries})}
    return [
        LiveGroup(gid, numbers[query.group.instance.key], query.group, 10 * gid, 10 * gid + 5)
        for gid, query in enumerate(queries)
    ]


def told(program: Program) -> dict[str, object]:
    """What a program says, with keys in place of numbers, and without what encloses windows."""
    key = {number: edge.key for number, edge in program.edges.items()}
    assert all(number == edge.number for number, edge in program.edges.items())

    def named(constraints: tuple[Constraint, ...]) -> list[object]:
        return [
            (c.left, c.right, c.way, key[c.relation[0]] if len(c.relation) == 1 else c.relation) for c in constraints
        ]

    def name(plan: InstancePlan | LinkPlan) -> tuple[str, int]:
        return ("link", plan.key) if isinstance(plan, LinkPlan) else ("instance", plan.number)

    for plans in program.by_edge.values():
        for plan in plans:
            of_kind = program.links if isinstance(plan, LinkPlan) else program.instances
            assert of_kind[name(plan)[1]] is plan  # type: ignore[index]
    ways = {number: (assembly.instance, assembly.pairs) for number, assembly in program.assemblies.items()}
    return {
        "edges": {edge.key for edge in program.edges.values()},
        "instances": {
            number: (
                plan.width,
                named(plan.binding),
                named(plan.output),
                plan.results,
                key[plan.found_by],
                {key[edge] for edge in plan.needs},
                plan.groups,
                Counter(zip(*(column.tolist() for column in program.windows(number)), strict=True)),
            )
            for number, plan in program.instances.items()
        },
        "links": {
            number: (plan.width, named(plan.binding), key[plan.found_by], {key[edge] for edge in plan.needs})
            for number, plan in program.links.items()
        },
        "assemblies": {
            ways[number]: (
                assembly.blocks,
                assembly.nodes,
                assembly.width,
                assembly.links,
                assembly.steps,
                assembly.results,
                assembly.groups,
            )
            for number, assembly in program.assemblies.items()
        },
        "by_edge": {key[edge]: Counter(map(name, plans)) for edge, plans in program.by_edge.items()},
        "starts": {
            link: Counter((ways[number], place) for number, place in starts) for link, starts in program.starts.items()
        },
        "rounds": program.rounds,
        "groups": program.groups,
    }


def envelopes(program: Program) -> dict[object, list[Bounds]]:
    ways = {number: (assembly.instance, assembly.pairs) for number, assembly in program.assemblies.items()}
    return {
        **{edge.key: [Bounds(edge.lo, edge.hi)] for edge in program.edges.values()},
        **{key: [plan.bounds] for key, plan in program.links.items()},
        **{ways[number]: list(assembly.bounds) for number, assembly in program.assemblies.items()},
    }


@settings(deadline=None)
@given(st.permutations(range(len(TEXTS))), st.integers(0, len(TEXTS)))
def test_the_order_of_adding_does_not_matter(order: list[int], count: int) -> None:
    some = [pool()[number] for number in order[:count]]
    one, other = build_program(some), build_program(sorted(some, key=lambda live: live.gid))
    assert told(one) == told(other)
    assert envelopes(one) == envelopes(other)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["change", "look", "span"]), st.integers(0, len(TEXTS) - 1)), max_size=60))
def test_what_is_left_is_as_if_nothing_else_had_been_there(steps: list[tuple[str, int]]) -> None:
    program, live, names = Program(), {}, {}
    for step, (what, number) in enumerate(steps):
        before = program.version
        group = pool()[number]
        if what == "look":
            if group.iid in program.instances:
                program.windows(group.iid)
            continue
        if what == "change" and number not in live:
            live[number] = group
            program.add(group)
        elif what == "change":
            del live[number]
            program.remove(number)
        elif number in live:
            live[number] = LiveGroup(number, group.iid, group.group, step, step + 100)
            program.change_span(number, step, step + 100)
        else:
            continue
        assert program.version > before
        for edge in program.edges.values():
            assert names.setdefault(edge.number, edge.key) == edge.key
    fresh = build_program(live.values())
    assert told(program) == told(fresh) == told(pickle.loads(pickle.dumps(program)))
    wide = envelopes(program)
    for key, tight in envelopes(fresh).items():
        assert [bounds | other for bounds, other in zip(tight, wide[key], strict=True)] == wide[key]


def test_structure_stays_when_only_groups_change() -> None:
    program = build_program(pool())
    structure, version = program.structure, program.version
    program.remove(0)
    program.add(pool()[0])
    program.change_span(1, 3, 4)
    assert program.structure == structure
    assert program.version == version + 3
    program.remove(8)
    assert program.structure > structure


def test_nothing_is_left_of_groups_that_are_gone() -> None:
    program = build_program(pool())
    for live in pool():
        program.remove(live.gid)
    empty = {**vars(Program()), "version": program.version, "structure": program.structure}
    numbers = {"_next_edge", "_next_assembly", "guards", "ordinals"}
    assert not program.ordinals.windows
    assert {name: value for name, value in vars(program).items() if name not in numbers} == {
        name: value for name, value in empty.items() if name not in numbers
    }
    left = {name: value for name, value in vars(program.guards).items() if name.startswith("_") and name != "_next"}
    assert not any(left.values()), left


def test_a_group_is_added_once() -> None:
    program = build_program(pool())
    with pytest.raises(AssertionError, match="there already"):
        program.add(pool()[3])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, len(TEXTS) - 1), max_size=4), st.booleans()), min_size=2, max_size=25))
def test_processes_read_changes_and_have_the_same_numbers(steps: list[tuple[set[int], bool]]) -> None:
    kept: dict[str, Program] = {}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        program = Program()
        files = ProgramFiles(program)
        files.change(GroupChange(added=tuple(pool()[:8])))
        for step, (numbers, written) in enumerate([(set(), True), *steps, (set(), True)]):
            there = {number for number in numbers if number in program.groups}
            spans = tuple(
                (gid, step, step + 50, -1) for gid in program.groups if gid % 7 == step % 7 and gid not in there
            )
            added = tuple(pool()[number] for number in sorted(numbers - there))
            files.change(GroupChange(tuple(sorted(there)), added, spans))
            if written:
                path = str(files.written(Path(folder)))
                # One process goes from version to version, others begin with this one.
                for programs in (kept, {}):
                    patch.setattr(programs_of_process, "_programs", programs)
                    loaded = load_program(path)
                    assert told(loaded) == told(program)
                    assert loaded.edges == program.edges
                    assert loaded.assemblies == program.assemblies
                assert str(files.written(Path(folder))) == path
