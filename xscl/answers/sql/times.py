"""Event times that a statement asks channels for, told from its conditions; files of other times are not read.

Spark tests the statement's conditions itself.  Bounds are found only where they are sure: in a comparison of the
channel's ``ts`` with a constant, among conditions of WHERE that all have to hold.  Everything else bounds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import reduce

from sqlglot import exp

from xscl.base.types import now_micros, to_micros
from xscl.store.event_spans import EVERYTHING, Events

__all__ = ["asked_times"]

_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{1,6})?Z?)?\Z", re.ASCII)
_TYPES = frozenset([exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ])
_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}
_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ}


def asked_times(tree: exp.Expr, relations: Collection[str]) -> dict[str, Events]:
    """Return the event times that each of some relations is asked for; relations that are read whole are left out.

    Args:
        tree: a query of the dialect of ``tokens``, in a session whose time zone is UTC.
        relations: names in small letters.
    """
    found: dict[str, Events] = {}
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        if name in relations:
            times = _times_of(table)
            found[name] = times if name not in found else _either(found[name], times)
    return {name: times for name, times in found.items() if times.is_timed}


def _times_of(table: exp.Table) -> Events:
    """Return the times that one reading of a relation is asked for."""
    select = table.parent.parent if isinstance(table.parent, (exp.From, exp.Join)) else None
    plain = all(not value or name in ("this", "alias") for name, value in table.args.items())
    alias = table.args.get("alias")
    if not isinstance(select, exp.Select) or not plain or (alias is not None and alias.args.get("columns")):
        return EVERYTHING
    where = select.args.get("where")
    conditions = _all_of(where.this) if where is not None else iter(())
    return reduce(_both, (_bound(each, table.alias_or_name.lower()) for each in conditions), EVERYTHING)


def _all_of(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Split conditions that all have to hold."""
    waiting = [condition]
    while waiting:
        match waiting.pop():
            case exp.Paren() as bracketed:
                waiting.append(bracketed.this)
            case exp.And() as both:
                waiting += [both.this, both.expression]
            case other:
                yield other


def _bound(condition: exp.Expr, alias: str) -> Events:
    """Return the times that a condition admits."""
    match condition:
        case exp.Between(this=column) if _is_time(column, alias) and not condition.args.get("symmetric"):
            low, high = condition.args["low"], condition.args["high"]
            return _both(_compared(exp.GTE, low), _compared(exp.LTE, high))
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.EQ():
            left, right = condition.this, condition.expression
            if _is_time(left, alias):
                return _compared(type(condition), right)
            if _is_time(right, alias):
                return _compared(_MIRRORED[type(condition)], left)
    return EVERYTHING


def _is_time(node: object, alias: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == "ts" and node.table.lower() in ("", alias)


def _compared(comparison: type[exp.Expr], constant: exp.Expr) -> Events:
    """Return the times that compare so with a constant; both ends count, whether they are included or not."""
    since = _ago(constant)
    if since is not None:
        # Spark asks for its own now a little later.
        return Events(since=since) if comparison in (exp.GT, exp.GTE) else EVERYTHING
    moment = _moment(constant)
    if moment is None:
        return EVERYTHING
    if comparison is exp.EQ:
        return Events(since=moment, until=moment)
    return Events(since=moment) if comparison in (exp.GT, exp.GTE) else Events(until=moment)


def _moment(constant: exp.Expr) -> int | None:
    """Return the time that a constant is, microseconds; None if that is not sure."""
    text = constant
    if isinstance(constant, exp.Cast):
        text = constant.this
        kind = constant.to.this
        if kind != exp.DType.DATE and kind not in _TYPES:
            return None
        if kind == exp.DType.DATE and len(text.name) > len("2026-01-01"):
            return None
    if not isinstance(text, exp.Literal) or not text.is_string or not _TIME.match(text.this):
        return None
    written = text.this.removesuffix("Z")
    try:
        return to_micros(written + ("Z" if len(written) > len("2026-01-01") else "T00:00:00Z"))
    except ValueError:
        return None


def _ago(constant: exp.Expr) -> int | None:
    """Return the time of ``current_timestamp() - INTERVAL 7 DAYS``, microseconds; None for other texts."""
    if not isinstance(constant, exp.Sub) or not isinstance(constant.expression, exp.Interval):
        return None
    now, past = constant.this, constant.expression
    called = isinstance(now, exp.Anonymous) and not now.expressions and str(now.this).lower()
    if not isinstance(now, exp.CurrentTimestamp) and called not in ("now", "current_timestamp"):
        return None
    seconds = _UNITS.get(past.text("unit").upper().removesuffix("S"))
    if seconds is None or not re.fullmatch(r"\d{1,6}", past.name, re.ASCII):
        return None
    return now_micros() - int(past.name) * seconds * 1_000_000


def _both(one: Events, other: Events) -> Events:
    return Events(since=max(one.since, other.since), until=min(one.until, other.until))


def _either(one: Events, other: Events) -> Events:
    return Events(since=min(one.since, other.since), until=max(one.until, other.until))
