"""Matched edges of one pair of documents, as relations between the nodes of two variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from typing import NamedTuple

from xscl.base.arrow_schemas import REFUSED
from xscl.templates.columns import Int32s
from xscl.templates.program import Program
from xscl.templates.results import Refusal
from xscl.templates.shapes import OWN, ChainEntry, Shape, Shapes

__all__ = ["BEYOND", "MAX_MATCHED", "Hanging", "Joined", "Matched", "MatchedEdges", "TooMany"]

BEYOND = -1
"""Stands for the shapes of an edge that has more pairs of nodes in a pair of documents than may be looked at."""
MAX_MATCHED = 2_000_000
"""Matched values of one edge in one pair of documents."""


_Shapes = tuple[Shape, ...]


_Block = tuple[_Shapes, _Shapes]
"""Nodes of two documents; each of the left ones matches each of the right ones."""


class MatchedEdges(NamedTuple):
    """Matched edges of some pairs, in columns."""

    edge: Int32s
    shape_l: Int32s
    """Numbers of the nodes with their chains (``Shapes``)."""
    shape_r: Int32s


class TooMany(Exception):
    """A limit is exceeded."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason: Refusal = reason


class Joined:
    """The pairs of nodes that one edge matches."""

    def __init__(self, blocks: Iterable[_Block], *, first_only: tuple[bool, bool]) -> None:
        """``first_only`` tells for either side whether of nodes that stand alike the first will do."""
        self._blocks: list[tuple[list[int], list[int]]] = []
        self._of_left: defaultdict[int, list[int]] = defaultdict(list)
        """Node to its places in ``_blocks``."""
        self._of_right: defaultdict[int, list[int]] = defaultdict(list)
        self.alike: tuple[dict[int, tuple[int, ...]], ...] = {}, {}
        """The first node of a shape to all nodes of the shape, by side."""
        for place, block in enumerate(blocks):
            sides = []
            for shapes, index, first, alike in zip(
                block, (self._of_left, self._of_right), first_only, self.alike, strict=True
            ):
                if first:
                    for shape in shapes:
                        known = alike.get(shape.nodes[0], ())
                        alike[shape.nodes[0]] = shape.nodes if len(shape.nodes) > len(known) else known
                nodes = {node for shape in shapes for node in (shape.nodes[:1] if first else shape.nodes)}
                for node in nodes:
                    index[node].append(place)
                sides.append(sorted(nodes))
            self._blocks.append((sides[0], sides[1]))
        self.size = sum(len(left) * len(right) for left, right in self._blocks)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Iterate over the pairs."""
        return (pair for left, right in self._blocks for pair in product(left, right))

    def forward(self, node: int) -> Iterator[int]:
        """Iterate over the right nodes of a left node."""
        return (other for place in self._of_left.get(node, ()) for other in self._blocks[place][1])

    def backward(self, node: int) -> Iterator[int]:
        """Iterate over the left nodes of a right node."""
        return (other for place in self._of_right.get(node, ()) for other in self._blocks[place][0])

    def has(self, left: int, right: int) -> bool:
        """Tell whether two nodes are a pair."""
        return not set(self._of_left.get(left, ())).isdisjoint(self._of_right.get(right, ()))


class Hanging:
    """Pairs of bindings along one edge of a reduced pattern, in one of the documents."""

    def __init__(self, pairs: Collection[tuple[int, int]]) -> None:
        self._pairs = pairs
        self._forward: defaultdict[int, list[int]] = defaultdict(list)
        self._backward: defaultdict[int, list[int]] = defaultdict(list)
        for upper, lower in pairs:
            self._forward[upper].append(lower)
            self._backward[lower].append(upper)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Iterate over the pairs."""
        return iter(self._pairs)

    def forward(self, node: int) -> Iterable[int]:
        """Iterate over the right nodes of a left node."""
        return self._forward.get(node, ())

    def backward(self, node: int) -> Iterable[int]:
        """Iterate over the left nodes of a right node."""
        return self._backward.get(node, ())

    def has(self, left: int, right: int) -> bool:
        """Tell whether two nodes are a pair."""
        return (left, right) in self._pairs


