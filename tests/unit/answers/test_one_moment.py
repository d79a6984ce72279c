"""Answers that are made of several questions to the catalogue: all parts are of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from xscl.answers import document_listing
from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.templates import template_facts, template_text
from xscl.base.types import Event
from xscl.catalog.catalog import Catalog
from xscl.engine import Engine
from xscl.store.home import init_home

TEXTS = {
    "plain": "S//a[./n > 5]",
    "joined": "S//a->x[./b->y] FOLLOWED BY {y=z, 1 h} S//c->w[./b->z]",
    "absent": "S//a->x NOT FOLLOWED BY {x = y, 30 min} T//b->y",
    "steps": "S//a->x NEXT {x = y} S//a->y NEXT {y = z} S//a->z",
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(init_home(tmp_path / "home")) as opened:
        for name, text in TEXTS.items():
            opened.register(text, name=name)
        opened.ingest([Event("S", "1", 1, xml="<a/>")])
        opened.run_once()
        yield opened


@contextmanager
def transactions(catalog: Catalog) -> Iterator[list[str]]:
    """Collect the beginnings of transactions."""
    begun: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("begin"):
            begun.append(statement)

    sa.event.listen(catalog.engine, "before_cursor_execute", note)
    yield begun
    sa.event.remove(catalog.engine, "before_cursor_execute", note)


@pytest.mark.parametrize("name", [*TEXTS])
def test_an_explanation_is_of_one_moment(engine: Engine, name: str) -> None:
    catalog = engine.home.catalog
    with transactions(catalog) as begun:
        found = explain(catalog, name)
    assert found.queries_in_group == 1 and found.names_in_group == (name,)
    assert len(begun) == 1


def test_facts_of_a_template_are_of_one_moment_and_of_live_queries(engine: Engine) -> None:
    catalog = engine.home.catalog
    id_ = explain(catalog, "joined").template
    for tell in (template_facts, template_text):
        with transactions(catalog) as begun:
            assert "joined" in str(tell(catalog, id_))
        assert len(begun) == 1


@pytest.mark.parametrize("way", ["latest", "held"])
def test_documents_are_of_the_moment_in_which_they_were_found(
    engine: Engine, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: list[int] = []
    whole = document_listing.read_channels

    def noted(connection: Any) -> Any:
        at.append(len(begun))
        return whole(connection)

    monkeypatch.setattr(document_listing, "read_channels", noted)
    with transactions(engine.home.catalog) as begun:
        if way == "latest":
            (found,) = document_listing.latest_documents(engine.home, "S", 5)
        else:
            found = document_listing.held_document(engine.home, "S", "1")
    assert found.document == "<a/>"
    assert at == [1], "channels are read in the transaction that finds the documents"
