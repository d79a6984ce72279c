"""Explanation of a registered query: facts of it by itself, and of the queries that share work with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.explaining.facts import (
    BlockFacts,
    CaseFacts,
    Defined,
    GuardFacts,
    JoinFacts,
    LinkFacts,
    VariableFacts,
    block_facts,
    case_facts,
    definition_facts,
    guard_facts,
    join_facts,
    link_facts,
    variable_facts,
)
from xscl.answers.explaining.shared_steps import SharedStep, shared_step
from xscl.base.durations import format_duration
from xscl.base.types import LAST_TIME, format_time
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_channels, read_facts
from xscl.catalog.groups import read_template
from xscl.catalog.parts import read_parts_of
from xscl.catalog.queries import read_feeders, read_query
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import CHANNELS, GROUPS, NEVER, OF_STEPS, PARTS, QUERIES
from xscl.language.absence import LATEST
from xscl.language.compiled import CompiledQuery
from xscl.language.steps.parts import parts_of
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_negation, format_operator, format_select
from xscl.language.syntax.parser import parse_level, parse_query
from xscl.registry.canonical_text import canonical_text
from xscl.registry.notes import settling_note
from xscl.registry.query_list import QueryFilter, query_count, query_page, state_facts
from xscl.registry.recompile import compile_info
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.sql import cq_statement
from xscl.templates.template import Template

__all__ = [
    "NAMED",
    "Explanation",
    "explain",
    "query_names",
    "template_sizes",
]

NAMED = 10
"""Names of queries that a person is shown."""


def _select(info: QueryInfo) -> str:
    select = parse_query(info.text).select
    return "*" if select is None else format_select(select)


@dataclass(frozen=True, slots=True)
class AwaitedFacts:
    """A channel whose times answers wait for, and how far these have to pass."""

    channel: str
    certain: str
    """The greatest time that it may have, which the channel's times have to pass."""
    settled: str
    """State of the channel's times, and what to do where nothing settles them."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A step over the matches of parts."""

    text: str
    """Operator with its braces."""
    left: str
    """Blocks to the left of it, as numbers."""
    right: str
    """Blocks to the right; of FILTER none."""


@dataclass(frozen=True, slots=True)
class PartFacts:
    """A part of a query with steps: a query of its own, which many may share."""

    blocks: str
    group: int
    template: str
    users: int
    """Groups of live queries whose steps are over its matches, this one's among them."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All facts about a query."""

    query: str
    text: str
    """Text as it was registered."""
    canonical: str
    channels: tuple[str, ...]
    """Channels of the blocks; ``blocks`` may name their streams."""
    place: int
    publish: str | None
    starting: str
    level: str | None
    """Level of consistency of a query about absence, or with steps; None: it is another one, and has none."""
    late_for: int
    """Events of its channels that came too late for its memory, and in time for others."""
    owner: str
    state: Mapping[str, object]
    """``state`` (live or suspended), and of a suspended query ``suspended_from``, a place, and ``reason``."""
    select: str
    blocks: tuple[BlockFacts, ...]
    joins: tuple[JoinFacts, ...]
    cases: tuple[CaseFacts, ...]
    links: tuple[LinkFacts, ...]
    variables: tuple[VariableFacts, ...]
    definitions: tuple[Defined, ...]
    absent: tuple[AwaitedFacts, ...]
    """Blocks that must not be there, by their channels."""
    ends: tuple[AwaitedFacts, ...]
    """Channels whose times end windows of matches, or decide steps."""
    steps: tuple[StepFacts, ...]
    """Steps in the order in which they are taken."""
    parts: tuple[PartFacts, ...]
    """Parts that the steps are over."""
    shared: SharedStep | None
    """Step that moves its rows, for all queries that share it; None: it has no steps."""
    guards: tuple[GuardFacts, ...]
    """Guards of blocks that have one."""
    template: str
    queries_in_template: int
    groups_in_template: int
    queries_in_skeleton: int
    """Live queries that differ from it in windows and guards alone, this one among them."""
    groups_in_skeleton: int
    group: int
    queries_in_group: int
    names_in_group: tuple[str, ...]
    """The first ten, by name."""
    sql: str
    """The template's conjunctive query; of a query with steps those of its parts."""

    def record(self) -> dict[str, object]:
        """Give all facts as one record of JSON."""
        return {**asdict(self), **self.state}

    def summary(self) -> dict[str, object]:
        """Give the facts that a listing shows, as one record of JSON."""
        shown = {name: getattr(self, name) for name in ("query", "text", "canonical", "template", "group", "place")}
        return {
            **shown,
            "owner": self.owner,
            **self.state,
            "channels": list(self.channels),
            "read": [block.channel for block in self.blocks],
            "windows": [list(case.windows) for case in self.cases],
            "queries_in_group": self.queries_in_group,
            "publish": self.publish,
            "starting": self.starting,
            "level": self.level,
            "late_for": self.late_for,
            "select": self.select,
            "variables": [asdict(defined) for defined in self.definitions],
            "guards": [asdict(guard) for guard in self.guards],
            "joins": [join.text for join in self.joins],
        }


