"""The part of a compiled query that plans need, as data for JSON, and back.

Data of many groups is a table in which each different value stands once, behind the values that it is made of.  An
entry has the name of a class and its fields: plain values as they are, others by their places, each in a list of its
own.  Reading makes values of a few plain classes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from xscl.language.compiled import CompiledQuery
from xscl.templates.bounds import Bounds
from xscl.templates.graph import ValueJoin
from xscl.templates.guards import Guard, Literal
from xscl.templates.template import Group, Instance, OutputNode
from xscl.xpath import pattern
from xscl.xpath.automaton import WitnessSpec
from xscl.xpath.pattern import Definition

__all__ = ["GroupForm", "GroupReader", "groups_data"]

Data = Any
"""Value of JSON."""
T = TypeVar("T")


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


@lru_cache(maxsize=1 << 16)
def _shared(value: T) -> T:
    """One object for equal ones: a hundred thousand groups consist of the same few thousand parts."""
    return tuple(map(_shared, value)) if isinstance(value, tuple) else value  # type: ignore[return-value]


_CLASSES: Mapping[str, Any] = {
    made.__name__: made
    for made in (
        Bounds,
        Fraction,
        Group,
        GroupForm,
        Guard,
        Instance,
        Literal,
        OutputNode,
        ValueJoin,
        WitnessSpec,
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
"""Classes of values by their names in data."""
_NAMES: Mapping[type, str] = {**{made: name for name, made in _CLASSES.items()}, Definition: "Definition", tuple: ""}
_Place = tuple[int]


def _reader(made: Any) -> Callable[[Any], Sequence[object]]:
    """Return what reads the fields of values of a class."""
    first, *others = (each.name for each in fields(made))
    read = attrgetter(first, *others)
    return read if others else lambda value: (read(value),)


_PARTS: Mapping[type, Callable[[Any], Sequence[object]]] = {
    **{made: _reader(made) for made in _CLASSES.values() if made is not Fraction},
    tuple: lambda value: value,
    Fraction: lambda value: (str(value),),
    # Its key is a digest of its text, which takes long to make.
    Definition: lambda value: (value.key, value.channel, value.steps, value.conditions),
}
"""Fields of an entry, by the class of a value."""


def groups_data(forms: Iterable[tuple[str, GroupForm]]) -> Data:
    """Return the data of some groups, each with a name."""
    table = _Table()
    groups = [(name, table.put(form)) for name, form in forms]
    return {"values": list(table.places), "groups": groups}


class _Table:
    """Values as entries, each once."""

    def __init__(self) -> None:
        self.places: dict[tuple[Data, ...], int] = {}
        """Entries with their places, in their order."""
        self._definitions: dict[int, _Place] = {}
        """Places of definitions by their keys, which are digests of their texts."""
        self._known: dict[int, tuple[object, _Place]] = {}
        """Values by their identity, with their places; each is held, so no other one has its identity."""

    def put(self, value: Any) -> _Place:
        """Put a value that is not plain into the table, behind those that it is made of; return its place."""
        known = self._known.get(id(value))
        if known is None:
            made = type(value)
            known = self._known[id(value)] = (
                value,
                self._defined(value) if made is Definition else self._new(value, made),
            )
        return known[1]

    def _defined(self, value: Definition) -> _Place:
        place = self._definitions.get(value.key)
        if place is None:
            place = self._definitions[value.key] = self._new(value, Definition)
        return place

    def _new(self, value: object, made: type) -> _Place:
        parts = [self.put(part) if type(part) in _NAMES else part for part in _PARTS[made](value)]
        return (self.places.setdefault((_NAMES[made], *parts), len(self.places)),)


class GroupReader:
    """Makes groups of data; equal definitions of all that it reads are one object each."""

    def __init__(self) -> None:
        self._definitions: dict[int, Definition] = {}
        """Definitions by their keys."""

    def read(self, data: Data, wanted: Container[str]) -> Iterator[tuple[str, GroupForm]]:
        """Yield the groups with a wanted name.

        Raises:
            ValueError, TypeError, LookupError: it is no data of groups.
        """
        values: list[Any] = []
        for name, *entry in data["values"]:
            parts = [values[part[0]] if type(part) is list else part for part in entry]
            if name == "":
                values.append(tuple(parts))
            elif name == "Definition":
                values.append(self._definition(*parts))
            else:
                values.append(_CLASSES[name](*parts))
        for name, (place,) in data["groups"]:
            if name in wanted:
                form = values[place]
                if not isinstance(form, GroupForm):
                    raise ValueError(f"value {place} is no group")
                yield name, form

    def _definition(
        self, key: int, channel: str, steps: tuple[pattern.Step, ...], conditions: tuple[pattern.Condition, ...]
    ) -> Definition:
        found = self._definitions.get(key)
        if found is None:
            found = self._definitions[key] = Definition(channel, steps, conditions)
            # The data has the key as it was computed, and computing it again needs the whole text.
            found.__dict__["key"] = key
        return found
