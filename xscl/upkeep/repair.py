"""``xscl doctor --repair``: a home is brought back to the state that its catalogue tells; losses are named.

Matches, join state and published events follow from ingested events.  Where some are lost, and no event is lost or was
removed by retention, all are forgotten, and the next ``run`` makes them again, with the same ids of matches.  Where
events were removed on purpose, old matches could not be found again: then only the lost files are forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.base.errors import CatalogError, EngineError
from xscl.base.failpoints import step
from xscl.base.locks import running
from xscl.base.sealed import CHECKED_PAGES
from xscl.catalog.batches import forget_answers, lose_results
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import forget_times
from xscl.catalog.counters import note_removed_docids
from xscl.catalog.event_counts import channel_counts
from xscl.catalog.events import (
    files_between,
    forget_published,
    remove_event_files,
    remove_event_ids,
    remove_ids_between,
)
from xscl.catalog.intake_order import go_on_at, repeat_all
from xscl.catalog.late import forget_published_late
from xscl.catalog.queries import forget_batches
from xscl.catalog.removals import forget_published_removals
from xscl.catalog.retractions import forget_retractions
from xscl.catalog.state_files import forget_state, remove_state_files
from xscl.catalog.tables import (
    BATCHES,
    EVENT_IDS,
    HOME,
    INTAKE_FILES,
    OLD_FILES,
    QUERIES,
)
from xscl.store.home import Home
from xscl.store.orphans import tidy
from xscl.upkeep.derived_rows import derived_differences
from xscl.upkeep.health import Damaged, Health, examine_home, has_removed

__all__ = ["Done", "repair_home"]

_ASIDE = "damaged"
"""Folder of the home for files that could not be read."""
_STATE = ("witness", "link")
"""Kinds of files whose rows can be made again from events."""


@dataclass(frozen=True, slots=True)
class Done:
    """One thing that was done, or would be done."""

    text: str
    lost: bool = False
    """Whether something cannot be brought back."""


def repair_home(home: Home, *, deep: bool = False, dry_run: bool = False) -> list[Done]:
    """Repair a home, while nobody runs batches on it.

    Args:
        home: the home; its catalogue is sound.
        deep: read every file whole.
        dry_run: only say what would be done.

    Raises:
        CatalogError: ``XSCL_HOME_IN_USE``; ``XSCL_CANNOT_REPAIR``: folder and catalogue do not belong together.
    """
    with running(home.root):
        found = examine_home(home, deep=deep)
        _refuse_strangers(home, found)
        with home.catalog.exclusive() as connection:
            lost = {each.file.path for each in found.damaged if each.file.kind in _STATE}
            lost = lost if has_removed(connection) else set()
            done = [*_repaired(home, connection, found)]
            if dry_run:
                connection.rollback()
            step("repair.commit")
        if any((home.root / each.file.path).exists() for each in found.damaged):
            done.append(Done(f"files that cannot be read are moved to {home.root / _ASIDE}"))
        if found.unnamed:
            done.append(Done(f"{len(found.unnamed)} unnamed files of {found.unnamed_bytes:,} bytes are removed"))
        if dry_run:
            return done
        step("repair.committed")
        _set_aside(home.root, found.damaged)
        if lost:
            # Imported here, because it imports Spark.
            from xscl.upkeep.state_rebuild import rebuild_state

            rebuild_state(home, lost)
        tidy(home)
        done += _made_smaller(home.catalog)
    return done


def _refuse_strangers(home: Home, found: Health) -> None:
    """Refuse a catalogue that names hardly any event file of the folder: it is that of another home."""
    lost = sum(each.file.kind == "events" and each.why == "missing" for each in found.damaged)
    if not lost:
        return
    with home.catalog.read() as connection:
        # Files that went out of use stay for a while.
        own = sa.union_all(sa.select(INTAKE_FILES.c.path), sa.select(OLD_FILES.c.path))
        named = set(connection.scalars(own))
    others = sum(f"events/{path.name}" not in named for path in home.folder("events").glob("*.parquet"))
    if others >= lost:
        raise CatalogError(
            "XSCL_CANNOT_REPAIR",
            f"the catalogue names {lost} files of events that are not in {home.root}, where {others} others are: "
            "they do not seem to belong together",
            hint="give the home's own catalogue with --catalog, or import the last export",
        )


def _repaired(home: Home, connection: Connection, found: Health) -> Iterator[Done]:
    yield from _put_places(connection, found.places)
    yield from _put_derived(connection, found.derived)
    events = [each for each in found.damaged if each.file.kind == "events"]
    taken_in = [each for each in events if (each.file.first or 0) < PUBLISHED]
    made = [each for each in found.damaged if each not in taken_in and each.file.kind != "reach"]
    for each in found.damaged:
        if each.file.kind == "reach":
            yield _forget(home, connection, each)
    for each in taken_in:
        yield _forget_events(home, connection, each)
    if not taken_in and not made:
        return
    if has_removed(connection):
        for each in made:
            yield _forget(home, connection, each)
    else:
        yield _forget_batches(connection, [*made, *taken_in])


# -- what is derived -------------------------------------------------------------------------------------------


def _put_places(connection: Connection, problems: Sequence[str]) -> Iterator[Done]:
    if not problems:
        return
    done = connection.scalar(sa.select(sa.func.max(BATCHES.c.last))) or 0
    taken = connection.scalar(sa.select(sa.func.max(INTAKE_FILES.c.last)).where(INTAKE_FILES.c.last < PUBLISHED)) or 0
    registered = connection.scalar(sa.select(sa.func.max(QUERIES.c.docid_from))) or 0
    home = connection.execute(sa.select(HOME)).one()
    processed = max(home.processed, done)
    following = max(home.next_place, processed + 1, taken + 1, registered + 1)
    go_on_at(connection, following, processed)
    yield Done(f"the home goes on at place {following}, batches behind place {processed}")


def _put_derived(connection: Connection, problems: Sequence[str]) -> Iterator[Done]:
    if not problems:
        return
    found = Counter((each.text, each.mend is None) for each in derived_differences(connection, mends=True))
    if any(not lost for _, lost in found):
        yield Done("groups, instances, templates and variables are made again from the texts of queries")
    for (text, lost), count in found.items():
        if lost:
            yield Done(f"{count:,} {text}: drop and register them again, or import the last export", lost=True)


# -- what is lost ----------------------------------------------------------------------------------------------


def _forget_events(home: Home, connection: Connection, damaged: Damaged) -> Done:
    """Forget the events of a file; they may be taken in again."""
    file = damaged.file
    assert file.first is not None and file.last is not None
    counts: Mapping[str, int] = channel_counts(connection, file.first, file.last)
    remove_event_files(connection, [file.path])
    if file.first < PUBLISHED:
        remove_ids_between(connection, file.first, file.last)
    else:
        counts = _forget_published(home, connection, file.first, file.last)
    of_channels = ", ".join(f"{count:,} of {channel}" for channel, count in sorted(counts.items()))
    lost = f"{file.rows:,} events are lost ({of_channels or 'without ids'})"
    return Done(f"{damaged}: its {lost}; they can be taken in again", lost=True)


def _forget_published(home: Home, connection: Connection, first: int, last: int) -> dict[str, int]:
    """Forget the ids of published documents in a range that no other file has; return their number by channel.

    Documents that are published in answer to later queries take places from before, so ranges of files overlap.
    """
    there: set[int] = set()
    for path in files_between(connection, first, last):
        # One that cannot be read is damaged, too.
        with suppress(OSError, pa.ArrowException, EngineError):
            there.update(
                pq.read_table(home.paths([path])[0], columns=["docid"], **CHECKED_PAGES).column("docid").to_pylist()
            )
    ids = sa.select(EVENT_IDS.c.docid, EVENT_IDS.c.channel).where(EVENT_IDS.c.docid.between(first, last))
    gone = {row.docid: row.channel for row in connection.execute(ids) if row.docid not in there}
    note_removed_docids(connection, np.array(sorted(gone), np.int64))
    remove_event_ids(connection, gone)
    return Counter(gone.values())


def _forget(home: Home, connection: Connection, damaged: Damaged) -> Done:
    """Forget a file that batches made, where events are gone from which it could be made again."""
    file = damaged.file
    if file.kind == "events":
        return _forget_events(home, connection, damaged)
    if file.kind == "results":
        lose_results(connection, file.path)
        which = f"batch {file.batch}" if file.batch == file.last_batch else f"batches {file.batch} to {file.last_batch}"
        return Done(f"{damaged}: {file.rows:,} stored matches of {which} are lost", lost=True)
    if file.kind == "reach":
        remove_state_files(connection, [file.path])
        return Done(f"{damaged}: how long join state is kept is worked out again after the next batch")
    if file.kind in ("pending", "answered"):
        remove_state_files(connection, [file.path])
        return Done(f"{damaged}: {file.rows:,} answers about absence that were not certain yet are lost", lost=True)
    if file.kind == "windows":
        remove_state_files(connection, [file.path])
        lost = f"{file.rows:,} matches and answers that windows go on from are lost"
        return Done(f"{damaged}: {lost}", lost=True)
    if file.kind == "steps":
        remove_state_files(connection, [file.path])
        return Done(f"{damaged}: {file.rows:,} matches that steps go on from are lost", lost=True)
    what = "witness rows" if file.kind == "witness" else "rows of links"
    return Done(f"{damaged}: its {file.rows:,} {what} are made again from the events that are there")


def _forget_batches(connection: Connection, damaged: Sequence[Damaged]) -> Done:
    """Forget all that batches made, so that they run again over all events."""
    forget_state(connection)
    forget_published(connection)
    # Late events that were replayed are replayed again, by the numbers that they get then (``Publisher.commit``).
    forget_published_late(connection)
    forget_times(connection)
    forget_batches(connection)
    repeat_all(connection)
    forget_answers(connection)
    forget_retractions(connection)
    forget_published_removals(connection)
    events = sum(channel_counts(connection, 0, PUBLISHED - 1).values())
    which = "; ".join(map(str, damaged[:5])) + (f" and {len(damaged) - 5} more" if len(damaged) > 5 else "")
    return Done(f"{which}: all batches are run again with the next 'xscl run', over {events:,} events")


def _set_aside(root: Path, damaged: Sequence[Damaged]) -> None:
    """Put what could not be read into a folder of its own, where somebody may look at it."""
    for each in damaged:
        full = root / each.file.path
        if full.exists():
            (root / _ASIDE).mkdir(exist_ok=True)
            full.rename(root / _ASIDE / full.name)


def _made_smaller(catalog: Catalog) -> Iterator[Done]:
    """Give the room of removed rows back, or say why that cannot be done now; nothing else depends on this."""
    if catalog.engine.dialect.name != "sqlite":
        return
    try:
        with catalog.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("vacuum")
    except sa.exc.DBAPIError as error:
        yield Done(f"the catalogue's file keeps its size: {error.orig}")
