"""Aggregates in queries: a query with windows of matches is a part, and what is said of its matches together.

The part is a query that is joined as all others, and selects the variables that groups and functions speak of.  A
``Definition`` tells where each value of its matches comes from, by places instead of names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, NoReturn

from xscl.base.errors import QueryError, Span, UnsupportedFeatureError
from xscl.base.own_functions import is_own, shown_name
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.language.declared import atom_function
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import NormalQuery, normalize
from xscl.language.selection import Element, prepare_select
from xscl.language.syntax import ast, constructor
from xscl.language.syntax.format import format_operand
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import Comparison, Term, TermKind, item_name, path_of

__all__ = [
    "MAX_OVERLAP",
    "Counted",
    "Definition",
    "Misfit",
    "definition_of",
    "misfit_of",
    "part_of",
    "selects_all",
    "single_valued",
    "variable_blocks",
    "whole_part_of",
]

MAX_OVERLAP = 10_000
"""Windows that a match is in, at most."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An aggregate function over a value of each match."""

    function: str
    term: Term | None
    """None: over the matches themselves."""
    distinct: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """Values of the matches of a part together, and which of them are told."""

    variables: tuple[str, ...]
    """Variables of the part's matches, in the order of their nodes."""
    window: int | None
    every: int | None
    last: int | None
    per: tuple[Term, ...]
    """Operands whose combinations of values have so many last matches each."""
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


class Misfit(NamedTuple):
    """A reason why windows cannot be so long, with ends of their own at such times."""

    message: str
    hint: str
    is_limit: bool = False


def misfit_of(window: int | None, every: int | None) -> Misfit | None:
    """Return why windows of a length cannot end at every so many microseconds; None: they can, or have no such ends."""
    if every is None or window is None:
        return None
    if every < 1 or window < 1:
        return Misfit("a window that has a beginning is longer than nothing", "WINDOW 1 h EVERY 10 min")
    if every > window:
        return Misfit("matches between the windows would be in none", "EVERY is at most as long as WINDOW")
    if window > MAX_OVERLAP * every:
        return Misfit(f"a match would be in more than {MAX_OVERLAP:,} windows", "a longer EVERY", is_limit=True)
    if window > LAST_TIME - FIRST_TIME:
        return Misfit("a window with an end that no time reaches", "a shorter WINDOW", is_limit=True)
    return None


