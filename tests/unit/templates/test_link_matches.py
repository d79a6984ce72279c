"""Rows of links put together: every combination once, whenever and wherever its rows arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path

import pyarrow as pa
import pytest
from budget import examples
from local_engine import compiled
from programs import build_program
from strategies import Dice

from xscl.language.facts import ChannelFacts
from xscl.templates.many_blocks import chains as link_chains
from xscl.templates.many_blocks import matches as link_matches
from xscl.templates.many_blocks import plain_matches
from xscl.templates.many_blocks.chains import Chains, Partials, Way, new_chains
from xscl.templates.many_blocks.matches import Found, add_found, assemble, complete
from xscl.templates.many_blocks.runs import LINK_SCHEMA, LinkRun, MetRows, merged_links
from xscl.templates.many_blocks.state import LinkState
from xscl.templates.members import Membership
from xscl.templates.origins import origin_of
from xscl.templates.plans import Assembly, LiveGroup
from xscl.templates.program import Program
from xscl.templates.results import ResultColumns

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


def program_of(*texts: str) -> Program:
    """A program of queries whose groups have the numbers of their texts."""
    queries = [compiled(text) for text in texts]
    keys = sorted({query.group.instance.key for query in queries})
    return build_program(
        LiveGroup(number, keys.index(query.group.instance.key), query.group, 0, 1 << 40, query.channels)
        for number, query in enumerate(queries)
    )


def member(doc: int, membership: int = 0) -> Row:
    """Documents are a second apart, but for one that is a version of the one before it."""
    return {
        "docid": doc,
        "item": 4 if doc == 5 else doc,
        "ts": doc * SECOND,
        "place": f"S\0{doc}",
        "membership": membership,
    }


def link_row(key: int, docs: Sequence[int], nodes: Sequence[int], membership: int = 0) -> Row:
    return {"link": key, "members": [member(doc, membership) for doc in docs], "nodes": list(nodes)}


def run_of(rows: Sequence[Row]) -> LinkRun:
    schema = pa.schema([LINK_SCHEMA.field(name) for name in ("link", "members", "nodes")])
    return LinkRun.of(pa.Table.from_pylist(list(rows), schema=schema))


def bindings(found: Found) -> list[Binding]:
    """The combinations, one by one."""
    rows = []
    docs, nodes = iter(found.docs.tolist()), iter(found.nodes.tolist())
    for number, blocks, width in zip(
        found.assembly.tolist(), found.blocks.tolist(), found.widths.tolist(), strict=True
    ):
        rows.append((number, tuple(next(docs) for _ in range(blocks)), tuple(next(nodes) for _ in range(width))))
    return rows


def found_in(program: Program, batches: Sequence[Sequence[Row]]) -> Iterator[list[Binding]]:
    """The combinations of each batch."""
    state: list[LinkRun] = []
    for new in batches:
        run = run_of(new)
        yield bindings(complete(program, LinkState(state), [run]))
        state.append(run)


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
def test_every_combination_once(cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cuts of batches, runs, files and shares, and however few are looked at together."""
    count = 0
    for seed in range(examples(57)):
        choose = Dice(seed)
        monkeypatch.setattr(link_chains, "_MOST", choose.one(1, 3, 100))
        monkeypatch.setattr(link_chains, "_MANY", choose.one(0, 1, 100))
        monkeypatch.setattr(link_chains, "_FEW_STARTED", choose.one(0, 0, 10))
        monkeypatch.setattr(link_chains, "_MOST_STARTED", choose.one(1, 5, 1 << 22))
        monkeypatch.setattr(link_chains, "_MOST_CELLS", choose.one(0, 1 << 25, 1 << 25))
        program = program_of(*sorted({choose.one(*SHAPES) for _ in range(choose.count(1, 3))}))
        rows = random_rows(choose, program, 15)
        number = {"together": 0, "one by one": len(rows), "some": 3}[cut]
        places = range(1, len(rows)) if number == len(rows) else [choose.count(0, len(rows)) for _ in range(number)]
        found: list[Binding] = []
        state: list[LinkRun] = []
        for batch in parts_of(rows, places):
            new = [placed(run_of(part), choose, tmp_path) for part in parts_of(batch, [choose.count(0, len(batch))])]
            if len(state) > 2 and choose.chance(30):
                state = [placed(merged_links(state, [None] * len(state)), choose, tmp_path)]
            shares = choose.count(1, 3)
            for share in range(shares):
                found += bindings(complete(program, LinkState(state), new, (share, shares)))
            state += new
        expected = [b for assembly in program.assemblies.values() for b in natural_join(assembly, rows)]
        assert Counter(found) == Counter(expected), seed
        assert not found or max(Counter(found).values()) == 1
        count += len(found)
    assert count > 30, "there must be something to find"


