"""Rows of links to rows of R_out and matches of queries of three and more blocks.  Nothing here needs Spark.

A new row of a link starts a partial match of every instance that has the link; it asks for rows of the next link by a
document that both have, Spark joins (``join``), and what fits is put together, until all links are there.  The delta
rule of incremental joins keeps every combination from being found twice: of the links before the one that started, only
rows of earlier batches are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby, islice

import pyarrow as pa

from xscl.arrow import MEMBER
from xscl.templates.program import Assembly, Program, load_program
from xscl.templates.results import MAX_BINDINGS, ClassRow, Member, ResultColumns, admitted, different

__all__ = ["FOUND_SCHEMA", "REQUEST_SCHEMA", "assemble_found", "assembled_batches", "extend_batches", "start_batches"]

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
    """Rows of ``FOUND_SCHEMA``, sorted by assembly and documents, to rows of ``RESULT_SCHEMA`` of an origin."""
    out = ResultColumns(origin)
    yield from assemble_found(load_program(path), batches, out)
    yield from out.take()


def assemble_found(program: Program, batches: Iterable[pa.RecordBatch], out: ResultColumns) -> Iterator[pa.RecordBatch]:
    """Add what such rows come to; hands out what becomes full."""
    rows = (row for batch in batches for row in batch.to_pylist())
    classes: dict[object, int] = {}
    for (of, docs), group in groupby(rows, key=lambda r: (r["assembly"], tuple(m["docid"] for m in r["members"]))):
        assembly = program.assemblies[of]
        found = list(islice(group, MAX_BINDINGS + 1))
        members = [Member(**member) for member in found[0]["members"]]
        if len(found) > MAX_BINDINGS:
            out.add_refused(members)
            continue
        by = admitted(assembly.groups.values(), members, assembly.pairs)
        if not by.groups:
            continue
        matches: dict[tuple[int, ...], tuple[int, ...]] = {}
        bindings = sorted({tuple(row["nodes"]) for row in found})
        for nodes in bindings:
            matches.setdefault(tuple(nodes[place] for place in assembly.results), nodes[: assembly.width])
        number = assembly.instance
        rows_of_class = [
            *(
                ClassRow("rout", number, witness, None, by)
                for witness in sorted({nodes[: assembly.width] for nodes in bindings})
            ),
            *(ClassRow("match", number, results, witness, by) for results, witness in sorted(matches.items())),
        ]
        key = (number, tuple(rows_of_class))
        if key not in classes:
            if len(classes) >= _MOST_CLASSES:
                classes.clear()
            classes[key] = out.add_class(rows_of_class)
        out.add_documents(docs, classes[key])
        yield from out.full()


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
    return tuple(None if row is None else Member(**row) for row in rows)  # type: ignore[arg-type]


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
