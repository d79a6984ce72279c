"""Formulas over columns (``formulas``) as spans of values.

A formula becomes some **alternatives**; a row satisfies it iff it satisfies one of them.  An alternative is a
conjunction with one entry for each *dimension* that it speaks of, a column read in one way, and an entry is a set of
values: spans between **boundaries**.  The values of all columns, NULL among them, lie in one order of boundaries:

    NULL | no value of this reading | constants and what lies between them

so ``not``, ``!=`` and NULLs need no rule of their own: they are complements.

Of a column of several values, one value must lie in the spans.  Whether one does is true or false, so each such
question is a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from lxml import etree

from xscl.base.own_functions import is_own, returns_numbers
from xscl.base.values import number_text, to_number
from xscl.xpath.columns.formulas import All, Any_, Formula, Not, Single, There, Told
from xscl.xpath.conditions.condition import holds, text_of
from xscl.xpath.conditions.intervals import Key, Reading
from xscl.xpath.pattern import Call, Compared, Comparison, Condition, Constant, Expression, Here, Truth

__all__ = [
    "FALSE",
    "MAX_ALTERNATIVES",
    "TRUE",
    "Alternative",
    "Boundary",
    "Dimension",
    "Sought",
    "Span",
    "TooManyAlternatives",
    "Values",
    "alternatives",
    "paths_read",
    "satisfies",
]

MAX_ALTERNATIVES = 64
"""Greatest number of alternatives of one formula: conjunctions of disjunctions multiply."""


class TooManyAlternatives(Exception):
    """A formula has more than ``MAX_ALTERNATIVES``."""


# -- values in one order -------------------------------------------------------------------------------------------

Boundary = tuple[int] | tuple[int, Key, int]
"""(0,) lies before NULL, (1,) behind it, (2,) before the first value of a reading; (3, c, 0) before the constant c and
(3, c, 1) behind it; (4,) behind all.  Where a dimension has only false and true, (1,) lies between and (2,) behind."""

Span = tuple[Boundary, Boundary]
Values = tuple[Span, ...]
"""Disjoint and rising."""

_NULL: Boundary = (0,)
_THERE: Boundary = (1,)
_VALUE: Boundary = (2,)
_END: Boundary = (4,)
TRUE: Values = ((_THERE, _VALUE),)
FALSE: Values = ((_NULL, _THERE),)


@dataclass(frozen=True, slots=True)
class Sought:
    """Words that are sought in a text."""

    functions: str
    """Functions applied to the text before, outermost first."""
    name: str
    """Function that seeks the words."""
    words: tuple[str, ...]
    """Words, none of them empty; one is enough."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A column, and how its text is read: as a key, or as true where it has words or a condition holds.

    Without a reading: whether it is there.
    """

    column: int
    reading: Reading | Sought | Single | Told | None
    some: Values | None = None
    """True where one of several values of the column lies in these spans; None: the column has one value, or the
    reading says by itself whether one of several will do."""

    @property
    def is_truth(self) -> bool:
        """Its values are false, which is that of NULL, and true."""
        return self.some is not None or not isinstance(self.reading, Reading)

    @property
    def end(self) -> Boundary:
        """Behind all values."""
        return _VALUE if self.is_truth else _END


Alternative = dict[Dimension, Values]
"""Values for each dimension of an alternative; an empty alternative holds of every row."""


def _meet(one: Values, other: Values) -> Values:
    spans = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple(sorted(span for span in spans if span[0] < span[1]))


def _join(spans: Iterable[Span]) -> Values:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return tuple(found)


def _complement(values: Values, end: Boundary) -> Values:
    ends: list[Boundary] = [_NULL, *(boundary for span in values for boundary in span), end]
    return tuple((low, high) for low, high in zip(ends[::2], ends[1::2], strict=True) if low < high)


# -- alternatives --------------------------------------------------------------------------------------------------


def alternatives(formula: Formula) -> list[Alternative]:
    """Return the alternatives of a formula; [] if no row satisfies it.

    Raises:
        TooManyAlternatives: it is not worth while.
    """
    return [_without_needless(each) for each in _alternatives(formula, negated=False)]


def _alternatives(formula: Formula, *, negated: bool) -> list[Alternative]:
    match formula:
        case Not(part):
            return _alternatives(part, negated=not negated)
        case All(parts) | Any_(parts):
            found = [_alternatives(part, negated=negated) for part in parts]
            if isinstance(formula, All) is not negated:
                return reduce(_product, found, [{}])
            return _sum(found)
        case There(0):
            return [] if negated else [{}]
        case There(column):
            dimension, values = Dimension(column, None), TRUE
        case Told(column):
            dimension, values = Dimension(column, formula), TRUE
        case Single():
            dimension, values = _values(formula)
    if formula.several and not isinstance(dimension.reading, Sought | Told):
        dimension, values = replace(dimension, some=values), TRUE if values else ()
    if negated:
        values = _complement(values, dimension.end)
    return [{dimension: values}] if values else []


def _product(one: list[Alternative], other: list[Alternative]) -> list[Alternative]:
    found = []
    for first in one:
        for second in other:
            both = dict(first)
            for dimension, values in second.items():
                both[dimension] = _meet(both[dimension], values) if dimension in both else values
            if all(both.values()):
                found.append(both)
    return _few(found)


def _sum(parts: Iterable[list[Alternative]]) -> list[Alternative]:
    """Return all alternatives; those of one and the same dimension become one."""
    found: list[Alternative] = []
    alone: dict[Dimension, list[Span]] = {}
    for alternative in (each for part in parts for each in part):
        if not alternative:
            return [{}]
        if len(alternative) > 1:
            found.append(alternative)
        else:
            ((dimension, values),) = alternative.items()
            alone.setdefault(dimension, []).extend(values)
    found += ({dimension: _join(spans)} for dimension, spans in alone.items())
    return _few(found)


def _few(found: list[Alternative]) -> list[Alternative]:
    if len(found) > MAX_ALTERNATIVES:
        raise TooManyAlternatives
    return found


def _without_needless(alternative: Alternative) -> Alternative:
    """Leave out entries that say only that a column is there, where another one says so."""
    there = {
        dimension.column
        for dimension, values in alternative.items()
        if dimension.reading is not None and values[0][0] >= _THERE and not _is_of_root(dimension)
    }
    return {
        dimension: values
        for dimension, values in alternative.items()
        if not (dimension.reading is None and values == TRUE and dimension.column in there)
    }


def _is_of_root(dimension: Dimension) -> bool:
    return isinstance(dimension.reading, Single) and dimension.reading.name is not None


def _values(atom: Single) -> tuple[Dimension, Values]:
    """Return the values that satisfy a condition, in the dimension that tells them apart."""
    own = atom if atom.name is None else Single(atom.column, _of_node(atom.condition))
    dimension, values = _own_values(own)
    if atom.name is None:
        return dimension, values
    if isinstance(dimension.reading, Single):
        return Dimension(atom.column, atom), TRUE
    # Without a node, a text is empty and a number 0.
    return dimension, _join([*values, (_NULL, _THERE)]) if satisfies(atom, None) else values


def _own_values(atom: Single) -> tuple[Dimension, Values]:
    """Return the values of a column's own node that satisfy a condition."""
    if atom.name is None:
        match atom.condition:
            case Comparison(Call("count"), _, _):
                return Dimension(atom.column, None), TRUE if satisfies(atom, "") else ()
            case Truth(Call("contains" | "starts-with" | "contains-word" as name, (operand, *constants))):
                functions = _functions(operand)
                words = tuple(text_of(each) for each in constants if isinstance(each, Constant))
                if functions is not None and len(words) == len(constants):
                    if not all(words):  # every text has the empty one
                        return Dimension(atom.column, None), TRUE
                    return Dimension(atom.column, Sought(functions, name, words)), TRUE
            case Truth(call) if functions := _functions(call):
                # A text is true unless it is empty.
                return Dimension(atom.column, Reading(functions, number=False)), _compared(
                    "!=", "", unequal_from=_THERE
                )
            case Comparison(Call("string-length", inner), op, right):
                functions = _functions(inner[0] if inner else Here())
                if functions is not None:
                    length, exact = to_number(right.value), f"string-length {functions}".rstrip()
                    dimension = Dimension(atom.column, Reading(exact, number=True))
                    asked = None if length is None else Fraction(length)
                    return dimension, _compared(op, asked, unequal_from=_THERE)
            case Comparison(left, op, right):
                functions = _functions(left, own=not right.is_number and op in ("=", "!="))
                if functions is not None and op in ("=", "!=") and not right.is_number:
                    reading = Reading(functions or None, number=False)
                    # No value of a function of one's own satisfies no comparison.
                    unequal_from = _VALUE if is_own(functions) else _THERE
                    return Dimension(atom.column, reading), _compared(op, right.value, unequal_from=unequal_from)
                if functions == "":
                    reading, number = Reading(None, number=True), to_number(right.value)
                    return Dimension(atom.column, reading), _compared(op, number, unequal_from=_THERE)
            case Compared(functions, op, right) as compared:
                number_asked = compared.of_numbers
                reading = Reading(functions if number_asked else functions or None, number=number_asked)
                constant = _exact(right) if reading.number else right.value
                if constant is None:
                    return Dimension(atom.column, reading), ()
                return Dimension(atom.column, reading), _compared(op, constant, unequal_from=_VALUE)
    return Dimension(atom.column, atom), TRUE


