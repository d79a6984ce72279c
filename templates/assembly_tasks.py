"""Rows of links to rows of R_out and matches, as Spark's workers put them together (``join``).

A partial match asks for the rows of the next link that have one of its events, Spark joins, and what fits goes on.
A match whose exchange an earlier batch may have completed (``partial_matches.exchanges``) asks for that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

import pyarrow as pa

from xscl.base.arrow_schemas import MEMBER
from xscl.templates.once import AssembledDocuments, Bindings, add_all_orders
from xscl.templates.partial_matches import Members, Nodes, empty, exchanges, joined, members_of
from xscl.templates.plans import Assembly
from xscl.templates.program import Program
from xscl.templates.program_files import load_program
from xscl.templates.results import Member, ResultColumns

__all__ = ["ASSEMBLED_SCHEMA", "REQUEST_SCHEMA", "assembled_batches", "extend_batches", "start_batches"]

REQUEST_SCHEMA = pa.schema(
    [
        ("link", pa.int64()),  # the link whose rows are asked for; 0: none, all links are there
        ("side", pa.int32()),  # the side on which they have an event, left (0) or right (1)
        ("place", pa.string()),  # the event, as ``Member.place``
        ("other", pa.string()),  # the event that they have on the other side; NULL: any
        ("assembly", pa.int32()),
        ("start", pa.int32()),  # the link whose row was the first
        ("step", pa.int32()),  # the step behind it; -1: the first row is asked for
        ("members", pa.list_(MEMBER)),  # by block; NULL: not bound yet
        ("nodes", pa.list_(pa.int32())),  # by place of the instance; NULL: not bound yet
        ("wanted", pa.list_(pa.string())),  # events by block of an earlier match; NULL: a match of this batch
    ]
)
ASSEMBLED_SCHEMA = pa.schema([REQUEST_SCHEMA.field(name) for name in ("assembly", "members", "nodes", "wanted")])

_DONE = 0
_MOST_ASKED = 100_000
"""Number of earlier matches that a task remembers to have asked for."""


def start_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn new rows of links (link, members, nodes) into rows of ``REQUEST_SCHEMA``."""
    program = load_program(path)
    requests = _Requests(program)
    for batch in batches:
        for row in batch.to_pylist():
            for number, place in program.starts.get(row["link"], ()):
                assembly = program.assemblies[number]
                first = joined(assembly, place, *empty(assembly), members_of(row["members"]), row["nodes"])
                if first is not None:
                    requests.add(_Partial(assembly, place, 0, *first))
        yield requests.take()


def extend_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Extend rows of ``REQUEST_SCHEMA`` by a row of a link each (link_members, link_nodes, fresh), NULL for none."""
    program = load_program(path)
    requests = _Requests(program)
    for batch in batches:
        for row in batch.to_pylist():
            assembly = program.assemblies[row["assembly"]]
            members, nodes = members_of(row["members"]), tuple(row["nodes"])
            partial = _Partial(assembly, row["start"], row["step"], members, nodes, row["wanted"])
            if row["link"] == _DONE:
                requests.hand_on(partial)
            elif row["link_members"] is not None:
                longer = partial.extended(members_of(row["link_members"]), row["link_nodes"], row["fresh"])
                if longer is not None:
                    requests.add(longer)
        yield requests.take()


def assembled_batches(path: str, batches: Iterable[pa.RecordBatch], origin: int) -> Iterator[pa.RecordBatch]:
    """Turn rows of ``ASSEMBLED_SCHEMA`` into rows of ``RESULT_SCHEMA`` of an origin.

    Rows of the same events, in whatever order, stand together, sorted by assembly and documents.
    """
    program = load_program(path)
    out = ResultColumns(origin)
    classes: dict[object, int] = {}
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, alike in groupby(rows, key=lambda row: sorted(member["place"] for member in row["members"])):
        assembled = []
        for (number, _), group in groupby(alike, key=lambda r: (r["assembly"], [m["docid"] for m in r["members"]])):
            first = next(group)
            bindings = Bindings(program.assemblies[number])
            for row in chain((first,), group):
                bindings.add(tuple(row["nodes"]))
            members = [Member.of(member) for member in first["members"]]
            assembled.append(AssembledDocuments(members, bindings, first["wanted"] is not None))
        add_all_orders(program, assembled, out, classes)
        yield from out.full()
    yield from out.take()


class _Partial(NamedTuple):
    """A partial match on its way through the links of an assembly."""

    assembly: Assembly
    start: int
    step: int
    members: Members
    nodes: Nodes
    wanted: Sequence[str] | None = None
    """Events by block of a match of earlier batches; None for a match of this batch."""

    @property
    def is_complete(self) -> bool:
        return self.step == len(self.assembly.steps[self.start])

    @property
    def use(self) -> int:
        """The link that is asked for, by its place in the assembly."""
        return self.start if self.step < 0 else self.assembly.steps[self.start][self.step].use

    def extended(self, members: Members, nodes: Sequence[int], fresh: bool) -> _Partial | None:
        """Extend it by a row of the link that it asked for; None if the row does not fit."""
        if fresh and (self.wanted is not None or self.use < self.start):
            return None
        longer = joined(self.assembly, self.use, self.members, self.nodes, members, nodes)
        return None if longer is None else _Partial(self.assembly, self.start, self.step + 1, *longer, self.wanted)

    def events(self) -> list[str | None]:
        """Return the events by block, as far as they are known or wanted."""
        return [*self.wanted] if self.wanted else [member and member.place for member in self.members]


class _Requests:
    """Collects rows of ``REQUEST_SCHEMA``."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._rows: list[tuple[object, ...]] = []
        self._asked: set[tuple[int, tuple[str, ...]]] = set()
        """Earlier matches that were asked for, by instance and events."""

    def add(self, partial: _Partial) -> None:
        """Ask for the next link of a partial match, or for what a complete one may have to yield to."""
        if partial.is_complete:
            self.hand_on(partial)
            if partial.wanted is None:
                self._ask_for_earlier(partial.assembly, [member for member in partial.members if member is not None])
            return
        link = partial.assembly.links[partial.use]
        side = 0 if partial.step < 0 else partial.assembly.steps[partial.start][partial.step].known
        events = partial.events()
        self._append(partial, link.key, side, events[link.blocks[side]], events[link.blocks[1 - side]])

    def hand_on(self, partial: _Partial) -> None:
        """Ask for nothing more of a complete match, which is spread over the executors by an event."""
        self._append(partial, _DONE, 0, partial.events()[0], None)

    def _ask_for_earlier(self, assembly: Assembly, members: Sequence[Member]) -> None:
        for places in exchanges(assembly, members):
            if (assembly.instance, places) not in self._asked:
                if len(self._asked) >= _MOST_ASKED:
                    self._asked.clear()
                self._asked.add((assembly.instance, places))
                for other in self._program.assemblies_of(assembly.instance):
                    self.add(_Partial(other, 0, -1, *empty(other), places))

    def _append(self, partial: _Partial, link: int, side: int, place: str | None, other: str | None) -> None:
        members = [None if member is None else member._asdict() for member in partial.members]
        asks = link, side, place, other
        self._rows.append((*asks, partial.assembly.number, partial.start, partial.step, members, *partial[4:]))

    def take(self) -> pa.RecordBatch:
        """Return the rows and forget them."""
        columns = zip(*self._rows, strict=True) if self._rows else [[] for _ in REQUEST_SCHEMA]
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, REQUEST_SCHEMA, strict=True)]
        self._rows = []
        return pa.RecordBatch.from_arrays(arrays, schema=REQUEST_SCHEMA)
