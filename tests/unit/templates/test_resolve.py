"""Matched edges to rows of R_out and matches, by hand."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc
from programs import build_program, save_program

import xscl.templates.joins.resolve
import xscl.templates.joins.solve
from xscl.base.arrow_schemas import CHAIN
from xscl.language.compiled import CompiledQuery
from xscl.templates.joins.document_facts import DocumentFacts, facts_of_runs
from xscl.templates.joins.matched_edges import MatchedEdges
from xscl.templates.joins.resolve import Resolver, holds_exactly
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.origins import origin_of
from xscl.templates.plans import LiveGroup
from xscl.templates.program_guards import ProgramGuards
from xscl.templates.results import RESULT_SCHEMA, ResultColumns
from xscl.templates.shapes import Shapes

SECOND = 1_000_000
NAMES = ["edge", "d1", "d2", "i1", "i2", "t1", "t2", "p1", "p2", "m1", "m2", "n1", "n2", "c1", "c2", "v1", "v2"]
TYPES = [pa.int32(), *[pa.int64()] * 6, *[pa.string()] * 2, *[pa.int32()] * 4, CHAIN, CHAIN, *[pa.string()] * 2]
MATCHED = pa.schema(list(zip(NAMES, TYPES, strict=True)))
Entry = tuple[str, str, int, int]
Found = dict[tuple[object, ...], list[tuple[int, ...]]]


class Case:
    """One query's program, with chains written by the query's own names."""

    def __init__(self, folder: Path, text: str, *, first: int = 0, last: int = 99) -> None:
        self.query: CompiledQuery = compiled(text)
        self.program = build_program([LiveGroup(7, 3, self.query.group, first, last, self.query.channels)])
        self.path = str(save_program(self.program, folder))
        self.rows: list[dict[str, object]] = []

    def var(self, name: str) -> int:
        return self.query.definitions[name].key

    def chain(self, *entries: Entry) -> list[dict[str, int]]:
        return [{"var1": self.var(u), "var2": self.var(w), "node1": a, "node2": b} for u, w, a, b in entries]

    def edge(self, left: str, right: str) -> int:
        return next(
            e.number
            for e in self.program.edges.values()
            if (e.key.lvar, e.key.rvar) == (self.var(left), self.var(right))
        )

    def add(
        self,
        edge: tuple[str, str],
        nodes: tuple[int, int],
        left: list[Entry],
        right: list[Entry],
        *,
        docs: tuple[int, int] = (1, 2),
        times: tuple[int, int] = (0, 1),
        places: tuple[str, str] = ("S\0a", "S\0b"),
    ) -> None:
        values = (self.edge(*edge), *docs, *docs, *(t * SECOND for t in times), *places, 0, 0, *nodes)
        chains = (self.chain(*left), self.chain(*right))
        self.rows.append(dict(zip(NAMES, (*values, *chains, None, None), strict=True)))

    def resolve(self, *, chunk: int = 100) -> Found:
        """Relation and documents to nodes; ``chunk`` pairs are resolved together."""
        resolver, out = Resolver(self.program, Shapes()), ResultColumns(origin_of(1, 0))
        pairs = [list(rows) for _, rows in groupby(sorted(self.rows, key=_pair), key=_pair)]
        for at in range(0, len(pairs), chunk):
            _resolve(resolver, pairs[at : at + chunk], out)
        rows: list[dict[str, object]] = []
        for batch in out.take():
            assert batch.schema == RESULT_SCHEMA
            rows += batch.to_pylist()
        found: Found = {}
        looked_at = 0
        for row in rows:
            if row["relation"] == "pairs":
                (count,) = row["docs"]  # type: ignore[misc]
                looked_at += count
            elif row["relation"] in ("rout", "match"):
                assert (row["instance"], row["groups"], row["cases"]) == (3, [7], [1])
                for docs in rows:
                    if docs["relation"] == "docs" and docs["class"] == row["class"]:
                        key = (row["relation"], docs["d1"], docs["d2"])
                        found.setdefault(key, []).append(tuple(row["nodes"]))  # type: ignore[arg-type]
        return {**found, **({"pairs": [(looked_at,)]} if looked_at else {})}  # type: ignore[dict-item]


def no_facts(docs: np.ndarray) -> DocumentFacts:
    return facts_of_runs((), docs, ProgramGuards())


def _pair(row: dict[str, object]) -> tuple[int, int]:
    return row["d1"], row["d2"]  # type: ignore[return-value]


def _resolve(resolver: Resolver, pairs: list[list[dict[str, object]]], out: ResultColumns) -> None:
    """Resolve all matched edges of some pairs of documents."""
    rows = [row for pair in pairs for row in pair]
    table = pa.Table.from_pylist(rows, schema=MATCHED)
    columns = {name: table.column(name).combine_chunks() for name in table.schema.names}
    starts = np.concatenate([[0], np.cumsum([len(pair) for pair in pairs])]).astype(np.int64)
    first = [pair[0] for pair in pairs]
    left, right, ts_l, ts_r = (np.array([row[name] for row in first]) for name in ("d1", "d2", "t1", "t2"))
    edges = MatchedEdges(
        columns["edge"].to_numpy(),
        resolver.shapes.numbers(columns["n1"], columns["c1"]),
        resolver.shapes.numbers(columns["n2"], columns["c2"]),
    )
    places = {row[f"d{side}"]: row[f"p{side}"] for row in first for side in (1, 2)}

    def left_first(of: MatchedPairs) -> np.ndarray:
        names = (np.array([places[doc] for doc in docs.tolist()], dtype=object) for docs in (of.left, of.right))
        return (of.ts_l < of.ts_r) | ((of.ts_l == of.ts_r) & np.less(*names))

    out.add_count(len(pairs))
    resolver.resolve(
        MatchedPairs(left, right, ts_l, ts_r), starts, edges, Documents(lambda *_: [], left_first, no_facts), out
    )


TWO = "S//a->r[./b->x][./c->y] JOIN {x = u AND y = v, 1 h} S//d->s[./b->u][./c->v]"


def one_pair(case: Case, **given: object) -> None:
    case.add(("x", "u"), (1, 1), [("r", "x", 0, 1)], [("s", "u", 0, 1)], **given)  # type: ignore[arg-type]
    case.add(("y", "v"), (2, 2), [("r", "y", 0, 2)], [("s", "v", 0, 2)], **given)  # type: ignore[arg-type]


def test_one_pair(tmp_path: Path) -> None:
    case = Case(tmp_path, TWO)
    one_pair(case)
    assert case.resolve() == {("rout", 1, 2): [(0, 1, 2, 0, 1, 2)], ("match", 1, 2): [(0, 0)], "pairs": [(1,)]}


def test_an_edge_that_is_missing(tmp_path: Path) -> None:
    case = Case(tmp_path, TWO)
    one_pair(case)
    case.rows.pop()
    assert case.resolve() == {"pairs": [(1,)]}


def test_edges_of_different_parents_do_not_hang_together(tmp_path: Path) -> None:
    case = Case(tmp_path, TWO)
    case.add(("x", "u"), (1, 1), [("r", "x", 0, 1)], [("s", "u", 0, 1)])
    case.add(("y", "v"), (4, 2), [("r", "y", 3, 4)], [("s", "v", 0, 2)])
    assert case.resolve() == {"pairs": [(1,)]}


def test_nested_nodes(tmp_path: Path) -> None:
    """<a><a><b/></a></a>: b has two ancestors, and each is an answer."""
    case = Case(tmp_path, "S//a->r[.//b->x] JOIN {x = u AND r = s, 1 h} S//d->s[.//b->u]")
    both = [("r", "x", 0, 2), ("r", "x", 1, 2)]
    case.add(("x", "u"), (2, 1), both, [("s", "u", 0, 1)])
    case.add(("r", "s"), (0, 0), [], [])
    case.add(("r", "s"), (1, 0), [], [])
    found = case.resolve()
    names = [case.query.meta_names.index(name) for name in ("r", "x", "s", "u")]
    rows = [tuple(row[place] for place in names) for row in found["rout", 1, 2]]
    assert sorted(rows) == [(0, 2, 0, 1), (1, 2, 0, 1)]
    assert sorted(found["match", 1, 2]) == [(0, 0), (1, 0)]


def test_one_match_for_many_bindings(tmp_path: Path) -> None:
    case = Case(tmp_path, "S//a->r[./b->x] JOIN {x = u, 1 h} S//d->u")
    case.add(("x", "u"), (1, 0), [("r", "x", 0, 1), ("x", "x", 1, 1)], [("u", "u", 0, 0)])
    case.add(("x", "u"), (2, 0), [("r", "x", 0, 2), ("x", "x", 2, 2)], [("u", "u", 0, 0)])
    found = case.resolve()
    assert sorted(found["rout", 1, 2]) == [(1, 0), (2, 0)]
    assert found["match", 1, 2] == [(0, 0)]


def test_two_variables_of_one_definition(tmp_path: Path) -> None:
    """x and y are one relation's rows and still bind independently, to one node or to two."""
    case = Case(tmp_path, "S//a->r[./b->x][./b->y] JOIN {x = u AND y = v, 1 h} S//d->s[./e->u][./f->v]")
    assert case.var("x") == case.var("y")
    for node in (1, 2):
        case.add(("x", "u"), (node, 1), [("r", "x", 0, node)], [("s", "u", 0, 1)])
    case.add(("y", "v"), (2, 2), [("r", "x", 0, 2)], [("s", "v", 0, 2)])
    found = case.resolve()
    names = [case.query.meta_names.index(name) for name in ("r", "x", "y", "s", "u", "v")]
    rows = [tuple(row[place] for place in names) for row in found["rout", 1, 2]]
    assert sorted(rows) == [(0, 1, 2, 0, 1, 2), (0, 2, 2, 0, 1, 2)]
    assert found["match", 1, 2] == [(0, 0)]


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_a_pair_runs_over_into_the_next_arrow_batch(tmp_path: Path, chunk: int) -> None:
    case = Case(tmp_path, TWO)
    for docs in ((1, 2), (1, 3), (2, 3)):
        one_pair(case, docs=docs)
    found = case.resolve(chunk=chunk)
    assert found == case.resolve()
    assert found["pairs"] == [(3,)]
    assert {key[1:] for key in found if key != "pairs"} == {(1, 2), (1, 3), (2, 3)}


