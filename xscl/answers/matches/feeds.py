"""Matches of a query as feeds that others subscribe to: Atom (RFC 4287) and JSON Feed 1.1."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from xscl.answers.headline import Headline
from xscl.answers.matches.cards import member_headlines
from xscl.answers.matches.listing import match_json
from xscl.base.types import Match, format_time
from xscl.base.version import VERSION

__all__ = ["FeedEntry", "atom_feed", "feed_entry", "json_feed"]

_ATOM = "http://www.w3.org/2005/Atom"
_STORY = "urn:xscl:atom"
"""Namespace of the stories of an entry."""
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_ADDRESS = re.compile(r"https?://[^\s<>\"{}|\\^`\x00-\x20\x7f]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A match as the feeds tell it; texts are made once, whichever feed is asked for."""

    id: str
    """Id of the match."""
    replaces: str | None
    ts: int
    atom: str
    """Element ``entry``."""
    json: str
    """Item of a JSON Feed."""


def feed_entry(match: Match) -> FeedEntry:
    """Tell a match as an entry of feeds.

    Args:
        match: as listings give it, with its source.
    """
    stories = member_headlines(match)
    title = " · ".join(dict.fromkeys(story.title or match.events[n].id for n, story in enumerate(stories)))
    atom, item = _atom_entry(match, stories, title), _item(match, stories, title)
    return FeedEntry(match.id, match.replaces, match.ts, atom, item)


def atom_feed(query: str, entries: Sequence[FeedEntry], url: str) -> bytes:
    """Write the feed of a query in Atom.

    Args:
        query: its name.
        entries: newest first.
        url: address of the feed.
    """
    updated = format_time(max((entry.ts for entry in entries), default=0))
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<feed xmlns="{_ATOM}" xmlns:x="{_STORY}">',
        f"<id>urn:xscl:query:{quote(query, safe='')}</id>",
        f"<title>{_text(query)}</title>",
        f"<updated>{updated}</updated>",
        "<author><name>xscl</name></author>",
        f'<generator version="{VERSION}">xscl</generator>',
        f'<link rel="self" type="application/atom+xml" href={_value(url)}/>',
        *(entry.atom for entry in entries),
        "</feed>\n",
    ]
    return "\n".join(lines).encode()


def json_feed(query: str, entries: Sequence[FeedEntry], url: str) -> bytes:
    """Write the feed of a query as a JSON Feed; ``atom_feed`` tells what the arguments are."""
    head = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": query,
        "feed_url": url,
        "authors": [{"name": "xscl"}],
    }
    items = ",\n".join(entry.json for entry in entries)
    return (json.dumps(head, ensure_ascii=False)[:-1] + f', "items": [{items}]}}\n').encode()


def _atom_entry(match: Match, stories: Sequence[Headline], title: str) -> str:
    lines = [
        "<entry>",
        f"<id>urn:xscl:match:{match.id}</id>",
        f"<title>{_text(title)}</title>",
        f"<updated>{format_time(match.ts)}</updated>",
        *_links(stories),
        *_sources(match, stories),
        # As a text: readers take elements inside, which may be called item or entry, for those of the feed.
        f'<content type="text">{_text(match.document)}</content>',
        "</entry>",
    ]
    return "\n".join(lines)


def _links(stories: Sequence[Headline]) -> Iterator[str]:
    """Name the addresses of the stories; an entry may have one of its own, which is the last story's."""
    links = _addresses(stories)
    if links:
        yield f'<link rel="alternate" href={_value(links[-1])}/>'
    for link in links:
        yield f'<link rel="via" href={_value(link)}/>'


def _sources(match: Match, stories: Sequence[Headline]) -> Iterator[str]:
    """Tell the feed of the last story as the entry's only source, then the feeds of all stories."""
    if source := _source(stories[-1]):
        yield source
    for event, story in zip(match.events, stories, strict=True):
        title = _text(story.title or event.id)
        yield f"<x:story channel={_value(event.channel)} id={_value(event.id)}>"
        yield f"<title>{title}</title><updated>{format_time(event.ts)}</updated>"
        if _is_address(story.link):
            yield f'<link rel="alternate" href={_value(story.link)}/>'
        if source := _source(story):
            yield source
        yield "</x:story>"


def _source(story: Headline) -> str:
    """Tell the feed of a story; empty where its document names none."""
    home = f"<id>{_text(story.home)}</id>" if _is_address(story.home) else ""
    title = f"<title>{_text(story.feed)}</title>" if story.feed else ""
    link = f'<link rel="alternate" href={_value(story.home)}/>' if home else ""
    return f"<source>{home}{title}{link}</source>" if home or title else ""


def _item(match: Match, stories: Sequence[Headline], title: str) -> str:
    links = _addresses(stories)
    item = {
        "id": f"urn:xscl:match:{match.id}",
        "title": title,
        "date_published": format_time(match.ts),
        "content_text": match.document,
        "_xscl": {**match_json(match), "stories": [_story(story) for story in stories]},
    }
    if links:
        item["url"] = links[-1]
    return json.dumps(item, ensure_ascii=False)


def _story(story: Headline) -> dict[str, str]:
    told = {"title": story.title, "url": story.link, "feed": story.feed, "feed_url": story.home}
    told |= {name: "" for name in ("url", "feed_url") if not _is_address(told[name])}
    return {name: value for name, value in told.items() if value}


def _addresses(stories: Sequence[Headline]) -> list[str]:
    return list(dict.fromkeys(story.link for story in stories if _is_address(story.link)))


def _is_address(text: str) -> bool:
    """Return whether a text that a document calls a link may stand where feeds have addresses of the web."""
    return _ADDRESS.fullmatch(text) is not None


def _text(text: str) -> str:
    return escape(_NO_XML.sub("�", text))


def _value(text: str) -> str:
    return quoteattr(_NO_XML.sub("�", text))
