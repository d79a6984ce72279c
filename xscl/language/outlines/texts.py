"""Outlines of registered texts: what the first text of each says, with the constants of others.

The constants of a text are replaced by *marks*.  Where each mark comes out as one constant of what the text says, any
other text of the outline says that with its own ones, and nothing is parsed.  Constants of brackets do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from xscl.base.errors import QueryError
from xscl.language.outlines.marks import Value, Varying, marks_among
from xscl.language.outlines.skeletons import Skeleton, bracketed, constant_spans, cut
from xscl.language.syntax.tokens import Token, tokenize

__all__ = ["Fill", "TextOutlines"]

_MOST = 20_000
"""Skeletons and outlines that are remembered, together."""

T = TypeVar("T")
Fill = Callable[[Sequence[Value]], T]
"""Makes what a text says with constants for marks."""


@dataclass(slots=True)
class _Outline(Generic[T]):
    """The first text of an outline."""

    text: str
    is_made: bool = False
    fill: Fill[T] | None = None
    """None: it is not made, or texts are not filled in."""


@dataclass(frozen=True, slots=True)
class _Outlines(Generic[T]):
    """The outlines of a skeleton."""

    free: Mapping[int, Varying]
    """Constants that may be constants of what a text says, by their places."""
    ignored: frozenset[int]
    """Places of constants that it does not depend on."""
    known: dict[tuple[str | None, ...], _Outline[T]] = field(default_factory=dict)
    """Outlines by their constants; None: a mark, or a constant that does not matter."""

    def marks(self, constants: Sequence[str]) -> list[int]:
        """Return the places of marks."""
        return [*marks_among(self.free, constants)]

    def key(self, constants: Sequence[str], marks: Sequence[int]) -> tuple[str | None, ...]:
        """Return the key of an outline."""
        key: list[str | None] = list(constants)
        for at in (*marks, *self.ignored):
            key[at] = None
        return tuple(key)


class TextOutlines(Generic[T]):
    """The outlines that were met, by skeletons of texts, which are sound."""

    def __init__(
        self,
        varying: Callable[[Sequence[Token]], Mapping[tuple[int, int], Varying]],
        parsed: Callable[[str], T],
        fill: Callable[[T, str, Sequence[Value]], Fill[T] | None],
    ) -> None:
        """Begin without any.

        Args:
            varying: returns what texts may differ in, by its place from the start of the first token on.
            parsed: returns what a text says.
            fill: returns what fills in the texts of an outline, from what the first one says, from that one with marks,
                and from the marks; None: they do not come out as constants.
        """
        self._varying, self._parsed, self._fill = varying, parsed, fill
        self._skeletons: dict[Skeleton, _Outlines[T]] = {}
        self._count = 0

    def known(self, text: str) -> T:
        """Return what a text says."""
        found = self.find(text)
        if found is None:
            self.add(text, tokenize(text)[:-1])
            found = self._parsed(text)
        return found

    def find(self, text: str) -> T | None:
        """Return what a text says; None: it is to be parsed."""
        words, constants = cut(text)
        outlines = self._skeletons.get(words)
        if outlines is None:
            return None
        marks = outlines.marks(constants)
        found = outlines.known.get(outlines.key(constants, marks))
        if found is None:
            return None
        if not found.is_made:
            found.is_made, found.fill = True, self._made(found.text, [(at, outlines.free[at]) for at in marks])
        return None if found.fill is None else found.fill([outlines.free[at].value(constants[at]) for at in marks])

    def add(self, text: str, tokens: Sequence[Token]) -> None:
        """Note the first text of an outline; ``tokens`` are the text's."""
        words, constants = cut(text)
        if self._count >= _MOST:
            self._skeletons.clear()
            self._count = 0
        if words not in self._skeletons:
            spans = constant_spans(text, words, tokens)
            if spans is None:
                return
            self._count += 1
            free, begin = self._varying(tokens), tokens[0].start
            inside = {(each.start - begin, each.end - begin) for each in bracketed(tokens)}
            self._skeletons[words] = _Outlines(
                {at: free[span] for at, span in enumerate(spans) if span in free},
                frozenset(at for at, span in enumerate(spans) if span in inside),
            )
        outlines = self._skeletons[words]
        marks = outlines.marks(constants)
        key = outlines.key(constants, marks)
        if (marks or outlines.ignored) and key not in outlines.known:
            outlines.known[key] = _Outline(text)
            self._count += 1

    def _made(self, text: str, places: Sequence[tuple[int, Varying]]) -> Fill[T] | None:
        """Return what fills in the texts of an outline; None: they are parsed."""
        words, constants = cut(text)
        marked = list(constants)
        for number, (at, each) in enumerate(places):
            marked[at] = each.mark(number)
        said = "".join(word + each for word, each in zip(words[:-1], [*marked, ""], strict=True))
        first = self._parsed(text)
        try:
            fill = self._fill(first, said, [each.value(marked[at]) for at, each in places])
        except QueryError:
            return None
        own = [each.value(constants[at]) for at, each in places]
        return fill if fill is not None and fill(own) == first else None
