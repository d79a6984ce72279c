"""Documents and the automaton to witness rows (R_docW and R_binW of the thesis, 6.4, in one relation), in Arrow.

A row is one node of one wanted variable with one of its values, and ``chain``: the rows of R_bin on the way from the
document node to it, and those that hang off that way towards output nodes.  Every leaf of a reduced pattern is joined,
so the chains of matched rows hold every structural fact a match can use, and stage 2 needs no look-up by document.
``r_doc`` and ``r_bin`` are views of this relation.

The law, tested against lxml: the rows of a variable are the nodes that its definition selects as an XPath; a chain
entry (u, w, a, b) says that a is selected by u's definition and b by the rest of w's definition from a.

A walk notes visits; rows are made of the visits of many documents at once, column by column, so that a row costs no
Python of its own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain as chained
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from xscl.base.arrow_schemas import CHAIN, REFUSED
from xscl.base.errors import DocumentLimitError, XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.values import apply_functions, value_hashes
from xscl.xpath.automaton import Automaton, Move
from xscl.xpath.chains import check_characters, check_entries
from xscl.xpath.parts import Part, Parts
from xscl.xpath.row_columns import xpath_numbers
from xscl.xpath.row_template import ChainEntry
from xscl.xpath.runs import gather, starts
from xscl.xpath.states import SpecKey, WitnessSpec, spec_digests
from xscl.xpath.walk import DeferredRow, Visit, Walk

__all__ = [
    "WITNESS_SCHEMA",
    "ChainEntry",
    "FlatRows",
    "Witness",
    "arrow_columns",
    "match_document",
    "event_columns",
    "witness_rows",
]

WITNESS_SCHEMA = pa.schema(
    [
        ("docid", pa.int64()),
        ("ts", pa.int64()),  # event time, microseconds
        ("item", pa.int64()),  # docid of the item's first version: versions of one item never join
        ("place", pa.string()),  # channel and id, by which ONCE orders equal times
        ("late", pa.bool_()),
        ("membership", pa.int32()),  # number of the streams it belongs to; 0: none
        ("var", pa.int64()),
        ("node", pa.int32()),
        ("fn", pa.string()),
        ("strval", pa.string()),
        ("num", pa.float64()),
        ("h", pa.int64()),
        ("chain", CHAIN),
    ]
)
_OF_EVENT = ("docid", "ts", "item", "place", "late", "membership")
_MANY_ROWS = 250_000
"""Rows of one Arrow batch, but for a document that has more by itself."""
_MANY_BYTES = 8 << 20
"""Bytes of documents whose names are kept at a time."""
_MANY_ENTRIES = 2_000_000
"""Chain entries, likewise."""
_MANY_CHARACTERS = 1 << 26
"""Characters of values, likewise."""


@dataclass(frozen=True, slots=True)
class Witness:
    """One row: a node of a variable, one value of it and the bindings of R_bin around it."""

    var: int
    node: int
    function: str | None
    """The function applied, '' for none; None: a row without a value."""
    value: str | None
    number: float | None
    """XPath ``number()`` of the value, None where it is none."""
    hash: int
    """64 bits of the value, for joining; 0 without a value."""
    chain: tuple[ChainEntry, ...]


def match_document(automaton: Automaton, channel: str, root: etree._Element) -> list[Witness]:
    """Return all witness rows of one document of ``channel``.

    Raises:
        DocumentLimitError: bindings multiply beyond ``chains.MAX_CHAIN_ENTRIES``, or values beyond
            ``chains.MAX_VALUE_CHARACTERS``.
    """
    rows = _Rows()
    start = automaton.start(channel)
    if start is not None:
        rows.take(0, start, root, Walk(automaton))
    found = pa.Table.from_arrays(rows.columns()[1], names=WITNESS_SCHEMA.names[len(_OF_EVENT) :]).to_pylist()
    return [
        Witness(
            row["var"],
            row["node"],
            row["fn"],
            row["strval"],
            row["num"],
            row["h"],
            tuple((entry["var1"], entry["var2"], entry["node1"], entry["node2"]) for entry in row["chain"]),
        )
        for row in found
    ]


def witness_rows(automaton: Automaton, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows (docid, channel, id, item, ts, late, content; membership if wanted) to rows of ``WITNESS_SCHEMA``.

    A document that cannot be matched gives one row of variable ``REFUSED`` with the reason as its value.

    A spec that asks too much of a document gives such a row with a digest in its chain: (``REFUSED``, digest, 0, 0).
    Every node of the spec's variable then has a row whose chain is this entry.
    """
    batch = _Batch(automaton, events)
    while batch.waits:
        # lxml never forgets a name of a living thread.
        yield in_fresh_dictionary(batch.following)


