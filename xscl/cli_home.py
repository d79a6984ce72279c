"""``xscl init`` and ``xscl doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli_common import CatalogOption, FormatOption, HomeOption, JsonOption, format_of, say
from xscl.listing import print_rows

__all__ = ["doctor", "init"]


def init(home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Create a home: catalogue, tables, folders."""
    from xscl.home import default_home, init_home

    made = init_home(home or default_home(), catalog)
    say(f"home at {made.root}")


def doctor(
    start: Annotated[
        bool, typer.Option("--start", help="Also measure how fast Spark starts, against a plain session; a minute.")
    ] = False,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Check Java, Python packages, Spark, home and catalogue; say what to do."""
    from xscl.doctor import examine
    from xscl.home import default_home

    checks = list(examine(home or default_home(), catalog, start=start))
    rows = [{"check": c.what, "state": "ok" if c.ok else "FAILS", "found": c.found, "advice": c.advice} for c in checks]
    print_rows(rows, ["check", "state", "found", "advice"], format_of(format, json))
    if not all(check.ok for check in checks):
        raise typer.Exit(1)
