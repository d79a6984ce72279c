"""A batch as a whole: three sources of witnesses, one read of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

import xscl
from xscl.base.failpoints import hooked
from xscl.base.types import Event
from xscl.batches.report import BatchReport
from xscl.catalog.catalog import Catalog
from xscl.catalog.queries import read_live_feeds
from xscl.engine import Engine
from xscl.ingest.records import Heartbeat
from xscl.store import watermarks
from xscl.store.late_events import LateChoice, take_again
from xscl.upkeep.health import examine_home

QUERY = "S/a/k->x JOIN {x = y, 1 h} T/b/k->y"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as engine:
        for channel in "ST":
            engine.add_channel(channel, lateness="1 minute", clock="c")
        yield engine


def s(id_: str, ts: int) -> Event:
    return Event("S", id_, ts, xml="<a><k>1</k></a>")


def t(id_: str, ts: int) -> Event:
    return Event("T", id_, ts, xml="<b><k>1</k></b>")


def by_events(engine: Engine) -> None:
    engine.register(QUERY, name="q")
    engine.ingest([s("s", 10)])
    engine.run_once()
    engine.ingest([t("t", 20)])


def by_history(engine: Engine) -> None:
    engine.ingest([s("s", 10), t("t", 20)])
    engine.run_once()
    engine.register(f"{QUERY} STARTING ALL", name="q")


def by_replay(engine: Engine) -> None:
    engine.register(QUERY, name="q")
    engine.ingest([s("s", 10), s("later", 5000), t("t", 20)])
    engine.run_once()
    take_again(engine.home, LateChoice(ids=("t",)))


def test_a_call_returns_however_fast_events_come(engine: Engine) -> None:
    engine.register("S/a", name="q")
    engine.ingest([s("0", 10), s("1", 11)])
    told = []

    def then(report: BatchReport) -> None:
        told.append(report)
        engine.ingest([s(f"{len(told) + 1}", 20)])

    engine.run_once(batch_docs=1, then=then, stop=lambda: len(told) > 5)
    assert len(told) == 2, "two events were there when it was called"
    (last,) = engine.run_once()
    assert last.events == 2


@pytest.mark.parametrize(
    ("prepare", "most"),
    [(by_events, 4), (by_history, 8), (by_replay, 9)],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_each_source_of_witnesses_finds_the_match_and_reads_little(
    prepare: Callable[[Engine], None], most: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch reads the catalogue once at its beginning, channels once more, and commits."""
    prepare(engine)
    monkeypatch.setattr(engine._upkeep, "beside", lambda: nullcontext(lambda: None))
    opened = 0
    connected = Catalog._connected

    def counted(catalog: Catalog) -> object:
        nonlocal opened
        opened += 1
        return connected(catalog)

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "_connected", counted)
        (report,) = engine.run_once()
    assert (report.matches, report.joined_in) == (1, "driver")
    assert opened <= most, opened
    found = [[event.id for event in match.events] for match in engine.matches() if match.query == "q"]
    assert ["s", "t"] in found


def test_channels_that_come_meanwhile_fail_no_batch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a batch reads together is of one moment, so a channel is new in all of it or in nothing."""
    by_events(engine)
    names = count()

    def after_another(connection: Connection) -> object:
        engine.ingest([Event(f"new{next(names)}", "e", 1, xml="<a/>")])
        return read_live_feeds(connection)

    monkeypatch.setattr(watermarks, "read_live_feeds", after_another)
    assert sum(report.matches for report in engine.run_once(stop=lambda: next(names) > 20)) == 1


_UNMATCHED = {
    "a join": (QUERY,),
    "history": (f"{QUERY} STARTING ALL",),
    "absence": ("S/a/k->x NOT FOLLOWED BY {x = y, 5 s} T/b/k->y CONSISTENCY STRONG",),
    "steps": ("S/a/k->x NEXT {x = y} T/b/k->y",),
    "a window": ("SELECT x, count() AS n FROM S/a/k->x WINDOW 1 h EVERY 1 h GROUP BY x",),
    "documents": ("SELECT <b>{x}</b> FROM S/a/k->x PUBLISH P", "P/b/k->x JOIN {x = y, 1 h} T/b/k->y"),
}


@pytest.mark.parametrize("where", ["batch.commit", "batch.committed", "batch.done"])
@pytest.mark.parametrize("texts", _UNMATCHED.values(), ids=_UNMATCHED)
def test_a_batch_without_matches_is_whole_wherever_it_is_interrupted(
    tmp_path: Path, texts: tuple[str, ...], where: str
) -> None:
    """What the last batch has written stays if it is committed, although the process learns of it too late."""

    def interrupt(step: str) -> None:
        if step == where:
            raise KeyboardInterrupt

    found, left = [], []
    for root in (tmp_path / "left alone", tmp_path / "interrupted"):
        with xscl.connect(home=root) as engine:
            for channel in "ST":
                engine.add_channel(channel, lateness="1 minute", clock="c")
            if "ALL" not in texts[0]:
                engine.register_many((f"q{number}", text) for number, text in enumerate(texts))
            engine.ingest([s("s", 10), Heartbeat("S", 0, "here")])
            if "ALL" in texts[0]:
                engine.run_once()
                engine.register(*texts, name="q0")
            if root.name == "interrupted":
                with hooked(interrupt), pytest.raises(KeyboardInterrupt):
                    engine.run_once()
        with xscl.connect(home=root) as engine:
            engine.run_once()
            for event in (t("t", 20), s("far", 9_000)):
                engine.ingest([event, Heartbeat("S", 0, "here")])
                engine.run_once()
            found.append([match.id for match in engine.matches()])
            left.append(list(examine_home(engine.home, deep=True).problems))
    assert found[0] == found[1] != []
    assert left == [[], []]
