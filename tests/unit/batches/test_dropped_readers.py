"""Tests of queries that are dropped before a document is replayed that was published too late."""

from __future__ import annotations

from pathlib import Path

import xscl

_PAIR = "P->x[./k->k] {} {{k = l, 5 s}} P->y[./k->l]"
_READERS = {
    "join": _PAIR.format("FOLLOWED BY"),
    "three": "P->x[./k->k] FOLLOWED BY {k = l, 5 s} P->y[./k->l] JOIN {l = m, 2 s} A->z[./k->m]",
    "absence": "P->x[./k->k] NOT FOLLOWED BY {k = l, 5 s} P->y[./k->l]",
    "next": _PAIR.format("NEXT"),
    "fold": "P->x[./k->k] FOLD {k = l, 9 s, LONGEST} P->y[./k->l]",
    "above": "Q->x[.//k->k] JOIN {k = l, 9 s} A->y[./k->l]",
}
"""Queries that read what is published, directly or through another channel."""


def _told(folder: Path, size: int | None) -> set[tuple[str, tuple[int, ...], str]]:
    """Return what readers tell, with batches of so many events, or behind each event and drop (None).

    One document is published too late.  Another reader is dropped behind the next event, then all of them are.
    """
    with xscl.connect(home=folder) as engine:

        def take(event: xscl.Event) -> None:
            engine.ingest([event])
            if size is None:
                engine.run_once()

        def drop(name: str) -> None:
            engine.drop(name)
            if size is None:
                engine.run_once()

        engine.add_channel("A", lateness="0 s")
        engine.register("SELECT <e><k>{k}</k></e> FROM A->x[./k->k] PUBLISH P", name="p")
        engine.register("P->x[./k->k] FOLLOWED BY {k = l, 5 s} P->y[./k->l] PUBLISH Q", name="r")
        for name, text in _READERS.items():
            engine.register(text, name=name)
        engine.register(_READERS["join"], name="first")
        for number, ts in enumerate((10, 20, 12, 21, 30)):
            take(xscl.Event("A", f"e{number}", ts, xml="<e><k>1</k></e>"))
        drop("first")
        take(xscl.Event("A", "between", 20, xml="<e><k>1</k></e>"))
        for name in ("r", *_READERS):
            drop(name)
        take(xscl.Event("A", "last", 100, xml="<e><k>2</k></e>"))
        engine.run_once(batch_docs=size or 1)
        return {(m.query, tuple(each.ts // 10**6 for each in m.events), str(m.values)) for m in engine.matches()}


def test_cuts_decide_nothing_for_queries_that_were_dropped(tmp_path: Path) -> None:
    found = _told(tmp_path / "each", None)
    assert {name for name, ts, _ in found if set(ts) >= {10, 12}} >= {"first", "join", "three", "next", "r"}
    assert ("above", (12, 10)) in {(name, ts) for name, ts, _ in found}
    for size in (2, 1_000):
        assert _told(tmp_path / f"{size}", size) == found
