"""Comparisons that can never hold, alone or together, told from a normal form and from what is known of channels.

Only what is certain is told.  A path may reach several nodes, so ``[a = 1][a = 2]`` can hold of a document; the value
of one node, an attribute of one element and a column of a row are single.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xscl.base.errors import Span
from xscl.base.values import column_text, normalize_space, number_text, time_key, to_number
from xscl.language.column_types import as_number, as_time, is_wildcard, names_column
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import NormalBlock, NormalJoin, NormalQuery
from xscl.xpath.columns.conditions import TooManyAlternatives, alternatives, satisfies
from xscl.xpath.columns.formulas import NEVER, All, Any_, Formula, Not, Single, There
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Exists,
    Here,
    Negation,
    OfColumns,
    Step,
    Truth,
)

__all__ = ["Impossible", "impossible"]

_NOTHING = ChannelFacts()
_ANY = "*"
"""Stands for any column of a row: each is compared as its type demands."""
_MOST_TOGETHER = 50
"""Conditions of one value that are looked at together."""
_NUMBERS = frozenset(["count", "string-length"])
"""Functions that give a number."""
_LEAVE_OUT = "leave out one of them"
_TIME_HINT = "a time is written '2026-01-01' or '2026-01-01T00:00:00Z', with Z or an offset"


@dataclass(frozen=True, slots=True)
class Impossible:
    """A part of a query that can never hold."""

    span: Span
    reason: str
    hint: str | None = None
    together: bool = False
    """True where several comparisons contradict each other, and each of them alone may hold."""


def impossible(normal: NormalQuery, channels: Mapping[str, ChannelFacts]) -> Impossible | None:
    """Return the first comparison that can never hold, or else the first that contradicts others; None: neither."""
    found = [each for block in normal.blocks for each in _in_block(block, channels.get(block.channel, _NOTHING))]
    return min([*found, *_in_joins(normal.joins)], key=lambda each: each.together, default=None)


# -- one value -------------------------------------------------------------------------------------------------


def _in_block(block: NormalBlock, facts: ChannelFacts) -> Iterator[Impossible]:
    values: dict[object, list[tuple[Condition, Span]]] = {}
    columns: dict[object, str | None] = {}
    for number, node in enumerate(block.nodes):
        if not node.conditions:
            continue
        column = _column(node.step, facts) if node.step is not None and not _is_root(block, number) else None
        key: object = number
        if column not in (None, _ANY):
            key = column
        elif node.step is not None and _is_single(node.step):
            key = node.parent, node.step.test
        columns[key] = column
        values.setdefault(key, []).extend(zip(node.conditions, node.spans, strict=True))
    for key, found in values.items():
        yield from _of_value(found, columns[key], facts)
    if facts.kind == "rows":
        yield from _of_row(block, facts)


def _of_row(block: NormalBlock, facts: ChannelFacts) -> Iterator[Impossible]:
    """Yield conditions of a row's columns, and of the row, that contradict each other."""
    if not 1 < sum(len(node.conditions) for node in block.nodes) <= _MOST_TOGETHER:
        return
    formulas = _Formulas(facts)
    made: list[Formula] = []
    spans: list[Span] = []
    for number, node in enumerate(block.nodes):
        column = _column(node.step, facts) if node.step is not None and not _is_root(block, number) else None
        value = f"node {number}" if column in (None, _ANY) else f"column {column}"
        for condition, span in zip(node.conditions, node.spans, strict=True):
            made.append(formulas.of(condition, column, value))
            spans.append(span)
    # In the order of the text, so that the last one of those that contradict each other is told.
    order = sorted(range(len(made)), key=lambda place: spans[place].start)
    for count, place in enumerate(order, start=1):
        if count > 1 and _never(All(frozenset(made[each] for each in order[:count]))):
            reason = "a row cannot satisfy this and the conditions before"
            yield Impossible(spans[place], reason, _LEAVE_OUT, together=True)
            return


def _is_root(block: NormalBlock, number: int) -> bool:
    step = block.nodes[number].step
    return block.nodes[number].parent == 0 and step is not None and step.axis == "child"


def _column(step: Step, facts: ChannelFacts) -> str | None:
    """Return the column of rows that a step asks for; ``_ANY`` where it may be any."""
    if facts.kind != "xml" and is_wildcard(step):
        return _ANY
    if facts.kind != "rows" or step.test.local is None:
        return None
    return step.test.local if names_column(step, frozenset((step.test.local,))) else None


