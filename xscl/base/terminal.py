"""The one place that writes to standard output and error: what people read is made safe for terminals here.

Data for programs (JSON, CSV, archives) goes through ``write_data``, which changes nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xscl.base.shown import for_terminal, masked

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "give", "give_bytes", "safe_message", "show", "tell", "write_data"]


def tell(text: str) -> None:
    """Write a message on standard error, without passwords and without what a terminal obeys."""
    sys.stderr.write(safe_message(text) + "\n")
    sys.stderr.flush()


def safe_message(text: str) -> str:
    """Write a message without passwords and without what a terminal obeys."""
    return for_terminal(masked(text))


def show(text: str = "", *, style: str = "") -> None:
    """Write lines for people on standard output, as ``tell`` does; ``style`` is rich's."""
    if style and sys.stdout.isatty():
        console().print(text, style=style)
    else:
        sys.stdout.write(safe_message(text) + "\n")


def give(text: str) -> None:
    """Write a text that may be kept, as a statement or a document: exactly, but on a terminal."""
    write_data((for_terminal(text) if sys.stdout.isatty() else text) + "\n")


def give_bytes(data: bytes) -> None:
    """Write a text in UTF-8 as ``give`` does."""
    if sys.stdout.isatty():
        give(data.decode("utf-8", "replace"))
    else:
        sys.stdout.buffer.write(data + b"\n")


def write_data(text: str) -> None:
    """Write data for programs on standard output, exactly."""
    sys.stdout.write(text)


def console(*, stderr: bool = False, soft_wrap: bool = True) -> Console:
    """Make a console for tables and progress, whose texts are safe for terminals; markup is read where asked for."""
    from rich.console import Console

    class SafeConsole(Console):
        """Makes every text safe before rich adds its own codes."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(safe_message(text), **options)

        def on_broken_pipe(self) -> None:
            """Leave it to the command line, for which a reader who has seen enough is no failure."""
            raise BrokenPipeError

    return SafeConsole(stderr=stderr, soft_wrap=soft_wrap, highlight=False, emoji=False, markup=False)
