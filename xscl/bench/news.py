"""Items like those of real news feeds, and queries that people ask of them: as text of XSCL, and as values.

Frequencies are those of half a year of 135 feeds: a few feeds write most items, every language has feeds of its own,
one title in 25 and one description in 17 come again within days, most of them in another feed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import accumulate

__all__ = ["CHANNEL", "LONGEST_S", "Item", "News", "Question", "Selection", "Shape", "questions"]

CHANNEL = "news"
_FEEDS = 135
_LANGUAGES = {"en-US": 48, "pl-PL": 40, "en-UK": 12}
_FIRST_S = 1_690_243_200
_STEP_S = 60
_WORDS = 6_000
"""Words of the vocabulary; the first ones are frequent."""
_REPEATED = {"title": 0.04, "description": 0.06, "link": 0.01}
_REACH = 4_000
"""Items back from which a text is repeated: about three days."""
_WINDOWS_S = (3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 259_200, 604_800, 1_209_600)
LONGEST_S = _WINDOWS_S[-1]
_LENGTHS = range(20, 400, 5)
_KINDS = ("feed", "language", "length", "word")


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a feed."""

    number: int
    at: int
    """Event time in seconds."""
    feed: str
    language: str
    title: str
    description: str
    link: str

    def xml(self) -> str:
        """Write the document."""
        return (
            f"<item><channel_url>{self.feed}</channel_url><language>{self.language}</language>"
            f"<item_url>{self.link}</item_url><title>{escape(self.title)}</title>"
            f"<description>{escape(self.description)}</description></item>"
        )


