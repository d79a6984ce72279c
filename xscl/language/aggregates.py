"""Aggregates in queries: a query with windows of matches is a part, and what is said of its matches together.

The part is a query that is joined as all others, and selects the variables that groups and functions speak of.  A
``Definition`` tells where each value of its matches comes from, by places instead of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NoReturn

from xscl.base.errors import QueryError, Span, UnsupportedFeatureError
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.language import ast, constructor
from xscl.language.format import format_operand
from xscl.language.normalize import normalize
from xscl.language.parser import parse_query
from xscl.language.selection import Element, prepare_select

__all__ = [
    "ANSWERS",
    "MAX_OVERLAP",
    "Comparison",
    "Counted",
    "Definition",
    "Term",
    "definition_of",
    "known_definition",
    "part_of",
    "shown",
    "variable_blocks",
]

ANSWERS = "xscl.answers"
"""Channel of the documents that windows of matches make."""
MAX_OVERLAP = 10_000
"""Windows that a match is in, at most."""
_KIND = Literal["variable", "group", "aggregate", "text", "number"]


@dataclass(frozen=True, slots=True)
class Term:
    """A value: that of a variable, of a group or of an aggregate, with functions over it, or a constant."""

    kind: _KIND
    place: int = 0
    """Place among the variables, the operands of GROUP BY, or the aggregates."""
    functions: tuple[str, ...] = ()
    """Functions, the outermost first."""
    factor: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)
    is_number: bool = False
    """Whether arithmetic makes a number of it."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """An aggregate function over a value of each match."""

    function: str
    term: Term | None
    """None: over the matches themselves."""
    distinct: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition of HAVING."""

    left: Term
    op: ast.Op
    right: Term


@dataclass(frozen=True, slots=True)
class Definition:
    """Values of the matches of a part together, and which of them are told."""

    variables: tuple[str, ...]
    """Variables of the part's matches, in the order of their nodes."""
    window: int | None
    every: int | None
    last: int | None
    group: tuple[Term, ...]
    aggregates: tuple[Counted, ...]
    having: tuple[Comparison, ...]
    crossing: bool
    once_per: int | None
    top: int | None
    by: Term | None
    columns: tuple[tuple[str, Term], ...]
    """Elements of an answer with their values; none: ``element`` makes it."""
    element: Element | None
    holes: tuple[tuple[str, Term], ...]
    """Values of the element's holes, by the names of their paths."""


def part_of(query: ast.Query) -> ast.Query:
    """Return the query whose matches a query with windows speaks of."""
    names = _variables(query)
    select = tuple(ast.SelectItem(path) for path in names.values()) or None
    return ast.Query(query.source, select, span=query.span)


def shown(query: ast.Query) -> ast.Query:
    """Return the query that the answers of a query are shown by: itself, or one over the documents of windows."""
    if query.aggregate is None:
        return query
    named = query.select if isinstance(query.select, tuple) else ()
    names = [_name(item) for item in named]
    return ast.Query(ast.Block(ANSWERS, None, tuple(map(_child, names))))


def definition_of(query: ast.Query, text: str, namespaces: Mapping[str, str] | None = None) -> Definition:
    """Return what a query with windows says of matches together; spans speak of ``text``.

    Raises:
        QueryError: ``XSCL_AGGREGATE``: a variable is neither grouped nor aggregated, or windows do not fit.
        UnsupportedFeatureError: ``XSCL_AGGREGATE_LIMIT``.
    """
    return _Definer(query, text, namespaces).definition()


def _variables(query: ast.Query) -> dict[str, ast.VarPath]:
    """Return the variables that are grouped by and aggregated, by name."""
    assert query.aggregate is not None
    found: dict[str, ast.VarPath] = {}
    operands = [*query.aggregate.group]
    operands += [each.operand for each in query.measures if each.function != "value" and each.operand is not None]
    for operand in operands:
        path = _path(operand)
        if path is not None:
            found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def _path(operand: ast.Operand) -> ast.VarPath | None:
    while isinstance(operand, ast.FunctionOperand):
        operand = operand.operand
    return operand.path if isinstance(operand, ast.Linear) else None


