"""Queries by which answers are shown, where these are not the matches of blocks and joins."""

from __future__ import annotations

from xscl.language.facts import ANSWERS
from xscl.language.steps.parts import selects_values
from xscl.language.syntax import ast
from xscl.language.terms import item_name

__all__ = ["shown"]


def shown(query: ast.Query) -> ast.Query:
    """Return the query that the answers of a query are shown by.

    Answers that are made of values are documents of the channel of answers.  Other answers of steps show the blocks of
    the query, in their order.
    """
    if query.aggregate is None and query.steps is None:
        return query
    if query.aggregate is None and not selects_values(query):
        return ast.Query(query.source, query.select, span=query.span)
    named = query.select if isinstance(query.select, tuple) else ()
    names = [item_name(item) for item in named]
    return ast.Query(ast.Block(ANSWERS, None, tuple(map(_child, names))))


def _child(name: str) -> ast.Predicate:
    step = ast.Step("child", ast.Test("element", None, name), ast.Binding(name))
    return ast.Truth(ast.RelPath((step,)))
