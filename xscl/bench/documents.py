"""Random documents to join: of the thesis' schemas, and items of feeds with the frequencies of the thesis' corpus.

Made from a seed by numpy, some hundred thousand a second, with nothing of the engine in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from xscl.bench.workload import Schema

__all__ = ["ItemFeed", "family_documents", "family_parts", "schema_document", "thesis_pair"]

_FAMILY = 5
"""Documents of the state in a family, in the mean."""
_WHOLE = 0.5
"""The part of documents that have their family's value in every leaf."""
_SHARED = 0.5
"""Probability that a leaf of any other document has its family's value."""
_CHUNK = 10_000
_FIRST_S = 1_149_120_000
"""June 2006, in which the thesis' corpus begins."""
_REPEATED_TITLES, _REPEATED_DESCRIPTIONS = 0.01, 0.1


def schema_document(schema: Schema, values: Sequence[str]) -> str:
    """Write the document that has these values in its leaves, in the schema's order.

    >>> from xscl.bench.workload import three_level
    >>> schema_document(three_level(1, 2), ["a", "b"])
    '<doc><part1><leaf1_1>a</leaf1_1><leaf1_2>b</leaf1_2></part1></doc>'
    """
    text = [f"<{schema.root}>"]
    above: tuple[str, ...] = ()
    for (*inner, leaf), value in zip(schema.leaves, values, strict=True):
        path = tuple(inner)
        if path != above:
            text += [f"</{name}>" for name in reversed(above)]
            text += [f"<{name}>" for name in path]
            above = path
        text.append(f"<{leaf}>{value}</{leaf}>")
    text += [f"</{name}>" for name in reversed(above)]
    return "".join([*text, f"</{schema.root}>"])


def thesis_pair(schema: Schema, number: int) -> tuple[str, str]:
    """Make d1 and d2 of the thesis: they agree leaf by leaf, and no two leaves are equal; unlike other pairs."""
    document = schema_document(schema, [f"pair {number} leaf {leaf}" for leaf in range(len(schema.leaves))])
    return document, document


def family_documents(schema: Schema, number: int, *, families: int, seed: int, run: str) -> Iterator[str]:
    """Yield so many documents, each of a family drawn uniformly from ``families``.

    A family has a value for each leaf, which no other leaf and no other family has.  Half of the documents have their
    family's value in every leaf; the others have it in each leaf with probability 0.5, else a value that nobody has.
    Two documents of a family thus agree in all leaves with probability 1/4, else in a random part of them; two
    documents of different families agree nowhere.  ``run`` keeps the values of nobody apart.
    """
    generator = np.random.default_rng(seed)
    leaves = len(schema.leaves)
    for start in range(0, number, _CHUNK):
        count = min(_CHUNK, number - start)
        family = generator.integers(families, size=count)
        whole = generator.random(count) < _WHOLE
        shared = (generator.random((count, leaves)) < _SHARED) | whole[:, None]
        for place in range(count):
            of = family[place]
            yield schema_document(
                schema,
                [
                    f"family {of} leaf {leaf}" if shared[place, leaf] else f"{run} {start + place} leaf {leaf}"
                    for leaf in range(leaves)
                ],
            )


def family_parts(schema: Schema, state: int, batches: Iterable[int], *, seed: int) -> Iterator[list[tuple[int, str]]]:
    """Yield the documents of a state and of each batch over it, with event times in seconds from 1 on."""
    families = max(1, state // _FAMILY)
    at = 1
    for number, count in enumerate((state, *batches)):
        documents = family_documents(schema, count, families=families, seed=seed + number, run=f"run {number}")
        yield list(enumerate(documents, start=at))
        at += count


class ItemFeed:
    """Items of 418 equally frequent channels with five fields, without end.

    In each round of 418 items every channel has one, in random order.  ``item_url`` is unique.  One title in a hundred
    and one description in ten repeat that of an earlier item (uniformly, of the last ``reach`` items or of all); all
    others are unique.  Timestamps are ``step_s`` seconds apart, from June 2006 on, and written as numbers.  Equal calls
    give equal items.
    """

    def __init__(self, seed: int, *, channels: int = 418, reach: int | None = None, step_s: int = 60) -> None:
        self.seed = seed
        self.channels = channels
        self.reach = reach
        self.step_s = step_s
        self.made = 0
        letters = np.random.default_rng(seed).integers(97, 123, size=(4_000, 6), dtype=np.uint8)
        self._text = " ".join(row.tobytes().decode() for row in letters)
        self._titles: list[int] = []
        self._descriptions: list[int] = []

    def time(self, number: int) -> int:
        """Return the event time of an item (from 0), in seconds."""
        return _FIRST_S + number * self.step_s

    def take(self, number: int) -> Iterator[tuple[int, str]]:
        """Yield the next so many items: (event time in seconds, XML of some 550 characters)."""
        for start in range(0, number, _CHUNK):
            yield from self._chunk(min(_CHUNK, number - start))

    def _chunk(self, count: int) -> Iterator[tuple[int, str]]:
        generator = np.random.default_rng((self.seed, self.made))
        begin = self.made
        rounds = [
            np.random.default_rng((self.seed, 1, number)).permutation(self.channels)
            for number in range(begin // self.channels, (begin + count - 1) // self.channels + 1)
        ]
        channel = np.concatenate(rounds)[begin % self.channels :][:count]
        self._draw(self._titles, generator, _REPEATED_TITLES, count)
        self._draw(self._descriptions, generator, _REPEATED_DESCRIPTIONS, count)
        for place in range(count):
            number = begin + place
            self.made = number + 1
            at = self.time(number)
            title, description = self._titles[number], self._descriptions[number]
            yield (
                at,
                f"<item><item_url>http://feeds.example/{number:x}/story.html</item_url>"
                f"<channel_url>http://feeds.example/channel/{channel[place]}/rss.xml</channel_url>"
                f"<title>{self._words(title, 40)} {title}</title>"
                f"<timestamp>{at}</timestamp>"
                f"<description>{self._words(description + 7, 280)} {description}</description></item>",
            )

    def _draw(self, known: list[int], generator: np.random.Generator, part: float, count: int) -> None:
        """Say of each item which earlier one it repeats, or that it is the first: its own number."""
        repeats = generator.random(count) < part
        where = generator.random(count)
        for place in range(count):
            number = len(known)
            reach = number if self.reach is None else min(number, self.reach)
            back = 1 + int(where[place] * reach)
            known.append(known[number - back] if repeats[place] and reach else number)

    def _words(self, number: int, length: int) -> str:
        begin = number * 7919 % (len(self._text) - length)
        return self._text[begin : begin + length].strip()