def parts_of(rows: Sequence[Row], places: Sequence[int]) -> list[Sequence[Row]]:
    ends = sorted({0, len(rows), *places})
    return [rows[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def placed(run: LinkRun, choose: Dice, folder: Path) -> LinkRun:
    """The same run, at times in a file."""
    if choose.chance(50):
        return run
    path = folder / "some.run"
    path.unlink(missing_ok=True)
    run.save(path)
    return LinkRun.open(path)


def test_shares_of_events_are_one_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that each get what others found of some events give what one process gives, in columns or one by one."""
    count = 0
    for seed in range(examples(24)):
        choose = Dice(seed)
        monkeypatch.setattr(link_matches, "_FEW", 1 << 30)
        program = program_of(*sorted({choose.one(*SHAPES) for _ in range(3)}))
        rows = random_rows(choose, program, 15)
        old, new = (run_of(part) for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]))
        state = LinkState([old])
        out = ResultColumns(origin_of(1, 0))
        assemble(program, state, [new], out)
        monkeypatch.setattr(link_matches, "_FEW", 1)
        monkeypatch.setattr(plain_matches, "_MOST_ADMITTED", 0)
        spread = [complete(program, state, [new], (share, 3)).spread(2) for share in range(3)]
        apart: list[Row] = []
        for number, parts in enumerate(zip(*spread, strict=True)):
            Found.together(parts).save(tmp_path / f"{seed}-{number}")
            part = ResultColumns(origin_of(1, 0))
            add_found(program, Found.open(tmp_path / f"{seed}-{number}"), state, part)
            apart += results_of(part)
        expected = results_of(out)
        assert Counter(map(told, apart)) == Counter(map(told, expected)), seed
        count += len(expected)
    assert count > 20, "there must be something to find"


def told(row: Row) -> str:
    """A row of a result, whatever the order of its groups."""
    by = sorted(zip(row["groups"], row["cases"], strict=True))  # type: ignore[call-overload]
    return repr({**row, "groups": by, "cases": None})


# -- by hand -------------------------------------------------------------------------------------------------------


def chain(*texts: str) -> tuple[Program, tuple[int, int]]:
    """A program of queries like ``CHAIN``, and the keys of its two links."""
    program = program_of(*(texts or (CHAIN,)))
    assembly = next(iter(program.assemblies.values()))
    return program, (assembly.links[0].key, assembly.links[1].key)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("apart", [False, True])
def test_two_links_meet(first: int, apart: bool) -> None:
    program, keys = chain()
    rows = [link_row(keys[0], (1, 2), (10, 20)), link_row(keys[1], (2, 3), (20, 30))]
    rows = rows[first:] + rows[:first]
    parts = list(found_in(program, [[row] for row in rows] if apart else [rows]))
    assert parts[-1] == [(0, (1, 2, 3), (10, 20, 30))]
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
def test_links_that_do_not_fit(docs: tuple[int, int], nodes: tuple[int, int], why: str) -> None:
    program, keys = chain()
    rows = [link_row(keys[0], (1, 2), (10, 20)), link_row(keys[1], docs, nodes)]
    assert list(found_in(program, [rows])) == [[]], why


def test_versions_of_one_item_are_refused() -> None:
    program, keys = chain()
    rows = [
        link_row(keys[0], (4, 2), (10, 20)),
        link_row(keys[1], (2, 5), (20, 30)),
        link_row(keys[1], (2, 6), (20, 30)),
    ]
    assert [binding[1] for part in found_in(program, [rows]) for binding in part] == [(4, 2, 6)]


def test_what_no_window_takes_starts_nothing() -> None:
    program, keys = chain(CHAIN.replace("9 s", "1 s"))

    def started(*rows: Row) -> int:
        run = run_of(rows)
        _, found = new_chains(program, LinkState(), [run], (0, 1))
        assert not list(found)
        chains = Chains([Way(a, (0, 1), 0) for a in program.assemblies.values()], LinkState(), [])
        ways = {key: [0] for key in keys if key in program.starts}
        return sum(len(part.way) for part in chains.started(run, 0, len(run), ways))

    assert started(link_row(keys[0], (1, 2), (10, 20))) == 1
    assert started(link_row(keys[0], (1, 3), (10, 20))) == 0
    assert started(link_row(keys[0], (4, 5), (10, 20))) == 0, "versions of one item"
    assert started(link_row(12345, (1, 2), (10, 20))) == 0, "a link that nothing asks for any more"


def results_of(out: ResultColumns) -> list[Row]:
    """The rows that classes come to, with ``docs``."""
    rows = [row for batch in out.take() for row in batch.to_pylist()]
    assert {row["origin"] for row in rows} <= {origin_of(1, 0)}
    docs = [(row["class"], row["docs"]) for row in rows if row["relation"] == "docs"]
    return [
        {**row, "docs": of, "class": None}
        for row in rows
        if row["relation"] != "docs"
        for number, of in docs
        if number == row["class"]
    ]


def results_in(program: Program, rows: Sequence[Row]) -> list[Row]:
    out = ResultColumns(origin_of(1, 0))
    assemble(program, LinkState(), [run_of(rows)], out)
    return results_of(out)


@pytest.mark.parametrize("few", [1, 100])
def test_groups_take_what_their_windows_take(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_matches, "_FEW", few)
    texts = [CHAIN, CHAIN.replace("9 s", "1 s"), CHAIN.replace("y = z, 9 s", "y = z, 1 s")]
    program = program_of(*texts)
    (assembly,) = program.assemblies.values()
    assert len(assembly.groups) == 3
    keys = [link.key for link in assembly.links]
    rows = [link_row(keys[0], docs, (10, 20)) for docs in ((1, 2), (0, 2))]
    rows += [link_row(keys[1], docs, (20, 30)) for docs in ((2, 3), (2, 6))]
    results = results_in(program, rows)
    taken = {(row["relation"], tuple(row["docs"])): set(row["groups"]) for row in results}  # type: ignore[call-overload, arg-type]
    # 9 s from the later of x and y; then 1 s for both; then 9 s for the first and 1 s for the second.
    docs = {(0, 2, 3): {0, 2}, (0, 2, 6): {0}, (1, 2, 3): {0, 1, 2}, (1, 2, 6): {0}}
    assert taken == {(relation, of): groups for of, groups in docs.items() for relation in ("rout", "match")}
    assert len(results) == len(taken)


@pytest.mark.parametrize("few", [1, 100])
def test_matches_are_told_apart_by_results_only(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_matches, "_FEW", few)
    text = "S//r[./a->x][./b->p] JOIN {x = y} T//b->y JOIN {p = z} U//c->z"
    program = program_of(text)
    (assembly,) = program.assemblies.values()
    names = compiled(text).meta_names
    first, second = assembly.links

    def row(link: int, docs: tuple[int, int], **nodes: int) -> Row:
        of = assembly.links[link]
        return link_row(of.key, docs, [nodes.get(names[place] or "r", 0) for place in of.places])

    rows = [row(0, (1, 2), r=1, x=x, y=9) for x in (5, 6)] + [row(1, (1, 3), r=1, p=p, z=8) for p in (7, 9)]
    (found,) = found_in(program, [rows])
    assert len(found) == 4
    results = results_in(program, rows)
    assert Counter(r["relation"] for r in results) == {"rout": 4, "match": 1}
    (match,) = [r for r in results if r["relation"] == "match"]
    assert match["nodes"] == [1, 9, 8]
    assert match["witness"] in [r["nodes"] for r in results if r["relation"] == "rout"]
    assert (first.blocks, second.blocks) == ((0, 1), (0, 2))


def test_one_of_two_orders_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order that an earlier batch completed takes the place of the other one, many looked for together."""
    monkeypatch.setattr(link_matches, "_TOGETHER", 2)
    streams = {name: ChannelFacts(channel="S", stream=number) for number, name in enumerate("AB", start=1)}
    query = compiled("A//a->x JOIN {x = y, 9 s, ONCE} B//a->y", streams)
    program = build_program([LiveGroup(0, 0, query.group, 0, 1 << 40, query.channels)])
    program.memberships[1] = Membership(frozenset({1, 2}), True)
    (assembly,) = program.assemblies.values()
    key = assembly.links[0].key
    pairs = [(doc, doc + 1) for doc in range(10, 30, 2)]
    old = run_of([link_row(key, pair, (1, 2), 1) for pair in pairs[::2]])
    new = run_of([link_row(key, (right, left), (1, 2), 1) for left, right in pairs])
    found = complete(program, LinkState([old]), [new])
    assert len(found) == len(pairs)
    for state, count in ((LinkState(), 10), (LinkState([old]), 5), (LinkState(added=[old]), 5)):
        out = ResultColumns(origin_of(1, 0))
        add_found(program, found, state, out)
        assert out.counts["match"] == count


@pytest.mark.parametrize("refused", ["matches", "rout"])
def test_documents_that_are_refused_are_told_one_by_one(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"xscl.templates.many_blocks.once.MAX_{refused.upper()}", 1)
    program, keys = chain()
    rows = [link_row(keys[0], (doc, 2), (x, 20)) for doc in (0, 1) for x in (10, 11)]
    rows += [link_row(keys[1], (2, 3), (20, 30)), link_row(keys[0], (4, 2), (10, 20))]
    found = []
    for few in (1, 100):
        monkeypatch.setattr(link_matches, "_FEW", few)
        out = ResultColumns(origin_of(1, 0))
        assemble(program, LinkState(), [run_of(rows)], out)
        every = [row for batch in out.take() for row in batch.to_pylist()]
        found.append(sorted((row["reason"], row["docs"]) for row in every if row["relation"] == "refused"))
        counts = {"matches": {"rout": 1, "match": 1}, "rout": {"rout": 1, "match": 5}}[refused]
        assert {name: out.counts[name] for name in counts} == counts
    assert found[0] == found[1] == [(refused, [0, 2, 3]), (refused, [1, 2, 3])]


def test_a_document_with_many_rows_is_gone_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever link has the fewer rows is bound first; a link between known documents costs its own rows alone."""
    program = program_of("S//a->x JOIN {x = y} T//b->y JOIN {x = z AND y = z} U//c->z")
    (assembly,) = program.assemblies.values()
    keys = {link.blocks: link.key for link in assembly.links}
    state = LinkState([run_of([link_row(keys[0, 1], (1, doc), (0, 0)) for doc in range(10, 5_000)])])
    new = run_of([link_row(keys[0, 2], (1, 6_000), (0, 0)), link_row(keys[1, 2], (77, 6_000), (0, 0))])
    met = 0
    joined = Chains.joined

    def counted(self: Chains, partials: Partials, rows: MetRows, step: int) -> Partials:
        nonlocal met
        met += len(rows.link)
        return joined(self, partials, rows, step)

    monkeypatch.setattr(Chains, "joined", counted)
    assert bindings(complete(program, state, [new])) == [(0, (1, 77, 6_000), (0, 0, 0))]
    assert met < 10
