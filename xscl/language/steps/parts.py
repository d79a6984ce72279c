"""The queries whose matches NEXT, FOLD and FILTER are over, and the names that steps mention.

A part is a greatest piece of FROM that has only blocks and joins.  Each part is joined as all other queries are,
and selects the variables that steps and the outer SELECT speak of.
"""

from __future__ import annotations

from collections.abc import Iterator

from xscl.language.syntax import ast
from xscl.language.terms import bound, path_of

__all__ = ["members_of", "parts_of", "selects_values"]


def parts_of(query: ast.Query) -> tuple[ast.Query, ...]:
    """Return the queries whose matches the steps of a query are over, in the order of FROM."""
    assert query.steps is not None
    mentioned = set(_mentioned(query))
    found = []
    for source in (*_sources(query.steps), *(each.right for each in query.negations)):
        names = sorted({name for block in ast.blocks(source) for name in bound(block)} & mentioned)
        select = tuple(ast.SelectItem(ast.VarPath(name)) for name in names) or None
        found.append(ast.Query(source, select, span=query.span))
    return tuple(found)


def members_of(query: ast.Query) -> ast.Query:
    """Return the query of the members of answers, without steps."""
    return ast.Query(query.source, None if selects_values(query) else query.select, span=query.span)


def selects_values(query: ast.Query) -> bool:
    """Return whether SELECT speaks of what FOLDs keep, so that answers are made of values instead of nodes."""
    if query.steps is None:
        return False
    kept = {name for fold in _folds(query.steps) for name in (each.name for each in fold.accumulators)}
    kept |= {measure.text for measure in query.measures}
    return any(path.name in kept for path in ast.selected(query.select))


# -- what is mentioned ---------------------------------------------------------------------------------------------


def _sources(tree: ast.Tree) -> Iterator[ast.Source]:
    """Yield the parts of a tree."""
    match tree:
        case ast.Block() | ast.Join():
            yield tree
        case ast.Filter():
            yield from _sources(tree.of)
        case _:
            yield from _sources(tree.left)
            yield from _sources(tree.right)


def _folds(tree: ast.Tree) -> Iterator[ast.Fold]:
    match tree:
        case ast.Fold():
            yield from _folds(tree.left)
            yield tree
            yield from _folds(tree.right)
        case ast.Next():
            yield from _folds(tree.left)
            yield from _folds(tree.right)
        case ast.Filter():
            yield from _folds(tree.of)


def _mentioned(query: ast.Query) -> Iterator[str]:
    """Yield the names that steps and SELECT mention."""
    yield from (path.name for path in ast.selected(query.select))
    for measure in query.measures:
        for operand in (measure.operand, measure.first):
            if operand is not None:
                yield from _names(operand)
    for negation in query.negations:
        yield from _of_atoms(negation.atoms)
    waiting: list[ast.Tree] = [] if query.steps is None else [query.steps]
    while waiting:
        step = waiting.pop()
        match step:
            case ast.Filter():
                waiting.append(step.of)
                yield from _of_atoms(each for each in step.conditions if isinstance(each, ast.Atom))
            case ast.Next():
                waiting += (step.left, step.right)
                yield from _of_atoms(step.atoms)
            case ast.Fold():
                waiting += (step.left, step.right)
                yield from _of_atoms((*step.atoms, *step.conditions))
                for accumulator in step.accumulators:
                    yield accumulator.name
                    yield from _names(accumulator.value)


def _of_atoms(atoms: Iterator[ast.Atom] | tuple[ast.Atom, ...]) -> Iterator[str]:
    for atom in atoms:
        yield from _names(atom.left)
        yield from _names(atom.right)


def _names(expression: ast.Expression) -> Iterator[str]:
    if isinstance(expression, ast.Arithmetic):
        yield from _names(expression.left)
        yield from _names(expression.right)
        return
    path = path_of(expression)
    if path is not None:
        yield path.name
