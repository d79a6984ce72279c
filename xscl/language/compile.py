"""Normal form to what the engine registers: canonical variables, join graph, its minor, template, instance and group.

The definition of a variable has the conditions on the nodes of its path: brackets without joined variables, and the
patterns of leaves that the reduction removes; branches that keep a joined leaf are not part of it, the join checks them
(docs/explanation/architecture.md, From text to rows).  Result nodes that the minor lost become output variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xscl.base.errors import UnsupportedFeatureError
from xscl.language import ast
from xscl.language.absence import AbsenceParts, End, absence_parts, require_memory
from xscl.language.aggregates import definition_of, part_of, single_valued
from xscl.language.block_plans import BlockPlan, check_size, edges_around, guards_and_facts, path_to, with_ancestors
from xscl.language.column_types import BlockColumns, final_steps
from xscl.language.facts import ANSWERS, ChannelFacts
from xscl.language.format import format_level, format_query
from xscl.language.guards import Lifted, lift
from xscl.language.normalize import NormalBlock, NormalJoin, NormalQuery, normalize
from xscl.language.row_windows import refuse_rows, refuse_stream_rows
from xscl.language.selection import prepare_select
from xscl.language.steps import parts_of, selects_values, steps_of
from xscl.language.value_joins import JoinSides, check_comparisons
from xscl.language.windows import MAX_CASES, settled_cases
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import EdgeKind, JoinGraph, ValueJoin, Vertex
from xscl.templates.guards import MOST_ALTERNATIVES, Guard
from xscl.templates.links import anchor, linked_blocks
from xscl.templates.reduce import reduce_tree
from xscl.templates.template import Group, Instance, OutputNode, Template, template_of
from xscl.xpath.automaton import WitnessSpec
from xscl.xpath.pattern import Definition
from xscl.xpath.states import spec_digests

__all__ = [
    "GUARDED",
    "CompiledAbsence",
    "CompiledPart",
    "CompiledQuery",
    "Filled",
    "FilledQuery",
    "at_level",
    "compile_filled",
    "compile_normal",
    "compile_query",
    "lifted_like",
]

GUARDED = "(: guarded :) "
"""Begins the text of a query of one block whose guard is apart, as guards of two blocks are.