def event_columns(events: pa.RecordBatch) -> list[pa.Array]:
    """Return the columns that all rows of an event share: the first ones of ``WITNESS_SCHEMA``."""
    place = pc.binary_join_element_wise(events.column("channel"), events.column("id"), "\0")
    told = {"place": place, "membership": pa.repeat(pa.scalar(0, pa.int32()), events.num_rows)}
    told |= {name: events.column(name) for name in _OF_EVENT if name in events.schema.names}
    return [told[name] for name in _OF_EVENT]


class _Batch:
    """A batch of events, some documents at a time, until their rows are ``full`` or ``_MANY_BYTES`` are parsed."""

    def __init__(self, automaton: Automaton, events: pa.RecordBatch) -> None:
        self.automaton = automaton
        self.place = 0
        """Place of the next document."""
        self._parts: list[Part] = []
        """Parts for which the document before it is still to be walked, the next one last."""
        self._refused: list[SpecKey] = []
        """Specs that were refused that document."""
        self._told: set[int] = set()
        """The digests of these."""
        self.channels = events.column("channel").to_pylist()
        # As bytes: lxml would make them of strings first.
        self.contents = events.column("content").cast(pa.binary())
        self.shared = event_columns(events)

    @property
    def waits(self) -> bool:
        """Whether something is left to be walked."""
        return bool(self._parts) or self.place < len(self.channels)

    def following(self) -> pa.RecordBatch:
        """Return the rows of the next documents, or of some specs in one."""
        # What is noted here refers to itself nowhere and is gone when the part is done.  To look for garbage in it, and
        # in the automaton each time, would take a quarter of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._following()
        finally:
            if collecting:
                gc.enable()

    def _following(self) -> pa.RecordBatch:
        rows = _Rows()
        walk = Walk(self.automaton)
        size = 0
        while self.waits and not rows.full and size < _MANY_BYTES:
            if self._parts:
                self._next_part(rows)
                continue
            place = self.place
            self.place += 1
            start = self.automaton.start(self.channels[place])
            if start is None:
                continue
            try:
                content = self.contents[place].as_py()
                size += len(content)
                rows.take(place, start, parse_stored(content), walk)
            except MemoryError:
                raise  # that is no fault of the document
            except DocumentLimitError:
                # All specs together ask too much of it; so may one of them alone.
                self._parts = _parts_of(self.automaton).of(self.channels[place])
            except Exception as error:  # whatever it is, it is this document's, and costs this document only
                rows.refuse(
                    place, error.message if isinstance(error, XsclError) else f"{type(error).__name__}: {error}"
                )
        documents, columns = rows.columns()
        arrays = [*(column.take(documents) for column in self.shared), *columns]
        return pa.RecordBatch.from_arrays(arrays, schema=WITNESS_SCHEMA)

    def _next_part(self, rows: _Rows) -> None:
        """Walk the document that asks too much for one part of the specs."""
        part = self._parts.pop()
        place = self.place - 1
        channel = self.channels[place]
        root = parse_stored(self.contents[place].as_py())
        try:
            if (start := part.automaton.start(channel)) is not None:
                rows.take(place, start, root, Walk(part.automaton))
        except DocumentLimitError as error:
            if part.spec is None:
                self._parts += part.halves
            else:
                self._refused += part.specs
                for digest in spec_digests(part.spec) - self._told:
                    self._told.add(digest)
                    rows.refuse(place, error.message, digest)
                rows.mark(place, channel, root, part.spec)
        if not self._parts:
            _parts_of(self.automaton).refuse(self._refused)
            self._refused, self._told = [], set()


def _parts_of(automaton: Automaton) -> Parts:
    """Return the specs of an automaton, cut up when that is asked for first."""
    parts = automaton.follower
    if not isinstance(parts, Parts):
        parts = automaton.follower = Parts(automaton.asked.values())
    return parts


