"""Upkeep of the catalogue: rows that nothing needs any longer go, and their counts are kept in table ``totals``.

* ``late`` goes with its events, ``flushes`` and ``heartbeats`` with what is around them.
* ``rejected`` keeps the newest 100,000 rows, ``batches`` the newest 10,000 and those with results.
* Dropped queries without a stored match go, with the groups, instances and variables that only they had.
  ``home.swept`` tells other processes that their memory of those is void.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import XsclError
from xscl.catalog.batches import result_paths, trim_batches
from xscl.catalog.channels import read_facts
from xscl.catalog.counters import add_to_total, put_total, total
from xscl.catalog.groups import remove_groups, remove_variables
from xscl.catalog.intake_order import note_sweep, read_processed, trim_flushes, trim_heartbeats
from xscl.catalog.late import trim_late, trim_rejected
from xscl.catalog.queries import remove_queries
from xscl.catalog.removals import trim_removals
from xscl.catalog.retractions import trim_retractions
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import (
    BATCHES,
    IS_DROPPED,
    IS_SUSPENDED,
    NEVER,
    PARTS,
    QUERIES,
    VARIABLES,
)
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.query_rows import variables_of
from xscl.language.syntax.parser import parse_query
from xscl.store.home import Home
from xscl.store.parquet import checked_dataset
from xscl.templates.origins import batch_of
from xscl.templates.results import RESULT_SCHEMA

__all__ = ["sweep_queries", "trim_catalog"]

MOST_REJECTED = 100_000
MOST_BATCHES = 10_000
FEWEST_DROPPED = 1_000
"""Dropped queries below which it is not worth looking which of them have matches."""
_MOST_UNPLANNED = 1_000
"""Texts that are compiled to learn their variables; of more, all variables stay."""
_KEPT = "dropped queries with matches"
"""Name of the counter in ``totals`` of dropped queries that the last sweep left."""


def trim_catalog(connection: Connection, kept: Mapping[str, int], oldest: int) -> None:
    """Remove rows of listings that nobody needs any longer.

    Args:
        connection: of the transaction.
        kept: from which time on events of a channel are kept.
        oldest: a place before which no event is kept.
    """
    processed = read_processed(connection)
    if kept:
        trim_retractions(connection, oldest)
        trim_flushes(connection, processed, oldest)
        trim_heartbeats(connection, processed, oldest)
        trim_removals(connection, processed, oldest)
    for channel, time in kept.items():
        add_to_total(connection, "late", trim_late(connection, channel, time, processed))
    add_to_total(connection, "rejected", trim_rejected(connection, MOST_REJECTED))
    for name, count in trim_batches(connection, MOST_BATCHES):
        add_to_total(connection, name, count)


# -- queries -------------------------------------------------------------------------------------------------------


def sweep_queries(home: Home, planned: Callable[[], tuple[Collection[int], int]]) -> int:
    """Remove dropped queries without stored matches, if there are many; return how many went.

    Args:
        home: the home.
        planned: the variables of queries, and the greatest number of one that was looked at for that.
    """
    with home.catalog.read() as connection:
        processed = read_processed(connection)
        ended = sa.and_(IS_DROPPED, ~IS_SUSPENDED, QUERIES.c.docid_until <= processed)
        count = connection.scalar(sa.select(sa.func.count()).select_from(QUERIES).where(ended)) or 0
        if count < max(FEWEST_DROPPED, 2 * total(connection, _KEPT)):
            return 0
        paths = result_paths(connection)
        # What queries are answered from what is held may have members from long before.
        ordinary = sa.select(BATCHES.c.batch, BATCHES.c.first).where(BATCHES.c.filled == 0)
        begins = {row.batch: row.first for row in connection.execute(ordinary)}
    oldest = _oldest_matches((home.results([path]) for path in paths), begins)
    with home.catalog.begin() as connection:
        last = connection.scalar(sa.select(sa.func.max(QUERIES.c.query))) or 0
        columns = QUERIES.c.query, QUERIES.c.gid, QUERIES.c.history, QUERIES.c.docid_until
        gone = [
            row.query
            for row in connection.execute(sa.select(*columns).where(ended))
            # Numbers are not given out again, so the last one stays.
            if row.query != last
            and row.docid_until <= oldest.get(row.gid, NEVER)
            and (row.history is None or row.history not in oldest)
        ]
        remove_queries(connection, gone)
        put_total(connection, _KEPT, count - len(gone))
        remove_groups(connection, oldest)
        _remove_variables(connection, *planned())
        note_sweep(connection)
    return len(gone)


def _oldest_matches(folders: Iterable[list[str]], begins: Mapping[int, int]) -> dict[int, int]:
    """Return, by group with a stored match, a place before which no last member of one of its matches came."""
    oldest: dict[int, int] = {}
    for files in folders:
        source = checked_dataset(files, RESULT_SCHEMA)
        meant = source.to_table(columns=["origin", "groups"], filter=ds.field("relation").isin(["match", "rout"]))
        if not meant.num_rows:
            continue
        groups = meant.column("groups").combine_chunks()
        origins = meant.column("origin").to_numpy()[pc.list_parent_indices(groups).to_numpy()]
        flat = pa.table({"gid": pc.list_flatten(groups), "origin": origins})
        for row in flat.group_by("gid").aggregate([("origin", "min")]).to_pylist():
            place = begins.get(batch_of(row["origin_min"]), 0)
            oldest[row["gid"]] = min(place, oldest.get(row["gid"], place))
    return oldest


def _all_variables(compiled: CompiledQuery) -> Iterator[int]:
    """Yield the variables of a query and of its parts, and of the parts of these."""
    yield from (int(str(row["key"])) for row in variables_of(compiled))
    for part in compiled.parts:
        yield from _all_variables(part.compiled)


def _remove_variables(connection: Connection, planned: Collection[int], newest: int) -> None:
    """Remove variables that no query has: not ``planned``, and not of queries that are in no plan.

    These have greater numbers than ``newest``, are suspended, were dropped and have matches, or are made of parts that
    are planned in their place.
    """
    of_parts = QUERIES.c.gid.in_(sa.select(PARTS.c.gid))
    unplanned = sa.or_(QUERIES.c.query > newest, QUERIES.c.docid_until != NEVER, of_parts)
    told = sa.select(QUERIES.c.text, QUERIES.c.namespaces).where(unplanned).distinct().limit(_MOST_UNPLANNED + 1)
    texts = connection.execute(told).all()
    if len(texts) > _MOST_UNPLANNED:
        return
    facts, live = read_facts(connection), set(planned)
    for text, namespaces in texts:
        declared = read_stored(QUERIES.c.namespaces, namespaces)
        try:
            compiled = compile_query(parse_query(text), text, namespaces=declared, channels=facts)
        except XsclError:
            return  # more is known of its channels than when it was dropped, and nothing tells its variables
        live.update(_all_variables(compiled))
    known = np.array(connection.scalars(sa.select(VARIABLES.c.key)).all(), np.int64)
    gone = known[~np.isin(known, np.array(sorted(live), np.int64))]
    remove_variables(connection, gone.tolist())
