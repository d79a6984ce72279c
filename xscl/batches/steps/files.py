"""The file of the rows that steps keep from batch to batch, with the queries that have each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.batches.steps.members import Versions, documents_of
from xscl.batches.steps.rows import Layout, Rows, State, Taking
from xscl.store.home import Home
from xscl.store.state_files import StateFile, facts_of_held_file
from xscl.templates.columns import Int64s
from xscl.templates.sequences.member_sets import MemberSets

__all__ = [
    "CUT",
    "DONE",
    "STEP_SCHEMA",
    "TOLD",
    "KeptRows",
    "KeptSteps",
    "Member",
    "read_steps",
    "state_of",
    "write_steps",
]

_FACTS = b"xscl"
TOLD = "told"
"""Name in a state of the rows that hold and are not final."""
DONE = "done"
"""Name in a state of the rows that are final, and whose answers other rows may give again (``Tree.repeated``)."""
CUT = "cut"
"""Name in a state of the lefts whose runs were cut off on the way to rows that are not final."""
Member = tuple[int, int]
"""Queries that share a step: a group, and the place after which its queries see events."""
STEP_SCHEMA = pa.schema(
    [
        ("step", pa.string()),  # its id
        ("members", pa.binary()),  # bits: which members of the step have the row
        ("node", pa.string()),  # the NEXT or FOLD that keeps the row, and what for
        ("start", pa.int64()),
        ("ts", pa.int64()),
        ("place", pa.int64()),  # place of its decision
        ("first", pa.int64()),  # least place of its events
        ("end", pa.int64()),  # time that ended its run
        ("seen", pa.int64()),  # time before which right sides were looked at
        ("docs", pa.list_(pa.int64())),
        ("times", pa.list_(pa.int64())),
        ("nodes", pa.list_(pa.int64())),
        ("texts", pa.list_(pa.string())),
        ("taken", pa.list_(pa.int64())),  # iterations of each FOLD
        ("kept", pa.string()),  # values of accumulators and functions, as JSON
        ("events", pa.list_(pa.int64())),  # all documents, those of all iterations of a FOLD too
    ]
)
_NUMBERS = ("start", "ts", "place", "first", "end", "seen")


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows that some members of a step keep."""

    members: Sequence[Member]
    sets: MemberSets
    state: State


@dataclass
class KeptSteps:
    """Rows of all steps, and how far times of parts are settled."""

    rows: dict[str, list[KeptRows]] = field(default_factory=dict)
    """Rows by the ids of steps."""
    members: dict[str, list[Member]] = field(default_factory=dict)
    """Members that the bits of a file's rows number, by the ids of steps."""
    settled: dict[tuple[int, int | None], int] = field(default_factory=dict)
    """Time up to which steps have looked at the matches of each part, by part and distance behind clocks."""
    waits: tuple[str, ...] = ()
    """Channels whose times decide."""
    versions: Versions = field(default_factory=dict)
    """Versions among the documents of rows."""
    oldest: dict[str, int] = field(default_factory=dict)
    """Least time of the members of rows, by channel: from then on its events are kept."""


def read_steps(path: Path | None) -> tuple[KeptSteps, dict[str, pa.Table]]:
    """Read the rows of a file by step, which ``state_of`` makes a state of; None: there are none."""
    if path is None:
        return KeptSteps(), {}
    table = pq.read_table(check_file(path), schema=STEP_SCHEMA)
    facts = json.loads(pq.read_schema(path).metadata[_FACTS])
    members = {name: [(gid, since) for gid, since in of] for name, of in facts["members"].items()}
    settled = {_line(line): time for line, time in facts["settled"].items()}
    kept = KeptSteps({}, members, settled, tuple(facts["waits"]), dict(facts["versions"]), facts["oldest"])
    names = table.column("step").combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy()
    begins = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    found = zip(begins, [*begins[1:], len(codes)], strict=False)
    values = names.dictionary.to_pylist()
    return kept, {values[codes[begin]]: table.slice(begin, end - begin) for begin, end in found}


def _line(written: str) -> tuple[int, int | None]:
    """Return the part, and the distance behind clocks if there is one, of a line of ``settled``."""
    part, *behind = map(int, written.split())
    return part, behind[0] if behind else None


def state_of(
    layout: Layout, table: pa.Table | None, known: Sequence[Member], members: Sequence[Member], sets: MemberSets
) -> State:
    """Return the rows of a step that some of its members have.

    Args:
        layout: places of the rows.
        table: the rows; None: there are none.
        known: members that the table's bits number.
        members: those that are asked for; others may have gone.
        sets: gets the sets of these.
    """
    if table is None:
        return {}
    place = {member: at for at, member in enumerate(members)}
    now = np.array([place.get(member, -1) for member in known], dtype=np.int64)
    coded = table.column("members").combine_chunks().dictionary_encode()
    bases = []
    for bits in coded.dictionary.to_pylist():
        mine = now[np.flatnonzero(np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=len(known)))]
        mine = np.sort(mine[mine >= 0])
        bases.append(sets.add(mine) if len(mine) else -1)
    base = np.array(bases, dtype=np.int64)[coded.indices.to_numpy()]
    nodes = table.column("node").combine_chunks().dictionary_encode()
    found = {}
    for code, node in enumerate(nodes.dictionary.to_pylist()):
        at = np.flatnonzero((nodes.indices.to_numpy() == code) & (base >= 0))
        if len(at):
            found[node] = _rows(layout, table.take(pa.array(at)))
            found[node].base = base[at]
    return found


