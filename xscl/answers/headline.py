"""A document, or an element of it, in a few words for a person: its title, its link, and the feed that it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element

__all__ = ["Headline", "headline"]

_TITLES = ("title", "headline", "head", "name", "subject", "label")
_LINKS = ("item_url", "link", "url", "guid", "id")
_FEEDS = ("channel_title",)
_HOMES = ("channel_url",)
_COLUMNS = 8
"""Columns of a row that are shown."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Texts with single spaces, of any length; empty where there is none."""

    title: str = ""
    link: str = ""
    feed: str = ""
    home: str = ""
    """Link of the feed."""


def headline(element: _Element) -> Headline:
    """Find what tells a person which document this is.

    The nearest element with a title counts, from ``element`` upwards.  Without one it is the element itself: the names
    and texts of its children where these are a row, else its text.
    """
    for subject in (element, *element.iterancestors()):
        if title := _field(subject, _TITLES):
            return Headline(title, _link(subject, _LINKS), _field(subject, _FEEDS), _link(subject, _HOMES))
    return Headline(_row(element) or _text(element), _link(element, _LINKS))


def _row(element: _Element) -> str:
    """Give the children of an element that have nothing but a text, by name."""
    cells = [(_name(child), _text(child)) for child in element if len(child) == 0 and _name(child)]
    return ", ".join(f"{name} {text}" for name, text in cells[:_COLUMNS] if text)


def _link(element: _Element, names: tuple[str, ...]) -> str:
    for child in _children(element, names):
        found = _text(child) or " ".join(child.get("href", "").split())
        if found.startswith(("http://", "https://")):
            return found
    return ""


def _field(element: _Element, names: tuple[str, ...]) -> str:
    return next((text for child in _children(element, names) if (text := _text(child))), "")


def _children(element: _Element, names: tuple[str, ...]) -> list[_Element]:
    """Give the children of these names, in the order of the names; upper and lower case are the same."""
    found = [child for child in element if _name(child).lower() in names]
    return sorted(found, key=lambda child: names.index(_name(child).lower()))


def _name(element: _Element) -> str:
    """Give a local name; empty of a comment or processing instruction."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _text(element: _Element) -> str:
    return " ".join("".join(element.itertext()).split())
