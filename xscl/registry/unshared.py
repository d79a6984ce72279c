"""Queries set apart from others, where rules of sharing are left out: for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import product

from xscl.base.values import digest_text
from xscl.language.compiled import CompiledPart, CompiledQuery

__all__ = ["is_apart", "rules_of_key", "set_apart"]


def set_apart(compiled: CompiledQuery, name: str, rules: Collection[str]) -> CompiledQuery:
    """Return a query with keys that it shares with others only as far as rules say.

    Args:
        compiled: the query.
        name: its name, which nothing else has.
        rules: names of the rules that hold (``templates.rules``).
    """
    return _apart(compiled, digest_text("alone", name, size=8), frozenset(rules), by_itself=False)


def rules_of_key(compiled: CompiledQuery, name: str, key: str) -> frozenset[str] | None:
    """Return the rules that give the group of a query a key; None: no rules do.

    A home does not keep the rules that its queries were registered with.
    """
    units = sorted(_units(compiled))
    for held in product((True, False), repeat=len(units)):
        rules = frozenset(name for unit, holds in zip(units, held, strict=True) if holds for name in unit)
        if set_apart(compiled, name, rules).group.key == key:
            return rules
    return None


def _units(compiled: CompiledQuery) -> set[tuple[str, ...]]:
    """Return the rules that matter to a query; rules that matter only together stand together."""
    if not compiled.parts:
        return {("s_⋈",), ("c_⋈",)} if len(compiled.normal.blocks) > 1 else {("s_σ",)}
    found = {unit for part in compiled.parts for unit in _units(part.compiled)}
    if compiled.windowed is not None:
        found.add(("s_α",))
    if compiled.absence is not None:
        found.add(("s_∖",))
    return found | {("s_;", "s_μ"), ("c_;", "c_μ")} if compiled.stepped else found


def is_apart(compiled: CompiledQuery, rules: Collection[str]) -> bool:
    """Tell whether rules set a query apart from one that asks the same."""
    one, other = (set_apart(compiled, name, rules).group.key for name in ("one", "other"))
    return one != other


def _apart(compiled: CompiledQuery, mark: str, rules: frozenset[str], *, by_itself: bool) -> CompiledQuery:
    if not compiled.parts:
        return _joined_apart(compiled, mark, rules, by_itself=by_itself)
    by_itself |= compiled.windowed is not None and "s_α" not in rules
    parts = [
        CompiledPart(each.text, _apart(each.compiled, mark, rules, by_itself=by_itself)) for each in compiled.parts
    ]
    group = compiled.group
    if any(new.compiled.group.key != old.compiled.group.key for new, old in zip(parts, compiled.parts, strict=True)):
        group = replace(group, absence=(*group.absence, *(each.compiled.group.key for each in parts)))
    group = replace(group, alone=_own(compiled, mark, rules, by_itself=by_itself))
    made = replace(compiled, group=group)
    if compiled.windowed is not None:
        return replace(made, windowed=parts[0])
    if compiled.stepped:
        return replace(made, stepped=tuple(parts))
    assert compiled.absence is not None
    return replace(made, absence=replace(compiled.absence, wanted=parts[0], forbidden=tuple(parts[1:])))


def _own(compiled: CompiledQuery, mark: str, rules: frozenset[str], *, by_itself: bool) -> str:
    """Return the mark of a group of queries that are made of others; '': rules leave it as it is."""
    if by_itself or (compiled.absence is not None and "s_∖" not in rules):
        return mark
    if not compiled.stepped:
        return ""
    if not {"s_;", "s_μ"} <= rules:
        return mark
    return "" if {"c_;", "c_μ"} <= rules else "step"


def _joined_apart(compiled: CompiledQuery, mark: str, rules: frozenset[str], *, by_itself: bool) -> CompiledQuery:
    group = compiled.group
    several = len(compiled.normal.blocks) > 1
    if by_itself or ("s_⋈" if several else "s_σ") not in rules:
        alone = mark
    elif several and "c_⋈" not in rules:
        guards = [None if each is None else each.name for each in group.guards]
        alone = digest_text("guards", repr(guards), repr(group.streams), size=8)
    else:
        return compiled
    return replace(compiled, group=replace(group, instance=replace(group.instance, alone=alone)))
