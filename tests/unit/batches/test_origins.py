"""Origins of classes: what one place of a batch numbers is mixed up with nothing else."""

from __future__ import annotations

from pathlib import Path

import xscl

TEXTS = {
    "changes": "S[./k->a] FOLLOWED BY {a = b, 1 h} T[./k->b] ON CHANGE RETRACT",
    "steps": "S[./k->a] NEXT {a = b} S[./k->b]",
    "published": "S[./k->a] NOT FOLLOWED BY {a = b, 1 s} U[./k->b] PUBLISH P",
    "windows": "SELECT count() AS n FROM S[./k->a] WINDOW 1 s EVERY 1 s",
}


def found(home: Path, names: list[str]) -> dict[str, set[tuple[str, ...]]]:
    with xscl.connect(home=home) as engine:
        for channel in "STU":
            engine.add_channel(channel, lateness="1 s")
        for name in names:
            engine.register(TEXTS[name], name=name)
        engine.ingest(
            xscl.Event(channel, f"{channel}{ts}", ts, xml="<e><z/><k>1</k></e>")
            for ts in range(1, 8)
            for channel in "STU"
        )
        engine.run_once()
        return {name: {(m.id, m.document) for m in engine.matches(name)} for name in names}


def test_what_a_batch_decides_in_several_places_stays_apart(tmp_path: Path) -> None:
    together = found(tmp_path / "all", sorted(TEXTS))
    alone = {name: found(tmp_path / name, [name])[name] for name in sorted(TEXTS)}
    assert together == alone and all(alone[name] for name in ("changes", "steps", "windows"))
