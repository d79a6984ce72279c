"""Windows of a query to its cases: one tightened matrix of bounds for each block that may be the latest of a composite.

A composite operand counts by its latest member (docs/explanation/architecture.md, From text to rows).  Where an
operator limits how late that is and it is not known which member it is (after ``JOIN``), the query is split into
disjoint cases, one for each candidate.  Members with equal times are told apart by their place in FROM, or, where
``ONCE`` compares composites, by channel and id.  ``ONCE`` between two blocks is no bound: it chooses between two
matches (``Bounds.exchange``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from xscl.base.durations import format_duration
from xscl.base.errors import QueryError, Span, UnboundVariableError, UnsatisfiableWindowError, UnsupportedFeatureError
from xscl.language.syntax import ast
from xscl.templates.bounds import (
    UNBOUNDED,
    UNLESS_EXCHANGED,
    Bounds,
    Case,
    DifferenceBounds,
    NegativeCycle,
    pair_index,
)
from xscl.templates.guards import Guard
from xscl.templates.template import Instance, is_symmetric

__all__ = ["MAX_CASES", "PlacedJoin", "bound_block", "cases_of", "placed_joins", "settled_cases"]

MAX_CASES = 256
"""Greatest number of cases of one query; each is a row of R_T."""


@dataclass(frozen=True, slots=True)
class PlacedJoin:
    """A join and the places of its blocks in FROM: left from ``start``, right from ``middle`` up to ``end``."""

    join: ast.Join
    start: int
    middle: int
    end: int

    @property
    def blocks(self) -> range:
        """Return the places of its blocks."""
        return range(self.start, self.end)


def placed_joins(source: ast.Source) -> list[PlacedJoin]:
    """Return all joins of a query, operands before what joins them."""
    found: list[PlacedJoin] = []

    def place(part: ast.Source, start: int) -> int:
        if isinstance(part, ast.Block):
            return start + 1
        middle = place(part.left, start)
        end = place(part.right, middle)
        found.append(PlacedJoin(part, start, middle, end))
        return end

    place(source, 0)
    return found


def cases_of(source: ast.Source, text: str, block_of: Mapping[str, int], names: Sequence[str]) -> tuple[Case, ...]:
    """Return the satisfiable cases of a query; a query of one block has one, without bounds.

    Args:
        source: the FROM clause.
        text: what spans speak of.
        block_of: the place of the block that binds each variable.
        names: what to call each block in messages.

    Raises:
        QueryError: a window is not sound, there are too many cases, or none is satisfiable, with the cycle that shows
            it.
    """
    return _Windows(text, block_of, names).cases(source)


def bound_block(name: str, span: Span, text: str, block_of: Mapping[str, int], blocks: range | None = None) -> int:
    """Return the block that binds a variable; with ``blocks``, one of these, which are joined so far.

    Raises:
        UnboundVariableError: there is none.
    """
    block = block_of.get(name)
    if block is not None and (blocks is None or block in blocks):
        return block
    whole = name.partition(".")[0]
    if block is None and whole != name and whole in block_of:
        raise UnboundVariableError(
            "XSCL_UNBOUND_VARIABLE",
            f"{name!r} is one name, and no variable",
            text=text,
            span=span,
            hint=f"a path behind a variable is written with '/': {name.replace('.', '/')}",
        )
    known = sorted(n for n, b in block_of.items() if blocks is None or b in blocks)
    raise UnboundVariableError(
        "XSCL_UNBOUND_VARIABLE",
        f"the variable {name} is not bound {'in any block' if block is None else 'in a block joined so far'}",
        text=text,
        span=span,
        hint=f"bind it with ->{name} in a block; bound here: {', '.join(known) or 'none'}"
        if block is None
        else f"move this to the operator that joins {name}'s block",
    )


@dataclass(frozen=True, slots=True)
class _Limits:
    """Bounds that one operator sets on the time from its left operand to its right one."""

    lo: int
    hi: int
    once: bool


class _Windows:
    def __init__(self, text: str, block_of: Mapping[str, int], names: Sequence[str]) -> None:
        self.text = text
        self.block_of = block_of
        self.names = names

    def cases(self, source: ast.Source) -> tuple[Case, ...]:
        matrix = DifferenceBounds(len(self.names))
        joins = placed_joins(source)
        for placed in joins:
            self._any_case(placed, matrix)
        open_cases = [matrix]
        for placed in joins:
            limits = self._limits(placed.join)
            open_cases = [case for before in open_cases for case in _split(placed, limits, before)]
            if len(open_cases) > 1:
                open_cases = [case for case in open_cases if _satisfiable(case)] or open_cases[:1]
            if len(open_cases) > MAX_CASES:
                raise UnsupportedFeatureError(
                    "XSCL_TOO_MANY_CASES",
                    f"which member of this composite is the latest leaves more than {MAX_CASES} cases",
                    text=self.text,
                    span=placed.join.span,
                    hint="order the blocks with FOLLOWED BY, or leave out windows on composites",
                )
        found: list[Case] = []
        cycle = None
        for case in open_cases:
            try:
                found.append(case.tightened())
            except NegativeCycle as error:
                cycle = cycle or error
        if not found:
            assert cycle is not None
            self._refuse(source, cycle)
        return tuple(found)

    # -- what holds in every case ------------------------------------------------------------------------------

    def _any_case(self, placed: PlacedJoin, matrix: DifferenceBounds) -> None:
        for window in placed.join.windows:
            match window:
                case ast.RelativeWindow():
                    later = bound_block(window.later, window.later_span, self.text, self.block_of, placed.blocks)
                    earlier = bound_block(window.earlier, window.earlier_span, self.text, self.block_of, placed.blocks)
                    if later == earlier:
                        raise QueryError(
                            "XSCL_ATOM_INSIDE_BLOCK",
                            f"{window.later} and {window.earlier} are variables of one block, whose difference in "
                            "time is 0",
                            text=self.text,
                            span=window.span,
                            hint="name variables of two blocks",
                        )
                    lo = -UNBOUNDED if window.low is None else window.low
                    hi = UNBOUNDED if window.high is None else window.high
                    matrix.limit(earlier, later, lo, hi)
                case ast.Window("max", _, high):
                    assert high is not None
                    for i in range(matrix.count):
                        for j in range(i + 1, matrix.count):
                            matrix.limit(i, j, -high, high)

    def _limits(self, join: ast.Join) -> _Limits:
        following = join.op == "followed by"
        lo, hi = -UNBOUNDED, UNBOUNDED
        once = ranged = False
        for window in join.windows:
            match window:
                case ast.Window("once"):
                    if following:
                        self._fail(
                            "ONCE belongs to JOIN; FOLLOWED BY already orders its members", window, "leave it out"
                        )
                    once = True
                case ast.Window("range", low, high):
                    if not following:
                        self._fail(
                            "a range of differences belongs to FOLLOWED BY",
                            window,
                            "JOIN takes one duration, or a relative window such as y - x IN [1 s, 2 s]",
                        )
                    assert low is not None
                    ranged = True
                    lo, hi = max(lo, low), min(hi, UNBOUNDED if high is None else high)
                case ast.Window("within", _, high):
                    limit = UNBOUNDED if high is None else high
                    lo, hi = max(lo, 1 if following else -limit), min(hi, limit)
        if following and not ranged:
            lo = max(lo, 1)
        return _Limits(lo, hi, once)

    # -- refusals ----------------------------------------------------------------------------------------------

    def _fail(self, message: str, window: ast.Window, hint: str) -> NoReturn:
        raise QueryError("XSCL_SYNTAX", message, text=self.text, span=window.span, hint=hint)

    def _refuse(self, source: ast.Source, cycle: NegativeCycle) -> NoReturn:
        names = [self.names[block] for block in cycle.blocks]
        told = ", ".join(
            f"{after} {_at_least(step)} {before}"
            for before, after, step in zip(names, names[1:], cycle.steps, strict=False)
        )
        windows = [window for placed in placed_joins(source) for window in placed.join.windows]
        # A relative window between two blocks of the cycle is part of it more likely than any other.
        windows.sort(key=lambda window: not self._speaks_of(window, set(cycle.blocks)))
        raise UnsatisfiableWindowError(
            "XSCL_UNSATISFIABLE_WINDOW",
            f"no event times satisfy these windows, which ask for {' → '.join(names)}: {told}",
            text=self.text,
            span=windows[0].span if windows else source.span,
            hint="FOLLOWED BY means a later second operand; the second end of a range is not below the first",
        )

    def _speaks_of(self, window: ast.Window | ast.RelativeWindow, blocks: set[int]) -> bool:
        if not isinstance(window, ast.RelativeWindow):
            return False
        return {self.block_of[window.later], self.block_of[window.earlier]} <= blocks


def _at_least(step: int) -> str:
    if step >= 0:
        return f"at least {format_duration(step)} after"
    return f"at most {format_duration(-step)} before"


def _satisfiable(matrix: DifferenceBounds) -> bool:
    try:
        matrix.tightened()
    except NegativeCycle:
        return False
    return True


def _split(placed: PlacedJoin, limits: _Limits, before: DifferenceBounds) -> Iterator[DifferenceBounds]:
    """Yield the cases of one operator.

    The latest of the left operand matters for how long ago it may be, that of the right one for how soon; the other
    two questions are answered by asking the same of all members.
    """
    join = placed.join
    if limits.once and isinstance(join.left, ast.Block) and isinstance(join.right, ast.Block):
        case = before.copy()
        case.limit(placed.start, placed.middle, limits.lo, limits.hi)
        case.exchanged.add((placed.start, placed.middle))
        yield case
        return
    left = _candidates(join.left, placed.start, limits.once)
    right = _candidates(join.right, placed.middle, limits.once)
    split_left = limits.once or limits.hi < UNBOUNDED
    split_right = limits.once or limits.lo > -UNBOUNDED
    for latest_l in left if split_left else (None,):
        for latest_r in right if split_right else (None,):
            case = before.copy()
            for side, latest in ((left, latest_l), (right, latest_r)):
                if latest is not None:
                    _make_latest(case, side, latest, limits.once)
            lefts = left if latest_l is None else (latest_l,)
            rights = right if latest_r is None else (latest_r,)
            for i in lefts:
                for j in rights:
                    case.limit(i, j, limits.lo, limits.hi)
                    if limits.once:
                        case.put_first(i, j)
            yield case


def _candidates(source: ast.Source, start: int, once: bool) -> tuple[int, ...]:
    """Return the blocks that may be the latest; equal times count as later where only time is compared."""
    if isinstance(source, ast.Block):
        return (start,)
    middle = start + len(ast.blocks(source.left))
    right = _candidates(source.right, middle, once)
    if source.op == "followed by" and not once:
        return right
    return _candidates(source.left, start, once) + right


def _make_latest(case: DifferenceBounds, candidates: tuple[int, ...], latest: int, once: bool) -> None:
    for other in candidates:
        if other == latest:
            continue
        if once:
            case.put_first(other, latest)
        else:
            case.limit(other, latest, 0 if other < latest else 1, UNBOUNDED)


def settled_cases(
    cases: tuple[Case, ...],
    instance: Instance,
    channels: Sequence[str],
    streams: Sequence[int],
    guards: Sequence[Guard | None] = (),
) -> tuple[Case, ...]:
    """Return the cases of a query, with simpler bounds where ``ONCE`` allows them.

    Blocks over different channels never match in both orders.  A query of two blocks that asks the same of both always
    does, so the left member has to be first.  Where only windows and guards tell its blocks apart, they tell whether
    the members match in the other order too.

    Args:
        cases: as windows have them.
        instance: the query's.
        channels: the channel of each block.
        streams: the stream of each block, or none.
        guards: the guard of each block, or none.
    """
    pairs = pair_index(len(channels))
    apart = {place for (i, j), place in pairs.items() if channels[i] != channels[j]}
    found = tuple(
        tuple(replace(b, exchange=b.exchange and place not in apart) for place, b in enumerate(case)) for case in cases
    )
    if len(channels) != 2 or not found[0][0].exchange:
        return found
    ((bounds,),) = found
    if len(set(streams)) > 1 or not is_symmetric(instance):
        return found
    if bounds.lo != -bounds.hi or len(set(guards)) > 1:
        return ((replace(bounds, order=UNLESS_EXCHANGED, exchange=False),),)
    return ((Bounds(0, bounds.hi, 1),),)
