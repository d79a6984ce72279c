"""Bindings of absences: reports count what queries asked for, not what parts of absences have found."""

from __future__ import annotations

from pathlib import Path

import xscl

ABSENT = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]"
WANTED = "SELECT a FROM A->x[./k->a]"
"""A query of the group that finds what is wanted."""


def matches(folder: Path, *texts: str) -> list[tuple[int, int]]:
    """Return the matches that the reports of batches count, and those that are listed, one after another."""
    found = []
    with xscl.connect(home=folder) as engine:
        for text in texts:
            engine.register(text)
        for number in range(3):
            ts = 20 * number
            events = [("A", ts), ("A", ts + 2), ("B", ts + 11)]
            engine.ingest(xscl.Event(name, f"{at}", at, xml="<e><k>1</k></e>") for name, at in events)
            if number == 2:
                engine.end_input()
            counted = sum(report.matches for report in engine.run_once())
            listed = len(list(engine.matches()))
            found.append((counted, listed))
    return found


def test_reports_count_what_queries_asked_for(tmp_path: Path) -> None:
    # Of each two, the first has nothing within ten seconds.
    assert matches(tmp_path / "absent", ABSENT) == [(1, 1), (1, 2), (1, 3)]
    assert matches(tmp_path / "both", ABSENT, WANTED) == [(3, 3), (3, 6), (3, 9)]
    assert matches(tmp_path / "wanted", WANTED) == [(2, 2), (2, 4), (2, 6)]
