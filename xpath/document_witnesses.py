"""Witness rows of documents, collected one document after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lxml import etree

from xscl.base.alike_rows import OF_EVENT
from xscl.base.arrow_schemas import REFUSED, WITNESS_SCHEMA
from xscl.base.errors import DocumentLimitError
from xscl.xpath.automaton.automaton import Automaton, Move
from xscl.xpath.automaton.chains import check_characters, check_entries
from xscl.xpath.automaton.row_template import ChainEntry
from xscl.xpath.automaton.states import WitnessSpec, spec_digests
from xscl.xpath.automaton.walk import DeferredRow, Visit, Walk
from xscl.xpath.fact_rows import NO_FACTS, Facts, FactVariables, fact_columns
from xscl.xpath.moves.visits import ChunkVisits
from xscl.xpath.witness_columns import FlatRows, Visits, arrow_columns, rows_of_deferred, rows_of_visits, walked

__all__ = ["Witness", "WitnessColumns", "match_document"]

_MANY_ROWS = 250_000
"""Rows of one Arrow batch, but for a document that has more by itself."""


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
    rows = WitnessColumns()
    start = automaton.start(channel)
    if start is not None:
        rows.take(0, start, root, Walk(automaton))
    found = pa.Table.from_arrays(rows.columns()[1], names=WITNESS_SCHEMA.names[len(OF_EVENT) :]).to_pylist()
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


class WitnessColumns:
    """Gathers what documents' walks find, and makes columns of it."""

    def __init__(self, known: FactVariables = NO_FACTS) -> None:
        """``known`` are the facts that need no rows of their own."""
        self._known = known
        self._facts: list[Facts] = []
        self._visits: list[Visit] = []
        self._of: list[tuple[int, int]] = []
        """Documents, by their place in the batch, and the number of their visits."""
        self._columns: list[Visits] = []
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

    def take_following(self, visits: ChunkVisits) -> None:
        """Take the next documents of a chunk, until there are enough."""
        room = _MANY_ROWS - self._rows, _MANY_ENTRIES - self._entries, _MANY_CHARACTERS - self._characters
        found, facts, rows, entries, characters = visits.following(*room)
        self._columns.append(found)
        self._facts.append(facts)
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
        """Return each row's place of its document in the batch; and the columns from ``var`` on.

        Facts are left to ``facts``, which is asked for afterwards.
        """
        numbers: dict[str, int] = {}
        visits = [each for each in self._columns if len(each.documents)]
        if self._visits:
            of = np.array(self._of, dtype=np.int32)
            visits.append(walked(np.repeat(of[:, 0], of[:, 1]), self._visits))
        parts = [rows_of_visits(each, numbers) for each in visits]
        if self._deferred or self._refused or not parts:
            parts.append(rows_of_deferred(self._deferred, self._refused, numbers))
        flats = []
        behind = 0
        for flat, values in parts:
            flats.append(flat._replace(values=np.where(flat.values < 0, -1, flat.values + behind)))
            behind += len(values)
        flat = self._without_facts(FlatRows(*map(np.concatenate, zip(*flats, strict=True))))
        return arrow_columns(flat, list(numbers), pa.concat_arrays([values for _, values in parts]))

    def _without_facts(self, flat: FlatRows) -> FlatRows:
        """Note the facts among some rows, and return the rows without those that are nothing else."""
        numbers = self._known.numbers(flat.variables)
        if not (numbers >= 0).any():
            return flat
        self._facts.append(Facts(flat.documents[numbers >= 0].astype(np.int64), numbers[numbers >= 0]))
        # No chain entry belongs to a row that goes.
        kept = (numbers < 0) | (flat.entries > 0)
        return flat._replace(
            documents=flat.documents[kept],
            variables=flat.variables[kept],
            nodes=flat.nodes[kept],
            functions=flat.functions[kept],
            values=flat.values[kept],
            entries=flat.entries[kept],
        )

    def facts(self) -> tuple[npt.NDArray[np.int64], list[pa.Array]] | None:
        """Return the rows of facts as ``columns`` returns all others; None: no document has any."""
        if not any(len(each.documents) for each in self._facts):
            return None
        return fact_columns(self._known, self._facts)
