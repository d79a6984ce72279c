"""Words of a text, rule by rule as UAX 29 lists them, with classes of the characters that the tests use."""

from __future__ import annotations

import unicodedata

LETTERS = ("letter", "hebrew")
SINGLE = {"'": "single quote", '"': "double quote", "\u200d": "joiner", ":": "mid letter", "\u00b7": "mid letter"}
SINGLE |= dict.fromkeys(".\u2018\u2019\u2024", "mid both") | dict.fromkeys(",;\u037e", "mid number")
SINGLE |= dict.fromkeys("\n\x0b\x0c\x85\u2028\u2029\r", "line") | dict.fromkeys("_\u203f\u202f", "low line")
SINGLE |= dict.fromkeys("\u00a0\u200b", "other") | dict.fromkeys("\u2122\u00a9", "picture")


def kind(character: str) -> str:
    """Return the class of a character."""
    if character in SINGLE:
        return SINGLE[character]
    category = unicodedata.category(character)
    code = ord(character)
    if category in ("Mn", "Mc", "Me", "Cf"):
        return "extend"
    if category == "Nd":
        return "digit"
    if category == "Zs":
        return "space"
    if 0x05D0 <= code <= 0x05EA:
        return "hebrew"
    if 0x30A1 <= code <= 0x30FC:
        return "katakana"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "flag"
    if 0x1F300 <= code <= 0x1FAFF:
        return "picture"
    alone = 0x3041 <= code <= 0x3096 or 0x4E00 <= code <= 0x9FFF or 0x0E00 <= code <= 0x0E7F
    return "letter" if category.startswith("L") and not alone else "other"


def pieces(text: str) -> list[str]:
    """Cut a text at its boundaries."""
    found = [text[:1]]
    for place in range(1, len(text)):
        if joined(text, place):
            found[-1] += text[place]
        else:
            found.append(text[place])
    return [piece for piece in found if piece]


def joined(text: str, place: int) -> bool:
    """Whether no boundary lies before a place."""
    before, after = kind(text[place - 1]), kind(text[place])
    if text[place - 1 : place + 1] == "\r\n":
        return True
    if "line" in (before, after):
        return False
    if before == "joiner" and after == "picture" or before == after == "space":
        return True
    if after in ("extend", "joiner"):
        return True
    left, right = classes_before(text, place), classes_after(text, place)
    a, b = left[-1], right[0]
    further = left[-2] if len(left) > 1 else ""
    beyond = right[1] if len(right) > 1 else ""
    of_letters, of_digits = ("mid letter", "mid both", "single quote"), ("mid number", "mid both", "single quote")
    runs = (*LETTERS, "digit", "katakana", "low line")
    return (
        (a in LETTERS and b in LETTERS)
        or (a in LETTERS and b in of_letters and beyond in LETTERS)
        or (further in LETTERS and a in of_letters and b in LETTERS)
        or (a == "hebrew" and b == "single quote")
        or (a == "hebrew" and b == "double quote" and beyond == "hebrew")
        or (further == "hebrew" and a == "double quote" and b == "hebrew")
        or (a in (*LETTERS, "digit") and b in (*LETTERS, "digit"))
        or (further == "digit" and a in of_digits and b == "digit")
        or (a == "digit" and b in of_digits and beyond == "digit")
        or (a == b == "katakana")
        or (a in runs and b == "low line")
        or (a == "low line" and b in runs)
        or (b == "flag" and flags_before(left) % 2 == 1)
    )


def classes_before(text: str, place: int) -> list[str]:
    """Return classes of what stands before, without what extends something else."""
    found: list[str] = []
    for character in text[:place]:
        own = kind(character)
        if own not in ("extend", "joiner") or not found or found[-1] == "line":
            found.append(own)
    return found


def classes_after(text: str, place: int) -> list[str]:
    """Return classes from a place on, without what extends something else."""
    first, *others = map(kind, text[place:])
    return [first, *(own for own in others if own not in ("extend", "joiner"))]


def flags_before(classes: list[str]) -> int:
    """Count the halves of flags at the end."""
    count = 0
    while count < len(classes) and classes[-1 - count] == "flag":
        count += 1
    return count


def words(text: str) -> list[str]:
    """Return the pieces that have a letter, a digit or a picture, with case folded."""
    return [piece.casefold() for piece in pieces(text) if any(map(_tells, piece))]


def _tells(character: str) -> bool:
    return character.isalnum() or kind(character) in ("picture", "flag")
