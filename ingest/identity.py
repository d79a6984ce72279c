"""Identities of feed entries, decided from the entries and from what is remembered of earlier polls.  Pure.

An entry is known again by the first of these that it has, and that stands for it alone: its guid, its link, the
digest of its title and content.  The feed's **policy** says with which of them that begins: with ``guid`` until the
facts of the feed's own polls speak against it, and then moves on, never back:

* to ``link`` where there are no guids at all, where half of them stand for several entries, or where they change while
  link, title, content and date stay
* to ``digest`` where, besides, half of the links stand for several entries, or are missing

A guid or link that stands for several entries in one poll is *set aside* for good: those entries are told apart by what
comes next, and the others keep theirs.  Entries that repeat a guid with dates of their last change are the versions of
one item, as Atom has it.  An entry with a new guid but the link, title, content and date of a remembered item, whose
own guid is gone, is that item.  So a change of policy brings nothing anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from xscl.base.types import FIRST_TIME, to_micros
from xscl.base.values import canonical_url, digest_text
from xscl.ingest.dates import parse_date
from xscl.ingest.records import Entry

__all__ = [
    "BEFORE_ALL",
    "EMPTY",
    "MAX_ITEMS",
    "Identified",
    "Keys",
    "Memory",
    "Policy",
    "changed_at",
    "changes_of",
    "entry_keys",
    "identify",
    "ids_of_guids",
    "memory_json",
    "read_memory",
    "remember",
]

Policy = Literal["guid", "link", "digest"]

MAX_ITEMS = 5_000
"""Items that are remembered of a feed, those seen last; inclusive.  An older one is known again by its id alone."""
_MAX_CHARACTERS = 1_000_000
"""Number of ids that are remembered."""
_MAX_APART = 1_000
BEFORE_ALL = FIRST_TIME - 1
"""A time before all times of withdrawals."""
_WAYS: Mapping[str, tuple[str, ...]] = {
    "guid": ("guid", "link", "content"),
    "link": ("link", "content", "guid"),
    "digest": ("content", "link", "guid"),
}


class Keys(NamedTuple):
    """Digests by which an entry may be known; empty where it has nothing of the kind."""

    guid: str
    link: str
    content: str
    rest: str
    """Digest of all that stays when only a guid changes: link, title, content and date."""


@dataclass(frozen=True, slots=True)
class Known:
    """An item that is remembered."""

    id: str
    """Id of the item's events, without feed and version."""
    keys: Keys
    body: str
    """Digest of its last version without its guid; empty where it is not known that the memory's channel has that."""
    changed: int = BEFORE_ALL
    """Latest time of a last change that its entries state, microseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a feed from poll to poll."""

    policy: Policy = "guid"
    reason: str | None = None
    """Why it is not the policy that feeds begin with, or what is odd about the feed's identities."""
    channel: str = ""
    """Channel of the items."""
    changed: int = 0
    """Guids that have changed while all else stayed."""
    apart: tuple[str, ...] = ()
    """Keys of guids and links that stand for several entries, those found last at the end."""
    items: tuple[Known, ...] = ()
    """Items, those seen last at the end."""


EMPTY = Memory()


@dataclass(frozen=True, slots=True)
class Identified:
    """Outcome of the entries of a poll; each list is in their order."""

    memory: Memory
    """Memory with the policy for this poll and the items from before it."""
    ids: tuple[str, ...]
    repeats: tuple[bool, ...]
    """Whether an entry before it in this poll says the same."""
    known: tuple[bool, ...]
    """Whether the channel has this version already."""
    keys: tuple[Keys, ...]


def identify(
    memory: Memory, entries: Sequence[Entry], channel: str, keys: tuple[Keys, ...] | None = None
) -> Identified:
    """Decide which item each entry of a poll is; ``keys`` are those of the entries, where they are known already.

    >>> entry = Entry("g", "http://a.org/1", "c", None, None, "d", "b", None)
    >>> found = identify(EMPTY, [entry], "items")
    >>> found.ids, identify(remember(found, [entry], [True]), [entry], "items").known
    (('g',), (True,))
    """
    if memory.channel != channel:
        # What another channel has taken says nothing of this one.
        memory = replace(memory, channel=channel, items=tuple(replace(known, body="") for known in memory.items))
    keys = tuple(map(entry_keys, entries)) if keys is None else keys
    memory = _judged(memory, entries, keys)
    index = _Index(memory)
    guids = {key.guid for key in keys}
    ids: list[str] = []
    repeats: list[bool] = []
    known: list[bool] = []
    seen: dict[str, set[str]] = {}
    for entry, key in zip(entries, keys, strict=True):
        item = index.find(key, guids)
        id_ = _new_id(entry, key, index) if item is None else item.id
        item = item or index.ids.get(id_)
        contents = seen.setdefault(id_, set())
        ids.append(id_)
        repeats.append(key.content in contents)
        known.append(item is not None and item.body == entry.body[:16])
        contents.add(key.content)
    return Identified(memory, tuple(ids), tuple(repeats), tuple(known), keys)


