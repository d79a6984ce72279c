"""A match as a card: a few lines that a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xscl.answers.headline import Headline, headline
from xscl.base.safe_xml import parse_stored
from xscl.base.types import Match, format_time
from xscl.xpath.nodes import AttributeNode, DocumentNode, TextNode, node_at, string_value

__all__ = ["member_headlines", "member_lines", "named_values", "value_lines"]

_LONGEST = 200
"""Characters of a value that are shown; longer texts are those of whole documents."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A member's headline, and the text of its result node where that is more than a value."""

    headline: Headline
    whole: str | None


def member_lines(match: Match) -> Iterator[str]:
    """Tell each member in block order: its time, channel and title, and below its link and its feed.

    Args:
        match: as listings give it, with its source.
    """
    width = max(10, *(len(event.channel) for event in match.events))
    for place, (event, shown) in enumerate(zip(match.events, _members(match), strict=True)):
        bullet, told = " " if place else "•", shown.headline
        yield f"{bullet} {format_time(event.ts)}  {event.channel:<{width}}  {told.title or event.id}".rstrip()
        for more in (told.link, told.feed):
            if more:
                yield f"    {more}"


def member_headlines(match: Match) -> list[Headline]:
    """Tell what each member is, in block order.

    Args:
        match: as listings give it, with its source.
    """
    return [one.headline for one in _members(match)]


def value_lines(match: Match) -> Iterator[str]:
    """Tell the variables that ``named_values`` gives, a line each."""
    return (f"{' = '.join(names)} = {value}" for names, value in named_values(match))


def named_values(match: Match) -> Iterator[tuple[list[str], str]]:
    """Yield the variables with their values, equal ones together.

    Left out are texts of elements that have others inside, long ones, and what the lines of the members say.
    """
    members = _members(match)
    told = {text for one in members for text in (one.headline.title, one.headline.link, one.headline.feed)}
    whole = {one.whole for one in members}
    names: dict[str, list[str]] = {}
    for name, value in match.values.items():
        if value not in whole:
            names.setdefault(" ".join(value.split()), []).append(name)
    for value, some in names.items():
        if len(value) <= _LONGEST and (len(some) > 1 or value not in told):
            yield some, value


def _members(match: Match) -> list[_Shown]:
    source = match.source
    assert source is not None
    return [_shown(document, place) for document, place in zip(source.documents, source.results, strict=True)]


def _shown(document: str, place: int | str) -> _Shown:
    node = node_at(parse_stored(document), place)
    if isinstance(node, (AttributeNode, TextNode)):
        of = headline(node.owner)
        return _Shown(replace(of, title=of.title or string_value(node)), None)
    element = node.root if isinstance(node, DocumentNode) else node
    return _Shown(headline(element), string_value(element) if len(element) else None)
