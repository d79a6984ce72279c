"""Rows of links to rows of R_out and matches of queries of three and more blocks, or of two orders.

Two pure steps, each in one process or over shares in tasks: ``complete`` finds the combinations that new rows of links
complete, and ``add_found`` brings together those of the same events, in all orders, because ``ONCE`` chooses among them
(``once``).  Tasks exchange what the first step finds as files, spread by the events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from xscl.base.number_order import each_once
from xscl.base.values import value_hashes
from xscl.templates.columns import Bools, Int32s, Int64s, gather, stacked
from xscl.templates.many_blocks.chains import Chains, Partials, Way, new_chains
from xscl.templates.many_blocks.exchanges import exchanges
from xscl.templates.many_blocks.once import AssembledDocuments, Bindings, add_all_orders
from xscl.templates.many_blocks.plain_matches import Combinations, add_plain, is_plain
from xscl.templates.many_blocks.runs import NO_DOCUMENTS, Documents, LinkRun
from xscl.templates.many_blocks.state import LinkState, documents_of
from xscl.templates.plans import Assembly
from xscl.templates.program import Program
from xscl.templates.results import Member, ResultColumns
from xscl.templates.runs.mapped_columns import open_columns, save_columns

__all__ = ["Found", "add_found", "assemble", "complete"]

_FEW = 16
"""Combinations of an assembly that are looked at one by one."""
_TOGETHER = 10_000
"""Combinations that are turned into Python's objects together, about."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Combinations of rows of links, one of each link of an assembly."""

    assembly: Int64s
    blocks: Int64s
    """Number of documents of each."""
    widths: Int64s
    """Number of nodes of each."""
    docs: Int64s
    """Docids in block order, of one after another."""
    nodes: Int32s
    """Nodes by place of the instance, of one after another."""
    documents: Documents

    def __len__(self) -> int:
        return len(self.assembly)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return the combinations of all parts."""
        columns = stacked([_NONE, *(_Columns(p.assembly, p.blocks, p.widths, p.docs, p.nodes) for p in parts)])
        return cls(*columns, Documents.together([NO_DOCUMENTS, *(part.documents for part in parts)]))

    def taken(self, mask: Bools) -> Found:
        """Return some of the combinations."""
        docs = self.docs[np.repeat(mask, self.blocks)]
        documents = self.documents.chosen(self.documents.found(each_once(docs))[0])
        nodes = self.nodes[np.repeat(mask, self.widths)]
        return Found(self.assembly[mask], self.blocks[mask], self.widths[mask], docs, nodes, documents)

    def spread(self, shares: int) -> list[Found]:
        """Return so many shares; combinations of the same events, in whatever order, are in one."""
        share = self.events.view(np.uint64) % shares
        return [self.taken(share == number) for number in range(shares)]

    @property
    def events(self) -> Int64s:
        """Hashes of the events of each, equal in whatever order they are."""
        if not len(self):
            return np.zeros(0, np.int64)
        hashes = self.documents.hash[self.documents.found(self.docs)[0]]
        return np.add.reduceat(hashes, np.cumsum(self.blocks) - self.blocks)

    def save(self, path: Path) -> None:
        """Write the combinations as a file."""
        columns = {name: getattr(self, name) for name in ("assembly", "blocks", "widths", "docs", "nodes")}
        save_columns(path, columns | self.documents._asdict(), {"rows": len(self)})

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file; its columns stay there."""
        columns, _ = open_columns(path)
        numbers = {name: column.to_numpy() for name, column in columns.items() if name != "place"}
        documents = {name: numbers.pop(name) for name in Documents._fields if name != "place"}
        return cls(**numbers, documents=Documents(**documents, place=columns["place"]))


def assemble(program: Program, state: LinkState, new: Sequence[LinkRun], out: ResultColumns) -> None:
    """Add the matches that new rows of links complete, in this process."""
    add_found(program, complete(program, state, new), state, out)


