"""``xscl init``, ``doctor``, ``export`` and ``import``: the home as a whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from xscl.base.errors import CatalogError, SourceError
from xscl.base.shown import counted
from xscl.cli.options import HomeOptions, Printing, SparkOptions, exit_partly, say
from xscl.cli.printing import Format, print_rows

if TYPE_CHECKING:
    from xscl.upkeep.archive_manifest import Packed
    from xscl.upkeep.doctor import Check

__all__ = ["doctor", "export", "import_", "init"]

_CHECKED = "check", "state", "found", "advice"
"""Columns of checks."""


def init(at: HomeOptions) -> None:
    """Create a home: catalogue, tables, folders.

    Example: xscl init --home plant
    """
    from xscl.store.home import init_home

    made = init_home(at.works_here(), at.catalog)
    say(f"home at {made.root}")


def doctor(
    start: Annotated[
        bool, typer.Option("--start", help="Also measure how fast Spark starts, against a plain session; a minute.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file of the home whole.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the home, and say what is lost.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: only say what would be done.")] = False,
    *,
    on: SparkOptions,
    at: HomeOptions,
    printing: Printing,
) -> None:
    """Check Java, Python packages, Spark, home and catalogue; say what to do, or do it.

    With --master or --remote each node is asked what it lacks, and whether it reads and writes the home.

    Example: xscl doctor --start
    xscl doctor --master spark://host:7077 --home /shared/home
    xscl doctor --deep --repair --dry-run
    """
    from xscl.upkeep.doctor import examine

    if repair:
        from xscl.upkeep.repair import repair_home

        done = repair_home(at.open(), deep=deep, dry_run=dry_run)
        print_rows([{"lost": each.lost, "done": each.text} for each in done], ["lost", "done"], printing.chosen())
        if not done:
            say("there is nothing to repair")
        exit_partly(1, sum(each.lost for each in done))
        return
    if dry_run:
        raise typer.BadParameter("--dry-run goes with --repair")
    named, session = at.home is not None, on.session()
    examined = partial(examine, at.works_here(), at.catalog, start=start, deep=deep, named=named, session=session)
    if not _print_checks(examined, printing.chosen()):
        raise typer.Exit(1)


def _print_checks(examined: Callable[..., Iterator[Check]], format_: Format) -> bool:
    """Print checks, and tell whether all is well.

    A table has a part of its own for the checks in which Spark starts.  They may take long, and no other finding waits
    for them.
    """
    waiting: list[dict[str, str]] = []
    fine = True

    def rows(before_spark: Callable[[], None]) -> Iterator[dict[str, str]]:
        nonlocal fine
        for check in examined(before_spark=before_spark):
            fine &= check.ok
            yield {"check": check.what, "state": check.state, "found": check.found, "advice": check.advice}

    def show() -> None:
        if waiting:
            print_rows(waiting, _CHECKED, format_)
            sys.stdout.flush()
            waiting.clear()

    if format_ is Format.table:
        for row in rows(show):
            waiting += [row]
        show()
    else:
        print_rows(rows(sys.stdout.flush), _CHECKED, format_)
    return fine


def export(
    file: Annotated[str, typer.Argument(help="The archive to write, or what an option says; '-': stdout.")],
    events: Annotated[
        bool, typer.Option("--events", help="Only what was taken in, in its order, as an event file.")
    ] = False,
    relations: Annotated[
        bool, typer.Option("--relations", help="The relations of SQL: a folder of Parquet files, or a FILE.duckdb.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="PATTERN", help="With --relations: these; may be repeated.")
    ] = None,
    *,
    on: SparkOptions,
    at: HomeOptions,
) -> None:
    """Write everything of a home to one file; other processes may go on meanwhile.

    Example: xscl export backup.tar
    xscl export --events - | gzip > events.ndjson.gz
    xscl export --relations home.duckdb --only 'r_*' --only matches
    """
    if relations == events and (events or only):
        raise typer.BadParameter("--events and --relations exclude each other; --only goes with --relations")
    if relations:
        _export_relations(Path(file), only or (), on, at)
        return
    opened = at.open()
    if events:
        from xscl.base.system_errors import named_file_faults
        from xscl.upkeep.event_export import export_events

        with named_file_faults(opened.root), _open_target(file, zipped=file.endswith(".gz")) as stream:
            written = export_events(opened, stream)
        say(f"{file}: {counted(written.events, 'event')}, {counted(written.queries, 'query')}")
        if written.channels:
            say("before it is taken in, the channels are made by:")
        for line in (*written.channels, *(f"note: {note}" for note in written.notes)):
            say(line)
        return
    from xscl.upkeep.archive_export import export_home

    with _open_target(file) as stream:
        packed = export_home(opened, stream)
    say(
        f"{file}: {_contents(packed)}; {counted(packed.files, 'file')} of {counted(packed.bytes, 'byte')} "
        "with the catalogue"
    )


def _export_relations(target: Path, only: Sequence[str], on: SparkOptions, at: HomeOptions) -> None:
    from xscl.answers.sql.export import chosen_relations, export_relations
    from xscl.engine import Engine

    opened = at.open()
    names = chosen_relations(opened, only)
    engine = Engine(opened, session_options=on.session())
    count = rows = 0
    for _, written in export_relations(names, lambda name: engine.sql(f"SELECT * FROM `{name}`").toArrow(), target):
        count, rows = count + 1, rows + written
    say(f"{target}: {counted(count, 'relation')}, {counted(rows, 'row')}")


def import_(
    file: Annotated[str, typer.Argument(help="An archive that 'xscl export' wrote; '-': stdin.")],
    at: HomeOptions,
) -> None:
    """Make a home of an archive; there must be none yet.

    Example: xscl import backup.tar --home restored
    """
    from xscl.upkeep.archive_import import import_home

    root = at.works_here()
    with _opened(file) as stream:
        try:
            packed = import_home(root, stream, at.catalog)
        except CatalogError as error:
            if error.condition not in ("XSCL_BAD_ARCHIVE", "XSCL_CATALOG_VERSION"):
                raise
            raise CatalogError(error.condition, f"{file}: {error.message}", hint=error.hint) from None
    say(f"home at {root}: {_contents(packed)}")


def _contents(packed: Packed) -> str:
    counts = (packed.events, "event"), (packed.queries, "query"), (packed.batches, "batch")
    return ", ".join(counted(count, noun) for count, noun in counts)


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    """Return a file to read; ``-`` is stdin."""
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{file}: {error.strerror}") from None


@contextmanager
def _open_target(file: str, *, zipped: bool = False) -> Iterator[BinaryIO]:
    """Return a file to write to, which is there when all of it is; ``-`` is stdout."""
    from xscl.base.atomic_files import written_whole

    if file == "-":
        yield sys.stdout.buffer
        return
    with written_whole(Path(file), zipped=zipped) as stream:
        yield stream
