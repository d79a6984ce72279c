"""HTML of paragraphs, lists and links read without a tree, which is most of what feeds have.

Such HTML has known tags alone, each where it may stand, and closes them in the order in which they were opened.  So its
tree is what stands there.  Anything else is left to libxml2, which knows what a browser would make of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html.entities import name2codepoint
from types import MappingProxyType

__all__ = ["plain_html"]

_LONGEST = 1_000_000
"""Characters; inclusive."""
_DEEPEST = 100
"""Open elements, inclusive; libxml2 cuts behind 256."""

_MOST_TAGS = 64
"""Tags of a text whose nesting is remembered, inclusive: entries of a feed are much alike."""

_TAG = re.compile(r"""<(/?[a-z][a-z0-9]*+)((?:\s++[a-z][a-z-]*+="[^"<]*+")*+\s*+/?)>""")
_HREF = re.compile(r"""\shref="([^"]*+)\"""")
_REFERENCE = re.compile("&(#?[A-Za-z0-9]+);")

_EMPTY = frozenset({"br", "hr", "img"})
_INLINE = frozenset({"a", "abbr", "b", "br", "cite", "code", "em", "i", "img", "small", "span", "strong", "sub", "sup"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_FLOW = _INLINE | _HEADINGS | {"blockquote", "div", "dl", "hr", "ol", "p", "pre", "ul"}
_WITHIN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **dict.fromkeys(_INLINE, _INLINE),
        **dict.fromkeys((*_HEADINGS, "dt", "p", "pre"), _INLINE),
        **dict.fromkeys(("", "blockquote", "dd", "div", "li"), _FLOW),
        **dict.fromkeys(("ol", "ul"), frozenset({"li"})),
        "dl": frozenset({"dd", "dt"}),
        "a": _INLINE - {"a"},
    }
)
"""Elements that may stand in each element; '' is around all."""
_OTHER = re.compile(rf"<(?!/?(?:{'|'.join(sorted(frozenset().union(*_WITHIN.values())))})[\s/>])")
"""Finds what is no tag of these, before the text is taken apart."""
_NO_CHARACTER = "\0"
"""Stands between texts of one word, so that a reference does not go on behind a tag."""
_BETWEEN: Mapping[str, str] = MappingProxyType(
    {
        tag: _NO_CHARACTER if name in _INLINE - {"br"} else " "
        for name in frozenset().union(*_WITHIN.values())
        for tag in (name, f"/{name}")
    }
)
"""Text that stands for each tag."""
_CHARACTERS: Mapping[str, str] = MappingProxyType(
    {name: chr(code) for name, code in name2codepoint.items() if name not in ("lang", "rang")}
)
"""Characters by names that every version of HTML gives them."""


def plain_html(text: str) -> tuple[str, Sequence[str]] | None:
    """Return the text of HTML, its blocks apart, and the addresses of its links; None where it is not so plain.

    >>> plain_html('<p>a &amp; <b>b</b>c</p><p><a href="/d">d</a></p>')
    (' a & bc  d ', ['/d'])
    >>> plain_html("<p>a<div>b</div>") is None
    True
    """
    if len(text) > _LONGEST or _NO_CHARACTER in text or _OTHER.search(text):
        return None
    parts = _TAG.split(text)
    names, attributes = parts[1::3], parts[2::3]
    known = _known_nesting if len(names) <= _MOST_TAGS else _is_nested
    if not known(tuple(names)) or _has_closed(names, attributes):
        return None
    hrefs = _hrefs(names, attributes) if "a" in names else ()
    del parts[2::3]
    parts[1::2] = [_BETWEEN[name] for name in names]
    together = "".join(parts)
    read = None if "<" in together else _resolved(together)
    return None if read is None or hrefs is None else (read.replace(_NO_CHARACTER, ""), hrefs)


def _is_nested(names: tuple[str, ...]) -> bool:
    """Whether each tag stands where it may; elements that are open at the end are closed there."""
    around = [""]
    allowed = _WITHIN[""]
    for name in names:
        if name[0] == "/":
            if around.pop() != name[1:]:
                return False
            allowed = _WITHIN[around[-1]]
        elif name not in allowed:
            return False
        elif name not in _EMPTY:
            if len(around) == _DEEPEST:
                return False
            around.append(name)
            allowed = _WITHIN[name]
    return True


_known_nesting = lru_cache(maxsize=512)(_is_nested)


def _has_closed(names: Sequence[str], attributes: Sequence[str]) -> bool:
    """Whether a tag is closed in itself that is none of an empty element."""
    if not any(attributes):
        return False
    return any(rest[-1:] == "/" and name not in _EMPTY for name, rest in zip(names, attributes, strict=True))


def _hrefs(names: Sequence[str], attributes: Sequence[str]) -> Sequence[str] | None:
    """Return the addresses of links; None where one cannot be read."""
    tags = [rest for name, rest in zip(names, attributes, strict=True) if name == "a"]
    read = [_resolved(found[1]) for rest in tags if (found := _HREF.search(rest))]
    hrefs = [href for href in read if href is not None]
    return hrefs if len(hrefs) == len(read) else None


def _resolved(text: str) -> str | None:
    """Put characters in place of references to them; None where something else begins with an ampersand."""
    if "&" not in text:
        return text
    parts = _REFERENCE.split(text)
    if "&" in "".join(parts[::2]):
        return None
    found = [_character(name) for name in parts[1::2]]
    if "" in found:
        return None
    parts[1::2] = found
    return "".join(parts)


def _character(name: str) -> str:
    """Return the character of a reference; empty where versions of HTML may differ about it."""
    if name[0] != "#":
        return _CHARACTERS.get(name, "")
    digits = name[1:]
    code = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 5 else 0
    return chr(code) if 32 <= code < 127 or 160 <= code < 0xD800 else ""
