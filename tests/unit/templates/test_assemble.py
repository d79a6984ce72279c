"""Rows of links put together: every combination once, whenever its rows arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path

import pyarrow as pa
import pytest
from budget import examples
from local_engine import LocalEngine, _met, _met_schema, compiled
from strategies import Dice

from xscl.templates.assembly_tasks import ASSEMBLED_SCHEMA, assembled_batches, extend_batches, start_batches
from xscl.templates.plans import Assembly
from xscl.templates.program import Program
from xscl.templates.program_files import load_program
from xscl.templates.results import origin_of

SECOND = 1_000_000
CHAIN = "S//a->x JOIN {x = y, 9 s} T//b->y JOIN {y = z, 9 s} U//c->z"
SHAPES = (
    CHAIN,
    "S//a->x JOIN {x = y, 9 s} T//b->y JOIN {x = z, 9 s} U//c->z",
    "S//a->x JOIN {x = y, 9 s} T//b->y JOIN {x = z AND y = z, 9 s} U//c->z",
    "S//r[./a->x][./b->p] JOIN {x = y, 9 s} T//b->y JOIN {p = z, 9 s} U//c->z",
    "S//a->x JOIN {x = y, 9 s} S//a->y JOIN {y = z, 9 s} S//a->z",
    "S//a->x JOIN {x = y, 2 s} T//b->y FOLLOWED BY {3 s} U//c->z",
    "S//a->x JOIN {x = y} T//b->y JOIN {y = z, MAXWINDOW 3 s} U//c->z JOIN {z = w AND x = w} V//d->w",
    "SELECT o FROM S//r[./a->x][./b->p][.//o->o] JOIN {x = y} T//b->y JOIN {p = z} U//c->z JOIN {p = w} V//d->w",
    "S//a->x FOLLOWED BY {x = y, 4 s} S//a->y FOLLOWED BY {y = z, 4 s} S//a->z FOLLOWED BY {z = w, 4 s} S//a->w",
)
Row = dict[str, object]
Binding = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Instance, documents by block, nodes by place."""


def program_of(folder: Path, *texts: str) -> tuple[str, Program]:
    path = LocalEngine(folder, {text: compiled(text) for text in texts}).program
    return path, load_program(path)


def member(doc: int) -> Row:
    """Documents are a second apart, but for one that is a version of the one before it."""
    return {"docid": doc, "item": 4 if doc == 5 else doc, "ts": doc * SECOND, "place": f"S\0{doc}", "membership": 0}


def link_row(key: int, docs: Sequence[int], nodes: Sequence[int]) -> Row:
    return {"link": key, "members": [member(doc) for doc in docs], "nodes": list(nodes)}


def found_in(path: str, batches: Sequence[Sequence[Row]]) -> Iterator[list[Row]]:
    """The rows of ``ASSEMBLED_SCHEMA`` of each batch, joined as Spark joins them."""
    links: list[Row] = []
    for new in batches:
        rows = [{**row, "fresh": False} for row in links] + [{**row, "fresh": True} for row in new]
        links += new
        if not new:
            continue
        found = [row for b in start_batches(path, pa.Table.from_pylist(new).to_batches()) for row in b.to_pylist()]
        for _ in range(load_program(path).rounds):
            met = [joined for row in found for joined in _met(row, rows)]
            table = pa.Table.from_pylist(met, schema=_met_schema())
            found = [row for b in extend_batches(path, table.to_batches(max_chunksize=4)) for row in b.to_pylist()]
        assert all(row["link"] == 0 for row in found)
        yield [{name: row[name] for name in ASSEMBLED_SCHEMA.names} for row in found]


def bindings(rows: Sequence[Row]) -> list[Binding]:
    return [(row["assembly"], tuple(m["docid"] for m in row["members"]), tuple(row["nodes"])) for row in rows]  # type: ignore[misc]


