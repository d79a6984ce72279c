"""Words of texts by Unicode's default word boundaries (UAX 29), with case folded.

Every character has a class; which neighbours belong together is a pattern over the classes.  ``regex`` knows the
classes, but its own boundaries are not the default ones (it cuts ``l'aria``).

Between letters and digits of most alphabets few rules are left, so texts are first cut at spaces and signs, and only
what has a rare character or a sign inside is looked at by all rules.  The tests hold the two ways equal.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["folded_words", "is_word", "split_words"]

_CLASSES = {
    "p": r"(?=\p{WB=ALetter})\p{Extended_Pictographic}",
    "A": r"\p{WB=ALetter}",
    "H": r"\p{WB=Hebrew_Letter}",
    "D": r"\p{WB=Numeric}",
    "K": r"\p{WB=Katakana}",
    "E": r"\p{WB=ExtendNumLet}",
    "x": r"[\p{WB=Extend}\p{WB=Format}]",
    "z": r"\p{WB=ZWJ}",
    "R": r"\p{WB=Regional_Indicator}",
    "M": r"\p{WB=MidLetter}",
    "m": r"\p{WB=MidNum}",
    "n": r"\p{WB=MidNumLet}",
    "q": r"\p{WB=Single_Quote}",
    "Q": r"\p{WB=Double_Quote}",
    "S": r"\p{WB=WSegSpace}",
    "r": r"\p{WB=CR}",
    "l": r"\p{WB=LF}",
    "N": r"\p{WB=Newline}",
    "P": r"\p{Extended_Pictographic}",
    "o": r".",
}
"""Pattern of each class of characters; the first that fits counts."""

_LAST_QUOTE = re.compile(r"(?<=H)([xz]*+)q(?![xz]*+[ApH])")
"""A quote that ends a Hebrew word; its class becomes ``y``."""
_X = "[xz]*+"
_LETTERS = f"(?:[Ap]{_X}|H{_X}(?:Q{_X}(?=H))?)"
_LETTERS = f"{_LETTERS}(?:(?:[Mnq]{_X})?{_LETTERS})*+"
_DIGITS = f"D{_X}(?:(?:[mnq]{_X})?D{_X})*+"
_CORE = f"(?:(?:{_LETTERS}|{_DIGITS})++|(?:K{_X})++)"
_RUN = f"(?:(?:E{_X})*+{_CORE}(?:(?:E{_X})++{_CORE})*+(?:y{_X}|(?:E{_X})*+)|(?:E{_X})++)"
_FIRST = f"(?:{_RUN}|R{_X}(?:R{_X})?|rl|[rlN]|S++{_X}|[^rlN]{_X})"
_PIECE = re.compile(f"{_FIRST}(?:(?<=z)(?:P{_X}|(?=p){_RUN}))*+")
"""Piece of a text between two boundaries, in classes of characters."""


class _Classes(dict[int, str]):
    """The class of each character that was asked for."""

    def __missing__(self, code: int) -> str:
        found = _properties().match(chr(code))
        assert found is not None and found.lastgroup is not None
        self[code] = found.lastgroup
        return found.lastgroup


class _Folded(dict[int, str]):
    """Each character that was asked for, with case folded; ``_RARE`` stands before those that few rules do not tell."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = _KNOWN[code]
        if kind in "AD":
            found = character.casefold()
        elif character in _SIGNS or character == "_":
            found = character
        elif kind in "oSrlN" and not character.isalnum():
            found = " "
        else:
            found = _RARE + character
        self[code] = found
        return found


_SIGNS = ".:,;'\u2019"
"""Signs that may join two letters or two digits to one word, and mostly end one."""
_ENDS = tuple(f"{sign} " for sign in _SIGNS if sign != "'")
"""An apostrophe may end a Hebrew word."""
_BEGINS = tuple("ApHDKERP")
"""Classes that begin a word, besides letters that stand alone."""
_RARE = "\0"
_KNOWN = _Classes()
_FOLDED = _Folded()


def folded_words(text: str) -> set[str]:
    """Return the distinct words of a text with case folded; pieces that are no words may be among them.

    >>> sorted(folded_words("Can't stop: can't"))
    ["can't", 'stop']
    """
    text = text.translate(_ascii() if text.isascii() else _FOLDED)
    for end in _ENDS:
        text = text.replace(end, " ")
    # A space is a boundary; words never begin with what would go with it.
    found = set(text.split(" "))
    found.discard("")
    for part in [part for part in found if not part.isalnum()]:
        # Several words, perhaps; whole, it is one word or equal to none.
        found.update(_pieces(part))
    return found


def is_word(text: str) -> bool:
    """Whether a text is exactly one word: it has a letter, a digit or a pictograph, and no boundary inside.

    A word begins with one of these or a low line.

    >>> is_word("can't"), is_word("x-ray"), is_word("...")
    (True, False, False)
    """
    classes = _classes(text)
    if classes[:1] not in _BEGINS and not text[:1].isalnum() or _PIECE.fullmatch(classes) is None:
        return False
    return any(map(str.isalnum, text)) or not {"A", "p", "P", "R"}.isdisjoint(classes)


def split_words(text: str) -> list[str]:
    """Return the pieces of a text between its boundaries, words and others.

    >>> split_words("Don't go.")
    ["Don't", ' ', 'go', '.']
    """
    return [text[found.start() : found.end()] for found in _PIECE.finditer(_classes(text))]


def _pieces(part: str) -> list[str]:
    if _RARE in part:
        part = part.replace(_RARE, "")
    else:
        part = part.strip(_SIGNS)
        if part.isalnum():
            return [part]
    return [piece.casefold() for piece in split_words(part)]


def _classes(text: str) -> str:
    classes = text.translate(_KNOWN)
    return _LAST_QUOTE.sub(r"\1y", classes) if "H" in classes else classes


@cache
def _ascii() -> str:
    """Return what ``_Folded`` says of ASCII; such a table is several times faster."""
    return "".join(_FOLDED[code][-1] for code in range(128))


@cache
def _properties() -> re.Pattern[str]:
    """Return the classes as one pattern."""
    import regex  # most commands look at no text

    pattern = "|".join(f"(?P<{name}>{each})" for name, each in _CLASSES.items())
    found: re.Pattern[str] = regex.compile(pattern, regex.DOTALL)
    return found
