"""Accesses: the comparison under which a set of conditions is filed, one that it cannot do without.

A node that satisfies the set satisfies the access, so whoever knows which accesses hold of a node tries few sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from xscl.base.own_functions import is_own, returns_numbers
from xscl.base.values import number_text, to_number
from xscl.xpath.conditions.condition import clark_name, text_of
from xscl.xpath.conditions.intervals import Interval, Key, Path, Reading
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Here,
    Negation,
    OfColumns,
    Step,
    Truth,
    own_path,
    uses_own,
)

__all__ = ["Access", "access_of", "cost"]

_CROWD = 16
"""Sets filed under one constant from which on another constant is the better access."""
_NUMBERS = ("count", "string-length")
_TEXTS = ("lower", "normalize-space")
_WORDS = ("contains", "starts-with", "contains-word")


@dataclass(frozen=True, slots=True)
class Access:
    """A comparison under which a set of conditions is filed."""

    path: Path
    reading: Reading | None
    """None: that the path leads to a node is enough."""
    equal: Key | None = None
    interval: Interval | None = None
    words: tuple[str, ...] = ()
    """Words; the value has one of them in the sense of ``function``."""
    function: str = ""
    computed: Expression | None = None
    """An expression whose value at the path's nodes is compared; None: the string values of the nodes are."""
    child: str | None = None
    """Name of children without which the computed value satisfies nothing; None: there is no such name."""
    exact: bool = True
    """True if the access says all that its condition says."""
    paired: bool = False
    """The interval comes from two conditions, which two different nodes may satisfy."""

    def order(self, crowd: int) -> tuple[int, int, int]:
        """Return a key that is small for an access that few nodes satisfy.

        ``crowd`` counts the sets that are filed under the same constants.
        """
        if self.equal is not None or self.words:
            longest = -min(map(len, self.words), default=0)
            return 2 if crowd >= _CROWD else 1 if self.words else 0, crowd, longest
        if self.interval is None:
            return 5, crowd, 0
        return 3 if self.interval.low is not None and self.interval.high is not None else 4, crowd, 0


Crowd = Callable[[Access], int]
"""Counts the sets that are filed under the constants of an access."""


def access_of(conditions: Sequence[Condition], crowd: Crowd) -> tuple[tuple[Access, ...], tuple[Condition, ...]]:
    """Return the accesses for the conditions of one node (any of them must hold), and the conditions they leave open.

    Of several equalities and words the one is taken that the smallest ``crowd`` is filed under, because many sets may
    share the constant of the other.  The conditions left open begin with the cheapest.
    """
    found = [(condition, accesses) for condition in conditions if (accesses := _accesses(condition, crowd))]
    together: dict[tuple[Path, Reading | None, Expression | None], list[tuple[Condition, Access]]] = {}
    for condition, accesses in found:
        if len(accesses) == 1 and accesses[0].interval is not None:
            one = accesses[0]
            together.setdefault((one.path, one.reading, one.computed), []).append((condition, one))
    choices: list[tuple[tuple[Condition, ...], tuple[Access, ...]]] = [((each,), accesses) for each, accesses in found]
    for (path, _, computed), parts in together.items():
        if len(parts) > 1 and (computed is None or not path):
            choices.append((tuple(condition for condition, _ in parts), (_merged(parts),)))
    left = sorted(conditions, key=cost)
    if not choices:
        return (), tuple(left)
    # Of equals the last is taken, which is the one with more conditions.
    said, best = min(reversed(choices), key=lambda choice: max(access.order(crowd(access)) for access in choice[1]))
    if not all(access.exact for access in best):
        said = ()
    return best, tuple(condition for condition in left if condition not in said)


def _merged(parts: Sequence[tuple[Condition, Access]]) -> Access:
    interval = Interval()
    children = set()
    for _, access in parts:
        assert access.interval is not None
        interval &= access.interval
        children.add(access.child)
    exact = all(access.exact for _, access in parts)
    first = parts[0][1]
    child = max(children, key=lambda name: name or "")
    return replace(first, interval=interval, exact=exact, paired=first.path != (), child=child)


