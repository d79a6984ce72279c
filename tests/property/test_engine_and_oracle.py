"""The engine's kernels against the oracle: random queries, random documents, random cuts into batches."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers
from oracle.nodes import NAMESPACES
from strategies import event_streams, one_block_queries, two_block_queries

from xscl.base.types import Event
from xscl.base.values import number_text
from xscl.engine import connect
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query

RELAXED = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def cut(docs: list[Doc], places: list[int]) -> list[list[Doc]]:
    ends = sorted({0, len(docs), *(place % (len(docs) + 1) for place in places)})
    return [docs[a:b] for a, b in pairwise(ends)]


@RELAXED
@given(
    texts=st.lists(two_block_queries(), min_size=1, max_size=4),
    docs=event_streams(late=True),
    places=st.lists(st.integers(0, 20), max_size=3),
    draw=st.data(),
)
def test_two_blocks(
    texts: list[str],
    docs: list[Doc],
    places: list[int],
    draw: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check(texts, docs, places, tmp_path_factory.mktemp("engine"), draw)


@RELAXED
@given(
    texts=st.lists(one_block_queries(), min_size=1, max_size=5),
    docs=event_streams(late=True),
    places=st.lists(st.integers(0, 20), max_size=3),
    draw=st.data(),
)
def test_one_block(
    texts: list[str],
    docs: list[Doc],
    places: list[int],
    draw: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check(texts, docs, places, tmp_path_factory.mktemp("engine"), draw)


def check(texts: list[str], docs: list[Doc], places: list[int], folder: Path, draw: st.DataObject) -> None:
    queries = {text: compiled(text) for text in texts}
    sizes = {
        "pair_limit": draw.draw(st.integers(-1, 9)),
        "spare": draw.draw(st.sampled_from([0, 3, 1 << 20])),
        "hashes": draw.draw(st.sampled_from([0, 1, 4])),
    }
    chunk = draw.draw(st.sampled_from([1, 4, 1 << 20]))
    told = draw.draw(st.sampled_from([0, 2, 1 << 20]))
    seed = draw.draw(st.integers(0, 255))
    for engine in (UnitsEngine(folder, queries, seed=seed, **sizes), LocalEngine(folder, queries, **sizes)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("xscl.templates.joins.meet._CHUNK", chunk)
            patch.setattr("xscl.templates.joins.meet.LEAST_TOLD", told)
            for batch in cut(docs, places):
                engine.run(batch)
        for text in texts:
            expected = answers(parse_query(text), docs, namespaces={**NAMESPACES, "n": "urn:n"})
            assert engine.answers(text) == expected, (text, type(engine), sizes, seed, chunk, told)


@pytest.mark.parametrize(
    "atom",
    [
        "x > 0.00001",
        "x < 0.00005",
        "x = 9007199254740993",
        "x != 9007199254740993",
        "lower(x) != 5",
        "lower(x) = 'abc'",
        "lower(host(x)) != 'a'",
        "host(x) = 'e.org'",
        "url(x) != 'https://e.org'",
        "x != 5",
        "x = '1.0'",
        "x >= '1'",
        "1 <= x",
        "normalize-space(x) = 'a b'",
        "x = 1/3",
    ],
)
def test_atoms_with_a_constant(atom: str, tmp_path: Path) -> None:
    values = ["1", "1.0", "0.00002", "abc", "9007199254740992", "9007199254740993", "http://e.org/", " a  b ", ""]
    docs = [Doc("S", f"e{i}", i * 1_000_000, f"<r><a>{value}</a></r>") for i, value in enumerate(values * 2)]
    text = f"S//a->x JOIN {{x = y AND {atom}, 1 h}} S//a->y"
    for kind in (UnitsEngine, LocalEngine):
        engine = kind(tmp_path, {text: compiled(text)})
        engine.run(docs)
        assert engine.answers(text) == answers(parse_query(text), docs)


@pytest.mark.parametrize("pair_limit", [-1, 1 << 40])
def test_documents_with_several_values_in_common_match_once(pair_limit: int, tmp_path: Path) -> None:
    docs = [Doc("S", f"e{i}", i, "<b><a>x</a><a>y</a></b>") for i in range(4)]
    text = "SELECT * FROM S//b->x[.//a->p] FOLLOWED BY{p=q, 5} S//b->y[.//a->q]"
    engine = LocalEngine(tmp_path, {text: compiled(text)}, pair_limit=pair_limit)
    for batch in (docs[:1], docs[1:2], docs[2:]):
        engine.run(batch)
    assert engine.answers(text) == answers(parse_query(text), docs)
    assert len(engine.answers(text)) == 6


@pytest.mark.parametrize("op", ["=", "!="])
def test_numeric_columns(op: str, tmp_path: Path) -> None:
    values = ["1", "1.0", "01", "x", "", "12345678901234567890", "12345678901234567891"]
    docs = [
        Doc(channel, f"{channel}{i}", i, f"<r><a>{value}</a></r>")
        for channel in "ST"
        for i, value in enumerate(values)
        if channel == "T" or number_text(value)
    ]
    text = f"S//a->x JOIN {{x {op} y, 1 h}} T//a->y"
    facts = {"S": ChannelFacts("rows", frozenset({"a"})), "T": ChannelFacts("xml")}
    for kind in (UnitsEngine, LocalEngine):
        engine = kind(tmp_path, {text: compiled(text, facts)})
        engine.run(docs)
        assert engine.answers(text) == answers(parse_query(text), docs, numeric={"S": frozenset({"a"})})
        assert engine.answers(text)


@pytest.mark.parametrize("op", ["=", "!="])
@pytest.mark.parametrize("left", ["S[./*->x]", "S/*/*->x", "S/r//*->x", "S[.//*->x]"])
def test_numeric_columns_that_any_name_reaches(left: str, op: str, tmp_path: Path) -> None:
    docs = [Doc("S", f"S{i}", i, f"<r><a>{i}</a><b>{i}.5</b></r>") for i in range(3)]
    docs += [Doc("T", f"T{i}", i, f"<r><a>{value}</a></r>") for i, value in enumerate(("1.0", "02", "1.50", "x", ""))]
    text, alone = f"{left} JOIN {{x {op} y, 1 h}} T//a->y", f"{left} JOIN {{x = '1.0' AND x != y}} T//a->y"
    numeric = {"S": frozenset({"a", "b"})}
    facts = {"S": ChannelFacts("rows", numeric["S"]), "T": ChannelFacts("xml")}
    for kind in (UnitsEngine, LocalEngine):
        engine = kind(tmp_path, {each: compiled(each, facts) for each in (text, alone)})
        engine.run(docs)
        for each in (text, alone):
            assert engine.answers(each) == answers(parse_query(each), docs, numeric=numeric) != set(), each


def test_rows_whose_columns_any_name_reaches(tmp_path: Path) -> None:
    """A row's columns become known with the first row, after the query was registered."""
    with connect(home=tmp_path / "home") as engine:
        engine.register("R[./*->x] JOIN {x = y, 1 h} T/t->y", name="Q")
        engine.register("R[./*->x] JOIN {x != y, 1 h} T/t->y", name="N")
        engine.ingest([Event("T", "t", 1, xml="<t>5.0</t>")])
        engine.run_once()
        engine.ingest([Event("R", "r", 2, row={"a": 5, "b": 6.5}), Event("R", "s", 3, row={"a": 1, "b": 2.5})])
        engine.run_once()
        assert [[event.id for event in match.events] for match in engine.matches("Q")] == [["r", "t"]]
        assert [[event.id for event in match.events] for match in engine.matches("N")] == [["r", "t"], ["s", "t"]]
