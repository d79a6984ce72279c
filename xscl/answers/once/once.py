"""A text is answered once from held events; the home registers nothing and is only read.

The answer is a back-fill of one query (``backfill``), whose files go into a folder that is removed at once.  The answer
ends at one place of the intake order, so other processes may take in events and run batches meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa

from xscl.answers.matches.listing import built_matches, named_matches
from xscl.answers.matches.reader import FoundMatch, Member, members_of
from xscl.answers.once.absence import without_forbidden
from xscl.answers.once.steps import Stepped
from xscl.answers.once.sub_queries import answered_apart, channels_of
from xscl.answers.once.windows import of_windows
from xscl.base.errors import XsclError
from xscl.base.settings import Settings
from xscl.base.shown import counted
from xscl.base.system_errors import named_file_faults
from xscl.base.temporary import temporary_folder
from xscl.base.types import Match
from xscl.batches.history_walk import HeldEvents, HeldWalk, held_events
from xscl.batches.refusals import Unnamed
from xscl.catalog.channels import read_streams
from xscl.catalog.events import newer_versions
from xscl.catalog.intake_order import next_place, read_last_places
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import QueryInfo
from xscl.catalog.removals import removed_among, removed_before
from xscl.catalog.tables import QUERIES
from xscl.language.compiled import CompiledQuery
from xscl.language.syntax.parser import parse_query
from xscl.planning.planner import Planner
from xscl.planning.subscribers import Chosen, GroupText
from xscl.registry.channel_names import ChannelNames
from xscl.registry.counted import refuse_counted
from xscl.registry.publish_graph import is_published
from xscl.registry.registry import Registry
from xscl.store.home import Home
from xscl.store.results import StoredMatch, match_id, stored_matches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Answer", "query_once"]

_FOLDERS = ("programs", "results", "witness")


@dataclass(frozen=True, slots=True)
class _Scratch(Home):
    """A home whose events are those of another one; what is written goes to a folder of its own."""

    source: Home

    def paths(self, names: Sequence[str]) -> list[str]:
        return self.source.paths(names)


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Iterator[Match]):
    """Answer to a text: its matches one after the other, each once."""

    matches: Iterator[Match]
    """The same, sorted by (ts, query, match); their documents are read as they are asked for."""
    notes: tuple[str, ...]
    """Sentences on matches that may be lacking; known before the first match is asked for."""

    def __next__(self) -> Match:
        return next(self.matches)

    def __repr__(self) -> str:
        # Showing matches would use them up.
        return "\n".join(["<answer: list(answer) reads its matches, once", *(f"  note: {n}" for n in self.notes)]) + ">"


def query_once(
    home: Home,
    settings: Settings,
    session: Callable[[], SparkSession],
    text: str,
    *,
    since: int | None = None,
    name: str | None = None,
) -> Answer:
    """Answer a text once from what is held.

    Args:
        home: the home.
        settings: how much this process does itself.
        session: gives Spark, and is asked only where it is needed.
        text: one query, which DECLAREs may precede.
        since: members are of this event time or later, in microseconds; by default the text's STARTING says so, where
            NOW means all.
        name: what its matches are listed under, and their ids made with; else the text's own, or ``once``.

    Raises:
        QueryError: the text is no sound query.
        CatalogError: it is no name.
    """
    registry = Registry(home.catalog, ChannelNames(home.root), ends=True)
    info, compiled, notes = registry.unregistered(text, name=name)
    least = info.ts_from if since is None else since
    with home.catalog.read() as connection:
        place = next_place(connection)
        refuse_counted(compiled, partial(is_published, connection))
        # A question finds what is there when it is asked.
        events = replace(held_events(connection, place, least), removed=removed_before(connection, place))
    if info.written is not None:
        with named_file_faults(home.root):
            answered = answered_apart(home, settings, session, info, events)
        return Answer(iter(answered), (*notes, *_waiting_notes(home, channels_of(parse_query(info.written)))))
    texts = [part.text for part in compiled.parts] or [info.text]
    groups = [GroupText(info.gid, 1, text, json.dumps(dict(info.namespaces))) for text in texts]
    with named_file_faults(home.root):
        parts, refused = _walked_parts(home, settings, session, groups, events, place)
        waiting = tuple(_waiting_notes(home, compiled.channels))
        if compiled.windowed is not None:
            return _made(
                of_windows(home, info, compiled.group.key, compiled.windowed.text, parts[0]), (*notes, *waiting)
            )
        if compiled.stepped:
            memory = None if compiled.level is None else compiled.level.memory
            stepped = Stepped(home, info, parts, memory)
            notes = (*notes, *stepped.notes)
            if compiled.is_made:
                return _made(stepped.made(compiled.group.key), (*notes, *waiting))
            parts[0] = stepped.matches()
        found = _of_absence(home, compiled, parts, events, place)
        told = (f"{each.channel}:{each.id}: {each.message}" for each in dict.fromkeys(refused))
        return Answer(_built(home, info, found), (*notes, *waiting, *told))


def _walked_parts(
    home: Home,
    settings: Settings,
    session: Callable[[], SparkSession],
    groups: Sequence[GroupText],
    events: HeldEvents,
    place: int,
) -> tuple[list[list[StoredMatch]], list[Unnamed]]:
    """Walk the events for each part of a query; return the parts' matches and what was refused."""
    parts: list[list[StoredMatch]] = []
    refused: list[Unnamed] = []
    with temporary_folder("xscl-once") as folder:
        for number, group in enumerate(groups):
            (folder / str(number)).mkdir()
            scratch = _Scratch(folder / str(number), home.catalog, home)
            matches, lost = _walked(scratch, settings, session, group, events, place)
            parts.append(matches)
            refused += lost
    return parts, refused


