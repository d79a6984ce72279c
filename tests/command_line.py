"""The command line, called in this process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from xscl.cli.app import main


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run ``xscl`` with these words, and return its exit code."""
    monkeypatch.setattr("sys.argv", ["xscl", *arguments])
    try:
        main()
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 0
    return 0
