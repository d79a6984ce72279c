"""The part of a compiled query that plans need, as data for JSON, and back.

Data of many groups is a table in which each different value stands once, behind the values that it is made of.  An
entry has the name of a class and its fields: plain values as they are, others by their places, each in a list of its
own.  Reading makes values of a few plain classes, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from math import isfinite
from operator import attrgetter
from typing import Any, TypeVar

from xscl.language.compiled import CompiledQuery
from xscl.templates.bounds import Bounds
from xscl.templates.graph import ValueJoin
from xscl.templates.guards import Guard, Literal
from xscl.templates.template import Group, Instance, OutputNode
from xscl.xpath import pattern
from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.pattern import Definition

__all__ = ["GroupForm", "GroupReader", "groups_text"]

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
    """Return one object for equal values: a hundred thousand groups consist of the same few thousand parts."""
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


def _reader(made: Any) -> Callable[[Any], Sequence[object]]:
    """Return what reads the fields of values of a class."""
    first, *others = (each.name for each in fields(made))
    read = attrgetter(first, *others)
    return read if others else lambda value: (read(value),)


_PARTS: Mapping[type, tuple[str, Callable[[Any], Sequence[object]]]] = {
    **{made: (f'["{name}"', _reader(made)) for name, made in _CLASSES.items() if made is not Fraction},
    tuple: ('[""', lambda value: value),
    Fraction: ('["Fraction"', lambda value: (str(value),)),
    # Its key is a digest of its text, which takes long to make.
    Definition: ('["Definition"', lambda value: (value.key, value.channel, value.steps, value.conditions)),
}
"""Beginning of an entry, and its fields, by the class of a value."""


def groups_text(forms: Iterable[tuple[str, GroupForm]]) -> str:
    """Return the data of some groups, each with a name, as JSON."""
    table = _Table()
    groups = ",".join([f"[{encode_basestring_ascii(name)},{table.put(form)}]" for name, form in forms])
    return f'{{"values":[{table.text}],"groups":[{groups}]}}'


class _Table:
    """Values as entries, each once.

    Entries are written as JSON one by one: a table of lists would be made, looked up, and written once more.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        """Entries, without their last bracket, with their places, in their order."""
        self._definitions: dict[int, str] = {}
        """Places of definitions, as entries have them, by their keys, which are digests of their texts."""
        self._known: dict[int, tuple[object, str]] = {}
        """Values by their identity, with their places; each is held, so no other one has its identity."""

    @property
    def text(self) -> str:
        """Return all entries."""
        return "],".join(self._places) + "]" * bool(self._places)

    def put(self, value: Any) -> str:
        """Put a value that is not plain into the table, behind those that it is made of, and return its place."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        made = type(value)
        place = self._definitions.get(value.key) if made is Definition else None
        if place is None:
            begin, fields_of = _PARTS[made]
            entry = [begin]
            for part in fields_of(value):
                write = _PLAIN.get(type(part), self.put)
                entry.append(write(part))
            places = self._places
            place = f"[{places.setdefault(','.join(entry), len(places))}]"
            if made is Definition:
                self._definitions[value.key] = place
        self._known[id(value)] = value, place
        return place


def _number(value: float) -> str:
    """Return a number as JSON; its own function takes eight times as long."""
    return float.__repr__(value) if isfinite(value) else json.dumps(value)


_PLAIN: Mapping[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: _number,
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
"""Functions that write plain values as JSON."""


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
