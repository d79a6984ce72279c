"""What is in the stored home of schema 8, beyond what that of schema 7 has; made with the version that had that schema.

``fill`` made ``tests/data/home-schema-8.tar.gz``; a test has this version take the same records into a home of its own.
"""

from __future__ import annotations

from pathlib import Path

import home_of_schema_7

from xscl.engine import Engine
from xscl.types import Event

MORE = {
    "lag": "early/e->x JOIN {x = y, 5 s} early/e->y",
    "copies": "early/e PUBLISH copied STARTING ALL",
    "copied": "copied/e->x FOLLOWED BY {4 s} early/e->y STARTING ALL",
}


def _early(id_: str, ts: float) -> Event:
    return Event("early", id_, ts, xml="<e>1</e>")


def fill(engine: Engine, folder: Path) -> None:
    """Late events of which one is taken again, answers from what is held, events that have gone."""
    home_of_schema_7.fill(engine, folder)
    engine.add_channel("early", lateness="5 s", idle="1 h", retention="20 s")
    engine.register(MORE["lag"], name="lag")
    for number, ts in enumerate((1.0, 30.0, 10.0, 60.0, 52.0, 61.0, 62.0, 63.0, 64.0, 65.0, 66.0)):
        engine.ingest([_early(f"y{number}", ts)])
        engine.run_once()
        if number == 2:
            engine.replay_late(ids=["y2"])
    for name in ("copies", "copied"):
        engine.register(MORE[name], name=name)
    engine.run_once()


def more(engine: Engine, folder: Path) -> None:
    """What comes later."""
    home_of_schema_7.more(engine, folder)
    engine.ingest([_early("z1", 67.0), _early("z2", 64.5), _early("z3", 58.0)])
    engine.run_once()
    engine.replay_late(ids=["z3"])
    engine.run_once()
