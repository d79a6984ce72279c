"""The joins of a batch: from new witnesses and the join state to results, in columns.

The same kernel works in the driver and in Spark's tasks: it takes runs (``runs``), which stand in memory or in mapped
files, and adds to the results.

Law: a matched edge belongs to a pair of documents; one of them is new and neither is late; every such pair that some
group's windows allow and that has all edges of an instance or link is resolved, with all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from xscl.base.alike_rows import AlikeRows
from xscl.base.number_order import each_once, places_in
from xscl.templates.columns import Bools, Int32s, Int64s, gather, take
from xscl.templates.joins.document_facts import DocumentFacts, facts_of_rows
from xscl.templates.joins.edge_table import HALF_BITS, LOW_BITS, EdgeTable
from xscl.templates.joins.guarded import AnyGuard
from xscl.templates.joins.line_search import LookUps, look_ups_of
from xscl.templates.joins.matched_edges import MatchedEdges
from xscl.templates.joins.meet import Meeting
from xscl.templates.joins.order import PlanEdges, pair_limit, plan_edges, spare_pairs
from xscl.templates.joins.pair_documents import documents_of_alike, documents_of_rows
from xscl.templates.joins.passes import Pass, passes
from xscl.templates.joins.resolve import Resolver, grouped
from xscl.templates.joins.window_cells import MatchedPairs
from xscl.templates.program import Program
from xscl.templates.program_guards import UNGUARDED
from xscl.templates.results import ResultColumns
from xscl.templates.retention import Floors
from xscl.templates.runs.making import run_of, witness_keys
from xscl.templates.runs.run import Key, Run
from xscl.templates.runs.view import FinderNumbers
from xscl.templates.shapes import Shapes

__all__ = ["Finder"]

_MANY_SHAPES = 1_000_000
"""Shapes of queries of one block that are remembered; there are as many as definitions."""
_MANY_NEEDS = 1_000_000
"""Needs of plans by which ways to look edges up are remembered."""


@dataclass
class _Guarded:
    """Guards of variables, prepared for one version of a program."""

    version: int
    of_variables: dict[int, frozenset[int]] = field(default_factory=dict)
    prepared: dict[frozenset[int], AnyGuard] = field(default_factory=dict)


class Finder:
    """Finds and resolves what new witnesses match, for one program at a time; remembers what it has solved."""

    def __init__(
        self,
        limit: Callable[[int], float] = pair_limit,
        spare: Callable[[int], float] = spare_pairs,
    ) -> None:
        """``limit`` and ``spare`` tell, by the new rows of a unit, what ``passes`` is told."""
        self.numbers = FinderNumbers()
        self._limit = limit
        self._spare = spare
        self._program: Program | None = None
        self._resolver: Resolver | None = None
        self._resolver_of_ones: Resolver | None = None
        self._shapes_of_ones = Shapes()
        """Not those of runs."""
        self._table: tuple[int, EdgeTable] | None = None
        self._of_keys: tuple[int, Int32s, Bools] | None = None
        self._plan_edges: tuple[int, PlanEdges] | None = None
        self._look_ups: tuple[int, dict[frozenset[frozenset[int]], LookUps]] | None = None
        self._looked_up = 0
        self._guarded = _Guarded(-1)
        self._lone: tuple[int, frozenset[int]] | None = None

    def take(self, program: Program) -> None:
        """Work for a program from now on."""
        if program is not self._program:
            self._program, self._resolver = program, Resolver(program, self.numbers.shapes)
            self._resolver_of_ones = Resolver(program, self._shapes_of_ones)
            self._table = self._plan_edges = self._look_ups = self._of_keys = self._lone = None
            self._guarded = _Guarded(-1)

    @property
    def program(self) -> Program:
        """The program."""
        assert self._program is not None
        return self._program

    def new_run(self, fresh: pa.Table, out: ResultColumns) -> Run:
        """Return the run of new witness rows, whose facts stand together, and add the results of queries of one block.

        Rows that only queries of one block ask for meet nothing, now or later; nor do late ones.  Rows without a guard
        that holds in their document are left out, too.
        """
        if not fresh.num_rows:
            return run_of(fresh)
        keys, which = witness_keys(fresh)
        of = self.numbers.keys(keys)
        alone, both = self._alone()
        edge = alone[of][which]
        if (edge >= 0).any():
            self._single_blocks(fresh, edge, out)
        meets = ((alone[of] < 0) | both[of])[which] & ~fresh.column("late").to_numpy()
        held = self._held(fresh, keys, which, meets)
        return run_of(fresh, (keys, which)) if held.all() else run_of(fresh.filter(pa.array(held)))

    @property
    def lone(self) -> frozenset[int]:
        """Variables that queries of one block ask for, but no other query and no guard."""
        program = self.program
        if self._lone is None or self._lone[0] != program.version:
            of_ones, of_others = set[int](), set[int]()
            for edge in program.edges.values():
                (of_ones if edge.key.kind == "ONE" else of_others).update((edge.key.lvar, edge.key.rvar))
            guards = program.guards
            read = {*guards.facts_read.tolist(), *guards.facts_rows, *guards.compared.tolist()}
            found = (variable for variable in of_ones - of_others - read if self._is_unguarded(variable))
            self._lone = program.version, frozenset(found)
        return self._lone[1]

    def _is_unguarded(self, variable: int) -> bool:
        return not self.program.guards or self._guards_of(variable) <= {UNGUARDED}

    def resolve_alike(self, alike: AlikeRows, out: ResultColumns) -> None:
        """Add the results of queries of one block that have some rows of ``lone`` variables, each one's only row."""
        if len(self._shapes_of_ones) > _MANY_SHAPES:
            self._shapes_of_ones.keep(np.empty(0, dtype=np.int32))
        kinds = alike.kinds
        of = self.numbers.keys(tuple((variable, None) for variable in kinds.column("var").to_pylist()))
        shapes = self._shapes_of_ones.numbers(kinds.column("node"), kinds.column("chain"))
        docs, ts = (alike.events.column(name).to_numpy()[alike.event] for name in ("docid", "ts"))
        edge, shape = self._alone()[0][of][alike.kind], shapes[alike.kind]
        order, _ = grouped(docs, edge.astype(np.int64))
        matched = take(MatchedEdges(edge, shape, shape), order)
        assert self._resolver_of_ones is not None
        documents = documents_of_alike(alike.events, self.program.guards)
        self._resolver_of_ones.resolve_ones(docs[order], ts[order], matched, documents, out)
        out.add_count(len(docs))

    def _held(self, fresh: pa.Table, keys: Sequence[Key], which: Int64s, meets: Bools) -> Bools:
        """Tell which of the rows that meet others are of use: some guard holds for their variable in their document.

        Rows that only guards read are of use in documents with other rows that are.  ``which`` are the rows' keys.
        """
        guards = self.program.guards
        if not guards or not meets.any():
            return meets
        docids = fresh.column("docid").to_numpy()
        docs = each_once(docids)
        doc = places_in(docs, docids)
        variables = np.array([variable for variable, _ in keys], dtype=np.int64)
        of_guards: dict[frozenset[int], list[int]] = {}
        for variable in np.setdiff1d(variables, guards.only_read).tolist():
            of_guards.setdefault(self._guards_of(variable), []).append(variable)
        facts: DocumentFacts | None = None
        held = np.zeros(len(docids), dtype=np.bool_)
        for some, guarded in of_guards.items():
            of = meets & np.isin(variables, guarded)[which]
            # Of most variables some block has no guard, and then no fact is asked for.
            if UNGUARDED not in some:
                facts = facts or facts_of_rows(fresh, docs, guards)
                of &= self._any_guard(some).holds(facts)[doc]
            held |= of
        read = np.isin(variables, np.union1d(guards.facts_rows, guards.compared))
        kept = np.zeros(len(docs), dtype=np.bool_)
        kept[doc[held]] = True
        return held | read[which] & meets & kept[doc]

    def _guards_of(self, variable: int) -> frozenset[int]:
        """Return the guards of blocks that have a variable."""
        if self._guarded.version != self.program.version:
            self._guarded = _Guarded(self.program.version)
        known = self._guarded.of_variables
        if variable not in known:
            known[variable] = self.program.guards.guards_of(variable)
        return known[variable]

    def _any_guard(self, guards: frozenset[int]) -> AnyGuard:
        known = self._guarded.prepared
        if guards not in known:
            known[guards] = AnyGuard.of(self.program.guards.table, np.array(sorted(guards), dtype=np.int64))
        return known[guards]

    def meet(self, new: Run, others: Sequence[tuple[Run, Floors | None]], out: ResultColumns, *, own: bool) -> None:
        """Add what new rows come to with other runs, whose rows are in sight by floors; and, if ``own``, with each
        other.
        """
        mine = self.numbers.view(new, None)
        views = [self.numbers.view(run, floors) for run, floors in others if run.size]
        met = [*views, mine] if own else views
        if not new.size or not met:
            return
        assert self._resolver is not None
        Meeting(
            self.numbers,
            self._edge_table(),
            self._resolver,
            partial(self._passes, self.program),
            self._look_ups_of,
            self.program,
            mine,
            met,
            out,
        ).run()

    def forget(self, kept: Sequence[Run]) -> None:
        """Forget what is known of other runs."""
        self.numbers.forget({id(run) for run in kept})

    def _edge_table(self) -> EdgeTable:
        """Return the edges of the program by their keys."""
        program, key = self.program, self.numbers.key
        if self._table is None or self._table[0] != program.structure:
            edges = [edge for edge in program.edges.values() if edge.key.kind == "EQ"]
            codes = np.array(
                [
                    key((edge.key.lvar, edge.key.lfn)) << HALF_BITS | key((edge.key.rvar, edge.key.rfn))
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

    def _passes(self, program: Program, counts: Mapping[int, float], rows: int) -> list[Pass]:
        """Tell how the plans of a program are resolved in a unit of so many new rows."""
        if self._plan_edges is None or self._plan_edges[0] != program.structure:
            self._plan_edges = program.structure, plan_edges(program)
        return passes(self._plan_edges[1], counts, self._limit(rows), self._spare(rows))

    def _look_ups_of(self, needs: frozenset[frozenset[int]]) -> LookUps:
        """Return how the edges that plans need are looked up, remembered as long as the edges of the program stay."""
        if self._look_ups is None or self._look_ups[0] != self.program.structure:
            self._look_ups, self._looked_up = (self.program.structure, {}), 0
        known = self._look_ups[1]
        if needs not in known:
            if self._looked_up + len(needs) > _MANY_NEEDS:
                known.clear()
                self._looked_up = 0
            self._looked_up += len(needs)
            known[needs] = look_ups_of(self.program.edges, needs)
        return known[needs]

    def _alone(self) -> tuple[Int32s, Bools]:
        """Return for each key its edge of queries of one block, -1 for none; and whether other edges ask for it too."""
        program = self.program
        if self._of_keys is None or self._of_keys[0] != program.structure:
            pairs = [
                (edge.key.kind == "ONE", edge.number, self.numbers.key((var, fn)))
                for edge in program.edges.values()
                for var, fn in ((edge.key.lvar, edge.key.lfn), (edge.key.rvar, edge.key.rfn))
            ]
            edges = np.full(self.numbers.count + 1, -1, dtype=np.int32)
            both = np.zeros(len(edges), dtype=np.bool_)
            for one, number, key in pairs:
                if one:
                    edges[key] = number
                else:
                    both[key] = True
            self._of_keys = program.structure, edges, both
        # No edge asks for keys that are known since.
        _, edges, both = self._of_keys
        more = self.numbers.count + 1 - len(edges)
        return np.pad(edges, (0, more), constant_values=-1), np.pad(both, (0, more))

    def _single_blocks(self, fresh: pa.Table, edge: Int32s, out: ResultColumns) -> None:
        """Resolve queries of one block, each in each document by itself, whatever else the document satisfies."""
        alone = edge >= 0
        rows, edge = fresh if alone.all() else fresh.filter(pa.array(alone)), edge[alone]
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
        documents = documents_of_rows(rows, fresh, self.program.guards)
        counts = np.diff(starts)
        at = starts[:-1][counts == 1]
        resolver.resolve_ones(doc[at], time[at], take(matched, at), documents, out)
        at = starts[:-1][counts > 1]
        several, _ = gather(at, counts[counts > 1])
        pairs = MatchedPairs(doc[at], np.full(len(at), -1), time[at], time[at])
        ends = np.concatenate([[0], np.cumsum(counts[counts > 1])]).astype(np.int64)
        resolver.resolve(pairs, ends, take(matched, several), documents, out)
        out.add_count(len(counts))
