"""Facts of a compiled query by itself: blocks in normal form, joins, windows, links, guards and variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations
from operator import or_

from xscl.base.durations import format_duration
from xscl.base.mixed import described, is_role
from xscl.language.compiled import CompiledQuery
from xscl.language.normalize import NormalBlock
from xscl.language.query_rows import variables_of
from xscl.templates.bounds import UNBOUNDED, UNLESS_EXCHANGED, Bounds, Case, pair_index
from xscl.templates.graph import ValueJoin, solved
from xscl.templates.links import anchor
from xscl.templates.statements.relations import var_name
from xscl.xpath.pattern import Compared, Condition, conditions

__all__ = [
    "BlockFacts",
    "CaseFacts",
    "Defined",
    "GuardFacts",
    "JoinFacts",
    "LinkFacts",
    "VariableFacts",
    "block_facts",
    "case_facts",
    "definition_facts",
    "guard_facts",
    "join_facts",
    "link_facts",
    "variable_facts",
]

_MOST_DIGITS = 15
"""Behind the point of a number."""


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


def block_facts(compiled: CompiledQuery) -> tuple[BlockFacts, ...]:
    """Collect the blocks of a query in normal form."""
    return tuple(_block(compiled, number) for number in range(len(compiled.channels)))


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
    """Yield (node, depth), each node before what is below it, without the document node."""

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


def join_facts(compiled: CompiledQuery) -> Iterator[JoinFacts]:
    """Yield the value joins of a query."""
    for number, join in enumerate(compiled.group.instance.joins, start=1):
        compares = "numbers" if join.fn_l.startswith("number") else "strings"
        if is_role(join.fn_l):
            compares = described(join.fn_l, join.fn_r)
        yield JoinFacts(f"e{number}", join.kind, _join_text(compiled, join), compares)


def _join_text(compiled: CompiledQuery, join: ValueJoin) -> str:
    left, right = (
        _applied(_applied_functions(functions), _meta_name(compiled, place))
        for functions, place in ((join.fn_l, join.left), (join.fn_r, join.right))
    )
    form = solved(join)
    alone, other = (left, right) if form.alone == "l" else (right, left)
    if form.f != 1:
        other = f"{_number(form.f)} * {other}"
    if form.add:
        other += f" {'-' if form.add < 0 else '+'} {_number(abs(form.add))}"
    return f"{alone} {form.op} {other}"


def _applied_functions(functions: str) -> str:
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


def case_facts(compiled: CompiledQuery) -> Iterator[CaseFacts]:
    """Yield the cases of a query's windows."""
    cases, names = compiled.group.cases, compiled.block_names
    orders = [set(_orders(case, names)) for case in cases]
    always = set.intersection(*orders)
    for case in cases:
        if case:
            own = tuple(order for order in _orders(case, names) if order not in always)
            yield CaseFacts(own, (*_windows(case, names), *_newest(compiled)))


def _orders(case: Case, names: Sequence[str]) -> Iterator[str]:
    """Give the orders of members that the bounds imply."""
    for bounds, (left, right) in zip(case, combinations(names, 2), strict=True):
        if bounds.lo >= 0:
            yield f"{left} {'before' if bounds.lo else 'not after'} {right}"
        elif bounds.hi <= 0:
            yield f"{right} {'before' if bounds.hi else 'not after'} {left}"


def _newest(compiled: CompiledQuery) -> Iterator[str]:
    """Write the row windows of a query."""
    for count, name, channel in zip(compiled.group.rows, compiled.block_names, compiled.channels, strict=False):
        if count:
            yield f"{name} among the newest {count:,} of {channel} when the last member comes"


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


def link_facts(compiled: CompiledQuery) -> Iterator[LinkFacts]:
    """Yield the links of a query of three blocks and more."""
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


def variable_facts(compiled: CompiledQuery) -> Iterator[VariableFacts]:
    """Yield the canonical variables of a query, and those that are output only."""
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


def definition_facts(compiled: CompiledQuery) -> Iterator[Defined]:
    """Yield the variables of a query's text."""
    for name, definition in compiled.definitions.items():
        yield Defined(name, var_name(definition.key), str(definition))


def guard_facts(compiled: CompiledQuery) -> Iterator[GuardFacts]:
    """Yield the guards of the blocks that have one."""
    for name, guard in zip(compiled.block_names, compiled.group.guards, strict=False):
        if guard is not None:
            yield GuardFacts(name, guard.name, guard.text)
