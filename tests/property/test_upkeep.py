"""Retention and upkeep change no answer: what is listed is what all matches are, less those with an event that went."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Doc
from strategies import event_streams, one_block_queries, two_block_queries

import xscl.upkeep.events
import xscl.upkeep.results
import xscl.upkeep.upkeep
from xscl.base.errors import XsclError
from xscl.base.types import Event, Match
from xscl.catalog.retained_from import keep_times
from xscl.catalog.tables import CHANNELS
from xscl.engine import Engine
from xscl.registry.channels import set_channel
from xscl.store.home import init_home
from xscl.upkeep.health import examine_home

CHANNELS_OF = ("S", "T")


def as_event(number: int, doc: Doc) -> Event:
    return Event(doc.channel, f"e{number}", doc.ts / 1e6, xml=doc.xml)


def matches(folder: Path, texts: list[str], docs: list[Doc], cuts: list[int], lateness: str, retention: str | None,
            batch_docs: int, every: int, patch: pytest.MonkeyPatch
) -> tuple[list[Match], dict[str, int], Engine]:  # fmt: skip
    patch.setattr(xscl.upkeep.upkeep, "EVERY", every)
    engine = Engine(init_home(folder))
    for channel in CHANNELS_OF:
        engine.add_channel(channel, lateness=lateness)
        set_channel(engine.home.catalog, channel, retention=retention)
    for text in texts:
        engine.register(text)
    ends = sorted({0, len(docs), *(cut % (len(docs) + 1) for cut in cuts)})
    for first, last in pairwise(ends):
        engine.ingest([as_event(number, docs[number]) for number in range(first, last)])
        engine.run_once(batch_docs=batch_docs)
    with engine.home.catalog.read() as connection:
        kept = keep_times(connection)
    return list(engine.matches()), kept, engine


@settings(max_examples=examples(8), deadline=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    texts=st.lists(two_block_queries() | one_block_queries(), min_size=1, max_size=3),
    docs=event_streams(late=False),
    cuts=st.lists(st.integers(0, 20), max_size=8),
    lateness=st.sampled_from(["0 s", "1 s", "5 s", "none"]),
    retention=st.sampled_from(["0 s", "1 s", "3 s", "20 s"]),
    # Batches may end within a file of events.
    batch_docs=st.sampled_from([1, 2, 5, 1_000]),
)
def test_what_is_listed(
    texts: list[str],
    docs: list[Doc],
    cuts: list[int],
    lateness: str,
    retention: str,
    batch_docs: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("homes")
    docs = [doc for doc in docs if doc.channel in CHANNELS_OF]
    with pytest.MonkeyPatch.context() as patch:
        for module in (xscl.upkeep.events, xscl.upkeep.results):
            patch.setattr(module, "FANOUT", 2)
            patch.setattr(module, "SMALL", 2)
        patch.setattr(xscl.upkeep.upkeep, "_TRIMS", 1)
        try:
            found, kept, engine = matches(folder / "a", texts, docs, cuts, lateness, retention, batch_docs, 1, patch)
        except XsclError as error:
            # Not every text that can be joined may be registered.
            assert error.condition.startswith("XSCL_UN"), error
            return
        everything, _, other = matches(folder / "b", texts, docs, [], lateness, None, 1_000, 1 << 40, patch)
    expected = [match for match in everything if all(e.ts >= kept.get(e.channel, e.ts) for e in match.events)]
    assert [match.id for match in found] == [match.id for match in expected]
    assert [match.document for match in found] == [match.document for match in expected]
    held = {row["name"]: row["held_from"] for row in engine.home.catalog.rows(CHANNELS)}
    for name, time in kept.items():
        assert time <= int(str(held[name]))
    assert not list(examine_home(engine.home, deep=True).problems)
    engine.close()
    other.close()
