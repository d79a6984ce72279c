"""The joins of a batch in the driver: from new witnesses and the join state to matched edges, in columns.

The same joins as ``join`` makes in Spark SQL, for batches whose rows fit into one process.  New values meet the slices
of equal values; how many pairs each edge has is known before one of them is written down, so that the edges that nearly
all pairs satisfy are not enumerated but looked up on the pairs that other edges find.  They are enumerated only for the
plans that ask for nothing else.

Law: as in ``join``, a matched edge belongs to a pair of documents; one of them is new and neither is late; every such
pair that some group's windows allow and that has all edges of an instance or link is resolved, with all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from xscl.templates.batch_pairs import BatchPairs, Fetch, TooManyRows
from xscl.templates.columns import Bools, Int32s, Int64s, gather, rising, take
from xscl.templates.edge_table import HALF_BITS, LOW_BITS, EdgeTable
from xscl.templates.matched_edges import MatchedEdges
from xscl.templates.order import PlanEdges, pair_limit, plan_edges, spare_pairs
from xscl.templates.pair_documents import documents_of_rows
from xscl.templates.passes import Pass, passes
from xscl.templates.program import Program
from xscl.templates.resolve import Resolver, grouped
from xscl.templates.results import ResultColumns
from xscl.templates.shapes import Shapes
from xscl.templates.slices import SliceCache
from xscl.templates.window_cells import MatchedPairs

__all__ = ["Finder"]

_MANY_SHAPES = 1_000_000
"""Shapes of queries of one block that are remembered; there are as many as definitions."""


class Finder:
    """Finds and resolves what new witnesses match, batch by batch."""

    def __init__(
        self,
        cache: SliceCache,
        limit: Callable[[int], float] = pair_limit,
        spare: Callable[[int], float] = spare_pairs,
    ) -> None:
        """``limit`` and ``spare`` tell, by the new rows of a batch, what ``passes`` is told."""
        self.cache = cache
        self._limit = limit
        self._spare = spare
        self._program: Program | None = None
        self._resolver: Resolver | None = None
        self._resolver_of_ones: Resolver | None = None
        self._shapes_of_ones = Shapes()
        """Not those of the state, which are forgotten with its rows."""
        self._table: tuple[int, EdgeTable] | None = None
        self._of_keys: tuple[int, Int32s, Bools] | None = None
        self._plan_edges: tuple[int, PlanEdges] | None = None

    def process(
        self, program: Program, fresh: pa.Table, batch: int, out: ResultColumns, *, fetch: Fetch, most_rows: int
    ) -> None:
        """Add what the new witness rows come to, and make them part of the state.

        Raises:
            TooManyRows: what was added until then is not all there is.
        """
        if program is not self._program:
            self._program, self._resolver = program, Resolver(program, self.cache.shapes)
            self._resolver_of_ones = Resolver(program, self._shapes_of_ones)
            self._table = self._plan_edges = self._of_keys = None
        keys = self.cache.keys_of(fresh)
        alone, both = self._alone(program)
        edge = alone[keys]
        # Rows that only queries of one block ask for meet nothing, now or later.
        meets = (edge < 0) | both[keys]
        late = fresh.column("late").to_numpy()
        met = fresh.filter(pa.array(meets & ~late))
        self._fetch(met, batch, fetch, most_rows)
        new = self.cache.run_of(met, batch)
        BatchPairs(
            self.cache,
            self.edge_table(program),
            self.resolver,
            partial(self.passes, program),
            program,
            new,
            out,
            fetch,
            most_rows,
        ).run()
        if (edge >= 0).any():
            self._single_blocks(fresh.filter(pa.array(edge >= 0)), edge[edge >= 0], out)
        self.cache.append(new)

    def _fetch(self, fresh: pa.Table, batch: int, fetch: Fetch, most_rows: int) -> None:
        """Bring the slices of new values that are in files only."""
        missing = self.cache.missing(rising(fresh.column("h").to_numpy()))
        if not len(missing):
            return
        found = fetch(missing, False)
        if found.num_rows > most_rows:
            raise TooManyRows
        self.cache.bring(found, batch)

    @property
    def resolver(self) -> Resolver:
        """The resolver for the program of the batch."""
        assert self._resolver is not None
        return self._resolver

    def edge_table(self, program: Program) -> EdgeTable:
        """Return the edges of the program by their keys."""
        if self._table is None or self._table[0] != program.structure:
            edges = [edge for edge in program.edges.values() if edge.key.kind == "EQ"]
            codes = np.array(
                [
                    self.cache.key(edge.key.lvar, edge.key.lfn) << HALF_BITS
                    | self.cache.key(edge.key.rvar, edge.key.rfn)
                    for edge in edges
                ],
                dtype=np.int64,
            )
            order = np.argsort(codes)
            codes = codes[order]
            columns = (np.array([getattr(edge, name) for edge in edges]) for name in ("number", "lo", "hi"))
            number, lo, hi = (column[order] if len(edges) else np.empty(0, dtype=np.int64) for column in columns)
            self._table = (
                program.structure,
                EdgeTable(codes, number.astype(np.int32), lo, hi, np.argsort(codes & LOW_BITS, kind="stable")),
            )
        return self._table[1]

    def passes(self, program: Program, counts: Mapping[int, float], rows: int) -> list[Pass]:
        """Tell how the plans of a program are resolved in a batch of so many new rows."""
        if self._plan_edges is None or self._plan_edges[0] != program.structure:
            self._plan_edges = program.structure, plan_edges(program)
        return passes(self._plan_edges[1], counts, self._limit(rows), self._spare(rows))

    def _alone(self, program: Program) -> tuple[Int32s, Bools]:
        """Return for each key its edge of queries of one block, -1 for none; and whether other edges ask for it too."""
        if self._of_keys is None or self._of_keys[0] != program.structure:
            pairs = [
                (edge.key.kind == "ONE", edge.number, self.cache.key(var, fn))
                for edge in program.edges.values()
                for var, fn in ((edge.key.lvar, edge.key.lfn), (edge.key.rvar, edge.key.rfn))
            ]
            edges = np.full(len(self.cache.keys) + 1, -1, dtype=np.int32)
            both = np.zeros(len(edges), dtype=np.bool_)
            for one, number, key in pairs:
                if one:
                    edges[key] = number
                else:
                    both[key] = True
            self._of_keys = program.structure, edges, both
        # No edge asks for keys that are known since.
        _, edges, both = self._of_keys
        more = len(self.cache.keys) + 1 - len(edges)
        return np.pad(edges, (0, more), constant_values=-1), np.pad(both, (0, more))

    def _single_blocks(self, rows: pa.Table, edge: Int32s, out: ResultColumns) -> None:
        """Resolve queries of one block, each in each document by itself, whatever else the document satisfies."""
        docs, ts, nodes, chains = (rows.column(name).combine_chunks() for name in ("docid", "ts", "node", "chain"))
        doc: Int64s = docs.to_numpy()
        if len(self._shapes_of_ones) > _MANY_SHAPES:
            self._shapes_of_ones.keep(np.empty(0, dtype=np.int32))
        shape = self._shapes_of_ones.numbers(nodes, chains)
        resolver = self._resolver_of_ones
        assert resolver is not None
        order, starts = grouped(doc, edge.astype(np.int64))
        doc, time, edge, shape = doc[order], ts.to_numpy()[order], edge[order], shape[order]
        matched = MatchedEdges(edge, shape, shape)
        documents = documents_of_rows(rows)
        counts = np.diff(starts)
        at = starts[:-1][counts == 1]
        resolver.resolve_ones(doc[at], time[at], take(matched, at), documents, out)
        at = starts[:-1][counts > 1]
        several, _ = gather(at, counts[counts > 1])
        pairs = MatchedPairs(doc[at], np.full(len(at), -1), time[at], time[at])
        ends = np.concatenate([[0], np.cumsum(counts[counts > 1])]).astype(np.int64)
        resolver.resolve(pairs, ends, take(matched, several), documents, out)
        out.add_count(len(counts))
