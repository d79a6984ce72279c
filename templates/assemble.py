"""Rows of links to rows of R_out and matches of queries of three and more blocks.  Nothing here needs Spark.

A new row of a link starts a partial match of every instance that has the link; it asks for rows of the next link by a
document that both have, Spark joins (``join``), and what fits is put together, until all links are there.  The delta
rule of incremental joins keeps every combination from being found twice: of the links before the one that started, only
rows of earlier batches are taken.

All orders of the same documents are looked at together, because ``ONCE`` chooses among them (``Bounds.exchange``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.arrow_schemas import MEMBER
from xscl.templates.bounds import Case
from xscl.templates.program import Assembly, Program, load_program
from xscl.templates.results import MAX_MATCHES, MAX_ROUT, Admitted, ClassRow, Member, ResultColumns, admitted, different

__all__ = [
    "FOUND_SCHEMA",
    "REQUEST_SCHEMA",
    "LinkRows",
    "assemble",
    "assembled_batches",
    "extend_batches",
    "start_batches",
]

REQUEST_SCHEMA = pa.schema(
    [
        ("link", pa.int64()),  # what is asked for; 0: nothing, all links are there
        ("side", pa.int32()),  # by its left (0) or right (1) document,
        ("doc", pa.int64()),  # which is this one
        ("assembly", pa.int32()),
        ("start", pa.int32()),  # the link whose new row this began with
        ("step", pa.int32()),
        ("members", pa.list_(MEMBER)),  # by block; NULL: not there yet
        ("nodes", pa.list_(pa.int32())),  # by place of the instance; NULL: not bound yet
    ]
)
FOUND_SCHEMA = pa.schema([REQUEST_SCHEMA.field(name) for name in ("assembly", "members", "nodes")])

_DONE = 0
_MOST_CLASSES = 10_000
"""That are kept to be found again."""
Members = tuple[Member | None, ...]
Nodes = tuple[int | None, ...]


def start_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """New rows of links (link, members, nodes) to rows of ``REQUEST_SCHEMA``."""
    program = load_program(path)
    for batch in batches:
        out = _Requests(program)
        for row in batch.to_pylist():
            for number, place in program.starts.get(row["link"], ()):
                assembly = program.assemblies[number]
                empty = (None,) * assembly.blocks, (None,) * assembly.nodes
                joined = _joined(assembly, place, *empty, _members(row["members"]), row["nodes"])
                if joined is not None:
                    out.add(assembly, place, 0, *joined)
        yield out.take()


def extend_batches(path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of ``REQUEST_SCHEMA`` with what they met (link_members, link_nodes, fresh) to such rows a step further."""
    program = load_program(path)
    for batch in batches:
        out = _Requests(program)
        for row in batch.to_pylist():
            assembly = program.assemblies[row["assembly"]]
            start, step = row["start"], row["step"]
            members, nodes = _members(row["members"]), tuple(row["nodes"])
            if row["link"] == _DONE:
                out.add(assembly, start, step, members, nodes)
                continue
            use = assembly.steps[start][step].use
            if row["link_members"] is None or (row["fresh"] and use < start):
                continue
            joined = _joined(assembly, use, members, nodes, _members(row["link_members"]), row["link_nodes"])
            if joined is not None:
                out.add(assembly, start, step + 1, *joined)
        yield out.take()


def assembled_batches(path: str, batches: Iterable[pa.RecordBatch], origin: int) -> Iterator[pa.RecordBatch]:
    """Rows of ``FOUND_SCHEMA`` to rows of ``RESULT_SCHEMA`` of an origin.

    Rows of the same documents, in whatever order, stand together, sorted by assembly and documents.
    """
    program = load_program(path)
    out = ResultColumns(origin)
    classes: dict[object, int] = {}
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, alike in groupby(rows, key=lambda row: sorted(member["place"] for member in row["members"])):
        found = []
        for (number, _), group in groupby(alike, key=lambda r: (r["assembly"], [m["docid"] for m in r["members"]])):
            first = next(group)
            bindings = _Bindings(program.assemblies[number])
            for row in chain((first,), group):
                bindings.add(tuple(row["nodes"]))
            found.append(_Found([Member.of(member) for member in first["members"]], bindings))
        _add_alike(program, found, out, classes)
        yield from out.full()
    yield from out.take()


