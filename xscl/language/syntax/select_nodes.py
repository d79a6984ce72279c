"""Nodes of the syntax tree in SELECT: items of a list, and element constructors."""

from __future__ import annotations

from dataclasses import dataclass

from xscl.base.errors import Span
from xscl.language.syntax.atom_nodes import VarPath
from xscl.language.syntax.block_nodes import span_field

__all__ = ["Constructor", "ConstructorAttribute", "Select", "SelectItem", "selected"]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """``x4/title AS headline``."""

    path: VarPath
    name: str | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class ConstructorAttribute:
    """An attribute of a constructor: texts and holes in turn."""

    name: str
    parts: tuple[str | VarPath, ...]
    span: Span = span_field()
    """The name's."""


@dataclass(frozen=True, slots=True)
class Constructor:
    """``<echo by="{x2}">{x1/title}</echo>``: an element with holes.

    References and escapes are resolved, comments and white space alone between tags and holes are left out; no two
    texts are neighbours and none is empty.
    """

    name: str
    attributes: tuple[ConstructorAttribute, ...] = ()
    content: tuple[str | VarPath | Constructor, ...] = ()
    span: Span = span_field()


Select = tuple[SelectItem, ...] | Constructor | None
"""The output of a query; None is ``*``."""


def selected(select: Select) -> tuple[VarPath, ...]:
    """Return all variable paths of a SELECT list or of a constructor's holes, as written."""
    if select is None:
        return ()
    if isinstance(select, tuple):
        return tuple(item.path for item in select)
    found: list[VarPath] = []
    waiting: list[str | VarPath | Constructor] = [select]
    while waiting:
        part = waiting.pop()
        if isinstance(part, VarPath):
            found.append(part)
        elif isinstance(part, Constructor):
            waiting += reversed(part.content)
            waiting += [piece for attribute in reversed(part.attributes) for piece in reversed(attribute.parts)]
    return tuple(found)
