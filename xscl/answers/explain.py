"""What there is to say about a query and about a template, for listings and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations
from operator import or_

import sqlalchemy as sa

from xscl.base.durations import format_duration
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_facts
from xscl.catalog.groups import read_template
from xscl.catalog.queries import read_query
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import NEVER, QUERIES
from xscl.language.compile import CompiledQuery
from xscl.language.format import format_select
from xscl.language.normalize import NormalBlock
from xscl.language.parser import parse_query
from xscl.language.query_rows import variables_of
from xscl.registry.canonical_text import canonical_text
from xscl.registry.query_list import QueryFilter, count_queries, list_queries
from xscl.registry.registry import compile_info
from xscl.templates.bounds import UNBOUNDED, Bounds, Case, pair_index
from xscl.templates.graph import ValueJoin, solved
from xscl.templates.links import anchor
from xscl.templates.picture import GraphFormat, join_graph
from xscl.templates.relations import var_name
from xscl.templates.sql import cq_statement, spark_text
from xscl.templates.template import Template
from xscl.xpath.pattern import Compared, Condition, conditions

__all__ = [
    "Explanation",
    "explain",
    "explanation_text",
    "query_facts",
    "template_facts",
    "template_text",
]

_NAMED = 10
"""Names of queries that a person is shown."""
_MOST_DIGITS = 15
"""Behind the point of a number."""


# -- one query -------------------------------------------------------------------------------------------------


def query_facts(catalog: Catalog, name: str) -> dict[str, object]:
    """A query as one record.

    Raises:
        CatalogError: there is none of that name.
    """
    info = catalog.ask(read_query, name)
    compiled = compile_info(info, catalog.ask(read_facts))
    return {
        "query": info.name,
        "text": info.text,
        "canonical": canonical_text(info),
        "channels": list(compiled.channels),
        "read": [block.channel for block in compiled.normal.blocks],
        "windows": [_windows(case, compiled.block_names) for case in compiled.group.cases if case],
        "template": info.template,
        "group": info.gid,
        "queries_in_group": count_queries(catalog, QueryFilter(group=info.gid)),
        "place": info.docid_from,
        "publish": info.publish,
        "starting": info.starting,
        "select": _select(info),
        "variables": [
            {"name": var, "var": var_name(d.key), "definition": str(d)} for var, d in compiled.definitions.items()
        ],
        "joins": [join.text for join in _joins(compiled)],
    }


def _select(info: QueryInfo) -> str:
    select = parse_query(info.text).select
    return "*" if select is None else format_select(select)


@dataclass(frozen=True, slots=True)
class PatternNode:
    """A node of a block's tree in normal form."""

    depth: int
    step: str
    """With its conditions, names by URI."""
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
    """The query's own, None for a node without one."""
    var: str
    """The variable's name in the relations: the digest of its definition."""
    definition: str


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
    """Which of two members comes first, where the other cases do not say the same."""
    windows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What two blocks ask of each other, in a query of three blocks and more."""

    blocks: tuple[str, str]
    by: str
    """``value``: equal values bring the members together; ``time``: the window does."""
    asks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All there is to say about a query."""

    query: str
    canonical: str
    place: int
    publish: str | None
    starting: str
    select: str
    blocks: tuple[BlockFacts, ...]
    joins: tuple[JoinFacts, ...]
    cases: tuple[CaseFacts, ...]
    links: tuple[LinkFacts, ...]
    variables: tuple[VariableFacts, ...]
    template: str
    queries_in_template: int
    groups_in_template: int
    group: int
    queries_in_group: int
    names_in_group: tuple[str, ...]
    """The first ten, by name."""
    sql: str
    """The template's conjunctive query."""

    def record(self) -> dict[str, object]:
        """The same as JSON has it."""
        return asdict(self)