class _Bindings:
    """What some documents bind of an assembly: one binding, the least, for each match, and rows of R_out."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.matches: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Nodes that make a match to a row of R_out, one more than ``MAX_MATCHES`` at most."""
        self.rows: set[tuple[int, ...]] | None = set()
        """None: more than ``MAX_ROUT``."""

    def add(self, nodes: Sequence[int]) -> None:
        """Take in a binding of all places."""
        row = tuple(nodes[: self.assembly.width])
        results = tuple(nodes[place] for place in self.assembly.results)
        if results in self.matches or len(self.matches) <= MAX_MATCHES:
            self.matches[results] = min(row, self.matches.get(results, row))
        if self.rows is not None:
            self.rows.add(row)
            if len(self.rows) > MAX_ROUT:
                self.rows = None


class _Found(NamedTuple):
    """Documents that an assembly's links put together, and their bindings."""

    members: Sequence[Member]
    """By block."""
    bindings: _Bindings


def _add_alike(program: Program, found: Sequence[_Found], out: ResultColumns, classes: dict[object, int]) -> None:
    """Add what the same documents in all orders come to."""
    admitting = [
        admitted(of.assembly.groups.values(), members, of.assembly.pairs, program.memberships) for members, of in found
    ]
    matched = {
        (gid, tuple(member.place for member in each.members))
        for each, by in zip(found, admitting, strict=True)
        for gid in by.groups
    }
    for each, by in zip(found, admitting, strict=True):
        staying = [
            (gid, case)
            for gid, case in zip(*by, strict=True)
            if not _is_exchanged(program.groups[gid].group.cases[case - 1], gid, each.members, matched)
        ]
        if staying:
            gids, cases = zip(*staying, strict=True)
            _add(each, Admitted(gids, cases), out, classes)


def _is_exchanged(
    case: Case, gid: int, members: Sequence[Member], matched: Container[tuple[int, tuple[str, ...]]]
) -> bool:
    """Whether a group has these documents with two of them exchanged, of which the first one is the left one then.

    ``matched`` are all groups with the documents that they have, whatever the order that ``ONCE`` asks for.
    """
    for bounds, (i, j) in zip(case, combinations(range(len(members)), 2), strict=True):
        if bounds.exchange and (members[j].ts, members[j].place) < (members[i].ts, members[i].place):
            places = [member.place for member in members]
            places[i], places[j] = places[j], places[i]
            if (gid, tuple(places)) in matched:
                return True
    return False


def _add(found: _Found, by: Admitted, out: ResultColumns, classes: dict[object, int]) -> None:
    """Add what some documents come to for some groups; ``classes`` are those made so far."""
    members, bindings = found
    assembly = bindings.assembly
    if len(bindings.matches) > MAX_MATCHES:
        out.add_refused(members, by.groups, "matches")
        return
    if bindings.rows is None:
        out.add_refused(members, by.groups, "rout")
    rows = (
        *(ClassRow("rout", assembly.instance, row, None, by) for row in sorted(bindings.rows or ())),
        *(ClassRow("match", assembly.instance, *match, by) for match in sorted(bindings.matches.items())),
    )
    if rows not in classes:
        if len(classes) >= _MOST_CLASSES:
            classes.clear()
        classes[rows] = out.add_class(rows)
    out.add_documents([member.docid for member in found.members], classes[rows])


# -- in one process --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LinkRow:
    members: Members
    nodes: tuple[int, ...]
    batch: int


