"""Columns of the rows that a query publishes: the items of its SELECT, with the types of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from xscl.base.errors import QueryError, Span
from xscl.ingest.rows import is_column
from xscl.language.column_types import BlockColumns
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import NormalQuery, normalize
from xscl.language.syntax import ast
from xscl.language.terms import item_name

__all__ = ["column_name", "published_columns"]

_NUMBER = "decimal"
_TEXT = "string"
_FUNCTIONS = {"count": "bigint", "sum": _NUMBER, "avg": _NUMBER, "min": _NUMBER, "max": _NUMBER}
"""Types of the values of aggregate functions; others have those of what they choose from."""
Schemas = Mapping[str, Mapping[str, str | None]]
"""Types of columns, by channel and column."""


def column_name(item: ast.SelectItem) -> str:
    """Return the name of the column that an item becomes."""
    if item.name is None and item.path.steps:
        return item.path.steps[-1].test.local or "text"
    return item_name(item)


def published_columns(
    query: ast.Query,
    text: str,
    namespaces: Mapping[str, str] | None,
    facts: Mapping[str, ChannelFacts],
    schemas: Schemas,
) -> dict[str, str]:
    """Return the types of the columns of a query's rows, in the order of SELECT.

    Args:
        query: a sound query.
        text: what its spans speak of.
        namespaces: URIs by prefix.
        facts: of channels and streams.
        schemas: types of the columns of those that have rows.

    Raises:
        QueryError: ``XSCL_PUBLISH_COLUMNS``: SELECT gives no columns.
    """
    return _Columns(query, text, namespaces, facts, schemas).all()


class _Columns:
    def __init__(
        self,
        query: ast.Query,
        text: str,
        namespaces: Mapping[str, str] | None,
        facts: Mapping[str, ChannelFacts],
        schemas: Schemas,
    ) -> None:
        self.query, self.text, self.facts, self.schemas = query, text, facts, schemas
        self.normal: NormalQuery = normalize(ast.Query(query.source, span=query.span), text, namespaces)
        self.measures = {each.text: each for each in query.measures}
        self.kept = {each.name: each.value for each in _accumulators(query.steps)}

    def all(self) -> dict[str, str]:
        query = self.query
        if not isinstance(query.select, tuple):
            at = query.publish_span if query.publish_span != ast.NOWHERE else query.span
            said = "there is no SELECT" if query.select is None else "SELECT makes an element"
            self._fail(
                f"rows have the items of SELECT as columns, and {said}", at, "write SELECT x AS a, y AS b FROM …"
            )
        found: dict[str, str] = {}
        for item in query.select:
            name = column_name(item)
            if not is_column(name):
                self._fail(f"{name} is no name of a column", item.span, f"write {item.path.name} AS name")
            if name in found:
                self._fail(f"two columns have the name {name}", item.span, f"write {item.path.name} AS another")
            found[name] = self._of_path(item.path)
        return found

    def _fail(self, message: str, span: Span, hint: str) -> NoReturn:
        raise QueryError("XSCL_PUBLISH_COLUMNS", message, text=self.text, span=span, hint=hint)

    def _of_path(self, path: ast.VarPath) -> str:
        measure = self.measures.get(path.name)
        if measure is not None:
            known = _FUNCTIONS.get(measure.function)
            return known or (_TEXT if measure.operand is None else self._of(measure.operand))
        if path.name in self.kept:
            # A value that is computed from others is a number; what goes from one name to the next may be anything.
            return _NUMBER if _is_computed(self.kept[path.name]) else _TEXT
        if path.steps or path.name not in self.normal.variables:
            return _TEXT
        number, node = self.normal.variables[path.name]
        block = self.normal.blocks[number]
        names = [*BlockColumns(block, self.facts.get(block.channel, ChannelFacts())).columns(node)]
        types = self.schemas.get(block.channel, {})
        return (types.get(names[0]) or _TEXT) if len(names) == 1 else _TEXT

    def _of(self, value: ast.Expression) -> str:
        if _is_computed(value):
            return _NUMBER
        match value:
            case ast.Linear(ast.VarPath() as path):
                return self._of_path(path)
        return _TEXT


def _is_computed(value: ast.Expression) -> bool:
    """Tell whether a value is a number, whatever it is computed from."""
    if isinstance(value, ast.Linear):
        return value.path is None or value != ast.Linear(value.path)
    return isinstance(value, ast.Arithmetic)


def _accumulators(tree: ast.Tree | None) -> Iterator[ast.Accumulator]:
    """Yield the values that FOLDs keep."""
    match tree:
        case ast.Filter():
            yield from _accumulators(tree.of)
        case ast.Next() | ast.Fold():
            yield from _accumulators(tree.left)
            if isinstance(tree, ast.Fold):
                yield from tree.accumulators
            yield from _accumulators(tree.right)
