"""Matched edges of one pair of documents to what a plan finds there: its matches, and its rows of R_out.

Nodes are bound along value joins and chains in a fixed order (``program.ordered``).  Few of these nodes tell matches
apart; the others need only exist.  So a search for matches keeps one of the bindings that differ in no node which is
still asked for.  A row of R_out has all nodes; nodes of one value that stand alike are bound once, and the row says
which they are.

The work is bounded, for each plan and pair of documents by itself, so what a plan finds depends on no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from xscl.base.arrow_schemas import REFUSED
from xscl.templates.columns import Int32s
from xscl.templates.program import Constraint, InstancePlan, LinkPlan, Program, ordered
from xscl.templates.results import MAX_MATCHES, MAX_ROUT, Refusal
from xscl.templates.shapes import OWN, ChainEntry, Shape, Shapes

__all__ = ["BEYOND", "MAX_MATCHED", "MAX_STEPS", "Matched", "MatchedEdges", "Row", "Solution", "solve"]

MAX_STEPS = 1_000_000
"""Bindings that are looked at for one plan in one pair of documents, for its matches and for its rows of R_out."""
MAX_MATCHED = 2_000_000
"""Matched values of one edge in one pair of documents; executors count each node by itself."""
BEYOND = -1
"""Stands for the shapes of an edge that has more pairs of nodes in a pair of documents than may be looked at."""
_FEW = 1_000
"""Pairs of nodes of one edge that are bound in any order."""
_PLAIN = 100
"""Rows of R_out of a plan that are written one by one, though some stand alike."""

Binding = tuple[int | None, ...]
"""The node of each place of a plan; None: not bound yet, or forgotten."""
_Shapes = tuple[Shape, ...]
_Block = tuple[_Shapes, _Shapes]
"""Nodes of two documents of which each matches each."""


class MatchedEdges(NamedTuple):
    """Matched edges of some pairs, in columns."""

    edge: Int32s
    shape_l: Int32s
    """Numbers of the nodes with their chains (``Shapes``)."""
    shape_r: Int32s


class Row(NamedTuple):
    """Rows of R_out, or of a link, that differ in nodes which stand alike."""

    nodes: tuple[int, ...]
    """The least of them."""
    others: tuple[tuple[int, ...], ...] | None = None
    """For each of ``nodes`` all that may stand in its place; None: it is one row."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of a plan in a pair of documents."""

    rows: tuple[Row, ...] = ()
    matches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    """(nodes that make a match, a row of R_out that has them), distinct by the former; none for a link."""
    refusals: tuple[Refusal, ...] = ()
    """Limits that it exceeds; it has no matches, or no rows."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.matches or self.refusals)


class _TooMany(Exception):
    """A limit is exceeded."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason: Refusal = reason


# -- relations -------------------------------------------------------------------------------------------------


class _Joined:
    """The pairs of nodes that one edge matches."""

    def __init__(self, blocks: Iterable[_Block], *, first_only: tuple[bool, bool]) -> None:
        """``first_only`` tells for either side whether of nodes that stand alike the first will do."""
        self._blocks: list[tuple[list[int], list[int]]] = []
        self._of_left: defaultdict[int, list[int]] = defaultdict(list)
        """Node to its places in ``_blocks``."""
        self._of_right: defaultdict[int, list[int]] = defaultdict(list)
        self.alike: tuple[dict[int, tuple[int, ...]], ...] = {}, {}
        """For either side the first node to all that stand as it does."""
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
        return (pair for left, right in self._blocks for pair in product(left, right))

    def forward(self, node: int) -> Iterator[int]:
        return (other for place in self._of_left.get(node, ()) for other in self._blocks[place][1])

    def backward(self, node: int) -> Iterator[int]:
        return (other for place in self._of_right.get(node, ()) for other in self._blocks[place][0])

    def has(self, left: int, right: int) -> bool:
        return not set(self._of_left.get(left, ())).isdisjoint(self._of_right.get(right, ()))


class _Hanging:
    """Pairs of bindings along one edge of a reduced pattern, in one of the documents."""

    def __init__(self, pairs: Collection[tuple[int, int]]) -> None:
        self._pairs = pairs
        self._forward: defaultdict[int, list[int]] = defaultdict(list)
        self._backward: defaultdict[int, list[int]] = defaultdict(list)
        for upper, lower in pairs:
            self._forward[upper].append(lower)
            self._backward[lower].append(upper)

    def pairs(self) -> Iterator[tuple[int, int]]:
        return iter(self._pairs)

    def forward(self, node: int) -> Iterable[int]:
        return self._forward.get(node, ())

    def backward(self, node: int) -> Iterable[int]:
        return self._backward.get(node, ())

    def has(self, left: int, right: int) -> bool:
        return (left, right) in self._pairs


