"""The part of a compiled query that plans need, as data for JSON, and back.

A *skeleton* has all that groups of one pattern share; a group adds its cases, guards and facts.  Data of many groups
has each definition, skeleton and guard once.  Reading it makes values of a few plain classes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from xscl.language.compile import CompiledQuery
from xscl.templates.bounds import Bounds, Case
from xscl.templates.graph import ValueJoin
from xscl.templates.guards import Guard, Literal
from xscl.templates.template import Group, Instance, OutputNode
from xscl.xpath import pattern
from xscl.xpath.automaton import WitnessSpec
from xscl.xpath.pattern import Definition

__all__ = ["GroupForm", "GroupReader", "groups_data"]

Data = Any
"""Value of JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupForm:
    """The part of a compiled query that plans need; the rest is many times as large."""

    group: Group
    channels: tuple[str, ...]
    """Channel of each block."""
    specs: tuple[WitnessSpec, ...]
    """Specs that stage 1 has to find; groups that share them have one tuple."""
    facts: tuple[WitnessSpec, ...]
    """Specs of facts that guards read."""

    @classmethod
    def of(cls, compiled: CompiledQuery) -> GroupForm:
        """Return that part of a compiled query."""
        return cls(compiled.group, compiled.channels, compiled.specs, compiled.facts)


# -- to data ---------------------------------------------------------------------------------------------------


def groups_data(forms: Iterable[tuple[str, GroupForm]]) -> Data:
    """Return the data of some groups, each with a name."""
    writer = _Writer()
    groups = [writer.group(name, form) for name, form in forms]
    return {
        "definitions": writer.definitions,
        "skeletons": writer.skeletons,
        "guards": writer.guards,
        "groups": groups,
    }


class _Writer:
    """Collects what groups share."""

    def __init__(self) -> None:
        self.definitions: list[Data] = []
        self.skeletons: list[Data] = []
        self.guards: list[Data] = []
        self._known: set[int] = set()
        """Keys of definitions."""
        self._skeletons: dict[tuple[object, ...], tuple[int, object]] = {}
        """Places of skeletons by the identities of their parts, which are kept so that no others get these."""
        self._guards: dict[Guard, int] = {}

    def group(self, name: str, form: GroupForm) -> Data:
        group = form.group
        cases = [[[b.lo, b.hi, b.order, b.exchange] for b in case] for case in group.cases]
        guards = [None if guard is None else self._guard(guard) for guard in group.guards]
        return [name, self._skeleton(form), cases, guards, self._specs(form.facts)]

    def _skeleton(self, form: GroupForm) -> int:
        group = form.group
        key = (id(group.instance), id(form.specs), id(group.specs), group.links, group.streams, form.channels)
        found = self._skeletons.get(key)
        if found is None:
            found = self._skeletons[key] = len(self.skeletons), form
            parts = group.links, group.streams, group.specs, form.channels
            self.skeletons.append([_instance(group.instance), *parts, self._specs(form.specs)])
        return found[0]

    def _guard(self, guard: Guard) -> int:
        place = self._guards.get(guard)
        if place is None:
            place = self._guards[guard] = len(self.guards)
            literals = [[[one.variable, one.op, one.constant] for one in each] for each in guard.alternatives]
            self.guards.append([guard.text, guard.facts, literals])
        return place

    def _specs(self, specs: Iterable[WitnessSpec]) -> Data:
        return [
            [self._definition(spec.definition), spec.functions, self._edges(spec.edges), self._edges(spec.hanging)]
            for spec in specs
        ]

    def _edges(self, edges: Iterable[tuple[Definition, Definition]]) -> Data:
        return [[self._definition(upper), self._definition(lower)] for upper, lower in edges]

    def _definition(self, definition: Definition) -> int:
        key = definition.key
        if key not in self._known:
            self._known.add(key)
            self.definitions.append(
                [key, definition.channel, _tree(definition.steps), _tree(definition.conditions)],
            )
        return key


def _instance(instance: Instance) -> Data:
    joins = [[j.left, j.right, j.kind, j.fn_l, j.fn_r, str(j.f), str(j.add), j.op] for j in instance.joins]
    nodes = [[node.block, node.var] for node in instance.nodes]
    rest = instance.output_edges, instance.results, instance.links
    return [instance.template, instance.variables, instance.tree_edges, joins, nodes, *rest]


_PARTS: Mapping[str, type] = {
    made.__name__: made
    for made in (
        pattern.AllOf,
        pattern.AnyOf,
        pattern.Call,
        pattern.Compared,
        pattern.Comparison,
        pattern.Constant,
        pattern.Exists,
        pattern.Here,
        pattern.Negation,
        pattern.NodeTest,
        pattern.OfColumns,
        pattern.Step,
        pattern.Truth,
    )
}
"""Classes of parts of definitions by their names in data."""
_FIELDS = {made: tuple(each.name for each in fields(made)) for made in _PARTS.values()}
_MANY = ""
"""Stands before the parts of a tuple, where the name of a class would."""