def _rows(layout: Layout, table: pa.Table) -> Rows:
    count = table.num_rows
    found = Rows.empty(layout, count)
    for name in _NUMBERS:
        setattr(found, name, table.column(name).to_numpy().copy())
    for name in ("docs", "times", "nodes", "taken"):
        flat = table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False)
        setattr(found, name, flat.astype(np.int64).reshape(getattr(found, name).shape))
    texts = table.column("texts").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    found.texts = texts.reshape(found.texts.shape)
    if layout.values:
        for row, kept in enumerate(table.column("kept").to_pylist()):
            found.kept[row] = [_value(each) for each in json.loads(kept)]
    events = table.column("events")
    if events.null_count < count:
        alike = dict[frozenset[int], frozenset[int]]()  # rows of several queries have one object
        for row, each in enumerate(events.to_pylist()):
            found.events[row] = None if each is None else alike.setdefault(docs := frozenset(each), docs)
    return found


def write_steps(home: Home, tag: str, batch: int, kept: KeptSteps) -> StateFile | None:
    """Write the rows that are kept after a batch; nothing names the file yet, whose name begins with ``tag``."""
    members = {
        name: sorted({member for each in of if each.state for member in each.members})
        for name, of in sorted(kept.rows.items())
    }
    tables = [
        _table(name, each, place, node, rows)
        for name, of in sorted(kept.rows.items())
        for place in [{member: at for at, member in enumerate(members[name])}]
        for each in of
        for node, rows in sorted(each.state.items())
        if len(rows)
    ]
    if not tables:
        return None
    facts = {
        "settled": {" ".join(str(each) for each in line if each is not None): t for line, t in kept.settled.items()},
        "waits": kept.waits,
        "versions": list(kept.versions.items()),
        "oldest": kept.oldest,
        "members": {name: of for name, of in members.items() if of},
    }
    table = pa.concat_tables(tables).replace_schema_metadata({_FACTS: json.dumps(facts)})
    path = home.folder("witness") / f"{tag}-steps.parquet"
    made = write_sealed(path, lambda target: pq.write_table(table, target, **PAGE_CHECKSUMS))
    step("batch.steps")
    return facts_of_held_file(home.root, made, "steps", batch)


def _table(name: str, kept: KeptRows, place: Mapping[Member, int], node: str, rows: Rows) -> pa.Table:
    count = len(rows)
    at = np.array([place[member] for member in kept.members], dtype=np.int64)
    events = [None] * count if rows.events[0] is None else [sorted(each) for each in documents_of(rows)]
    columns = {
        "step": pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), [name]).cast(pa.string()),
        "members": _bits(kept.sets, at, len(place), rows),
        "node": pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), [node]).cast(pa.string()),
        **{each: getattr(rows, each) for each in _NUMBERS},
        **{each: _lists(getattr(rows, each), pa.int64()) for each in ("docs", "times", "nodes", "taken")},
        "texts": _lists(rows.texts, pa.string()),
        "kept": [json.dumps([_json(each) for each in row]) for row in rows.kept]
        if rows.kept.shape[1]
        else [""] * count,
        "events": pa.array(events, pa.list_(pa.int64())),
    }
    return pa.table(columns, schema=STEP_SCHEMA)


def _lists(values: Any, kind: pa.DataType) -> pa.Array:
    count, width = values.shape
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(ends, pa.array(values.reshape(-1), kind))


def _bits(sets: MemberSets, at: Int64s, count: int, rows: Rows) -> pa.Array:
    """Return the members of each row as bits."""
    both, which = np.unique(np.column_stack([rows.base, rows.box]), axis=0, return_inverse=True)
    found = []
    for base, *box in both.tolist():
        there = np.zeros(count, dtype=np.bool_)
        there[at[sets.members(base, box)]] = True
        found.append(np.packbits(there).tobytes())
    return pa.array(found, pa.binary()).take(pa.array(which.reshape(-1)))


def _json(value: object) -> object:
    if isinstance(value, Taking):
        return {"taken": [_json(each) if place > 1 else each for place, each in enumerate(value)]}
    return {"number": str(value)} if isinstance(value, Fraction) else value


def _value(stored: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    if "number" in stored:
        return Fraction(stored["number"])
    return Taking(*map(_value, stored["taken"]))
