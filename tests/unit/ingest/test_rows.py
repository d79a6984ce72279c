"""Schemas, rows and their documents."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base.errors import DocumentError, SourceError
from xscl.base.safe_xml import parse_xml
from xscl.ingest.rows import COLUMN_TYPES, fit_row, infer_schema, parse_schema, row_document


def check_misfit(row, schema, *words):
    with pytest.raises(DocumentError) as caught:
        fit_row(row, schema)
    assert caught.value.condition == "XSCL_ROW_SCHEMA"
    for word in words:
        assert word in caught.value.message


def test_schema_text():
    assert parse_schema("room string, temp double") == {"room": "string", "temp": "double"}
    assert parse_schema("a INT,b Integer,c long,d float,e text,f varchar,g bool,h bigint,i boolean") == {
        **dict.fromkeys("abc", "bigint"),
        "d": "double",
        **dict.fromkeys("ef", "string"),
        "g": "boolean",
        "h": "bigint",
        "i": "boolean",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["expected a column and its type"]),
        ("room", ["'room'"]),
        ("room string,", ["''"]),
        ("room string temp double", ["'room string temp double'"]),
        ("room money", ["'room'", "unknown type 'money'"]),
        ("1a string", ["'1a'"]),
        ("a/b string", ["'a/b'"]),
        ("a² string", ["'a²'"]),
        ("a int, a string", ["'a' is given twice"]),
    ],
)
def test_bad_schemas(text, words):
    with pytest.raises(SourceError) as caught:
        parse_schema(text)
    assert caught.value.condition == "XSCL_BAD_SCHEMA"
    for word in (*words, *COLUMN_TYPES):
        assert word in caught.value.message


def test_inferred_schema():
    row = {"s": "x", "i": 1, "f": 1.5, "d": Decimal("2.5"), "b": True, "n": None}
    assert infer_schema(row) == {
        "s": "string",
        "i": "bigint",
        "f": "double",
        "d": "double",
        "b": "boolean",
        "n": None,
    }


@pytest.mark.parametrize("row", [{}, {"a b": 1}, {"1": 1}, {"": 1}, {"a": [1]}, {"a": b"x"}])
def test_rows_that_fix_no_schema(row):
    with pytest.raises(DocumentError) as caught:
        infer_schema(row)
    assert caught.value.condition == "XSCL_ROW_SCHEMA"


def test_fitted_rows_have_the_order_of_the_schema():
    row, schema = fit_row({"b": 1, "a": "x"}, {"a": "string", "b": "bigint", "c": "double"})
    assert list(row.items()) == [("a", "x"), ("b", 1), ("c", None)]
    assert schema == {"a": "string", "b": "bigint", "c": "double"}


def test_the_first_value_fixes_a_column():
    schema = infer_schema({"a": None, "b": 1})
    row, same = fit_row({"a": None, "b": 2}, schema)
    assert same == schema
    row, refined = fit_row({"a": 1.5}, schema)
    assert refined == {"a": "double", "b": "bigint"} and schema["a"] is None and row == {"a": 1.5, "b": None}
    check_misfit({"a": "x"}, refined, "'a'", "expected double", "found string 'x'")


def test_integers_fit_doubles():
    row, _ = fit_row({"a": 3}, {"a": "double"})
    assert row == {"a": 3.0} and isinstance(row["a"], float)
    assert fit_row({"a": Decimal("1.5")}, {"a": "double"})[0] == {"a": 1.5}


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (3.0, "bigint", "double"),
        (Decimal(3), "bigint", "double"),
        (True, "bigint", "boolean"),
        (True, "double", "boolean"),
        (True, "string", "boolean"),
        (1, "boolean", "bigint"),
        (1, "string", "bigint"),
        (1.5, "string", "double"),
        ("1", "bigint", "string"),
        ("1", "double", "string"),
        ("true", "boolean", "string"),
        (2**63, "bigint", str(2**63)),
        (math.nan, "double", "nan"),
        (math.inf, "double", "inf"),
        (Decimal("NaN"), "double", "NaN"),
        (Decimal("1e999"), "double", "1E+999"),
        (10**400, "double", "1000"),
        ([1], "string", "list"),
    ],
)
def test_misfits(value, kind, found):
    check_misfit({"c": value}, {"c": kind}, "'c'", kind, found)


def test_integers_too_long_to_write_are_refused():
    check_misfit({"c": 10**5000}, {"c": "bigint"}, "'c'", "very many digits")
    check_misfit({"c": 10**5000}, {"c": "double"}, "'c'", "very many digits")


def test_not_a_number_fixes_nothing():
    check_misfit({"c": math.nan}, {"c": None}, "'c'", "finite double", "nan")


def test_unknown_columns():
    check_misfit({"d": 1}, {"a": "string", "b": None}, "'d' is unknown", "expected a, b")


def test_document():
    row = {"s": "a<b & 'c' \"d\" ]]>", "i": 101, "f": 101.5, "g": 3.0, "b": False, "n": None, "e": ""}
    root = parse_xml(row_document(row, element="ticks"))
    assert root.tag == "ticks"
    assert [(child.tag, child.text or "") for child in root] == [
        ("s", row["s"]),
        ("i", "101"),
        ("f", "101.5"),
        ("g", "3"),
        ("b", "false"),
        ("e", ""),
    ]


@pytest.mark.parametrize("bad", ["\x00", "a\x1f", "\ufffe", "\ud800"])
def test_text_that_xml_cannot_hold(bad):
    with pytest.raises(DocumentError) as caught:
        row_document({"a": "fine", "b": bad}, element="r")
    assert caught.value.condition == "XSCL_MALFORMED_DOCUMENT" and "'b'" in caught.value.message


@pytest.mark.parametrize("name", ["²", "a b", "", "1", "a:b"])
def test_names_that_xml_cannot_hold(name):
    with pytest.raises(DocumentError) as caught:
        row_document({"a": 1}, element=name)
    assert caught.value.condition == "XSCL_MALFORMED_DOCUMENT"


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.decimals()


@given(st.dictionaries(st.text("ab_1-.é²", min_size=1, max_size=4), _SCALARS, max_size=4))
def test_a_row_is_refused_or_comes_back(row):
    try:
        fitted, schema = fit_row(row, infer_schema(row))
        root = parse_xml(row_document(fitted, element="r"))
    except DocumentError:
        return
    assert fit_row(fitted, schema) == (fitted, schema)
    assert [child.tag for child in root] == [name for name in row if row[name] is not None]
    for name, value in row.items():
        if isinstance(value, str):
            assert (root.findtext(name) or "") == value
