"""Templates, and what queries of one template differ in.

A *template* is the shape of a reduced join graph.  An *instance* fills its meta-variables and edges (a row of R_T
without windows); a *group* is an instance with its windows: queries of equal normal form and window are one group,
however many subscribe to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from xscl.base.values import digest_text
from xscl.templates.bounds import Case
from xscl.templates.canonical import Canonical
from xscl.templates.graph import EdgeKind, ValueJoin
from xscl.templates.guards import Guard

__all__ = ["Group", "Instance", "OutputNode", "Template", "is_symmetric", "template_of"]


@dataclass(frozen=True, slots=True)
class Template:
    """``id`` is stable: it depends on the shape alone."""

    id: str
    certificate: str
    blocks: tuple[int, ...]
    """The block (from 0) of each meta-variable."""
    parents: tuple[int, ...]
    """The meta-variable (from 0) above each meta-variable, -1 for the root of a block."""
    joins: tuple[tuple[int, int, EdgeKind], ...]
    """(left, right, kind) over meta-variables."""

    @property
    def width(self) -> int:
        """Number of meta-variables."""
        return len(self.blocks)

    @property
    def cost(self) -> int:
        """Cost of a query: nodes that it keeps of matching documents, and comparisons of their values.

        Quotas of tokens count it, so it depends on nothing but the shape.
        """
        return self.width + len(self.joins)

    @property
    def block_count(self) -> int:
        """Number of blocks, and so of documents in a match."""
        return max(self.blocks) + 1

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of blocks (i < j, from 1) that have time bounds in R_T."""
        count = self.block_count
        return tuple((i, j) for i in range(1, count + 1) for j in range(i + 1, count + 1))

    @property
    def tree_edges(self) -> tuple[tuple[int, int], ...]:
        """(upper, lower) over meta-variables."""
        return tuple((parent, node) for node, parent in enumerate(self.parents) if parent >= 0)


def template_of(canonical: Canonical) -> Template:
    """Return the template of a canonical join graph."""
    graph = canonical.graph
    digest = digest_text("template", canonical.certificate, size=8)
    return Template(
        id=f"t{len(graph.vertices)}_{digest}",
        certificate=canonical.certificate,
        blocks=tuple(v.block for v in graph.vertices),
        parents=tuple(v.parent for v in graph.vertices),
        joins=tuple((j.left, j.right, j.kind) for j in graph.joins),
    )


@dataclass(frozen=True, slots=True)
class OutputNode:
    """A variable of an output pattern: a meta-variable again, or an output variable that the minor lost."""

    block: int
    var: int


@dataclass(frozen=True)
class Instance:
    """The request of a query to its template, without windows.

    ``variables`` are the digests of the meta-variables' definitions, ``tree_edges`` (upper, lower) the template's edges
    between them, ``joins`` its value joins with their columns.  ``nodes`` are the variables of the output patterns
    of all blocks, meta-variables first and in their order; ``output_edges`` (upper, lower) connect them; ``results``
    are the nodes that make a match: the result node of each block, then those that SELECT mentions.  ``links`` are the
    pairs of blocks (i < j) that some case joins with each other, by value or, where that leaves blocks apart, by time.
    """

    template: str
    variables: tuple[int, ...]
    tree_edges: tuple[tuple[int, int], ...]
    joins: tuple[ValueJoin, ...]
    nodes: tuple[OutputNode, ...]
    output_edges: tuple[tuple[int, int], ...]
    results: tuple[int, ...]
    links: tuple[tuple[int, int], ...]
    alone: str = ""
    """Mark of those for which it is joined by itself (``rules``); '': for all."""

    @cached_property
    def key(self) -> str:
        """A digest: equal instances are one."""
        return f"{self._digest} {self.alone}".rstrip()

    @property
    def _digest(self) -> str:
        return digest_text(
            self.template,
            repr(self.variables),
            repr([(j.left, j.right, j.kind, j.fn_l, j.fn_r, str(j.f), str(j.add), j.op) for j in self.joins]),
            repr([(n.block, n.var) for n in self.nodes[len(self.variables) :]]),
            repr(self.output_edges),
            repr(self.results),
            repr(self.links),
        )


