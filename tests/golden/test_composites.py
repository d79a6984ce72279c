"""The cube of times: joins of three and four blocks, one document per block at every combination of times.

The rules are those of docs/reference/language.md, Joins, and of composites those of docs/explanation/architecture.md,
From text to rows.

The expected answers are arithmetic on three or four numbers, written here a second time, differently from the oracle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from pathlib import Path

import pytest
from both_sides import Engine, Oracle, ids, side
from budget import THOROUGH
from oracle.evaluate import Doc

S = 1_000_000
# Not in the order of the alphabet, because ties of ONCE are decided by the channel.
CHANNELS = ("B", "A", "D", "C")
VARIABLES = ("x", "y", "z", "w")
Times = tuple[int, ...]

OPERATORS: Mapping[str, Callable[[int, bool], bool]] = {
    "FOLLOWED BY {%}": lambda d, first: d >= 1,
    "FOLLOWED BY {%, 2 s}": lambda d, first: d in (1, 2),
    "FOLLOWED BY {%, 0 s..2 s}": lambda d, first: d in (0, 1, 2),
    "FOLLOWED BY {%, 2 s..3 s}": lambda d, first: d in (2, 3),
    "FOLLOWED BY {%, 0 s..UNBOUNDED}": lambda d, first: d >= 0,
    "FOLLOWED BY {%, UNBOUNDED, 3 s}": lambda d, first: d in (1, 2, 3),
    "JOIN {%}": lambda d, first: True,
    "JOIN {%, 2 s}": lambda d, first: d in (-2, -1, 0, 1, 2),
    "JOIN {%, 0 s}": lambda d, first: d == 0,
    "JOIN {%, ONCE}": lambda d, first: first,
    "JOIN {%, 1 s, ONCE}": lambda d, first: first and d in (-1, 0, 1),
}
"""Operator to its truth, by the difference of the sides' times and by whether the left side's (time, channel) is the
smaller one.  Of a composite only the greatest time and the greatest (time, channel) count."""

MORE: Mapping[str, Callable[[Times], bool]] = {
    "": lambda t: True,
    ", MAXWINDOW 2 s": lambda t: max(t) - min(t) <= 2,
    ", MAXWINDOW 3 s, MAXWINDOW 1 s": lambda t: max(t) - min(t) <= 1,
    ", y - x IN [-UNBOUNDED, 0 s]": lambda t: t[1] <= t[0],
    ", x - y IN (-2 s, 3 s)": lambda t: -2 < t[0] - t[1] < 3,
    ", z - x IN [1 s, 2 s]": lambda t: t[2] - t[0] in (1, 2),
    ", x - z IN (-1 s, UNBOUNDED)": lambda t: t[0] - t[2] > -1,
    ", z - x IN (-3 s, 2 s), z - y IN [-1 s, 1 s]": lambda t: -3 < t[2] - t[0] < 2 and abs(t[2] - t[1]) <= 1,
}
"""Windows that speak of members and not of composites."""


@dataclass(frozen=True)
class Joined:
    """Two trees of joins; a block is the number of its place."""

    left: Joined | int
    op: str
    right: Joined | int
    more: str = ""


Tree = Joined | int


def places(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else places(tree.left) + places(tree.right)


def text(tree: Tree, *, inner: bool = False, bare: bool = False) -> str:
    """The query; ``bare`` leaves out the parentheses that mean nothing, those of a left side."""
    if isinstance(tree, int):
        return f"{CHANNELS[tree]}//k->{VARIABLES[tree]}"
    # One atom per operator, so that documents of different combinations never meet.
    key = f"{VARIABLES[places(tree.left)[-1]]} = {VARIABLES[places(tree.right)[0]]}"
    op = tree.op.replace("%", key).replace("}", tree.more + "}")
    found = f"{text(tree.left, inner=not bare, bare=bare)} {op} {text(tree.right, inner=True, bare=bare)}"
    return f"({found})" if inner else found


def holds(tree: Tree, times: Times, names: Sequence[str] = CHANNELS) -> bool:
    """The truth for events with these times and, to order equal times, these names.

    ONCE says nothing of two blocks over different channels, which no two documents match in both orders.
    """
    if isinstance(tree, int):
        return True
    left, right = ([(times[place], names[place]) for place in places(side)] for side in (tree.left, tree.right))
    difference = max(t for t, _ in right) - max(t for t, _ in left)
    first = max(left) < max(right) or (names is CHANNELS and len(left) == len(right) == 1)
    here = OPERATORS[tree.op](difference, first) and MORE[tree.more](times)
    return here and holds(tree.left, times, names) and holds(tree.right, times, names)


def of_three_blocks() -> Iterator[Tree]:
    for one, two in product(OPERATORS, repeat=2):
        yield Joined(Joined(0, one, 1), two, 2)
        yield Joined(0, one, Joined(1, two, 2))


def with_other_windows() -> Iterator[Tree]:
    some = ("JOIN {%, 2 s}", "FOLLOWED BY {%, 0 s..2 s}")
    for one, two, more in product(some, some, MORE):
        yield Joined(Joined(0, one, 1), two, 2, more)
        if "z" not in more:
            yield Joined(Joined(0, one, 1, more), two, 2)
            yield Joined(Joined(0, one, 1, ", MAXWINDOW 2 s"), two, 2, more)
        if "MAX" in more:
            yield Joined(0, one, Joined(1, two, 2, more))


def of_four_blocks() -> Iterator[Tree]:
    within = ("FOLLOWED BY {%, 0 s..2 s}", "JOIN {%, 2 s}", "JOIN {%, ONCE}")
    across = ("FOLLOWED BY {%}", "FOLLOWED BY {%, 0 s..2 s}", "JOIN {%, 2 s}", "JOIN {%, 1 s, ONCE}")
    for one, two, three in product(within, across, within):
        yield Joined(Joined(0, one, 1), two, Joined(2, three, 3))
    for one, two, three in product(across, within[1:], across):
        yield Joined(Joined(0, one, Joined(1, two, 2)), three, 3)
        yield Joined(0, one, Joined(Joined(1, two, 2), three, 3))
    yield Joined(0, "JOIN {%, 2 s}", Joined(1, "JOIN {%, 2 s}", Joined(2, "JOIN {%, 2 s}", 3)))
    yield Joined(Joined(Joined(0, "JOIN {%, 2 s}", 1), "JOIN {%, 2 s}", 2), "FOLLOWED BY {%, 2 s}", 3)


def cube(blocks: int, edge: int) -> dict[Times, list[Doc]]:
    """One document per block for each combination of times, tied to each other by a key of their own."""
    found = {}
    for number, times in enumerate(product(range(edge), repeat=blocks)):
        name = "".join(map(str, times))
        xml = f"<r><k>{number}</k></r>"
        found[times] = [Doc(CHANNELS[i], f"{CHANNELS[i]}{name}", ts * S, xml) for i, ts in enumerate(times)]
    return found


CASES = {
    "three blocks": (of_three_blocks, 3, 5),
    "other windows": (with_other_windows, 3, 5),
    "four blocks": (of_four_blocks, 4, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cube_by_the_oracle(case: str) -> None:
    rule, blocks, edge = CASES[case]
    oracle = Oracle()
    everything = cube(blocks, edge)
    # A third of the rules has each operator on each side with several others; the engine is asked for all.
    for tree in islice(rule(), 0, None, 1 if THOROUGH else 3):
        found = {times for times, docs in everything.items() if oracle.ask({"Q": text(tree)}, [docs])[0]["Q"]}
        assert found == {times for times in everything if holds(tree, times)}, text(tree)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bare", [False, True])
def test_the_cube_by_the_engine(case: str, bare: bool, tmp_path: Path) -> None:
    rule, blocks, edge = CASES[case]
    everything = cube(blocks, edge)
    queries = {text(tree, bare=bare): tree for tree in rule() if not bare or text(tree) != text(tree, bare=True)}
    # Whatever does not meet may as well be in one batch; cutting in the middle of combinations shows that none is lost.
    docs = [doc for combination in everything.values() for doc in combination]
    docs = [doc for channel in CHANNELS for doc in docs if doc.channel == channel][::-1]
    third = len(docs) // 3
    *_, found = Engine(tmp_path).ask({query: query for query in queries}, [docs[:third], docs[third:]])
    for query, tree in queries.items():
        expected = {tuple(doc.id for doc in everything[times]) for times in everything if holds(tree, times)}
        assert ids(found[query]) == expected, query


@pytest.mark.parametrize("name", ["oracle", "engine", "driver"])
def test_the_cube_in_one_channel(name: str, tmp_path: Path) -> None:
    """Every document may be any member, and ids order equal times."""
    queries = {re.sub(r"\b[A-D]//", "S//", text(tree)): tree for tree in of_three_blocks()}
    groups = [
        [
            Doc("S", f"{number:02}{letter}", ts * S, f"<r><k>{number}</k></r>")
            for letter, ts in zip("abc", times, strict=True)
        ]
        for number, times in enumerate(((0, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 2), (0, 2, 4), (3, 0, 2)))
    ]
    docs = [doc for group in zip(*groups, strict=True) for doc in group]
    *_, found = side(name, tmp_path).ask({query: query for query in queries}, [docs[:7], docs[7:]])
    for query, tree in queries.items():
        expected = {
            tuple(doc.id for doc in members)
            for group in groups
            for members in permutations(group)
            if holds(tree, tuple(doc.ts // S for doc in members), [doc.id for doc in members])
        }
        assert ids(found[query]) == expected, query
