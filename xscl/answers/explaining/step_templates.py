"""Steps that queries share, as templates: which there are, how many queries have them, and their statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from xscl.answers.explaining.step_sql import relations_of, step_statement
from xscl.answers.explaining.text import columns, count
from xscl.base.errors import CatalogError
from xscl.batches.steps.rows import numbered_nodes
from xscl.catalog.catalog import Catalog
from xscl.catalog.queries import read_query
from xscl.catalog.steps import Stepped, read_stepped
from xscl.catalog.suggestions import no_template
from xscl.catalog.tables import NEVER
from xscl.language.outlines.steps import known_shape
from xscl.language.steps.shapes import Number, alike, filled, step_id
from xscl.language.steps.terms import Fold, Next, StepsDefinition

__all__ = ["StepTemplate", "read_step_templates", "step_facts", "step_rows", "step_sql_text", "step_text"]

_NAMED = 5
"""Queries that are named."""


@dataclass(slots=True)
class StepTemplate:
    """A step with the groups of live queries that share it."""

    name: str
    definition: StepsDefinition
    """Its shape."""
    groups: dict[int, tuple[Stepped, tuple[Number, ...]]] = field(default_factory=dict)
    """Groups with the numbers of their conditions."""
    queries: list[str] = field(default_factory=list)

    @property
    def shown(self) -> StepsDefinition:
        """Return the steps as they run: with the numbers that all queries have."""
        root = filled(self.definition.root, alike([numbers for _, numbers in self.groups.values()]))
        return replace(self.definition, root=root)

    @property
    def moves(self) -> int:
        """Number of its NEXTs and FOLDs."""
        return sum(isinstance(node, Next | Fold) for node in numbered_nodes(self.definition.root))

    @property
    def has_longest(self) -> bool:
        """Whether other matches decide which are answers, as LONGEST has it."""
        return any(isinstance(node, Fold) and node.longest for node in numbered_nodes(self.definition.root))

    @property
    def example(self) -> str:
        """Return the canonical text of one of its queries."""
        return self.groups[min(self.groups)][0].text


def read_step_templates(connection: Connection) -> dict[str, StepTemplate]:
    """Return the steps of live queries by id, those with most queries first."""
    found: dict[str, StepTemplate] = {}
    stepped, readers, _ = read_stepped(connection, NEVER - 1, NEVER - 1)
    for each in stepped:
        shape, numbers = known_shape(each.text, tuple(sorted(each.namespaces.items())))
        name = step_id(shape, each.channels, each.distances)
        step = found.setdefault(name, StepTemplate(name, shape))
        step.groups[each.gid] = each, numbers
        step.queries += [reader.name for reader in readers[each.gid] if reader.until == NEVER]
    return dict(sorted(found.items(), key=lambda item: (-len(item[1].queries), item[0])))


def step_rows(catalog: Catalog) -> list[dict[str, object]]:
    """Return a row for each step, as ``status.template_rows`` does for other templates."""
    return [
        {
            "template": step.name,
            "blocks": sum(len(part.channels) for part in step.definition.parts),
            "variables": sum(len(part.names) for part in step.definition.parts),
            "joins": step.moves,
            "queries": len(step.queries),
            "groups": len(step.groups),
            "shape": step.example,
        }
        for step in catalog.ask(read_step_templates).values()
    ]


def step_facts(catalog: Catalog, name: str) -> dict[str, object]:
    """Collect the facts about a step as one record of JSON.

    Raises:
        CatalogError: there is none of that id.
    """
    with catalog.read() as connection:
        step = _read(connection, name)
    relations = relations_of(step.name, step.shown)
    return {
        "template": step.name,
        "shape": step.example,
        "blocks": sum(len(part.channels) for part in step.definition.parts),
        "parts": [
            {"part": number, "channels": list(part.channels), "variables": len(part.names), "relation": relation}
            for number, (part, (relation, _)) in enumerate(
                zip(step.definition.parts, relations.parts, strict=True), start=1
            )
        ],
        "steps": step.moves,
        "numbers": [column for column in relations.queries[1] if column.startswith("n")],
        "queries": len(step.queries),
        "groups": len(step.groups),
        "examples": sorted(step.queries)[:_NAMED],
    }


def step_text(catalog: Catalog, name: str) -> str:
    """Write a step for a person to read.

    Raises:
        CatalogError: there is none of that id.
    """
    with catalog.read() as connection:
        step = _read(connection, name)
    more = len(step.queries) - _NAMED
    examples = ", ".join(sorted(step.queries)[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    numbers = sum(column.startswith("n") for column in relations_of(step.name, step.shown).queries[1])
    rows = [
        ("template", step.name),
        ("shape", f"as in {step.example}"),
        ("size", f"{count(len(step.definition.parts), 'part')}, {step.moves:,} of NEXT and FOLD"),
        ("numbers", f"{numbers} that may differ by query" if numbers else "none"),
        ("queries", f"{len(step.queries):,} in {count(len(step.groups), 'group')}: {examples}"),
    ]
    return "\n".join(line.removeprefix("  ") for line in columns(rows))


def step_sql_text(catalog: Catalog, name: str, query: str | None) -> str:
    """Write the statement of a step, over ``rs_<step>`` or with the numbers of one query.

    Raises:
        CatalogError: there is no step of that id, no such query, or it has another step.
    """
    with catalog.read() as connection:
        step = _read(connection, name)
        numbers: Sequence[Number] | None = None
        if query is not None:
            info = read_query(connection, query)
            if info.gid not in step.groups:
                raise CatalogError("XSCL_TEMPLATE_NOT_FOUND", f"the query {query} has no step {step.name}")
            numbers = step.groups[info.gid][1]
    relations = relations_of(step.name, step.shown)
    notes = [f"-- {relation}: {', '.join(names)}" for relation, names in (relations.queries, *relations.parts)]
    if query is not None:
        notes.append(f"-- with the numbers of {query}")
    if step.shown.absent:
        notes.append(
            "-- What is wanted: WITHOUT and NOT FOLLOWED BY leave the rows that no document of the last parts forbids."
        )
    if step.has_longest:
        notes.append("-- All iterations: of these, LONGEST leaves the matches that are no part of others.")
    return "\n".join([*notes, step_statement(step.name, step.shown, numbers)])


def _read(connection: Connection, name: str) -> StepTemplate:
    found = read_step_templates(connection)
    names = [name] if name in found else sorted(each for each in found if each.startswith(name))
    if len(names) != 1:
        raise no_template(connection, name, names[:_NAMED])
    return found[names[0]]
