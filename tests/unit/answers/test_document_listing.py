"""Documents that the home shows one by one: the latest ones of a channel are those that it counts."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import xscl
from xscl.answers.channel_listing import channel_rows
from xscl.answers.channel_paths import channel_paths
from xscl.answers.document_listing import held_document, latest_documents
from xscl.base.errors import CatalogError
from xscl.engine import Engine
from xscl.registry.channels import set_channel


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def counted(engine: Engine, channel: str) -> object:
    return next(row["events"] for row in channel_rows(engine.home.catalog) if row["channel"] == channel)


def test_rows_without_ids_of_their_own_are_shown(engine: Engine, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("at,k\n" + "".join(f"2026-01-01T00:00:0{number}Z,{number}\n" for number in range(6)))
    engine.register("R->x[./k = 4]", name="q")
    engine.ingest(table, channel="R", ts="at")
    engine.ingest([{"channel": "R", "id": "named", "ts": 1, "row": {"at": "2026-01-01T00:00:09Z", "k": 9}}])
    engine.run_once()
    shown = latest_documents(engine.home, "R", 100)
    assert len(shown) == counted(engine, "R") == 7
    assert [held.row for held in latest_documents(engine.home, "R", 3)] == [held.row for held in shown[:3]]
    assert [held.id for held in shown[:2]] == ["named", shown[1].id] and '"k": 5' in str(shown[1].row)
    (match,) = engine.matches("q")
    assert held_document(engine.home, "R", match.events[0].id).row == shown[2].row
    assert channel_paths(engine.home, "R", 1) == [("/R", 7)]
    with pytest.raises(CatalogError, match="holds no event"):
        held_document(engine.home, "R", "rows.csv:7")


def test_numbers_of_rows_are_shown_digit_by_digit(engine: Engine) -> None:
    engine.add_channel("R", kind="rows", schema="m decimal, d double, b boolean, s string, n bigint")
    row = {"m": Decimal("1234567890123456789.12"), "d": 0.5, "b": True, "s": "7é"}
    engine.ingest([xscl.Event("R", "e", 1, row=row)])
    (shown,) = latest_documents(engine.home, "R", 1)
    assert shown.row == '{"m": 1234567890123456789.12, "d": 0.5, "b": true, "s": "7é", "n": null}'


def test_an_event_of_several_streams_is_shown_once(engine: Engine) -> None:
    for stream in ("a", "b", "c"):
        engine.add_channel(stream, of="S", source="wire")
    engine.ingest(xscl.Event(stream, "e", 1, xml="<e/>") for stream in ("a", "b"))
    engine.ingest([xscl.Event("c", "e", 1, xml="<e/>")])
    engine.run_once()
    assert len(latest_documents(engine.home, "S", 9)) == counted(engine, "S") == 1


def test_documents_beyond_their_retention_are_out_of_sight_at_once(engine: Engine) -> None:
    engine.ingest(xscl.Event("S", f"e{ts}", ts, xml="<e/>") for ts in range(5))
    set_channel(engine.home.catalog, "S", retention="2 s")
    engine.run_once()
    engine.ingest([xscl.Event("S", "waits", 0, xml="<e/>")])
    assert [held.id for held in latest_documents(engine.home, "S", 9)] == ["waits", "e4", "e3", "e2"]
    with pytest.raises(CatalogError, match="holds no event"):
        held_document(engine.home, "S", "e1")
