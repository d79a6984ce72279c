"""Consistency of queries about absence and with steps: what each told, took back and missed, and what it still keeps.

Whether answers are right is not known while events may come; ``xscl bench consistency`` measures that.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.matches.cursors import START
from xscl.answers.matches.reader import MatchReader
from xscl.answers.matches.times import Times
from xscl.base.durations import format_duration
from xscl.base.sealed import check_file
from xscl.batches.answered import Runs
from xscl.batches.steps.files import CUT, DONE, TOLD, read_steps
from xscl.catalog.channels import read_channels
from xscl.catalog.records import ChannelInfo
from xscl.catalog.steps import has_steps, read_stepped
from xscl.catalog.tables import IS_LISTED, NEVER, PARTS, QUERIES
from xscl.language.facts import is_sub_query
from xscl.store.home import Home
from xscl.store.join_state import files_by_kind

__all__ = ["CONSISTENCY", "consistency_rows", "kept_rows", "pending_bindings"]

CONSISTENCY = ["query", "level", "blocking", "memory", "inserts", "retractions", "late_for", "waiting", "correctable"]
"""Columns of ``consistency_rows``."""


def consistency_rows(home: Home) -> Iterator[dict[str, object]]:
    """Yield a row for each query about absence or with steps, by name.

    Blocking and memory are distances behind clocks, ``inserts`` and ``retractions`` lines of its change log, and
    ``late_for`` events that it did not see because they came too late.  ``waiting`` are bindings of its group, or
    rows of its steps, that are not answered yet, and ``correctable`` answered ones that events may still take back.
    """
    with home.catalog.read() as connection:
        queries = connection.execute(_LISTED).all()
        channels = read_channels(connection)
        waiting, correctable = pending_bindings(home, connection)
        for rows, counts in zip(kept_rows(home, connection), (waiting, correctable), strict=True):
            counts.update(rows)
        # A suspended query has steps that no live one may have.
        first = min((row.docid_until for row in queries), default=NEVER) - 1
        stepped = read_stepped(connection, first, NEVER - 1).groups if has_steps(connection) else ()
        ends = {each.gid: {name for of in each.channels for name in of} for each in stepped}
    if not queries:
        return
    # Matches of sub-queries are among those of their own names alone.
    told = Counter(
        (item.query.query, item.retracted is None)
        for name in (None, *(row.qid for row in queries if is_sub_query(row.qid)))
        for item in MatchReader(home, name, Times()).by_commit(START)
    )
    for row in queries:
        names = ends[row.gid] if row.gid in ends else {name for name, _ in json.loads(row.ends)}
        yield {
            "query": row.qid,
            "level": row.level,
            "blocking": _distance_text(row.blocking, names, channels),
            "memory": _distance_text(row.memory, names, channels),
            "inserts": told[row.query, True],
            "retractions": told[row.query, False],
            "late_for": row.late_for,
            "waiting": waiting[row.gid],
            "correctable": correctable[row.gid],
        }


_LISTED = (
    sa.select(
        QUERIES.c.query, QUERIES.c.qid, QUERIES.c.gid, QUERIES.c.level, QUERIES.c.late_for, QUERIES.c.docid_until,
        PARTS.c.ends, PARTS.c.blocking, PARTS.c.memory,
    )
    .join(PARTS, sa.and_(PARTS.c.gid == QUERIES.c.gid, PARTS.c.number == 0))
    .where(IS_LISTED, QUERIES.c.level.is_not(None))
    .order_by(QUERIES.c.qid)
)  # fmt: skip


def pending_bindings(home: Home, connection: Connection) -> tuple[Counter[int], Counter[int]]:
    """Count bindings that are not answered, and answered ones that are not final, by group."""
    waiting, correctable = Counter[int](), Counter[int]()
    files = files_by_kind(connection)
    tables = [Runs(home.root, tuple(files.get("answered", ()))).rows()]
    tables += [pq.read_table(check_file(home.root / file.path)) for file in files.get("pending", ())]
    for rows in tables:
        answered = rows.column("answered").to_numpy() >= 0
        waiting.update(rows.column("gid").to_numpy()[~answered].tolist())
        correctable.update(rows.column("gid").to_numpy()[answered].tolist())
    return waiting, correctable


def kept_rows(home: Home, connection: Connection) -> tuple[Counter[int], Counter[int]]:
    """Count the rows of steps that are not answered, and answers that are not final, by group."""
    waiting, correctable = Counter[int](), Counter[int]()
    for file in files_by_kind(connection).get("steps", ()):
        kept, tables = read_steps(home.root / file.path)
        for name, table in tables.items():
            groups = np.array([gid for gid, _ in kept.members[name]], dtype=np.int64)
            for bits, node in zip(*(table.column(each).to_pylist() for each in ("members", "node")), strict=True):
                if node in (DONE, CUT):
                    continue
                mine = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=len(groups)).astype(np.bool_)
                (correctable if node == TOLD else waiting).update(np.unique(groups[mine]).tolist())
    return waiting, correctable


def _distance_text(distance: int | None, names: Collection[str], channels: Mapping[str, ChannelInfo]) -> str | None:
    """Write a distance behind clocks; that of the lateness is the greatest of channels that answers wait for."""
    if distance is not None:
        return format_duration(max(0, distance))
    known = [channels[name].lateness if name in channels else None for name in names]
    lateness = [each for each in known if each is not None]
    return format_duration(max(lateness)) if len(lateness) == len(known) else None