def explain(catalog: Catalog, name: str) -> Explanation:
    """How the engine sees a query.

    Raises:
        CatalogError: there is none of that name.
    """
    info = catalog.ask(read_query, name)
    compiled = compile_info(info, catalog.ask(read_facts))
    queries, groups = _sizes(catalog, compiled.template)
    sharing = QueryFilter(group=info.gid)
    return Explanation(
        query=info.name,
        canonical=canonical_text(info),
        place=info.docid_from,
        publish=info.publish,
        starting=info.starting,
        select=_select(info),
        blocks=tuple(_block(compiled, number) for number in range(len(compiled.channels))),
        joins=tuple(_joins(compiled)),
        cases=tuple(_cases(compiled)),
        links=tuple(_links(compiled)),
        variables=tuple(_variables(compiled)),
        template=compiled.template.id,
        queries_in_template=queries,
        groups_in_template=groups,
        group=info.gid,
        queries_in_group=count_queries(catalog, sharing),
        names_in_group=_names(catalog, QueryFilter(group=info.gid, limit=_NAMED)),
        sql=spark_text(cq_statement(compiled.template)),
    )


def _sizes(catalog: Catalog, template: Template) -> tuple[int, int]:
    """How many live queries and groups a template has."""
    counts = sa.select(sa.func.count(), sa.func.count(sa.distinct(QUERIES.c.gid))).where(
        QUERIES.c.template == template.id, QUERIES.c.docid_until == NEVER
    )
    with catalog.read() as connection:
        queries, groups = connection.execute(counts).one()
    return queries, groups


def _names(catalog: Catalog, wanted: QueryFilter) -> tuple[str, ...]:
    return tuple(info.name for info in list_queries(catalog, wanted))


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
        of_numbers = join.fn_l.startswith("number")
        yield JoinFacts(f"e{number}", join.kind, _join_text(compiled, join), "numbers" if of_numbers else "strings")


def _join_text(compiled: CompiledQuery, join: ValueJoin) -> str:
    left, right = (
        _applied(functions.removeprefix("number").strip(), _meta_name(compiled, place))
        for functions, place in ((join.fn_l, join.left), (join.fn_r, join.right))
    )
    form = solved(join)
    alone, other = (left, right) if form.alone == "l" else (right, left)
    if form.f != 1:
        other = f"{_number(form.f)} * {other}"
    if form.add:
        other += f" {'-' if form.add < 0 else '+'} {_number(abs(form.add))}"
    return f"{alone} {form.op} {other}"


def _meta_name(compiled: CompiledQuery, place: int) -> str:
    return compiled.meta_names[place] or f"var{place + 1}"


def _applied(functions: str, name: str) -> str:
    names = functions.split(" ") if functions else []
    return "".join(f"{f}(" for f in names) + name + ")" * len(names)


def _number(number: Fraction) -> str:
    """A number with decimals if few suffice, else as the fraction it is."""
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
    """What the bounds say of the order of members."""
    for bounds, (left, right) in zip(case, combinations(names, 2), strict=True):
        if bounds.lo >= 0:
            yield f"{left} {'before' if bounds.lo else 'not after'} {right}"
        elif bounds.hi <= 0:
            yield f"{right} {'before' if bounds.hi else 'not after'} {left}"


def _windows(case: Case, names: Sequence[str]) -> list[str]:
    """The bounds of one case, as relative windows between the blocks."""
    pairs = combinations(names, 2)
    return [_window(bounds, earlier, later) for bounds, (earlier, later) in zip(case, pairs, strict=True)]


def _window(bounds: Bounds, earlier: str, later: str) -> str:
    low = "-UNBOUNDED" if bounds.lo <= -UNBOUNDED else format_duration(bounds.lo)
    high = "UNBOUNDED" if bounds.hi >= UNBOUNDED else format_duration(bounds.hi)
    order = "" if not bounds.order else f", {earlier if bounds.order > 0 else later} first by time, channel and id"
    if bounds.exchange:
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


# -- an explanation for a person -------------------------------------------------------------------------------


