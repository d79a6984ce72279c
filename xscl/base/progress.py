"""Progress of long work: whoever does the work tells, and whoever wants to know listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Listener", "listened", "told"]

Listener = Callable[[str, int, int], None]
"""Takes the things that are counted, how many are done, and how many there are."""
_listener: ContextVar[Listener | None] = ContextVar("xscl.base.progress", default=None)


def told(things: str, done: int, total: int) -> None:
    """Tell how far the work is; nothing happens where nobody listens."""
    if (listener := _listener.get()) is not None:
        listener(things, done, total)


@contextmanager
def listened(listener: Listener) -> Iterator[None]:
    """Listen to the work that is begun in this context, also in threads and tasks that it hands its context to."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)
