"""Facts about one query: normal form, canonical variables, joins, windows, links, template and group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations
from operator import or_

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.durations import format_duration
from xscl.base.mixed import described, is_role
from xscl.base.types import format_time
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_channels, read_facts
from xscl.catalog.queries import read_feeders, read_query
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import CHANNELS, GROUPS, NEVER, QUERIES
from xscl.language.absence import LATEST
from xscl.language.compile import CompiledQuery
from xscl.language.format import format_select
from xscl.language.normalize import NormalBlock
from xscl.language.parser import parse_query
from xscl.language.query_rows import variables_of
from xscl.registry.canonical_text import canonical_text
from xscl.registry.notes import settling_note
from xscl.registry.query_list import QueryFilter, count_queries, list_queries, state_facts
from xscl.registry.recompile import compile_info
from xscl.templates.bounds import UNBOUNDED, UNLESS_EXCHANGED, Bounds, Case, pair_index
from xscl.templates.graph import ValueJoin, solved
from xscl.templates.links import anchor
from xscl.templates.relations import var_name
from xscl.templates.sql import cq_statement
from xscl.templates.sql_dialects import spark_text
from xscl.templates.template import Template
from xscl.xpath.pattern import Compared, Condition, conditions

__all__ = [
    "NAMED",
    "BlockFacts",
    "CaseFacts",
    "Explanation",
    "GuardFacts",
    "block_facts",
    "case_facts",
    "explain",
    "query_names",
    "template_sizes",
]

NAMED = 10
"""Names of queries that a person is shown."""
_MOST_DIGITS = 15
"""Behind the point of a number."""


# -- one query -------------------------------------------------------------------------------------------------


def _select(info: QueryInfo) -> str:
    select = parse_query(info.text).select
    return "*" if select is None else format_select(select)


@dataclass(frozen=True, slots=True)
class PatternNode:
    """A node of a block's tree in normal form."""

    depth: int
    step: str
    """Step with its conditions, names by URI."""
    variable: str | None
    role: str
    """``result``, ``selected``, ``joined``; ``condition``: the reduction makes it one of a node above; or nothing."""


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """A block in normal form."""

    name: str
    channel: str
    nodes: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class VariableFacts:
    """A canonical variable of a query: a meta-variable of its template (``var1``…), or one that is output only."""

    place: str
    block: str
    name: str | None
    """Name of the query's own, None for a node without one."""
    var: str
    """The variable's name in the relations: the digest of its definition."""
    definition: str


@dataclass(frozen=True, slots=True)
class Defined:
    """A variable of the query's text."""

    name: str
    var: str
    definition: str


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """A guard: conditions of a block on its whole document, which are no part of its variables' definitions."""

    block: str
    guard: str
    text: str


@dataclass(frozen=True, slots=True)
class AbsentFacts:
    """Something that must not be there: its channel, and when that is certain."""

    channel: str
    certain: str
    """The greatest time that it may have, which the channel's times have to pass."""
    settled: str
    """State of the channel's times, and what to do where nothing settles them."""


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """A value join: an edge of the join graph with what R_T says of it."""

    edge: str
    kind: str
    text: str
    compares: str
    """``numbers`` or ``strings``."""


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """One case of the windows, tightened."""

    orders: tuple[str, ...]
    """Order of two members each, where the other cases do not say the same."""
    windows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """Link between two blocks, in a query of three blocks and more."""

    blocks: tuple[str, str]
    by: str
    """``value``: equal values bring the members together; ``time``: the window does."""
    asks: tuple[str, ...]


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
    absent: tuple[AbsentFacts, ...]
    """Blocks that must not be there."""
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
    """The template's conjunctive query."""

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
    info = catalog.ask(read_query, name)
    compiled = compile_info(info, catalog.ask(read_facts))
    queries, groups = template_sizes(catalog, compiled.template)
    queries_of_skeleton, groups_of_skeleton = catalog.ask(_skeleton_sizes, info.gid)
    sharing = QueryFilter(group=info.gid, suspended=False)
    return Explanation(
        query=info.name,
        text=info.text,
        canonical=canonical_text(info),
        channels=tuple(compiled.channels),
        place=info.docid_from,
        publish=info.publish,
        starting=info.starting,
        owner=info.owner,
        state=state_facts(info),
        select=_select(info),
        blocks=block_facts(compiled),
        joins=tuple(_joins(compiled)),
        cases=case_facts(compiled),
        links=tuple(_links(compiled)),
        variables=tuple(_variables(compiled)),
        definitions=tuple(Defined(name, var_name(d.key), str(d)) for name, d in compiled.definitions.items()),
        absent=tuple(_absent(catalog, compiled)),
        guards=tuple(
            GuardFacts(name, guard.name, guard.text)
            for name, guard in zip(compiled.block_names, compiled.group.guards, strict=False)
            if guard is not None
        ),
        template=compiled.template.id,
        queries_in_template=queries,
        groups_in_template=groups,
        queries_in_skeleton=queries_of_skeleton,
        groups_in_skeleton=groups_of_skeleton,
        group=info.gid,
        queries_in_group=count_queries(catalog, sharing),
        names_in_group=query_names(catalog, replace(sharing, limit=NAMED)),
        sql=spark_text(cq_statement(compiled.template)),
    )