def _name(item: ast.SelectItem) -> str:
    """Return the name of an element of an answer."""
    return item.name or item.path.name.partition("(")[0]


def _child(name: str) -> ast.Predicate:
    step = ast.Step("child", ast.Test("element", None, name), ast.Binding(name))
    return ast.Truth(ast.RelPath((step,)))


class _Definer:
    def __init__(self, query: ast.Query, text: str, namespaces: Mapping[str, str] | None) -> None:
        assert query.aggregate is not None
        self.query, self.aggregate, self.text = query, query.aggregate, text
        self.namespaces = namespaces
        self.variables = list(_variables(query))
        self.groups = {format_operand(operand): place for place, operand in enumerate(self.aggregate.group)}
        self.measures = {each.text: each for each in query.measures}
        self.counted = [each for each in query.measures if each.function != "value"]

    def definition(self) -> Definition:
        query, aggregate = self.query, self.aggregate
        self._refuse_limits()
        self._refuse_windows()
        group = tuple(map(self._of_match, aggregate.group))
        counted = tuple(
            Counted(each.function, None if each.operand is None else self._of_match(each.operand), each.distinct)
            for each in self.counted
        )
        having = tuple(Comparison(self._of_group(a.left), a.op, self._of_group(a.right)) for a in aggregate.having)
        columns = self._columns(query.select) if isinstance(query.select, tuple) else ()
        element, holes = None, list[tuple[str, Term]]()
        if isinstance(query.select, ast.Constructor):
            made = prepare_select(query.select, self.text, self.namespaces)
            assert isinstance(made, Element)
            element = made
            holes = [(path.name, self._of_path(path)) for path in dict.fromkeys(ast.selected(query.select))]
        return Definition(
            tuple(self.variables),
            aggregate.window,
            aggregate.every,
            aggregate.last,
            group,
            counted,
            having,
            aggregate.crossing,
            aggregate.once_per,
            aggregate.top,
            None if aggregate.by is None else self._of_group(aggregate.by),
            columns,
            element,
            tuple(holes),
        )

    # -- refusals ----------------------------------------------------------------------------------------------

    def _fail(self, message: str, span: Span, hint: str) -> NoReturn:
        raise QueryError("XSCL_AGGREGATE", message, text=self.text, span=span, hint=hint)

    def _unsupported(self, message: str, span: Span, hint: str) -> NoReturn:
        raise UnsupportedFeatureError("XSCL_AGGREGATE_LIMIT", message, text=self.text, span=span, hint=hint)

    def _refuse_limits(self) -> None:
        query, span = self.query, self.aggregate.span
        for said, message, hint in (
            (query.negations, "windows of matches are not about absence", "publish what is absent, and count that"),
            (query.starting != "NOW", "windows see what comes after the registration", "leave out STARTING"),
            (query.retracts, "answers of windows are final", "leave out ON CHANGE RETRACT"),
            (query.level not in (None, ast.STRONG), "answers of windows are final", "leave out CONSISTENCY"),
        ):
            if said:
                self._unsupported(message, span, hint)
        if query.select is None:
            self._fail("nothing is said of the matches of a window", span, "write SELECT x, count() AS n FROM …")

    def _refuse_windows(self) -> None:
        of, span = self.aggregate, self.aggregate.span
        if of.every is not None and of.window is not None:
            if of.every < 1 or of.window < 1:
                self._fail("a window that has a beginning is longer than nothing", span, "WINDOW 1 h EVERY 10 min")
            if of.every > of.window:
                hint = "EVERY is at most as long as WINDOW"
                self._fail("matches between the windows would be in none", span, hint)
            if of.window > MAX_OVERLAP * of.every:
                self._unsupported(f"a match would be in more than {MAX_OVERLAP:,} windows", span, "a longer EVERY")
        if of.every is not None and of.window is not None and of.window > LAST_TIME - FIRST_TIME:
            self._unsupported("a window with an end that no time reaches", span, "a shorter WINDOW")
        if of.every is not None and (of.crossing or of.once_per is not None):
            said = "ON CROSSING" if of.crossing else "ONCE PER"
            self._fail(f"{said} speaks of matches, and windows with EVERY have an end of their own", span, "WINDOW 1 h")
        if of.crossing and not of.having:
            self._fail("ON CROSSING needs a condition that begins to hold", span, "HAVING count() >= 5 ON CROSSING")
        if of.top is not None and of.every is None:
            self._fail("TOP compares the groups of one window, which EVERY makes", span, "WINDOW 6 h EVERY 10 min")

    # -- values ------------------------------------------------------------------------------------------------

    def _columns(self, select: tuple[ast.SelectItem, ...]) -> tuple[tuple[str, Term], ...]:
        found: dict[str, Term] = {}
        for item in select:
            name = _name(item)
            if not constructor.is_element_name(name):
                self._fail(f"{item.path.name} has no name as an element", item.span, f"write {item.path.name} AS name")
            if name in found:
                self._fail(f"two values have the name {name}", item.span, f"write {item.path.name} AS another")
            found[name] = self._of_path(item.path)
        return tuple(found.items())

    def _of_match(self, operand: ast.Operand) -> Term:
        """Return a value of each match."""
        path = _path(operand)
        if path is None:
            self._fail("this is the same for all matches", self.aggregate.span, "name a variable")
        if path.steps:
            hint = f"bind its node to a variable: [./{path.steps[0].test.local}->z]"
            self._fail(f"a path behind the variable {path.name}", path.span, hint)
        return self._term(operand, "variable", self.variables.index(path.name))

    def _of_path(self, path: ast.VarPath) -> Term:
        measure = self.measures.get(path.name)
        if measure is not None and measure.function == "value":
            assert measure.operand is not None
            return self._of_group(measure.operand)
        return self._of_group(ast.Linear(path))

    def _of_group(self, operand: ast.Operand) -> Term:
        """Return a value of a group."""
        place = self.groups.get(format_operand(operand))
        if place is not None:
            return Term("group", place)
        match operand:
            case ast.StringOperand(value):
                return Term("text", text=value)
            case ast.Linear(None, _, constant):
                return Term("number", constant=constant, is_number=True)
            case ast.FunctionOperand(name, inner):
                term = self._of_group(inner)
                if term.is_number:
                    self._fail(f"{name}() of a number", self.aggregate.span, "a function of a text")
                return replace(term, functions=(name, *term.functions))
        assert isinstance(operand, ast.Linear) and operand.path is not None
        path = operand.path
        if path.name in self.measures:
            at = next((n for n, each in enumerate(self.counted) if each.text == path.name), None)
            if at is not None:
                return self._term(operand, "aggregate", at)
        at = self.groups.get(path.name)
        if at is None or path.steps:
            self._fail(
                f"{path.name} is neither grouped by nor aggregated, and a group has several of it",
                path.span,
                f"write GROUP BY {path.name}, or a function: count(DISTINCT {path.name}), first({path.name})",
            )
        return self._term(operand, "group", at)

    def _term(self, operand: ast.Operand, kind: _KIND, place: int) -> Term:
        functions = []
        while isinstance(operand, ast.FunctionOperand):
            functions.append(operand.name)
            operand = operand.operand
        assert isinstance(operand, ast.Linear)
        plain = operand.factor == 1 and operand.constant == 0
        if functions and not plain:
            self._fail(f"{functions[0]}() of a number", operand.span, "a function of a text")
        return Term(kind, place, tuple(functions), operand.factor, operand.constant, not plain)


def variable_blocks(text: str, namespaces: Mapping[str, str]) -> tuple[int, ...]:
    """Return the block of each variable of the part of a text."""
    part = part_of(parse_query(text))
    variables = normalize(part, text, namespaces).variables
    return tuple(variables[path.name][0] for path in ast.selected(part.select))


@lru_cache(maxsize=1 << 17)
def known_definition(text: str, namespaces: tuple[tuple[str, str], ...]) -> Definition:
    """Return the definition of a registered text."""
    return definition_of(parse_query(text), text, dict(namespaces))
