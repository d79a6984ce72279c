"""How long rows are kept: reach by block variable and channel, floors, and what changes with the queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from budget import examples
from local_engine import compiled
from programs import build_program
from strategies import Dice, many_block_query

from xscl.base.errors import QueryError
from xscl.language.compiled import CompiledQuery
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.plans import LiveGroup
from xscl.templates.program import Program
from xscl.templates.retention import EVER, Floors, ReachBuilder, floors

S = 1_000_000
LIVE = 1 << 62


def live(query: CompiledQuery, gid: int = 0, last: int = LIVE, iid: int | None = None) -> LiveGroup:
    return LiveGroup(gid, gid if iid is None else iid, query.group, 0, last, query.channels)


def program_of(*texts: str) -> tuple[Program, list[CompiledQuery]]:
    queries = [compiled(text) for text in texts]
    keys = [query.group.instance.key for query in queries]
    return build_program(live(q, n, iid=keys.index(q.group.instance.key)) for n, q in enumerate(queries)), queries


def reach(table: pa.Table, link: bool = False) -> dict[tuple[int, str], tuple[int, int]]:
    rows = table.to_pylist()
    found = {(row["key"], row["channel"]): (row["left"], row["right"]) for row in rows if row["link"] is link}
    assert len(found) == sum(row["link"] is link for row in rows), "one row for each key and channel"
    return found


def of_block(query: CompiledQuery, block: int) -> set[int]:
    return {node.var for node in query.group.instance.nodes if node.block == block}


def test_the_reach_is_how_much_later_a_partner_may_be() -> None:
    program, (query,) = program_of("S//a->x FOLLOWED BY {x = y, 1 s..5 s} T//b->y")
    found = reach(ReachBuilder().table(program, 0))
    (x,), (y,) = of_block(query, 0), of_block(query, 1)
    assert found == {(x, "T"): (5 * S, 5 * S), (y, "S"): (-S, -S)}
    program, (query,) = program_of("S//a->x JOIN {x = y, 2 s} T//b->y")
    assert set(reach(ReachBuilder().table(program, 0)).values()) == {(2 * S, 2 * S)}
    program, (query,) = program_of("S//a->x FOLLOWED BY {x = y} T//b->y")
    assert set(reach(ReachBuilder().table(program, 0)).values()) == {(UNBOUNDED, UNBOUNDED), (-1, -1)}


def test_variables_share_the_reach_of_their_block_variable() -> None:
    """Both titles hang on S//r, whose longest window is 9 s; the other root has conditions of its own."""
    program, queries = program_of(
        "S//r[./t->x] FOLLOWED BY {x = y, 1 s} T//b->y",
        "S//r[./u->x] FOLLOWED BY {x = y, 9 s} T//b->y",
        "S//r[./k = '1'][./t->x] FOLLOWED BY {x = y, 2 s} T//b->y",
    )
    found = reach(ReachBuilder().table(program, 0))
    short, long, guarded = (max(found[var, "T"][0] for var in of_block(query, 0)) for query in queries)
    assert (short, long, guarded) == (9 * S, 9 * S, 2 * S)


@pytest.mark.parametrize("marks", [{}, {"S": None}, {"S": 7}])
def test_a_query_of_one_block_keeps_nothing(marks: dict[str, int | None]) -> None:
    program, (query, _) = program_of("S//a", "S//b->x JOIN {x = y, 1 h} S//c->y")
    rule = floors(ReachBuilder().table(program, 0), marks)
    (var,) = of_block(query, 0)
    assert rule.keep(np.array([var]), np.array([1 << 50])).tolist() == [False]


def test_what_a_query_of_one_block_shares_with_a_join_is_kept_for_it() -> None:
    program, (_, query) = program_of("S//a", "S//a->x JOIN {x = y, 10 s} T//b->y")
    rule = floors(ReachBuilder().table(program, 0), {"S": 0, "T": 100 * S})
    (var,) = of_block(query, 0)
    assert rule.keep(np.array([var, var]), np.array([89 * S, 90 * S])).tolist() == [False, True]


