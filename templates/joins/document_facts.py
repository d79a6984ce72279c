"""Facts of documents, and numbers in them, as guards read them: out of runs, or of new witness rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.guards import LENGTH
from xscl.templates.program_guards import ProgramGuards
from xscl.templates.runs.run import Run

__all__ = ["DocumentFacts", "facts_of_rows", "facts_of_runs"]

_BITS = 32
_Found = tuple[Int64s, Int64s]
"""Places of documents, and a variable of each."""
_Numbers = tuple[Int64s, npt.NDArray[np.integer], npt.NDArray[np.float64]]
"""Places of documents, nodes, and the number of each."""


class DocumentFacts(NamedTuple):
    """Facts of some documents, and the numbers of each variable that guards compare."""

    docs: Int64s
    """The documents, rising."""
    variables: Int64s
    """Variables of facts, rising."""
    codes: Int64s
    """The place of each document and that of a fact's variable, in one rising number."""
    compared: Int64s
    """Variables of numbers, rising."""
    least: npt.NDArray[np.float64]
    """A row for each variable, with a column for each document; NaN where it has no number."""
    greatest: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.float64]
    """The lengths of the first nodes of these variables, likewise."""

    def decisive(self, operator: str) -> npt.NDArray[np.float64]:
        """Return the numbers that decide a comparison: where some number is to be above a bound, the greatest."""
        if operator.startswith("length"):
            return self.lengths
        return self.greatest if operator.startswith(">") else self.least

    def has(self, docs: Int64s, facts: Int64s) -> Bools:
        """Tell which documents have a fact each, by the places of both."""
        wanted = docs << _BITS | facts
        at = np.minimum(np.searchsorted(self.codes, wanted), max(len(self.codes) - 1, 0))
        return self.codes[at] == wanted if len(self.codes) else np.zeros(len(docs), dtype=np.bool_)

    def of(self, docs: Int64s) -> DocumentFacts:
        """Return the facts of some of these documents, which rise."""
        place = np.searchsorted(self.docs, docs)
        begin = np.searchsorted(self.codes, place << _BITS)
        at, which = gather(begin, np.searchsorted(self.codes, (place + 1) << _BITS) - begin)
        codes = which << _BITS | self.codes[at] & ((1 << _BITS) - 1)
        columns = (column[:, place] for column in (self.least, self.greatest, self.lengths))
        return DocumentFacts(docs, self.variables, codes, self.compared, *columns)

    def entries(self) -> tuple[Int64s, Int64s]:
        """Return all facts: the places of documents, and of variables."""
        return self.codes >> _BITS, self.codes & ((1 << _BITS) - 1)


def facts_of_runs(runs: Sequence[Run], docs: Int64s, guards: ProgramGuards) -> DocumentFacts:
    """Look up the facts of documents in runs."""
    facts: list[_Found] = []
    numbers: list[list[_Numbers]] = [[] for _ in guards.compared]
    lengths: list[list[_Numbers]] = [[] for _ in guards.compared]
    for run in runs:
        here = np.flatnonzero(run.places_of(docs)[1])
        if not len(here):
            continue  # most runs have none of these documents
        for variable in guards.facts_rows:
            key = run.key_numbers.get((variable, None))
            if key is not None:
                facts.append(_facts_of_run(run, docs, here, key))
        for place, variable in enumerate(guards.compared.tolist()):
            for function, found in (("", numbers), (LENGTH, lengths)):
                key = run.key_numbers.get((variable, function))
                if key is not None:
                    found[place].append(_numbers_of_run(run, docs, here, key))
    return _made(docs, facts, numbers, lengths, guards)


def _numbers_of_run(run: Run, docs: Int64s, here: Int64s, key: int) -> _Numbers:
    at, row = run.of_documents(docs[here], np.full(len(here), key))
    members, counts = run.shapes.members(run.shape[row].astype(np.int64))
    first = np.minimum.reduceat(run.shapes.nodes[members], np.cumsum(counts) - counts) if len(row) else row
    return here[at], first, run.numbers[run.slices_of(row)]


def _facts_of_run(run: Run, docs: Int64s, here: Int64s, key: int) -> _Found:
    at, row = run.of_documents(docs[here], np.full(len(here), key))
    if not len(row):
        return at, row
    members, counts = run.shapes.members(run.shape[row].astype(np.int64))
    return _entries_of(np.repeat(here[at], counts), run.shapes.chains, members)


def _entries_of(docs: Int64s, chains: pa.ListArray, rows: Int64s) -> _Found:
    """Return the first variable of each chain entry of some rows, beside the row's document."""
    offsets = chains.offsets.to_numpy()
    begin = offsets[rows].astype(np.int64)
    entry, span = gather(begin, offsets[rows + 1] - begin)
    return docs[span], chains.values.field("var1").to_numpy(zero_copy_only=False)[entry]


def facts_of_rows(rows: pa.Table, docs: Int64s, guards: ProgramGuards) -> DocumentFacts:
    """Collect the facts of documents, rising, out of new witness rows, whose facts stand together."""
    variables, docids = rows.column("var").to_numpy(), rows.column("docid").to_numpy()
    at = np.flatnonzero(np.isin(variables, guards.facts_rows))
    chains = rows.column("chain").combine_chunks()
    facts = [_entries_of(np.searchsorted(docs, docids[at]), chains, at)]
    nodes, number = rows.column("node").to_numpy(), rows.column("num").to_numpy()

    def numbers_of(function: str) -> list[list[_Numbers]]:
        asked = pc.equal(rows.column("fn"), function).fill_null(False).to_numpy()
        of_variables = [np.flatnonzero(asked & (variables == variable)) for variable in guards.compared]
        return [[(np.searchsorted(docs, docids[of]), nodes[of], number[of])] for of in of_variables]

    return _made(docs, facts, numbers_of(""), numbers_of(LENGTH), guards)


def _made(
    docs: Int64s,
    facts: Iterable[_Found],
    numbers: Sequence[Iterable[_Numbers]],
    lengths: Sequence[Sequence[_Numbers]],
    guards: ProgramGuards,
) -> DocumentFacts:
    known = guards.facts_read
    codes = [np.empty(0, dtype=np.int64)]
    for at, variables in facts:
        place = np.minimum(np.searchsorted(known, variables), max(len(known) - 1, 0))
        kept = known[place] == variables if len(known) else np.zeros(len(variables), dtype=np.bool_)
        codes.append(at[kept] << _BITS | place[kept])
    least, greatest, firsts = (np.full((len(numbers), len(docs)), np.nan) for _ in range(3))
    for row, found in enumerate(numbers):
        for at, _, values in found:
            np.fmin.at(least[row], at, values)
            np.fmax.at(greatest[row], at, values)
    for row, of_runs in enumerate(lengths):
        for at, nodes, values in of_runs:
            order = np.lexsort((nodes, at))
            first = order[np.diff(at[order], prepend=-1) != 0]
            firsts[row, at[first]] = values[first]
    return DocumentFacts(docs, known, each_once(np.concatenate(codes)), guards.compared, least, greatest, firsts)
