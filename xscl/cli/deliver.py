"""``xscl deliver``: webhooks and files that matches go to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xscl.base.terminal import show
from xscl.cli.commands import command
from xscl.cli.options import Printing, ServedOptions, needs_home, say
from xscl.cli.printing import print_rows

__all__ = ["deliver_app"]

_MIB = 1 << 20
_CALLS = "/v1/deliveries"

deliver_app = typer.Typer(no_args_is_help=True, help="Webhooks and files that matches go to, sent by 'xscl serve'.")


@command(deliver_app, "add")
def deliver_add(
    name: str,
    query: Annotated[str | None, typer.Option("--query", help="Query whose matches are delivered; needed.")] = None,
    url: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help="Address of the web that takes them: requests with lines of JSON."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="DIR", help="Folder of the files that they are written to.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Begin behind this; 'start' delivers all.", show_default="what comes"),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="The address may be on a private network.")
    ] = False,
    rotate: Annotated[
        int, typer.Option(min=1, max=1 << 20, metavar="MIB", help="Size at which a file ends; each day has its own.")
    ] = 64,
    *,
    at: ServedOptions,
) -> None:
    """Deliver the matches of a query, at least once each, while 'xscl serve' runs.

    Of an address, the key that signs the requests is printed, once.

    Example: xscl deliver add shop --query cheap --to https://shop.example/hooks/xscl
    xscl deliver add archive --query cheap --file /var/lib/matches --after start
    """
    from xscl.answers.deliveries import add_files, add_webhook

    if query is None or (url is None) == (file is None):
        raise typer.BadParameter("give --query QUERY, and either --to URL or --file DIR")
    if url is not None and "://" not in url:
        raise typer.BadParameter(f"{url} is no address of the web; --file names a folder", param_hint="--to")
    if (client := at.client(only_home=True)) is not None:
        if url is None or allow_private:
            option = "--file" if url is None else "--allow-private"
            raise needs_home(f"deliver add {option}", "folders and private addresses are given where the service runs")
        asked = {"name": name, "query": query, "url": url, "after": after}
        show(client.call("POST", _CALLS, json=asked)["secret"])
        say(f"delivery {name}; the key of its signatures is not shown again")
        return
    home = at.open()
    if file is not None:
        add_files(home, name, query, file, after=after, most_bytes=rotate * _MIB)
        say(f"delivery {name}; 'xscl serve' writes the files")
        return
    assert url is not None
    show(add_webhook(home, name, query, url, after=after, private=allow_private))
    say(f"delivery {name}; the key of its signatures is not shown again")


@command(deliver_app, "list")
def deliver_list(at: ServedOptions, printing: Printing) -> None:
    """List deliveries: how far they are, what fails, and what was given up.

    Example: xscl deliver list
    """
    from xscl.answers.deliveries import DELIVERY_COLUMNS, delivery_rows

    short = ["delivery", "query", "target", "state", "sent", "dead_matches"]
    client = at.client(only_home=True)
    found = delivery_rows(at.open()) if client is None else client.call("GET", _CALLS)["deliveries"]
    rows = [{column: row[column] for column in DELIVERY_COLUMNS} for row in found]
    if not print_rows(rows, DELIVERY_COLUMNS, printing.chosen(), short=short, notes=["next_attempt", "problem"]):
        say("no deliveries; 'xscl deliver add NAME --query QUERY --to URL' makes one")


@command(deliver_app, "drop")
def deliver_drop(name: str, at: ServedOptions) -> None:
    """End a delivery; what was given up is forgotten, the matches stay in the home.

    Example: xscl deliver drop shop
    """
    from xscl.catalog.deliveries import drop_delivery
    from xscl.cli.client import quoted

    if (client := at.client(only_home=True)) is not None:
        client.call("DELETE", f"{_CALLS}/{quoted(name)}")
    else:
        with at.open().catalog.begin() as connection:
            drop_delivery(connection, name)
    say(f"dropped {name}")


@command(deliver_app, "replay")
def deliver_replay(
    name: str,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="CURSOR",
            help="All behind this; 'start' is before all.",
            show_default="what was given up",
        ),
    ] = None,
    *,
    at: ServedOptions,
) -> None:
    """Send again what was given up, or everything behind a cursor; ids stay the same.

    Example: xscl deliver replay shop
    xscl deliver replay shop --after start
    """
    from xscl.answers.deliveries import send_again
    from xscl.cli.client import quoted

    if (client := at.client(only_home=True)) is not None:
        told = client.call("POST", f"{_CALLS}/{quoted(name)}/replay", json={"after": after})
    else:
        told = send_again(at.open(), name, after)
    if "matches" in told:
        say(f"{name} sends {told['matches']} matches again")
    else:
        say(f"{name} goes on behind {told['after']}")