def _made(found: Iterable[Match | XsclError], notes: tuple[str, ...]) -> Answer:
    """Return an answer of documents that were made; the text of each that could not be made is a note."""
    made = [*found]
    lost = (str(each) for each in made if isinstance(each, XsclError))
    return Answer((each for each in made if isinstance(each, Match)), (*notes, *lost))


def _of_absence(
    home: Home, compiled: CompiledQuery, parts: Sequence[Sequence[StoredMatch]], events: HeldEvents, place: int
) -> Sequence[StoredMatch]:
    """Return the matches of the first part that nothing forbids; all of them, if the query is not about absence."""
    absence = compiled.absence
    if absence is not None and absence.retracts:
        parts = [_newest(home, each, place) for each in parts]
    found, *forbidden = parts
    if absence is None or not absence.ends:
        return found
    memory = None if compiled.level is None else compiled.level.memory
    return without_forbidden(home, absence, found, forbidden, events.on_time, memory)


def _built(home: Home, info: QueryInfo, found: Sequence[StoredMatch]) -> Iterator[Match]:
    """Build matches in the order of listings."""
    members = members_of(home, {docid for match in found for docid in match.docids})
    seen = [_found(info, match, members) for match in found if all(docid in members for docid in match.docids)]
    seen.sort(key=lambda item: (item.ts, item.id))
    return (replace(match, cursor="") for match in named_matches(home, built_matches(home, iter(seen))))


def _newest(home: Home, found: Sequence[StoredMatch], last: int) -> list[StoredMatch]:
    """Return the matches whose members are the newest versions of their items, and not removed."""
    docids = {docid for match in found for docid in match.docids}
    with home.catalog.read() as connection:
        older = newer_versions(connection, docids, last).keys() | removed_among(connection, docids, last).keys()
    return [match for match in found if older.isdisjoint(match.docids)]


def _walked(
    scratch: _Scratch,
    settings: Settings,
    session: Callable[[], SparkSession],
    group: GroupText,
    events: HeldEvents,
    place: int,
) -> tuple[list[StoredMatch], list[Unnamed]]:
    """Walk the events for one group, whose files go to the scratch folder; return its matches and what was refused."""
    for each in _FOLDERS:
        scratch.folder(each).mkdir()
    planner = Planner(scratch.catalog, scratch.folder("programs"), Chosen([group], {group.number: (0, place, 0)}))
    try:
        plan = planner.plan(place, place)
        assert plan is not None
        walk = HeldWalk(scratch, settings, session, plan, events, 1, "once")
        found: list[StoredMatch] = []
        for level in walk.parts():
            found += stored_matches(walk.work.result_files(level))
        walk.close()
    finally:
        planner.close()
    return found, walk.work.refused


def _found(info: QueryInfo, match: StoredMatch, members: Mapping[int, Member]) -> FoundMatch:
    mine = tuple(members[docid] for docid in match.docids)
    id_ = match_id(info.digest, [(member.event.channel, member.event.id) for member in mine], match.nodes)
    return FoundMatch(id_, info, max(member.event.ts for member in mine) + match.later, match, mine)


def _waiting_notes(home: Home, names: Iterable[str]) -> Iterator[str]:
    """Note the channels that lack documents which queries are still to publish."""
    processed, last = home.catalog.ask(read_last_places)
    if processed == last:
        return
    with home.catalog.read() as connection:
        streams = read_streams(connection)
        read = {resolve_stream(streams, name)[0] for name in names}
        publishing = sa.select(QUERIES.c.publish).where(QUERIES.c.publish.in_(read), QUERIES.c.docid_until > processed)
        lacking = sorted(set(connection.scalars(publishing)))
    if lacking:
        yield (
            f"not processed yet: {counted(last - processed, 'place')} of the intake order; {', '.join(lacking)} has "
            "nothing yet that queries publish for them: xscl run --once"
        )
