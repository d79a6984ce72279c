"""Matched edges of document pairs to rows of R_out and to matches.

Spark joined values; what is left is to see, for each pair of documents, which instances have all their edges matched on
nodes that hang together as the reduced patterns say.  That depends only on the pair's *signature*, the set of its
matched edges with their nodes and chains: a distinct signature is resolved once in a partition of a batch and
remembered, and documents of one layout (feed items) have few.  Windows, the only thing that differs between the groups
of an instance, are tested per pair.

The law, held by tests: the rows are those of CQ_T (``sql``) for every query of every group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from xscl.templates.program import Constraint, InstancePlan, LiveGroup, Program, load_program

__all__ = ["RESULT_SCHEMA", "Matched", "PairTimes", "Resolver", "Row", "result_batches"]

RESULT_SCHEMA = pa.schema(
    [
        ("relation", pa.string()),  # 'rout', 'match', or 'pairs' with the number of candidate pairs in d1
        ("instance", pa.int32()),
        ("d1", pa.int64()),
        ("d2", pa.int64()),  # NULL for queries of one block
        ("nodes", pa.list_(pa.int32())),  # rout: the meta-variables; match: the result nodes in block order
        ("witness", pa.list_(pa.int32())),  # match: the meta-variables of one row of R_out
        ("groups", pa.list_(pa.int64())),
    ]
)

_MEMO_SIZE = 50_000

ChainEntry = tuple[int, int, int, int]
Signature = frozenset["Matched"]


@dataclass(frozen=True, slots=True)
class Matched:
    """A matched edge of a pair: its nodes and the chains that lead to them."""

    edge: int
    left: int
    right: int
    chain_l: tuple[ChainEntry, ...]
    chain_r: tuple[ChainEntry, ...]


@dataclass(frozen=True, slots=True)
class PairTimes:
    """The two documents of a pair; ``d2`` is None for queries of one block."""

    d1: int
    d2: int | None
    difference: int
    """ts of the second minus ts of the first, microseconds."""
    left_first: bool
    """Whether the left member is first by (ts, channel, id)."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of R_out (``results`` None) or a match, for these groups."""

    instance: int
    nodes: tuple[int, ...]
    results: tuple[int, ...] | None
    groups: tuple[int, ...]


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
    """What one signature means for one instance."""

    plan: InstancePlan
    rows: tuple[tuple[int, ...], ...]
    """Bindings of the meta-variables."""
    matches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """(result nodes, the least row of R_out that has them), distinct by result nodes."""


class Resolver:
    """Resolves pairs for one program; remembers signatures."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._memo: dict[Signature, tuple[_Solution, ...]] = {}

    def resolve(self, times: PairTimes, signature: Signature) -> Iterator[Row]:
        """The rows of R_out and the matches of one pair."""
        solutions = self._memo.get(signature)
        if solutions is None:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            solutions = self._memo[signature] = tuple(self._solve(signature))
        for solution in solutions:
            groups = tuple(live.gid for live in solution.plan.groups if _admits(live, times))
            if not groups:
                continue
            number = solution.plan.number
            for nodes in solution.rows:
                yield Row(number, nodes, None, groups)
            for results, nodes in solution.matches:
                yield Row(number, nodes, results, groups)

    def _solve(self, signature: Signature) -> Iterator[_Solution]:
        relations: defaultdict[tuple[int, ...], _Relation] = defaultdict(_Relation)
        for matched in signature:
            relations[matched.edge,].add(matched.left, matched.right)
            for block, chain in enumerate((matched.chain_l, matched.chain_r)):
                for var1, var2, node1, node2 in chain:
                    relations[block, var1, var2].add(node1, node2)
        present = {relation[0] for relation in relations if len(relation) == 1}
        for edge in sorted(present):
            for number in self.program.by_edge.get(edge, ()):
                plan = self.program.instances[number]
                if plan.needs <= present:
                    solution = _solution(plan, relations)
                    if solution.rows:
                        yield solution


def _admits(live: LiveGroup, times: PairTimes) -> bool:
    oldest = times.d1 if times.d2 is None else min(times.d1, times.d2)
    newest = times.d1 if times.d2 is None else max(times.d1, times.d2)
    if oldest < live.first or newest > live.last:
        return False
    return all(
        bounds.lo <= times.difference <= bounds.hi and (times.left_first or not once)
        for bounds, once in live.group.windows
    )


def _solution(plan: InstancePlan, relations: dict[tuple[int, ...], _Relation]) -> _Solution:
    width = plan.width
    bindings = _extend([{}], plan.binding, relations)
    rows = sorted({tuple(binding[place] for place in range(width)) for binding in bindings})
    matches: dict[tuple[int, ...], tuple[int, ...]] = {}
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
                current = [{**b, right: node} for b in current for node in relation.forward.get(b[left], ())]
            case "backward":
                current = [{**b, left: node} for b in current for node in relation.backward.get(b[right], ())]
            case "scan":
                current = [{**b, left: n1, right: n2} for b in current for n1, n2 in relation.pairs]
    return current


def result_batches(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of matched edges, sorted by (d1, d2), to rows of ``RESULT_SCHEMA``; what Spark ships.

    A pair's rows may run over from one Arrow batch into the next, so a pair is resolved when the next one begins.
    """
    resolver = Resolver(load_program(path))
    out = _ResultColumns()
    pair: tuple[int, int | None] | None = None
    times: PairTimes | None = None
    signature: set[Matched] = set()
    pairs = 0
    for batch in batches:
        for row in batch.to_pylist():
            if (row["d1"], row["d2"]) != pair:
                if times is not None:
                    out.add(times, resolver.resolve(times, frozenset(signature)))
                pair, signature = (row["d1"], row["d2"]), set()
                times = _times(row)
                pairs += 1
            signature.add(Matched(row["edge"], row["n1"], row["n2"], _chain(row["c1"]), _chain(row["c2"])))
        yield from out.full()
    if times is not None:
        out.add(times, resolver.resolve(times, frozenset(signature)))
    out.add_count(pairs)
    yield out.take()


def _times(row: dict[str, object]) -> PairTimes:
    d1, d2, t1, t2, p1, p2 = (row[name] for name in ("d1", "d2", "t1", "t2", "p1", "p2"))
    assert isinstance(d1, int) and isinstance(t1, int)
    if d2 is None:
        return PairTimes(d1, None, 0, True)
    assert isinstance(d2, int) and isinstance(t2, int) and isinstance(p1, str) and isinstance(p2, str)
    return PairTimes(d1, d2, t2 - t1, (t1, p1) < (t2, p2))


def _chain(entries: list[dict[str, int]] | None) -> tuple[ChainEntry, ...]:
    return tuple((e["var1"], e["var2"], e["node1"], e["node2"]) for e in entries or ())


class _ResultColumns:
    """Collects rows and hands them out as Arrow batches."""

    _BATCH = 10_000

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []

    def add(self, times: PairTimes, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.results is None:
                self.rows.append(("rout", row.instance, times.d1, times.d2, row.nodes, None, row.groups))
            else:
                self.rows.append(("match", row.instance, times.d1, times.d2, row.results, row.nodes, row.groups))

    def add_count(self, pairs: int) -> None:
        self.rows.append(("pairs", None, pairs, None, None, None, None))

    def full(self) -> Iterator[pa.RecordBatch]:
        if len(self.rows) >= self._BATCH:
            yield self.take()

    def take(self) -> pa.RecordBatch:
        columns = zip(*self.rows, strict=True) if self.rows else [[] for _ in RESULT_SCHEMA]
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, RESULT_SCHEMA, strict=True)]
        self.rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)