def _tree(part: object) -> Data:
    """Return a part of a definition: plain values as they are, and the others with a name before their parts."""
    if isinstance(part, tuple):
        return [_MANY, *map(_tree, part)]
    names = _FIELDS.get(type(part))
    if names is None:
        return part
    return [type(part).__name__, *(_tree(getattr(part, name)) for name in names)]


# -- from data -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Skeleton:
    """All that groups of one pattern share."""

    instance: Instance
    links: tuple[tuple[tuple[int, int], ...], ...]
    streams: tuple[int, ...]
    digests: tuple[tuple[int, int, int], ...]
    channels: tuple[str, ...]
    specs: tuple[WitnessSpec, ...]


class GroupReader:
    """Makes groups of data; equal skeletons, cases and facts of all that it reads are one object each."""

    def __init__(self) -> None:
        self._definitions: dict[int, Definition] = {}
        """Definitions by their keys, which are digests of their texts."""
        self._skeletons: dict[str, _Skeleton] = {}
        self._facts: dict[tuple[int, object], WitnessSpec] = {}
        self._cases: dict[str, tuple[Case, ...]] = {}
        self._joins: dict[tuple[object, ...], ValueJoin] = {}
        self._trees: Mapping[int, Data] = {}
        """Definitions of the data that is being read."""

    def read(self, data: Data, wanted: Container[str]) -> Iterator[tuple[str, GroupForm]]:
        """Yield the groups with a wanted name.

        Raises:
            ValueError, TypeError, LookupError: it is no data of groups.
        """
        self._trees = {tree[0]: tree for tree in data["definitions"]}
        skeletons: dict[int, _Skeleton] = {}
        guards: dict[int | None, Guard | None] = {None: None}
        for name, place, cases, guarded, facts in data["groups"]:
            if name not in wanted:
                continue
            if place not in skeletons:
                skeletons[place] = self._skeleton(data["skeletons"][place])
            for guard in guarded:
                if guard not in guards:
                    guards[guard] = _guard(*data["guards"][guard])
            known = skeletons[place]
            group = Group(
                known.instance,
                self._cases_of(cases),
                known.links,
                known.streams,
                known.digests,
                tuple([guards[guard] for guard in guarded]),
            )
            yield name, GroupForm(group, known.channels, known.specs, tuple(map(self._fact, facts)))

    def _skeleton(self, data: Data) -> _Skeleton:
        name = repr(data)
        found = self._skeletons.get(name)
        if found is None:
            instance, links, streams, digests, channels, specs = data
            found = self._skeletons[name] = _Skeleton(
                self._instance(*instance),
                tuple(map(_pairs, links)),
                tuple(streams),
                _pairs(digests),
                tuple(channels),
                tuple([self._spec(*spec) for spec in specs]),
            )
        return found

    def _instance(
        self,
        template: str,
        variables: Data,
        tree: Data,
        joins: Data,
        nodes: Data,
        edges: Data,
        results: Data,
        links: Data,
    ) -> Instance:
        return Instance(
            template,
            tuple(variables),
            _pairs(tree),
            tuple([self._join(*join) for join in joins]),
            tuple([OutputNode(block, var) for block, var in nodes]),
            _pairs(edges),
            tuple(results),
            _pairs(links),
        )

    def _join(self, *parts: Data) -> ValueJoin:
        found = self._joins.get(parts)
        if found is None:
            left, right, kind, fn_l, fn_r, f, add, op = parts
            found = self._joins[parts] = ValueJoin(left, right, kind, fn_l, fn_r, Fraction(f), Fraction(add), op)
        return found

    def _cases_of(self, data: Data) -> tuple[Case, ...]:
        name = repr(data)
        found = self._cases.get(name)
        if found is None:
            found = self._cases[name] = tuple([tuple([Bounds(*bounds) for bounds in case]) for case in data])
        return found

    def _fact(self, data: Data) -> WitnessSpec:
        definition, (function,), edges, hanging = data
        key = definition, function
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = self._spec(definition, [function], edges, hanging)
        return found

    def _spec(self, definition: int, functions: Data, edges: Data, hanging: Data) -> WitnessSpec:
        of = self._definition
        sides = (tuple([(of(upper), of(lower)) for upper, lower in pairs]) for pairs in (edges, hanging))
        return WitnessSpec(of(definition), tuple(functions), *sides)

    def _definition(self, key: int) -> Definition:
        found = self._definitions.get(key)
        if found is None:
            _, channel, steps, conditions = self._trees[key]
            found = self._definitions[key] = Definition(channel, _part(steps), _part(conditions))
            # The data has it as it was computed, and computing it again needs the whole text.
            found.__dict__["key"] = key
        return found


def _guard(text: str, facts: int, alternatives: Data) -> Guard:
    return Guard(text, facts, tuple([tuple([Literal(*literal) for literal in each]) for each in alternatives]))


def _pairs(data: Data) -> tuple[Any, ...]:
    return tuple(map(tuple, data))


def _part(data: Data) -> Any:
    if not isinstance(data, list):
        return data
    name, *parts = data
    found = map(_part, parts)
    return tuple(found) if name == _MANY else _PARTS[name](*found)