class _Rows:
    """Gathers what documents' walks find, and makes columns of it."""

    def __init__(self) -> None:
        self._visits: list[Visit] = []
        self._of: list[tuple[int, int]] = []
        """Documents, by their place in the batch, and the number of their visits."""
        self._deferred: list[tuple[int, DeferredRow]] = []
        self._refused: list[tuple[int, str, int]] = []
        # What they are, as far as it is known.
        self._rows = 0
        self._entries = 0
        self._characters = 0

    def take(self, document: int, start: Move, root: etree._Element, walk: Walk) -> None:
        """Walk the document at this place of the batch; all its rows are taken, or none.

        Raises:
            DocumentLimitError: bindings multiply, or values.
        """
        walk.document(start, root)
        rows = pairs = entries = characters = 0
        deferred: list[tuple[int, DeferredRow]] = []
        for template, text, _ in walk.visits:
            rows += template.rows
            pairs += template.pairs
            entries += template.chain
            if text is not None:
                characters += template.rows * len(text)
        check_entries(pairs)
        check_characters(characters)
        if walk.up:
            for row in walk.deferred_rows():
                functions = len(row.functions)
                rows += functions
                entries += functions * len(row.chain)
                characters += functions * len(row.text or "")
                deferred.append((document, row))
        self._deferred += deferred
        self._visits += walk.visits
        self._of.append((document, len(walk.visits)))
        self._rows += rows
        self._entries += entries
        self._characters += characters

    @property
    def full(self) -> bool:
        """Further documents would make too large a batch."""
        return self._rows >= _MANY_ROWS or self._entries >= _MANY_ENTRIES or self._characters >= _MANY_CHARACTERS

    def refuse(self, document: int, reason: str, digest: int = 0) -> None:
        """Say why a document has no rows, or none of the spec with this digest."""
        self._refused.append((document, reason, digest))

    def mark(self, document: int, channel: str, root: etree._Element, spec: WitnessSpec) -> None:
        """Have rows of a refused spec, of one function, that say so: by these stage 2 knows whoever has the spec.

        Others may ask for rows of the same variable, and those must not answer for it.
        """
        (function,) = spec.functions
        bare = Automaton([WitnessSpec(spec.definition, (None if function is None else "",), ())])
        marks = [(REFUSED, digest, 0, 0) for digest in spec_digests(spec)]
        try:
            found = match_document(bare, channel, root)
        except DocumentLimitError:
            return  # nobody has such rows
        for row in found:
            self._deferred.append((document, DeferredRow(row.var, (function,), row.node, row.value, marks)))
            self._rows += 1
            self._characters += len(row.value or "")

    def columns(self) -> tuple[pa.Array, list[pa.Array]]:
        """Return each row's place of its document in the batch; and the columns from ``var`` on."""
        numbers: dict[str, int] = {}
        values: list[str | None] = []
        parts = []
        if self._visits:
            of = np.array(self._of, dtype=np.int32)
            parts.append(_of_visits(np.repeat(of[:, 0], of[:, 1]), self._visits, numbers, values))
        if self._deferred or self._refused or not parts:
            parts.append(_of_deferred(self._deferred, self._refused, numbers, values))
        return arrow_columns(FlatRows(*map(np.concatenate, zip(*parts, strict=True))), list(numbers), values)


class FlatRows(NamedTuple):
    """Rows in columns, their values and chain entries apart."""

    documents: npt.NDArray[np.int32]
    variables: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int32]
    functions: npt.NDArray[np.int32]
    """Numbers of functions; -1: a row without a value."""
    values: npt.NDArray[np.int64]
    """Places in a list of values; -1: none."""
    entries: npt.NDArray[np.int32]
    """Chain entries of each row."""
    keys: npt.NDArray[np.int64]
    """Two columns: var1 and var2 of the chain entries, row by row."""
    bound: npt.NDArray[np.int32]
    """Two columns: node1 and node2."""


