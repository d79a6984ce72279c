"""What all live queries ask, as data."""

from __future__ import annotations

from pathlib import Path

from local_engine import compiled
from programs import build_program, save_program

from xscl.language.compiled import CompiledQuery
from xscl.templates.bounds import UNBOUNDED, Bounds
from xscl.templates.plans import Edge, InstancePlan, LiveGroup
from xscl.templates.program import Program
from xscl.templates.program_files import load_program

UNGUARDED = 0, 0, 0, 0, 0, 0, 0, 0
"""No streams, no guards and no row windows."""
SECOND = 1_000_000
BOOKS = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 s} S//blog->x4[./author->x5][./title->x6]"
)
SAME = "S//book->a[./title->t][./author->b] FOLLOWED BY {t=u AND b=c, 9 s} S//blog->d[./title->u][./author->c]"
CATEGORIES = BOOKS.replace("title", "category")


def program(*texts: str) -> tuple[Program, list[CompiledQuery]]:
    queries = [compiled(text) for text in texts]
    instances = list(dict.fromkeys(query.group.instance.key for query in queries))
    groups = [
        LiveGroup(gid, instances.index(query.group.instance.key), query.group, 0, 99)
        for gid, query in enumerate(queries)
    ]
    return build_program(groups), queries


def looked_for(built: Program) -> list[InstancePlan]:
    found = [plan for plans in built.by_edge.values() for plan in plans]
    assert all(isinstance(plan, InstancePlan) for plan in found)
    return found  # type: ignore[return-value]


def only_edge(*texts: str) -> Edge:
    (edge,) = program(*texts)[0].edges.values()
    return edge


def test_groups_of_one_instance_share_its_edges() -> None:
    built, _ = program(BOOKS, SAME)
    assert len(built.edges) == 2
    assert {(edge.lo, edge.hi) for edge in built.edges.values()} == {(1, 9 * SECOND)}
    ((number, plan),) = built.instances.items()
    assert list(plan.groups) == [0, 1]
    assert [p.number for p in looked_for(built)] == [number]


def test_instances_share_equal_edges() -> None:
    built, queries = program(BOOKS, CATEGORIES)
    assert queries[0].template == queries[1].template
    assert len(built.edges) == 3
    assert len(built.instances) == 2
    shared = built.instances[0].needs & built.instances[1].needs
    assert len(shared) == 1
    assert all(len(plan.needs) == 2 for plan in built.instances.values())
    assert sorted(p.number for p in looked_for(built)) == [0, 1]
    assert all(edge in plan.needs for edge, found in built.by_edge.items() for plan in found)


def test_windows_of_an_edge_enclose_all_that_use_it() -> None:
    text = "S//a->x {} S//b->y"
    edge = only_edge(text.format("JOIN {x = y, 2 s}"), text.format("FOLLOWED BY {x = y, 5 s..9 s}"))
    assert (edge.lo, edge.hi) == (-2 * SECOND, 9 * SECOND)
    edge = only_edge(text.format("JOIN {x = y, 2 s}"), text.format("FOLLOWED BY {x = y}"))
    assert (edge.lo, edge.hi) == (-2 * SECOND, UNBOUNDED)


def test_windows_of_an_instance_are_a_row_for_each_group_and_case() -> None:
    text = "S//a->x {} S//b->y"
    built, _ = program(text.format("JOIN {x = y, 2 s}"), text.format("FOLLOWED BY {x = y, 5 s..9 s}"), "S//a[./b]")
    found = [list(zip(*built.windows(number), strict=True)) for number in sorted(built.instances)]
    assert found[0] == [
        (0, 1, -2 * SECOND, 2 * SECOND, 0, 0, 99, *UNGUARDED),
        (1, 1, 5 * SECOND, 9 * SECOND, 0, 0, 99, *UNGUARDED),
    ]
    assert found[1] == [(2, 1, -UNBOUNDED, UNBOUNDED, 0, 0, 99, *UNGUARDED)]
    built.change_span(0, 7, 8)
    built.remove(1)
    assert list(zip(*built.windows(0), strict=True)) == [(0, 1, -2 * SECOND, 2 * SECOND, 0, 7, 8, *UNGUARDED)]
    types = [str(column.dtype) for column in built.windows(0)]
    assert types == [
        "int64",
        "int32",
        "int64",
        "int64",
        "int8",
        "int64",
        "int64",
        *["int32"] * 4,
        "int64",
        "int64",
        "int32",
        "int32",
    ]


def test_functions_make_edges_of_their_own() -> None:
    built, _ = program("S//a->x JOIN {x = y} S//b->y", "S//a->x JOIN {lower(x) = lower(y)} S//b->y")
    assert {(edge.key.lfn, edge.key.rfn) for edge in built.edges.values()} == {("", ""), ("lower", "lower")}


def test_one_block() -> None:
    built, (query,) = program("S//a[./b]")
    (edge,) = built.edges.values()
    assert (edge.key.kind, edge.key.lvar, edge.key.lfn) == ("ONE", query.group.instance.variables[0], None)
    assert (edge.lo, edge.hi) == (Bounds().lo, Bounds().hi)


def test_unequal_values_are_checked_on_the_pairs_of_the_equal_ones() -> None:
    built, _ = program("S//a[./b->x][./c->y] JOIN {y != v AND x = u, 1 h} S//d[./b->u][./c->v]")
    equal, unequal = built.edges.values()
    assert (equal.key.kind, unequal.key.kind) == ("EQ", "NE")
    assert built.instances[0].needs == {equal.number, unequal.number}
    assert list(built.by_edge) == [equal.number]