def complete(program: Program, state: LinkState, new: Sequence[LinkRun], share: tuple[int, int] = (0, 1)) -> Found:
    """Find the combinations that a share of the new rows of links complete, each once over all shares.

    Args:
        program: the queries.
        state: rows of earlier batches, and of earlier levels of this one.
        new: the new rows of all shares.
        share: which one of how many equal parts of the new rows.
    """
    chains, complete_ones = new_chains(program, state, new, share)
    columns = stacked([_NONE, *(_columns(chains, partials) for partials in complete_ones)])
    docids = each_once(columns.docs)
    documents = Documents.together([NO_DOCUMENTS, *state.documents(docids), *documents_of(new, docids)])
    return Found(*columns, documents)


class _Columns(NamedTuple):
    """Columns of ``Found``."""

    assembly: Int64s
    blocks: Int64s
    widths: Int64s
    docs: Int64s
    nodes: Int32s


_NONE = _Columns(*(np.zeros(0, np.int64),) * 4, np.zeros(0, np.int32))


def _columns(chains: Chains, partials: Partials) -> _Columns:
    """Return the columns of complete matches."""
    ways = [way.assembly for way in chains.ways]
    assembly, blocks, widths = (
        np.array([getattr(each, name) for each in ways], np.int64)[partials.way]
        for name in ("number", "blocks", "nodes")
    )
    docs = partials.docid[np.arange(partials.docid.shape[1]) < blocks[:, None]]
    nodes = partials.nodes[np.arange(partials.nodes.shape[1]) < widths[:, None]]
    return _Columns(assembly, blocks, widths, docs, nodes)


# -- the same events together --------------------------------------------------------------------------------------


def add_found(program: Program, found: Found, state: LinkState, out: ResultColumns) -> None:
    """Add the rows of R_out and the matches of combinations, all those of their events being among them."""
    classes: dict[object, int] = {}
    together = np.ones(len(found), np.bool_)
    for number, count in zip(*(part.tolist() for part in np.unique(found.assembly, return_counts=True)), strict=True):
        assembly = program.assemblies[number]
        if count >= _FEW and is_plain(assembly):
            own = found.assembly == number
            docs, nodes = (
                values[np.repeat(own, counts)].reshape(count, -1)
                for values, counts in ((found.docs, found.blocks), (found.nodes, found.widths))
            )
            add_plain(program, assembly, Combinations.of(docs, nodes, found.documents), out, classes)
            together &= ~own
    found = found if together.all() else found.taken(together)
    for some in _some_together(found):
        groups = list(_grouped(program, some))
        earlier = _Earlier(program, state, [each for alike in groups for each in alike])
        for alike in groups:
            add_all_orders(program, [each for one in alike for each in (one, *earlier.exchanged(one))], out, classes)


def _some_together(found: Found) -> Iterator[_Ordered]:
    """Yield all combinations, equal ones and those of the same events side by side, some thousands at a time."""
    if not len(found):
        return
    events = found.events
    starts, node_starts = (np.cumsum(counts) - counts for counts in (found.blocks, found.widths))
    columns = [
        np.where(found.blocks > block, found.docs[np.minimum(starts + block, len(found.docs) - 1)], -1)
        for block in range(int(found.blocks.max()))
    ]
    order = np.lexsort((*reversed(columns), found.assembly, events))
    firsts = np.flatnonzero(np.diff(events[order], prepend=events[order[0]] - 1))
    cuts = [0, *np.unique(np.searchsorted(firsts, np.arange(_TOGETHER, len(order), _TOGETHER))).tolist()]
    ends = [int(firsts[cut]) for cut in cuts if cut < len(firsts)] + [len(order)]
    for begin, end in zip(ends, ends[1:], strict=False):
        if begin < end:
            yield _Ordered(found, order[begin:end], events, starts, node_starts)


class _Ordered(NamedTuple):
    """Some combinations in the order of their events, assemblies and documents."""

    found: Found
    order: Int64s
    events: Int64s
    starts: Int64s
    node_starts: Int64s