def remember(
    found: Identified, entries: Sequence[Entry], taken: Iterable[bool], changes: Iterable[int] | None = None
) -> Memory:
    """Return the memory after a poll.

    Args:
        found: the outcome of its entries.
        entries: the entries.
        taken: says of each entry whether the channel has its item now.
        changes: what ``changed_at`` says of each, where that is known already.
    """
    items = {item.id: item for item in found.memory.items}
    times = map(changed_at, entries) if changes is None else changes
    for entry, id_, key, has, changed in zip(entries, found.ids, found.keys, taken, times, strict=True):
        before = items.pop(id_, None)
        if has and before is not None:
            # A poll that leaves a guid or link out takes nothing from what is known.
            key = key._replace(guid=key.guid or before.keys.guid, link=key.link or before.keys.link)
        if has:
            items[id_] = Known(id_, key, entry.body[:16], max(changed, before.changed) if before else changed)
        elif before is not None:
            items[id_] = before
    kept: list[Known] = []
    characters = 0
    for item in reversed(items.values()):
        characters += len(item.id)
        if len(kept) == MAX_ITEMS or characters > _MAX_CHARACTERS:
            break
        kept.append(item)
    return replace(found.memory, items=tuple(reversed(kept)))


def ids_of_guids(memory: Memory, guids: Iterable[str]) -> dict[str, str]:
    """Return the ids of the items that have some guids, or had them in polls that are remembered."""
    known = {item.keys.guid: item.id for item in memory.items}
    return {guid: known.get(_key("guid", guid), guid) for guid in guids}


def changed_at(entry: Entry) -> int:
    """Return the time of an entry's last change; ``BEFORE_ALL`` for one without a time."""
    found = parse_date(entry.updated or entry.published or "")
    return BEFORE_ALL if found is None else to_micros(found)


def changes_of(memory: Memory, ids: Iterable[str]) -> dict[str, int]:
    """Return the times of the last changes of some items that are remembered."""
    known = {item.id: item.changed for item in memory.items}
    return {id_: known[id_] for id_ in ids if id_ in known}


class _Index:
    """A memory by its keys."""

    def __init__(self, memory: Memory) -> None:
        self.apart = frozenset(memory.apart)
        self.ways = _WAYS[memory.policy]
        self.ids = {item.id: item for item in memory.items}
        self.guids = {item.keys.guid: item for item in memory.items if item.keys.guid}
        self.links = {item.keys.link: item for item in memory.items if item.keys.link}
        self.contents = {(item.keys.link, item.keys.content): item for item in memory.items if item.keys.content}
        self.rests = _by_rest(memory)

    def way(self, key: Keys) -> str:
        """Return the name of the key by which an entry is known; empty for its whole content."""
        for way in self.ways:
            if (value := getattr(key, way)) and value not in self.apart:
                return way
        return ""

    def find(self, key: Keys, present: set[str]) -> Known | None:
        """Return the remembered item of an entry; ``present`` are the guids of its poll."""
        way = self.way(key)
        if way == "content":
            # The same text at another address is another item.
            return self.contents.get((key.link, key.content))
        if way == "link":
            return self.links.get(key.link)
        if way == "guid":
            return self.guids.get(key.guid) or self._without_its_guid(key, present)
        return None

    def _without_its_guid(self, key: Keys, present: set[str]) -> Known | None:
        """Return the item of an entry with an unknown guid: one whose guid has changed, or that had none."""
        item = self.rests.get(key.rest)
        if item is not None and item.keys.guid not in present:
            return item
        item = None if key.link in self.apart else self.links.get(key.link)
        return item if item is not None and not item.keys.guid else None


def _by_rest(memory: Memory) -> dict[str, Known]:
    """Return the remembered items by what stays when a guid changes; without those that stand for nothing alone."""
    apart = frozenset(memory.apart)
    return {item.keys.rest: item for item in memory.items if item.keys.rest and item.keys.link not in apart}


