"""Results of stage 2, in one relation: documents that were found together, and their meaning for queries.

Documents whose matched edges are the same, in windows that say the same, are of one **class**: they satisfy the same
groups with the same nodes.  So a combination of documents is stored with the number of its class, and what the class
means is stored once: rows of R_out and matches, each with the set of groups that have it.  However many queries are
satisfied, a combination costs a few numbers, and nothing is ever written per query.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.arrow_schemas import MEMBER
from xscl.base.docids import place_of
from xscl.base.sealed import PAGE_CHECKSUMS
from xscl.templates.class_columns import ClassColumns, class_batch
from xscl.templates.columns import Int32s, Int64s
from xscl.templates.members import Membership, sees
from xscl.templates.ordinals import Ordinals
from xscl.templates.pair_spans import PairSpans, span_table
from xscl.templates.plans import LiveGroup
from xscl.templates.set_apart import SetApart, classes_of, parted, parted_meanings

__all__ = [
    "FEW_COMBINATIONS",
    "MAX_MATCHES",
    "MAX_ROUT",
    "RESULT_SCHEMA",
    "SPANS_FILE",
    "Admitted",
    "ClassRow",
    "Member",
    "Refusal",
    "ResultColumns",
    "admitted",
    "without_empty_columns",
]

RESULT_SCHEMA = pa.schema(
    [
        ("relation", pa.string()),  # docs, rout, match, refused, or pairs, whose number is in docs
        ("origin", pa.int64()),  # docs, rout, match: who numbered the class
        ("class", pa.int32()),  # docs, rout, match: unique within its origin
        ("d1", pa.int64()),  # docs of one or two blocks
        ("d2", pa.int64()),
        ("docs", pa.list_(pa.int64())),  # in block order: docs of three and more blocks, refused
        ("instance", pa.int32()),  # rout, match
        ("nodes", pa.list_(pa.int32())),  # rout: meta-variables; match: result and SELECT nodes
        ("witness", pa.list_(pa.int32())),  # match: the meta-variables of one row of R_out
        ("groups", pa.list_(pa.int64())),  # rout, match, refused
        ("cases", pa.list_(pa.int32())),  # the case of each group
        ("exchange", pa.int64()),  # rout, match: as ``ClassRow.exchange``
        ("members", pa.list_(MEMBER)),  # refused: the documents
        ("others", pa.list_(pa.list_(pa.int32()))),  # rout: of each node all that may stand in its place; NULL: itself
        ("reason", pa.string()),  # refused: a ``Refusal``
        ("later", pa.int64()),  # match: as ``ClassRow.later``; NULL is 0
    ]
)

MAX_MATCHES = 100_000
"""Different matches of one query in one combination of documents; with more the query has none in it."""
MAX_ROUT = 100_000
"""Rows of R_out of one query in one combination, those that stand alike counted as one; with more none is listed."""
Refusal = Literal["matches", "steps", "rout", "links"]
"""The limit that a query exceeds in a combination of documents: ``MAX_MATCHES``, ``solve.MAX_STEPS``, ``MAX_ROUT``
of its rows of R_out or of a link."""
_FEW_PAIRS = 1_000_000
"""Pairs that are brought together with others in one file."""
FEW_COMBINATIONS = 10_000
"""Combinations of documents for which no file of their own is made."""
_MOST_WAITING = 8_000_000
"""Pairs that wait in memory."""
_WRITERS = 2
"""Files of pairs that are written at a time."""
_ALIKE = ["relation", "origin", "class"]
"""Columns with many equal values, one after another."""
SPANS_FILE = "spans.parquet"
"""Name of a file of ``SPAN_SCHEMA``; every other file of results has rows of ``RESULT_SCHEMA``."""


class Member(NamedTuple):
    """A document as windows see it."""

    docid: int
    item: int
    """The docid of the item's first version: versions of one item never join."""
    ts: int
    place: str
    """Channel and id, by which equal times are ordered."""
    membership: int = 0
    """Number of the streams it belongs to."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Make a member of a struct of Arrow, which has its fields."""
        return cls(**row)


class Admitted(NamedTuple):
    """Groups whose windows some members satisfy, and the case of each that does."""

    groups: Sequence[int] | Int64s
    cases: Sequence[int] | Int32s


