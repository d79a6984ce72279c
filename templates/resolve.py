"""Matched edges of document pairs to rows of R_out and to matches.

Spark joined values; what is left is to see, for each pair of documents, which instances have all their edges matched on
nodes that hang together as the reduced patterns say.  That depends only on the pair's *signature*, the set of its
matched edges with their nodes and chains: a distinct signature is resolved once in a partition of a batch and
remembered, and documents of one layout (feed items) have few.  Windows, the only thing that differs between the groups
of an instance, are tested per pair.

The law, held by tests: the rows are those of CQ_T (``sql``) for every query of every group.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice

import pyarrow as pa

from xscl.templates.program import Constraint, Edge, InstancePlan, LinkPlan, Program, load_program
from xscl.templates.results import MAX_BINDINGS, Member, ResultColumns, admitted

__all__ = ["Matched", "Resolver", "holds_exactly", "result_batches"]

_MEMO_SIZE = 50_000

ChainEntry = tuple[int, int, int, int]
Signature = frozenset["Matched"]
_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Matched:
    """A matched edge of a pair: its nodes and the chains that lead to them."""

    edge: int
    left: int
    right: int
    chain_l: tuple[ChainEntry, ...]
    chain_r: tuple[ChainEntry, ...]


@dataclass(slots=True)
class _Relation:
    """Pairs of nodes, with access from either side."""

    pairs: set[tuple[int, int]] = field(default_factory=set)
    forward: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    backward: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, left: int, right: int) -> None:
        if (left, right) not in self.pairs:
            self.pairs.add((left, right))
            self.forward[left].append(right)
            self.backward[right].append(left)


@dataclass(frozen=True, slots=True)
class _Solution:
    """What one signature means for one instance or link."""

    plan: InstancePlan | LinkPlan
    rows: tuple[tuple[int, ...], ...]
    """Bindings of the meta-variables, or of the link's nodes."""
    matches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """(nodes that make a match, the least row of R_out that has them), distinct by the former; none for a link."""


class _TooMany(Exception):
    """More than ``MAX_BINDINGS`` bindings."""


class Resolver:
    """Resolves pairs for one program; remembers signatures."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._memo: dict[Signature, tuple[_Solution | None, ...]] = {}
        """None stands for bindings that are too many."""

    def resolve(self, members: Sequence[Member], signature: Signature, out: ResultColumns) -> None:
        """Add the rows of R_out, the matches and the rows of links of one pair; of one document for ``ONE`` edges."""
        solutions = self._memo.get(signature)
        if solutions is None:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            solutions = self._memo[signature] = tuple(self._solve(signature))
        docs = [member.docid for member in members]
        for solution in solutions:
            if solution is None:
                out.add_refused(members)
                continue
            plan = solution.plan
            if isinstance(plan, LinkPlan):
                if plan.bounds.lo <= members[1].ts - members[0].ts <= plan.bounds.hi:
                    for nodes in solution.rows:
                        out.add_link(plan.key, members, nodes)
                continue
            by = admitted(plan.groups.values(), members)
            if not by.groups:
                continue
            for nodes in solution.rows:
                out.add_rout(plan.number, docs, nodes, by)
            for results, nodes in solution.matches:
                out.add_match(plan.number, docs, results, nodes, by)

    def _solve(self, signature: Signature) -> Iterator[_Solution | None]:
        relations: defaultdict[tuple[int, ...], _Relation] = defaultdict(_Relation)
        for matched in signature:
            relations[matched.edge,].add(matched.left, matched.right)
            for side, chain in enumerate((matched.chain_l, matched.chain_r)):
                for var1, var2, node1, node2 in chain:
                    relations[side, var1, var2].add(node1, node2)
        present = {relation[0] for relation in relations if len(relation) == 1}
        for edge in sorted(present):
            for plan in self.program.by_edge.get(edge, ()):
                if plan.needs <= present:
                    try:
                        solution = _solution(plan, relations)
                    except _TooMany:
                        yield None
                        continue
                    if solution.rows:
                        yield solution


def _solution(plan: InstancePlan | LinkPlan, relations: dict[tuple[int, ...], _Relation]) -> _Solution:
    bindings = _extend([{}], plan.binding, relations)
    rows = sorted({tuple(binding[place] for place in range(plan.width)) for binding in bindings})
    matches: dict[tuple[int, ...], tuple[int, ...]] = {}
    if isinstance(plan, InstancePlan):
        for row in rows:
            for binding in _extend([dict(enumerate(row))], plan.output, relations):
                matches.setdefault(tuple(binding[place] for place in plan.results), row)
    return _Solution(plan, tuple(rows), tuple(sorted(matches.items())))


def _extend(
    bindings: Iterable[dict[int, int]],
    constraints: tuple[Constraint, ...],
    relations: dict[tuple[int, ...], _Relation],
) -> list[dict[int, int]]:
    """All ways to satisfy the constraints, which are in an order that the plan chose."""
    current = list(bindings)
    for constraint in constraints:
        left, right = constraint.left, constraint.right
        relation = relations.get(constraint.relation, _Relation())
        match constraint.way:
            case "check":
                current = [b for b in current if (b[left], b[right]) in relation.pairs]
            case "forward":
                current = _some({**b, right: node} for b in current for node in relation.forward.get(b[left], ()))
            case "backward":
                current = _some({**b, left: node} for b in current for node in relation.backward.get(b[right], ()))
            case "scan":
                current = _some({**b, left: n1, right: n2} for b in current for n1, n2 in relation.pairs)
    return current


def _some(bindings: Iterator[dict[int, int]]) -> list[dict[int, int]]:
    found = list(islice(bindings, MAX_BINDINGS + 1))
    if len(found) > MAX_BINDINGS:
        raise _TooMany
    return found


def result_batches(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of matched edges, sorted by (d1, d2), to rows of ``RESULT_SCHEMA``; what Spark ships.

    A pair's rows may run over from one Arrow batch into the next, so a pair is resolved when the next one begins.
    """
    program = load_program(path)
    edges = program.edges
    resolver = Resolver(program)
    out = ResultColumns()
    pair: tuple[int, int | None] | None = None
    members: list[Member] = []
    signature: set[Matched] = set()
    pairs = 0
    for batch in batches:
        for row in batch.to_pylist():
            if (row["d1"], row["d2"]) != pair:
                if pair is not None:
                    resolver.resolve(members, frozenset(signature), out)
                pair, signature = (row["d1"], row["d2"]), set()
                members = [
                    Member(*(row[f"{name}{side}"] for name in "ditp")) for side in (1, 2) if row[f"d{side}"] is not None
                ]
                pairs += 1
            if row["v1"] is None or holds_exactly(edges[row["edge"]], row["v1"], row["v2"]):
                signature.add(Matched(row["edge"], row["n1"], row["n2"], _chain(row["c1"]), _chain(row["c2"])))
        yield from out.full()
    if pair is not None:
        resolver.resolve(members, frozenset(signature), out)
    out.add_count(pairs)
    yield out.take()


def holds_exactly(edge: Edge, left: str, right: str) -> bool:
    """A BAND edge on two numbers that are too close for doubles to tell."""
    key = edge.key
    return bool(_COMPARE[key.op](Fraction(left), key.f * Fraction(right) + key.add))


def _chain(entries: list[dict[str, int]] | None) -> tuple[ChainEntry, ...]:
    return tuple((e["var1"], e["var2"], e["node1"], e["node2"]) for e in entries or ())