def natural_join(assembly: Assembly, rows: Sequence[Row]) -> Iterator[Binding]:
    """One row of each link, wherever they agree, and no window of all groups is broken."""
    by_link = [[row for row in rows if row["link"] == link.key] for link in assembly.links]
    for chosen in product(*by_link):
        docs: dict[int, set[int]] = {}
        nodes: dict[int, set[int]] = {}
        for link, row in zip(assembly.links, chosen, strict=True):
            for block, one in zip(link.blocks, row["members"], strict=True):  # type: ignore[call-overload]
                docs.setdefault(block, set()).add(one["docid"])
            for place, node in zip(link.places, row["nodes"], strict=True):  # type: ignore[call-overload]
                nodes.setdefault(place, set()).add(node)
        if any(len(values) > 1 for values in (*docs.values(), *nodes.values())):
            continue
        of_blocks = [min(docs[block]) for block in range(assembly.blocks)]
        items = {4 if doc == 5 else doc for doc in of_blocks}
        apart = [(b - a) * SECOND for a, b in combinations(of_blocks, 2)]
        if len(items) == assembly.blocks and all(
            bounds.lo <= difference <= bounds.hi for bounds, difference in zip(assembly.bounds, apart, strict=True)
        ):
            yield assembly.number, tuple(of_blocks), tuple(min(nodes[place]) for place in range(assembly.nodes))


def random_rows(choose: Dice, program: Program, most: int) -> list[Row]:
    """Distinct rows of all links over a few documents and nodes."""
    found: dict[str, Row] = {}
    for key, plan in program.links.items():
        for _ in range(choose.count(2, most)):
            first, second = choose.count(0, 5), choose.count(0, 5)
            if first != second:
                row = link_row(key, (first, second), [choose.one(0, 0, 0, 0, 0, 1) for _ in range(plan.width)])
                found[repr(row)] = row
    rows = list(found.values())
    return [rows.pop(choose.count(0, len(rows) - 1)) for _ in range(len(rows))]


@pytest.mark.parametrize("cut", ["together", "one by one", "some"])
def test_every_combination_once(cut: str, tmp_path: Path) -> None:
    count = 0
    for seed in range(examples(40)):
        choose = Dice(seed)
        texts = {choose.one(*SHAPES) for _ in range(choose.count(1, 3))}
        path, program = program_of(tmp_path, *sorted(texts))
        rows = random_rows(choose, program, 15)
        if cut == "together":
            batches = [rows]
        elif cut == "one by one":
            batches = [[row] for row in rows]
        else:
            places = sorted({0, len(rows), *(choose.count(0, len(rows)) for _ in range(3))})
            batches = [rows[a:b] for a, b in zip(places, places[1:], strict=False)]
        found = [binding for part in found_in(path, batches) for binding in bindings(part)]
        expected = [b for assembly in program.assemblies.values() for b in natural_join(assembly, rows)]
        assert Counter(found) == Counter(expected), (seed, texts)
        assert not found or max(Counter(found).values()) == 1
        count += len(found)
    assert count > 100, "there must be something to find"


# -- by hand -------------------------------------------------------------------------------------------------------


def chain(folder: Path, *texts: str) -> tuple[str, Program, tuple[int, int]]:
    """A program of queries like ``CHAIN``, and the keys of its two links."""
    path, program = program_of(folder, *(texts or (CHAIN,)))
    assembly = next(iter(program.assemblies.values()))
    return path, program, (assembly.links[0].key, assembly.links[1].key)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("apart", [False, True])
def test_two_links_meet(first: int, apart: bool, tmp_path: Path) -> None:
    path, _, keys = chain(tmp_path)
    rows = [link_row(keys[0], (1, 2), (10, 20)), link_row(keys[1], (2, 3), (20, 30))]
    rows = rows[first:] + rows[:first]
    parts = list(found_in(path, [[row] for row in rows] if apart else [rows]))
    assert [bindings(part) for part in parts][-1] == [(0, (1, 2, 3), (10, 20, 30))]
    assert not any(parts[:-1])


@pytest.mark.parametrize(
    ("docs", "nodes", "why"),
    [
        ((3, 6), (20, 30), "another document"),
        ((2, 6), (21, 30), "another node of it"),
        ((2, 1), (20, 10), "a document twice"),
        ((2, 25), (20, 30), "too late"),
    ],
)
def test_links_that_do_not_fit(docs: tuple[int, int], nodes: tuple[int, int], why: str, tmp_path: Path) -> None:
    path, _, keys = chain(tmp_path)
    rows = [link_row(keys[0], (1, 2), (10, 20)), link_row(keys[1], docs, nodes)]
    assert list(found_in(path, [rows])) == [[]], why


def test_versions_of_one_item_are_refused(tmp_path: Path) -> None:
    path, _, keys = chain(tmp_path)
    rows = [
        link_row(keys[0], (4, 2), (10, 20)),
        link_row(keys[1], (2, 5), (20, 30)),
        link_row(keys[1], (2, 6), (20, 30)),
    ]
    assert [binding[1] for part in found_in(path, [rows]) for binding in bindings(part)] == [(4, 2, 6)]


