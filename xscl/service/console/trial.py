"""Trial of a query on a few documents: its witnesses and matches, before it is registered."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

from xscl.answers.matches.listing import list_matches
from xscl.answers.matches.nodes import nodes_of
from xscl.answers.try_query import BlockWitness, DryRun
from xscl.base.errors import SourceError, XsclError
from xscl.base.settings import Settings
from xscl.base.temporary import temporary_folder
from xscl.base.types import Event, Match
from xscl.base.values import exact_number
from xscl.catalog.channels import put_channel, read_channels, read_facts, read_streams
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import QueryInfo
from xscl.engine import Engine
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.registry.canonical_text import canonical_text
from xscl.registry.channels import ChannelOptions
from xscl.registry.recompile import compile_info
from xscl.service.console.matches import ShownMember, shown_match
from xscl.service.problems import Refused
from xscl.service.runtime import Service
from xscl.store.home import init_home

__all__ = ["Given", "Trial", "TriedMatch", "try_query"]

_DOCUMENT = 200_000
"""Characters of a document at most."""
_BINDINGS, _PAIRS = 20_000, 20_000
"""Bindings and combinations of a trial at most."""
_SHOWN = 20
"""Matches, and witnesses of a document, that are shown."""
_SECONDS = 15.0
_workers = ThreadPoolExecutor(2, "xscl-trial")
"""Threads of all trials.  One that takes too long keeps its thread, so that trials never take all of the machine."""
_free = threading.BoundedSemaphore(4)


@dataclass(frozen=True, slots=True)
class Given:
    """A document to try a query on."""

    name: str
    channel: str
    time: str
    text: str
    """XML, or a row as an object of JSON."""


@dataclass(frozen=True, slots=True)
class TriedDocument:
    """A document with what a query finds in it."""

    name: str
    channel: str
    witnesses: tuple[BlockWitness, ...]
    more: bool
    """Whether there are more witnesses than are shown."""
    problem: str | None
    """Reason why it cannot be taken."""


@dataclass(frozen=True, slots=True)
class TriedMatch:
    """A match of a trial."""

    members: list[ShownMember]
    values: list[tuple[str, str, int]]


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a trial."""

    documents: tuple[TriedDocument, ...]
    matches: tuple[TriedMatch, ...]
    more: bool
    """Whether there are more matches than are shown."""
    notes: tuple[str, ...]


def try_query(service: Service, info: QueryInfo, given: Sequence[Given]) -> Trial:
    """Evaluate a query over a few documents in a home of their own, which ends with the call.

    Raises:
        Refused: ``XSCL_BODY_LIMIT``, ``XSCL_BUSY``, ``XSCL_TRIAL_TIME``.
    """
    for each in given:
        if len(each.text) > _DOCUMENT:
            raise Refused(413, "XSCL_BODY_LIMIT", f"{each.name} has more than {_DOCUMENT:,} characters")
    if not _free.acquire(blocking=False):
        raise Refused(503, "XSCL_BUSY", "other trials run", after_s=2)
    future = _workers.submit(_tried, service, info, given)
    future.add_done_callback(lambda _: _free.release())
    try:
        return future.result(_SECONDS)
    except TimeoutError:
        told = f"the trial takes more than {_SECONDS:g} s"
        raise Refused(504, "XSCL_TRIAL_TIME", told, hint="try it on smaller documents") from None


def _tried(service: Service, info: QueryInfo, given: Sequence[Given]) -> Trial:
    events: list[tuple[Given, Event]] = []
    problems: dict[str, str] = {}
    for each in given:
        try:
            events.append((each, _event(each)))
        except XsclError as error:
            problems[each.name] = error.message
    catalog = service.home.catalog
    with catalog.read() as connection:
        channels, streams = read_channels(connection), read_streams(connection)
    with service.registering:
        dry = DryRun(info, channels, streams)
    tried = []
    for each in given:
        event = next((event for one, event in events if one is each), None)
        found = [] if event is None else list(islice(dry.witnesses([event]), _SHOWN + 1))
        if dry.problems:
            problems[each.name] = dry.problems.pop().message
        tried.append(
            TriedDocument(
                each.name, each.channel, tuple(found[:_SHOWN]), len(found) > _SHOWN, problems.get(each.name)
            )  # fmt: skip
        )
    sound = [event for each, event in events if each.name not in problems]
    matches, notes = _matches(service, info, sound) if sound else ((), ())
    return Trial(tuple(tried), matches[:_SHOWN], len(matches) > _SHOWN, (*dry.notes(), *notes))


def _event(given: Given) -> Event:
    """Return the event that a document is.

    Raises:
        SourceError: the text is no object of JSON, or the document has no channel.
    """
    text = given.text.strip()
    if not given.channel:
        raise SourceError("XSCL_BAD_EVENT", "the document has no channel")
    if not text.startswith("{"):
        return Event(given.channel, given.name, given.time or None, xml=text)
    try:
        row = json.loads(text, parse_float=exact_number)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise SourceError("XSCL_BAD_EVENT", f"the row is no JSON: {error}") from None
    return Event(given.channel, given.name, given.time or None, row=row)


def _matches(
    service: Service, info: QueryInfo, events: Sequence[Event]
) -> tuple[tuple[TriedMatch, ...], tuple[str, ...]]:
    """Run the query in a home of its own that has the channels of the service's."""
    with temporary_folder("xscl-trial") as folder:
        home = init_home(folder)
        with Engine(home, settings=Settings(where="driver")) as engine:
            with service.registering:
                _copy_channels(service, engine, {event.channel for event in events})
                engine.register(canonical_text(info))
            engine.set_quotas(bindings=_BINDINGS, pairs=_PAIRS)
            report = engine.ingest(list(events))
            engine.end_input()
            reports = engine.run_once()
            facts = home.catalog.ask(read_facts)
            with service.registering:
                compiled = compile_info(info, facts)
            listing = islice(list_matches(home), _SHOWN + 1)
            matches = tuple(_shown(match, compiled, facts) for match in listing)
    lost = [problem.message for problem in report.problems]
    lost += [str(each) for one in reports for each in (*one.suspended, *one.rejected)]
    return matches, tuple(lost)


def _shown(match: Match, compiled: CompiledQuery, facts: Mapping[str, ChannelFacts]) -> TriedMatch:
    found = nodes_of(compiled, facts, match) or [{} for _ in match.events]
    return TriedMatch(*shown_match(match, found))


def _copy_channels(service: Service, engine: Engine, names: set[str]) -> None:
    """Make the channels of some events as they are in the service's home."""
    with service.home.catalog.read() as connection:
        channels, streams = read_channels(connection), read_streams(connection)
    for name in sorted(names):
        channel, stream = resolve_stream(streams, name)
        if channel in channels and channel not in engine.home.catalog.ask(read_channels):
            known = replace(channels[channel], lateness=None, retention=None, clock=channel)
            with engine.home.catalog.begin() as writing:
                put_channel(writing, known)
        if stream is not None:
            engine.add_channel(name, ChannelOptions(of=channel))