def _judged(memory: Memory, entries: Sequence[Entry], keys: Sequence[Keys]) -> Memory:
    """Return the memory with what this poll says of the feed's guids and links."""
    total = len(entries)
    if total == 0:
        return memory
    guids = _several(entries, keys, 0)
    links = _several(entries, keys, 1)
    new = [value for value in sorted({*guids, *links}) if value not in memory.apart]
    memory = replace(memory, apart=(*memory.apart, *new)[-_MAX_APART:])
    apart = frozenset(memory.apart)
    changed, same = _changed_guids(memory, keys)
    memory = replace(memory, changed=memory.changed + changed)
    if memory.policy == "guid":
        with_guid = sum(bool(key.guid) for key in keys)
        shared = sum(key.guid in apart for key in keys)
        if with_guid == 0 and not any(item.keys.guid for item in memory.items):
            memory = replace(memory, policy="link", reason=f"none of {total} entries has a guid")
        elif shared and 2 * shared >= max(with_guid, len(memory.items)):
            memory = replace(
                memory, policy="link", reason=f"the guids of {shared} of {total} entries stand for several entries"
            )
        elif changed >= max(same, 1) and memory.changed >= 2:
            reason = f"{memory.changed} guids changed while link, title and content stayed"
            memory = replace(memory, policy="link", reason=reason)
        elif shared and memory.reason is None:
            reason = (
                f"the guids of {shared} of {total} entries stand for several, which are told apart by link or content"
            )
            memory = replace(memory, reason=reason)
    if memory.policy == "link":
        bad = sum(not key.link or key.link in apart for key in keys)
        # Of a poll, not of the few entries that a short one has left.
        if 2 * bad >= max(total, len(memory.items)):
            before = f"{memory.reason}; " if memory.reason else ""
            reason = f"{before}{bad} of {total} entries have no link of their own"
            memory = replace(memory, policy="digest", reason=reason)
    return memory


def _several(entries: Sequence[Entry], keys: Sequence[Keys], part: int) -> set[str]:
    """Return the guids (part 0) or links (1) that stand for entries of different content in this poll."""
    counts = Counter(key[part] for key in keys if key[part])
    wanted = {value for value, count in counts.items() if count > 1}
    if not wanted:
        return wanted
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if key[part] in wanted:
            groups.setdefault(key[part], []).append(number)
    return {value for value, group in groups.items() if not _one_item([(entries[n], keys[n]) for n in group])}


def _one_item(group: Sequence[tuple[Entry, Keys]]) -> bool:
    """Whether entries that share a guid or link are repetitions, or versions, of one item."""
    if len({key[:3] for _, key in group}) == 1:
        return True
    dates = {entry.updated for entry, _ in group}
    return len({(key.guid, key.link) for _, key in group}) == 1 and None not in dates and len(dates) == len(group)


def _changed_guids(memory: Memory, keys: Sequence[Keys]) -> tuple[int, int]:
    """Count the entries that are a remembered item but for its guid, and the entries that have its guid too."""
    before = _by_rest(memory)
    present = {key.guid for key in keys}
    changed = same = 0
    for key in keys:
        item = before.get(key.rest)
        if item is not None and key.guid and item.keys.guid:
            same += item.keys.guid == key.guid
            changed += item.keys.guid != key.guid and item.keys.guid not in present
    return changed, same


def _new_id(entry: Entry, key: Keys, index: _Index) -> str:
    way = index.way(key)
    if way == "guid" and entry.guid:
        return entry.guid
    if way == "link" and entry.link:
        return entry.link
    return digest_text("item", key.link, key.content) if way == "content" else entry.digest


def entry_keys(entry: Entry) -> Keys:
    """Return the digests by which an entry may be known."""
    link = _link_key(entry.link)
    content = entry.content[:16]
    rest = digest_text(link, content, entry.published or "", size=8) if link and content else ""
    return Keys(_key("guid", entry.guid), link, content, rest)


def _key(kind: str, text: str | None) -> str:
    return digest_text(kind, text, size=8) if text else ""


@lru_cache(maxsize=10_000)
def _link_key(link: str | None) -> str:
    """Return the key of an address: all spellings of one address have one key, and places in a page have different
    keys.
    """
    if not link:
        return ""
    if "#" not in link:
        return _key("link", f"{canonical_url(link)}#")
    try:
        fragment = urlsplit(link).fragment
    except ValueError:
        fragment = ""
    return _key("link", f"{canonical_url(link)}#{fragment}")


# Stored form


def memory_json(memory: Memory) -> str:
    """Return the memory as it is stored, without policy and reason."""
    items = [[item.id, *item.keys, item.body, item.changed] for item in memory.items]
    return json.dumps(
        {"channel": memory.channel, "changed": memory.changed, "apart": memory.apart, "items": items},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def read_memory(text: str | None, policy: Policy, reason: str | None) -> Memory:
    """Return the memory that was stored.

    >>> read_memory(memory_json(EMPTY), "guid", None) == EMPTY
    True
    """
    if not text:
        return Memory(policy, reason)
    stored = json.loads(text)
    items = tuple(Known(item[0], Keys(*item[1:5]), *item[5:]) for item in stored["items"])
    return Memory(policy, reason, stored["channel"], stored["changed"], tuple(stored["apart"]), items)
