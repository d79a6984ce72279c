"""Items of feeds that listings show: those in sight, each in its newest version, whenever upkeep deletes others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.answers.item_listing import ItemFilter, find_item, item_page, item_rows
from xscl.base.errors import CatalogError
from xscl.engine import Engine
from xscl.registry.channels import set_channel


def item(number: int, ts: int, text: str = "") -> xscl.Event:
    return xscl.Event("items", f"i{number}", ts, xml=f"<item><title>t{number} {text}</title></item>", feed="f")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def test_items_beyond_their_retention_are_out_of_sight_at_once(engine: Engine) -> None:
    engine.register("items->x", name="q")
    engine.ingest(item(number, number) for number in range(6))
    engine.run_once()
    set_channel(engine.home.catalog, "items", retention="2 s")
    engine.ingest([item(6, 6), item(1, 5, "new")])
    engine.run_once()
    engine.ingest([item(7, 0)])  # waits for a batch
    shown = ["i6", "i1#2", "i5", "i4", "i7"]
    assert {match.events[0].id for match in engine.matches()} == {*shown} - {"i7"}
    assert [row["item"] for row in item_rows(engine.home, ItemFilter())] == shown
    paged, after = [], None
    while True:
        rows, after = item_page(engine.home, ItemFilter(after=after), 2)
        paged += [row["item"] for row in rows]
        if after is None:
            break
    assert paged == shown
    assert find_item(engine.home, "i1")[0]["version"] == 2
    with pytest.raises(CatalogError, match="there is no item 'i3'"):
        find_item(engine.home, "i3")
