"""Absence in queries: a query about it is taken apart into queries that are joined as all others.

``E WITHOUT {…} B`` has two parts: the *wanted* one is E, and the *forbidden* one is E joined with B.  A match of the
first is an answer if no match of the second has its binding, as soon as none can come any longer
(docs/explanation/architecture.md, From text to rows).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from xscl.base.durations import format_duration
from xscl.base.errors import QueryError, Span, UnsupportedFeatureError
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.language.syntax import ast
from xscl.language.terms import bound, path_of

__all__ = [
    "LATEST",
    "MAX_FORBIDDEN",
    "AbsenceParts",
    "End",
    "absence_parts",
    "cut_offset",
    "negated_variable",
    "require_memory",
    "unbounded",
]

LATEST = -1
"""Stands for the latest of all blocks."""
MAX_FORBIDDEN = 16
"""Queries for what must not be there, of one query about absence."""


@dataclass(frozen=True, slots=True)
class End:
    """Greatest time of a forbidden document, relative to a block that is wanted."""

    block: int
    """Place of the block; ``LATEST``: whichever has the latest document."""
    offset: int
    """Microseconds, as many as the text says (``cut_offset``)."""


@dataclass(frozen=True, slots=True)
class AbsenceParts:
    """Queries that an absence is made of, with the spans of its text."""

    wanted: ast.Query
    forbidden: tuple[ast.Query, ...]
    """Their first blocks are the wanted ones, and the last is the block that must not be there."""
    ends: tuple[tuple[str, tuple[End, ...]], ...]
    """Channel of each block that must not be there, and the ends of its windows; the least of them counts."""
    shown: int
    """Number of selected variables that make a match; further ones tell bindings apart."""


def cut_offset(offset: int) -> int:
    """Return an offset that is no longer than the time from the first event time to the last one.

    Windows may be of any length.  Ends of times are numbers of 64 bits, which this keeps them.

    >>> cut_offset(5), cut_offset(10**30) == -cut_offset(-(10**30)) == LAST_TIME - FIRST_TIME
    (5, True)
    """
    longest = LAST_TIME - FIRST_TIME
    return max(-longest, min(offset, longest))


def absence_parts(query: ast.Query, text: str) -> AbsenceParts:
    """Take a query with negations apart; spans speak of ``text``.

    Raises:
        QueryError: ``XSCL_NEGATED_VARIABLE``, ``XSCL_UNBOUNDED_ABSENCE``, ``XSCL_ABSENCE_LIMIT``, or a variable is not
            bound.
    """
    return _Absence(query, text).parts()


def require_memory(level: ast.Level, text: str) -> None:
    """Refuse a level that forgets events before it answers.

    Raises:
        QueryError: ``XSCL_BAD_LEVEL``.
    """
    if level.blocking is not None and level.memory is not None and level.blocking > level.memory:
        raise QueryError(
            "XSCL_BAD_LEVEL",
            f"an answer that waits for {format_duration(level.blocking)} would forget what comes more than "
            f"{format_duration(level.memory)} late",
            text=text,
            span=level.span,
            hint="BLOCKING is at most MEMORY, and MEMORY at most the lateness of the channels",
        )


def negated_variable(name: str, text: str, span: Span) -> QueryError:
    """Return the refusal of a variable that has no value where it stands."""
    return QueryError(
        "XSCL_NEGATED_VARIABLE",
        f"the variable {name} is bound in a block that must not be there, and has no value behind it",
        text=text,
        span=span,
        hint="use variables of the blocks before WITHOUT or NOT FOLLOWED BY",
    )


def unbounded(negation: ast.Negation, wanted: str, text: str) -> QueryError:
    """Return the refusal of an absence that has no end; ``wanted`` is a variable of what is there."""
    other = next(bound(negation.right), "y")
    return QueryError(
        "XSCL_UNBOUNDED_ABSENCE",
        f"nothing ends the time in which {negation.right.channel} must be absent, so this could never be known",
        text=text,
        span=negation.span,
        hint=f"write a window: NOT FOLLOWED BY {{…, 30 min}}, or WITHOUT {{…, {other} - {wanted} IN "
        "[-30 min, 30 min]}, or BETWEEN",
    )


class _Absence:
    def __init__(self, query: ast.Query, text: str) -> None:
        self.query = query
        self.text = text
        self.blocks = list(ast.blocks(query.source))
        self.place = {name: at for at, block in enumerate(self.blocks) for name in bound(block)}
        self.negated = {name for each in query.negations for name in bound(each.right)}

    def parts(self) -> AbsenceParts:
        query = self.query
        self._refuse_limits()
        self._refuse_many()
        paths = list(ast.selected(query.select))
        for path in paths:
            if path.name in self.negated and path.name not in self.place:
                self._fail_negated(path.name, path.span)
        shown = list(dict.fromkeys(path.name for path in paths))
        asked = dict.fromkeys(name for each in query.negations for name in self._asked(each))
        selected = [*shown, *(name for name in asked if name not in shown)]
        select = tuple(ast.SelectItem(ast.VarPath(name)) for name in selected) or None
        forbidden = [self._forbidden(each, select) for each in query.negations]
        return AbsenceParts(
            ast.Query(query.source, select, span=query.span),
            tuple(part for parts in forbidden for part in parts),
            tuple((each.right.channel, self._ends(each)) for each in query.negations),
            len(shown),
        )

    # -- refusals ----------------------------------------------------------------------------------------------

    def _refuse_limits(self) -> None:
        query = self.query
        if query.starting != "NOW":
            self._unsupported(
                "a query about absence sees what comes after its registration", query.span, "leave out STARTING"
            )
        for each in query.negations:
            for window in each.windows:
                if isinstance(window, ast.Window) and window.kind in ("once", "max", "rows"):
                    name = {"once": "ONCE", "max": "MAXWINDOW"}.get(window.kind, "LAST")
                    self._unsupported(
                        f"{name} says nothing of what is absent", window.span, "write it into the braces of a join"
                    )
                if isinstance(window, ast.Window) and window.kind == "between":
                    if each.op != "without":
                        self._unsupported("BETWEEN belongs to WITHOUT", window.span, "A NOT FOLLOWED BY {x = y, 1 h} B")
                    if len(self.blocks) == 1:
                        self._unsupported(
                            "nothing lies between the first and the last of one document",
                            window.span,
                            "write a window such as x - y IN (0 s, 1 h]",
                        )

    def _refuse_many(self) -> None:
        """Refuse a query that is made of too many, before any of these is made."""
        count = 0
        for each in self.query.negations:
            count += len(self._ends_of_span()) if any(map(_is_between, each.windows)) else 1
            if count > MAX_FORBIDDEN:
                self._unsupported(
                    f"the blocks before BETWEEN may come in any order, which takes more than {MAX_FORBIDDEN} queries "
                    "for what must not be there",
                    each.span,
                    "order the blocks with FOLLOWED BY, so that one query does for each BETWEEN",
                )

    def _unsupported(self, message: str, span: Span, hint: str) -> NoReturn:
        raise UnsupportedFeatureError("XSCL_ABSENCE_LIMIT", message, text=self.text, span=span, hint=hint)

    def _fail_negated(self, name: str, span: Span) -> NoReturn:
        raise negated_variable(name, self.text, span)

    # -- parts -------------------------------------------------------------------------------------------------

    def _asked(self, negation: ast.Negation) -> Iterator[str]:
        """Yield the wanted variables that a negation's atoms speak of."""
        own = dict.fromkeys(bound(negation.right))
        for atom in negation.atoms:
            for path in (path_of(atom.left), path_of(atom.right)):
                if path is not None and path.name not in own:
                    if path.name in self.negated and path.name not in self.place:
                        self._fail_negated(path.name, path.span)
                    if path.name in self.place:
                        yield path.name

    def _forbidden(self, negation: ast.Negation, select: ast.Select) -> Iterator[ast.Query]:
        """Yield the queries whose matches forbid a binding; several where any member may be the first."""
        op: Literal["followed by", "join"] = "followed by" if negation.op == "not followed by" else "join"
        plain = tuple(each for each in negation.windows if not _is_between(each))
        span = negation.span
        if len(plain) == len(negation.windows):
            join = ast.Join(op, self.query.source, negation.right, negation.atoms, plain, span)
            yield ast.Query(join, select, span=self.query.span)
            return
        for first, last in self._ends_of_span():
            named = _Named([*self.blocks, negation.right])
            start, end, inside = named.name(first), named.name(last), named.name(len(self.blocks))
            windows = (
                *plain,
                ast.RelativeWindow(inside, start, 1, None, span),
                ast.RelativeWindow(end, inside, 1, None, span),
            )
            source, right = named.source(self.query.source), named.blocks[-1]
            yield ast.Query(
                ast.Join("join", source, right, negation.atoms, windows, span), select, span=self.query.span
            )

    def _ends_of_span(self) -> list[tuple[int, int]]:
        """Return the pairs of blocks that may have the first and the last document."""
        count = len(self.blocks)
        if _in_order(self.query.source):
            return [(0, count - 1)]
        return [(first, last) for first in range(count) for last in range(count) if first != last]

    def _ends(self, negation: ast.Negation) -> tuple[End, ...]:
        own = dict.fromkeys(bound(negation.right))
        found = []
        for window in negation.windows:
            match window:
                case ast.RelativeWindow(later, earlier, low, high):
                    if later in own and earlier in self.place and high is not None:
                        found.append(End(self.place[earlier], high))
                    if earlier in own and later in self.place and low is not None:
                        found.append(End(self.place[later], -low))
                case ast.Window("between"):
                    found.append(End(LATEST, -1))
                case ast.Window(_, _, high) if high is not None:
                    found.append(End(LATEST, high))
        if not found:
            raise unbounded(negation, next(iter(self.place), "x"), self.text)
        return tuple(dict.fromkeys(found))


