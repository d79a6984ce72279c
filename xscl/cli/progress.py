"""Progress bars: for a person at a terminal, on stderr alone."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xscl.base import terminal
from xscl.base.progress import listened
from xscl.cli.options import Output

if TYPE_CHECKING:
    from rich.progress import TaskID

    from xscl.ingest.records import Record

__all__ = ["shown_progress", "shown_records"]


def _is_watched() -> bool:
    return not Output.quiet and sys.stderr.isatty()


@contextmanager
def shown_progress() -> Iterator[None]:
    """Show how far the work inside is, a bar for each kind of things; they go when it ends."""
    if not _is_watched():
        yield
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal.console(stderr=True, soft_wrap=False), transient=True) as progress:
        bars: dict[str, TaskID] = {}

        def listener(things: str, done: int, total: int) -> None:
            if things not in bars:
                bars[things] = progress.add_task(things)
            progress.update(bars[things], completed=done, total=total)

        with listened(listener):
            yield


def shown_records(records: Iterable[Record]) -> Iterator[Record]:
    """Give the same records, and count them for a person."""
    if not _is_watched():
        yield from records
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"), TimeElapsedColumn())
    with Progress(*columns, console=terminal.console(stderr=True, soft_wrap=False), transient=True) as progress:
        task = progress.add_task("intake")
        for record in records:
            progress.advance(task)
            yield record