def _is_single(step: Step) -> bool:
    """Tell whether a step reaches one node at most, wherever it starts."""
    test = step.test
    return test.kind == "attribute" and step.axis == "child" and test.uri is not None and test.local is not None


def _of_value(found: Sequence[tuple[Condition, Span]], column: str | None, facts: ChannelFacts) -> Iterator[Impossible]:
    formulas = _Formulas(facts)
    for condition, span in found:
        told = formulas.reason(condition, column)
        if told is not None:
            yield Impossible(span, *told, together=told[1] == _LEAVE_OUT)
            return
    if len(found) == 1 or len(found) > _MOST_TOGETHER:
        return
    made = [formulas.of(condition, column) for condition, _ in found]
    for place, (_, span) in enumerate(found):
        if _never(All(frozenset(made[: place + 1]))):
            what = "a value" if column in (None, _ANY) else f"the column {column}, which has one value in a row,"
            yield Impossible(span, f"{what} cannot satisfy this and the conditions before", _LEAVE_OUT, together=True)
            return


def _never(formula: Formula) -> bool:
    try:
        return not alternatives(formula)
    except TooManyAlternatives:
        return False


class _Formulas:
    """Conditions as formulas over values; what is not understood may hold and may not."""

    def __init__(self, facts: ChannelFacts) -> None:
        self.facts = facts
        self._numbers: dict[str, int] = {}

    def reason(self, condition: Condition, column: str | None) -> tuple[str, str | None] | None:
        """Return the reason why a condition of a column, or of any node, never holds, with a hint."""
        match condition:
            case AllOf(parts):
                told = (self.reason(part, column) for part in parts)
                if (found := next((one for one in told if one is not None), None)) is not None:
                    return found
            case AnyOf(parts):
                reasons = [self.reason(part, column) for part in parts]
                if None not in reasons:
                    return reasons[0]
            case Exists(step):
                below = _column(step, self.facts)
                told = (self.reason(part, below) for part in step.conditions)
                if (found := next((one for one in told if one is not None), None)) is not None:
                    return found
            case Comparison() | Compared():
                return self._compared(condition, column)
            case Truth():
                return None
        if _never(self.of(condition, column)):
            return "no value satisfies these conditions together", _LEAVE_OUT
        return None

    def of(self, condition: Condition, column: str | None, value: str = "") -> Formula:
        """Return a formula; ``value`` names the node that the condition is of."""
        match condition:
            case Negation(part):
                return Not(self.of(part, column, value))
            case AllOf(parts):
                return All(frozenset(self.of(part, column, value) for part in parts))
            case AnyOf(parts):
                return Any_(frozenset(self.of(part, column, value) for part in parts))
            case Exists(step):
                return self._exists(step, value)
            case Truth(call):
                return There(self._number(f"{value} {call}"))
            case Comparison() | Compared():
                if self._compared(condition, column) is not None:
                    return NEVER
                if column == _ANY and _differs_by_type(condition):
                    return There(self._number(f"{value} {condition}"))
                typed = self._typed(condition, column)
                if isinstance(typed, Comparison) and typed.left != Here():
                    # A function that gives a number is compared as one, with a text, too.
                    of_number = isinstance(typed.left, Call) and typed.left.name in _NUMBERS
                    right = replace(typed.right, is_number=of_number or typed.right.is_number)
                    name, typed = f"{value} {typed.left}", replace(typed, left=Here(), right=right)
                    return Single(self._number(name), typed)
                return Single(self._number(value), typed)
            case OfColumns():
                raise AssertionError("normal form knows no types of columns")

    def _exists(self, step: Step, value: str) -> Formula:
        column = _column(step, self.facts)
        if column == _ANY or (column is None and not _is_single(step)):
            if any(self.reason(part, column) is not None for part in step.conditions):
                return NEVER
            return There(self._number(f"{value} {step}"))
        below = f"column {column}" if column is not None else f"{value}/{step.test}"
        inner = frozenset(self.of(part, column, below) for part in step.conditions)
        # A value that is compared is there.
        is_there = any(isinstance(part, Single) for part in inner)
        return All(inner if is_there else inner | {There(self._number(below))})

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def _typed(self, condition: Comparison | Compared, column: str | None) -> Comparison | Compared:
        if column is None:
            return condition
        found: Condition = as_number(condition) if column in self.facts.numeric else condition
        found = as_time(found, self.facts.times, of_time=column in self.facts.times)
        assert isinstance(found, (Comparison, Compared))
        return found

    def _compared(self, condition: Comparison | Compared, column: str | None) -> tuple[str, str | None] | None:
        """Return the reason why one comparison never holds."""
        op, right = condition.op, condition.right
        shown = right.value if right.is_number else f"'{right.value}'"
        typed = self._typed(condition, column)
        if isinstance(condition, Compared):
            functions = condition.functions
        else:
            told = _of_call(condition.left, op, right)
            if told is not None:
                return told
            functions = "" if condition.left == Here() else "?"
        if not functions and column is not None and op != "!=":
            told = self._of_column(column, op, right, shown)
            if told is not None:
                return told
        of_order = op not in ("=", "!=") and not (isinstance(typed, Compared) and not typed.of_numbers)
        if of_order and not right.is_number and to_number(right.value) is None:
            if self._may_be_time(column) and not functions and time_key(right.value) is not None:
                return None
            hint = f"{shown} is no number; texts are compared by = and !="
            if time_key(right.value) is not None:
                hint = "times are compared in columns of type timestamp or date, which only channels of rows have"
            return f"'{op}' compares numbers, so nothing is {op} {shown}", hint
        return None

    def _may_be_time(self, column: str | None) -> bool:
        """Tell whether a value may turn out to be one of a column of times."""
        facts = self.facts
        known = facts.numeric | facts.texts | facts.truths
        return facts.kind is None or facts.kind == "rows" and (column is None or column not in known)

    def _of_column(self, column: str, op: str, right: Constant, shown: str) -> tuple[str, str | None] | None:
        facts = self.facts
        if column in facts.truths:
            single = Single(1, Comparison(Here(), op, right))
            if not any(satisfies(single, text) for text in ("true", "false")):
                return f"the column {column} is 'true' or 'false', so it is never {op} {shown}", f"{column} = 'true'"
        elif column in facts.times:
            if right.is_number or time_key(right.value) is None:
                return f"the column {column} is a time, and {shown} is none", _TIME_HINT
        elif column in facts.numeric and not right.is_number:
            number = number_text(right.value)
            if number is None:
                return f"the column {column} is a number, and {shown} is none", "compare it with a number"
        return None


