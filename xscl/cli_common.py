"""What the commands of all nouns share: options, messages, how rows are printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from xscl.listing import Format

if TYPE_CHECKING:
    from xscl.home import Home

__all__ = [
    "PARTLY",
    "CatalogOption",
    "FormatOption",
    "HomeOption",
    "JsonOption",
    "Output",
    "complain",
    "exit_partly",
    "format_of",
    "open_given",
    "say",
]

PARTLY = 3
"""Exit code where some was done, and some was refused."""

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home", help="Folder of the home; without it XSCL_HOME of the environment.", show_default="./xscl-home"
    ),
]
CatalogOption = Annotated[
    str | None,
    typer.Option("--catalog", help="SQLAlchemy URL of the catalogue.", show_default="SQLite in the home"),
]
FormatOption = Annotated[Format | None, typer.Option("--format", help="How to print.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]


class Output:
    """What the options before the command say."""

    quiet = False
    verbose = False


def say(text: str) -> None:
    """A message for the person in front."""
    if not Output.quiet:
        complain(text)


def complain(text: str) -> None:
    """A message that is always shown."""
    # In messages, ":100:" is a line of a file and no emoji.
    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(text, markup=False)


def open_given(home: Path | None, catalog: str | None) -> Home:
    """The home that the options name."""
    from xscl.home import default_home, open_home

    return open_home(home or default_home(), catalog)


def format_of(format_: Format | None, as_json: bool, *, piped: Format = Format.table) -> Format:
    """How to print; ``piped`` where nothing was said and no person looks."""
    if as_json:
        return Format.json
    return format_ or (Format.table if sys.stdout.isatty() else piped)


def exit_partly(done: int, failed: int) -> None:
    """Leave with 3 where some failed and some did not, with 1 where all failed."""
    if failed:
        raise typer.Exit(PARTLY if done else 1)
