"""Joins of many blocks on Spark: random queries and Juggler's golden data, in small batches and at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from both_sides import channel_facts
from lxml import etree
from oracle.evaluate import Answer, Columns, Doc, answers
from strategies import NAMESPACES, NUMERIC, TEXTS, Dice, many_block_query, plain_stream, row_stream

import xscl
from xscl.base.settings import Settings
from xscl.language.compile import compile_query
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

S = 1_000_000
DECLARED = "DECLARE NAMESPACE n = 'urn:n'; "
RANDOM_QUERIES = 40
ALL_NUMERIC: Columns = {
    **NUMERIC,
    "B": frozenset({"pressure", "temp"}),
    "T": frozenset({"fluct", "degree", "incr"}),
    "H": frozenset({"beatrate", "vib"}),
    "K": frozenset({"fluid"}),
    "ticks": frozenset({"price"}),
}
ALL_TEXTS: Columns = {**TEXTS, "ticks": frozenset({"sym"})}


def rows(channel: str, columns: str, *found: tuple[float | str, ...]) -> list[Doc]:
    """Rows (ts, values…); ids are the channel's letter and a number."""
    docs = []
    for number, (ts, *values) in enumerate(found, start=1):
        inner = "".join(f"<{n}>{v}</{n}>" for n, v in zip(columns.split(), values, strict=True))
        docs.append(Doc(channel, f"{channel[0].lower()}{number}", int(ts) * S, f"<{channel}>{inner}</{channel}>"))
    return docs


GOLDEN_DOCS = [
    *rows("B", "pressure temp", (2, 120, 101), (5, 110, 99), (5, 150, 90), (7, 103, 101), (9, 200, 101)),
    *rows("T", "fluct degree incr", (4, 51.5, 100, 97), (6, 103, 101, 98), (8, 103, 99, 90), (11, 103, 101, 98)),
    *rows("H", "beatrate vib", (3, 52, 98), (5, 50, 98), (6, 60, 98), (8, 52, 90), (11, 70, 95)),
    *rows("K", "fluid", (3, 100), (6, 150), (10, 75)),
    *rows(
        "ticks",
        "sym price",
        *((1, "IBM", 100), (2, "MSFT", 50), (3, "IBM", 103), (4, "MSFT", 51), (6, "IBM", 104)),
        *((7, "IBM", 99), (9, "MSFT", 52), (10, "IBM", 106), (13, "IBM", 110)),
    ),
    Doc("news", "item", 5 * S, "<item><symbol>IBM</symbol></item>"),
]
GOLDEN = {
    "G2-Q1": (
        "B->b[./pressure->p][./temp->e] JOIN {e > v, MAXWINDOW 4 s} H[./beatrate = 52][./vib->v] JOIN {} K "
        "JOIN {p > f, t - b IN [1 s, UNBOUNDED]} T->t[./fluct->f]",
        9,
    ),
    "G2-Q2": (
        "SELECT p, f, h FROM B->b[./pressure->p] JOIN {f < 0.5 * p AND f * 2 = 103, MAXWINDOW 6 s, "
        "b - t IN [1 s, UNBOUNDED]} T->t[./fluct->f] JOIN {h - b IN [0 s, UNBOUNDED]} H->h",
        6,
    ),
    "G2-Q3": (
        "T->t[./fluct = 103][./incr->i] JOIN {i = v, MAXWINDOW 5 s, t - h IN [1 s, UNBOUNDED]} H->h[./vib->v]",
        3,
    ),
    "G6-S1": (
        "ticks->a[./sym = 'IBM'][./price->p] FOLLOWED BY {1 s..5 s} ticks->b[./sym = 'MSFT'] "
        "FOLLOWED BY {q >= 1.02 * p, 0 s..3 s, MAXWINDOW 6 s} ticks->c[./sym = 'IBM'][./price->q]",
        3,
    ),
    "G6-S2": (
        "ticks->a[./sym = 'IBM'][./price->p] JOIN {b - a IN [1 s, 5 s]} ticks->b[./sym = 'MSFT'] "
        "JOIN {q >= 1.02 * p, c - b IN [0 s, UNBOUNDED], c - a IN [0 s, 2 s]} ticks->c[./sym = 'IBM'][./price->q]",
        1,
    ),
    "G13": (
        "ticks[./sym->s][./price->p] FOLLOWED BY {s = i, 1 s..5 s} news/item[./symbol->i] "
        "FOLLOWED BY {i = s' AND q >= 1.02 * p, 1 s..5 s} ticks[./sym->s'][./price->q]",
        3,
    ),
}