class Matched:
    """The matched edges of a pair of documents; relations are made of them when plans ask for these."""

    def __init__(self, edges: MatchedEdges, shapes: Shapes, program: Program) -> None:
        pairs: defaultdict[int, dict[tuple[int, int], None]] = defaultdict(dict)
        for edge, left, right in zip(*(column.tolist() for column in edges), strict=True):
            pairs[edge][left, right] = None
        self._pairs = {edge: tuple(of) for edge, of in pairs.items()}
        self._shapes = shapes
        self._program = program
        sides = {(side, frozenset(pair[side] for pair in of)) for of in set(self._pairs.values()) for side in (0, 1)}
        self._sides = [(side, numbers - {BEYOND}) for side, numbers in sides]
        """Numbers of the shapes that edges have on one side; a thousand edges often have the same ones."""
        self.refused = self._refused()
        """(side, digest) of what stage 1 was asked, and refused in one of the documents."""
        self.is_sorted = self._is_sorted()
        """Whether every node has one shape in each edge, so that those which stand alike in it do so altogether."""
        self._blocks: dict[int, list[_Block] | None] = {}
        self._joined: dict[tuple[int, tuple[bool, bool]], Joined] = {}
        self._chains: dict[bool, dict[tuple[int, int, int], set[tuple[int, int]]]] = {}
        self._hanging: dict[tuple[bool, tuple[int, ...]], Hanging] = {}

    def pairs_of(self, edge: int) -> tuple[tuple[int, int], ...]:
        """Return the numbers of the shapes that an edge matches, left and right."""
        return self._pairs[edge]

    def joined(self, edge: int, first_only: tuple[bool, bool]) -> Joined:
        """Return the relation of a value join.

        Raises:
            TooMany: it was too large to be looked for.
        """
        key = edge, first_only
        if key not in self._joined:
            blocks = self._blocks_of(edge)
            if blocks is None:
                raise TooMany("steps")
            self._joined[key] = Joined(blocks, first_only=first_only)
        return self._joined[key]

    def hanging(self, relation: tuple[int, ...], *, whole: bool) -> Hanging:
        """Return the relation (side, var1, var2) of R_bin; unless ``whole`` without the nodes that stand as others
        do.
        """
        key = whole, relation
        if key not in self._hanging:
            if whole not in self._chains:
                self._chains[whole] = self._entries(whole)
            side, upper, lower = relation
            self._hanging[key] = Hanging(self._chains[whole].get((side, upper, lower), set()))
        return self._hanging[key]

    def _refused(self) -> frozenset[tuple[int, int]]:
        return frozenset(
            (side, entry[1])
            for side, numbers in self._sides
            for number in numbers
            for shape in self._shapes[number]
            for entry in shape.chain
            if entry[0] == REFUSED
        )

    def _is_sorted(self) -> bool:
        for _, numbers in self._sides:
            nodes = [node for number in numbers for shape in self._shapes[number] for node in shape.nodes]
            if len(set(nodes)) < len(nodes):
                return False
        return True

    def _entries(self, whole: bool) -> dict[tuple[int, int, int], set[tuple[int, int]]]:
        found: defaultdict[tuple[int, int, int], set[tuple[int, int]]] = defaultdict(set)
        seen: set[tuple[int, int, int]] = set()
        for edge, pairs in self._pairs.items():
            key = self._program.edges[edge].key
            for side, variable in enumerate((key.lvar, key.rvar)):
                for number in {pair[side] for pair in pairs} - {BEYOND}:
                    if (side, variable, number) in seen:
                        continue
                    seen.add((side, variable, number))
                    for shape in self._shapes[number]:
                        nodes = shape.nodes if whole else shape.nodes[:1]
                        for node in nodes:
                            for var1, var2, node1, node2 in shape.chain_of(node, variable):
                                found[side, var1, var2].add((node1, node2))
        return found

    def _blocks_of(self, edge: int) -> list[_Block] | None:
        if edge not in self._blocks:
            self._blocks[edge] = self._made(edge)
        return self._blocks[edge]

    def _made(self, edge: int) -> list[_Block] | None:
        pairs = self._pairs[edge]
        if (BEYOND, BEYOND) in pairs or len(pairs) > MAX_MATCHED:
            return None
        if len(pairs) == 1:
            ((one, other),) = pairs
            return [(self._shapes[one], self._shapes[other])]
        # Nodes of one side stand alike if they have all partners in common.  So each side is put together by what it
        # meets on the other, also where rows were joined one by one and not by bundles.
        met: defaultdict[int, list[int]] = defaultdict(list)
        for left, right in pairs:
            met[left].append(right)
        lefts: defaultdict[frozenset[int], list[int]] = defaultdict(list)
        for left, partners in met.items():
            lefts[frozenset(partners)].append(left)
        blocks: defaultdict[int, list[int]] = defaultdict(list)
        for place, partners_of in enumerate(lefts):
            for right in partners_of:
                blocks[right].append(place)
        rights: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for right, places in blocks.items():
            rights[tuple(places)].append(right)
        key = self._program.edges[edge].key

        def together(numbers: Collection[int], variable: int) -> _Shapes:
            bundles = [self._shapes[number] for number in numbers]
            return bundles[0] if len(bundles) == 1 else _together(bundles, variable)

        of_block: defaultdict[int, list[Shape]] = defaultdict(list)
        for of_right, numbers in rights.items():
            shapes = together(numbers, key.rvar)
            for place in of_right:
                of_block[place] += shapes
        return [(together(numbers, key.lvar), tuple(of_block[place])) for place, numbers in enumerate(lefts.values())]


def _together(bundles: Iterable[_Shapes], variable: int) -> _Shapes:
    """Return the shapes of several bundles of one variable, those that stand alike as one."""
    found: defaultdict[frozenset[ChainEntry], set[Shape]] = defaultdict(set)
    for shapes in bundles:
        for shape in shapes:
            found[frozenset(shape.chain_of(OWN, variable))].add(shape)
    return tuple(
        Shape(tuple(sorted({node for shape in shapes for node in shape.nodes})), min(shapes).chain)
        for shapes in found.values()
    )
