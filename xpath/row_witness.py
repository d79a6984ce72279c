"""Rows to witness rows by columns alone: what is asked of a row channel (``relational``), of many rows at a time.

A row costs the columns that are read, and what is found of it; no step of Python is taken for a row, and none for a
definition that no row of the batch satisfies.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.alike_rows import AlikeRows, LoneRows, event_columns
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.base.mixed import label, read_values
from xscl.xpath.columns.conditions import alternatives
from xscl.xpath.columns.formulas import All, There
from xscl.xpath.fact_rows import NO_FACTS, Facts, FactVariables, fact_columns
from xscl.xpath.relational import Asked, Guard
from xscl.xpath.row_columns import RowColumns
from xscl.xpath.runs import Int64s, distinct, gather
from xscl.xpath.spans.index import SpanIndex
from xscl.xpath.witness_columns import FlatRows, arrow_columns

__all__ = ["ROWS", "RowMatcher", "row_witnesses"]

ROWS = 500_000
"""Number of events whose columns are made at a time."""
_MANY = 1_000_000
"""Rows and chain entries of one Arrow batch, about."""
Bools = npt.NDArray[np.bool_]


class RowMatcher:
    """The specs of one row channel, definition by definition, and the witness rows that they give."""

    def __init__(self, width: int) -> None:
        """``width`` is the number of the channel's columns."""
        self.width = width
        self.asked: dict[int, Sequence[Asked]] = {}
        """Requested rows by the keys of definitions."""
        self._start()

    def _start(self) -> None:
        self._index = SpanIndex()
        self._there: dict[int, list[int]] = {}
        """Columns by the number of a guard that asks for no more than that these are there."""
        self._guards: dict[Guard, int] = {}
        self._uses: dict[int, int] = {}
        """Uses by the number of a guard."""
        self._by_number: dict[int, Guard] = {}
        self._next = 0
        self._filed: dict[int, range] = {}
        """The numbers of each definition's rows."""
        self._live = bytearray()
        self._count = 0
        """Number of requested rows."""
        self._functions: dict[str, int] = {}
        # Of each row asked for, those that are gone among them.
        self._guard, self._variable, self._position, self._function, self._entries = (array("q") for _ in range(5))
        # Of each of their chain entries: var1, var2 and the positions of both.
        self._chain = array("q")
        self._arrays: _Arrays | None = None

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def dimensions(self) -> int:
        """Return the number of ways to read columns; each batch reads a column once for each of them."""
        return self._index.dimensions

    def put(self, definition: int, asked: Sequence[Asked]) -> None:
        """Ask these rows of a definition (its key), and no others; () is nothing."""
        if definition in self.asked:
            del self.asked[definition]
            for number in self._filed.pop(definition):
                self._live[number] = 0
                self._count -= 1
                self._release(self._guard[number])
        if asked:
            self.asked[definition] = asked
            self._file(definition, asked)
        self._arrays = None
        if self._index.worn or len(self._live) > 2 * self._count + 100:
            self._start()
            for known, rows in self.asked.items():
                self._file(known, rows)

    def _file(self, definition: int, asked: Sequence[Asked]) -> None:
        first = len(self._live)
        for row in asked:
            self._live.append(1)
            self._count += 1
            self._guard.append(self._use(row.guard))
            self._variable.append(row.var)
            self._position.append(row.position)
            name = row.function
            self._function.append(-1 if name is None else self._functions.setdefault(name, len(self._functions)))
            self._entries.append(len(row.chain))
            for entry in row.chain:
                self._chain.extend(entry)
        self._filed[definition] = range(first, len(self._live))

    def _use(self, guard: Guard) -> int:
        number = self._guards.get(guard)
        if number is None:
            number = self._guards[guard] = self._next
            self._next += 1
            columns = [part.column for part in guard if isinstance(part, There)]
            if len(columns) == len(guard):
                self._there[number] = columns
            else:
                self._index.add(number, alternatives(All(guard)))
            self._uses[number] = 0
            self._by_number[number] = guard
        self._uses[number] += 1
        return number

    def _release(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number]
            if self._there.pop(number, None) is None:
                self._index.remove(number)
            del self._guards[self._by_number.pop(number)]

    def witness_rows(
        self, events: pa.RecordBatch, lone: LoneRows | None = None, known: FactVariables = NO_FACTS
    ) -> Iterator[pa.RecordBatch]:
        """Turn rows (docid, channel, id, item, ts, late, cells) of the channel into rows of ``WITNESS_SCHEMA``.

        Rows of the variables of ``lone`` are added to that where one is as the other.  The facts that are ``known``
        stand together, those of a document in the chain of one row (``fact_rows``).
        """
        if self._arrays is None:
            self._arrays = _Arrays(self)
        arrays = self._arrays
        facts = arrays.facts(known)
        for start in range(0, events.num_rows, ROWS):
            part = events.slice(start, ROWS)
            shared = event_columns(part)
            columns = RowColumns(part.column("cells"), self.width)
            for row, asked in self._found(columns, arrays):
                if lone is not None and lone.variables:
                    alike = arrays.alike(lone.variables)[asked] & columns.whole()[row]
                    if alike.any():
                        lone.found.append(arrays.alike_rows(part, row[alike], asked[alike], columns))
                        row, asked = row[~alike], asked[~alike]
                if facts is not None:
                    fact = facts[asked]
                    of = fact >= 0
                    if of.any():
                        told = fact_columns(known, [Facts(row[of], fact[of])])
                        yield _with_events(shared, pa.array(told[0]), told[1])
                        row, asked = row[~of], asked[~of]
                if len(row):
                    yield _with_events(shared, *arrays.columns(row, asked, columns))

    def _found(self, columns: RowColumns, arrays: _Arrays) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield rows of the batch with the requested rows that go with them."""
        for row, guard in self._parts(columns, arrays):
            at, back = gather(arrays.of_guard[guard], arrays.of_guard[guard + 1] - arrays.of_guard[guard])
            yield row[back], arrays.asked[at]

    def _parts(self, columns: RowColumns, arrays: _Arrays) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield rows and guards that go together, about so many at a time."""
        rows: list[Int64s] = []
        guards: list[Int64s] = []
        waiting = 0
        there = ((columns.having(places), number) for number, places in self._there.items())
        told = ((some, np.full(len(some), number)) for some, number in there)
        for some, of in chain(told, self._index.satisfied(columns)):
            rows.append(some)
            guards.append(of)
            waiting += int(arrays.weights[of].sum())
            if waiting >= _MANY:
                yield np.concatenate(rows), np.concatenate(guards)
                rows, guards, waiting = [], [], 0
        if rows:
            yield np.concatenate(rows), np.concatenate(guards)


