"""The terminal of the shell: line editing with history and completion, and a pager for long answers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xscl.base.private import private_folder
from xscl.base.terminal import write_data
from xscl.cli.options import say

__all__ = ["edited_lines", "history_file", "paged"]

_MOST = 2_000
"""Lines of the history that are kept."""
_DELIMITERS = " \t\n,;()=<>`'\""


def history_file() -> Path:
    """Return the file of the history, in the user's folder of state."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = given if given.is_absolute() else Path.home() / ".local" / "state"
    return state / "xscl" / "history"


@contextmanager
def edited_lines(complete: Callable[[str, str], list[str]]) -> Iterator[None]:
    """Have ``input`` edit lines, with the history of earlier shells; ``complete`` gets a word and what is before it."""
    try:
        import readline
    except ModuleNotFoundError:  # Windows
        yield
        return
    found: list[str] = []

    def completer(word: str, state: int) -> str | None:
        nonlocal found
        if state == 0:
            try:
                found = complete(word, readline.get_line_buffer()[: readline.get_begidx()])
            except Exception:
                # Nothing is completed; the statement itself tells what is wrong.
                found = []
        return found[state] if state < len(found) else None

    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_MOST)
    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(completer)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        _keep(file, readline.write_history_file)


def _keep(file: Path, write: Callable[[Path], None]) -> None:
    """Write the history where nobody else can read it."""
    try:
        private_folder(file.parent)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        file.chmod(0o600)
        write(file)
    except OSError as error:
        say(f"note: the history is not kept: {error}")


def paged(text: str) -> None:
    """Write a text on standard output; on a terminal a long one by way of ``PAGER``."""
    pager = shlex.split(os.environ.get("PAGER", ""))
    if not pager and shutil.which("less"):
        pager = ["less", "-FRSX"]
    if not sys.stdout.isatty() or not pager or text.count("\n") < shutil.get_terminal_size().lines:
        write_data(text)
        sys.stdout.flush()
        return
    sys.stdout.flush()
    try:
        subprocess.run(pager, input=text, text=True, check=False)
    except OSError as error:
        say(f"note: PAGER: {error}")
        write_data(text)