class Matched:
    """The matched edges of a pair of documents; relations are made of them when plans ask for these."""

    def __init__(self, edges: MatchedEdges, shapes: Shapes, program: Program) -> None:
        self._pairs: defaultdict[int, dict[tuple[int, int], None]] = defaultdict(dict)
        for edge, left, right in zip(*(column.tolist() for column in edges), strict=True):
            self._pairs[edge][left, right] = None
        self.edges = frozenset(self._pairs)
        """Their numbers."""
        self._shapes = shapes
        self._program = program
        self.refused = self._refused()
        """(side, digest) of what stage 1 was asked, and refused in one of the documents."""
        self.is_sorted = self._is_sorted()
        """Whether every node has one shape in each edge, so that those which stand alike in it do so altogether."""
        self._blocks: dict[int, list[_Block] | None] = {}
        self._joined: dict[tuple[int, tuple[bool, bool]], _Joined] = {}
        self._chains: dict[bool, dict[tuple[int, int, int], set[tuple[int, int]]]] = {}
        self._hanging: dict[tuple[bool, tuple[int, ...]], _Hanging] = {}

    def joined(self, edge: int, first_only: tuple[bool, bool]) -> _Joined:
        """The relation of a value join.

        Raises:
            _TooMany: it was too large to be looked for.
        """
        key = edge, first_only
        if key not in self._joined:
            blocks = self._blocks_of(edge)
            if blocks is None:
                raise _TooMany("steps")
            self._joined[key] = _Joined(blocks, first_only=first_only)
        return self._joined[key]

    def hanging(self, relation: tuple[int, ...], *, whole: bool) -> _Hanging:
        """The relation (side, var1, var2) of R_bin; unless ``whole`` without the nodes that stand as others do."""
        key = whole, relation
        if key not in self._hanging:
            if whole not in self._chains:
                self._chains[whole] = self._entries(whole)
            side, upper, lower = relation
            self._hanging[key] = _Hanging(self._chains[whole].get((side, upper, lower), set()))
        return self._hanging[key]

    def _refused(self) -> frozenset[tuple[int, int]]:
        return frozenset(
            (side, entry[1])
            for pairs in self._pairs.values()
            for side in (0, 1)
            for number in {pair[side] for pair in pairs} - {BEYOND}
            for shape in self._shapes[number]
            for entry in shape.chain
            if entry[0] == REFUSED
        )

    def _is_sorted(self) -> bool:
        for pairs in self._pairs.values():
            for side in (0, 1):
                bundles = [self._shapes[number] for number in {pair[side] for pair in pairs} - {BEYOND}]
                nodes = [node for bundle in bundles for shape in bundle for node in shape.nodes]
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
    """The shapes of several bundles of one variable, those that stand alike as one."""
    found: defaultdict[frozenset[ChainEntry], set[Shape]] = defaultdict(set)
    for shapes in bundles:
        for shape in shapes:
            found[frozenset(shape.chain_of(OWN, variable))].add(shape)
    return tuple(
        Shape(tuple(sorted({node for shape in shapes for node in shape.nodes})), min(shapes).chain)
        for shapes in found.values()
    )


# -- plans -----------------------------------------------------------------------------------------------------

_Relation = Callable[[Constraint], "_Joined | _Hanging"]


def solve(plan: InstancePlan | LinkPlan, matched: Matched) -> Solution:
    """Solve a plan where all edges that it needs are matched."""
    if plan.specs & matched.refused:
        return Solution()
    inner = plan.inner if isinstance(plan, InstancePlan) and matched.is_sorted else frozenset[int]()

    def relation(constraint: Constraint) -> _Joined | _Hanging:
        left, right = constraint.left in inner, constraint.right in inner
        if len(constraint.relation) == 1:
            return matched.joined(constraint.relation[0], (left, right))
        return matched.hanging(constraint.relation, whole=not right)

    try:
        binding = _smallest_first(plan, relation)
    except _TooMany:
        return Solution(refusals=("steps",))
    if isinstance(plan, LinkPlan):
        return _solved_link(plan, binding, relation)
    start: list[Binding] = [(None,) * (1 + max(_places(plan)))]
    refusals: list[Refusal] = []
    listed: tuple[Row, ...] = ()
    bindings, rest = start, (*binding, *plan.output)
    try:
        bindings = _bound(start, binding, relation, keep=None, most=MAX_ROUT)
        rest = plan.output
        listed = tuple(_rows(sorted(_nodes(row[: plan.width]) for row in bindings), inner, binding, relation))
    except _TooMany:
        refusals.append("rout")
    try:
        found = _bound(bindings, rest, relation, keep=frozenset(plan.results), most=MAX_MATCHES)
    except _TooMany as error:
        return Solution(refusals=(error.reason,))
    matches = sorted((_nodes([row[at] for at in plan.results]), _nodes(row[: plan.width])) for row in found)
    return Solution(listed, tuple(matches), tuple(refusals)) if matches else Solution()