def _of_node(condition: Condition) -> Condition:
    """Return a condition on the column's own node for one that leads from the root to that column."""
    match condition:
        case Comparison(left, op, right):
            return Comparison(_without_steps(left), op, right)
        case Truth(Call(name, args)):
            return Truth(Call(name, tuple(map(_without_steps, args))))
    raise AssertionError(condition)


def _without_steps(expression: Expression) -> Expression:
    match expression:
        case Here():
            return Here()
        case Call(name, args):
            return Call(name, tuple(map(_without_steps, args)))
        case Constant():
            return expression


def _exact(constant: Constant) -> Key | None:
    text = constant.value if constant.is_number else number_text(constant.value)
    return None if text is None else Fraction(text)


def _functions(expression: Expression, *, own: bool = False) -> str | None:
    """Return the functions of a reading that an expression such as ``lower(normalize-space(.))`` applies, with ``own``
    those of one's own that return texts among them; None for other expressions.
    """
    names = []
    while isinstance(expression, Call) and (
        expression.name in ("lower", "normalize-space")
        or own
        and is_own(expression.name)
        and not returns_numbers(expression.name)
    ):
        names.append(expression.name)
        if not expression.args:
            return " ".join(names)
        (expression,) = expression.args
    return " ".join(names) if expression == Here() else None


