"""``xscl channel``: channels and their streams."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli.options import CatalogOption, FormatOption, HomeOption, JsonOption, format_of, open_given, say
from xscl.cli.printing import print_rows

__all__ = ["channel_app"]

channel_app = typer.Typer(no_args_is_help=True, help="Channels: named streams of documents or rows.")


@channel_app.command("add")
def channel_add(
    name: str,
    kind: Annotated[str, typer.Option(help="xml or rows")] = "xml",
    element: Annotated[str | None, typer.Option(help="Root element of a row's document.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns: "room string, temp double".')] = None,
    lateness: Annotated[str | None, typer.Option(help="How late an event may be, e.g. '1 h'.")] = None,
    clock: Annotated[str | None, typer.Option(help="A clock shared with other channels.")] = None,
    idle: Annotated[str | None, typer.Option(help="How far it may be behind the newest of all channels.")] = None,
    retention: Annotated[str | None, typer.Option(help="How long events are held, e.g. '30 days'.")] = None,
    of: Annotated[str | None, typer.Option(help="Make it a stream of this channel.")] = None,
    source: Annotated[str | None, typer.Option(help="Of a stream: streams of one source share equal events.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Create a channel, or a stream of one."""
    from xscl.registry.channels import add_channel

    opened = open_given(home, catalog)
    times = {"lateness": lateness, "clock": clock, "idle": idle, "retention": retention}
    shape = {"element": element, "schema": schema, **times}
    add_channel(opened.catalog, name, kind=kind, **shape, of=of, source=source)
    say(f"channel {name}" if of is None else f"stream {name} of {of}")


@channel_app.command("set")
def channel_set(
    name: str,
    kind: Annotated[str | None, typer.Option(help="xml or rows; only while the channel is empty")] = None,
    element: Annotated[str | None, typer.Option(help="Root element of a row's document.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns: "room string, temp double".')] = None,
    lateness: Annotated[str | None, typer.Option(help="How late an event may be; 'none' for no limit.")] = None,
    clock: Annotated[str | None, typer.Option(help="A clock shared with other channels.")] = None,
    idle: Annotated[
        str | None, typer.Option(help="How far it may be behind the newest of all; 'none' for no limit.")
    ] = None,
    retention: Annotated[str | None, typer.Option(help="How long events are held; 'none' for ever.")] = None,
    source: Annotated[str | None, typer.Option(help="Of a stream; 'none' for no source.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Change a channel, or the source of a stream."""
    from xscl.catalog.retained_from import held_up, held_up_note
    from xscl.registry.channels import set_channel

    opened = open_given(home, catalog)
    times = {"lateness": lateness, "clock": clock, "idle": idle, "retention": retention}
    set_channel(opened.catalog, name, kind=kind, element=element, schema=schema, **times, source=source)
    say(f"channel {name}")
    if retention is not None and name in held_up(opened.catalog):
        say(held_up_note(name))


@channel_app.command("drop")
def channel_drop(name: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Remove a channel or a stream that holds no events and that nothing reads."""
    from xscl.registry.channels import drop_channel

    drop_channel(open_given(home, catalog).catalog, name)
    say(f"dropped {name}")


@channel_app.command("list")
def channel_list(
    home: HomeOption = None, catalog: CatalogOption = None, format: FormatOption = None, json: JsonOption = False
) -> None:
    """List channels and, behind each, its streams."""
    from xscl.answers.channel_listing import channel_rows
    from xscl.cli.next_steps import no_channels

    columns = ["channel", "of", "source", "kind", "events", "element", "schema"]
    columns += ["lateness", "clock", "idle", "retention"]
    short = ["channel", "of", "kind", "events", "retention", "lateness", "schema"]
    rows = channel_rows(open_given(home, catalog).catalog)
    if not print_rows(rows, columns, format_of(format, json), short=short):
        say(no_channels())
