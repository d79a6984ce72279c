"""Files of the home that batches name and retire: the one module that writes ``state_files`` and ``old_files``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import OLD_FILES, STATE_FILES, in_parts

__all__ = [
    "add_state_files",
    "count_held",
    "forget_retired",
    "forget_state",
    "remove_state_files",
    "replace_state_files",
    "retire_files",
    "retired_before",
]


def add_state_files(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Name files of join state."""
    if rows:
        connection.execute(_ADD, rows)


_ADD = STATE_FILES.insert()


def count_held(connection: Connection, held: Mapping[str, int]) -> None:
    """Note how many rows of files of join state a partner may still come for, by path."""
    rows = [{"b_path": path, "held": count} for path, count in held.items()]
    if rows:
        connection.execute(STATE_FILES.update().where(STATE_FILES.c.path == sa.bindparam("b_path")), rows)


def remove_state_files(connection: Connection, paths: Iterable[str]) -> None:
    """Name files of join state no longer."""
    for part in in_parts(sorted(paths)):
        connection.execute(STATE_FILES.delete().where(STATE_FILES.c.path.in_(part)))


def replace_state_files(
    connection: Connection, gone: Collection[str], come: Sequence[Mapping[str, object]], now: int
) -> None:
    """Name new files of join state in place of others, which retire ``now`` (microseconds since the epoch)."""
    remove_state_files(connection, gone)
    retire_files(connection, gone, now)
    add_state_files(connection, come)


def forget_state(connection: Connection) -> None:
    """Name no file of join state any longer."""
    connection.execute(sa.delete(STATE_FILES))


def retire_files(connection: Connection, paths: Iterable[str], now: int) -> None:
    """Note files or folders that the transaction names no longer; ``now`` is in microseconds since the epoch."""
    rows = [{"path": path, "replaced": now} for path in paths]
    if rows:
        connection.execute(OLD_FILES.insert(), rows)


def retired_before(connection: Connection, time: int, most: int) -> list[str]:
    """Return at most so many files or folders that were retired before a time."""
    return list(connection.scalars(sa.select(OLD_FILES.c.path).where(OLD_FILES.c.replaced < time).limit(most)))


def forget_retired(connection: Connection, paths: Iterable[str] | None = None) -> None:
    """Forget retired files that are removed; None: all of them."""
    if paths is None:
        connection.execute(sa.delete(OLD_FILES))
        return
    for part in in_parts(sorted(paths)):
        connection.execute(OLD_FILES.delete().where(OLD_FILES.c.path.in_(part)))