def _with_events(shared: Sequence[pa.Array], documents: pa.Array, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return rows with the columns of their events; ``documents`` are the places of these."""
    return pa.RecordBatch.from_arrays([*(each.take(documents) for each in shared), *columns], schema=WITNESS_SCHEMA)


def row_witnesses(
    matchers: Mapping[str, RowMatcher],
    events: pa.RecordBatch,
    lone: LoneRows | None = None,
    known: FactVariables = NO_FACTS,
) -> Iterator[pa.RecordBatch]:
    """Turn events (docid, channel, id, item, ts, late, cells) into rows of ``WITNESS_SCHEMA``; events that are no rows
    give none.

    Rows of the variables of ``lone`` are added to that where one is as the other.  The facts that are ``known`` stand
    together, but for those that have chains of their own (``with_facts``).
    """
    channels = events.column("channel")
    for channel in pc.unique(channels).to_pylist():
        matcher = matchers.get(channel)
        if matcher:
            of = pc.and_(pc.equal(channels, channel), events.column("cells").is_valid())
            whole = pc.all(of, min_count=0).as_py()
            yield from matcher.witness_rows(events if whole else events.filter(of), lone, known)


class _Arrays:
    """The requested rows, in arrays."""

    def __init__(self, matcher: RowMatcher) -> None:
        live = np.array(matcher._live, dtype=np.bool_)
        guard = np.array(matcher._guard, dtype=np.int64)
        numbers = np.flatnonzero(live)
        self.asked = numbers[np.argsort(guard[numbers], kind="stable")]
        """Requested rows by their guards."""
        self.of_guard = np.searchsorted(guard[self.asked], np.arange(matcher._next + 1))
        """Begin of each guard's requested rows, and the end."""
        self.functions = list(matcher._functions)
        self.names = [label(function) for function in self.functions]
        self.variable, self.position, self.function, self.entries = (
            np.array(column, dtype=np.int64)
            for column in (matcher._variable, matcher._position, matcher._function, matcher._entries)
        )
        sums = np.concatenate([[0], np.cumsum(1 + self.entries[self.asked])])
        self.weights = np.diff(sums[self.of_guard])
        """Rows and chain entries that a row of the batch gives for each guard."""
        entries = np.array(matcher._chain, dtype=np.int64).reshape(-1, 4)
        self.keys, self.positions = (np.ascontiguousarray(each) for each in (entries[:, :2], entries[:, 2:]))
        """Variables of chain entries, and the positions of these."""
        self.chains = np.concatenate([[0], np.cumsum(self.entries)]).astype(np.int64)
        self._alike: tuple[frozenset[int], Bools] | None = None
        self._facts: tuple[Int64s, Int64s | None] | None = None

    def facts(self, known: FactVariables) -> Int64s | None:
        """Return the number of the fact that each requested row is, -1 for none; None: there are none, or some have
        chains of their own.
        """
        if self._facts is None or self._facts[0] is not known.facts:
            found = known.numbers(self.variable)
            plain = (found >= 0).any() and not (self.entries[found >= 0] > 0).any()
            self._facts = known.facts, found if plain else None
        return self._facts[1]

    def alike(self, variables: frozenset[int]) -> Bools:
        """Tell which requested rows are the only ones of one of some variables, and have no value."""
        if self._alike is None or self._alike[0] != variables:
            mine = self.asked[np.isin(self.variable[self.asked], np.array([*variables], dtype=np.int64))]
            _, of, counts = np.unique(self.variable[mine], return_inverse=True, return_counts=True)
            found = np.zeros(len(self.variable), dtype=np.bool_)
            found[mine[(counts[of] == 1) & (self.function[mine] < 0)]] = True
            self._alike = variables, found
        return self._alike[1]

    def alike_rows(self, events: pa.RecordBatch, row: Int64s, asked: Int64s, columns: RowColumns) -> AlikeRows:
        """Return rows asked for that are ``alike``, of rows without a NULL."""
        kinds, kind = distinct(asked)
        first = np.zeros(len(kinds), dtype=np.int64)
        first[kind[::-1]] = row[::-1]
        _, found = self.columns(first, kinds, columns)
        return AlikeRows(
            events, row, kind, pa.RecordBatch.from_arrays(found, names=WITNESS_SCHEMA.names[-len(found) :])
        )

    def columns(self, row: Int64s, asked: Int64s, columns: RowColumns) -> tuple[pa.Array, list[pa.Array]]:
        """Return the rows asked for as columns: the place of each one's event, and those from ``var`` on."""
        values: list[str | None] = []
        flat = self.flat(row, asked, columns, values)
        return arrow_columns(flat, self.names, pa.array(values, pa.string()))

    def flat(self, row: Int64s, asked: Int64s, columns: RowColumns, values: list[str | None]) -> FlatRows:
        """Return the rows asked for, each of the row of the batch beside it."""
        at, of = gather(self.chains[asked], self.entries[asked])
        keys, positions = self.keys.take(at, axis=0), self.positions.take(at, axis=0)
        entries, nodes = self.entries[asked], self.position[asked]
        missing = columns.missing() if columns.gaps else None
        if missing is not None and missing[:, -1].any():
            some = np.flatnonzero(missing[row, -1])  # of rows with a NULL
            nodes = nodes.copy()
            nodes[some] -= missing[row[some], np.maximum(nodes[some], 0)]
            some = np.flatnonzero(missing[row[of], -1])
            of_entry, at_null = row[of[some], np.newaxis], positions[some]
            before = missing[of_entry, np.maximum(at_null, 0)]
            # A column is there if as many are missing up to it as up to the one before.
            there = (before == missing[of_entry, np.maximum(at_null - 1, 0)]).all(axis=1)
            positions = positions.copy()
            positions[some] = at_null - before
            kept = np.ones(len(of), dtype=np.bool_)
            kept[some] = there
            keys, positions = keys[kept], positions[kept]
            entries = np.bincount(of[kept], minlength=len(asked))
        return FlatRows(
            documents=row.astype(np.int32),
            variables=self.variable[asked],
            nodes=nodes.astype(np.int32),
            functions=self.function[asked].astype(np.int32),
            values=self._values(row, asked, columns, values),
            entries=entries.astype(np.int32),
            keys=keys,
            bound=positions.astype(np.int32),
        )

    def _values(
        self, row: Int64s, asked: Int64s, columns: RowColumns, values: list[str | None]
    ) -> npt.NDArray[np.int64]:
        """Return the place of each requested row's value, computed once for each text; -1: none is asked."""
        found = np.full(len(asked), -1, dtype=np.int64)
        column = np.maximum(self.position[asked], 0)
        both = column * (len(self.functions) + 1) + self.function[asked] + 1
        for code in np.flatnonzero(np.bincount(both)).tolist():
            number, function = divmod(code, len(self.functions) + 1)
            if function:
                of = np.flatnonzero(both == code)
                texts = columns.texts(number)
                found[of] = columns.codes(number)[row[of]] + len(values)
                name = self.functions[function - 1]
                known = texts.to_pylist()
                values += known if name == "" else read_values(name, known)
        return found