def explain(catalog: Catalog, name: str) -> Explanation:
    """Collect the facts about a query.

    Raises:
        CatalogError: there is none of that name.
    """
    # What a batch commits meanwhile is in all parts of the explanation, or in none.
    return catalog.ask(_explanation, name)


def _explanation(connection: Connection, name: str) -> Explanation:
    info = read_query(connection, name)
    compiled = compile_info(info, read_facts(connection))
    tree = parse_query(info.text)
    parts = _parts(connection, info.gid, tree)
    templates = [compiled.template]
    if parts:  # what joins all blocks only shows matches, and nothing asks it
        templates = [read_template(connection, name) for name in dict.fromkeys(part.template for part in parts)]
    queries, groups = template_sizes(connection, compiled.template)
    queries_of_skeleton, groups_of_skeleton = _skeleton_sizes(connection, info.gid)
    sharing = QueryFilter(group=info.gid, suspended=False)
    return Explanation(
        query=info.name,
        text=info.said,
        canonical=canonical_text(info),
        channels=tuple(compiled.channels),
        place=info.docid_from,
        publish=info.publish,
        starting=info.starting,
        level=info.level,
        late_for=info.late_for,
        owner=info.owner,
        state=state_facts(info),
        select=_select(info),
        blocks=block_facts(compiled),
        joins=tuple(join_facts(compiled)),
        cases=() if parts else tuple(case_facts(compiled)),
        links=() if parts else tuple(link_facts(compiled)),
        variables=tuple(variable_facts(compiled)),
        definitions=tuple(definition_facts(compiled)),
        absent=tuple(_absent(connection, compiled, parse_level(info.level or "STRONG"))),
        ends=tuple(_ends(connection, compiled, tree, parse_level(info.level or "STRONG"))),
        steps=() if tree.steps is None else tuple(_all_steps(tree, tree.steps)),
        parts=parts,
        shared=shared_step(connection, info.gid) if parts else None,
        guards=tuple(guard_facts(compiled)),
        template=compiled.template.id,
        queries_in_template=queries,
        groups_in_template=groups,
        queries_in_skeleton=queries_of_skeleton,
        groups_in_skeleton=groups_of_skeleton,
        group=info.gid,
        queries_in_group=query_count(connection, sharing),
        names_in_group=query_names(connection, replace(sharing, limit=NAMED)),
        sql=";\n".join(spark_text(cq_statement(template, rows=bool(compiled.group.rows))) for template in templates),
    )


def template_sizes(connection: Connection, template: Template) -> tuple[int, int]:
    """Count the live queries and groups of a template."""
    counts = sa.select(sa.func.count(), sa.func.count(sa.distinct(QUERIES.c.gid))).where(
        QUERIES.c.template == template.id, QUERIES.c.docid_until == NEVER
    )
    queries, groups = connection.execute(counts).one()
    return queries, groups


def _skeleton_sizes(connection: Connection, gid: int) -> tuple[int, int]:
    """Count the live queries and groups of the instance of a group."""
    own = sa.select(GROUPS.c.iid).where(GROUPS.c.gid == gid).scalar_subquery()
    counts = (
        sa.select(sa.func.count(), sa.func.count(sa.distinct(QUERIES.c.gid)))
        .join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
        .where(GROUPS.c.iid == own, QUERIES.c.docid_until == NEVER)
    )
    queries, groups = connection.execute(counts).one()
    return queries, groups


def query_names(connection: Connection, wanted: QueryFilter) -> tuple[str, ...]:
    """Return the names of a few queries."""
    return tuple(info.name for info in query_page(connection, wanted))