By itself such a query is sooner found without: then documents that it does not want have no rows.
"""
_RETRACTS = "on change retract"
"""Part of the key of a group whose matches are taken back on changes."""
Filled = tuple[Guard | None, tuple[WitnessSpec, ...]]
"""Guard of a block, with the specs that it reads."""
_KINDS: Mapping[str, EdgeKind] = {"=": "EQ", "!=": "NE"}


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """A query that a query about absence is made of."""

    text: str
    compiled: CompiledQuery


@dataclass(frozen=True, slots=True)
class CompiledAbsence:
    """Parts of a query about absence, which are registered with it."""

    wanted: CompiledPart
    forbidden: tuple[CompiledPart, ...]
    ends: tuple[tuple[str, tuple[End, ...]], ...]
    """Channel of each block that must not be there, and when its time ends."""
    shown: int
    """Number of selected nodes that make a match."""
    retracts: bool = False
    """Whether newer versions and removals change its answers."""

    @property
    def parts(self) -> tuple[CompiledPart, ...]:
        """Return all parts, the wanted one first."""
        return (self.wanted, *self.forbidden)


@dataclass(frozen=True, slots=True)
class FilledQuery:
    """The normal form of a text, but for places in it, with those of the queries that it is made of."""

    normal: NormalQuery
    guards: tuple[Filled, ...] | None = None
    """Guards of its blocks; None: constants are not in guards alone."""
    text: str = ""
    """Text of a part."""
    parts: tuple[FilledQuery, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query ready to be registered."""

    normal: NormalQuery
    template: Template
    group: Group
    specs: tuple[WitnessSpec, ...]
    """Specs that stage 1 has to find."""
    facts: tuple[WitnessSpec, ...]
    """Specs of facts that guards read."""
    channels: tuple[str, ...]
    """Channel of each block; for one that names a stream, the stream's."""
    block_names: tuple[str, ...]
    """Name of each block: its first variable, or its place and channel."""
    definitions: Mapping[str, Definition]
    """Definition of every variable that takes part in the join or is a result node, by the query's own name."""
    meta_names: tuple[str | None, ...]
    """The query's own name of each meta-variable."""
    result_names: tuple[str | None, ...]
    """The query's own name of each node that makes a match: the blocks' result nodes, then SELECT's variables."""
    result_blocks: tuple[int, ...]
    """The block of each of these nodes."""
    joined_names: tuple[str, ...]
    """The variables that take part in value joins."""
    notes: tuple[str, ...] = ()
    """Notes on what its text says otherwise than it may seem to."""
    plans: tuple[BlockPlan, ...] = field(default=(), compare=False, repr=False)
    """Blocks, from which all but guards and facts is made."""
    absence: CompiledAbsence | None = None
    """Parts of a query about absence; all else is said of the members that are there."""
    level: ast.Level | None = None
    """Level of consistency of a query about absence, or with steps; None: its channels tell."""
    windowed: CompiledPart | None = None
    """Part of a query with windows, which are over its matches; all else is said of these."""
    stepped: tuple[CompiledPart, ...] = ()
    """Parts of a query with steps, in the order of FROM; all else is said of the members of its answers."""
    is_made: bool = False
    """Whether answers are documents of their own."""

    @property
    def is_guarded_alone(self) -> bool:
        """Return whether it has one block, and the guard of that is apart."""
        return len(self.normal.blocks) == 1 and bool(self.group.guards)

    @property
    def follows_removals(self) -> bool:
        """Return whether what is removed takes its matches back."""
        return self.absence is not None and self.absence.retracts

    @property
    def takes_back(self) -> bool:
        """Return whether its matches may be taken back."""
        return self.follows_removals or (self.level is not None and self.level.corrects)

    @property
    def cost(self) -> int:
        """Return what limits of tokens count: the cost of its template, or of those of its parts together."""
        if not self.parts:
            return self.template.cost
        return sum(part.compiled.template.cost for part in self.parts)

    @property
    def parts(self) -> tuple[CompiledPart, ...]:
        """Return the queries that it is made of; none: it is joined itself."""
        if self.windowed is not None:
            return (self.windowed,)
        if self.stepped:
            return self.stepped
        return () if self.absence is None else self.absence.parts

    @property
    def read(self) -> frozenset[str]:
        """Return the names of all channels and streams that it reads."""
        own = (*self.channels, *(block.channel for block in self.normal.blocks))
        return frozenset(own).union(*(part.compiled.read for part in self.parts))


def compile_query(
    query: ast.Query,
    text: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    channels: Mapping[str, ChannelFacts] | None = None,
    like: CompiledQuery | None = None,
    guarded: bool = False,
) -> CompiledQuery:
    """Everything registration needs of a query; a pure function of its text and of the channels' schemas.

    Args:
        query: the tree of the text.
        text: the text.
        namespaces: URIs by prefix.
        channels: the channels' schemas.
        like: what a text was compiled to that differs in constants of brackets alone; it changes no result, and saves
            most of the work where these constants are in guards.
        guarded: lift the guard out of one block, too.

    Raises:
        QueryError: as ``normalize``; ``XSCL_BAD_LEVEL``.
    """
    if query.level is not None:
        require_memory(query.level, text)
    _refuse_answers(query, text)
    if query.steps is not None:
        return _compiled_steps(query, text, namespaces, channels)
    if query.aggregate is not None:
        return _compiled_windows(query, text, namespaces, channels)
    if query.retracts:
        _refuse_retracting(query, text)
    if query.negations:
        refuse_rows(query, text, "a query about absence")
        return _compiled_absence(query, text, namespaces, channels)
    if query.retracts:
        refuse_rows(query, text, "a query whose matches are taken back")
        return _compiled_retracting(query, text, namespaces, channels)
    normal = normalize(query, text, namespaces)
    if query.select is not None:
        prepare_select(query.select, text, namespaces)  # refuses what could not be output
    try:
        return compile_normal(normal, channels or {}, like, guarded=guarded)
    except UnsupportedFeatureError as error:
        # What is unsupported about a join graph concerns the query as a whole.
        raise UnsupportedFeatureError(
            error.condition, error.message, text=text, span=query.source.span, hint=error.hint
        ) from None


