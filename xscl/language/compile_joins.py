"""Normal form to what the engine joins: canonical variables, join graph, its minor, template, instance and group.

The definition of a variable has the conditions on the nodes of its path: brackets without joined variables, and the
patterns of leaves that the reduction removes; branches that keep a joined leaf are not part of it, the join checks them
(docs/explanation/architecture.md, From text to rows).  Result nodes that the minor lost become output variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

from xscl.language.block_plans import BlockPlan, check_size, edges_around, guards_and_facts, path_to, with_ancestors
from xscl.language.column_types import BlockColumns, final_steps
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.guards import Lifted, lift
from xscl.language.normalize import NormalBlock, NormalQuery
from xscl.language.row_windows import refuse_stream_rows
from xscl.language.value_joins import JoinSides, check_comparisons
from xscl.language.windows import settled_cases
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import EdgeKind, JoinGraph, ValueJoin, Vertex
from xscl.templates.guards import MOST_ALTERNATIVES
from xscl.templates.links import anchor, linked_blocks
from xscl.templates.reduce import reduce_tree
from xscl.templates.template import Group, Instance, OutputNode, Template, template_of
from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.automaton.states import spec_digests
from xscl.xpath.pattern import Definition

__all__ = ["compile_normal", "lifted_like", "links_of"]

_KINDS: Mapping[str, EdgeKind] = {"=": "EQ", "!=": "NE"}


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


def links_of(normal: NormalQuery) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the pairs of blocks that are joined with each other in each case."""
    joined = {(normal.variables[join.left][0], normal.variables[join.right][0]) for join in normal.joins}
    return tuple(linked_blocks(len(normal.blocks), joined, case) for case in normal.cases)


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

    @cached_property
    def sides(self) -> list[JoinSides]:
        """Value joins with what is known of their two sides."""
        return [JoinSides(self.normal, self.columns, join) for join in self.normal.joins]

    def compiled(self, like: CompiledQuery | None = None) -> CompiledQuery:
        """Compile the query; one that differs from another in guards alone is that one with other guards."""
        normal = self.normal
        alike = [None if like is None else self.plan_like(index, like) for index in range(len(normal.blocks))]
        plans = [plan or self._plan(index, normal.blocks[index]) for index, plan in enumerate(alike)]
        if like is not None and self.is_like(plans, like):
            return self._with_guards_of(plans, like)
        # Plans of another query have its vertices.
        plans = [self._plan(index, normal.blocks[index]) if alike[index] else plan for index, plan in enumerate(plans)]
        check_comparisons(self.sides)
        check_size(plans)
        return self._joined(plans)

    def _joined(self, plans: list[BlockPlan]) -> CompiledQuery:
        """Join the blocks, whose plans have no vertices yet."""
        normal = self.normal
        canonical = canonicalize(self._graph(plans))
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
                links_of(self.normal),
                streams,
                tuple(sorted(asked)),
                guards,
                normal.rows,
            ),
            specs=tuple(spec for _, spec in specs),
            facts=facts,
            channels=channels_,
            read=frozenset((*channels_, *(block.channel for block in normal.blocks))),
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
        """Return (block, node) of each node that makes a match."""
        results = [(index, block.result) for index, block in enumerate(self.normal.blocks)]
        return [*results, *(self.normal.variables[name] for name in self.normal.selected)]

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
            tuple(vertices), tuple(each for found in self.sides for each in self._value_joins(found, plans))
        )

    def _value_joins(self, found: JoinSides, plans: list[BlockPlan]) -> Iterator[ValueJoin]:
        join = found.join
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
            links=tuple(sorted({pair for links in links_of(self.normal) for pair in links})),
        )

    # -- stage 1 -----------------------------------------------------------------------------------------------

    def _specs(
        self, plans: list[BlockPlan], instance: Instance, meta: dict[int, tuple[int, int]]
    ) -> list[tuple[int, WitnessSpec]]:
        """Return the specs that stage 1 has to find, each with its block."""
        functions: dict[tuple[int, int], set[str | None]] = {}
        for sides in self.sides:
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