class News:
    """Items one a minute, without end.  Equal calls give equal items."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._feeds = [
            (f"https://feed{n}.example/rss.xml", language)
            for n, language in enumerate(self._random.choices([*_LANGUAGES], [*_LANGUAGES.values()], k=_FEEDS))
        ]
        self._vocabulary = vocabulary()
        self._by_feed, self._by_word = (
            list(accumulate(1 / rank for rank in range(1, count + 1))) for count in (_FEEDS, _WORDS)
        )
        self._earlier: deque[Item] = deque(maxlen=_REACH)
        self.made = 0

    def feeds(self) -> list[str]:
        """Return all feeds, the most frequent first."""
        return [feed for feed, _ in self._feeds]

    def take(self, count: int) -> list[Item]:
        """Make the next so many items."""
        return [self._item() for _ in range(count)]

    def _item(self) -> Item:
        chance = self._random
        self.made += 1
        ((feed, language),) = chance.choices(self._feeds, cum_weights=self._by_feed)
        made: dict[str, str] = {
            "title": self._words(6, 16),
            "description": self._words(8, 80),
            "link": f"https://site{chance.randrange(500)}.example/{self.made:x}.html",
        }
        for name, part in _REPEATED.items():
            if self._earlier and chance.random() < part:
                made[name] = getattr(self._earlier[chance.randrange(len(self._earlier))], name)
                # Some who repeat a title write it otherwise.
                if name == "title" and chance.random() < 0.2:
                    made[name] = made[name].upper()
        item = Item(self.made, _FIRST_S + self.made * _STEP_S, feed, language, **made)
        self._earlier.append(item)
        return item

    def _words(self, least: int, most: int) -> str:
        count = self._random.randint(least, most)
        return " ".join(self._random.choices(self._vocabulary, cum_weights=self._by_word, k=count))


def vocabulary() -> list[str]:
    """Make the words of all texts, the most frequent first; no word is part of another one by rule."""
    chance = random.Random(7)
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        words["".join(chance.choices("aeiounrtslmdkpgz", k=chance.randint(4, 9))).capitalize()] = None
    return list(words)


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on one item; None: there is none of this kind."""

    feed: str | None = None
    language: str | None = None
    length: int | None = None
    """Characters that the description has more than."""
    word: str | None = None
    """Text that the title contains."""

    def text(self) -> str:
        """Write the brackets."""
        brackets = {
            f"[./channel_url = '{self.feed}']": self.feed,
            f"[./language = '{self.language}']": self.language,
            f"[string-length(./description) > {self.length}]": self.length,
            f"[contains(./title, '{self.word}')]": self.word,
        }
        return "".join(text for text, value in brackets.items() if value is not None)

    def holds(self, item: Item) -> bool:
        """Tell whether an item meets them."""
        return (
            (self.feed is None or item.feed == self.feed)
            and (self.language is None or item.language == self.language)
            and (self.length is None or len(item.description) > self.length)
            and (self.word is None or self.word in item.title)
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """Join of two items, up to windows and selections."""

    name: str
    path: str
    """Element that is equal in both."""
    feeds: str
    """``=``, ``!=`` or nothing: how their feeds compare."""
    once: bool
    """Either order, once; otherwise the second comes later."""
    lower: bool = False

    @property
    def field(self) -> str:
        """Name of the element's value in ``Item``."""
        return "link" if self.path == "item_url" else self.path

    def key(self, item: Item) -> str:
        """Return the value that is equal in both."""
        value: str = getattr(item, self.field)
        return value.lower() if self.lower else value

    def text(self, window_s: int, left: str, right: str) -> str:
        """Write the query, with brackets on either side."""
        joined = "lower(x) = lower(y)" if self.lower else "x = y"
        feeds = f" AND c {self.feeds} d" if self.feeds else ""
        bound = [f"[./channel_url->{name}]" if self.feeds else "" for name in "cd"]
        word, once = ("JOIN", ", ONCE") if self.once else ("FOLLOWED BY", "")
        return (
            f"{CHANNEL}->a{left}[./{self.path}->x]{bound[0]} {word} {{{joined}{feeds}, {window_s} s{once}}} "
            f"{CHANNEL}->b{right}[./{self.path}->y]{bound[1]}"
        )


_SHAPES = (
    Shape("story", "title", "!=", once=True),
    Shape("case", "title", "!=", once=True, lower=True),
    Shape("text", "description", "!=", once=True),
    Shape("again", "title", "=", once=False),
    Shape("passed", "title", "", once=False),
    Shape("link", "item_url", "", once=False),
)


@dataclass(frozen=True, slots=True)
class Question:
    """One query as its parts."""

    shape: Shape
    window_s: int
    left: Selection
    right: Selection

    @property
    def text(self) -> str:
        """The query in XSCL."""
        return self.shape.text(self.window_s, self.left.text(), self.right.text())


def questions(seed: int, feeds: list[str]) -> Iterator[Question]:
    """Yield distinct queries without end, 85 % with selections.

    A story that is passed on names both feeds; other selections are on the left item, every third one of two kinds.
    """
    chance = random.Random(seed)
    words = vocabulary()
    known: set[Question] = set()
    while True:
        shape, left, right = chance.choice(_SHAPES), Selection(), Selection()
        if chance.random() < 0.85:
            left = _selection(chance, feeds, words)
            if shape.name == "passed":
                right = Selection(feed=_frequent(chance, feeds))
        asked = Question(shape, chance.choice(_WINDOWS_S), left, right)
        if asked not in known:
            known.add(asked)
            yield asked


def _selection(chance: random.Random, feeds: list[str], words: list[str]) -> Selection:
    kinds = chance.sample(_KINDS, chance.choice((1, 1, 2)))
    values: dict[str, str | int] = {
        "feed": _frequent(chance, feeds),
        "language": chance.choice([*_LANGUAGES]),
        "length": chance.choice(_LENGTHS),
        "word": words[int(chance.random() ** 2 * 550)],
    }
    return Selection(**{kind: values[kind] for kind in kinds})  # type: ignore[arg-type]


def _frequent(chance: random.Random, feeds: list[str]) -> str:
    return feeds[int(chance.random() ** 2 * len(feeds))]
