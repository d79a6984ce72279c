"""Refusals of what queries with steps say of what must not be there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xscl.base.errors import Span, UnsupportedFeatureError
from xscl.language.absence import negated_variable
from xscl.language.syntax import ast
from xscl.language.terms import bound, path_of

__all__ = ["refuse_negated", "refuse_window"]


def refuse_negated(query: ast.Query, text: str) -> None:
    """Refuse variables of what must not be there, where they have no value.

    Raises:
        QueryError: ``XSCL_NEGATED_VARIABLE``.
    """
    inside = {name: each for each in query.negations for name in bound(each.right)}
    spoken: list[tuple[str, Span, ast.Negation | None]] = [
        (path.name, path.span, None) for path in ast.selected(query.select)
    ]
    spoken += [(path.name, path.span, each) for each in query.negations for path in _paths(each.atoms)]
    for name, span, place in spoken:
        if name in inside and inside[name] is not place:
            raise negated_variable(name, text, span)


def refuse_window(negation: ast.Negation, window: ast.Window, blocks: int, text: str) -> None:
    """Refuse a window that says nothing of an absence over steps with so many blocks.

    Raises:
        UnsupportedFeatureError: ``XSCL_ABSENCE_LIMIT``.
    """
    for said, message, hint in (
        (
            window.kind in ("once", "max", "rows"),
            "says nothing of what is absent",
            "write it into the braces of a join",
        ),
        (
            window.kind == "range" and negation.op == "without",
            "of two ends is no window of WITHOUT over steps",
            "write x - y IN [-2 h, -1 h]",
        ),
        (
            window.kind == "between" and negation.op != "without",
            "belongs to WITHOUT",
            "NOT FOLLOWED BY {x = y, 1 h}",
        ),
        (
            window.kind == "between" and blocks == 1,
            "of one document has nothing inside",
            "write x - y IN (0 s, 1 h]",
        ),
    ):
        if said:
            name = {"once": "ONCE", "max": "MAXWINDOW", "between": "BETWEEN", "rows": "LAST"}.get(
                window.kind, "a window"
            )
            raise UnsupportedFeatureError(
                "XSCL_ABSENCE_LIMIT", f"{name} {message}", text=text, span=window.span, hint=hint
            )


def _paths(atoms: Sequence[ast.Atom]) -> Iterator[ast.VarPath]:
    for atom in atoms:
        yield from (path for each in (atom.left, atom.right) if (path := path_of(each)) is not None)