def test_no_rows(tmp_path: Path) -> None:
    assert Case(tmp_path, TWO).resolve() == {}


@pytest.mark.parametrize(
    ("times", "places", "admitted"),
    [
        ((0, 1), ("T\0z", "S\0a"), True),  # the earlier one is on the left
        ((1, 0), ("S\0a", "T\0z"), False),
        ((1, 1), ("S\0z", "T\0a"), True),  # equal times: by channel
        ((1, 1), ("T\0a", "S\0z"), False),
        ((1, 1), ("S\0a", "S\0b"), True),  # equal channels: by id
        ((1, 1), ("S\0b", "S\0a"), False),
        ((1, 1), ("S\0a", "S\0a!"), True),
        ((1, 1), ("S\0z", "S-x\0a"), True),  # S is before S-x, whatever the ids
    ],
)
def test_once(tmp_path: Path, times: tuple[int, int], places: tuple[str, str], admitted: bool) -> None:
    """Where both blocks ask for the same, both orders of two documents match."""
    text = "S//a->r[./b->x][./c->y] JOIN {x = u AND y = v, 1 h, ONCE} S//a->s[./b->u][./c->v]"
    case = Case(tmp_path, text)
    one_pair(case, times=times, places=places)
    assert (("match", 1, 2) in case.resolve()) == admitted


