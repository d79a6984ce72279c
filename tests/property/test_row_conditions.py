"""Conditions on rows, by columns in the engine: the oracle's answers over the documents of the rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from both_sides import ids
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc, answers
from strategies import NAMESPACES

import xscl
from xscl.ingest.rows import row_document
from xscl.language.syntax import parser

TEXTS = (
    "1",
    "1.0",
    "-0",
    "0",
    "1e3",
    "x",
    "X",
    " 1.5 ",
    "",
    "12345678901234567890",
    "12345678901234567891",
    "0.1",
    ".5",
)
CONSTANTS = ("0", "1", "1.5", "0.1", "12345678901234567890", "'1'", "'1.0'", "'x'", "''", "'1e3'")
ROWS = st.lists(st.tuples(*[st.one_of(st.none(), st.sampled_from(TEXTS))] * 3), min_size=1, max_size=8)
NUMERIC = frozenset("d")

COMPARED = st.builds(
    "./{} {} {}".format,
    st.sampled_from("abd"),
    st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
    st.sampled_from(CONSTANTS),
)
CALLED = st.sampled_from(
    ("./a", "./b", "contains(./a, '1')", "starts-with(./b, 'x')", "lower(./a) = 'x'", "normalize-space(./b) = '1.5'")
    + (
        "contains-word(./a, 'X')",
        "contains-word(./b, '1', '0.1')",
        "contains(lower(./b), 'x')",
        "contains(./b, '')",
        "starts-with(./a, '0')",
        "string-length(./a) > 2",
        "string-length(./b) <= 1",
        "string-length(normalize-space(./a)) != 3",
        "count(./b) = 0",
        "count(./a) > 0",
    )
)
CONDITIONS = st.recursive(
    st.one_of(COMPARED, COMPARED, CALLED),
    lambda inner: st.one_of(
        st.builds("not({})".format, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
    ),
    max_leaves=4,
)
QUERIES = st.one_of(
    st.builds("S[{}]".format, CONDITIONS),
    st.builds("S//S->r[{}]".format, CONDITIONS),
    st.builds("S/S[{}]/a->t[. != '1']".format, CONDITIONS),
    st.builds("S//a->t[. {} {}]".format, st.sampled_from(("=", ">", "<=")), st.sampled_from(CONSTANTS)),
)


@settings(max_examples=examples(6), deadline=None)
@given(st.lists(QUERIES, min_size=1, max_size=6), ROWS)
def test_rows_satisfy_what_their_documents_do(texts: list[str], rows: list[tuple[str | None, ...]]) -> None:
    fitted = [{"a": a, "b": b, "d": None if d is None else float(len(d)) / 2} for a, b, d in rows]
    docs = [Doc("S", str(n), n, row_document(row, element="S")) for n, row in enumerate(fitted)]
    queries = {f"q{n}": text for n, text in enumerate(texts)}
    with TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:
        engine.add_channel("S", kind="rows", schema="a string, b string, d double")
        for outcome in engine.register_many(queries.items()):
            # What is refused because it can never hold has no answers either.
            assert outcome.error is None or outcome.error.condition == "XSCL_NEVER_HOLDS", outcome.error
        engine.ingest(xscl.Event("S", doc.id, doc.ts, row=row) for doc, row in zip(docs, fitted, strict=True))
        engine.run_once()
        found: dict[str, set[tuple[str, ...]]] = {name: set() for name in queries}
        for match in engine.matches():
            found[match.query].add(tuple(event.id for event in match.events))
    for name, text in queries.items():
        expected = answers(
            parser.parse_query(text),
            docs,
            numeric={"S": NUMERIC},
            texts={"S": frozenset("ab")},
            namespaces=NAMESPACES,
        )
        assert found[name] == {tuple(row) for row in ids(expected)}, text
