"""Notes on a text that says something else than it seems to: quoted numbers, windows without a unit, no window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xscl.base.values import number_text
from xscl.language.syntax import ast
from xscl.language.windows import placed_joins
from xscl.templates.bounds import Case, pair_index

__all__ = ["text_notes"]

_ORDERS = ("<", "<=", ">", ">=")


def text_notes(query: ast.Query, cases: Sequence[Case]) -> tuple[str, ...]:
    """Return notes on places where a text means something else than it seems to; ``cases`` are the query's."""
    absent = [note for each in query.negations for note in _braces(each)]
    if query.steps is not None:
        return tuple(dict.fromkeys(_text_notes(query.steps)))
    return tuple(dict.fromkeys((*_text_notes(query.source), *_unlimited(query.source, cases), *absent)))


_UNTIMED = ("once", "rows")


def _unlimited(source: ast.Source, cases: Sequence[Case]) -> Iterator[str]:
    joins = placed_joins(source)
    places = pair_index(joins[-1].end) if joins else {}
    for placed in joins:
        timed = any(not isinstance(window, ast.Window) or window.kind not in _UNTIMED for window in placed.join.windows)
        counted = {window.of for window in placed.join.windows if isinstance(window, ast.Window) and window.of}
        pairs = [places[i, j] for i in range(placed.start, placed.middle) for j in range(placed.middle, placed.end)]
        # The windows of other operators may limit what this one joins.
        if not timed and len(counted) < 2 and any(not any(case[pair].finite for pair in pairs) for case in cases):
            yield (
                "no window: unlimited time; join state is kept for ever; write a window such as 7 days, or UNBOUNDED"
                if not counted
                else f"LAST limits the events of {', '.join(sorted(counted))} alone; the others are kept for ever; "
                "write LAST for each side, a window such as 7 days, or UNBOUNDED"
            )


def _text_notes(source: ast.Tree) -> Iterator[str]:
    match source:
        case ast.Block():
            yield from _predicates(source.predicates)
            yield from _steps(source.steps)
        case ast.Filter():
            yield from _text_notes(source.of)
        case _:
            yield from _text_notes(source.left)
            yield from _text_notes(source.right)
            yield from _braces(source)


def _braces(source: ast.Join | ast.Negation | ast.Next | ast.Fold) -> Iterator[str]:
    for atom in source.atoms:
        for one, op, other in ((atom.left, atom.op, atom.right), (atom.right, atom.op, atom.left)):
            if op in _ORDERS and isinstance(one, ast.StringOperand) and isinstance(other, ast.Linear):
                yield from _quoted(one.value)
    for window in source.windows:
        if isinstance(window, ast.Window) and window.bare is not None:
            units = ", ".join(f"{window.bare} {unit}" for unit in ("s", "min", "h", "days"))
            yield f"a window of {window.bare} is {window.bare} seconds; write one of {units}"


def _predicates(predicates: Iterable[ast.Predicate]) -> Iterator[str]:
    for predicate in predicates:
        match predicate:
            case ast.And(parts) | ast.Or(parts):
                yield from _predicates(parts)
            case ast.Not(part):
                yield from _predicates((part,))
            case ast.Truth(operand, op, literal):
                if isinstance(operand, ast.RelPath):
                    yield from _steps(operand.steps)
                if op in _ORDERS and literal is not None and not literal.is_number:
                    yield from _quoted(literal.value)


def _steps(steps: Iterable[ast.Step]) -> Iterator[str]:
    for step in steps:
        yield from _predicates(step.predicates)


def _quoted(text: str) -> Iterator[str]:
    number = number_text(text)
    if number is not None:
        yield f"'{text}' in quotes is compared as the number {number}; write it without quotes"