def _refuse_answers(query: ast.Query, text: str) -> None:
    """Refuse to read or to publish what windows make."""
    named = [(block.channel, block.span) for block in ast.blocks(query.source)]
    named += [(each.right.channel, each.right.span) for each in query.negations]
    for channel, span in (*named, (query.publish, query.publish_span)):
        if channel == ANSWERS:
            raise UnsupportedFeatureError(
                "XSCL_AGGREGATE_LIMIT",
                f"{ANSWERS} has the answers of windows of all queries",
                text=text,
                span=span,
                hint="have the query with windows PUBLISH to a channel, and read that",
            )


def _compiled_windows(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query with windows, and the query whose matches these are over."""
    definition_of(query, text, namespaces)  # refuses what could not be told
    rows = {name for name, of in (channels or {}).items() if of.kind == "rows" and (of.numeric | of.texts | of.times)}
    plain = part_of(query, single_valued(query, text, namespaces, rows))
    part = CompiledPart(format_query(plain), compile_query(plain, text, namespaces=namespaces, channels=channels))
    said = format_query(replace(query, publish=None, level=None))
    group = replace(part.compiled.group, absence=(part.compiled.group.key, said))
    return replace(part.compiled, group=group, windowed=part, is_made=True, plans=())


def _compiled_steps(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query with steps, and the queries whose matches these are over."""
    steps_of(query, text, namespaces)  # refuses what could not be told
    for each in parts_of(query):
        refuse_rows(each, text, "a query with steps")
    parts = tuple(
        CompiledPart(format_query(part), compile_query(part, text, namespaces=namespaces, channels=channels))
        for part in parts_of(query)
    )
    members = ast.Query(query.source, None if selects_values(query) else query.select, span=query.span)
    whole = compile_query(members, text, namespaces=namespaces, channels=channels)
    said = format_query(replace(query, publish=None, level=None))
    group = replace(whole.group, absence=(*(part.compiled.group.key for part in parts), said))
    return replace(whole, group=group, stepped=parts, is_made=selects_values(query), level=ast.STRONG, plans=())


def _compiled_absence(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query about absence, and the queries that it is made of."""
    parts = absence_parts(query, text)
    # What is wanted comes first, so that refusals speak of it.
    plain = replace(query, negations=(), retracts=False)
    whole = compile_query(plain, text, namespaces=namespaces, channels=channels, guarded=True)
    wanted, *forbidden = _compiled_parts(query, parts, text, namespaces, channels)
    facts = {name: of.channel or name for name, of in (channels or {}).items()}
    ends = tuple((facts.get(name, name), found) for name, found in parts.ends)
    absence = CompiledAbsence(wanted, tuple(forbidden), ends, parts.shown, query.retracts)
    return _with_absence(whole, absence, query.level)


def _with_absence(whole: CompiledQuery, absence: CompiledAbsence, level: ast.Level | None) -> CompiledQuery:
    """Return a query about absence, made of what is said of the members that are there, and of its parts."""
    keys = tuple(part.compiled.group.key for part in absence.parts)
    own = repr(absence.ends), str(absence.shown), *[_RETRACTS] * absence.retracts
    group = replace(whole.group, absence=(*keys, *own) if absence.ends else (*keys, _RETRACTS))
    compiled = replace(whole, group=group, absence=absence, level=None)
    return compiled if level is None else at_level(compiled, level)


def _compiled_parts(
    query: ast.Query,
    parts: AbsenceParts,
    text: str,
    namespaces: Mapping[str, str] | None,
    channels: Mapping[str, ChannelFacts] | None,
) -> Iterator[CompiledPart]:
    """Yield the compiled parts of a query about absence, the wanted one first.

    Raises:
        UnsupportedFeatureError: ``XSCL_TOO_MANY_CASES``: they have too many together.
    """
    cases = 0
    for part in (parts.wanted, *parts.forbidden):
        # What is forbidden has the same guard, so documents have its facts.
        compiled = compile_query(part, text, namespaces=namespaces, channels=channels, guarded=True)
        cases += len(compiled.group.cases)
        if cases > MAX_CASES:
            raise UnsupportedFeatureError(
                "XSCL_TOO_MANY_CASES",
                f"which member is the latest leaves more than {MAX_CASES} cases of what is wanted and what must not be "
                "there, together",
                text=text,
                span=query.source.span,
                hint="order the blocks with FOLLOWED BY, or leave out windows on composites",
            )
        yield _part(format_query(part), compiled)


def _part(text: str, compiled: CompiledQuery) -> CompiledPart:
    """Return a part of a query about absence; its text tells what it is compiled to."""
    return CompiledPart(GUARDED + text if compiled.is_guarded_alone else text, compiled)


def _refuse_retracting(query: ast.Query, text: str) -> None:
    """Refuse a query that changes could not correct.

    Raises:
        UnsupportedFeatureError: ``XSCL_RETRACT_LIMIT``.
    """
    for said, what, span, hint in (
        (query.starting != "NOW", "sees what comes after its registration", query.span, "leave out STARTING"),
        (
            bool(query.negations) and query.publish is not None,
            "and is about absence publishes nothing, because an answer that was taken back may come again",
            query.publish_span,
            "leave out PUBLISH, or have a query without ON CHANGE RETRACT publish",
        ),
    ):
        if said:
            message = f"a query that takes matches back on changes {what}"
            raise UnsupportedFeatureError("XSCL_RETRACT_LIMIT", message, text=text, span=span, hint=hint)


def _compiled_retracting(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query whose matches are taken back, and the query that finds them."""
    whole = compile_query(replace(query, retracts=False), text, namespaces=namespaces, channels=channels)
    plain = ast.Query(query.source, query.select, span=query.span)
    part = CompiledPart(format_query(plain), compile_query(plain, text, namespaces=namespaces, channels=channels))
    return _with_absence(whole, CompiledAbsence(part, (), (), 0, retracts=True), None)


def at_level(compiled: CompiledQuery, level: ast.Level) -> CompiledQuery:
    """Return a query about absence of a level; groups of different levels are different ones."""
    if compiled.absence is None or not compiled.absence.ends or compiled.level is not None:
        return compiled
    group = replace(compiled.group, absence=(*compiled.group.absence, format_level(level)))
    return replace(compiled, group=group, level=level)


def compile_filled(
    filled: FilledQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery, *, guarded: bool = False
) -> CompiledQuery:
    """Compile a text that differs from another one in constants of brackets alone; refusals have no place.

    Args:
        filled: the normal form of the text.
        channels: the channels' schemas.
        like: what the other text was compiled to.
        guarded: as of ``compile_query``.
    """
    if like.absence is None:
        return _compile_filled(filled, channels, like, guarded=guarded)
    guarded = bool(like.absence.ends)
    whole = _compile_filled(filled, channels, like, guarded=guarded)
    wanted, *forbidden = (
        _part(part.text, _compile_filled(part, channels, known.compiled, guarded=guarded))
        for part, known in zip(filled.parts, like.absence.parts, strict=True)
    )
    return _with_absence(whole, replace(like.absence, wanted=wanted, forbidden=tuple(forbidden)), like.level)


def _compile_filled(
    filled: FilledQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery, *, guarded: bool
) -> CompiledQuery:
    if (
        filled.guards is None
        or prod(len(guard.alternatives) for guard, _ in filled.guards if guard) > MOST_ALTERNATIVES
    ):
        return compile_normal(filled.normal, channels, like, guarded=guarded)
    guards = tuple([guard for guard, _ in filled.guards])
    facts = tuple({spec: None for _, specs in filled.guards for spec in specs})
    return replace(like, normal=filled.normal, group=replace(like.group, guards=guards), facts=facts)


def lifted_like(
    normal: NormalQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery
) -> tuple[Lifted, ...] | None:
    """Return the guards of a query's blocks; None: it differs from another one in more than constants of guards.

    The rest of a block does not depend on the constants of its guard: conditions are lifted by their operators and
    paths alone.  Texts that are times in columns of times are an exception, and so is ``ONCE``.

    Args:
        normal: the query's normal form.
        channels: the channels' schemas.
        like: the other one.
    """
    if not like.group.guards or any(bounds.exchange for case in normal.cases for bounds in case):
        return None
    compiler = _Compiler(normal, channels, with_guards=True)
    plans = [compiler.plan_like(place, like) for place in range(len(normal.blocks))]
    if None in plans or any(columns.facts.times for columns in compiler.columns):
        return None
    found = [plan for plan in plans if plan is not None]
    return tuple(plan.lifted for plan in found) if compiler.is_like(found, like) else None


def compile_normal(
    normal: NormalQuery,
    channels: Mapping[str, ChannelFacts],
    like: CompiledQuery | None = None,
    *,
    guarded: bool = False,
) -> CompiledQuery:
    """Compile a normal form, as ``compile_query`` does; refusals have no place."""
    with_guards = len(normal.blocks) == 2 or (guarded and len(normal.blocks) == 1)
    found = _Compiler(normal, channels, with_guards=with_guards).compiled(like)
    guards = [guard.alternatives for guard in found.group.guards if guard is not None]
    if guards and (found.group.exchanges or prod(map(len, guards)) > MOST_ALTERNATIVES):
        # Rows of links put matches together that ``ONCE`` exchanges, and know no guards.
        found = _Compiler(normal, channels, with_guards=False).compiled()
    return found


def _facts(normal: NormalQuery, channels: Mapping[str, ChannelFacts]) -> dict[str, ChannelFacts]:
    """Return what is known of a query's channels."""
    facts = {block.channel: channels.get(block.channel, ChannelFacts()) for block in normal.blocks}
    if len(facts) > 1 or all(of.kind for of in facts.values()):
        return facts
    unknown = [BlockColumns(block, ChannelFacts()) for block in normal.blocks]
    if not any(each.is_any(node) for each in unknown for node in range(len(each.block.nodes))):
        # It is compiled again before the first row of the channel; before its first document it need not be.
        facts = {name: replace(of, kind="xml") for name, of in facts.items()}
    return facts


class _Compiler:
    def __init__(self, normal: NormalQuery, channels: Mapping[str, ChannelFacts], *, with_guards: bool) -> None:
        """Prepare; ``with_guards`` lifts conditions on whole documents out of definitions."""
        self.normal = normal
        self.with_guards = with_guards
        facts = _facts(normal, channels)
        self.columns = [BlockColumns(block, facts[block.channel]) for block in normal.blocks]

    def compiled(self, like: CompiledQuery | None = None) -> CompiledQuery:
        normal = self.normal
        alike = [None if like is None else self.plan_like(index, like) for index in range(len(normal.blocks))]
        plans = [plan or self._plan(index, normal.blocks[index]) for index, plan in enumerate(alike)]
        if like is not None and self.is_like(plans, like):
            return self._with_guards_of(plans, like)
        # Plans of another query have its vertices.
        plans = [self._plan(index, normal.blocks[index]) if alike[index] else plan for index, plan in enumerate(plans)]
        check_comparisons(self.normal, self.columns)
        check_size(plans)
        graph = self._graph(plans)
        canonical = canonicalize(graph)
        template = template_of(canonical)
        place = {old: new for new, old in enumerate(canonical.order)}
        meta = {
            place[vertex]: (block, node) for block, plan in enumerate(plans) for node, vertex in plan.vertex.items()
        }
        instance = self._instance(template, canonical.graph, plans, meta)
        name_of = {where: name for name, where in normal.variables.items()}
        results = self._results()
        specs = self._specs(plans, instance, meta)
        asked = {(block, spec.definition.key, digest) for block, spec in specs for digest in spec_digests(spec)}
        named = [where for where in [*meta.values(), *results] if where in name_of]
        channels_, streams = tuple(plan.channel for plan in plans), self._streams()
        guards, facts = guards_and_facts(plans)
        refuse_stream_rows(normal.rows, streams, [block.channel for block in normal.blocks])
        return CompiledQuery(
            normal=normal,
            template=template,
            group=Group(
                instance,
                settled_cases(normal.cases, instance, channels_, streams, guards),
                self._links(),
                streams,
                tuple(sorted(asked)),
                guards,
                normal.rows,
            ),
            specs=tuple(spec for _, spec in specs),
            facts=facts,
            channels=channels_,
            block_names=normal.block_names,
            definitions={name_of[block, node]: plans[block].definitions[node] for block, node in named},
            meta_names=tuple(name_of.get(meta[i]) for i in range(template.width)),
            result_names=tuple(name_of.get(where) for where in results),
            result_blocks=tuple(block for block, _ in results),
            joined_names=tuple(dict.fromkeys(n for j in normal.joins for n in (j.left, j.right))),
            plans=tuple(plans),
        )

    def is_like(self, plans: Sequence[BlockPlan], like: CompiledQuery) -> bool:
        """Tell whether the query differs from another one in guards alone."""
        normal, known = self.normal, like.normal
        return (
            len(plans) == len(like.plans)
            and all(map(BlockPlan.is_like, plans, like.plans))
            and (normal.variables, normal.selected) == (known.variables, known.selected)
            and (normal.block_names, normal.cases, normal.joins) == (known.block_names, known.cases, known.joins)
            and normal.rows == known.rows
            and [block.result for block in normal.blocks] == [block.result for block in known.blocks]
        )

    def _with_guards_of(self, plans: Sequence[BlockPlan], like: CompiledQuery) -> CompiledQuery:
        """Return a query that has other guards than one like it."""
        guards, facts = guards_and_facts(plans)
        group = like.group
        cases = settled_cases(self.normal.cases, group.instance, like.channels, group.streams, guards)
        cases = group.cases if cases == group.cases else cases
        return replace(like, normal=self.normal, group=replace(group, cases=cases, guards=guards), facts=facts)

    # -- reduction ---------------------------------------------------------------------------------------------

    def plan_like(self, index: int, like: CompiledQuery) -> BlockPlan | None:
        """Return the plan of a block that differs from one of a query like it in its guard alone; None: it may not."""
        if not self.with_guards or index >= len(like.plans):
            return None
        known, block = like.plans[index], self.normal.blocks[index]
        if block is like.normal.blocks[index]:
            return known
        if [node.parent for node in block.nodes] != known.parents or block.result != like.normal.blocks[index].result:
            return None
        kept = known.joined or {block.result}
        steps, at_document = final_steps(self.columns[index], kept)
        live = with_ancestors(known.parents, {*known.minor.nodes, *known.output.nodes})
        lifted = lift(self.columns[index], steps, at_document, live)
        if lifted.at_document != known.lifted.at_document:
            return None
        # Branches without such a node are part of what is above them.
        if any(lifted.steps[node] != known.lifted.steps[node] for node in live):
            return None
        return replace(known, lifted=lifted)

    def _plan(self, index: int, block: NormalBlock) -> BlockPlan:
        parents = [node.parent for node in block.nodes]
        names = {name for join in self.normal.joins for name in (join.left, join.right)}
        joined = {node for name, (at, node) in self.normal.variables.items() if at == index and name in names}
        # A block with no joined variable keeps its result node.
        kept = joined or {block.result}
        shown = {node for at, node in self._results() if at == index}
        minor = reduce_tree(parents, kept)
        output = minor if shown <= set(minor.nodes) else reduce_tree(parents, kept | shown)
        steps, at_document = final_steps(self.columns[index], kept)
        channel = self.columns[index].facts.channel or block.channel
        lifted = Lifted(steps, at_document)
        if self.with_guards:
            live = with_ancestors(parents, {*minor.nodes, *output.nodes})
            lifted = lift(self.columns[index], steps, at_document, live)
        definitions = {
            node: Definition(channel, path_to(lifted.steps, parents, node), lifted.at_document)
            for node in {*minor.nodes, *output.nodes}
        }
        edges = sorted({*minor.edges, *output.edges})
        joined_ways = with_ancestors(parents, minor.nodes)
        hanging = [edge for edge in edges if edge[1] not in joined_ways]
        return BlockPlan(channel, joined, minor, output, definitions, parents, edges, hanging, lifted)

    def _results(self) -> list[tuple[int, int]]:
        """(block, node) of what makes a match."""
        results = [(index, block.result) for index, block in enumerate(self.normal.blocks)]
        return [*results, *(self.normal.variables[name] for name in self.normal.selected)]

    def _links(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return the pairs of blocks that are joined with each other in each case."""
        variables = self.normal.variables
        joined = {(variables[join.left][0], variables[join.right][0]) for join in self.normal.joins}
        return tuple(linked_blocks(len(self.normal.blocks), joined, case) for case in self.normal.cases)

    def _streams(self) -> tuple[int, ...]:
        """Return the stream that each block names, 0 for a channel; nothing if no block names one."""
        streams = tuple(columns.facts.stream for columns in self.columns)
        return streams if any(streams) else ()

    def _graph(self, plans: list[BlockPlan]) -> JoinGraph:
        vertices: list[Vertex] = []
        for block, plan in enumerate(plans):
            offset = len(vertices)
            for node, parent in zip(plan.minor.nodes, plan.minor.parents, strict=True):
                plan.vertex[node] = len(vertices)
                above = parent + offset if parent >= 0 else -1
                vertices.append(Vertex(block, above, str(plan.definitions[node])))
        return JoinGraph(
            tuple(vertices), tuple(each for join in self.normal.joins for each in self._value_joins(join, plans))
        )

    def _value_joins(self, join: NormalJoin, plans: list[BlockPlan]) -> Iterator[ValueJoin]:
        found = JoinSides(self.normal, self.columns, join)
        left, right = (plans[block].vertex[node] for block, node in found.nodes)
        for op, fn_l, fn_r in found.comparisons():
            kind = "BAND" if join.linear else _KINDS.get(op, "BAND")
            yield ValueJoin(left, right, kind, fn_l, fn_r, join.f, join.add, op)

    # -- instance ----------------------------------------------------------------------------------------------

    def _instance(
        self,
        template: Template,
        graph: JoinGraph,
        plans: list[BlockPlan],
        meta: dict[int, tuple[int, int]],
    ) -> Instance:
        where = [meta[i] for i in range(template.width)]
        extra = [
            (block, node)
            for block, plan in enumerate(plans)
            for node in sorted(
                set(plan.output.nodes) - set(plan.minor.nodes), key=lambda n: (str(plan.definitions[n]), n)
            )
        ]
        place = {at: index for index, at in enumerate([*where, *extra])}
        output_edges = [
            (place[block, upper], place[block, lower])
            for block, plan in enumerate(plans)
            if plan.output != plan.minor
            for upper, lower in plan.output.edges
        ]
        return Instance(
            template=template.id,
            variables=tuple(plans[block].definitions[node].key for block, node in where),
            tree_edges=template.tree_edges,
            joins=graph.joins,
            nodes=tuple(OutputNode(block, plans[block].definitions[node].key) for block, node in place),
            output_edges=tuple(sorted(output_edges)),
            results=tuple(place[at] for at in self._results()),
            links=tuple(sorted({pair for links in self._links() for pair in links})),
        )

    # -- stage 1 -----------------------------------------------------------------------------------------------

    def _specs(
        self, plans: list[BlockPlan], instance: Instance, meta: dict[int, tuple[int, int]]
    ) -> list[tuple[int, WitnessSpec]]:
        """Return the specs that stage 1 has to find, each with its block."""
        functions: dict[tuple[int, int], set[str | None]] = {}
        for join in self.normal.joins:
            sides = JoinSides(self.normal, self.columns, join)
            for side, names in zip(sides.nodes, sides.functions(), strict=True):
                functions.setdefault(side, set()).update(names)
        if len(plans) == 1:
            functions.setdefault(meta[0], set()).add(None)
        for blocks in instance.links:
            for place in anchor(instance, blocks) or ():
                functions.setdefault(meta[place], set()).add(None)
        return [
            (
                block,
                WitnessSpec(
                    plans[block].definitions[node],
                    tuple(sorted(names, key=lambda name: name or "")),
                    *edges_around(plans[block], node),
                ),
            )
            for (block, node), names in sorted(functions.items())
        ]