def template_sizes(catalog: Catalog, template: Template) -> tuple[int, int]:
    """Count the live queries and groups of a template."""
    counts = sa.select(sa.func.count(), sa.func.count(sa.distinct(QUERIES.c.gid))).where(
        QUERIES.c.template == template.id, QUERIES.c.docid_until == NEVER
    )
    with catalog.read() as connection:
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


def query_names(catalog: Catalog, wanted: QueryFilter) -> tuple[str, ...]:
    """List the names of queries."""
    return tuple(info.name for info in list_queries(catalog, wanted))


def _absent(catalog: Catalog, compiled: CompiledQuery) -> Iterator[AbsentFacts]:
    """Yield what must not be there, and how certain that is."""
    if compiled.absence is None:
        return
    with catalog.read() as connection:
        rows = connection.execute(sa.select(CHANNELS.c.name, CHANNELS.c.watermark)).all()
        feeders = read_feeders(connection)
        channels = read_channels(connection)
    known = {row.name: row for row in rows}
    for channel, ends in compiled.absence.ends:
        names = [("the latest member" if end.block == LATEST else compiled.block_names[end.block]) for end in ends]
        times = [
            name if not end.offset else f"{format_duration(abs(end.offset))} {_side(end.offset)} {name}"
            for end, name in zip(ends, names, strict=True)
        ]
        row, info = known.get(channel), channels.get(channel)
        if row is not None and row.watermark is not None:
            settled = f"settled below {format_time(row.watermark)}"
        elif (
            info is not None and (info.lateness, info.heartbeat, info.wall) != (None, None, None) or channel in feeders
        ):
            settled = "not settled by any event yet"
        else:
            settled = settling_note(channel)
        yield AbsentFacts(channel, " or ".join(times), settled)


def _side(offset: int) -> str:
    return "after" if offset > 0 else "before"


def block_facts(compiled: CompiledQuery) -> tuple[BlockFacts, ...]:
    """Collect the blocks of a query in normal form."""
    return tuple(_block(compiled, number) for number in range(len(compiled.channels)))


def case_facts(compiled: CompiledQuery) -> tuple[CaseFacts, ...]:
    """Collect the cases of a query's windows."""
    return tuple(_cases(compiled))


def _block(compiled: CompiledQuery, number: int) -> BlockFacts:
    block = compiled.normal.blocks[number]
    joined = {compiled.normal.variables[name] for name in compiled.joined_names}
    shown = {compiled.normal.variables[name] for name in compiled.normal.selected} | {(number, block.result)}
    kept = {node for at, node in joined | shown if at == number}
    on_the_way = set(kept)
    for node in range(len(block.nodes) - 1, 0, -1):
        if node in on_the_way:
            on_the_way.add(block.nodes[node].parent)

    def role(node: int) -> str:
        words = []
        if node == block.result:
            words.append("result")
        elif (number, node) in shown:
            words.append("selected")
        if (number, node) in joined:
            words.append("joined")
        return ", ".join(words) if node in on_the_way else "condition"

    return BlockFacts(
        compiled.block_names[number],
        block.channel,
        tuple(
            PatternNode(depth, _step_text(block, node), block.nodes[node].variable, role(node))
            for node, depth in _parents_first(block)
        ),
    )


def _parents_first(block: NormalBlock) -> Iterator[tuple[int, int]]:
    """(node, depth), each node before what is below it, without the document node."""

    def below(parent: int, depth: int) -> Iterator[tuple[int, int]]:
        for index, node in enumerate(block.nodes):
            if node.parent == parent:
                yield index, depth
                yield from below(index, depth + 1)

    yield from below(0, 0)


def _step_text(block: NormalBlock, index: int) -> str:
    node = block.nodes[index]
    assert node.step is not None
    brackets = (f"[{_condition_text(c)}]" for c in conditions([*node.step.conditions, *node.conditions]))
    return f"{'/' if node.step.axis == 'child' else '//'}{node.step.test}{''.join(brackets)}"


def _condition_text(condition: Condition) -> str:
    if isinstance(condition, Compared):
        right = condition.right.value if condition.right.is_number else str(condition.right)
        if condition.right.is_number:
            right = _number(Fraction(right))
        return f"{_applied(condition.functions, '.')} {condition.op} {right}"
    return str(condition)


def _joins(compiled: CompiledQuery) -> Iterator[JoinFacts]:
    for number, join in enumerate(compiled.group.instance.joins, start=1):
        compares = "numbers" if join.fn_l.startswith("number") else "strings"
        if is_role(join.fn_l):
            compares = described(join.fn_l, join.fn_r)
        yield JoinFacts(f"e{number}", join.kind, _join_text(compiled, join), compares)