def _absent(connection: Connection, compiled: CompiledQuery, level: ast.Level) -> Iterator[AwaitedFacts]:
    """Yield what must not be there, and how certain that is."""
    if compiled.absence is None:
        return
    settled = _settled_texts(connection, level)
    for channel, ends in compiled.absence.ends:
        names = [("the latest member" if end.block == LATEST else compiled.block_names[end.block]) for end in ends]
        times = [
            name if not end.offset else f"{format_duration(abs(end.offset))} {_side(end.offset)} {name}"
            for end, name in zip(ends, names, strict=True)
        ]
        yield AwaitedFacts(channel, " or ".join(times), settled(channel))


def _ends(connection: Connection, compiled: CompiledQuery, tree: ast.Query, level: ast.Level) -> Iterator[AwaitedFacts]:
    """Yield the channels whose times end the windows of a query, or decide its steps."""
    if tree.aggregate is None and tree.steps is None:
        return
    settled = _settled_texts(connection, level)
    end = "the last member of a match"
    if tree.aggregate is not None:
        end = "the last match of a window" if tree.aggregate.every is None else "the end of a window"
    for channel in dict.fromkeys(compiled.channels):
        yield AwaitedFacts(channel, end, settled(channel))
    for part in compiled.stepped[len(compiled.stepped) - len(tree.negations) :]:
        yield AwaitedFacts(
            part.compiled.channels[0], "the end of what must not be there", settled(part.compiled.channels[0])
        )


def _parts(connection: Connection, gid: int, tree: ast.Query) -> tuple[PartFacts, ...]:
    """Return the parts that the steps of a group of queries are over."""
    if tree.steps is None:
        return ()
    users = sa.select(sa.func.count(sa.distinct(QUERIES.c.gid))).join(PARTS, PARTS.c.gid == QUERIES.c.gid)
    found, block = list[PartFacts](), 1
    for part, row in zip(parts_of(tree), read_parts_of(connection, [gid]), strict=True):
        count = sum(1 for _ in ast.blocks(part.source))
        template = connection.scalar(sa.select(GROUPS.c.template).where(GROUPS.c.gid == row.part))
        live = PARTS.c.part == row.part, PARTS.c.ends == OF_STEPS, QUERIES.c.docid_until == NEVER
        shared = connection.scalar(users.where(*live)) or 0
        found.append(PartFacts(_range(block, count), row.part, str(template), shared))
        block += count
    return tuple(found)


def _all_steps(tree: ast.Query, steps: ast.Tree) -> Iterator[StepFacts]:
    """Yield the steps of a query, and behind them those that say what must not be there."""
    found, end = _steps(steps, 1)
    yield from found
    for place, negation in enumerate(tree.negations):
        yield StepFacts(format_negation(negation), _range(1, end - 1), _range(end + place, 1))


def _steps(tree: ast.Tree, block: int) -> tuple[list[StepFacts], int]:
    """Return the steps of a tree whose first block has a number, and the number behind its last block."""
    match tree:
        case ast.Block() | ast.Join():
            return [], block + sum(1 for _ in ast.blocks(tree))
        case ast.Filter():
            steps, end = _steps(tree.of, block)
            return [*steps, StepFacts(format_operator(tree), _range(block, end - block), "")], end
    steps, middle = _steps(tree.left, block)
    more, end = _steps(tree.right, middle)
    own = StepFacts(format_operator(tree), _range(block, middle - block), _range(middle, end - middle))
    return [*steps, *more, own], end


def _range(first: int, count: int) -> str:
    return f"block {first}" if count == 1 else f"blocks {first} to {first + count - 1}"


def _settled_texts(connection: Connection, level: ast.Level) -> Callable[[str], str]:
    """Return a function that tells how far the times of a channel are settled, for queries of a level."""
    rows = connection.execute(sa.select(CHANNELS.c.name, CHANNELS.c.watermark)).all()
    feeders = read_feeders(connection)
    channels = read_channels(connection)
    known = {row.name: row for row in rows}

    def settled(channel: str) -> str:
        row, info = known.get(channel), channels.get(channel)
        if level.memory is not None:
            return f"not seen if it comes more than {format_duration(level.memory)} behind its clock"
        if row is not None and row.watermark is not None:
            return f"settled below {format_time(min(row.watermark, LAST_TIME))}"
        if info is not None and (info.lateness, info.heartbeat, info.wall) != (None, None, None) or channel in feeders:
            return "not settled by any event yet"
        return settling_note(channel, is_final=level == ast.STRONG, is_there=info is not None)

    return settled


def _side(offset: int) -> str:
    return "after" if offset > 0 else "before"