def _solved_link(plan: LinkPlan, binding: Sequence[Constraint], relation: _Relation) -> Solution:
    try:
        rows = _bound([(None,) * plan.width], binding, relation, keep=None, most=MAX_ROUT)
    except _TooMany:
        return Solution(refusals=("links",))
    return Solution(tuple(Row(_nodes(row)) for row in sorted(rows)))


def _places(plan: InstancePlan) -> Iterator[int]:
    """All places that a plan speaks of."""
    yield from range(plan.width)
    yield from plan.results
    for constraint in plan.output:
        yield constraint.left
        yield constraint.right


def _smallest_first(plan: InstancePlan | LinkPlan, relation: _Relation) -> Sequence[Constraint]:
    """The constraints that bind a plan's nodes, in an order that begins with the value join of the fewest pairs."""
    joins = [constraint for constraint in plan.binding if len(constraint.relation) == 1]
    joined = {constraint: relation(constraint) for constraint in joins}
    sizes = {constraint: of.size for constraint, of in joined.items() if isinstance(of, _Joined)}
    if len(joins) == 1 or max(sizes.values()) <= _FEW:
        return plan.binding
    tree = [constraint for constraint in plan.binding if len(constraint.relation) == 3]
    return ordered(sorted(joins, key=sizes.__getitem__), tree, bound=set())


def _bound(
    bindings: Iterable[Binding],
    constraints: Sequence[Constraint],
    relation: _Relation,
    *,
    keep: Collection[int] | None,
    most: int,
) -> list[Binding]:
    """All ways to satisfy the constraints; with ``keep`` one, the least, for each way to bind these places.

    Raises:
        _TooMany: more than ``most``, or more than ``MAX_STEPS`` were looked at.
    """
    current = bindings
    distinct: dict[Binding, Binding] = {}
    steps = 0
    for place in range(len(constraints) + 1):
        later = constraints[place:]
        asked = None if keep is None else sorted({*keep, *(end for each in later for end in (each.left, each.right))})
        distinct = {}
        for binding in current:
            steps += 1
            if steps > MAX_STEPS:
                raise _TooMany("steps")
            key = binding if asked is None else tuple([binding[end] for end in asked])
            known = distinct.get(key)
            # Nodes are compared with nodes: all of these bindings have the same places bound.
            if known is None or binding < known:
                distinct[key] = binding
        if later:
            current = _after(distinct.values(), later[0], relation(later[0]))
    if len(distinct) > most:
        raise _TooMany("matches")
    return list(distinct.values())


def _after(bindings: Iterable[Binding], constraint: Constraint, relation: _Joined | _Hanging) -> Iterator[Binding]:
    """The bindings that satisfy one constraint more."""
    left, right = constraint.left, constraint.right
    for binding in bindings:
        match constraint.way:
            case "check":
                if relation.has(binding[left], binding[right]):  # type: ignore[arg-type]
                    yield binding
            case "forward":
                for node in relation.forward(binding[left]):  # type: ignore[arg-type]
                    yield _with(binding, right, node)
            case "backward":
                for node in relation.backward(binding[right]):  # type: ignore[arg-type]
                    yield _with(binding, left, node)
            case "scan":
                for one, other in relation.pairs():
                    yield _with(_with(binding, left, one), right, other)


def _with(binding: Binding, place: int, node: int) -> Binding:
    return (*binding[:place], node, *binding[place + 1 :])


def _nodes(binding: Sequence[int | None]) -> tuple[int, ...]:
    """The same of places that are bound."""
    return tuple(binding)  # type: ignore[arg-type]


def _rows(
    rows: Sequence[tuple[int, ...]], inner: frozenset[int], binding: Sequence[Constraint], relation: _Relation
) -> Iterator[Row]:
    """Rows of R_out with the nodes that may stand in the place of theirs."""
    alike: dict[int, dict[int, tuple[int, ...]]] = {}
    for constraint in binding:
        joined = relation(constraint)
        if isinstance(joined, _Joined):
            alike |= {place: joined.alike[side] for side, place in enumerate((constraint.left, constraint.right))}
    alike = {place: nodes for place, nodes in alike.items() if place in inner}
    if not any(len(nodes) > 1 for of in alike.values() for nodes in of.values()):
        yield from map(Row, rows)
        return
    others = [
        tuple(alike[place][node] if place in alike else (node,) for place, node in enumerate(row)) for row in rows
    ]
    if sum(prod(map(len, each)) for each in others) <= _PLAIN:
        yield from map(Row, sorted(nodes for each in others for nodes in product(*each)))
    else:
        yield from map(Row, rows, others)
