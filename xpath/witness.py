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

from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.alike_rows import event_columns
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.collecting import collecting_later
from xscl.base.errors import DocumentLimitError, EngineError, FunctionFailedError, XsclError
from xscl.base.own_functions import refusal_text
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.xpath.automaton.automaton import Automaton, Move
from xscl.xpath.automaton.parts import Part, Parts
from xscl.xpath.automaton.states import SpecKey, spec_digests
from xscl.xpath.automaton.walk import Walk
from xscl.xpath.columns.shredding import shred
from xscl.xpath.document_witnesses import WitnessColumns
from xscl.xpath.fact_rows import NO_FACTS, FactVariables
from xscl.xpath.moves.paths import PathMoves
from xscl.xpath.moves.visits import ChunkVisits
from xscl.xpath.runs import Int64s

__all__ = ["witness_rows"]

_MANY_BYTES = 8 << 20
"""Bytes of documents whose names are kept at a time."""
_CHUNK, _CHUNK_BYTES = 5_000, 4 << 20
"""Documents, and their bytes, that are columns at a time: what is made of them stays in the processor's memory."""
_FEW, _FEW_BYTES = 50, 50_000
"""Documents, and their bytes, below which trees are made sooner than columns."""

_MOVES: WeakKeyDictionary[Automaton, PathMoves] = WeakKeyDictionary()


def witness_rows(
    automaton: Automaton, events: pa.RecordBatch, known: FactVariables = NO_FACTS
) -> Iterator[pa.RecordBatch]:
    """Turn rows (docid, channel, id, item, ts, late, content; membership if wanted) into rows of ``WITNESS_SCHEMA``.

    A document that cannot be matched gives one row of variable ``REFUSED`` with the reason as its value.

    The facts that are ``known`` stand together, those of a document in the chain of one row (``fact_rows``).

    A spec that asks too much of a document gives such a row with a digest in its chain: (``REFUSED``, digest, 0, 0).
    Every node of the spec's variable then has a row whose chain is this entry.
    """
    batch = _Batch(automaton, events, known)
    while batch.waits:
        # lxml never forgets a name of a living thread.
        yield from in_fresh_dictionary(batch.following)