def whole_part_of(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> ast.Query:
    """Return the query whose matches a query with windows is over, which selects all variables where it can.

    Args:
        query: the query.
        text: its text.
        namespaces: URIs by prefix.
        channels: the channels' schemas.
    """
    rows = {name for name, of in (channels or {}).items() if of.kind == "rows" and (of.numeric | of.texts | of.times)}
    return part_of(query, single_valued(query, text, namespaces, rows))


def part_of(query: ast.Query, bound: Sequence[str] | None = None) -> ast.Query:
    """Return the query whose matches a query with windows speaks of.

    Args:
        query: the query.
        bound: all variables in the order of FROM, where each has one node in any event: then the part selects all of
            them, so queries that speak of different ones share it.  By default it selects those that are spoken of.
    """
    paths = _variables(query).values() if bound is None else map(ast.VarPath, bound)
    select = tuple(ast.SelectItem(path) for path in paths) or None
    return ast.Query(query.source, select, span=query.span)


def single_valued(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, rows: Collection[str]
) -> tuple[str, ...] | None:
    """Return all variables in the order of FROM if each has one node in any event, as cells of rows have.

    Args:
        query: the query.
        text: its text.
        namespaces: URIs by prefix.
        rows: channels of rows whose columns are known.
    """
    if not all(block.channel in rows for block in ast.blocks(query.source)):
        return None
    normal = normalize(ast.Query(query.source), text, namespaces)
    for step in (node.step for block in normal.blocks for node in block.nodes[1:]):
        if step is None or step.axis != "child" or step.test.kind != "element":
            return None
    # The root of a row is its only element; of the others, one has each name.
    named = all(
        node.parent == 0 or (node.step is not None and node.step.test.local is not None)
        for block in normal.blocks
        for node in block.nodes[1:]
    )
    return _names(normal) if named else None


@lru_cache(maxsize=1 << 17)
def selects_all(part: str, namespaces: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether a part selects all of its variables in the order of FROM."""
    normal = normalize(parse_query(part), part, dict(namespaces))
    return normal.selected == _names(normal)


def _bound(query: ast.Query, text: str, namespaces: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return all variables in the order of FROM."""
    return _names(normalize(ast.Query(query.source), text, namespaces))


def _names(normal: NormalQuery) -> tuple[str, ...]:
    """Return the names of all variables; a path behind a variable in an atom has one of its own, and no name."""
    return tuple(name for name in normal.variables if "/" not in name)


def definition_of(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None = None, *, of_all: bool = False
) -> Definition:
    """Return what a query with windows says of matches together; spans speak of ``text``.

    Args:
        query: the query.
        text: its text.
        namespaces: URIs by prefix.
        of_all: whether its part selects all variables in the order of FROM.

    Raises:
        QueryError: ``XSCL_AGGREGATE``: a variable is neither grouped nor aggregated, or windows do not fit.
        UnsupportedFeatureError: ``XSCL_AGGREGATE_LIMIT``.
    """
    names = _bound(query, text, namespaces) if of_all else tuple(_variables(query))
    return _Definer(query, text, namespaces, names).definition()


def _variables(query: ast.Query) -> dict[str, ast.VarPath]:
    """Return the variables that are grouped by and aggregated, by name."""
    assert query.aggregate is not None
    found: dict[str, ast.VarPath] = {}
    operands = [*query.aggregate.group, *query.aggregate.per]
    operands += [each.operand for each in query.measures if each.function != "value" and each.operand is not None]
    for operand in operands:
        path = path_of(operand)
        if path is not None:
            found.setdefault(path.name, path)
    return dict(sorted(found.items()))


class _Definer:
    def __init__(
        self, query: ast.Query, text: str, namespaces: Mapping[str, str] | None, variables: tuple[str, ...]
    ) -> None:
        assert query.aggregate is not None
        self.query, self.aggregate, self.text = query, query.aggregate, text
        self.namespaces = namespaces
        self.variables = variables
        self.groups = {format_operand(operand): place for place, operand in enumerate(self.aggregate.group)}
        self.measures = {each.text: each for each in query.measures}
        self.counted = [each for each in query.measures if each.function != "value"]

    def definition(self) -> Definition:
        query, aggregate = self.query, self.aggregate
        self._refuse_limits()
        self._refuse_windows()
        group = tuple(map(self._of_match, aggregate.group))
        for each in self.counted:
            if each.first is not None:
                self._fail(f"{each.text} is of the iterations of a FOLD", each.span, "give it one value")
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
            self.variables,
            aggregate.window,
            aggregate.every,
            aggregate.last,
            tuple(map(self._of_match, aggregate.per)),
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
        misfit = misfit_of(of.window, of.every)
        if misfit is not None:
            (self._unsupported if misfit.is_limit else self._fail)(misfit.message, span, misfit.hint)
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
            name = item_name(item)
            if not constructor.is_element_name(name):
                self._fail(f"{item.path.name} has no name as an element", item.span, f"write {item.path.name} AS name")
            if name in found:
                self._fail(f"two values have the name {name}", item.span, f"write {item.path.name} AS another")
            found[name] = self._of_path(item.path)
        return tuple(found.items())

    def _select_items(self) -> dict[str, ast.VarPath]:
        """Return what SELECT gives names to, by these."""
        select = self.query.select if isinstance(self.query.select, tuple) else ()
        return {item.name: item.path for item in select if item.name is not None}

    def _of_match(self, operand: ast.Operand) -> Term:
        """Return a value of each match."""
        path = path_of(operand)
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
                full = atom_function(operand, self.namespaces or {}, self.text)
                term = self._of_group(inner)
                if is_own(full):
                    self._fail(f"{name}() of a group", operand.span, f"GROUP BY {format_operand(operand)}")
                if term.is_number:
                    self._fail(f"{name}() of a number", self.aggregate.span, "a function of a text")
                return replace(term, functions=(full, *term.functions))
        assert isinstance(operand, ast.Linear) and operand.path is not None
        path = operand.path
        if path.name in self.measures:
            at = next((n for n, each in enumerate(self.counted) if each.text == path.name), None)
            if at is not None:
                return self._term(operand, "aggregate", at)
        at = self.groups.get(path.name)
        if at is None or path.steps:
            named = self._select_items().get(path.name)
            if named is not None and not path.steps:
                message = f"{path.name} is a name that SELECT gives, which answers alone have"
                self._fail(message, path.span, f"write {named.name} in place of {path.name}")
            self._fail(
                f"{path.name} is neither grouped by nor aggregated, and a group has several of it",
                path.span,
                f"write GROUP BY {path.name}, or a function: count(DISTINCT {path.name}), first({path.name})",
            )
        return self._term(operand, "group", at)

    def _term(self, operand: ast.Operand, kind: TermKind, place: int) -> Term:
        functions = []
        while isinstance(operand, ast.FunctionOperand):
            functions.append(atom_function(operand, self.namespaces or {}, self.text))
            operand = operand.operand
        assert isinstance(operand, ast.Linear)
        plain = operand.factor == 1 and operand.constant == 0
        if functions and not plain:
            self._fail(f"{shown_name(functions[0])}() of a number", operand.span, "a function of a text")
        return Term(kind, place, tuple(functions), operand.factor, operand.constant, not plain)


@lru_cache(maxsize=1 << 17)
def variable_blocks(part: str, namespaces: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
    """Return the block of each variable that a part selects."""
    normal = normalize(parse_query(part), part, dict(namespaces))
    return tuple(normal.variables[name][0] for name in normal.selected)