class LinkRows:
    """Rows of links, found by either document."""

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[int, int, int], list[_LinkRow]] = defaultdict(list)
        """By link, side (0 or 1) and document: each row twice."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: pa.Table, batch: int) -> None:
        """Take in rows (link, members, nodes) that a batch found."""
        self._count += rows.num_rows
        for row in rows.select(["link", "members", "nodes"]).to_pylist():
            members = _members(row["members"])
            found = _LinkRow(members, tuple(row["nodes"]), batch)
            for side, member in enumerate(members):
                assert member is not None
                self._rows[row["link"], side, member.docid].append(found)

    def meeting(self, link: int, side: int, doc: int) -> Sequence[_LinkRow]:
        """The rows of a link with a document on one side."""
        return self._rows.get((link, side, doc), ())

    def purge(self, keep: Callable[[_Numbers, _Numbers, _Numbers], npt.NDArray[np.bool_]]) -> None:
        """Forget rows; ``keep`` tells by links and the event times of left and right members which are kept."""
        places = [(key, row) for key, rows in self._rows.items() for row in rows]
        if not places:
            return
        times = np.array([[m.ts for m in row.members if m is not None] for _, row in places], dtype=np.int64)
        kept = keep(np.array([key[0] for key, _ in places], dtype=np.int64), times[:, 0], times[:, 1])
        if kept.all():
            return
        self._count = int(kept.sum()) // 2
        self._rows = defaultdict(list)
        for (key, row), stays in zip(places, kept.tolist(), strict=True):
            if stays:
                self._rows[key].append(row)


_Numbers = npt.NDArray[np.int64]


def assemble(program: Program, rows: LinkRows, new: pa.Table, batch: int, out: ResultColumns) -> None:
    """Add what the rows of links that a batch found come to, which become part of ``rows``."""
    rows.add(new, batch)
    found: dict[tuple[int, Members], _Bindings] = {}
    for row in new.select(["link", "members", "nodes"]).to_pylist():
        for number, place in program.starts.get(row["link"], ()):
            assembly = program.assemblies[number]
            empty = (None,) * assembly.blocks, (None,) * assembly.nodes
            joined = _joined(assembly, place, *empty, _members(row["members"]), row["nodes"])
            if joined is not None:
                for members, nodes in _extended(assembly, rows, place, 0, *joined, batch):
                    if (number, members) not in found:
                        found[number, members] = _Bindings(assembly)
                    found[number, members].add([node for node in nodes if node is not None])
    alike: defaultdict[tuple[str, ...], list[_Found]] = defaultdict(list)
    for (_, members), bindings in found.items():
        complete = [member for member in members if member is not None]
        alike[tuple(sorted(member.place for member in complete))].append(_Found(complete, bindings))
    classes: dict[object, int] = {}
    for each in alike.values():
        _add_alike(program, each, out, classes)


def _extended(
    assembly: Assembly, rows: LinkRows, start: int, step: int, members: Members, nodes: Nodes, batch: int
) -> Iterator[tuple[Members, Nodes]]:
    """All ways to complete a partial match that began with the new row of link ``start``."""
    if step == len(assembly.steps[start]):
        yield members, nodes
        return
    use, known = assembly.steps[start][step].use, assembly.steps[start][step].known
    link = assembly.links[use]
    member = members[link.blocks[known]]
    assert member is not None
    for row in rows.meeting(link.key, known, member.docid):
        if row.batch == batch and use < start:
            continue
        joined = _joined(assembly, use, members, nodes, row.members, row.nodes)
        if joined is not None:
            yield from _extended(assembly, rows, start, step + 1, *joined, batch)


def _joined(
    assembly: Assembly, use: int, members: Members, nodes: Nodes, met: Members, met_nodes: Sequence[int]
) -> tuple[Members, Nodes] | None:
    """What is bound and one row of a link together; None if they do not fit."""
    link = assembly.links[use]
    all_members, all_nodes = list(members), list(nodes)
    for block, member in zip(link.blocks, met, strict=True):
        known = all_members[block]
        if known is None:
            all_members[block] = member
        elif member is None or known.docid != member.docid:
            return None
    for place, node in zip(link.places, met_nodes, strict=True):
        if all_nodes[place] is None:
            all_nodes[place] = node
        elif all_nodes[place] != node:
            return None
    if not _possible(assembly, all_members):
        return None
    return tuple(all_members), tuple(all_nodes)


def _possible(assembly: Assembly, members: Sequence[Member | None]) -> bool:
    """Whether some group could still take these documents."""
    if not different([member for member in members if member is not None]):
        return False
    for bounds, (a, b) in zip(assembly.bounds, combinations(members, 2), strict=True):
        if a is not None and b is not None and not bounds.lo <= b.ts - a.ts <= bounds.hi:
            return False
    return True


def _members(rows: Sequence[dict[str, object] | None]) -> Members:
    return tuple(None if row is None else Member.of(row) for row in rows)


class _Requests:
    """Collects rows of ``REQUEST_SCHEMA``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.rows: list[tuple[object, ...]] = []

    def add(self, assembly: Assembly, start: int, step: int, members: Members, nodes: Nodes) -> None:
        """Ask for the next link, if there is one."""
        dicts = [None if member is None else member._asdict() for member in members]
        steps = assembly.steps[start]
        if step == len(steps):
            # Spread over the executors by a document, though it asks for nothing.
            link, side, known = _DONE, 0, members[0]
        else:
            link_use, side = assembly.links[steps[step].use], steps[step].known
            link, known = link_use.key, members[link_use.blocks[side]]
        assert known is not None
        self.rows.append((link, side, known.docid, assembly.number, start, step, dicts, nodes))

    def take(self) -> pa.RecordBatch:
        """What there is."""
        columns = zip(*self.rows, strict=True) if self.rows else [[] for _ in REQUEST_SCHEMA]
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, REQUEST_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=REQUEST_SCHEMA)