class _Batch:
    """A batch of events, some documents at a time, until their rows are ``full`` or ``_MANY_BYTES`` are parsed."""

    def __init__(self, automaton: Automaton, events: pa.RecordBatch, known: FactVariables) -> None:
        self.automaton = automaton
        self._known = known
        self._next = 0
        """Place of the first document behind those that were looked at."""
        self._visits: ChunkVisits | None = None
        """Visits of documents in columns whose rows are still to be made."""
        self._trees: list[int] = []
        """Places of documents that are still to be walked, the next one last."""
        self._place = 0
        """Place of the document that was walked last."""
        self._parts: list[Part] = []
        """Parts for which this document is still to be walked, the next one last."""
        self._refused: list[SpecKey] = []
        """Specs that were refused that document."""
        self._told: set[int] = set()
        """The digests of these."""
        self._beyond = False
        """Most documents of a chunk had to be walked all the same."""
        channels = events.column("channel").dictionary_encode()
        self._names: list[str] = channels.dictionary.to_pylist()
        """Channels of the events."""
        self._channels = channels.indices.to_numpy()
        """Place of each event's channel among them."""
        # As bytes: lxml would make them of strings first.
        self.contents = events.column("content").cast(pa.binary())
        self._sizes = pc.binary_length(self.contents).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        self._valid = self.contents.is_valid().to_numpy(zero_copy_only=False)
        self._starts: dict[str, Move | None] = {}
        self.shared = event_columns(events)

    @property
    def waits(self) -> bool:
        """Whether something is left to be looked at."""
        visits = self._visits is not None and self._visits.waits
        return bool(self._parts or visits or self._trees) or self._next < len(self._channels)

    def _channel(self, place: int) -> str:
        return self._names[int(self._channels[place])]

    def following(self) -> list[pa.RecordBatch]:
        """Return the rows of the next documents, or of some specs in one."""
        # What is noted here refers to itself nowhere and is gone when the part is done.  To look for garbage in it, and
        # in the automaton each time, would take a quarter of the time.
        with collecting_later():
            return self._following()

    def _following(self) -> list[pa.RecordBatch]:
        rows = WitnessColumns(self._known)
        walk = Walk(self.automaton)
        size = 0
        while self.waits and not rows.full and size < _MANY_BYTES:
            if self._parts:
                self._next_part(rows)
            elif self._visits is not None and self._visits.waits:
                rows.take_following(self._visits)
            elif self._trees:
                size += self._next_tree(rows, walk)
            else:
                self._next_chunk()
        found = [rows.columns(), rows.facts()]
        return [
            pa.RecordBatch.from_arrays(
                [*(column.take(documents) for column in self.shared), *columns], schema=WITNESS_SCHEMA
            )
            for documents, columns in filter(None, found)
        ]

    def _next_chunk(self) -> None:
        """Look at the next documents, those in the stored form by columns."""
        low = self._next
        sums = np.cumsum(self._sizes[low : low + _CHUNK])
        high = self._next = low + max(int(np.searchsorted(sums, _CHUNK_BYTES)), 1)
        high = self._next = min(high, len(self._channels))
        starts = self._starts = {name: self.automaton.start(name) for name in self._names}
        begins = np.array([start is not None for start in starts.values()], dtype=np.bool_)
        places = low + np.flatnonzero(begins[self._channels[low:high]])
        left = places
        if not self._beyond and (len(places) >= _FEW or sums[high - low - 1] >= _FEW_BYTES):
            left = self._by_columns(places, {name: move for name, move in starts.items() if move is not None})
            self._beyond = self._visits is not None and 2 * len(left) > len(places) and not self._visits.postponed
        self._trees = left[::-1].tolist()

    def _by_columns(self, places: Int64s, begins: Mapping[str, Move]) -> Int64s:
        """Find the visits of documents in columns; return the places of all others."""
        moves = _MOVES.setdefault(self.automaton, PathMoves())
        moves.names.keep_in_bounds()
        known = places[self._valid[places]]
        root = dict(zip(begins, moves.names.roots(begins).tolist(), strict=True))
        roots = np.array([root.get(name, -1) for name in self._names], dtype=np.int64)[self._channels[known]]
        in_a_row = len(known) > 0 and known[-1] - known[0] == len(known) - 1
        contents = self.contents.slice(known[0], len(known)) if in_a_row else self.contents.take(pa.array(known))
        chunk = shred(contents, roots, moves.names)
        try:
            self._visits = ChunkVisits(self.automaton, chunk, moves, begins, self._known)
        except FunctionFailedError:
            # A walk tells which document it is of, and whose error.
            self._visits = None
            return places
        chunk.places[:] = known[chunk.places]
        return np.setdiff1d(places, chunk.places[~self._visits.left], assume_unique=True)

    def _next_tree(self, rows: WitnessColumns, walk: Walk) -> int:
        """Walk the next document; return its size."""
        place = self._place = self._trees.pop()
        start = self._starts[self._channel(place)]
        assert start is not None
        try:
            rows.take(place, start, parse_stored(self.contents[place].as_py()), walk)
        except (MemoryError, EngineError):
            raise  # that is no fault of the document
        except DocumentLimitError:
            # All specs together ask too much of it; so may one of them alone.
            self._parts = _parts_of(self.automaton).of(self._channel(place))
        except Exception as error:  # whatever it is, it is this document's, and costs this document only
            rows.refuse(place, error.message if isinstance(error, XsclError) else f"{type(error).__name__}: {error}")
        return int(self._sizes[place])

    def _next_part(self, rows: WitnessColumns) -> None:
        """Walk the document that asks too much for one part of the specs."""
        part = self._parts.pop()
        place = self._place
        channel = self._channel(place)
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
                    rows.refuse(place, refusal_text(error), digest)
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
