"""Texts of strangers as people are shown them: nothing that a terminal obeys or hides, no passwords, no endless names.

A leaf module.  ``XsclError`` masks and shortens every message; ``xscl.base.terminal`` writes what people read.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["HIDDEN", "bounded_message", "counted", "dotted", "for_terminal", "json_escaped", "masked", "shortened"]

_MAX_NAME = 200
_MAX_MESSAGE = 4_000
_TAIL = 800
_UNSEEN = (
    # Control characters but tabs and line feeds; the soft hyphen; halves of surrogate pairs.
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\ud800-\udfff"
    # Marks, embeddings, overrides and isolates of writing direction; separators of lines and paragraphs.
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f"
    # Characters without width, fillers, tags and selectors of variants.
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SUSPECT = re.compile(f"[{_UNSEEN}\u200c\u200d]")
_UNSAFE = re.compile(
    # Joiners are part of writing and of emoji, but not beside ASCII.
    f"[{_UNSEEN}]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_USER = re.compile(r"(\b(?:https?|s?ftps?|feed)://)[^\s/?#@'\"<>]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"([a-z0-9]://[^\s:/@'\"<>]*+):(?!\d{1,5}(?:[/?#\s]|$))[^\s'\"<>]{0,300}@", re.IGNORECASE)
_PARAMETER = re.compile(
    r"([?&;][a-z0-9_.-]{0,40}(?:password|passwd|passphrase|pwd|token|secret|api[_-]?key|access[_-]?key|signature|sig"
    r"|credential)=)(?!\*\*\*)[^\s&;,'\"<>)\]}]+",
    re.IGNORECASE,
)
_ORACLE = re.compile(r"(\bjdbc:oracle:\w+:[^\s/@]*+)/[^\s@]*+@", re.IGNORECASE)
HIDDEN = "***"
"""Text in place of a password."""


def for_terminal(text: str) -> str:
    r"""Write what a terminal would obey, or not show, as Python's escapes; tabs and line feeds stay.

    >>> print(for_terminal("\x1b]0;x\x07 \u202eabc"))
    \x1b]0;x\x07 \u202eabc
    """
    return _written(text, lambda found: found[0].encode("unicode_escape").decode("ascii"))


def dotted(text: str) -> str:
    """Write a dot for each character that a terminal would obey or not show, so that places stay where they are."""
    return _written(text, lambda _: "·")


def json_escaped(text: str) -> str:
    r"""Escape in a text of JSON what a terminal would obey or not show; it is the same JSON.

    >>> print(json_escaped('"\u202eabc"'))
    "\u202eabc"
    """
    return _written(text, lambda found: "".join(f"\\u{unit:04x}" for unit in _units(found[0])))


def _written(text: str, write: Callable[[re.Match[str]], str]) -> str:
    """Write each unsafe character in another way; a search for one set of characters takes a thirtieth of the time."""
    return _UNSAFE.sub(write, text) if _SUSPECT.search(text) else text


def _units(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


def counted(count: int, noun: str) -> str:
    """Write a number with its noun, in the plural but for one.

    >>> counted(1, "query"), counted(2_000, "stored match"), counted(0, "late event")
    ('1 query', '2,000 stored matches', '0 late events')
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def shortened(text: str, most: int = _MAX_NAME) -> str:
    """Cut a name, an address or a value to so many characters.

    >>> shortened("abcdef", 4), shortened("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def masked(text: str) -> str:
    """Hide passwords: in addresses, before the host and among the parameters.

    >>> masked("postgresql://ann:secret@db/x, http://ann:secret@a.org/?token=abc&b=c")
    'postgresql://ann:***@db/x, http://***@a.org/?token=***&b=c'
    """
    if "@" in text:
        text = _PASSWORD.sub(rf"\1:{HIDDEN}@", _USER.sub(rf"\1{HIDDEN}@", text))
        text = _ORACLE.sub(rf"\1/{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", text) if "=" in text else text


def bounded_message(text: str) -> str:
    """Mask a message, and cut it in its middle where it is very long."""
    if len(text) > _MAX_MESSAGE:
        text = f"{text[: _MAX_MESSAGE - _TAIL]} … {text[-_TAIL:]}"
    return masked(text)
