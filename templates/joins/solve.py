"""Matched edges of one pair of documents to what a plan finds there: its matches, and its rows of R_out.

Nodes are bound along value joins and chains in a fixed order (``plan_making.ordered``).  Few of these nodes tell
matches apart; the others need only exist.  So a search for matches keeps one of the bindings that differ in no node
which is still asked for.  A row of R_out has all nodes; nodes of one value that stand alike are bound once, and the
row says which they are.

The work is bounded, for each plan and pair of documents by itself, so what a plan finds depends on no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from xscl.templates.joins.matched_edges import Hanging, Joined, Matched, TooMany
from xscl.templates.plan_making import ordered
from xscl.templates.plans import Constraint, InstancePlan, LinkPlan
from xscl.templates.results import MAX_MATCHES, MAX_ROUT, Refusal

__all__ = ["MAX_STEPS", "Row", "Solution", "solve"]

MAX_STEPS = 1_000_000
"""Bindings that are looked at for one plan in one pair of documents, for its matches and for its rows of R_out."""


_FEW = 1_000
"""Pairs of nodes of one edge that are bound in any order."""
_PLAIN = 100
"""Rows of R_out of a plan that are written one by one, though some stand alike."""


Binding = tuple[int | None, ...]
"""The node of each place of a plan; None: not bound yet, or forgotten."""


class Row(NamedTuple):
    """Rows of R_out, or of a link, that differ in nodes which stand alike."""

    nodes: tuple[int, ...]
    """The least of them."""
    others: tuple[tuple[int, ...], ...] | None = None
    """The nodes that may stand in the place of each of ``nodes``; None: it is one row."""


@dataclass(frozen=True)
class Solution:
    """Result of a plan in a pair of documents."""

    rows: tuple[Row, ...] = ()
    matches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    """(nodes that make a match, a row of R_out that has them), distinct by the former; none for a link."""
    refusals: tuple[Refusal, ...] = ()
    """Limits that it exceeds; it has no matches, or no rows."""

    @cached_property
    def size(self) -> int:
        """The numbers in it, about; many signatures have it."""
        rows = sum(len(row.nodes) + sum(map(len, row.others or ())) for row in self.rows)
        return rows + sum(len(results) for results, _ in self.matches)

    def __bool__(self) -> bool:
        return bool(self.rows or self.matches or self.refusals)


_Relation = Callable[[Constraint], "Joined | Hanging"]


def solve(plan: InstancePlan | LinkPlan, matched: Matched) -> Solution:
    """Solve a plan where all edges that it needs are matched."""
    if plan.specs & matched.refused:
        return Solution()
    inner = plan.inner if isinstance(plan, InstancePlan) and matched.is_sorted else frozenset[int]()

    def relation(constraint: Constraint) -> Joined | Hanging:
        left, right = constraint.left in inner, constraint.right in inner
        if len(constraint.relation) == 1:
            return matched.joined(constraint.relation[0], (left, right))
        return matched.hanging(constraint.relation, whole=not right)

    try:
        binding = _smallest_first(plan, relation)
    except TooMany:
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
    except TooMany:
        refusals.append("rout")
    try:
        found = _bound(bindings, rest, relation, keep=frozenset(plan.results), most=MAX_MATCHES)
    except TooMany as error:
        return Solution(refusals=(error.reason,))
    matches = sorted((_nodes([row[at] for at in plan.results]), _nodes(row[: plan.width])) for row in found)
    return Solution(listed, tuple(matches), tuple(refusals)) if matches else Solution()


def _solved_link(plan: LinkPlan, binding: Sequence[Constraint], relation: _Relation) -> Solution:
    try:
        rows = _bound([(None,) * plan.width], binding, relation, keep=None, most=MAX_ROUT)
    except TooMany:
        return Solution(refusals=("links",))
    return Solution(tuple(Row(_nodes(row)) for row in sorted(rows)))


def _places(plan: InstancePlan) -> Iterator[int]:
    """Iterate over all places that a plan speaks of."""
    yield from range(plan.width)
    yield from plan.results
    for constraint in plan.output:
        yield constraint.left
        yield constraint.right


def _smallest_first(plan: InstancePlan | LinkPlan, relation: _Relation) -> Sequence[Constraint]:
    """Return the constraints that bind a plan's nodes, in an order that begins with the value join of the fewest
    pairs.
    """
    joins = [constraint for constraint in plan.binding if len(constraint.relation) == 1]
    joined = {constraint: relation(constraint) for constraint in joins}
    sizes = {constraint: of.size for constraint, of in joined.items() if isinstance(of, Joined)}
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
    """Return all ways to satisfy the constraints; with ``keep`` one, the least, for each way to bind these places.

    Raises:
        TooMany: more than ``most``, or more than ``MAX_STEPS`` were looked at.
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
                raise TooMany("steps")
            key = binding if asked is None else tuple([binding[end] for end in asked])
            known = distinct.get(key)
            # Nodes are compared with nodes: all of these bindings have the same places bound.
            if known is None or binding < known:
                distinct[key] = binding
        if later:
            current = _after(distinct.values(), later[0], relation(later[0]))
    if len(distinct) > most:
        raise TooMany("matches")
    return list(distinct.values())


def _after(bindings: Iterable[Binding], constraint: Constraint, relation: Joined | Hanging) -> Iterator[Binding]:
    """Iterate over the bindings that satisfy one constraint more."""
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
    """Return the same of places that are bound."""
    return tuple(binding)  # type: ignore[arg-type]


def _rows(
    rows: Sequence[tuple[int, ...]], inner: frozenset[int], binding: Sequence[Constraint], relation: _Relation
) -> Iterator[Row]:
    """Iterate over rows of R_out with the nodes that may stand in the place of theirs."""
    alike: dict[int, dict[int, tuple[int, ...]]] = {}
    for constraint in binding:
        joined = relation(constraint)
        if isinstance(joined, Joined):
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
