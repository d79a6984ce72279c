"""``xscl channel``: channels and their streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.cli.commands import command
from xscl.cli.options import Printing, ServedOptions, say
from xscl.cli.printing import print_rows

if TYPE_CHECKING:
    from xscl.registry.channels import ChannelOptions

__all__ = ["channel_app"]

channel_app = typer.Typer(no_args_is_help=True, help="Channels: named streams of documents or rows.")


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Options of a channel that can be changed."""

    kind: Annotated[
        str | None, typer.Option(help="xml or rows; it stays once there are events.", show_default="xml, of a new one")
    ] = None
    element: Annotated[str | None, typer.Option(help="Root element of a row's document.")] = None
    schema: Annotated[str | None, typer.Option(help='Columns: "room string, temp double".')] = None
    lateness: Annotated[
        str | None, typer.Option(help="How late an event may be: '1 h'; 'none' for no limit; 'auto' by feed.")
    ] = None
    clock: Annotated[str | None, typer.Option(help="A clock shared with other channels.")] = None
    idle: Annotated[
        str | None, typer.Option(help="How far it may be behind the newest of all; 'none' for no limit.")
    ] = None
    wall: Annotated[
        str | None,
        typer.Option(help="Runs say that all is in up to so long before now, e.g. '1 min'; 'none' for no such word."),
    ] = None
    retention: Annotated[
        str | None, typer.Option(help="How long events are held, e.g. '30 days'; 'none' for ever.")
    ] = None
    source: Annotated[
        str | None, typer.Option(help="Of a stream: streams of one source share equal events; 'none' for no source.")
    ] = None

    def record(self) -> ChannelOptions:
        """Make the record of all options."""
        from xscl.registry.channels import ChannelOptions

        return ChannelOptions(**asdict(self))


@dataclass(frozen=True, slots=True)
class AddOptions(SetOptions):
    """Options of a new channel."""

    of: Annotated[str | None, typer.Option(help="Make it a stream of this channel.")] = None


@command(channel_app, "add")
def channel_add(name: str, options: AddOptions, at: ServedOptions) -> None:
    """Create a channel, or a stream of one.

    Example: xscl channel add readings --kind rows --schema 'room string, temp double'
    xscl channel add bbc --of news
    """
    from xscl.registry.channels import add_channel

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote import add_channel as add_remote

        notes = add_remote(client, name, options.record())
    else:
        notes = add_channel(at.open().catalog, name, options.record())
    say(f"channel {name}" if options.of is None else f"stream {name} of {options.of}")
    for note in notes:
        say(f"note: {note}")


@command(channel_app, "set")
def channel_set(name: str, options: SetOptions, at: ServedOptions) -> None:
    """Change a channel, or the source of a stream.

    Example: xscl channel set news --lateness '1 h' --retention '30 days'
    """
    from xscl.catalog.retained_from import held_up, held_up_note
    from xscl.registry.channels import set_channel

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote import set_channel as set_remote

        notes = set_remote(client, name, options.record())
        for line in (f"channel {name}", *notes):
            say(line)
        return
    catalog = at.open().catalog
    set_channel(catalog, name, options.record())
    say(f"channel {name}")
    if options.retention is not None and name in held_up(catalog):
        say(held_up_note(name))


@command(channel_app, "drop")
def channel_drop(name: str, at: ServedOptions) -> None:
    """Remove a channel or a stream that holds no events and that nothing reads.

    Example: xscl channel drop readings
    """
    from xscl.registry.channels import drop_channel

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote import drop_channel as drop_remote

        drop_remote(client, name)
    else:
        drop_channel(at.open().catalog, name)
    say(f"dropped {name}")


@command(channel_app, "list")
def channel_list(at: ServedOptions, printing: Printing) -> None:
    """List channels and, behind each, its streams.

    Example: xscl channel list --format ndjson
    """
    from xscl.answers.channel_listing import channel_rows
    from xscl.cli.next_steps import no_channels

    columns = ["channel", "of", "source", "kind", "events", "element", "schema"]
    columns += ["lateness", "clock", "idle", "wall", "retention"]
    short = ["channel", "of", "kind", "events", "retention", "lateness", "schema"]
    rows: Iterable[dict[str, object]]
    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote import channel_list as list_remote

        rows = list_remote(client)
    else:
        rows = channel_rows(at.open().catalog)
    if not print_rows(rows, columns, printing.chosen(), short=short):
        say(no_channels())


@command(channel_app, "suggest")
def channel_suggest(
    at: ServedOptions,
    printing: Printing,
    name: Annotated[str | None, typer.Argument(help="A channel.", show_default="all")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Set it, of the channel that is named, or of all with enough events.")
    ] = False,
) -> None:
    """Suggest the lateness of channels, by how far behind their clocks events have come; feeds are told apart.

    The suggested lateness is a round one that 999 of 1,000 events would have kept.

    Example: xscl channel suggest items --apply
    """
    from xscl.answers.lateness import declare_suggested, suggestion_rows

    columns = ["channel", "feed", "events", "behind", "p50", "p999", "longest", "lateness", "suggested"]
    notes: Iterable[str] = ()
    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import declare_remote_lateness, remote_lateness

        if apply:
            rows, notes = declare_remote_lateness(client, name)
        else:
            rows = remote_lateness(client, name)
    else:
        home = at.open()
        found = suggestion_rows(home, name)
        rows = [row for row, _ in found]
        notes = declare_suggested(home, [one for _, one in found], name) if apply else ()
    if not print_rows(rows, columns, printing.chosen()):
        say("no events yet: a lateness is suggested from events")
    for note in notes:
        say(note)
