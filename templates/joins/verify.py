"""Edges looked up on pairs of documents that other edges have found: inequalities, and equalities that nearly all
pairs satisfy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Floats, Int32s, Int64s, gather, numbered_rows, stacked, take
from xscl.templates.joins.families import CLOSE, TINY, Family, candidates
from xscl.templates.joins.line_search import Ranges
from xscl.templates.joins.matched_edges import BEYOND
from xscl.templates.joins.resolve import holds_exactly
from xscl.templates.plans import Edge
from xscl.templates.runs.run import KEY_BITS
from xscl.templates.runs.view import RunView

__all__ = ["MAX_COMPARED", "Held", "held_in_family", "held_on_lines", "held_on_pairs", "ranges_on_pairs"]

_VALUE_BITS = 40
"""Bits of the place of a value in its run."""
MAX_COMPARED = 4_000_000
"""Pairs of different values that an inequality compares in one pair of documents."""
_TOGETHER = 1 << 17
"""Pairs of values that are compared together, about: their columns fit into the caches of a processor."""


class Held(NamedTuple):
    """Rows of an edge on some pairs, in columns."""

    pair: Int64s
    """The place of the pair, rising."""
    shape_l: Int32s
    shape_r: Int32s


def held_on_pairs(
    runs: Sequence[RunView], edge: Edge, keys: tuple[Int64s, Int64s], left: Int64s, right: Int64s
) -> Held:
    """Return the rows that compare as an edge says on the pairs of documents ``left`` and ``right``.

    ``keys`` are those of the left and the right side, for each pair.  Where more is to be compared than
    ``MAX_COMPARED``, ``BEYOND`` stands for all rows of the pair.
    """
    mine, others = _rows_of(runs, left, keys[0]), _rows_of(runs, right, keys[1])
    if edge.key.kind == "EQ":
        return _equal(runs, mine, others)
    beyond, parts = _parts(mine, others, len(left))
    marks = np.full(len(beyond), BEYOND, dtype=np.int32)
    held = stacked([Held(beyond, marks, marks), *(_compared(runs, edge, *part) for part in parts)])
    return take(held, np.argsort(held.pair, kind="stable")) if len(beyond) else held


def held_in_family(
    runs: Sequence[RunView],
    edges: Mapping[int, Edge],
    family: Family,
    keys: tuple[Int64s, Int64s],
    left: Int64s,
    right: Int64s,
) -> tuple[Held, Int32s]:
    """Return the rows that compare as edges of a family say, like ``held_on_pairs``, and the edge of each.

    ``edges`` are those of the program, by their numbers.
    """
    mine, others = _rows_of(runs, left, keys[0]), _rows_of(runs, right, keys[1])
    beyond, parts = _parts(mine, others, len(left))
    pair = np.repeat(beyond, len(family.edges))
    marks = np.full(len(pair), BEYOND, dtype=np.int32)
    found = [(Held(pair, marks, marks), np.tile(family.edges, len(beyond)))]
    found += (each for part in parts for each in _compared_in_family(runs, edges, family, *part))
    return stacked([held for held, _ in found]), np.concatenate([of for _, of in found])


def held_on_lines(
    runs: Sequence[RunView],
    edges: Mapping[int, Edge],
    numbers: Int32s,
    keys: tuple[Int64s, Int64s],
    left: Int64s,
    right: Int64s,
) -> Held:
    """Return the rows that compare as inequalities on the same values say, an edge for each pair, like
    ``held_on_pairs``.
    """
    distinct, which = np.unique(numbers, return_inverse=True)
    mine_of = [edges[number].key for number in distinct.tolist()]
    f, add = (np.array([float(getattr(key, name)) for key in mine_of])[which] for name in ("f", "add"))
    mine, others = _rows_of(runs, left, keys[0]), _rows_of(runs, right, keys[1])
    beyond, parts = _parts(mine, others, len(left))
    marks = np.full(len(beyond), BEYOND, dtype=np.int32)
    found = [Held(beyond, marks, marks)]
    for part in parts:
        at_l, at_r = _cross(part[0].pair, part[1].pair)
        one, other = take(part[0], at_l), take(part[1], at_r)
        line = _Line(mine_of[0].op, f[one.pair], add[one.pair], numbers[one.pair])
        holds = np.flatnonzero(_line_holds(runs, edges, line, one, other))
        found.append(Held(one.pair[holds], one.shape[holds], other.shape[holds]))
    held = stacked(found)
    return take(held, np.argsort(held.pair, kind="stable")) if len(beyond) else held


def ranges_on_pairs(runs: Sequence[RunView], keys: tuple[Int64s, Int64s], left: Int64s, right: Int64s) -> Ranges:
    """Return the ends of the numbers on both sides of pairs of documents, like ``held_on_pairs``.

    Where more is to be compared than ``MAX_COMPARED``, nothing is known of the numbers.
    """
    sides = _rows_of(runs, left, keys[0]), _rows_of(runs, right, keys[1])
    counts = [np.bincount(side.pair, minlength=len(left)) for side in sides]
    beyond = counts[0] * counts[1] > MAX_COMPARED
    one, other = (_ends_of(side, count) for side, count in zip(sides, counts, strict=True))
    for least, most in (one, other):
        least[beyond], most[beyond] = -np.inf, np.inf
    return Ranges(one, other, (counts[0] > 0) & (counts[1] > 0))


def _ends_of(side: _Side, counts: Int64s) -> tuple[Floats, Floats]:
    least, most = np.zeros(len(counts)), np.zeros(len(counts))
    some = counts > 0
    begin = (np.cumsum(counts) - counts)[some]
    if len(begin):
        least[some], most[some] = np.minimum.reduceat(side.number, begin), np.maximum.reduceat(side.number, begin)
    return least, most


def _parts(mine: _Side, others: _Side, pairs: int) -> tuple[Int64s, list[tuple[_Side, _Side]]]:
    """Return the pairs of documents with too much to compare; and the rows of all others, some pairs at a time."""
    compared = np.bincount(mine.pair, minlength=pairs) * np.bincount(others.pair, minlength=pairs)
    beyond = np.flatnonzero(compared > MAX_COMPARED)
    if len(beyond):
        compared[beyond] = 0
        mine, others = (take(side, compared[side.pair] > 0) for side in (mine, others))
    spans = pairwise(_cuts(compared))
    return beyond, [(_of_pairs(mine, *span), _of_pairs(others, *span)) for span in spans]


def _cuts(compared: Int64s) -> list[int]:
    """Return where runs of pairs begin with some ``_TOGETHER`` values to compare each, and where the last one ends."""
    done = np.cumsum(compared)
    if not len(done) or not done[-1]:
        return []
    cuts = np.searchsorted(done, np.arange(_TOGETHER, int(done[-1]), _TOGETHER)) + 1
    return [0, *each_once(cuts[cuts < len(done)]).tolist(), len(done)]


def _of_pairs(side: _Side, begin: int, end: int) -> _Side:
    """Return the rows of the pairs from one to another, which is not included."""
    first, last = np.searchsorted(side.pair, (begin, end)).tolist()
    pair, run, value, shape, number = side
    return _Side(pair[first:last], run[first:last], value[first:last], shape[first:last], number[first:last])


def _equal(runs: Sequence[RunView], mine: _Side, others: _Side) -> Held:
    """Return rows of equal values."""
    values = _value_numbers(runs, mine, others)
    count = max((int(of.max(initial=0)) for of in values), default=0) + 1
    code_l, code_r = (side.pair * count + of for side, of in zip((mine, others), values, strict=True))
    order_l, order_r = np.argsort(code_l, kind="stable"), np.argsort(code_r, kind="stable")
    at_l, at_r = _cross(code_l[order_l], code_r[order_r])
    one, other = take(mine, order_l[at_l]), take(others, order_r[at_r])
    return Held(one.pair, one.shape, other.shape)


def _value_numbers(runs: Sequence[RunView], *sides: _Side) -> list[Int64s]:
    """Give the values of rows numbers; equal texts, and no others, have one number."""
    codes = np.concatenate([side.run << _VALUE_BITS | side.value for side in sides])
    distinct, which = np.unique(codes, return_inverse=True)
    run, value = distinct >> _VALUE_BITS, distinct & ((1 << _VALUE_BITS) - 1)
    texts = _texts(runs, run, value).dictionary_encode("encode")
    numbers = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)[which]
    return np.split(numbers, np.cumsum([len(side.run) for side in sides])[:-1])


def _compared(runs: Sequence[RunView], edge: Edge, mine: _Side, others: _Side) -> Held:
    """Return rows whose values compare as an edge says."""
    at_l, at_r = _cross(mine.pair, others.pair)
    one, other = take(mine, at_l), take(others, at_r)
    holds = np.flatnonzero(_holds(runs, edge, one, other))
    return Held(one.pair[holds], one.shape[holds], other.shape[holds])


def _compared_in_family(
    runs: Sequence[RunView], edges: Mapping[int, Edge], family: Family, mine: _Side, others: _Side
) -> Iterator[tuple[Held, Int32s]]:
    """Yield rows whose values compare as edges of a family say, and the edge of each."""
    at_l, at_r = _cross(mine.pair, others.pair)
    first, counts = candidates(family, mine.number[at_l], others.number[at_r])
    for begin, end in pairwise(_cuts(counts)):
        place, which = gather(first[begin:end], counts[begin:end])
        one, other = take(mine, at_l[begin:end][which]), take(others, at_r[begin:end][which])
        number = family.edges[place]
        line = _Line(family.like.key.op, family.f[place], family.add[place], number)
        holds = np.flatnonzero(_line_holds(runs, edges, line, one, other))
        yield Held(one.pair[holds], one.shape[holds], other.shape[holds]), number[holds]


class _Side(NamedTuple):
    """Rows of one side of some pairs."""

    pair: Int64s
    """Rising."""
    run: Int64s
    value: Int64s
    """The place of the value in its run."""
    shape: Int32s
    number: Floats


def _rows_of(runs: Sequence[RunView], docs: Int64s, keys: Int64s) -> _Side:
    """Return the rows of a key in each of some documents, a key for each.

    Pairs are many where documents are few, so the rows of each document are looked up once.
    """
    first, which = numbered_rows((docs, keys))
    found = _rows_of_each(runs, docs[first], keys[first])
    begin = np.searchsorted(found.pair, np.arange(len(first) + 1))
    at, pair = gather(begin[which], np.diff(begin)[which])
    return take(found, at)._replace(pair=pair)


def _rows_of_each(runs: Sequence[RunView], docs: Int64s, keys: Int64s) -> _Side:
    """Return the rows of a key in each of some documents, which all differ."""
    none = np.empty(0, dtype=np.int64)
    parts = [_Side(none, none, none, np.empty(0, dtype=np.int32), np.empty(0))]
    for number, view in enumerate(runs):
        pair, row = view.of_documents(docs, keys)
        if not len(row):
            continue  # most runs have none of these documents
        run = view.run
        slices = run.slices_of(row)
        value = run.slice_codes[slices] >> KEY_BITS
        of = np.full(len(row), number)
        parts.append(_Side(pair, of, value, view.shapes(run.shape[row]), run.numbers[slices]))
    side = stacked(parts)
    return take(side, np.argsort(side.pair, kind="stable"))


def _cross(left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
    """Return the places of equal numbers of two rising lists, every one with every one."""
    if np.array_equal(left, right) and (np.diff(left) > 0).all():
        every = np.arange(len(left))
        return every, every
    begin = np.searchsorted(right, left, side="left")
    at_r, at_l = gather(begin, np.searchsorted(right, left, side="right") - begin)
    return at_l, at_r


def _holds(runs: Sequence[RunView], edge: Edge, left: _Side, right: _Side) -> Bools:
    """Tell whether the values of each pair of rows satisfy an edge."""
    key = edge.key
    holds: Bools
    if key.kind == "NE":
        one, other = _value_numbers(runs, left, right)
        holds = one != other
        return holds
    if not (key.lfn or "").startswith("number"):
        holds = _TEXTS[key.op](_text(runs, left), _text(runs, right)).to_numpy(zero_copy_only=False)
        return holds
    count = len(left.pair)
    line = _Line(
        key.op, *(np.broadcast_to(each, count) for each in (float(key.f), float(key.add), np.int32(edge.number)))
    )
    return _line_holds(runs, {edge.number: edge}, line, left, right)


class _Line(NamedTuple):
    """An inequality ``left op f * right + add`` for each pair of rows."""

    op: str
    f: Floats
    add: Floats
    edge: Int32s


def _line_holds(runs: Sequence[RunView], edges: Mapping[int, Edge], line: _Line, left: _Side, right: _Side) -> Bools:
    """Tell whether the numbers of each pair of rows satisfy its inequality."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = line.f * right.number
        bound = scaled + line.add
        holds: Bools = _NUMBERS[line.op](left.number, bound)
        size = np.abs(left.number) + np.abs(scaled) + np.abs(line.add)
        least = np.minimum(np.minimum(np.abs(left.number), np.abs(right.number)), np.abs(scaled))
        sure = (np.abs(left.number - bound) > CLOSE * size) & (least >= TINY)
    # What doubles cannot tell is compared exactly; so is what they cannot hold.
    close = np.flatnonzero(~sure)
    if len(close):
        texts = zip(*(_text(runs, take(side, close)).to_pylist() for side in (left, right)), strict=True)
        holds[close] = [
            holds_exactly(edges[number], one, other)
            for number, (one, other) in zip(line.edge[close].tolist(), texts, strict=True)
        ]
    return holds


_NUMBERS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "!=": np.not_equal,
}
_TEXTS = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def _text(runs: Sequence[RunView], side: _Side) -> pa.Array:
    """Return the value of each row."""
    return _texts(runs, side.run, side.value)


def _texts(runs: Sequence[RunView], run: Int64s, value: Int64s) -> pa.Array:
    """Return values by their run and their place there."""
    parts, places = [], []
    for number in each_once(run).tolist():
        of = np.flatnonzero(run == number)
        parts.append(runs[number].run.texts.take(pa.array(value[of])))
        places.append(of)
    if not parts:
        return pa.array([], pa.string())
    back = np.argsort(np.concatenate(places))
    return pa.concat_arrays(parts).take(pa.array(back))