def _compared(op: str, constant: Key | None, *, unequal_from: Boundary) -> Values:
    """Return the values that compare so with a constant; None is NaN. From ``unequal_from`` on, values are unequal to
    all.
    """
    if constant is None:
        return ((unequal_from, _END),) if op == "!=" else ()
    before, behind = (3, constant, 0), (3, constant, 1)
    match op:
        case "=":
            return ((before, behind),)
        case "!=":
            return (unequal_from, before), (behind, _END)
        case "<":
            return ((_VALUE, before),)
        case "<=":
            return ((_VALUE, behind),)
        case ">":
            return ((behind, _END),)
        case _:
            return ((before, _END),)


def satisfies(atom: Single, text: str | None) -> bool:
    """Whether a condition holds where the column has this text; None is NULL.  For what no reading tells."""
    if atom.name is None:
        if text is None:
            return False
        node = etree.Element("column")
        node.text = text
        return holds(atom.condition, node)
    root = etree.Element("row")
    if text is not None:
        etree.SubElement(root, atom.name).text = text
    return holds(atom.condition, root)


def paths_read(condition: Comparison | Truth) -> list[Here]:
    """Return the paths whose values a condition computes with."""
    return _paths(condition.left if isinstance(condition, Comparison) else condition.call)


def _paths(expression: Expression) -> list[Here]:
    match expression:
        case Here():
            return [expression]
        case Call(_, args):
            return [path for arg in args for path in _paths(arg)] if args else [Here()]
    return []