def test_time_alone_finds_pairs_for_unequal_values() -> None:
    built, _ = program("S//a->x JOIN {x != y, 1 h} S//b->y")
    by_time = next(edge for edge in built.edges.values() if edge.key.kind == "EQ")
    unequal = next(edge for edge in built.edges.values() if edge.key.kind == "NE")
    assert (by_time.key.lfn, by_time.key.rfn) == (None, None)
    assert built.instances[0].needs == {by_time.number, unequal.number}


def test_every_constraint_starts_from_something_bound() -> None:
    built, _ = program(BOOKS, CATEGORIES, "S//a//b[./c->x][./@k->y] JOIN {x = u AND y = v, 1 s} S//d[.//e->u]//f->v")
    for plan in built.instances.values():
        bound: set[int] = set()
        for constraint in plan.binding:
            sides = {constraint.left, constraint.right}
            known = {
                "scan": not bound,
                "forward": constraint.left in bound,
                "backward": constraint.right in bound,
                "check": sides <= bound,
            }
            assert known[constraint.way]
            bound |= sides
        assert bound == set(range(plan.width))


def test_programs_are_written_and_read(tmp_path: Path) -> None:
    built, _ = program(BOOKS, CATEGORIES)
    path = save_program(built, tmp_path)
    assert load_program(str(path)).instances == built.instances


def test_no_queries() -> None:
    assert build_program([]).edges == {}


# -- many blocks ---------------------------------------------------------------------------------------------------

CHAIN = "S//a->x JOIN {x = y, 2 s} T//b->y JOIN {y = z, 3 s} U//c->z"


def test_queries_share_links_and_their_windows_are_enclosed() -> None:
    other = "S//a->x FOLLOWED BY {x = y, 5 s} T//b->y FOLLOWED BY {y = w, 1 s} V//d->w"
    built, _ = program(CHAIN, other)
    assert not built.instances
    first, second = (built.assemblies[number].links for number in sorted(built.assemblies))
    assert {link.key for link in first} & {link.key for link in second} == {first[0].key}
    assert first[0].key == second[0].key
    assert len(built.links) == 3
    shared = built.links[first[0].key].bounds
    # Either of x and y may be the latest in one, and in the other x is first.
    assert (shared.lo, shared.hi) == (-2 * SECOND, 5 * SECOND)
    assert sorted(built.starts[first[0].key]) == [(0, 0), (1, 0)]
    assert len(built.edges) == 3
    found = [plan for plans in built.by_edge.values() for plan in plans]
    assert sorted(plan.key for plan in found) == sorted(built.links)  # type: ignore[union-attr]


def test_links_and_queries_of_two_blocks_share_edges() -> None:
    built, _ = program(CHAIN, "S//a->x JOIN {x = y, 9 s} T//b->y")
    assert len(built.edges) == 2
    (edge,) = [edge for edge in built.edges.values() if (edge.lo, edge.hi) == (-9 * SECOND, 9 * SECOND)]
    assert len(built.by_edge[edge.number]) == 2


def test_links_bind_their_own_places() -> None:
    texts = [CHAIN, "S//r[./a->x][./b->p] JOIN {x = y AND p != q} T//r[./b->y][./c->q] JOIN {q = z} U//c->z"]
    built, _ = program(*texts)
    for assembly in built.assemblies.values():
        for link in assembly.links:
            plan = built.links[link.key]
            assert plan.width == len(link.places)
            ends = {end for constraint in plan.binding for end in (constraint.left, constraint.right)}
            assert ends == set(range(plan.width))
            assert plan.binding[0].way == "scan"


def test_rounds_are_those_of_the_most_links() -> None:
    assert program("S//a->x JOIN {x = y} S//b->y")[0].rounds == 0
    assert program(CHAIN)[0].rounds == 1
    assert program(CHAIN, CHAIN.replace("y = z", "y = z AND x = z"))[0].rounds == 2


def test_every_step_starts_from_a_document_that_is_there() -> None:
    texts = [
        CHAIN,
        CHAIN.replace("y = z", "y = z AND x = z"),
        CHAIN + " JOIN {z = w, 1 s} V//d->w JOIN {x = v, 1 s} W//e->v",
        "S//a->x FOLLOWED BY {1 s} T//b->y FOLLOWED BY {x = z, 9 s} U//c->z FOLLOWED BY {y = w} V//d->w",
    ]
    built, _ = program(*texts)
    assert len(built.assemblies) == 4
    for assembly in built.assemblies.values():
        for start, steps in enumerate(assembly.steps):
            assert sorted([start, *(step.use for step in steps)]) == list(range(len(assembly.links)))
            bound = set(assembly.links[start].blocks)
            for step in steps:
                blocks = assembly.links[step.use].blocks
                assert blocks[step.known] in bound
                bound |= set(blocks)
            assert bound == set(range(assembly.blocks))


def test_what_only_tests_comes_first_and_time_last() -> None:
    built, _ = program("S//a->x JOIN {x = y, 9 s} T//b->y JOIN {x = z AND y = z, 9 s} U//c->z JOIN {1 s} V//d->w")
    # The last block is near the latest of the others, which is another one in each case.
    last = {pair for assembly in built.assemblies.values() for pair in assembly.pairs if 3 in pair}
    assert last == {(0, 3), (1, 3), (2, 3)}
    for assembly in built.assemblies.values():
        names = [link.blocks for link in assembly.links]
        by_time = next(place for place, link in enumerate(assembly.links) if link.anchor is not None)
        start = names.index((0, 1))
        assert [step.use for step in assembly.steps[start]][-1] == by_time
        assert len(assembly.steps[start]) == 3