@pytest.mark.parametrize(("times", "admitted"), [((0, 2), True), ((0, 3), False), ((0, 0), False), ((1, 0), False)])
def test_windows_are_tested_per_pair(tmp_path: Path, times: tuple[int, int], admitted: bool) -> None:
    case = Case(tmp_path, TWO.replace("JOIN {x = u AND y = v, 1 h}", "FOLLOWED BY {x = u AND y = v, 2 s}"))
    one_pair(case, docs=(3, 4), times=(0, 1))
    one_pair(case, times=times, docs=(5, 6))
    found = case.resolve()
    assert ("match", 3, 4) in found  # the same signature in another pair
    assert (("match", 5, 6) in found) == admitted


@pytest.mark.parametrize(("docs", "seen"), [((4, 8), False), ((5, 8), True), ((8, 5), True), ((5, 9), False)])
def test_a_query_sees_its_span_of_the_intake_order(tmp_path: Path, docs: tuple[int, int], seen: bool) -> None:
    case = Case(tmp_path, TWO, first=5, last=8)
    one_pair(case, docs=docs)
    assert (("match", *docs) in case.resolve()) == seen


def test_one_block_has_no_second_document() -> None:
    query = compiled("S//a")
    program = build_program([LiveGroup(1, 0, query.group, 2, 3, query.channels)])
    key = query.group.instance.variables[0]
    shapes = Shapes()
    entry = {"var1": key, "var2": key, "node1": 4, "node2": 4}
    both = shapes.numbers(pa.array([4, 4], pa.int32()), pa.array([[entry], [entry]], CHAIN))
    edges = MatchedEdges(np.zeros(2, dtype=np.int32), both, both)
    none, times = np.array([-1, -1]), np.array([0, 0])
    out = ResultColumns(origin_of(1, 0))
    documents = Documents(lambda left, right: [], lambda pairs: np.zeros(len(pairs.left), dtype=np.bool_), no_facts)
    pairs = MatchedPairs(np.array([2, 4]), none, times, times)
    Resolver(program, shapes).resolve(pairs, np.array([0, 1, 2]), edges, documents, out)
    rows = [row for batch in out.take() for row in batch.to_pylist()]
    assert [(row["d1"], row["d2"]) for row in rows if row["relation"] == "docs"] == [(2, None)]
    assert [(r["relation"], r["nodes"], r["groups"]) for r in rows if r["nodes"]] == [
        ("rout", [4], [1]),
        ("match", [4], [1]),
    ]
    assert (out.counts["rout"], out.counts["match"]) == (1, 1)


