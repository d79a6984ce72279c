"""The oracle of windows of matches: what is told of each window and group, and when (docs/reference/language.md).

Looks at every window anew, over all combinations of all events, and knows the query by its syntax tree alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from oracle.absence import FOR_EVER, Asked, Intake
from oracle.evaluate import FUNCTIONS, NO_COLUMNS, Columns, Doc, bindings_rows, number, operand_names
from oracle.nodes import parse

from xscl.language.syntax import ast

Value = str | Fraction | None


@dataclass(frozen=True)
class Told:
    """What a query tells of a group: the values of its SELECT list by name."""

    values: tuple[tuple[str, str], ...]
    ts: int
    place: int
    which: tuple[object, ...]
    """What tells it from others with these values: the end of its window, or the documents of the match that ends
    it."""


@dataclass(frozen=True)
class _Match:
    ts: int
    order: tuple[int, ...]
    docs: tuple[Doc, ...]
    values: tuple[tuple[str, str], ...]


def told(asked: Asked, intake: Intake, *, numeric: Columns = NO_COLUMNS, texts: Columns = NO_COLUMNS) -> set[Told]:
    """All that a query tells."""
    query, aggregate = asked.query, asked.query.aggregate
    assert aggregate is not None
    events = {d: p for d, p in intake.judged().items() if asked.since < p < asked.until and not d.late}
    channels = {block.channel for block in ast.blocks(query.source)}
    groups: dict[tuple[str, ...], list[_Match]] = {}
    for match in _matches(query, events, numeric, texts):
        group = tuple(_of_match(operand, match) for operand in aggregate.group)
        if None not in (*group, *(_of_match(operand, match) for operand in aggregate.per)):
            groups.setdefault(tuple(map(str, group)), []).append(match)
    found = set()
    for place, ts, which, told_of in _windows(asked, groups, channels, intake):
        if place < asked.until:
            for group, some in told_of:
                found.add(Told(_selected(query, group, some), ts, place, which))
    return found


def _matches(query: ast.Query, events: dict[Doc, int], numeric: Columns, texts: Columns) -> Iterator[_Match]:
    """The distinct assignments of the variables that are grouped by or aggregated, by documents and result nodes."""
    assert query.aggregate is not None
    operands = [
        *query.aggregate.group,
        *query.aggregate.per,
        *(m.operand for m in query.measures if m.function != "value" and m.operand),
    ]
    names = sorted({name for operand in operands for name in operand_names(operand)})
    seen = set()
    for row in bindings_rows(ast.Query(query.source), list(events), numeric=numeric, texts=texts):
        nodes = tuple(row.nodes[name] for name in names)
        if (row.docs, row.results, nodes) in seen:
            continue
        seen.add((row.docs, row.results, nodes))
        values = []
        for name, node in zip(names, nodes, strict=True):
            (doc,) = [d for d, b in zip(row.docs, ast.blocks(query.source), strict=True) if f">{name}]" in _shown(b)]
            values.append((name, next(n.string() for n in parse(doc.xml).branch() if n.id == node)))
        order = (*(events[doc] for doc in row.docs), *row.results, *nodes)
        yield _Match(max(doc.ts for doc in row.docs), order, row.docs, tuple(values))


def _shown(block: ast.Block) -> str:
    """The variables of a block, each as ``>name]``."""
    found = [block.binding] if block.binding else []
    for predicate in block.predicates:
        if isinstance(predicate, ast.Truth) and isinstance(predicate.operand, ast.RelPath):
            found += [step.binding for step in predicate.operand.steps if step.binding]
    return "".join(f">{each.name}]" for each in found)


def _windows(
    asked: Asked, groups: dict[tuple[str, ...], list[_Match]], channels: set[str], intake: Intake
) -> Iterator[tuple[int, int, tuple[object, ...], list[tuple[tuple[str, ...], list[_Match]]]]]:
    """Every window that is told: its place, its time, which one it is, and its groups."""
    aggregate = asked.query.aggregate
    assert aggregate is not None

    def holds(group: tuple[str, ...], some: list[_Match]) -> bool:
        return all(
            _compare(_of_group(a.left, asked.query, group, some), a.op, _of_group(a.right, asked.query, group, some))
            for a in aggregate.having
        )

    if aggregate.every is not None:
        every, window = aggregate.every, aggregate.window
        assert window is not None
        times = [match.ts for of in groups.values() for match in of]
        numbers = {n for ts in times for n in range((ts - window) // every + 1, ts // every + 1)}
        for n in sorted(numbers):
            begin, end = n * every, n * every + window
            place = _place(intake, channels, end - 1)
            inside = {group: [m for m in of if begin <= m.ts < end] for group, of in groups.items()}
            some = [(group, of) for group, of in sorted(inside.items()) if of and holds(group, of)]
            if aggregate.top is not None and aggregate.by is not None:
                by = aggregate.by
                some.sort(key=lambda g: _rank(_of_group(by, asked.query, *g)), reverse=True)
                some = some[: aggregate.top]
            if place is not None:
                yield place, end, (end,), some
        return
    for group, of in groups.items():
        ordered = sorted(of, key=lambda m: (m.ts, m.order))
        last_told = None
        for at, match in enumerate(ordered):
            place = _place(intake, channels, match.ts)
            some = [m for m in ordered if m.ts <= match.ts]
            if aggregate.crossing or aggregate.window is None:
                some = ordered[: at + 1]
            if aggregate.window is not None:
                some = [m for m in some if m.ts >= match.ts - aggregate.window]
            if aggregate.last is not None:
                some = _last(some, aggregate)
            if place is None or not holds(group, some):
                continue
            if aggregate.crossing and holds(group, [m for m in some if m is not match]):
                continue
            if aggregate.once_per is not None and last_told is not None and match.ts - last_told <= aggregate.once_per:
                continue
            last_told = match.ts
            yield place, match.ts, tuple((d.channel, d.id) for d in match.docs), [(group, some)]


def _last(some: list[_Match], aggregate: ast.Aggregate) -> list[_Match]:
    """The last matches of each part of a group, in their order."""
    assert aggregate.last is not None
    found: list[_Match] = []
    counts: dict[tuple[Value, ...], int] = {}
    for match in reversed(some):
        part = tuple(_of_match(operand, match) for operand in aggregate.per)
        counts[part] = counts.get(part, 0) + 1
        if counts[part] <= aggregate.last:
            found.append(match)
    return found[::-1]


def _place(intake: Intake, channels: set[str], time: int) -> int | None:
    """The first place at which everything up to a time is in."""
    changes = {place for former in intake.before.values() for place, _ in former}
    for place in sorted({*intake.events.values(), *intake.beats, *changes, *([FOR_EVER] * intake.ends)}):
        if all(intake.settled(channel, place) > time for channel in channels):
            return place
    return None


# -- values --------------------------------------------------------------------------------------------------------


def _of_match(operand: ast.Operand, match: _Match) -> Value:
    if isinstance(operand, ast.FunctionOperand):
        inner = _of_match(operand.operand, match)
        return FUNCTIONS[operand.name](str(inner)) if inner is not None else None
    assert isinstance(operand, ast.Linear) and operand.path is not None
    return _linear(operand, dict(match.values)[operand.path.name])


def _linear(operand: ast.Linear, value: Value) -> Value:
    if (operand.factor, operand.constant) == (1, 0):
        return value
    found = _number(value)
    return None if found is None else operand.factor * found + operand.constant


def _number(value: Value) -> Fraction | None:
    if not isinstance(value, str):
        return value
    found = number(value)
    return None if found is None else Fraction(found)


def _of_group(operand: ast.Operand, query: ast.Query, group: tuple[str, ...], some: Sequence[_Match]) -> Value:
    assert query.aggregate is not None
    if operand in query.aggregate.group:
        return group[query.aggregate.group.index(operand)]
    match operand:
        case ast.StringOperand(value):
            return value
        case ast.FunctionOperand(name, inner):
            found = _of_group(inner, query, group, some)
            return None if found is None else FUNCTIONS[name](str(found))
        case ast.Linear(None, _, constant):
            return constant
    assert isinstance(operand, ast.Linear) and operand.path is not None
    measure = next((each for each in query.measures if each.text == operand.path.name), None)
    if measure is None:
        found = group[query.aggregate.group.index(ast.Linear(operand.path))]
    elif measure.function == "value":
        assert measure.operand is not None
        found = _of_group(measure.operand, query, group, some)
    else:
        found = _aggregate(measure, some)
    return _linear(operand, found)


def _aggregate(measure: ast.Measure, some: Sequence[_Match]) -> Value:
    if measure.operand is None:
        return Fraction(len(some))
    ordered = sorted(some, key=lambda m: (m.ts, m.order))
    values = [value for m in ordered if (value := _of_match(measure.operand, m)) is not None]
    if measure.function == "count":
        return Fraction(len(set(values)) if measure.distinct else len(values))
    if measure.function in ("first", "last"):
        return (values[0] if measure.function == "first" else values[-1]) if values else None
    numbers = [found for value in values if (found := _number(value)) is not None]
    if not numbers:
        return None
    total = sum(numbers, Fraction(0))
    return {"sum": total, "avg": total / len(numbers), "min": min(numbers), "max": max(numbers)}[measure.function]


def _compare(left: Value, op: str, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str) and op in ("=", "!="):
        return (left == right) == (op == "=")
    one, other = _number(left), _number(right)
    if one is None or other is None:
        return False
    order = (one > other) - (one < other)
    return {"=": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]


def _rank(value: Value) -> tuple[bool, bool, Fraction, str]:
    is_number = isinstance(value, Fraction)
    return (
        value is not None,
        is_number,
        value if isinstance(value, Fraction) else Fraction(0),
        value if isinstance(value, str) else "",
    )


def _selected(query: ast.Query, group: tuple[str, ...], some: Sequence[_Match]) -> tuple[tuple[str, str], ...]:
    assert isinstance(query.select, tuple)
    found = []
    for item in query.select:
        value = _of_group(ast.Linear(item.path), query, group, some)
        name = item.name or item.path.name.partition("(")[0]
        if isinstance(value, Fraction):
            value = str(value.numerator) if value.denominator == 1 else repr(float(value))
        found.append((name, value or ""))
    return tuple(found)