def _accesses(condition: Condition, crowd: Crowd) -> tuple[Access, ...]:
    """Return accesses, among them for every node that satisfies the condition one that finds it; () if none can."""
    match condition:
        case Comparison(Here(()), op, right):
            if op in ("=", "!=") and not right.is_number:
                return _compared(Reading(None, number=False), op, right.value)
            number = to_number(right.value)
            return () if number is None else _compared(Reading(None, number=True), op, number)
        case Comparison(Call() as call, op, right):
            return _of_call(call, op, right)
        case Compared(functions, op, right) if not is_own(functions):
            if not condition.of_numbers:
                return _compared(Reading(functions, number=False), op, right.value)
            exact = right.value if right.is_number else number_text(right.value)
            return () if exact is None else _compared(Reading(functions, number=True), op, Fraction(exact))
        case Truth(Call(name, args)) if name in _WORDS:
            return _of_words(name, args)
        case Exists(step):
            bare = Step(step.axis, step.test)
            inner, rest = access_of(step.conditions, lambda access: crowd(replace(access, path=(bare, *access.path))))
            if not inner:
                return (Access((bare,), None, exact=not rest),)
            below = (replace(access, path=(bare, *access.path)) for access in inner)
            return tuple(replace(access, exact=access.exact and not rest) for access in below)
        case AllOf(parts):
            inner, rest = access_of(parts, crowd)
            return tuple(replace(access, exact=access.exact and not rest) for access in inner)
        case AnyOf(parts):
            each = [_accesses(part, crowd) for part in parts]
            return tuple(access for accesses in each for access in accesses) if all(each) else ()
        case OfColumns(_, part, otherwise):
            return tuple(replace(access, exact=False) for access in _accesses(AnyOf((part, otherwise)), crowd))
    return ()


def _compared(reading: Reading, op: str, constant: Key) -> tuple[Access, ...]:
    match op:
        case "=":
            return (Access((), reading, equal=constant),)
        case "<" | "<=":
            return (Access((), reading, interval=Interval(high=constant, with_high=op == "<=")),)
        case ">" | ">=":
            return (Access((), reading, interval=Interval(low=constant, with_low=op == ">=")),)
    return ()


def _of_call(call: Call, op: str, right: Constant) -> tuple[Access, ...]:
    """Return the access of a comparison with what a function gives."""
    if not is_own(call.name) and call.name not in (*_NUMBERS, *_TEXTS):
        return ()
    numbers = call.name in _NUMBERS or returns_numbers(call.name)
    of_numbers = numbers or right.is_number or op not in ("=", "!=")
    constant: Key | None = to_number(right.value) if of_numbers else right.value
    if constant is None:
        return ()
    found = _compared(Reading(None, number=of_numbers), op, constant)
    if uses_own(call):  # it has no value without a node
        child = _first_child(call) if own_path(call) is not None else None
        return tuple(replace(access, computed=call, child=child) for access in found)
    # Without a node, a text is empty and a number 0.
    empty: Key = 0.0 if call.name in _NUMBERS else ""
    if of_numbers and empty == "":
        needs_node = True
    else:
        needs_node = all(
            access.equal != empty and (access.interval is None or empty not in access.interval) for access in found
        )
    child = _first_child(call) if needs_node else None
    return tuple(replace(access, computed=call, child=child) for access in found)


def _of_words(name: str, args: tuple[Expression, ...]) -> tuple[Access, ...]:
    operand, *sought = args
    if isinstance(operand, Constant) or not all(isinstance(each, Constant) for each in sought):
        return ()
    words = tuple(text_of(each) for each in sought if isinstance(each, Constant))
    if not all(words):
        return ()  # every text has the empty one
    reading = Reading(None, number=False)
    child = None if uses_own(operand) and own_path(operand) is None else _first_child(operand)
    return (Access((), reading, words=words, function=name, computed=operand, child=child),)


def _first_child(expression: Expression) -> str | None:
    """Return the name of the children through which the expression's one path leads."""
    while isinstance(expression, Call) and expression.args:
        expression = expression.args[0]
    if not isinstance(expression, Here) or not expression.steps:
        return None
    first = expression.steps[0]
    return clark_name(first.test) if first.axis == "child" and first.test.kind == "element" else None


# -- costs -----------------------------------------------------------------------------------------------------------


def cost(condition: Condition) -> int:
    """Rank conditions by what it costs to try one: equalities, ranges, words, functions, functions of one's own."""
    if uses_own(condition):
        return 4
    match condition:
        case Comparison(Call()):
            return 3
        case Comparison(_, op, _) | Compared(_, op, _):
            return 0 if op in ("=", "!=") else 1
        case Truth(Call(name, (Here(), *_))):
            return 2 if name in ("contains", "starts-with") else 3
        case Truth():
            return 3
        case Negation(part):
            return cost(part)
        case Exists(step):
            return max(map(cost, step.conditions), default=0)
        case AllOf(parts) | AnyOf(parts):
            return max(map(cost, parts), default=0)
        case OfColumns(_, part, otherwise):
            return max(cost(part), cost(otherwise))
