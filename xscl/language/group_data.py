"""The part of a compiled query that plans need, as data for JSON, and back.

A *skeleton* has all that groups of one pattern share; a group adds its cases, guards and facts.  Data of many groups
has each definition, skeleton and guard once.  Reading it makes values of a few plain classes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from xscl.language.compile import CompiledQuery
from xscl.templates.bounds import Bounds, Case
from xscl.templates.graph import ValueJoin
from xscl.templates.guards import Guard, Literal
from xscl.templates.template import Group, Instance, OutputNode
from xscl.xpath import pattern
from xscl.xpath.automaton import WitnessSpec
from xscl.xpath.pattern import Definition
from xscl.xpath.states import SpecKey, spec_key

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
        """Return that part of a compiled query, made of parts that it shares with others."""
        group, instance = compiled.group, compiled.group.instance
        instance = Instance(*(_shared(getattr(instance, name)) for name in _INSTANCE))
        made = Group(instance, *(_shared(getattr(group, name)) for name in _GROUP))
        return cls(made, _shared(compiled.channels), compiled.specs, compiled.facts)


_INSTANCE = tuple(each.name for each in fields(Instance))
_GROUP = tuple(each.name for each in fields(Group) if each.name != "instance")
T = TypeVar("T")


@lru_cache(maxsize=1 << 16)
def _shared(value: T) -> T:
    """One object for equal ones: a hundred thousand groups consist of the same few thousand parts."""
    return tuple(map(_shared, value)) if isinstance(value, tuple) else value  # type: ignore[return-value]


# -- to data ---------------------------------------------------------------------------------------------------


def groups_data(forms: Iterable[tuple[str, GroupForm]]) -> Data:
    """Return the data of some groups, each with a name."""
    writer = _Writer()
    groups = [writer.group(name, form) for name, form in forms]
    return {
        "definitions": writer.definitions,
        "specs": writer.specs,
        "skeletons": writer.skeletons,
        "guards": writer.guards,
        "groups": groups,
    }


class _Writer:
    """Collects what groups share."""

    def __init__(self) -> None:
        self.definitions: list[Data] = []
        self.specs: list[Data] = []
        self.skeletons: list[Data] = []
        self.guards: list[Data] = []
        self._known: set[int] = set()
        """Keys of definitions."""
        self._skeletons: dict[tuple[object, ...], int] = {}
        self._guards: dict[Guard, int] = {}
        self._specs: dict[SpecKey, int] = {}

    def group(self, name: str, form: GroupForm) -> Data:
        group = form.group
        cases = [[[b.lo, b.hi, b.order, b.exchange] for b in case] for case in group.cases]
        guards = [None if guard is None else self._guard(guard) for guard in group.guards]
        return [name, self._skeleton(form), cases, guards, self._places(form.facts)]

    def _skeleton(self, form: GroupForm) -> int:
        group = form.group
        parts = group.links, group.streams, group.specs, form.channels, tuple(self._places(form.specs))
        key = group.instance.key, *parts
        place = self._skeletons.get(key)
        if place is None:
            place = self._skeletons[key] = len(self.skeletons)
            self.skeletons.append([_instance(group.instance), *parts])
        return place

    def _guard(self, guard: Guard) -> int:
        place = self._guards.get(guard)
        if place is None:
            place = self._guards[guard] = len(self.guards)
            literals = [[[one.variable, one.op, one.constant] for one in each] for each in guard.alternatives]
            self.guards.append([guard.text, guard.facts, literals])
        return place

    def _places(self, specs: Iterable[WitnessSpec]) -> list[int]:
        return [self._spec(spec) for spec in specs]

    def _spec(self, spec: WitnessSpec) -> int:
        key = spec_key(spec)
        place = self._specs.get(key)
        if place is None:
            place = self._specs[key] = len(self.specs)
            edges, hanging = self._edges(spec.edges), self._edges(spec.hanging)
            self.specs.append([self._definition(spec.definition), spec.functions, edges, hanging])
        return place

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
    """Makes groups of data; equal definitions and cases of all that it reads are one object each."""

    def __init__(self) -> None:
        self._definitions: dict[int, Definition] = {}
        """Definitions by their keys, which are digests of their texts."""
        self._cases: dict[str, tuple[Case, ...]] = {}
        self._joins: dict[tuple[object, ...], ValueJoin] = {}

    def read(self, data: Data, wanted: Container[str]) -> Iterator[tuple[str, GroupForm]]:
        """Yield the groups with a wanted name.

        Raises:
            ValueError, TypeError, LookupError: it is no data of groups.
        """
        shared = _Shared(self, data)
        guards: dict[int | None, Guard | None] = {None: None}
        for name, place, cases, guarded, facts in data["groups"]:
            if name not in wanted:
                continue
            for guard in guarded:
                if guard not in guards:
                    guards[guard] = _guard(*data["guards"][guard])
            known = shared.skeleton(place)
            group = Group(
                known.instance,
                self._cases_of(cases),
                known.links,
                known.streams,
                known.digests,
                tuple([guards[guard] for guard in guarded]),
            )
            yield name, GroupForm(group, known.channels, known.specs, shared.facts(tuple(facts)))

    def _cases_of(self, data: Data) -> tuple[Case, ...]:
        name = repr(data)
        found = self._cases.get(name)
        if found is None:
            found = self._cases[name] = tuple([tuple([Bounds(*bounds) for bounds in case]) for case in data])
        return found

    def join(self, *parts: Data) -> ValueJoin:
        """Return a value join."""
        found = self._joins.get(parts)
        if found is None:
            left, right, kind, fn_l, fn_r, f, add, op = parts
            found = self._joins[parts] = ValueJoin(left, right, kind, fn_l, fn_r, _fraction(f), _fraction(add), op)
        return found

    def definition(self, trees: Mapping[int, Data], key: int) -> Definition:
        """Return the definition with a key."""
        found = self._definitions.get(key)
        if found is None:
            _, channel, steps, conditions = trees[key]
            found = self._definitions[key] = Definition(channel, _part(steps), _part(conditions))
            # The data has it as it was computed, and computing it again needs the whole text.
            found.__dict__["key"] = key
        return found


class _Shared:
    """Parts of some data that its groups share, made when they are asked for."""

    def __init__(self, reader: GroupReader, data: Data) -> None:
        self._reader = reader
        self._trees: Mapping[int, Data] = {tree[0]: tree for tree in data["definitions"]}
        self._skeleton_data: Sequence[Data] = data["skeletons"]
        self._spec_data: Sequence[Data] = data["specs"]
        self._skeletons: dict[int, _Skeleton] = {}
        self._specs: dict[int, WitnessSpec] = {}
        self._facts: dict[tuple[int, ...], tuple[WitnessSpec, ...]] = {}

    def skeleton(self, place: int) -> _Skeleton:
        found = self._skeletons.get(place)
        if found is None:
            instance, links, streams, digests, channels, specs = self._skeleton_data[place]
            found = self._skeletons[place] = _Skeleton(
                self._instance(instance),
                tuple(map(_pairs, links)),
                tuple(streams),
                _pairs(digests),
                tuple(channels),
                tuple(map(self.spec, specs)),
            )
        return found

    def facts(self, places: tuple[int, ...]) -> tuple[WitnessSpec, ...]:
        found = self._facts.get(places)
        if found is None:
            found = self._facts[places] = tuple(map(self.spec, places))
        return found

    def spec(self, place: int) -> WitnessSpec:
        found = self._specs.get(place)
        if found is None:
            definition, functions, edges, hanging = self._spec_data[place]
            sides = self._edges(edges), self._edges(hanging)
            found = self._specs[place] = WitnessSpec(self._definition(definition), tuple(functions), *sides)
        return found

    def _edges(self, data: Data) -> tuple[tuple[Definition, Definition], ...]:
        return tuple([(self._definition(upper), self._definition(lower)) for upper, lower in data])

    def _definition(self, key: int) -> Definition:
        return self._reader.definition(self._trees, key)

    def _instance(self, data: Data) -> Instance:
        template, variables, tree, joins, nodes, edges, results, links = data
        return Instance(
            template,
            tuple(variables),
            _pairs(tree),
            tuple([self._reader.join(*join) for join in joins]),
            tuple([OutputNode(block, var) for block, var in nodes]),
            _pairs(edges),
            tuple(results),
            _pairs(links),
        )


@lru_cache(maxsize=1024)
def _fraction(text: str) -> Fraction:
    return Fraction(text)


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
