"""Ways to do something, as messages tell them: by a command, and to programs also by a call of the library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["commands_alone", "way"]


class _Readers:
    """Readers of the messages of this process."""

    are_people = False
    """Whether they gave a command, and wrote no program."""


def way(command: str, call: str) -> str:
    """Tell a way: a command or an option, and the call or the argument that does the same.

    >>> way("xscl query list", "engine.queries()")
    "'xscl query list' or engine.queries()"
    >>> with commands_alone():
    ...     way("xscl query list", "engine.queries()"), way("--id", "id=")
    ("'xscl query list'", '--id')
    """
    shown = f"'{command}'" if command.startswith("xscl ") else command
    return shown if _Readers.are_people else f"{shown} or {call}"


@contextmanager
def commands_alone() -> Iterator[None]:
    """Have messages of the process tell commands without calls, until the end of the context."""
    before = _Readers.are_people
    _Readers.are_people = True
    try:
        yield
    finally:
        _Readers.are_people = before
