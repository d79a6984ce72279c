"""Channels as the queries of one transaction see them, with those that these queries publish to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from sqlalchemy.engine import Connection

from xscl.base.durations import format_duration
from xscl.base.errors import CatalogError, Span
from xscl.catalog.channels import channel_facts, put_channel, read_channels, read_facts, require_channel_name
from xscl.catalog.home_channels import HOME_CHANNELS, home_channel
from xscl.catalog.records import RAW, ChannelInfo
from xscl.catalog.retained_from import held_times
from xscl.catalog.suggestions import channel_names, how_created, no_channel
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Prepared
from xscl.language.syntax import ast
from xscl.language.syntax.statements import RawStatement
from xscl.registry.channel_names import ChannelNames, DocumentNames, known_names
from xscl.registry.notes import channel_note, gone_notes, settling_note
from xscl.registry.publish_graph import is_published

__all__ = ["SeenChannels"]


class SeenChannels:
    """Channels of one transaction, read when something asks for them."""

    def __init__(self, connection: Connection, names: ChannelNames | None, *, registers: bool, ends: bool) -> None:
        """Begin.

        Args:
            connection: of the transaction.
            names: knows the documents of channels, for notes; None: notes speak of columns only.
            registers: whether the queries are kept; else no note says that an event will create a channel.
            ends: whether the channels end before anything is answered, so that all their times are settled.
        """
        self.connection = connection
        self._documents = names
        self._registers = registers
        self._ends = ends
        self.facts: dict[str, ChannelFacts] = {}
        """Facts that texts are compiled with."""
        self._infos: dict[str, ChannelInfo] | None = None
        self._names: dict[str, DocumentNames | None] = {}
        self._fed: dict[str, bool] = {}
        self._settled: set[str] = set()
        """Channels whose times settings or heartbeats settle; within a transaction these do not end."""
        self._missing: dict[str, str] = {}
        """Notes on channels that do not exist."""
        self._refused: dict[str, CatalogError] = {}
        """Refusals of channels that do not exist."""
        self.read()
        self._there = set(self.facts)
        """Channels that exist, or will be published to."""

    def read(self) -> None:
        """Read the channels, which have changed."""
        self.facts = read_facts(self.connection)
        self._infos = None
        self._names.clear()

    def publish(self, name: str) -> None:
        """Note that a query publishes to a channel."""
        self._there.add(name)
        self._fed[name] = True

    def forget_published(self) -> None:
        """Forget who publishes to what, because a query is dropped."""
        self._there = set(self.facts)
        self._fed.clear()

    def put_home_channels(self, compiled: CompiledQuery) -> None:
        """Create the channels of the home itself that a query is the first to read."""
        wanted = HOME_CHANNELS.keys() & set(compiled.read)
        if wanted:
            there = read_channels(self.connection)
            for name in sorted(wanted - there.keys()):
                put_channel(self.connection, home_channel(name))
                self._infos = None

    def note_rows(self, name: str, columns: Mapping[str, str]) -> ChannelInfo:
        """Note a new channel of rows; no columns: of documents."""
        info = ChannelInfo.new(name)
        if columns:
            info = replace(info, kind="rows", schema=dict(columns))
            self.facts[name] = channel_facts(info)
            self._known()[name] = info
        return info

    def schemas(self, names: Iterable[str]) -> dict[str, Mapping[str, str | None]]:
        """Return the columns of channels and streams that exist, by their names; those of documents have none."""
        named, known = {name: self._channel_of(name) for name in names}, self._known()
        return {name: known[channel].schema or {} for name, channel in named.items() if channel in known}

    def names_of(self, channel: str) -> DocumentNames | None:
        """Return the names that a channel's documents have, as far as they are known."""
        if channel not in self._names:
            self._names[channel] = known_names(self._known(), self._documents, self.connection, channel)
        return self._names[channel]

    # -- notes -------------------------------------------------------------------------------------------------

    def notes(self, prepared: Prepared, *, begins: bool) -> tuple[str, ...]:
        """Return notes on the channels of a query, which begins now or goes on."""
        compiled = prepared.compiled
        gone = self._gone_notes(compiled) if begins and prepared.starting != "NOW" else ()
        return (*self.missing_notes(compiled), *self._settling(compiled), *gone)

    def missing_notes(self, compiled: CompiledQuery) -> tuple[str, ...]:
        """Return notes on the channels that do not exist and that nothing publishes to."""
        channels = _named_channels(compiled)
        missing = [channel for channel in channels if channel not in self._there and not self.is_fed(channel)]
        return tuple(self._missing_note(channel) for channel in dict.fromkeys(missing))

    def _missing_note(self, channel: str) -> str:
        if channel not in self._missing:
            known = (*channel_names(self.connection), *self._there)
            self._missing[channel] = channel_note(channel, known, registered=self._registers)
        return self._missing[channel]

    def _settling(self, compiled: CompiledQuery) -> Iterator[str]:
        """Yield notes on channels that answers wait for, and whose times nothing settles."""
        if compiled.level is not None and compiled.level.memory is not None:
            return  # a query that forgets behind a clock waits for nothing but the clock
        for channel in dict.fromkeys(_waited_for(compiled)):
            if not self._settles(channel):
                is_final = compiled.level in (None, ast.STRONG)
                yield settling_note(channel, is_final=is_final, is_there=channel in self._there)

    def _gone_notes(self, compiled: CompiledQuery) -> Iterator[str]:
        """Yield notes on channels that have let events go which ``ONCE`` may need."""
        if any(bounds.exchange for case in compiled.group.cases for bounds in case):
            yield from gone_notes(compiled, self.facts, held_times(self.connection))

    # -- what a query needs ------------------------------------------------------------------------------------

    def level(self, compiled: CompiledQuery) -> ast.Level:
        """Return the level of a query that names none: ``STRONG`` where the times of all its channels are settled."""
        return ast.STRONG if all(map(self._settles, compiled.read)) else ast.MIDDLE

    def require_lateness(self, compiled: CompiledQuery) -> None:
        """Refuse a memory that is longer than the lateness of a channel.

        Raises:
            CatalogError: ``XSCL_BAD_LEVEL``.
        """
        memory = 0 if compiled.level is None else compiled.level.memory or 0
        for name in sorted(compiled.read):
            info = self._known().get(self._channel_of(name))
            if info is not None and info.lateness is not None and info.lateness < memory:
                raise CatalogError(
                    "XSCL_BAD_LEVEL",
                    f"events of {info.name} are in time up to {format_duration(info.lateness)} behind its clock, so "
                    f"there is nothing to remember for {format_duration(memory)}",
                    hint=f"MEMORY {format_duration(info.lateness)}, or xscl channel set {info.name} --lateness "
                    f"{format_duration(memory).replace(' ', '')}",
                )

    def require_open(self, target: str) -> None:
        """Refuse to publish to what is no channel of events that queries may make."""
        require_channel_name(target)
        facts = self.facts.get(target)
        if facts is not None and facts.channel is not None:
            raise CatalogError(
                "XSCL_BAD_CHANNEL",
                f"{target} is a stream of {facts.channel}, and PUBLISH appends to a channel",
                hint=f"PUBLISH {facts.channel}, or another name",
            )

    def require_all(self, statement: Callable[[], RawStatement], compiled: CompiledQuery) -> None:
        """Refuse a query that names a channel that does not exist, and that nothing publishes to.

        Raises:
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
        """
        for place, channel in enumerate(_named_channels(compiled)):
            if channel not in self._there and not self.is_fed(channel):
                if channel not in self._refused:
                    how = how_created(channel, strict=True)
                    self._refused[channel] = no_channel(self.connection, channel, how)
                raw = statement()
                raise self._refused[channel].placed(raw.text, _channel_span(raw.created(), place))

    # -- one channel -------------------------------------------------------------------------------------------

    def is_fed(self, channel: str) -> bool:
        """Tell whether a query publishes to a channel."""
        if channel not in self._fed:
            self._fed[channel] = is_published(self.connection, channel)
        return self._fed[channel]

    def _known(self) -> dict[str, ChannelInfo]:
        if self._infos is None:
            self._infos = read_channels(self.connection)
        return self._infos

    def _channel_of(self, name: str) -> str:
        """Return a channel, or the channel of a stream."""
        facts = self.facts.get(name.removesuffix(RAW))
        return name if facts is None or facts.channel is None else facts.channel

    def _settles(self, name: str) -> bool:
        """Tell whether something settles the times of a channel, or of the channel of a stream."""
        if self._ends:
            return True
        channel = self._channel_of(name)
        if channel not in self._settled:
            info = self._known().get(channel)
            if info is not None and (info.lateness, info.heartbeat, info.wall) != (None, None, None):
                self._settled.add(channel)
        return channel in self._settled or self.is_fed(channel)


def _named_channels(compiled: CompiledQuery) -> list[str]:
    """Return the channels and streams that a query's blocks name, in the order of its text."""
    if compiled.stepped:
        return [block.channel for part in compiled.stepped for block in part.compiled.normal.blocks]
    absent = () if compiled.absence is None else compiled.absence.ends
    return [*(block.channel for block in compiled.normal.blocks), *(channel for channel, _ in absent)]


def _waited_for(compiled: CompiledQuery) -> tuple[str, ...]:
    """Return the channels whose times decide answers: of absence the forbidden ones, of windows and steps all."""
    if compiled.absence is not None:
        return tuple(name for name, _ in compiled.absence.ends)
    if compiled.windowed is not None:
        return compiled.channels
    return tuple(channel for part in compiled.stepped for channel in part.compiled.channels)


def _channel_span(created: ast.CreateQuery, place: int) -> Span:
    """Return the place of the channel's name of a block."""
    absent = (negation.right for negation in created.query.negations)
    block = (*ast.blocks(created.query.source), *absent)[place]
    return Span(block.span.start, block.span.start + len(block.channel))