def test_floors_are_those_of_the_channel_that_waits_longest() -> None:
    program, (query,) = program_of("S//a->x JOIN {x = y, 10 s} T//b->y JOIN {y = z, z - x IN [0 s, 3 s]} U//c->z")
    table = ReachBuilder().table(program, 0)
    (x,) = of_block(query, 0)

    def floor(marks: Mapping[str, int | None]) -> int:
        rule = floors(table, marks)
        return int(rule.least[np.searchsorted(rule.variables, x)])

    assert floor({"T": 100 * S, "U": 100 * S}) == 90 * S
    assert floor({"T": 100 * S, "U": 50 * S}) == 47 * S, "U is behind"
    assert floor({"T": 100 * S}) == floor({"T": 100 * S, "U": None}) == EVER, "U may bring anything"
    kept = floors(table, {"T": 100 * S, "U": 100 * S}).keep(np.full(2, x), np.array([90 * S, 90 * S - 1]))
    assert kept.tolist() == [True, False]


def test_rows_of_links_wait_for_the_third_document() -> None:
    program, _ = program_of("S//a->x FOLLOWED BY {x = y, 4 s} T//b->y FOLLOWED BY {y = z, 5 s} U//c->z")
    found = reach(ReachBuilder().table(program, 0), link=True)
    between = {channel: both for (_, channel), both in found.items()}
    # U comes up to 9 s after S and up to 5 s after T; S came before both others.
    assert between == {"U": (9 * S, 5 * S), "S": (-1, -2)}


def test_queries_that_end_and_windows_that_grow() -> None:
    short, longer = (compiled(f"S//a->x FOLLOWED BY {{x = y, {n} s}} T//b->y") for n in (2, 30))
    program, builder = build_program([live(short, 1, iid=0)]), ReachBuilder()
    (x,) = of_block(short, 0)

    def now(last: int) -> int | None:
        both = reach(builder.table(program, last)).get((x, "T"))
        return None if both is None else both[0]

    assert now(5) == 2 * S
    program.add(live(longer, 2, iid=0))
    assert now(6) == 30 * S
    program.change_span(2, 0, 9)
    assert (now(8), now(9)) == (30 * S, 2 * S), "the query sees nothing after the place 9"
    program.remove(2)
    assert now(10) == 2 * S
    program.remove(1)
    assert now(11) is None
    assert len(floors(builder.table(program, 12), {}).variables) == 0


@pytest.mark.parametrize("seed", range(examples(2)))
def test_what_is_brought_up_to_date_is_what_is_made_anew(seed: int) -> None:
    choose = Dice(seed)
    queries: list[CompiledQuery] = []
    while len(queries) < 12:
        try:
            queries.append(compiled(many_block_query(choose)))
        except QueryError as error:
            assert error.condition == "XSCL_UNSATISFIABLE_WINDOW"
    keys = sorted({query.group.instance.key for query in queries})
    program, builder = Program(), ReachBuilder()
    for step in range(60):
        gid = choose.count(0, len(queries) - 1)
        if gid in program.groups:
            program.remove(gid) if choose.chance(70) else program.change_span(gid, 0, step + choose.count(0, 9))
        else:
            query = queries[gid]
            program.add(live(query, gid, LIVE, iid=keys.index(query.group.instance.key)))
        table = builder.table(program, step)
        assert reach(table) == reach(ReachBuilder().table(program, step)), step
        assert reach(table, link=True) == reach(ReachBuilder().table(program, step), link=True), step


def rule_of(rows: Sequence[tuple[int, int, int]]) -> Floors:
    none = np.empty(0, np.int64)
    links, left, right = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Floors(none, none, links, left, right)


def test_a_row_of_a_link_is_kept_for_any_channel() -> None:
    rule = rule_of([(3, 10, 0), (3, 0, 10), (5, 7, 7)])
    rows = [(3, 10, 0), (3, 0, 10), (3, 9, 9), (5, 7, 7), (5, 7, 6), (4, 99, 99), (9, 99, 99)]
    kept = rule.keep_links(*(np.array(column) for column in zip(*rows, strict=True)))
    assert kept.tolist() == [True, True, False, True, False, False, False]
    assert rule.keep(np.array([1]), np.array([1])).tolist() == [False]
