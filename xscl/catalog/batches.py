"""Batches: the one module that writes table ``batches``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.counters import SUMMED
from xscl.catalog.tables import BATCHES, HAS_CHANGES, in_parts

__all__ = [
    "add_batch",
    "batches_with_matches",
    "commit_time",
    "forget_answers",
    "lose_results",
    "move_results",
    "newest_batch",
    "result_paths",
    "trim_batches",
]

_COUNTS = ("first", "last", "events", "witnesses", "pairs", "rout", "matches", "retracted", "published", "links")


def newest_batch(connection: Connection) -> int:
    """Return the number of the last batch; 0 before the first one."""
    return connection.scalar(sa.select(sa.func.max(BATCHES.c.batch))) or 0


def batches_with_matches(connection: Connection, first: int) -> tuple[int, int | None]:
    """Count the batches from a number on in which matches came or went; return the time of the first one's commit."""
    found = sa.select(sa.func.count(), sa.func.min(BATCHES.c.committed))
    count, since = connection.execute(found.where(BATCHES.c.batch >= first, HAS_CHANGES)).one()
    return count, since


def commit_time(connection: Connection, batch: int) -> int | None:
    """Return the time at which a batch was committed, in microseconds; None if there is none of the number."""
    return connection.scalar(sa.select(BATCHES.c.committed).where(BATCHES.c.batch == batch))


def result_paths(connection: Connection) -> list[str]:
    """Return the folders that hold the results of batches, each once."""
    statement = sa.select(BATCHES.c.result_path).where(BATCHES.c.result_path.is_not(None)).distinct()
    return [str(path) for path in connection.scalars(statement)]


def add_batch(connection: Connection, values: Mapping[str, object]) -> None:
    """Add a committed batch; names that are no columns are left out."""
    connection.execute(_ADD, {name: value for name, value in values.items() if name in BATCHES.c})


_ADD = BATCHES.insert()


def move_results(connection: Connection, before: Collection[str], after: str | None) -> dict[str, int]:
    """Have batches whose results are in some folders name another, or none; return how many named each."""
    batches: dict[str, int] = {}
    for part in in_parts(sorted(before)):
        mine = BATCHES.c.result_path.in_(part)
        counted = sa.select(BATCHES.c.result_path, sa.func.count()).where(mine).group_by(BATCHES.c.result_path)
        batches |= dict(connection.execute(counted).all())
        connection.execute(BATCHES.update().where(mine).values(result_path=after))
    return batches


def lose_results(connection: Connection, path: str) -> None:
    """Note that the results in a folder are lost."""
    connection.execute(BATCHES.update().where(BATCHES.c.result_path == path).values(matches=0, result_path=None))


def forget_answers(connection: Connection) -> None:
    """Forget what batches found; the last one stays, so that numbers go on behind those that readers have seen."""
    connection.execute(BATCHES.delete().where(BATCHES.c.batch < newest_batch(connection)))
    connection.execute(BATCHES.update().values(**dict.fromkeys(_COUNTS, 0), result_path=None))


def trim_batches(connection: Connection, most: int) -> Iterable[tuple[str, int]]:
    """Remove rows without results but the newest ``most``; return the sums of their columns ``SUMMED``."""
    useless = BATCHES.c.batch <= newest_batch(connection) - most, BATCHES.c.result_path.is_(None)
    sums = [sa.func.coalesce(sa.func.sum(BATCHES.c[name]), 0) for name in SUMMED]
    counted = connection.execute(sa.select(*sums).where(*useless)).one()
    connection.execute(BATCHES.delete().where(*useless))
    return [(name, int(count)) for name, count in zip(SUMMED, counted, strict=True)]
