"""Chains: the rows of R_bin around one binding of a leaf.

The same computation serves the nodes of a document (``walk``) and the places on a path of names (``automaton``),
from which it is copied to every node of that path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from xscl.base.errors import DocumentLimitError
from xscl.xpath.automaton.row_template import ChainEntry
from xscl.xpath.automaton.states import State

__all__ = [
    "MAX_CHAIN_ENTRIES",
    "MAX_VALUE_CHARACTERS",
    "ChainEntry",
    "chain",
    "check_characters",
    "check_entries",
    "too_many_entries",
]

MAX_CHAIN_ENTRIES = 1_000_000
"""Greatest number of chain entries of one spec in one document: many results beside many joined nodes multiply."""

MAX_VALUE_CHARACTERS = 1 << 27
"""Greatest number of characters in the values of one spec's rows in one document. Nested elements repeat the text
inside them, and each row has its value. Even in UTF-8 such a column stays below the 2 GiB that Arrow can address."""

Related = Callable[[State, int], Iterable[int]]


def too_many_entries() -> DocumentLimitError:
    """Return the refusal of a document in which bindings multiply."""
    return DocumentLimitError(
        "XSCL_DOCUMENT_LIMIT",
        f"the pattern has more than {MAX_CHAIN_ENTRIES:,} pairs of bindings in this document",
    )


def check_entries(count: int) -> None:
    """Refuse a document with so many entries.

    Raises:
        DocumentLimitError: more than ``MAX_CHAIN_ENTRIES``.
    """
    if count > MAX_CHAIN_ENTRIES:
        raise too_many_entries()


def check_characters(count: int) -> None:
    """Refuse a document whose rows have so long values.

    Raises:
        DocumentLimitError: more than ``MAX_VALUE_CHARACTERS``.
    """
    if count > MAX_VALUE_CHARACTERS:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT",
            f"the values that are asked for have more than {MAX_VALUE_CHARACTERS:,} characters in this document",
        )


def chain(
    leaf: State, at: int, *, origins: Related, below: Related, reached: Collection[State] | None
) -> list[ChainEntry]:
    """Return the bindings of a leaf's edges on the way to the place ``at`` of the leaf, and of those that hang off it.

    ``origins(state, place)`` are the places of the state before from which a place of ``state`` is reached, and
    ``below(state, place)`` the places of ``state`` that are reached from a place of the state before.  ``reached`` are
    the states with places; None: nothing is known.  Queries may ask for thousands of states, and few are reached.

    Raises:
        DocumentLimitError: this chain alone has more entries than a document may have.
    """
    assert leaf.leaf is not None
    if leaf.leaf.alone:
        return [(leaf.key, leaf.key, at, at)] if leaf.leaf.order.pairs else []
    order = leaf.leaf.order
    top = leaf.depth if order.top is None else order.top
    # Places on the way up, by state; and those that hang off it.
    way: dict[State, set[int]] = {leaf: {at}}
    state = leaf
    while state.depth > top and state.parent is not None:
        way[state.parent] = {origin for place in way[state] for origin in origins(state, place)}
        state = state.parent
    hung: dict[State, set[int]] = {}
    found: set[ChainEntry] = set()
    # Upper ends are settled before the edges below them, because those with a higher upper end come first.
    for upper, lower in order.pairs if reached is None else order.reaching({*way, *reached}):
        uppers = way.get(upper, set()) | hung.get(upper, set())
        bound = {(high, low) for low in way.get(lower, ()) for high in _climb(lower, upper, low, origins)}
        if lower not in way or (upper, lower) in leaf.leaf.hanging:
            down: set[tuple[int, int]] = set()
            for high in uppers:
                down.update((high, low) for low in _descend(upper, lower, high, below))
                check_entries(len(down))  # before they take the memory
            hung.setdefault(lower, set()).update(low for _, low in down)
            bound |= down
        found.update((upper.key, lower.key, high, low) for high, low in bound if high in uppers)
        check_entries(len(found))
    return sorted(found)


def _climb(lower: State, upper: State, place: int, origins: Related) -> set[int]:
    places = {place}
    at = lower
    while at is not upper:
        places = {origin for low in places for origin in origins(at, low)}
        assert at.parent is not None
        at = at.parent
    return places


def _descend(upper: State, lower: State, place: int, below: Related) -> set[int]:
    path = []
    at = lower
    while at is not upper:
        path.append(at)
        assert at.parent is not None
        at = at.parent
    places = {place}
    for state in reversed(path):
        places = {low for high in places for low in below(state, high)}
    return places
