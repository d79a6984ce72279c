"""Row windows and what cannot be counted: published channels, streams; what is said of row windows."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from xscl.answers.explaining.explain import explain
from xscl.base.errors import CatalogError, QueryError

ROWS = "A->x[./k->a] JOIN {a = b, LAST 2 OF x} B[./k->b]"


@pytest.fixture
def engine(tmp_path: Path) -> xscl.Engine:
    return xscl.connect(home=tmp_path / "home")


def test_published_channels_are_not_counted(engine: xscl.Engine) -> None:
    engine.register("S PUBLISH A", name="makes")
    with pytest.raises(CatalogError, match="XSCL_ROW_WINDOW.*queries publish to A"):
        engine.register(ROWS, name="q")
    with pytest.raises(CatalogError, match="XSCL_ROW_WINDOW"):
        engine.query_once(ROWS)
    engine.register(ROWS.replace("LAST 2 OF x", "LAST 2 OF b"), name="of_b")
    with pytest.raises(CatalogError, match="XSCL_ROW_WINDOW.*of_b counts the events of B"):
        engine.register("S PUBLISH B", name="late")
    with pytest.raises(CatalogError, match="XSCL_ROW_WINDOW.*queries publish to"):
        engine.register("(SELECT k FROM S[./k->k])->x[./k->a] JOIN {a = b, LAST 2 OF x} B[./k->b]", name="inner")


def test_streams_are_not_counted(engine: xscl.Engine) -> None:
    engine.add_channel("A", kind="rows", schema="k string")
    engine.add_channel("one", of="A", source="feeds")
    for text in (ROWS.replace("LAST 2 OF x", "1 h"), ROWS):
        stream = text.replace("A->x", "one->x")
        if "LAST" in text:
            with pytest.raises(QueryError, match="XSCL_ROW_WINDOW.*one is a stream"):
                engine.register(stream)
        else:
            engine.register(stream)


@pytest.mark.parametrize(
    ("text", "condition", "at"),
    [
        ("A->x[./k->a] JOIN {a = b, LAST 2 OF x, ONCE} A[./k->b]", "XSCL_ROW_WINDOW", "ONCE"),
        ("A->x[./k->a] JOIN {a = b, LAST 2 OF x} B[./k->b] NEXT C", "XSCL_ROW_WINDOW", "LAST 2 OF x"),
        ("A->x[./k->a] NEXT {LAST 2 OF x} B", "XSCL_STEP", "LAST 2 OF x"),
        ("A->x NEXT B FILTER {LAST 2 OF x}", "XSCL_SYNTAX", "LAST 2 OF x"),
        ("A->x[./k->a] JOIN {a = b, LAST 2 OF x} B[./k->b] ON CHANGE RETRACT", "XSCL_ROW_WINDOW", "LAST 2 OF x"),
        ("A->x[./k->a] JOIN {a = b, LAST 2 OF x} B[./k->b] WITHOUT {1 h} C", "XSCL_ROW_WINDOW", "LAST 2 OF x"),
        ("A[./k->a] WITHOUT {a = b, 1 h, LAST 2 OF a} B[./k->b]", "XSCL_ABSENCE_LIMIT", "LAST 2 OF a"),
        ("A->x[./k->a] JOIN {a = b, LAST 2 OF z} B[./k->b]", "XSCL_UNBOUND_VARIABLE", "z"),
        ("A->x[./k->a] JOIN {a = b, LAST 0 OF x} B[./k->b]", "XSCL_SYNTAX", "0"),
        ("A->x[./k->a] JOIN {a = b, LAST 2 OF 3} B[./k->b]", "XSCL_SYNTAX", "3"),
        ("A->x JOIN {LAST 2 OF x} B", "XSCL_UNTIED_BLOCK", "B"),
    ],
)
def test_refusals_say_where(engine: xscl.Engine, text: str, condition: str, at: str) -> None:
    with pytest.raises(QueryError, match=condition) as refused:
        engine.register(text)
    span = refused.value.span
    assert span is not None and text[span.start : span.end] == at


def test_explain_and_notes_tell_of_rows(engine: xscl.Engine) -> None:
    name = engine.register(ROWS)
    assert any("LAST limits the events of x alone" in note for note in name.notes)
    found = explain(engine.home.catalog, name)
    assert "  JOIN {a = b, LAST 2 OF x}" in found.canonical.splitlines()
    assert found.cases[0].windows[-1] == "x among the newest 2 of A when the last member comes"
    assert "r_ordinal" in found.sql
    assert engine.register(ROWS.replace("LAST 2", "last 2"), name="same") == "same"
    other = engine.register(ROWS.replace("2", "3"))
    assert explain(engine.home.catalog, "same").group == found.group != explain(engine.home.catalog, other).group
