"""Rows of the catalogue that follow from a compiled query alone."""

from __future__ import annotations

import json

from xscl.language.compiled import CompiledQuery
from xscl.templates.guards import Guard
from xscl.templates.statements.relations import var_name

__all__ = ["guards_of", "names_json", "variables_of"]


def variables_of(compiled: CompiledQuery) -> list[dict[str, object]]:
    """Return a row of ``variables`` for each definition that a query's witnesses speak of."""
    names = {definition.key: name for name, definition in compiled.definitions.items()}
    wanted = {d.key: d for d in compiled.definitions.values()}
    for spec in compiled.specs:
        for definition in (spec.definition, *(d for edge in (*spec.edges, *spec.hanging) for d in edge)):
            wanted.setdefault(definition.key, definition)
    return [
        {
            "key": key,
            "var": var_name(key),
            "channel": definition.channel,
            "definition": str(definition),
            "example": names.get(key),
        }
        for key, definition in wanted.items()
    ]


def guards_of(compiled: CompiledQuery) -> list[dict[str, object]]:
    """Return a row of ``guards`` for each guard of a query's blocks."""
    return [
        {"guard": guard.name, "text": guard.text, "alternatives": _alternatives_json(guard)}
        for guard in dict.fromkeys(compiled.group.guards)
        if guard is not None
    ]


def _alternatives_json(guard: Guard) -> str:
    return json.dumps(
        [[[var_name(each.variable), each.op, each.constant] for each in literals] for literals in guard.alternatives]
    )


def names_json(compiled: CompiledQuery) -> str:
    """Return a query's own names of its meta-variables and result nodes, as JSON."""
    if compiled.is_made:
        # Its matches are documents of their own, and each is one node.
        return json.dumps({"meta": [], "results": [None], "result_blocks": [0], "joined": []})
    return json.dumps(
        {
            "meta": () if compiled.stepped else compiled.meta_names,  # its answers have no row of R_out
            "results": compiled.result_names,
            "result_blocks": compiled.result_blocks,
            "joined": compiled.joined_names,
        }
    )