def explanation_text(found: Explanation) -> str:
    """An explanation to read from the top: what was asked, what became of it, what it shares with others."""
    parts = [[found.canonical]]
    for number, block in enumerate(found.blocks, start=1):
        rows = [("  " * node.depth + node.step, node.variable or "", node.role) for node in block.nodes]
        parts.append([f"Block {number}, of channel {block.channel}", *_columns(rows)])
    if found.joins:
        edges = [(join.edge, join.kind, join.text, f"compares {join.compares}") for join in found.joins]
        parts.append(["Joined by value", *_columns(edges)])
    for number, case in enumerate(found.cases, start=1):
        many = f", case {number} of {len(found.cases)}" if len(found.cases) > 1 else ""
        orders = f": {', '.join(case.orders)}" if case.orders else ""
        parts.append([f"Time{many}{orders}", *(f"  {window}" for window in case.windows)])
    if found.links:
        linked = [
            (f"{a} with {b}", f"by {link.by}:", ", ".join(link.asks)) for link in found.links for a, b in [link.blocks]
        ]
        parts.append(["Links, put together by the documents they share", *_columns(linked)])
    variables = [(v.place, v.name or "-", v.var, v.definition) for v in found.variables]
    parts.append(["Canonical variables", *_columns(variables)])
    shared = ", ".join(found.names_in_group)
    more = found.queries_in_group - len(found.names_in_group)
    outcome = [("select", found.select), ("publish", found.publish or "nothing"), ("starting", found.starting)]
    about = [
        (
            "template",
            f"{found.template}, of {_count(found.queries_in_template, 'query')} in "
            f"{_count(found.groups_in_template, 'group')}",
        ),
        (
            "group",
            f"{found.group}, of {_count(found.queries_in_group, 'query')}: {shared}"
            + (f" and {more:,} more" if more else ""),
        ),
        ("place", f"{found.place} of the intake order"),
    ]
    parts.append(["Output and place", *_columns([*outcome, *about])])
    parts.append(["The template's conjunctive query", found.sql])
    return "\n\n".join("\n".join(lines) for lines in parts)


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their cells below each other, indented."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _count(number: int, what: str) -> str:
    plural = {"query": "queries"}.get(what, f"{what}s")
    return f"{number:,} {what if number == 1 else plural}"


# -- templates -------------------------------------------------------------------------------------------------


def template_facts(catalog: Catalog, name: str) -> dict[str, object]:
    """A template as one record.

    Raises:
        CatalogError: there is none of that id.
    """
    template = catalog.ask(read_template, name)
    queries, groups = _sizes(catalog, template)
    return {
        "template": template.id,
        "shape": template.certificate,
        "blocks": template.block_count,
        "variables": [
            {"variable": f"var{place + 1}", "block": block + 1, "parent": None if above < 0 else f"var{above + 1}"}
            for place, (block, above) in enumerate(zip(template.blocks, template.parents, strict=True))
        ],
        "joins": [
            {"edge": f"e{number}", "left": f"var{left + 1}", "right": f"var{right + 1}", "kind": kind}
            for number, (left, right, kind) in enumerate(template.joins, start=1)
        ],
        "queries": queries,
        "groups": groups,
        "examples": list(_names(catalog, QueryFilter(template=template.id, limit=_NAMED))),
    }


def template_text(catalog: Catalog, name: str) -> str:
    """A template for a person to read.

    Raises:
        CatalogError: there is none of that id.
    """
    template = catalog.ask(read_template, name)
    queries, groups = _sizes(catalog, template)
    names = _names(catalog, QueryFilter(template=template.id, limit=_NAMED))
    more = queries - len(names)
    examples = ", ".join(names) + (f" and {more:,} more" if more else "")
    rows = [
        ("template", template.id),
        ("shape", template.certificate),
        (
            "size",
            ", ".join(
                (
                    _count(template.block_count, "block"),
                    _count(template.width, "meta-variable"),
                    _count(len(template.joins), "value join"),
                )
            ),
        ),
        ("queries", f"{queries:,} in {_count(groups, 'group')}: {examples}" if queries else "none"),
    ]
    lines = [line.removeprefix("  ") for line in _columns(rows)]
    return "\n".join([*lines, "", join_graph(template, GraphFormat.text)])
