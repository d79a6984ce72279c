"""Sizes that statements of strangers may ask for: functions that make long values have sizes that are written out.

Spark computes what consists of constants while it plans, in the process that all share, so one array that is too large
ends all.  A size that is told by a column may be any.  So both are refused before Spark sees the statement.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from sqlglot import exp
from sqlglot.errors import SqlglotError

from xscl.answers.sql.tokens import Dialect, tokens_of
from xscl.base.durations import parse_duration
from xscl.base.errors import EngineError

__all__ = ["MOST_ELEMENTS", "MOST_JOINED", "MOST_RANGE", "MOST_TOGETHER", "check_sizes"]

MOST_ELEMENTS = 1_000_000
"""Characters or elements that one call may make."""
MOST_TOGETHER = 10_000_000
"""Characters or elements of calls that may multiply each other."""
MOST_RANGE = 10_000_000
"""Rows of the table function ``range``."""
MOST_JOINED = 256
"""Columns that texts and arrays of one query join, times those of the queries that it reads."""
_MOST_WINDOWS = 1_000
"""Windows of ``window`` in which one time is."""
_LEAST_ERROR = 1e-4
"""Error of ``count_min_sketch``, which has room for its reciprocal."""

_BEFORE_QUERIES = frozenset(["DESC", "DESCRIBE", "QUERY", "TABLE"])
_ROWS = frozenset(["explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"])
"""Functions whose elements become rows, one after another."""
_SIZED: Mapping[str, int] = {
    "array_insert": 1,
    "array_repeat": 1,
    "format_number": 1,
    "lpad": 1,
    "randstr": 0,
    "repeat": 1,
    "rpad": 1,
    "space": 0,
    "stack": 0,
}
"""Functions with the place of the argument that tells a size."""
_MULTIPLY = frozenset(["array_repeat", "repeat"])
"""Functions whose argument may be long itself."""
_JOINED = frozenset(["array_join", "array_union", "concat", "concat_ws", "flatten", "format_string", "printf"]) | {
    *("regexp_replace", "replace", "overlay", "map_concat", "translate", "listagg", "string_agg"),
}
"""Functions whose result is as long as their arguments together, or longer."""
_GATHERED = frozenset(["array", "arrays_zip", "map", "named_struct", "struct", "zip_with"])
"""Functions whose result holds their arguments."""
_WIDE = re.compile(r"%[^a-zA-Z%]*\d{5}")
"""A width or precision of more than four digits in a format."""
_SECONDS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3_600.0,
    "day": 86_400.0,
} | {
    "week": 604_800.0,
    "month": 2_419_200.0,
    "quarter": 7_257_600.0,
    "year": 31_536_000.0,
}
"""Lengths of units at least."""
_DAY = 86_400.0


def check_sizes(statement: str) -> None:
    """Refuse a statement that may ask for more than a process can hold; one that cannot be read is left to others.

    Raises:
        EngineError: ``XSCL_SQL_SIZE``; ``XSCL_SQL``: it has something that is no token.
    """
    tokens = tokens_of(statement)
    while tokens and tokens[0].text.upper() in _BEFORE_QUERIES:
        del tokens[0]
    if not tokens or tokens[0].text.upper() == "SHOW":
        return
    try:
        trees = Dialect().parser().parse(tokens, statement)
    except (SqlglotError, RecursionError):
        return
    together, longest, joined = 1.0, 1.0, 0
    for tree in trees:
        if tree is None:
            continue
        for node in tree.walk():
            name = _name(node)
            if name:
                size = _size_of_call(node, name)
                if name in _SIZED and name not in _MULTIPLY:
                    longest = max(longest, size)
                else:
                    together *= size
            if isinstance(node, exp.Literal):
                longest = max(longest, len(str(node.this)))
            if isinstance(node, exp.DPipe) or name in _JOINED:
                joined += 1
            if isinstance(node, exp.With) and node.args.get("recursive"):
                _check_recursion(node)
        if (times := _times(tree, {})) > MOST_JOINED:
            raise _too_large(f"queries inside each other join {times:,} columns, at most {MOST_JOINED:,}")
    if together > 1 and (size := together * longest * (joined + 1)) > MOST_TOGETHER:
        raise _too_large(f"its calls may make {size:,.0f} values together, at most {MOST_TOGETHER:,}")


def _size_of_call(node: exp.Expr, name: str) -> float:
    """Check one call; return how many times as long its value may be as its arguments, or how long it may be."""
    arguments = node.expressions
    if name == "sequence":
        size = _checked(node, _steps(arguments), MOST_ELEMENTS)
        return 1.0 if _name(node.parent) in _ROWS else max(1.0, size)
    if name == "range":
        # The end is not among the rows.
        rows = _steps(_range(arguments))
        _checked(node, None if rows is None else rows - 1, MOST_RANGE)
    elif name in _SIZED and len(arguments) > _SIZED[name]:
        if name in _MULTIPLY and any(isinstance(each, exp.Identifier) for each in arguments[0].walk()):
            raise _too_large(f"{_node_text(node)}: what is repeated is a constant")
        return max(1.0, _checked(node, _size(name, arguments[_SIZED[name]]), MOST_ELEMENTS))
    elif name == "count_min_sketch" and len(arguments) > 1:
        error = _number(arguments[1])
        if error is None or error < _LEAST_ERROR:
            raise _too_large(f"{_node_text(node)}: the error is a constant, {_LEAST_ERROR:g} at least")
    elif name in ("format_string", "printf") and arguments:
        form = arguments[0]
        if not (isinstance(form, exp.Literal) and form.is_string) or _WIDE.search(str(form.this)):
            raise _too_large(f"{_node_text(node)}: the format is a constant with widths of four digits at most")
    elif name == "window" and len(arguments) > 2:
        lengths = [_duration(each) for each in arguments[1:3]]
        if None in lengths or not lengths[1] or (lengths[0] or 0) / lengths[1] > _MOST_WINDOWS:
            raise _too_large(f"{_node_text(node)}: a time is in {_MOST_WINDOWS:,} windows at most")
    elif name in ("aggregate", "reduce") and len(arguments) > 2:
        _check_fold(node, arguments[2])
    return 1.0


def _checked(node: exp.Expr, size: float | None, most: int) -> float:
    if size is None:
        raise _too_large(f"{_node_text(node)}: its size is no constant")
    if size > most:
        raise _too_large(f"{_node_text(node)} makes {size:,.0f} values, at most {most:,}")
    return size


def _size(name: str, argument: exp.Expr) -> float | None:
    if name == "format_number" and isinstance(argument, exp.Literal) and argument.is_string:
        return float(len(str(argument.this)))
    found = _number(argument)
    return None if found is None else abs(found)


def _range(arguments: list[exp.Expr]) -> list[exp.Expr]:
    return [exp.Literal.number(0), *arguments] if len(arguments) == 1 else arguments[:3]


def _steps(arguments: list[exp.Expr]) -> float | None:
    """Return the number of values from one bound to the other; None where it is not told by constants."""
    if not 2 <= len(arguments) <= 3:
        return None
    begin, end = map(_bound, arguments[:2])
    if begin is None or end is None:
        return None
    least = _DAY if any(_is_time(each) for each in arguments[:2]) else 1.0
    step = least if len(arguments) == 2 else _bound(arguments[2])
    if not step:
        return None
    return abs(end - begin) / abs(step) + 1


def _bound(node: exp.Expr) -> float | None:
    """Return a number, or the seconds of a time or an interval."""
    if (found := _number(node)) is not None:
        return found
    if isinstance(node, exp.Interval):
        unit = node.args.get("unit")
        length = _SECONDS.get(str(unit.name if unit is not None else "").lower().removesuffix("s"))
        count = _text_number(node.this)
        return None if length is None or count is None else length * count
    if _is_time(node):
        text = node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
        try:
            return datetime.fromisoformat(str(text.this)).timestamp()
        except (ValueError, AttributeError, OverflowError):
            return None
    return None


def _is_time(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return _name(node) in ("to_date", "to_timestamp", "date", "timestamp") and len(node.expressions) == 1
    kinds = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ)
    return isinstance(node, exp.Cast) and node.to.this in kinds


_ARITHMETIC: Mapping[type[exp.Expr], Callable[[float, float], float]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
}


def _number(node: exp.Expr) -> float | None:
    """Return what constants and signs tell; None for all else."""
    match node:
        case exp.Literal() if not node.is_string:
            return _text_number(node)
        case exp.Paren():
            return _number(node.this)
        case exp.Neg():
            found = _number(node.this)
            return None if found is None else -found
        case exp.Cast() if node.to.this in exp.DataType.NUMERIC_TYPES:
            # A conversion makes no number larger, and what does not fit is an error.
            found = _number(node.this)
            return None if found is None else max(abs(found), 0.0) * math.copysign(1, found)
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = _number(node.this), _number(node.expression)
            return None if left is None or right is None else _ARITHMETIC[type(node)](left, right)
    return None


def _text_number(node: object) -> float | None:
    try:
        found = float(str(getattr(node, "this", node)))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _duration(node: exp.Expr) -> float | None:
    if not (isinstance(node, exp.Literal) and node.is_string):
        return None
    try:
        return parse_duration(re.sub(r"(?i)^\s*interval\s+", "", str(node.this)))
    except ValueError:
        return None


def _check_fold(node: exp.Expr, merge: exp.Expr) -> None:
    """Refuse a fold that joins what was gathered to itself: it doubles with each element."""
    if not isinstance(merge, exp.Lambda) or not merge.expressions:
        return
    gathered = merge.expressions[0].name.lower()
    if _doubles(merge.this, gathered):
        raise _too_large(f"{_node_text(node)}: what is gathered stands once in it")


def _check_recursion(node: exp.With) -> None:
    for table in node.expressions:
        for inner in table.this.walk():
            names = [column.name.lower() for column in _columns(inner)] if _joins(inner) else []
            if len(names) > len(set(names)):
                raise _too_large(f"{_node_text(inner)}: a column stands once in what a recursive table joins")


def _doubles(body: exp.Expr, name: str) -> bool:
    uses = sum(isinstance(each, exp.Identifier) and each.name.lower() == name for each in body.walk())
    return uses > 1 and any(_joins(each) for each in body.walk())


def _joins(node: exp.Expr) -> bool:
    return isinstance(node, exp.DPipe) or _name(node) in _JOINED


def _times(query: exp.Expr, known: Mapping[str, int]) -> int:
    """Return how many times as long as a value of a relation the values of a query may be.

    Args:
        query: with its table expressions and subqueries.
        known: the same of table expressions around it.
    """
    known = dict(known)
    tables = query.args.get("with_") or query.args.get("with")
    for table in tables.expressions if tables is not None else ():
        known[table.alias.lower()] = _times(table.this, known)
    own, read = 1, 1
    for node in _within(query):
        if isinstance(node, exp.Table):
            read = max(read, known.get(node.name.lower(), 1))
        elif isinstance(node, exp.Query) and not isinstance(node, exp.Table):
            read = max(read, _times(node, known))
        elif isinstance(node, exp.Array) or _name(node) in _GATHERED or _joins(node):
            own = max(own, sum(1 for _ in _columns(node)))
    return own * read


def _within(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of a query; of queries inside it themselves, and nothing of theirs."""
    waiting = [each for each in query.iter_expressions() if not isinstance(each, exp.With)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, exp.Query) or isinstance(node, exp.Table):
            waiting += node.iter_expressions()


def _columns(node: exp.Expr) -> Iterator[exp.Column]:
    return node.find_all(exp.Column)


def _name(node: exp.Expr | None) -> str:
    """Return the name of the function that a node calls; empty for all other nodes."""
    if not isinstance(node, exp.Anonymous):
        return ""
    return str(node.this.name if isinstance(node.this, exp.Expr) else node.this).lower()


def _node_text(node: exp.Expr) -> str:
    text = node.sql("spark", comments=False)
    return f"{text[:80]!r}{'…' if len(text) > 80 else ''}"


def _too_large(message: str) -> EngineError:
    return EngineError("XSCL_SQL_SIZE", message, hint="docs/reference/limits.md has the sizes; fewer, or constant ones")
