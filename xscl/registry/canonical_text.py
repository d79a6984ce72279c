"""Canonical text of a query: the statements that register it in any home."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from xscl.catalog.records import QueryInfo
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_statement
from xscl.language.syntax.parser import parse_query

__all__ = ["canonical_text"]


def canonical_text(info: QueryInfo) -> str:
    """Write the statements that register the query in any home: the DECLAREs it needs, then CREATE QUERY."""
    query = parse_query(info.said)
    prefixes = sorted(set(_prefixes(query)) & set(info.namespaces))
    declared = [format_statement(ast.DeclareNamespace(prefix, info.namespaces[prefix])) for prefix in prefixes]
    return "\n".join([*declared, format_statement(ast.CreateQuery(info.name, query))])


def _prefixes(part: object) -> Iterator[str]:
    """Give the prefixes of all names in a syntax tree."""
    if isinstance(part, (tuple, list)):
        for inner in part:
            yield from _prefixes(inner)
    elif is_dataclass(part):
        match part:
            case ast.Test(_, str(prefix), _):
                yield prefix
            case (
                ast.Constructor(name=str(name))
                | ast.ConstructorAttribute(name=str(name))
                | ast.SelectItem(name=str(name))
            ) if ":" in name:
                yield name.partition(":")[0]
        for field in fields(part):
            yield from _prefixes(getattr(part, field.name))
