"""Checks of files of join state, for each kind in its own way.

Files of this home are checked by a deep look, files of an archive before they become those of a home.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.parquet_bounds import excess
from xscl.catalog.tables import STATE_FILES
from xscl.store.state_files import facts_of_file
from xscl.templates.many_blocks.runs import LinkRun
from xscl.templates.run_checks import wrong_links, wrong_run
from xscl.templates.runs.files import read_run
from xscl.templates.runs.mapped_columns import open_columns

__all__ = ["UNREADABLE", "state_rows", "wrong_state_file", "wrong_state_rows"]

UNREADABLE = (OSError, pa.ArrowException, ValueError, LookupError, TypeError, ArithmeticError)
"""Errors of reading damaged files."""
_SPANS = ("rows", "bytes", "ts_min", "ts_max", "docid_min", "docid_max")


def wrong_state_file(path: Path, kind: str) -> str | None:
    """Tell what is wrong with the rows of a file of join state; None: nothing is."""
    return {"witness": wrong_run, "link": wrong_links}.get(kind, excess)(path)


def state_rows(path: Path, kind: str) -> int:
    """Return the number of rows of runs or of rows of links, as the file says now: what is open may have been cut."""
    columns, told = open_columns(path)
    return read_run(columns, told)[1].rows if kind == "witness" else len(LinkRun.read(columns))


def wrong_state_rows(connection: Connection, root: Path) -> list[str]:
    """Return the rows of the catalogue that differ from sound files, as sentences; unreadable files are passed over."""
    found = []
    for row in connection.execute(sa.select(STATE_FILES)).all():
        try:
            facts = facts_of_file(root, row.path, row.kind, row.batch)
        except UNREADABLE:
            continue
        wrong = [name for name in _SPANS if getattr(facts, name) != row._mapping[name]]
        if not row.held <= row.rows:
            wrong.append("held")
        if wrong:
            found.append(f"{row.path} has another {', '.join(wrong)} than the catalogue says")
    return found
