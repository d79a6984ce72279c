"""The end of all input: each channel is read once, however many there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from xscl.catalog.tables import CHANNELS, HEARTBEATS
from xscl.intake.heartbeats import end_input
from xscl.registry.channels import add_channel
from xscl.registry.registry import Registry
from xscl.store.home import init_home


@pytest.mark.parametrize("count", [2, 40])
def test_channels_are_read_once_however_many_there_are(tmp_path: Path, count: int) -> None:
    home = init_home(tmp_path / "home")
    for number in range(count):
        add_channel(home.catalog, f"c{number}")
    add_channel(home.catalog, "fed")
    add_channel(home.catalog, "part", of="c0")
    Registry(home.catalog).register("SELECT * FROM c0 PUBLISH fed", name="q")
    whole: Counter[str] = Counter()

    @sa.event.listens_for(home.catalog.engine, "before_cursor_execute")
    def count_reads(connection: object, cursor: object, statement: str, *_: object) -> None:
        words = " ".join(statement.split())
        whole["all"] += words.startswith("SELECT") and "WHERE" not in words and "home" not in words

    with home.catalog.begin() as connection:
        end_input(connection, 5)
        beats = connection.execute(sa.select(HEARTBEATS).order_by(HEARTBEATS.c.place)).all()
        names = set(connection.scalars(sa.select(CHANNELS.c.name)))
    assert sorted(beat.channel for beat in beats) == sorted(f"c{number}" for number in range(count))
    assert "fed" in names and [beat.place for beat in beats] == sorted({beat.place for beat in beats})
    assert whole["all"] <= 4