class ClassRow(NamedTuple):
    """A row of R_out, or a match, that every combination of documents of a class has."""

    relation: Literal["rout", "match"]
    instance: int
    nodes: Sequence[int]
    witness: Sequence[int] | None
    by: Admitted
    others: Sequence[Sequence[int]] | None = None
    """The nodes that each of ``nodes`` stands for, in a row of R_out that stands for several."""
    exchange: int | None = None
    """The oldest place of an exchange for which ``ONCE`` leaves it out (``once``): a query has it only if it sees
    members from there or later on.  None: every query has it."""
    later: int | None = None
    """Time from the newest member to the match, microseconds; None: the match has the newest member's time."""

    @property
    def size(self) -> int:
        """The number of rows that it stands for."""
        return 1 if self.others is None else prod(map(len, self.others))


def without_empty_columns(rows: pa.Table) -> pa.Table:
    """Leave out the columns in which no row has a value: a file lacks them, and costs less."""
    return rows.select([name for name in rows.column_names if rows.column(name).null_count < rows.num_rows])


def admitted(
    groups: Iterable[LiveGroup],
    members: Sequence[Member],
    links: tuple[tuple[int, int], ...],
    memberships: Mapping[int, Membership],
    ordinals: Ordinals,
) -> Admitted:
    """Return the groups that see all members and whose windows they satisfy in a case that links these pairs of blocks.

    Cases are disjoint, so there is one for each group.
    """
    seen: dict[tuple[int, ...], bool] = {}

    def sees_all(streams: tuple[int, ...]) -> bool:
        if streams not in seen:
            named = streams or (0,) * len(members)
            pairs = zip(named, members, strict=True)
            seen[streams] = all(sees(memberships, stream, member.membership) for stream, member in pairs)
        return seen[streams]

    places = [place_of(member.docid) for member in members]
    oldest, newest = min(places), max(places)
    docs = np.array([[member.docid for member in members]])
    pairs = [(b.ts - a.ts, (a.ts, a.place) < (b.ts, b.place)) for a, b in combinations(members, 2)]
    found = [
        (live.gid, number)
        for live in groups
        if live.first <= oldest and newest <= live.last and sees_all(live.group.streams)
        for number, case in enumerate(live.group.cases, start=1)
        if live.group.links[number - 1] == links
        and all(bounds.admits(*pair) for bounds, pair in zip(case, pairs, strict=True))
        and (not live.group.rows or ordinals.admit(live.group.rows, live.channels, docs).all())
    ]
    return Admitted(tuple(gid for gid, _ in found), tuple(case for _, case in found))