def is_symmetric(instance: Instance) -> bool:
    """Tell whether an instance of two blocks surely asks the same of both: exchanged, it is the same.

    An instance with two variables of one definition in a block counts as asking different things.
    """
    width = len(instance.variables)
    sides: list[dict[int, int]] = [
        {instance.variables[place]: place for place in range(width) if instance.nodes[place].block == block}
        for block in (0, 1)
    ]
    if sides[0].keys() != sides[1].keys() or len(sides[0]) + len(sides[1]) != width:
        return False
    other = {side[var]: sides[1 - block][var] for block, side in enumerate(sides) for var in side}
    edges = set(instance.tree_edges)
    if {(other[upper], other[lower]) for upper, lower in edges} != edges:
        return False
    joins = {(join.left, join.fn_l, join.right, join.fn_r, join.kind) for join in instance.joins}
    exchanged = {(other[right], fn_r, other[left], fn_l, kind) for left, fn_l, right, fn_r, kind in joins}
    return joins == exchanged and all(join.kind != "BAND" for join in instance.joins)


@dataclass(frozen=True)
class Group:
    """An instance with its windows, as disjoint cases, and its guards."""

    instance: Instance
    cases: tuple[Case, ...]
    links: tuple[tuple[tuple[int, int], ...], ...]
    """The pairs of blocks that are joined with each other in each case: times that are near in one case need not be in
    another.
    """
    streams: tuple[int, ...] = ()
    """The stream that each block names, 0 where it names the channel; empty: all blocks do."""
    specs: tuple[tuple[int, int, int], ...] = ()
    """(block, variable, digest) of what stage 1 is asked for each joined variable: it may be refused in a document."""
    guards: tuple[Guard | None, ...] = ()
    """The guard of each block; empty: none has one."""
    rows: tuple[int, ...] = ()
    """Number of newest events of its channel that the event of each block is among when the last one comes, 0 for any;
    empty: all blocks have any.
    """
    absence: tuple[str, ...] = ()
    """Keys of the groups that a query about absence is made of, and its ends; empty: it is about none."""
    alone: str = ""
    """Mark of those for which it is answered by itself (``rules``); '': for all."""

    @cached_property
    def key(self) -> str:
        """A digest: queries of equal normal form, window and streams have equal keys."""
        cases = repr([[(b.lo, b.hi, b.order, b.exchange) for b in case] for case in self.cases])
        guards = [f"guard {block}:{guard.text}" for block, guard in enumerate(self.guards) if guard is not None]
        absence = ["absence", *self.absence] if self.absence else []
        streams = [repr(self.streams)] if self.streams else []
        rows = [f"rows {self.rows}"] if self.rows else []
        return f"{digest_text(self.instance.key, cases, *streams, *guards, *rows, *absence)} {self.alone}".rstrip()

    @property
    def exchanges(self) -> bool:
        """Whether a match may be left out because the same members match in another order (``ONCE``)."""
        return any(bounds.exchange for case in self.cases for bounds in case)

    def crossings(self, case: int) -> frozenset[tuple[int, int]]:
        """Return the pairs of blocks of a case that ``ONCE`` joins and that read different streams."""
        pairs = combinations(range(len(self.streams)), 2)
        return frozenset(
            (i, j)
            for bounds, (i, j) in zip(self.cases[case], pairs, strict=False)
            if bounds.exchange and self.streams[i] != self.streams[j]
        )

    @property
    def crosses(self) -> bool:
        """Whether the two orders of some events may be complete at different places of the intake order."""
        return bool(self.streams) and any(self.crossings(case) for case in range(len(self.cases)))

    def stream(self, block: int) -> int:
        """Return the stream that a block (from 0) names, 0 for the channel."""
        return self.streams[block] if self.streams else 0

    def newest_rows(self, block: int) -> int:
        """Return how many newest events of its channel the event of a block (from 0) is among, 0 for any."""
        return self.rows[block] if self.rows else 0

    def guard(self, block: int) -> Guard | None:
        """Return the guard of a block (from 0)."""
        return self.guards[block] if self.guards else None
