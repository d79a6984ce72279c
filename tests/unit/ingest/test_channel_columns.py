"""Columns of channels are what was taken in: rows as values of Python, items as lxml reads them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from xscl.base.errors import DocumentError
from xscl.ingest.channel_columns import decoded, item_columns, row_columns
from xscl.ingest.item import Feed, Item, Resource, item_document
from xscl.ingest.rows import fit_row, row_cells

SCHEMA = {
    "name": "string",
    "count": "bigint",
    "temp": "double",
    "good": "boolean",
    "price": "decimal",
    "at": "timestamp",
    "day": "date",
    "nothing": None,
}
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"]), max_size=5)
TIMES = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC))
PRICES = st.decimals(-(10**20) + 1, 10**20 - 1, allow_nan=False, places=18)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT,
        "count": st.integers(-(2**63), 2**63 - 1),
        "temp": st.floats(allow_nan=False, allow_infinity=False),
        "good": st.booleans(),
        "price": PRICES,
        "at": TIMES,
        "day": st.dates(),
    },
)


@settings(max_examples=examples(100))
@given(st.lists(ROWS, min_size=1, max_size=6), st.integers(0, 2))
def test_columns_of_rows_are_the_values_that_were_given(rows: list[dict[str, object]], skipped: int) -> None:
    cells = [row_cells(fit_row(row, SCHEMA)[0], element="r") for row in rows]  # type: ignore[arg-type]
    stored = pa.array(cells, pa.list_(pa.string())).slice(skipped)
    for column in row_columns(SCHEMA):
        found = decoded(column, stored).to_pylist()
        assert found == [row.get(str(column.field)) for row in rows[skipped:]], column.name


def test_rows_from_before_a_column_came_do_not_have_it() -> None:
    stored = pa.array([["a"], ["b", "2"], None], pa.list_(pa.string()))
    name, count = row_columns({"name": "string", "count": "bigint"})
    assert decoded(name, stored).to_pylist() == ["a", "b", None]
    assert decoded(count, stored).to_pylist() == [None, 2, None]


@pytest.mark.parametrize("number", ["1" * 21, "9" * 25, "1" * 39, "0." + "1" * 19])
def test_a_decimal_that_does_not_fit_is_refused(number: str) -> None:
    [column] = row_columns({"price": "decimal"})
    assert decoded(column, pa.array([["-1.5"], [None]])).to_pylist() == [Decimal("-1.5"), None]
    with pytest.raises(DocumentError, match=f"'price' holds {number}") as refused:
        decoded(column, pa.array([["1"], [number]]))
    assert refused.value.condition == "XSCL_COLUMN_TYPE"


def test_no_two_columns_have_one_name_in_sql() -> None:
    schema = {"ID": None, "temp": None, "Temp": None, "row_id": None, "row_row_id": None}
    names = [column.name for column in row_columns(schema)]
    assert names == ["row_ID", "temp", "row_Temp", "row_row_id", "row_row_row_id"]
    assert [column.name for column in row_columns(dict(list(schema.items())[:3]))] == names[:3]


WORDS = st.text("aä<&>\"' ]", min_size=1, max_size=8)
LISTS = st.lists(WORDS, max_size=3).map(tuple)
RESOURCES = st.lists(st.builds(Resource, WORDS, st.sampled_from([(), (("type", "a/b"),)])), max_size=2).map(tuple)
ITEMS = st.builds(
    Item,
    item_url=st.none() | WORDS,
    title=st.none() | WORDS,
    authors=LISTS,
    published=st.none() | TIMES,
    description=st.none() | WORDS,
    categories=LISTS,
    links=LISTS,
    content=st.none() | WORDS,
    enclosures=RESOURCES,
)


@settings(max_examples=examples(60))
@given(st.lists(ITEMS, max_size=4))
def test_columns_of_items_are_their_fields(items: list[Item]) -> None:
    feed = Feed("f", title="T & U")
    documents = [etree.tostring(etree.fromstring(item_document(item, feed)), encoding="unicode") for item in items]
    stored = pa.array(documents, pa.string())
    found = {column.name: decoded(column, stored).to_pylist() for column in item_columns()}
    assert found["channel_title"] == ["T & U"] * len(items)
    for name, field in {
        "item_url": "item_url",
        "title": "title",
        "description": "description",
        "content": "content",
    }.items():
        assert found[name] == [getattr(item, field) for item in items], name
    for name, field in {"author": "authors", "category": "categories", "link": "links"}.items():
        assert found[name] == [list(getattr(item, field)) for item in items], name
    assert found["published"] == [item.published for item in items]
    enclosures = [[(one["url"], one["type"]) for one in each] for each in found["enclosure"]]
    assert enclosures == [[(one.url, dict(one.attributes).get("type")) for one in item.enclosures] for item in items]


def test_documents_that_are_no_items_have_no_fields() -> None:
    documents = [
        "<i><title>a</title></i>",
        None,
        "<item><published>soon</published><x/><title>b<i>c</i></title></item>",
    ]
    found = {column.name: decoded(column, pa.array(documents)).to_pylist() for column in item_columns()}
    assert found["title"] == [None, None, "bc"]
    assert found["link"] == [None, None, []]
    assert found["published"] == [None, None, None]


def test_days_and_times_have_their_types() -> None:
    stored = pa.array([["2026-06-01T09:30:00.5Z", "2026-06-01"]])
    at, day = row_columns({"at": "timestamp", "day": "date"})
    assert decoded(at, stored).to_pylist() == [datetime(2026, 6, 1, 9, 30, 0, 500_000, UTC)]
    assert decoded(day, stored).to_pylist() == [date(2026, 6, 1)]
