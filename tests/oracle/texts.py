"""Strings as the language compares them: numbers and functions (docs/reference/language.md, Blocks, Joins)."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from urllib.parse import urlsplit

_WEB = re.compile(r"(https?)://([^/?#]+)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE | re.DOTALL)
_TRACKING = re.compile(r"(utm_[^=]*|fbclid|gclid)(=|$)")


def number(text: str) -> Fraction | None:
    """XPath 1.0's number of a string, exact; None where it has none (``1e3``, ``+5``, empty)."""
    text = text.strip(" \t\r\n")
    if not re.fullmatch(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)", text):
        return None
    return Fraction(re.sub(r"\.$", "", text).replace("-.", "-0."))


def normalize_space(text: str) -> str:
    """XPath 1.0's ``normalize-space``, which knows four kinds of white space."""
    return " ".join(word for word in re.split(r"[ \t\r\n]+", text) if word)


def host(text: str) -> str | None:
    """The host of an address in lower case, None where there is none."""
    try:
        return urlsplit(text.strip()).hostname or None
    except ValueError:
        return None


def url(text: str) -> str | None:
    """One spelling of an address.

    An empty text is no address and equals none; what is no web address is itself without space around it.
    """
    text = text.strip()
    found = _WEB.fullmatch(text)
    if not found:
        return text or None
    scheme, place, path, query = found.groups("")
    place = place.lower().removesuffix(":80" if scheme.lower() == "http" else ":443")
    kept = [part for part in query.split("&") if part and not _TRACKING.match(part)]
    return f"https://{place}{path.rstrip('/')}" + ("?" + "&".join(sorted(kept)) if kept else "")


def swap(text: str) -> str | None:
    """A function of one's own that returns texts; a single y has no value."""
    return None if text == "y" else text.swapcase()


def size(text: str) -> Fraction | None:
    """A function of one's own that returns numbers; nothing has no size."""
    return Fraction(len(text), 2) if text else None


OWN: dict[str, Callable[[str], str | Fraction | None]] = {"swap": swap, "size": size}
"""Functions of one's own; ``tests/own_functions.py`` gives them to the engine."""

FUNCTIONS: dict[str, Callable[[str], str | Fraction | None]] = {
    "lower": str.lower,
    "normalize-space": normalize_space,
    "host": host,
    "url": url,
    **OWN,
}
"""The functions of atoms; None satisfies no comparison."""