def test_what_no_window_takes_is_not_asked_for(tmp_path: Path) -> None:
    path, program, keys = chain(tmp_path, CHAIN.replace("9 s", "1 s"))
    assert program.rounds == 1

    def asked(*rows: Row) -> int:
        return sum(batch.num_rows for batch in start_batches(path, pa.Table.from_pylist(list(rows)).to_batches()))

    assert asked(link_row(keys[0], (1, 2), (10, 20))) == 1
    assert asked(link_row(keys[0], (1, 3), (10, 20))) == 0
    assert asked(link_row(keys[0], (4, 5), (10, 20))) == 0, "versions of one item"
    assert asked(link_row(12345, (1, 2), (10, 20))) == 0, "a link that nothing asks for any more"


def results_of(path: str, found: list[pa.RecordBatch]) -> list[Row]:
    """The rows that classes come to, with ``docs``."""
    rows = [row for batch in assembled_batches(path, found, origin_of(1, 0)) for row in batch.to_pylist()]
    assert {row["origin"] for row in rows} == {origin_of(1, 0)}
    docs = [(row["class"], row["docs"]) for row in rows if row["relation"] == "docs"]
    return [
        {**row, "docs": of}
        for row in rows
        if row["relation"] != "docs"
        for number, of in docs
        if number == row["class"]
    ]


def test_groups_take_what_their_windows_take(tmp_path: Path) -> None:
    texts = [CHAIN, CHAIN.replace("9 s", "1 s"), CHAIN.replace("y = z, 9 s", "y = z, 1 s")]
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts})
    path, program = engine.program, load_program(engine.program)
    (assembly,) = program.assemblies.values()
    assert len(assembly.groups) == 3
    keys = [link.key for link in assembly.links]
    rows = [link_row(keys[0], docs, (10, 20)) for docs in ((1, 2), (0, 2))]
    rows += [link_row(keys[1], docs, (20, 30)) for docs in ((2, 3), (2, 6))]
    (found,) = found_in(path, [rows])
    found.sort(key=lambda row: (row["assembly"], [m["docid"] for m in row["members"]]))  # type: ignore[union-attr, attr-defined]
    table = pa.Table.from_pylist(found, schema=ASSEMBLED_SCHEMA)
    results = results_of(path, table.to_batches(max_chunksize=1))
    names = {gid: text for text, gid in engine.gid.items()}
    taken = {
        (row["relation"], tuple(row["docs"])): {texts.index(names[gid]) for gid in row["groups"]} for row in results
    }
    # 9 s from the later of x and y; then 1 s for both; then 9 s for the first and 1 s for the second.
    docs = {(0, 2, 3): {0, 2}, (0, 2, 6): {0}, (1, 2, 3): {0, 1, 2}, (1, 2, 6): {0}}
    assert taken == {(relation, of): groups for of, groups in docs.items() for relation in ("rout", "match")}
    assert len(results) == len(taken)


def test_matches_are_told_apart_by_results_only(tmp_path: Path) -> None:
    text = "S//r[./a->x][./b->p] JOIN {x = y} T//b->y JOIN {p = z} U//c->z"
    path, program = program_of(tmp_path, text)
    (assembly,) = program.assemblies.values()
    names = compiled(text).meta_names
    first, second = assembly.links

    def row(link: int, docs: tuple[int, int], **nodes: int) -> Row:
        of = assembly.links[link]
        return link_row(of.key, docs, [nodes.get(names[place] or "r", 0) for place in of.places])

    rows = [row(0, (1, 2), r=1, x=x, y=9) for x in (5, 6)] + [row(1, (1, 3), r=1, p=p, z=8) for p in (7, 9)]
    (found,) = found_in(path, [rows])
    assert len(found) == 4
    table = pa.Table.from_pylist(found, schema=ASSEMBLED_SCHEMA)
    results = results_of(path, table.to_batches())
    assert Counter(r["relation"] for r in results) == {"rout": 4, "match": 1}
    (match,) = [r for r in results if r["relation"] == "match"]
    assert match["nodes"] == [1, 9, 8]
    assert match["witness"] in [r["nodes"] for r in results if r["relation"] == "rout"]
    assert (first.blocks, second.blocks) == ((0, 1), (0, 2))