def random_docs(choose: Dice) -> list[Doc]:
    """Documents of S and X and rows of R and Q, the first of which have all columns, because they fix the schema."""
    documents = [replace(d, channel={"T": "X"}.get(d.channel, d.channel)) for d in plain_stream(choose, 10, 10)]
    others = [d for d in row_stream(choose, 12, 12) if d.channel != "S"]
    first = [
        Doc("R", "first", S, "<R><m>1</m><n>2</n><s>x</s></R>"),
        Doc("Q", "first", 2 * S, "<Q><n>1</n><s>x</s><t>1</t></Q>"),
    ]
    # Doubles do not hold these.
    plain = [replace(d, id=f"row-{d.id}", xml=re.sub(r"\d{16}", "7", d.xml)) for d in others]
    return first + [replace(d, item=None) for d in documents] + plain


def random_queries(choose: Dice) -> list[str]:
    """Distinct queries that can be registered."""
    facts = channel_facts(ALL_NUMERIC, ALL_TEXTS)
    found: dict[str, None] = {}
    while len(found) < RANDOM_QUERIES:
        text = many_block_query(
            choose, ("S", "X", "S", "X", "R", "Q"), least=3, constructors=hasattr(ast, "Constructor")
        )
        try:
            compile_query(parse_query(text), text, namespaces=NAMESPACES, channels=facts)
        except xscl.QueryError as refused:
            assert refused.condition == "XSCL_UNSATISFIABLE_WINDOW", text
        else:
            found[text] = None
    return list(found)


def event(doc: Doc) -> xscl.Event:
    if doc.channel not in {*ALL_NUMERIC, *ALL_TEXTS}:
        return xscl.Event(doc.channel, doc.id, doc.ts / 1e6, xml=doc.xml)
    numeric = ALL_NUMERIC.get(doc.channel, frozenset())
    columns = {str(column.tag): column.text or "" for column in etree.fromstring(doc.xml)}
    row = {name: float(value) if name in numeric else value for name, value in columns.items()}
    return xscl.Event(doc.channel, doc.id, doc.ts / 1e6, row=row)


def found(engine: Engine) -> dict[str, dict[str, Answer]]:
    """Query to match id to documents and nodes, from the relations that SQL shows."""
    known = {row.docid: (row.channel, row.id) for row in engine.sql("SELECT docid, channel, id FROM events").collect()}
    answered: dict[str, dict[str, Answer]] = {}
    for row in engine.sql("SELECT match, qid, docids, nodes FROM matches").collect():
        of_query = answered.setdefault(row.qid, {})
        assert row.match not in of_query, "a match was emitted twice"
        of_query[row.match] = (tuple(known[docid] for docid in row.docids), tuple(row.nodes))
    return answered


@pytest.fixture(scope="module")
def workload() -> tuple[dict[str, str], list[Doc], dict[str, set[Answer]]]:
    choose = Dice(17)
    docs = [*random_docs(choose), *GOLDEN_DOCS]
    texts = {f"Q{i}": text for i, text in enumerate(random_queries(choose))}
    texts |= {name: text for name, (text, _) in GOLDEN.items()}
    expected = {
        name: answers(parse_query(text), docs, numeric=ALL_NUMERIC, texts=ALL_TEXTS, namespaces=NAMESPACES)
        for name, text in texts.items()
    }
    assert {name: len(expected[name]) for name in GOLDEN} == {name: count for name, (_, count) in GOLDEN.items()}
    assert sum(len(expected[name]) > 0 for name in expected if name not in GOLDEN) >= 10
    return texts, docs, expected


def shuffled(docs: Sequence[Doc]) -> list[Doc]:
    """Out of order, but for the first rows."""
    rest = list(docs[2:])
    Dice(1).random.shuffle(rest)
    return [*docs[:2], *rest]


@pytest.mark.parametrize(
    ("batch_docs", "sizes"),
    [(15, Settings("spark")), (1000, Settings("spark")), (3, Settings())],
)
def test_many_blocks_equal_the_oracle_for_all_cuts(
    batch_docs: int,
    sizes: Settings,
    workload: tuple[dict[str, str], list[Doc], dict[str, set[Answer]]],
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    texts, docs, expected = workload
    with xscl.connect(home=tmp_path / "home", spark=spark, settings=sizes) as engine:
        outcomes = engine.register_many((name, DECLARED + text) for name, text in texts.items())
        assert [outcome for outcome in outcomes if not outcome.ok] == []
        report = engine.ingest([event(doc) for doc in shuffled(docs)])
        assert (report.taken, report.rejected) == (len(docs), 0)
        reports = engine.run_once(batch_docs=batch_docs)
        assert {report.joined_in for report in reports} == {"spark" if sizes.where == "spark" else "driver"}
        in_sql = found(engine)
        for name, answer in expected.items():
            assert set(in_sql.get(name, {}).values()) == answer, (name, texts[name])
        listed = {(m.query, m.id, tuple((e.channel, e.id) for e in m.events)) for m in engine.matches()}
        assert listed == {(q, match, members) for q, of_q in in_sql.items() for match, (members, _) in of_q.items()}