def _is_between(window: ast.Window | ast.RelativeWindow) -> bool:
    return isinstance(window, ast.Window) and window.kind == "between"


def _in_order(source: ast.Source) -> bool:
    """Tell whether each block of a chain comes after the one before: FOLLOWED BY, and no range that begins at 0."""
    if isinstance(source, ast.Block):
        return True
    ranged = any(isinstance(each, ast.Window) and each.kind == "range" for each in source.windows)
    return source.op == "followed by" and not ranged and isinstance(source.right, ast.Block) and _in_order(source.left)


# -- variables -----------------------------------------------------------------------------------------------------


class _Named:
    """Blocks, with variables for those that have none and need one."""

    def __init__(self, blocks: Sequence[ast.Block]) -> None:
        self.blocks = list(blocks)
        self._taken = {name for block in blocks for name in bound(block)}

    def name(self, at: int) -> str:
        """Return a variable of a block."""
        block = self.blocks[at]
        found = next(bound(block), None)
        if found is None:
            found = f"e{at + 1}"
            while found in self._taken:
                found += "'"
            self._taken.add(found)
            binding = ast.Binding(found)
            if block.steps:
                steps = (*block.steps[:-1], replace(block.steps[-1], binding=binding))
                self.blocks[at] = replace(block, steps=steps)
            else:
                self.blocks[at] = replace(block, binding=binding)
        return found

    def source(self, source: ast.Source) -> ast.Source:
        """Return a source with its blocks as they are named."""
        waiting = iter(self.blocks)

        def rebuilt(part: ast.Source) -> ast.Source:
            if isinstance(part, ast.Block):
                return next(waiting)
            left = rebuilt(part.left)
            return replace(part, left=left, right=rebuilt(part.right))

        return rebuilt(source)