@pytest.mark.parametrize(
    ("atom", "left", "right", "holds"),
    [
        ("x >= 1.1 * y", "3.3", "3", True),  # 1.1 * 3 is 3.3000000000000003 in doubles
        ("x > 1.1 * y", "3.3", "3", False),
        ("x < y", "9007199254740992", "9007199254740993", True),
        ("3 * x = y", "0.1", "0.3", True),
        ("x != 2 * y + 1", "3", "1", False),
    ],
)
def test_numbers_too_close_for_doubles_are_compared_exactly(atom: str, left: str, right: str, holds: bool) -> None:
    query = compiled(f"S//a->x JOIN {{{atom}, 1 s}} S//b->y")
    program = build_program([LiveGroup(1, 0, query.group, 2, 3, query.channels)])
    (band,) = [edge for edge in program.edges.values() if edge.key.kind == "BAND"]
    assert holds_exactly(band, left, right) is holds


def test_remembered_signatures_change_nothing(tmp_path: Path) -> None:
    text = "S//a->r[./b->x] JOIN {x = y, 2 s} T//b->y"
    engine = UnitsEngine(tmp_path, {text: compiled(text)})
    docs = [Doc("S", f"s{i}", i * SECOND, "<a><b>1</b></a>") for i in range(4)]
    engine.run([*docs, *(Doc("T", f"t{i}", i * SECOND, "<b>1</b>") for i in range(4))])
    pairs = {(left[1], right[1]) for (left, right), _ in engine.answers(text)}
    assert pairs == {(f"s{i}", f"t{j}") for i in range(4) for j in range(4) if abs(i - j) <= 2}


ENGINES = pytest.mark.parametrize("engine_type", [UnitsEngine, LocalEngine])


def refused(engine: UnitsEngine) -> list[tuple[list[str], list[int], str]]:
    """Documents, groups and reason of each refusal."""
    rows = [row for row in engine.results if row["relation"] == "refused"]
    return [([member["place"] for member in row["members"]], row["groups"], row["reason"]) for row in rows]  # type: ignore[misc]


@ENGINES
def test_bindings_that_multiply_are_one_match(tmp_path: Path, engine_type: type[UnitsEngine]) -> None:
    """Four variables of twelve equal nodes have 12 ** 4 bindings, which no match tells apart."""
    brackets = "".join(f"[./c->v{i}]" for i in range(4))
    text = f"S//a{brackets} JOIN {{{' AND '.join(f'v{i} = y' for i in range(4))}, 1 h}} T//b->y"
    engine = engine_type(tmp_path, {text: compiled(text)})
    engine.run([Doc("S", "s", 0, f"<a>{'<c>1</c>' * 12}</a>"), Doc("T", "t", 1, "<b>1</b>")])
    assert len(engine.answers(text)) == 1
    assert len(engine.rout(text)) == 12**4
    assert refused(engine) == []


