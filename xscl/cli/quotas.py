"""``xscl quota``: how much an owner, or a query in a batch, may have."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated

import typer

from xscl.cli.commands import command
from xscl.cli.options import HomeOptions, Printing, say
from xscl.cli.printing import print_rows

__all__ = ["quota_app"]

_OFF = "none"

quota_app = typer.Typer(no_args_is_help=True, help="Quotas of the home, in counted work; they are off until set.")


@command(quota_app, "list")
def quota_list(at: HomeOptions, printing: Printing) -> None:
    """List the quotas; one without a number is off.

    Example: xscl quota list
    """
    from xscl.catalog.quotas import read_quotas

    with at.open().catalog.read() as connection:
        quotas = read_quotas(connection)
    rows = [{"quota": name, "most": value} for name, value in asdict(quotas).items()]
    print_rows(rows, ["quota", "most"], printing.chosen())


@command(quota_app, "set")
def quota_set(
    quota: Annotated[
        str,
        typer.Argument(help="queries: live ones of one owner; bindings or pairs: of one query in one batch."),
    ],
    most: Annotated[str, typer.Argument(metavar="NUMBER", help=f"At most this many; '{_OFF}' takes the quota away.")],
    *,
    at: HomeOptions,
) -> None:
    """Set a quota.  A batch in which a query exceeds one is its last one until 'xscl query resume'.

    Example: xscl quota set bindings 5000000
    xscl quota set queries none
    """
    from xscl.catalog.quotas import Quotas, set_quotas

    names = [field.name for field in fields(Quotas)]
    if quota not in names:
        raise typer.BadParameter(f"there is no quota {quota!r}; there are: {', '.join(names)}")
    if most != _OFF and not (most.isascii() and most.isdecimal() and len(most) < 19):
        raise typer.BadParameter(f"{most!r} is no whole number, and not '{_OFF}'")
    with at.open().catalog.begin() as connection:
        set_quotas(connection, **{quota: None if most == _OFF else int(most)})
    say(f"quota {quota}: {most}")
