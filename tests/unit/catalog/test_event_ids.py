"""Ids of a run of new events: all are added, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.catalog.events import IdRow, add_event_ids, add_ids_unless_known, find_event_ids
from xscl.store.home import init_home

KNOWN = [("c", "a", "a"), ("c", "b (f)", "b"), ("d", "e", "e")]
"""Channel, id, and id without feed and version."""


def id_row(channel: str, id_: str, base: str, docid: int) -> IdRow:
    return channel, id_, base, "", 1, docid, docid, "digest", 1, 1, 0


@pytest.mark.parametrize(
    ("known", "ids", "added"),
    [
        ([], "xyz", True),
        (KNOWN[:1], "xyz", True),
        (KNOWN[:1], "xya", False),
        (KNOWN[:1], "axy", False),
        (KNOWN[2:], "xye", True),
        # Some id may be a version of one that is there.
        (KNOWN[1:2], "xyz", False),
        (KNOWN[1:2], "xyb", False),
    ],
)
def test_a_run_is_added_whole_or_not_at_all(
    tmp_path: Path, known: list[tuple[str, str, str]], ids: str, added: bool
) -> None:
    home = init_home(tmp_path / "home")
    with home.catalog.begin() as connection:
        add_event_ids(connection, [id_row(*which, docid) for docid, which in enumerate(known, start=1)])
        before = find_event_ids(connection, "c", list("abexyz"))
        run = [id_row("c", id_, id_, docid) for docid, id_ in enumerate(ids, start=10)]
        assert add_ids_unless_known(connection, run) is added
        found = find_event_ids(connection, "c", list("abexyz"))
    home.catalog.close()
    assert {tuple(row) for row in found} == {*before, *(run if added else ())}