def _differs_by_type(condition: Comparison | Compared) -> bool:
    """Tell whether a comparison means different things for columns of different types."""
    right = condition.right
    if right.is_number or (isinstance(condition, Comparison) and condition.left != Here()):
        return False
    is_number = isinstance(condition, Compared) and not condition.functions and number_text(right.value) is not None
    return is_number or time_key(right.value) is not None


def _of_call(left: object, op: str, right: Constant) -> tuple[str, str | None] | None:
    """Return the reason why a function's value never compares so."""
    if not isinstance(left, Call):
        return None
    if left.name in _NUMBERS:
        number = to_number(right.value)
        if number is None:
            if op != "!=":
                return f"{left.name}() is a number, and '{right.value}' is none", None
        elif (
            (op == "=" and (number < 0 or number != int(number)))
            or (op == "<" and number <= 0)
            or (op == "<=" and number < 0)
        ):
            return f"{left.name}() is a whole number from 0 on, so it is never {op} {column_text(number)}", None
    elif op == "=" and not right.is_number:
        if left.name == "lower" and right.value != right.value.lower():
            return f"lower() gives lower case, so it is never = '{right.value}'", f"write '{right.value.lower()}'"
        if left.name == "normalize-space" and right.value != normalize_space(right.value):
            spaces = "normalize-space() gives no white space at the ends and single spaces inside"
            return f"{spaces}, so it is never = '{right.value}'", f"write '{normalize_space(right.value)}'"
    return None


# -- two values ------------------------------------------------------------------------------------------------

_ALLOWED = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def _in_joins(joins: Sequence[NormalJoin]) -> Iterator[Impossible]:
    """Yield atoms that contradict each other: they compare the same two values."""
    if len(joins) < 2:
        return
    allowed: dict[object, set[str]] = {}
    operators: dict[object, set[str]] = {}
    for join in joins:
        key = join.left, join.right, join.fn_l, join.fn_r, join.f, join.add
        before = operators.setdefault(key, set())
        before.add(join.op)
        if join.op != "!=":
            allowed.setdefault(key, set("<=>")).intersection_update(_ALLOWED[join.op])
        # Equal texts are equal numbers, but different texts may be equal numbers, too.
        if not allowed.get(key, True) or {"=", "!="} <= before:
            reason = f"{join.left} and {join.right} cannot satisfy this and the comparisons before"
            yield Impossible(join.span, reason, _LEAVE_OUT, together=True)
