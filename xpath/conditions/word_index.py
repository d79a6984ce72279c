"""Words that are sought in texts: which of many, in one pass over a text or over many texts at once.

``contains`` and ``starts-with`` share one automaton of Aho and Corasick over all words; it reads a text once, whatever
the number of words.  ``contains-word`` looks the words of a text up in a dictionary.  New words go to a second, small
automaton until they are many, so that one more word does not cost building the large one anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import ahocorasick
import numpy as np
import numpy.typing as npt

from xscl.base.number_order import each_once
from xscl.base.words import folded_words
from xscl.xpath.runs import Int64s

__all__ = ["WordIndex"]

_NEW = 1_000
"""Number of words in a small automaton beside a large one of less than sixteen times as many."""
_LONGEST = 256
"""Number of characters of a word in an automaton, where each costs some memory; longer ones are tried one by one."""
_HITS = 8
"""Number of hits a character of text; where there are more, as of words inside words, all are tried one by one."""
_NONE = -1
_BETWEEN = "\0"
"""Character between texts that are read as one."""


class WordIndex:
    """Words by number, each sought by one function: ``contains``, ``starts-with`` or ``contains-word``."""

    def __init__(self) -> None:
        self._keys: dict[int, tuple[str, str]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._next = 0
        self._folded: dict[str, int] = {}
        """Numbers of ``contains-word`` by the folded word."""
        self._places: dict[str, tuple[_Automaton, int]] = {}
        self._large, self._small = _Automaton(), _Automaton()
        self._single: dict[int, tuple[str, str]] = {}
        """Words that are tried one by one."""

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, function: str, word: str) -> int | None:
        """Return the number of a word and its function; None: it is not here."""
        return self._numbers.get((function, word))

    def add(self, function: str, word: str) -> int:
        """Return the number of a word and its function, as which it is sought from now on.

        A word of ``contains-word`` is folded; others may have any characters, and at least one.
        """
        known = self._numbers.get((function, word))
        if known is not None:
            return known
        number = self._numbers[function, word] = self._next
        self._keys[number] = function, word
        self._next += 1
        if function == "contains-word":
            self._folded[word] = number
        elif len(word) > _LONGEST or _BETWEEN in word:
            self._single[number] = function, word
        else:
            if word not in self._places:
                self._places[word] = self._small, self._small.add(word)
            automaton, place = self._places[word]
            automaton.ask(place, function, number)
        return number

    def remove(self, number: int) -> None:
        """Stop seeking a word by its function."""
        function, word = self._keys.pop(number)
        del self._numbers[function, word]
        if function == "contains-word":
            del self._folded[word]
        elif self._single.pop(number, None) is None:
            automaton, place = self._places[word]
            automaton.ask(place, function, _NONE)

    def held(self, text: str) -> set[int]:
        """Return the numbers of what holds of a text."""
        found = {number for number, (function, word) in self._single.items() if _holds(function, word, text)}
        for automaton in self._automata():
            found.update(automaton.held(text))
        if self._folded:
            folded = self._folded
            found.update([folded[word] for word in folded.keys() & folded_words(text)])
        return found

    def holding(self, texts: Sequence[str]) -> tuple[Int64s, Int64s]:
        """Return (places of texts, numbers) that go together, each pair once, by text and number."""
        places: list[Int64s] = [np.empty(0, dtype=np.int64)]
        numbers: list[Int64s] = [np.empty(0, dtype=np.int64)]
        for automaton in self._automata():
            some, of = automaton.holding(texts)
            places.append(some)
            numbers.append(of)
        if self._folded or self._single:
            some, of = self._one_by_one(texts)
            places.append(some)
            numbers.append(of)
        bits = self._next.bit_length()
        both = each_once(np.concatenate(places) << bits | np.concatenate(numbers))
        return both >> bits, both & ((1 << bits) - 1)

    def _one_by_one(self, texts: Sequence[str]) -> tuple[Int64s, Int64s]:
        found: list[tuple[int, int]] = []
        for place, text in enumerate(texts):
            if self._folded:
                found += [(place, self._folded[word]) for word in self._folded.keys() & folded_words(text)]
            found += [(place, number) for number, key in self._single.items() if _holds(*key, text)]
        both = _pairs(found)
        return both[:, 0], both[:, 1]

    def _automata(self) -> Iterator[_Automaton]:
        """Yield the automata that have words, ready to read texts."""
        large, small = self._large, self._small
        if len(small) > max(_NEW, len(large) // 16) or large.worn or small.worn:
            self._large, self._small = _Automaton(), _Automaton()
            for word, (automaton, place) in list(self._places.items()):
                if not automaton.asked(place):
                    del self._places[word]
                    continue
                self._places[word] = self._large, self._large.copy(word, automaton, place)
        yield from (automaton for automaton in (self._large, self._small) if len(automaton))


class _Automaton:
    """Words in one automaton."""

    def __init__(self) -> None:
        self._automaton = ahocorasick.Automaton(ahocorasick.STORE_INTS)
        self._words: list[str] = []
        self._contains: list[int] = []
        """Number by which ``contains`` seeks a word."""
        self._starts: list[int] = []
        self._gone = 0
        self._ready = False
        self._arrays: tuple[Int64s, Int64s, Int64s] | None = None

    def __len__(self) -> int:
        return len(self._words)

    @property
    def worn(self) -> bool:
        """Whether most of the words here have no number any longer."""
        return self._gone > 100 and 2 * self._gone > len(self._words)

    def add(self, word: str) -> int:
        """Return the place of a new word."""
        place = len(self._words)
        self._words.append(word)
        self._contains.append(_NONE)
        self._starts.append(_NONE)
        self._automaton.add_word(word, place)
        self._gone += 1  # until it is asked for
        self._ready, self._arrays = False, None
        return place

    def copy(self, word: str, other: _Automaton, place: int) -> int:
        """Add a word as another automaton has it."""
        new = self.add(word)
        self.ask(new, "contains", other._contains[place])
        self.ask(new, "starts-with", other._starts[place])
        return new

    def asked(self, place: int) -> bool:
        """Whether a word is sought."""
        return self._contains[place] >= 0 or self._starts[place] >= 0

    def ask(self, place: int, function: str, number: int) -> None:
        """Seek a word by a function under this number."""
        before = self.asked(place)
        (self._contains if function == "contains" else self._starts)[place] = number
        self._gone += before - self.asked(place)
        self._arrays = None

    def held(self, text: str) -> Iterable[int]:
        """Return the numbers of what holds of a text."""
        if len(text) == 0:
            return ()
        contains, starts, words = self._contains, self._starts, self._words
        most = _HITS * len(text)
        found: set[int] = set()
        for hits, (end, place) in enumerate(self._made().iter(text)):
            found.add(contains[place])
            if starts[place] >= 0 and end + 1 == len(words[place]):
                found.add(starts[place])
            if hits > most:
                return self._tried(text)
        found.discard(_NONE)
        return found

    def holding(self, texts: Sequence[str]) -> tuple[Int64s, Int64s]:
        """Return (places of texts, numbers) that go together, perhaps several times."""
        joined = _BETWEEN.join(texts)
        most = _HITS * len(joined)
        hits = list(islice(self._made().iter(joined), most + 1)) if joined else []
        if len(hits) > most:
            pairs = _pairs([(place, number) for place, text in enumerate(texts) for number in self.held(text)])
            return pairs[:, 0], pairs[:, 1]
        pairs = _pairs(hits)
        begins = np.cumsum([0, *map(len, texts)])[:-1] + np.arange(len(texts))
        text = np.searchsorted(begins, pairs[:, 0], side="right") - 1
        contains, starts, lengths = self._columns()
        inside, first = contains[pairs[:, 1]], starts[pairs[:, 1]]
        at_start = (first >= 0) & (pairs[:, 0] + 1 - lengths[pairs[:, 1]] == begins[text])
        return np.concatenate([text[inside >= 0], text[at_start]]), np.concatenate(
            [inside[inside >= 0], first[at_start]]
        )

    def _made(self) -> ahocorasick.Automaton:
        if not self._ready:
            self._automaton.make_automaton()
            self._ready = True
        return self._automaton

    def _tried(self, text: str) -> Iterator[int]:
        """Yield what ``held`` returns, in time that does not grow with the words inside words."""
        for word, inside, first in zip(self._words, self._contains, self._starts, strict=True):
            if inside >= 0 and word in text:
                yield inside
            if first >= 0 and text.startswith(word):
                yield first

    def _columns(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the numbers of each word, and its length."""
        if self._arrays is None:
            columns = (self._contains, self._starts, list(map(len, self._words)))
            one, other, lengths = (np.array(column, dtype=np.int64) for column in columns)
            self._arrays = one, other, lengths
        return self._arrays


def _holds(function: str, word: str, text: str) -> bool:
    return word in text if function == "contains" else text.startswith(word)


def _pairs(found: list[tuple[int, int]]) -> npt.NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(found), dtype=np.int64, count=2 * len(found)).reshape(-1, 2)