def _of_visits(
    documents: npt.NDArray[np.int32], visits: list[Visit], numbers: dict[str, int], values: list[str | None]
) -> FlatRows:
    """Return the rows of templates, without a step of Python for each."""
    templates, texts, ways = zip(*visits, strict=True)
    known = list(dict.fromkeys(templates))
    order = {template: number for number, template in enumerate(known)}
    which = np.fromiter(map(order.__getitem__, templates), np.int64, len(visits))
    # Functions are numbered in their template; and here, over all templates.
    asked = np.array([numbers.setdefault(name, len(numbers)) for each in known for name in each.asked], dtype=np.int32)
    asked_start = starts([len(each.asked) for each in known])
    value_start = starts(np.array([len(each.asked) for each in known])[which]) + len(values)
    if all(each.asked == ("",) for each in known):
        values += texts
    else:
        for template, text in zip(templates, texts, strict=True):
            values += (text if name == "" or text is None else apply_functions(name, text) for name in template.asked)
    rows = np.array([each.rows for each in known])
    at, visit = gather(starts(rows)[which], rows[which])
    functions = np.concatenate([each.functions for each in known])[at]
    entries = np.array([each.chain for each in known])
    entry_at, entry_visit = gather(starts(entries)[which], entries[which])
    places = np.concatenate([each.places for each in known])[entry_at]
    # Each visit's open nodes, and the node itself behind them.
    open_nodes = np.fromiter(chained.from_iterable(ways), dtype=np.int32)
    open_counts = np.array([each.way + 1 for each in known])[which]
    open_start = starts(open_counts)
    valued = functions >= 0
    names = np.full(len(at), -1, dtype=np.int32)
    names[valued] = asked[(asked_start[which][visit] + functions)[valued]]
    return FlatRows(
        documents=documents[visit],
        variables=np.concatenate([each.variables for each in known])[at],
        nodes=open_nodes[open_start + open_counts - 1][visit],
        functions=names,
        values=np.where(valued, value_start[visit] + functions, -1),
        entries=np.concatenate([each.entries for each in known])[at],
        keys=np.concatenate([each.keys for each in known])[entry_at],
        bound=open_nodes[open_start[entry_visit][:, np.newaxis] + places],
    )


def _of_deferred(
    deferred: list[tuple[int, DeferredRow]],
    refused: list[tuple[int, str, int]],
    numbers: dict[str, int],
    values: list[str | None],
) -> FlatRows:
    rows: list[tuple[int, int, int, int, int, int]] = []
    chains: list[ChainEntry] = []
    for document, row in deferred:
        for function in row.functions:
            place, number = -1, -1
            if function is not None and row.text is not None:
                place, number = len(values), numbers.setdefault(function, len(numbers))
                values.append(apply_functions(function, row.text))
            rows.append((document, row.variable, row.node, number, place, len(row.chain)))
            chains += row.chain
    for document, reason, digest in refused:
        rows.append((document, REFUSED, 0, -1, len(values), bool(digest)))
        values.append(reason)
        if digest:
            chains.append((REFUSED, digest, 0, 0))
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    entries = np.array(chains, dtype=np.int64).reshape(-1, 4)
    return FlatRows(
        documents=table[:, 0].astype(np.int32),
        variables=table[:, 1],
        nodes=table[:, 2].astype(np.int32),
        functions=table[:, 3].astype(np.int32),
        values=table[:, 4],
        entries=table[:, 5].astype(np.int32),
        keys=entries[:, :2],
        bound=entries[:, 2:].astype(np.int32),
    )


def arrow_columns(flat: FlatRows, names: list[str], values: list[str | None]) -> tuple[pa.Array, list[pa.Array]]:
    """Return each row's place of its document in the batch; and the columns from ``var`` on.

    A row that asks for a value and has none is left out.
    """
    texts = pa.array(values, pa.string())
    no_function, no_value = flat.functions < 0, flat.values < 0
    hashes = value_hashes(values)
    at = np.where(no_value, 0, flat.values)
    numbers = xpath_numbers(texts)
    if not values:  # nothing to take from
        hashes, numbers = np.zeros(1, dtype=np.int64), np.full(1, np.nan)
    number = numbers[at]
    entries = pa.StructArray.from_arrays(
        [flat.keys[:, 0], flat.keys[:, 1], flat.bound[:, 0], flat.bound[:, 1]], fields=list(CHAIN.value_type)
    )
    offsets = np.concatenate([[0], np.cumsum(flat.entries)]).astype(np.int32)
    columns = [
        pa.array(flat.variables),
        pa.array(flat.nodes),
        pa.array(names, pa.string()).take(pa.array(flat.functions, mask=no_function)),
        texts.take(pa.array(flat.values, mask=no_value)),
        pa.array(number, mask=np.isnan(number) | no_function),
        pa.array(np.where(no_function, 0, hashes[at])),
        pa.ListArray.from_arrays(offsets, entries, type=CHAIN),
    ]
    documents = pa.array(flat.documents)
    if None in values:
        # A function without a value there: the row satisfies no comparison.
        kept = pa.array(no_function | texts.is_valid().to_numpy(zero_copy_only=False)[at])
        return documents.filter(kept), [column.filter(kept) for column in columns]
    return documents, columns
