"""Paths of variables below the documents of their blocks: by which matches of queries with other names are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from xscl.language.facts import is_sub_query
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query

__all__ = ["paths_of", "pattern_of", "selected_paths", "stream_of"]


@lru_cache(maxsize=1 << 17)
def stream_of(part: str) -> tuple[str, ...] | None:
    """Return the paths of the variables of matches that are selected events of one channel; None: they are others."""
    query = parse_query(part)
    if query.steps is not None or query.negations or query.aggregate is not None or len(ast.blocks(query.source)) > 1:
        return None
    return selected_paths(query)


def selected_paths(query: ast.Query) -> tuple[str, ...]:
    """Return the paths of the variables that a query selects, in their order."""
    names = paths_of(ast.blocks(query.source))
    return tuple(names.get(path.name, path.name) for path in ast.selected(query.select))


def pattern_of(steps: Sequence[ast.Step]) -> str:
    """Return the path of a block below its documents."""
    names = [
        "/" * (1 if step.axis == "child" else 2) + ("@" * (step.test.kind == "attribute")) + step.test.local
        for step in steps
    ]
    return "".join(names)


def paths_of(blocks: Sequence[ast.Block]) -> dict[str, str]:
    """Return the path of each variable below the document of its block."""
    return {name: path for block in blocks for name, path in _bound(block)}


def _bound(block: ast.Block) -> Iterator[tuple[str, str]]:
    if block.binding is not None and not is_sub_query(block.channel):
        yield block.binding.name, block.channel
    yield from _of_predicates(block.predicates, "")
    yield from _of_steps(block.steps, "")


def _of_steps(steps: Sequence[ast.Step], above: str) -> Iterator[tuple[str, str]]:
    for step in steps:
        above = (above + pattern_of((step,))).removeprefix("/")
        if step.binding is not None:
            yield step.binding.name, above
        yield from _of_predicates(step.predicates, above)


def _of_predicates(predicates: Sequence[ast.Predicate], above: str) -> Iterator[tuple[str, str]]:
    for predicate in predicates:
        match predicate:
            case ast.And(parts):
                yield from _of_predicates(parts, above)
            case ast.Truth(ast.RelPath(steps)):
                yield from _of_steps(steps, above)