def _join_text(compiled: CompiledQuery, join: ValueJoin) -> str:
    left, right = (
        _applied(_written(functions), _meta_name(compiled, place))
        for functions, place in ((join.fn_l, join.left), (join.fn_r, join.right))
    )
    form = solved(join)
    alone, other = (left, right) if form.alone == "l" else (right, left)
    if form.f != 1:
        other = f"{_number(form.f)} * {other}"
    if form.add:
        other += f" {'-' if form.add < 0 else '+'} {_number(abs(form.add))}"
    return f"{alone} {form.op} {other}"


def _written(functions: str) -> str:
    """Return the functions that a query applies, of those of an edge."""
    first, _, others = functions.partition(" ")
    return others if first == "number" or is_role(first) else functions


def _meta_name(compiled: CompiledQuery, place: int) -> str:
    return compiled.meta_names[place] or f"var{place + 1}"


def _applied(functions: str, name: str) -> str:
    names = functions.split(" ") if functions else []
    return "".join(f"{f}(" for f in names) + name + ")" * len(names)


def _number(number: Fraction) -> str:
    """Write a number with decimals if few suffice, else as the fraction it is."""
    for digits in range(_MOST_DIGITS + 1):
        shifted = number * 10**digits
        if shifted.denominator == 1:
            sign, whole = "-" * (number < 0), str(abs(shifted.numerator)).rjust(digits + 1, "0")
            return f"{sign}{whole[:-digits]}.{whole[-digits:]}" if digits else sign + whole
    return str(number)


def _cases(compiled: CompiledQuery) -> Iterator[CaseFacts]:
    cases, names = compiled.group.cases, compiled.block_names
    orders = [set(_orders(case, names)) for case in cases]
    always = set.intersection(*orders)
    for case in cases:
        if case:
            own = tuple(order for order in _orders(case, names) if order not in always)
            yield CaseFacts(own, tuple(_windows(case, names)))


def _orders(case: Case, names: Sequence[str]) -> Iterator[str]:
    """Give the orders of members that the bounds imply."""
    for bounds, (left, right) in zip(case, combinations(names, 2), strict=True):
        if bounds.lo >= 0:
            yield f"{left} {'before' if bounds.lo else 'not after'} {right}"
        elif bounds.hi <= 0:
            yield f"{right} {'before' if bounds.hi else 'not after'} {left}"


def _windows(case: Case, names: Sequence[str]) -> list[str]:
    """Write the bounds of one case as relative windows between the blocks."""
    pairs = combinations(names, 2)
    return [_window(bounds, earlier, later) for bounds, (earlier, later) in zip(case, pairs, strict=True)]


def _window(bounds: Bounds, earlier: str, later: str) -> str:
    low = "-UNBOUNDED" if bounds.lo <= -UNBOUNDED else format_duration(bounds.lo)
    high = "UNBOUNDED" if bounds.hi >= UNBOUNDED else format_duration(bounds.hi)
    fixed = abs(bounds.order) == 1
    order = f", {earlier if bounds.order > 0 else later} first by time, channel and id" if fixed else ""
    if bounds.exchange or bounds.order == UNLESS_EXCHANGED:
        order += f", {earlier} first by time, channel and id where the two match in both orders"
    return f"{later} - {earlier} IN [{low}, {high}]{order}"


def _links(compiled: CompiledQuery) -> Iterator[LinkFacts]:
    instance, names = compiled.group.instance, compiled.block_names
    if len(names) < 3:
        return
    places = pair_index(len(names))
    for i, j in instance.links:
        asks = [
            f"e{number} {_join_text(compiled, join)}"
            for number, join in enumerate(instance.joins, start=1)
            if (instance.nodes[join.left].block, instance.nodes[join.right].block) == (i, j)
        ]
        by_value = anchor(instance, (i, j)) is None
        if not by_value:
            group = compiled.group
            windows = [c[places[i, j]] for c, links in zip(group.cases, group.links, strict=True) if (i, j) in links]
            asks.insert(0, _window(reduce(or_, windows), names[i], names[j]))
        yield LinkFacts((names[i], names[j]), "value" if by_value else "time", tuple(asks))


def _variables(compiled: CompiledQuery) -> Iterator[VariableFacts]:
    instance = compiled.group.instance
    definition = {row["key"]: str(row["definition"]) for row in variables_of(compiled)}
    shown = dict(zip(instance.results, compiled.result_names, strict=True))
    width = compiled.template.width
    for place, node in enumerate(instance.nodes):
        name = compiled.meta_names[place] if place < width else shown.get(place)
        label = f"var{place + 1}" if place < width else "output"
        yield VariableFacts(
            label, compiled.block_names[node.block], name, var_name(node.var), definition.get(node.var, "")
        )