def _grouped(program: Program, some: _Ordered) -> Iterator[list[AssembledDocuments]]:
    """Yield the documents of the same events, with their bindings."""
    found, order = some.found, some.order
    docs, _ = gather(some.starts[order], found.blocks[order])
    nodes, _ = gather(some.node_starts[order], found.widths[order])
    member = _members(found.documents, each_once(found.docs[docs]))
    docids, places = found.docs[docs].tolist(), found.nodes[nodes].tolist()
    together: dict[tuple[int, tuple[int, ...]], AssembledDocuments] = {}
    events, at, node_at = None, 0, 0
    rows = (column[order].tolist() for column in (some.events, found.assembly, found.blocks, found.widths))
    for event, number, blocks, width in zip(*rows, strict=True):
        if event != events and together:
            yield from _by_events(together.values())
            together = {}
        events = event
        key = number, tuple(docids[at : at + blocks])
        if key not in together:
            members = [member[docid] for docid in key[1]]
            together[key] = AssembledDocuments(members, Bindings(program.assemblies[number]))
        together[key].bindings.add(places[node_at : node_at + width])
        at, node_at = at + blocks, node_at + width
    yield from _by_events(together.values())


def _by_events(found: Iterable[AssembledDocuments]) -> Iterator[list[AssembledDocuments]]:
    """Yield those of the same events: hashes of different ones may be equal."""
    alike: defaultdict[tuple[str, ...], list[AssembledDocuments]] = defaultdict(list)
    for each in found:
        alike[tuple(sorted(each.places))].append(each)
    yield from alike.values()


def _members(documents: Documents, docids: Int64s) -> dict[int, Member]:
    """Return documents, which are all here, by docid."""
    some = documents.chosen(documents.found(docids)[0])
    columns = (some.docid, some.item, some.ts, some.place, some.membership)
    return {row[0]: Member(*row) for row in zip(*(column.tolist() for column in columns), strict=True)}


class _Earlier:
    """Matches of earlier batches that have the same events as some documents, with two of them exchanged."""

    def __init__(self, program: Program, state: LinkState, found: Sequence[AssembledDocuments]) -> None:
        self._program = program
        wanted = {
            (other.number, places): other
            for each in found
            for places in exchanges(each.bindings.assembly, each.members)
            for other in program.assemblies_of(each.bindings.assembly.instance)
        }
        self._found: defaultdict[tuple[int, tuple[str, ...]], list[AssembledDocuments]] = defaultdict(list)
        if wanted and (state.runs or state.added):
            self._look_for(wanted, state)

    def exchanged(self, documents: AssembledDocuments) -> Iterator[AssembledDocuments]:
        """Yield those of some documents."""
        assembly = documents.bindings.assembly
        for places in exchanges(assembly, documents.members):
            for other in self._program.assemblies_of(assembly.instance):
                yield from self._found.get((other.number, places), ())

    def _look_for(self, wanted: dict[tuple[int, tuple[str, ...]], Assembly], state: LinkState) -> None:
        """Complete matches of rows of earlier batches alone, from all their documents."""
        distinct = sorted({place for _, places in wanted for place in places})
        hashes = value_hashes(distinct).tolist()
        docids = {place: sorted(state.of_event(place, h)) for place, h in zip(distinct, hashes, strict=True)}
        ways = {assembly.number: assembly for assembly in wanted.values()}
        numbers = {number: way for way, number in enumerate(ways)}
        chains = Chains([Way(each, range(len(each.links)), 0) for each in ways.values()], state, ())
        seeds = [
            (numbers[number], docs)
            for number, places in wanted
            for docs in product(*(docids[place] for place in places))
        ]
        if not seeds:
            return
        every = np.unique([docid for _, docs in seeds for docid in docs])
        documents = Documents.together(state.documents(every))
        partials = chains.empty(np.array([way for way, _ in seeds], np.int64))
        for row, (_, docs) in enumerate(seeds):
            partials.docid[row, : len(docs)] = docs
        at, bound = documents.found(partials.docid)
        partials.item[bound], partials.ts[bound] = documents.item[at[bound]], documents.ts[at[bound]]
        member = _members(documents, every)
        complete_ones = set()
        for part in chains.completed(chains.possible(partials), 0):
            complete_ones |= set(zip(part.way.tolist(), map(tuple, part.docid.tolist()), strict=True))
        for way, docs in sorted(complete_ones):
            assembly = chains.ways[way].assembly
            members = [member[docid] for docid in docs[: assembly.blocks]]
            places = tuple(each.place for each in members)
            self._found[assembly.number, places].append(AssembledDocuments(members, Bindings(assembly), earlier=True))
