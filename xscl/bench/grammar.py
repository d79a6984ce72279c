"""Documents of a random grammar, and distinct patterns that are walks in it, the same for the same seed.

A grammar says which elements may stand below which.  The grammar is recursive, so documents end at
``MAX_DEPTH`` levels.  A pattern follows the grammar from the root downwards, so that it can match; whether it does
depends on what the document's generator chose at each step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.pattern import (
    Axis,
    Comparison,
    Condition,
    Constant,
    Definition,
    Exists,
    Here,
    NodeTest,
    Step,
    conditions,
)

__all__ = ["CHANNEL", "MAX_DEPTH", "Grammar", "block_spec", "documents", "patterns", "random_grammar"]

CHANNEL = "grammar"
"""The channel of the patterns."""
MAX_DEPTH = 8
"""Levels of a document; a pattern has at most as many steps."""

_NAMES, _INNER = 60, 36
_INNER_BELOW, _LEAVES_BELOW = 4, 3
_MOST_CHILDREN = 4
_ATTRIBUTES = ("id", "kind", "lang")
_WORDS = tuple(f"word{n}" for n in range(40))
_NUMBERS = 100

_FEWEST_STEPS = 3
_DESCENDANT, _SKIP, _ANY, _CONDITION = 0.2, 0.5, 0.1, 0.2
_KINDS = ("word", "range", "attribute", "child")


@dataclass(frozen=True, slots=True)
class Grammar:
    """60 element names: 36 with elements below them, 12 with a word and 12 with a number as their text."""

    root: str
    inner: Mapping[str, tuple[str, ...]]
    """Names below each such name that have elements below them in turn."""
    leaves: Mapping[str, tuple[str, ...]]
    """Names below each such name that have text only."""
    attributes: Mapping[str, tuple[str, ...]]
    """Attributes of one name in three."""
    numeric: frozenset[str]
    """The leaves with numbers; the others have words."""


def random_grammar(seed: int) -> Grammar:
    """Make a grammar in which every name can be reached from the root."""
    generator = random.Random(f"grammar {seed}")
    names = [f"e{n:02}" for n in range(_NAMES)]
    generator.shuffle(names)
    inner, leaves = names[:_INNER], names[_INNER:]

    def some(place: int, of: list[str], number: int) -> tuple[str, ...]:
        # One in turn, so that none is left out.
        first = of[(place + 1) % len(of)]
        return (first, *generator.sample([name for name in of if name != first], number - 1))

    return Grammar(
        root=inner[0],
        inner={name: some(place, inner, _INNER_BELOW) for place, name in enumerate(inner)},
        leaves={name: some(place, leaves, _LEAVES_BELOW) for place, name in enumerate(inner)},
        attributes={name: tuple(generator.sample(_ATTRIBUTES, generator.randint(1, 2))) for name in names[::3]},
        numeric=frozenset(leaves[::2]),
    )


# -- documents -------------------------------------------------------------------------------------------------


def documents(grammar: Grammar, *, seed: int) -> Iterator[str]:
    """Yield documents without end. An element has one to four children, each drawn from all that may stand below it."""
    generator = random.Random(f"documents {seed}")
    while True:
        parts: list[str] = []
        _write(grammar, generator, grammar.root, 1, parts)
        yield "".join(parts)


def _write(grammar: Grammar, generator: random.Random, name: str, depth: int, parts: list[str]) -> None:
    held = [attribute for attribute in grammar.attributes.get(name, ()) if generator.random() < 0.7]
    parts.append("".join([f"<{name}", *(f' {attribute}="{generator.choice(_WORDS)}"' for attribute in held), ">"]))
    below = _below(grammar, name, deeper=depth + 1 < MAX_DEPTH)
    if below:
        for child in generator.choices(below, k=generator.randint(1, _MOST_CHILDREN)):
            _write(grammar, generator, child, depth + 1, parts)
    elif name in grammar.numeric:
        parts.append(str(generator.randrange(_NUMBERS)))
    else:
        parts.append(generator.choice(_WORDS))
    parts.append(f"</{name}>")


def _below(grammar: Grammar, name: str, *, deeper: bool) -> tuple[str, ...]:
    """Return the names that may stand below an element; without ``deeper`` only those with text."""
    return (grammar.inner.get(name, ()) if deeper else ()) + grammar.leaves.get(name, ())


# -- patterns --------------------------------------------------------------------------------------------------


def patterns(grammar: Grammar, *, seed: int) -> Iterator[Definition]:
    """Yield distinct patterns without end: paths of 3 to 8 steps, from the root of the grammar downwards.

    A step is ``//`` with probability 0.2, and then skips no level or more (one more with 0.5 each); a name is ``*``
    with 0.1.  One pattern in five has a condition on a value: the last element is a word, or a number in a range; an
    attribute of an element on the way is a word, or a child of one is.  The four are equally likely; their constants
    are drawn from what documents hold.
    """
    generator = random.Random(f"patterns {seed}")
    seen: set[str] = set()
    while True:
        kind = generator.choice(_KINDS) if generator.random() < _CONDITION else None
        found = None
        while found is None or found.text in seen:
            found = _pattern(grammar, generator, kind)
        seen.add(found.text)
        yield found


def block_spec(definition: Definition) -> WitnessSpec:
    """Return what stage 1 has to find for a query of one block without joins, as ``compile_query`` asks for it."""
    return WitnessSpec(definition, (None,), ((definition, definition),))


def _pattern(grammar: Grammar, generator: random.Random, kind: str | None) -> Definition | None:
    """Draw a pattern with a condition of some kind; None: the walk has no place for such a condition."""
    axes, names = _walk(grammar, generator, ends_in_text=kind in ("word", "range"))
    held: dict[int, tuple[Condition, ...]] = {}
    if kind is not None:
        place = _place(grammar, generator, names, kind)
        if place is None:
            return None
        held[place] = _condition(grammar, generator, names[place], kind)
    steps = []
    for place, (axis, name) in enumerate(zip(axes, names, strict=True)):
        step = _step(axis, None if generator.random() < _ANY else name)
        steps.append(Step(step.axis, step.test, held[place]) if place in held else step)
    return Definition(CHANNEL, tuple(steps))


def _walk(grammar: Grammar, generator: random.Random, *, ends_in_text: bool) -> tuple[list[Axis], list[str]]:
    axes: list[Axis] = []
    names: list[str] = []
    size = generator.randint(_FEWEST_STEPS, MAX_DEPTH)
    level, above = 0, ""
    for left in reversed(range(size)):
        axis: Axis = "descendant" if generator.random() < _DESCENDANT else "child"
        while axis == "descendant" and level + 1 + left < MAX_DEPTH and generator.random() < _SKIP:
            above = generator.choice(grammar.inner[above]) if above else grammar.root
            level += 1
        level += 1
        below = _below(grammar, above, deeper=level < MAX_DEPTH) if above else (grammar.root,)
        if left:
            below = grammar.inner[above] if above else below
        elif ends_in_text:
            below = grammar.leaves[above]
        above = generator.choice(below)
        axes.append(axis)
        names.append(above)
    return axes, names


def _place(grammar: Grammar, generator: random.Random, names: list[str], kind: str) -> int | None:
    """Choose the element of a walk that gets the condition."""
    last = len(names) - 1
    if kind in ("word", "range"):
        return last if (names[last] in grammar.numeric) is (kind == "range") else None
    if kind == "attribute":
        places = [place for place, name in enumerate(names) if name in grammar.attributes]
    else:
        places = [place for place, name in enumerate(names) if _word_leaves(grammar, name)]
    return generator.choice(places) if places else None


def _condition(grammar: Grammar, generator: random.Random, name: str, kind: str) -> tuple[Condition, ...]:
    if kind == "range":
        low = generator.randrange(_NUMBERS)
        high = low + generator.randint(1, _NUMBERS // 2)
        return conditions([_compared(">=", str(low), number=True), _compared("<", str(high), number=True)])
    word = _compared("=", generator.choice(_WORDS), number=False)
    if kind == "word":
        return (word,)
    if kind == "attribute":
        attribute = generator.choice(grammar.attributes[name])
        return (Exists(Step("child", NodeTest("attribute", "", attribute), (word,))),)
    return (Exists(Step("child", NodeTest("element", "", generator.choice(_word_leaves(grammar, name))), (word,))),)


def _word_leaves(grammar: Grammar, name: str) -> list[str]:
    return [leaf for leaf in grammar.leaves.get(name, ()) if leaf not in grammar.numeric]


def _compared(op: str, value: str, *, number: bool) -> Comparison:
    return Comparison(Here(), op, Constant(value, is_number=number))


@lru_cache(maxsize=4 * _NAMES)
def _step(axis: Axis, name: str | None) -> Step:
    """Return one object for equal steps, so that their texts are made once."""
    return Step(axis, NodeTest("element", None if name is None else "", name))
