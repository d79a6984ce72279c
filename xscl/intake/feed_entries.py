"""Feeds at intake: which entries of a feed its channel does not have yet, and what is remembered of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from xscl.base.document_limits import Limits
from xscl.base.errors import XsclError
from xscl.base.pickled import by_fields
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.catalog.events import find_feed_digests
from xscl.catalog.memberships import resolve_stream
from xscl.ingest.expand import EntryDocuments, entry_documents, entry_events
from xscl.ingest.identity import Identified, Keys, changed_at, entry_keys, identify, remember
from xscl.ingest.records import FeedDocument, Rejected
from xscl.intake.checks import CheckedEvent, KeptDocument, check_events, checked_event
from xscl.intake.events import take_events
from xscl.intake.feed_memory import FeedStates
from xscl.intake.transaction import Chunk
from xscl.intake.withdrawals import take_withdrawals, without_withdrawn
from xscl.store.event_content import document_digest, stored_documents

__all__ = ["CheckedFeed", "check_feed", "events_of", "keep_documents", "take_feed"]

_SHOWN = 200
"""Characters of an identity that are told."""


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """An entry whose documents a task has checked."""

    made: EntryDocuments
    """Its time, and empty texts."""
    documents: tuple[KeptDocument | XsclError, ...]
    """Its documents, or why one is refused."""
    keys: Keys
    changed: int
    """The time of its last change."""

    __reduce__ = by_fields


@dataclass(frozen=True, slots=True)
class CheckedFeed:
    """A feed whose entries a task has checked."""

    document: FeedDocument
    """The feed; its entries have empty texts in place of their elements."""
    entries: tuple[CheckedEntry, ...]


def check_feed(document: FeedDocument, limits: Limits, texts: list[bytes]) -> CheckedFeed:
    """Check the documents of all entries of a feed, and add them to ``texts``."""
    entries = []
    every = list(entry_documents(document, document.entries))
    kept = keep_documents([text for made in every for text in made.texts], limits, texts)
    for entry, made in zip(document.entries, every, strict=True):
        documents = tuple(islice(kept, len(made.texts)))
        without_texts = replace(made, texts=("",) * len(documents))
        entries.append(CheckedEntry(without_texts, documents, entry_keys(entry), changed_at(entry)))
    bare = tuple(replace(entry, raw=None if entry.raw is None else "", item=None) for entry in document.entries)
    return CheckedFeed(replace(document, entries=bare), tuple(entries))


def keep_documents(contents: Sequence[str], limits: Limits, texts: list[bytes]) -> Iterator[KeptDocument | XsclError]:
    """Check documents and add them to ``texts``; yield for each its place there, or why it is refused."""
    for found in stored_documents(contents, limits):
        if isinstance(found, bytes):
            texts.append(found)
            yield KeptDocument(len(texts) - 1, document_digest(found))
        else:
            yield found


def take_feed(
    chunk: Chunk, states: FeedStates, document: FeedDocument, checked: Sequence[CheckedEntry] | None = None
) -> None:
    """Take the entries of a feed that its channel does not have yet, and remember them.

    Args:
        chunk: their transaction.
        states: memories of feeds.
        document: the feed.
        checked: its entries, where a task has checked their documents.
    """
    state = states.of(document)
    had = state.items
    strange = state.is_strange(chunk.connection, document)
    document, checked = without_withdrawn(document, checked)
    keys = None if checked is None else tuple(entry.keys for entry in checked)
    found = identify(state.memory, document.entries, document.channel, keys)
    has = [known or repeat for known, repeat in zip(found.known, found.repeats, strict=True)]
    for n in _taken_already(chunk, document, found, state.identity):
        has[n] = True
    wanted = [n for n, there in enumerate(has) if not there]
    chunk.report.duplicates += events_of(document) - events_of(document, wanted)
    if wanted:
        limits = chunk.terms.limits
        if checked is None:
            made = in_fresh_dictionary(_check_entries, document, wanted, found, state.identity, limits)
        else:
            made = _events_of_checked(document, checked, wanted, found, state.identity)
        chunk.feeds.still = strange
        outcomes = iter(take_events(chunk, [event for events in made for event in events]))
        chunk.feeds.still = False
        for n, events in zip(wanted, made, strict=True):
            of_entry = [next(outcomes) for _ in events]
            has[n] = of_entry[0] != "rejected"
            state.count(of_entry)
    changes = None if checked is None else [entry.changed for entry in checked]
    state.memory = remember(found, document.entries, has, changes)
    if not strange:
        take_withdrawals(chunk, state, document)
    elif document.withdrawn:
        chunk.report.note_input(_told_strange(state.identity, document))
    state.note(document)
    if document.poll is not None:
        chunk.polls.append({**document.poll.told, "new": state.items - had})
    if document.flaw is not None:
        chunk.report.note_flaw(f"{document.source}: {document.flaw}")


def _told_strange(identity: str, document: FeedDocument) -> str:
    """Say that the withdrawals of a feed are not taken."""
    count = f"{len(document.withdrawn):,} withdrawal{'s' if len(document.withdrawn) > 1 else ''}"
    shown = identity if len(identity) <= _SHOWN else f"{identity[:_SHOWN]}…"
    return f"{document.source}: {count} not taken, as {shown!r} is a feed of another host"


def events_of(document: FeedDocument, numbers: Sequence[int] | None = None) -> int:
    """Count the events that the entries of a feed make, or the entries of these numbers."""
    entries = document.entries if numbers is None else [document.entries[n] for n in numbers]
    return sum(1 if entry.raw is None else 2 for entry in entries)


def _check_entries(
    document: FeedDocument, wanted: Sequence[int], found: Identified, feed: str, limits: Limits
) -> list[list[CheckedEvent | Rejected]]:
    """Return the events of some entries of a feed, by their numbers."""
    entries = [document.entries[n] for n in wanted]
    events = [
        entry_events(document, entry, made, found.ids[n], feed=feed, policy=found.memory.policy)
        for n, entry, made in zip(wanted, entries, entry_documents(document, entries), strict=True)
    ]
    checked = iter(check_events([event for of_entry in events for event in of_entry], limits))
    return [[next(checked) for _ in of_entry] for of_entry in events]


def _events_of_checked(
    document: FeedDocument, checked: Sequence[CheckedEntry], wanted: Sequence[int], found: Identified, feed: str
) -> list[list[CheckedEvent | Rejected]]:
    """Return the same events where a task has checked their documents."""
    made: list[list[CheckedEvent | Rejected]] = []
    for n in wanted:
        entry = checked[n]
        events = entry_events(
            document, document.entries[n], entry.made, found.ids[n], feed=feed, policy=found.memory.policy
        )
        documents = zip(events, entry.documents, strict=True)
        made.append([checked_event(event, kept) for event, kept in documents])
    return made


def _taken_already(chunk: Chunk, document: FeedDocument, found: Identified, feed: str) -> Iterator[int]:
    """Yield the numbers of entries that memory does not know and that were taken in as they are.

    Old polls that are read again say what new ones no longer do, also before a guid or link was found to be no good.
    """
    names: dict[str, list[int]] = {}
    for n, entry in enumerate(document.entries):
        if not found.known[n]:
            # Version 0.1 took the digest of an entry without a guid for its id.
            for name in {entry.guid, entry.link, entry.digest, found.ids[n]} - {None}:
                names.setdefault(str(name), []).append(n)
    if not names:
        return
    channel, stream = resolve_stream(chunk.streams, document.channel)
    # Whether a stream gets what only others have is decided event by event.
    mine = None if stream is None else set(chunk.memberships.of_stream(stream.number))
    # What other feeds of this transaction have brought counts as what earlier ones have.
    chunk.write_ids()
    for row in find_feed_digests(chunk.connection, channel, feed, names):
        if mine is None or row.membership in mine:
            for n in names[row.base]:
                if row.digest in (document.entries[n].digest, document.entries[n].body):
                    yield n