class ResultColumns:
    """Collects rows of ``RESULT_SCHEMA`` and hands them out as Arrow batches; numbers the classes of one origin."""

    def __init__(self, origin: int, folder: Path | None = None) -> None:
        """``folder`` is where they are written; none is needed if they are only handed out."""
        self.origin = origin
        self._folder = folder
        self._files = 0
        self.counts: Counter[str] = Counter()
        """Rows of R_out, matches, links and pairs so far, with every combination of documents counted."""
        self._rows: list[tuple[object, ...]] = []
        self._classes: list[ClassColumns] = []
        self._made: list[pa.RecordBatch] = []
        """Batches that are made of the rest of both."""
        self._pairs: list[tuple[Int64s, Int64s, Int32s]] = []
        self._links: list[pa.Table] = []
        self._longer: list[tuple[Int64s, Int32s]] = []
        """Combinations of three and more documents."""
        self._spans: list[PairSpans] = []
        self._waiting = 0
        self._sizes = array("q")
        """Numbers of rows of R_out and of matches, both of each class."""

    def add_class(self, rows: Iterable[ClassRow]) -> int:
        """Add a class and what it means; return its number."""
        number = len(self._sizes) // 2
        sizes = [0, 0]
        for row in rows:
            sizes[row.relation == "match"] += row.size
            of_class = (row.relation, self.origin, number, None, None, None)
            meant = (row.instance, row.nodes, row.witness, row.by.groups, row.by.cases, row.exchange)
            self._rows.append((*of_class, *meant, None, row.others, None, row.later))
        self._sizes.extend(sizes)
        return number

    def add_classes(self, count: int, parts: Sequence[ClassColumns]) -> Int32s:
        """Add the meanings of some of so many new classes; return each number, -1 where nothing is said of a class."""
        sizes = np.zeros((count, 2), dtype=np.int64)
        for part in parts:
            sizes[part.classes, int(part.relation == "match")] += part.size
        said = sizes.any(axis=1)
        numbers = np.where(said, len(self._sizes) // 2 + np.cumsum(said) - 1, -1)
        self._sizes.frombytes(sizes[said].tobytes())
        self._classes += [part.numbered(numbers) for part in parts]
        return numbers.astype(np.int32)

    def add_pairs(self, left: Int64s, right: Int64s, classes: Int32s) -> None:
        """Add pairs of documents, or single documents with -1 on the right, and the class of each."""
        if len(left):
            self._pairs.append((left, right, classes))
            self._count(classes)

    def add_spans(self, spans: PairSpans) -> None:
        """Add pairs that are told by spans; nothing is written of each."""
        if self._folder is None:
            self.add_pairs(*spans.pairs())
        elif len(spans.docs):
            self._spans.append(spans)
            sizes = np.array(self._sizes).reshape(-1, 2)[spans.classes]
            rout, matches = (spans.end - spans.begin) @ sizes
            self.counts.update(rout=int(rout), match=int(matches))

    def add_combinations(self, docs: Int64s, classes: Int32s) -> None:
        """Add combinations of equally many documents, two or more: a row of docids and the class of each."""
        if docs.shape[1] == 2:
            self.add_pairs(docs[:, 0], docs[:, 1], classes)
        elif len(docs):
            self._longer.append((docs, classes))
            self._count(classes)

    def _count(self, classes: Int32s) -> None:
        self._waiting += len(classes)
        first = int(classes.min())
        counts = np.bincount(classes - first)
        rout, matches = counts @ np.array(self._sizes[2 * first : 2 * (first + len(counts))]).reshape(-1, 2)
        self.counts.update(rout=int(rout), match=int(matches))

    def add_documents(self, docs: Sequence[int], number: int) -> None:
        """Add a combination of two or more documents, and its class."""
        two = (*docs, None) if len(docs) == 2 else (None, None, docs)
        self._rows.append(("docs", self.origin, number, *two, *(None,) * 10))
        rout, matches = self._sizes[2 * number : 2 * number + 2]
        self.counts.update(rout=rout, match=matches)

    def add_links(self, rows: pa.Table) -> None:
        """Add rows of links: key ``link``, ``members`` and ``nodes``."""
        self._links.append(rows)
        self.counts.update(link=rows.num_rows)

    def add_refused(self, members: Sequence[Member], groups: Sequence[int], reason: Refusal) -> None:
        """Add a refusal: some groups do not get some documents, for a reason."""
        docs = [member.docid for member in members]
        rows = [member._asdict() for member in members]
        self.counts.update(refused=1)
        self._rows.append(("refused", *(None,) * 4, docs, *(None,) * 3, groups, None, None, rows, None, reason, None))

    def add_count(self, pairs: int) -> None:
        """Tell how many pairs of documents were looked at."""
        self.counts.update(pairs=pairs)
        self._rows.append(("pairs", *(None,) * 4, [pairs], *(None,) * 10))

    def take_links(self) -> pa.Table:
        """Return the rows of links; the others are handed out without them."""
        rows, self._links = self._links, []
        return pa.concat_tables(rows)

    def set_apart(self, groups: Collection[int]) -> SetApart | None:
        """Take out the combinations that some groups alone have; None: there are none, or more than wait in memory."""
        if self._files or self._spans or not self._waiting:
            return None
        meant = pa.Table.from_batches(self._meanings(), RESULT_SCHEMA)
        apart = classes_of(meant, groups, len(self._sizes) // 2)
        mine, rest = parted_meanings(meant, apart) if apart.any() else (meant.slice(0, 0), meant)
        self._made = rest.to_batches()
        pairs, self._pairs = parted(self._pairs, apart)
        longer, self._longer = parted(self._longer, apart)
        docs = [*((np.stack([left, right], axis=1), of) for left, right, of in pairs), *longer]
        if not docs:
            return None
        self._waiting -= sum(len(of) for _, of in docs)
        sizes = np.array(self._sizes).reshape(-1, 2)[:, 1]
        matches = sum(int(sizes[of].sum()) for _, of in docs)
        self.counts.update(match=-matches, apart=matches)
        return SetApart(self.origin, docs, mine)

    def spill(self) -> None:
        """Write the pairs so far if they are many."""
        if self._folder is not None and self._waiting >= _MOST_WAITING:
            self._write_pairs(self._folder)

    def write(self) -> Path | None:
        """Write all there is as Parquet files of the folder and return it; None if there is nothing.

        Files lack the columns that no row of theirs has.  A few pairs stand with the rest: a file costs more.
        """
        assert self._folder is not None
        if self._files or self._waiting > FEW_COMBINATIONS:
            self._write_pairs(self._folder)
        if self._spans:
            self._folder.mkdir(parents=True, exist_ok=True)
            table, self._spans = span_table(self.origin, self._spans), []
            options = {"compression": "zstd", "use_dictionary": _ALIKE, **PAGE_CHECKSUMS}
            pq.write_table(table, self._folder / SPANS_FILE, **options)
            self._files += 1
        if rest := list(self.take()):
            self._folder.mkdir(parents=True, exist_ok=True)
            rows = without_empty_columns(pa.Table.from_batches(rest))
            pq.write_table(rows, self._folder / "rest.parquet", **PAGE_CHECKSUMS)
            self._files += 1
        return self._folder if self._files else None

    def _write_pairs(self, folder: Path) -> None:
        if not self._pairs:
            return
        folder.mkdir(parents=True, exist_ok=True)
        options = {"compression": "none", "use_dictionary": _ALIKE, **PAGE_CHECKSUMS}
        with ThreadPoolExecutor(_WRITERS) as pool:
            written = []
            for table in self._pair_tables():
                path = folder / f"docs-{self._files}.parquet"
                self._files += 1
                written.append(pool.submit(pq.write_table, table, path, **options))
        for each in written:
            each.result()  # what could not be written is not to be committed

    def take(self) -> Iterator[pa.RecordBatch]:
        """Iterate over what there is."""
        for table in self._pair_tables():
            columns = [
                table.column(field.name) if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
                for field in RESULT_SCHEMA
            ]
            full = pa.Table.from_arrays(columns, names=RESULT_SCHEMA.names).cast(RESULT_SCHEMA)
            yield from full.combine_chunks().to_batches()
        yield from self._meanings()

    def _meanings(self) -> Iterator[pa.RecordBatch]:
        """Iterate over what is no combination."""
        made, self._made = self._made, []
        yield from made
        if self._classes:
            yield class_batch(self.origin, self._classes, RESULT_SCHEMA)
            self._classes = []
        if self._rows:
            by_column = zip(*self._rows, strict=True)
            arrays = [pa.array(column, type=field.type) for column, field in zip(by_column, RESULT_SCHEMA, strict=True)]
            self._rows = []
            yield pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)

    def _pair_tables(self) -> Iterator[pa.Table]:
        """Iterate over pairs and longer ones, without the columns that they do not have; constants as dictionaries."""
        pairs, self._pairs, self._waiting = self._pairs, [], 0
        few = [part for part in pairs if len(part[0]) < _FEW_PAIRS]
        if few:
            left, right, classes = (np.concatenate(columns) for columns in zip(*few, strict=True))
            pairs = [*(part for part in pairs if len(part[0]) >= _FEW_PAIRS), (left, right, classes)]
        for left, right, classes in pairs:
            yield self._docs_table(classes, {"d1": pa.array(left), "d2": pa.array(right, mask=right < 0)})
        longer, self._longer = self._longer, []
        for docs, classes in longer:
            offsets = pa.array(np.arange(len(docs) + 1, dtype=np.int32) * docs.shape[1])
            lists = pa.ListArray.from_arrays(offsets, pa.array(docs.reshape(-1)))
            yield self._docs_table(classes, {"docs": lists})

    def _docs_table(self, classes: Int32s, docs: Mapping[str, pa.Array]) -> pa.Table:
        zeros = pa.array(np.zeros(len(classes), dtype=np.int32))
        relation = pa.DictionaryArray.from_arrays(zeros, pa.array(["docs"]))
        origin = pa.DictionaryArray.from_arrays(zeros, pa.array([self.origin], pa.int64()))
        return pa.table({"relation": relation, "origin": origin, "class": pa.array(classes), **docs})
