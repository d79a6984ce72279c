"""The bundled feeds: one text has the same matches standing, in history, asked once, and in a home that is filled with
another one's events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import xscl
import xscl.demo
from xscl.answers.matches.listing import match_json
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.types import Match, format_time
from xscl.catalog.intake_order import read_last_places
from xscl.engine import Engine
from xscl.store.event_files import events_of

HERE = Path(str(xscl.demo.__file__)).parent
SCRIPT = (HERE / "queries.xscl").read_text(encoding="utf-8").replace(";", " STARTING ALL;")
OF_ROWS = {"fog_then_delay", "late_again"}
OF_LATER = {"no_follow_up", "trending", "silent_mote", "minutes", "rebound"}


def lines(matches: Iterable[Match]) -> list[str]:
    """What ``match list --format ndjson`` prints."""
    return [json.dumps(match_json(match), ensure_ascii=False) for match in matches]


def load(engine: Engine) -> None:
    # Queries about absence, with windows and with steps see nothing from before their registration.
    assert {outcome.name for outcome in engine.load(SCRIPT) if not outcome.ok} == OF_LATER
    for name in OF_ROWS:
        engine.drop(name)


def event_log(engine: Engine) -> list[xscl.Event]:
    """All events of a home in the order in which it took them in."""
    _, last = engine.home.catalog.ask(read_last_places)
    rows = events_of(engine.home, set(range(1, last + 1)), EVENT_SCHEMA.names).sort_by("docid").to_pylist()
    return [xscl.Event(row["channel"], row["id"], format_time(row["ts"]), xml=row["content"]) for row in rows]


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterable[Engine]:
    """A home that has taken in the feeds, and has no query."""
    with xscl.connect(home=tmp_path_factory.mktemp("fed") / "home") as engine:
        for path in sorted((HERE / "corpus").glob("*.gz")):
            # All but the longest, whose entries are in others as well.
            if path.name.endswith((".rss.gz", ".atom.gz")) and "week" not in path.name:
                engine.ingest(path, channel="quakes" if path.name.startswith("earthquakes") else None)
        yield engine


def test_one_text_has_one_answer(fed: Engine, tmp_path: Path) -> None:
    log = event_log(fed)
    assert len(log) > 1_200
    found: dict[str, list[str]] = {}
    with xscl.connect(home=tmp_path / "standing") as engine:
        load(engine)
        engine.ingest(log)
        engine.run_once(batch_docs=500)
        found["standing"] = lines(engine.matches())
        texts = {info.name: info.text for info in engine.queries()}
    with xscl.connect(home=tmp_path / "history") as engine:
        engine.ingest(log[:900])
        engine.run_once()
        load(engine)
        engine.ingest(log[900:])
        engine.run_once(batch_docs=300)
        found["joined in the middle"] = lines(engine.matches())
    asked = [match for name, text in texts.items() for match in fed.query_once(text, name=name)]
    found["asked once"] = lines(sorted(asked, key=lambda match: (match.ts, match.query, match.id)))
    assert not list(fed.queries()) and not list(fed.matches()), "asking writes nothing"
    load(fed)
    fed.run_once()
    found["history"] = lines(fed.matches())
    with xscl.connect(home=tmp_path / "replayed") as engine:
        engine.ingest(event_log(fed))
        engine.run_once()
        load(engine)
        engine.run_once()
        found["replayed"] = lines(engine.matches())
    asking = {json.loads(line)["query"] for line in found["standing"]}
    assert len(asking) >= len(texts) - 2 and len(asking) > 2, texts.keys() - asking
    for way, listed in found.items():
        assert listed == found["standing"], way
