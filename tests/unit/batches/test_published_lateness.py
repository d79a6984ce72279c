"""Documents that queries publish count wherever batches are cut, also those of late events."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl

CHANNEL = "SELECT <e><k>{k}</k></e> FROM A->x[./k->k] PUBLISH P"
TEXTS = {
    "next": "A->x[./k->k][./first] NEXT {k = l} P->y[./k->l]",
    "middle": "A->x[./k->k][./first] NEXT {k = l} P->y[./k->l] CONSISTENCY MIDDLE",
    "fold": "SELECT k, count() AS n FROM A->x[./k->k][./first] FOLD {k = l, AT MOST 2} P->y[./k->l]",
    "absence": "A->x[./k->k][./first] NOT FOLLOWED BY {k = l, 8 s} P->y[./k->l]",
    "join": "A->x[./k->k][./first] FOLLOWED BY {k = l, 8 s} P->y[./k->l]",
    "parentheses": "A->x[./k->k][./first] NEXT {k = l} (SELECT k FROM A->x[./k->k])->y[./k->l]",
}
"""Queries over what is published of a late event, which some of them have gone on from when it comes."""
EVENTS = (("first", 34), ("on", 45), ("late", 42), ("last", 46), ("end", 99))


def told(folder: Path, text: str, size: int) -> list[tuple[int, list[str], dict[str, str]]]:
    """Return the matches of a query where batches have so many places."""
    with xscl.connect(home=folder) as engine:
        engine.add_channel("A", lateness="2 s")
        engine.register(CHANNEL, name="published")
        engine.register(text, name="asked")
        for id_, ts in EVENTS:
            engine.ingest([xscl.Event("A", id_, ts, xml=f"<e><k>{'b' if id_ == 'on' else 'a'}</k><{id_}/></e>")])
        engine.run_once(batch_docs=size)
        return [
            (match.ts, [event.id for event in match.events], dict(match.values)) for match in engine.matches("asked")
        ]


@pytest.mark.parametrize("name", TEXTS)
def test_a_late_event_that_is_published_counts_wherever_batches_are_cut(tmp_path: Path, name: str) -> None:
    expected, *others = (told(tmp_path / str(size), TEXTS[name], size) for size in (1, 2, 3, 1_000))
    assert all(found == expected for found in others)
    times = [ts // 1_000_000 for ts, _, _ in expected]
    assert times == {"absence": [], "fold": [42, 46]}.get(name, [42])