@pytest.mark.parametrize(("engine_type", "count"), [(UnitsEngine, 40), (LocalEngine, 320), (LocalEngine, 400)])
def test_authors_that_a_match_does_not_tell_apart(tmp_path: Path, engine_type: type[UnitsEngine], count: int) -> None:
    text = "S/rss->x[.//author->a] FOLLOWED BY {a = b, 1 h} S/rss->y[.//author->b]"
    engine = engine_type(tmp_path, {text: compiled(text)})
    item = "<item><author>A</author></item>"
    engine.run([Doc("S", name, at * SECOND, f"<rss>{item * count}</rss>") for at, name in enumerate("de")])
    assert engine.answers(text) == {((("S", "d"), ("S", "e")), (0, 0))}
    assert len(engine.rout(text)) == count**2
    assert refused(engine) == []


@ENGINES
def test_items_that_hold_two_joined_nodes(
    tmp_path: Path, engine_type: type[UnitsEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Author and title are to be of one item: all items have one author, and titles of their own."""
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_STEPS", 300)
    left, right = "S/rss->x[.//item[./author->a][./title->t]]", "T/rss->y[.//item[./author->b][./title->u]]"
    text = f"{left} JOIN {{a = b AND t = u, 1 h}} {right}"
    engine = engine_type(tmp_path, {text: compiled(text)})
    items = [f"<item><author>A</author><title>{n}</title></item>" for n in range(40)]
    engine.run(
        [Doc("S", "s", 0, f"<rss>{''.join(items)}</rss>"), Doc("T", "t", 1, f"<rss>{''.join(items[:30])}</rss>")]
    )
    assert len(engine.answers(text)) == 1 and len(engine.rout(text)) == 30
    assert refused(engine) == []


@ENGINES
def test_matches_that_are_too_many_are_refused_by_query(
    tmp_path: Path, engine_type: type[UnitsEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_MATCHES", 8)
    select = "SELECT o, p FROM S//a[./c->x][./d->o][./d->p] JOIN {x = y, 1 h} T//b->y"
    plain = "S//a[./c->x] JOIN {x = y, 1 h} T//b->y"
    engine = engine_type(tmp_path, {text: compiled(text) for text in (select, plain)})
    engine.run([Doc("S", "s", 0, f"<a><c>1</c>{'<d/>' * 3}</a>"), Doc("T", "t", 1, "<b>1</b>")])
    assert refused(engine) == [(["S\0s", "T\0t"], [engine.gid[select]], "matches")]
    assert engine.answers(select) == set() and len(engine.answers(plain)) == 1
    engine.run([Doc("S", "small", 2, "<a><c>1</c><d/><d/></a>")])
    assert len(engine.answers(select)) == 2**2


@ENGINES
def test_only_queries_whose_windows_admit_the_documents_are_refused(
    tmp_path: Path, engine_type: type[UnitsEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_MATCHES", 1)
    near, far = (f"S//a->x[.//c->v] JOIN {{v = y, {window}}} T//b->y" for window in ("1 h", "2 d"))
    engine = engine_type(tmp_path, {text: compiled(text) for text in (near, far)})
    nested = "<a><a><c>1</c></a></a>"
    engine.run([Doc("S", "s", 0, nested), Doc("T", "t", 26 * 3600 * SECOND, "<b>1</b>")])
    assert refused(engine) == [(["S\0s", "T\0t"], [engine.gid[far]], "matches")]


@ENGINES
def test_rows_of_r_out_that_are_too_many_cost_no_match(
    tmp_path: Path, engine_type: type[UnitsEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_ROUT", 2)
    text = "S//a[.//i/c->x] JOIN {x = y AND x = z, 1 h} T//b[./c->y][./c->z]"
    engine = engine_type(tmp_path, {text: compiled(text)})
    engine.run(
        [Doc("S", "s", 0, f"<a>{'<i><c>1</c></i>' * 3}</a>"), Doc("T", "t", 1, "<b><c>1</c><c>1</c><c>1</c></b>")]
    )
    assert len(engine.answers(text)) == 1 and engine.rout(text) == set()
    assert refused(engine) == [(["S\0s", "T\0t"], [engine.gid[text]], "rout")]


@ENGINES
def test_work_is_bounded_by_query(
    tmp_path: Path, engine_type: type[UnitsEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_STEPS", 100)
    many = "S//a[.//c->x] JOIN {x = y AND x = z, 1 h} T//b[.//c->y][.//c->z]"
    few = "S//a[.//c->x] JOIN {x = y, 1 h} T//b[.//c->y]"
    engine = engine_type(tmp_path, {text: compiled(text) for text in (many, few)})
    leaves = "".join(f"<c>{n % 3}</c>" for n in range(60))
    engine.run([Doc("S", "s", 0, f"<a>{leaves}</a>"), Doc("T", "t", 1, f"<b>{leaves}</b>")])
    assert (["S\0s", "T\0t"], [engine.gid[many]], "steps") in refused(engine)
    assert engine.answers(many) == set() and len(engine.answers(few)) == 1


@pytest.mark.parametrize("engine_type", [UnitsEngine, LocalEngine])
@settings(deadline=None, max_examples=examples(24), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nodes_that_stand_alike_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, engine_type: type[UnitsEngine], data: st.DataObject
) -> None:
    """R_out and matches of documents with many equal nodes, written as lists and one by one."""
    texts = data.draw(st.lists(st.sampled_from(ALIKE), min_size=1, max_size=3, unique=True))
    words = st.sampled_from(["1", "2", "A", "a"])
    node = st.builds(lambda tag, text: f"<{tag}>{text}</{tag}>", st.sampled_from("cd"), words)
    item = st.lists(node, max_size=4).map(lambda nodes: f"<i>{''.join(nodes)}</i>")
    body = st.lists(item | node, max_size=4).map("".join)
    docs = [
        Doc(channel, f"{channel}{at}", at * SECOND, f"<a>{data.draw(body)}</a>") for channel in "ST" for at in range(2)
    ]
    queries = {text: compiled(text) for text in texts}
    found = []
    for plain, few in ((100, 1_000), (0, 0)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(xscl.templates.joins.solve, "_PLAIN", plain)
            patched.setattr(xscl.templates.joins.solve, "_FEW", few)
            engine = engine_type(tmp_path_factory.mktemp("alike"), queries)
            engine.run(docs[:3])
            engine.run(docs[3:])
            found.append([(engine.answers(text), engine.rout(text)) for text in texts])
    assert found[0] == found[1]
    oracle = UnitsEngine(tmp_path_factory.mktemp("one"), queries)
    oracle.run(docs)
    assert found[0] == [(oracle.answers(text), oracle.rout(text)) for text in texts]


ALIKE = [
    "S//a->x[.//c->v] JOIN {v = w, 1 h} T//a->y[.//c->w]",
    "S//a->x[.//c->v] JOIN {v = w AND lower(v) = lower(u), 1 h} T//a->y[.//c->w][.//d->u]",
    "S//a->x[./i[./c->v][./d->t]] JOIN {v = w AND t = u, 1 h} T//a->y[./i[./c->w][./d->u]]",
    "SELECT v FROM S//a->x[.//c->v] JOIN {v = w, 1 h} T//a->y[.//c->w]",
    "S//i->x[./c->v] JOIN {v = w, 1 h} T//i->y[./c->w]",
    "S//a->x[.//c->v] JOIN {v != w, 1 h} T//a->y[.//c->w]",
    "S//a->x[.//c->v][.//c->t] JOIN {v = w AND t < u, 1 h} T//a->y[.//c->w][.//d->u]",
    "S//i//c->v JOIN {v = w, 1 h} T//a->y[.//c->w]",
]


def test_what_is_remembered_of_signatures_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "S//a->r[./b->x] JOIN {x = y, 1 h} T//b->y"
    engine = LocalEngine(tmp_path, {text: compiled(text)})
    docs = [Doc("S", f"s{n}", n, f"<a>{'<c/>' * n}<b>1</b></a>") for n in range(9)] + [Doc("T", "t", 9, "<b>1</b>")]
    monkeypatch.setattr(xscl.templates.joins.resolve, "_MEMO_NUMBERS", 20)
    engine.run(docs)
    resolver = engine.finder._resolver
    assert resolver is not None
    assert len(engine.answers(text)) == 9
    # A row of R_out with a window and a match: five numbers or six a signature.
    assert 1 <= len(resolver._memo) <= 5 and resolver._size <= 26
