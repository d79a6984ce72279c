"""Steps that queries share, as ``query explain`` tells of them: with whom, and what is asked for each number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy.engine import Connection

from xscl.base.durations import format_duration
from xscl.base.own_functions import shown_name
from xscl.batches.steps.rows import numbered_nodes
from xscl.batches.steps.sharing import Sharing, sharing_of
from xscl.catalog.steps import read_stepped
from xscl.catalog.tables import NEVER
from xscl.language.outlines.steps import known_shape, known_steps
from xscl.language.steps.shapes import Number, comparisons_of, kept_slots, slots_of, step_id
from xscl.language.steps.terms import Fold, Next, Node, StepsDefinition, Without
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_operand, format_string
from xscl.language.terms import Comparison, Term

__all__ = ["NumberFacts", "SharedStep", "shared_step"]

_NAMED = 10
"""Names of queries that are told."""


@dataclass(frozen=True, slots=True)
class NumberFacts:
    """A condition or window whose numbers differ by query."""

    condition: str
    """The condition, as the query has it."""
    numbers: int
    """Different numbers of all queries."""
    way: str
    """``range``: rows have the range of numbers that satisfy it; ``walk``: one walk serves all numbers; ``value``: rows
    look their value up among the numbers; ``request``: it is asked for each number."""
    requests: int
    """Times that the condition is asked for a row."""


@dataclass(frozen=True, slots=True)
class SharedStep:
    """The step of a query, which moves rows once for all that share it."""

    step: str
    """Its id, a name for ``xscl template show``."""
    queries: int
    groups: int
    names: tuple[str, ...]
    """The first ten queries, by name."""
    numbers: tuple[NumberFacts, ...]
    """Conditions whose numbers differ."""


def shared_step(connection: Connection, gid: int) -> SharedStep | None:
    """Return what a group of queries shares with others; None: it has no steps, or no live query."""
    stepped, readers, _ = read_stepped(connection, NEVER - 1, NEVER - 1)
    known = {each.gid: known_shape(each.text, tuple(sorted(each.namespaces.items()))) for each in stepped}
    names = {each.gid: step_id(known[each.gid][0], each.channels, each.distances) for each in stepped}
    if gid not in names:
        return None
    groups = [other for other, name in names.items() if name == names[gid]]
    queries = sorted(reader.name for other in groups for reader in readers[other] if reader.until == NEVER)
    mine = next(each for each in stepped if each.gid == gid)
    own = known_steps(mine.text, tuple(sorted(mine.namespaces.items())))
    told = tuple(_number_facts(own, known[gid][0], [known[other][1] for other in groups]))
    return SharedStep(names[gid], len(queries), len(groups), tuple(queries[:_NAMED]), told)


def _number_facts(
    own: StepsDefinition, shape: StepsDefinition, numbers: Sequence[Sequence[Number]]
) -> Iterator[NumberFacts]:
    """Yield the conditions whose numbers differ by query."""
    sharing, root = sharing_of(shape.root, numbers)
    for node, said in zip(numbered_nodes(root), numbered_nodes(own.root), strict=True):
        for each, words in zip(comparisons_of(node), comparisons_of(said), strict=True):
            if slots := slots_of(each):
                count = len({tuple(one[slot] for slot in slots) for one in numbers})
                way = _way(sharing, node, each)
                yield NumberFacts(_condition(own, words), count, way, count if way == "request" else 1)
        for kept in node.accumulators if isinstance(node, Fold) else ():
            if slots := tuple(kept_slots([kept])):
                count = len({tuple(one[slot] for slot in slots) for one in numbers})
                yield NumberFacts(f"what FOLD keeps as {kept.name}", count, "request", count)
        for slot, limit in _limits(node, said):
            count = len({one[slot] for one in numbers})
            is_cut = slot in sharing.limits
            way = "request" if not is_cut else "walk" if _is_least(node, slot) else "range"
            yield NumberFacts(limit, count, way, 1 if is_cut else count)


def _limits(node: Node, said: Node) -> Iterator[tuple[int, str]]:
    """Yield the places of windows and numbers of iterations that differ, with those that a query has."""
    if not isinstance(node, Next | Fold | Without) or not isinstance(said, Next | Fold | Without):
        return
    skip, own = node.skip, said.skip
    known = [
        (skip.least_slot, own.least, "a least time of "),
        (skip.most_slot, own.most, "a window of "),
        (skip.duration_slot, own.duration, "MAXWINDOW "),
    ]
    for slot, time, words in known[skip.least_slot == skip.most_slot :]:
        if slot is not None and time is not None:
            yield slot, words + format_duration(time)
    if isinstance(node, Fold) and isinstance(said, Fold) and node.at_most_slot is not None:
        yield node.at_most_slot, f"AT MOST {said.at_most}"


def _is_least(node: Node, slot: int) -> bool:
    return isinstance(node, Next) and node.skip.least_slot == slot


def _way(sharing: Sharing, node: Node, each: Comparison) -> str:
    if isinstance(node, Next | Fold | Without) and each in node.skip.comparisons:
        if each in sharing.own_values(node):
            return "value"
        return "walk" if isinstance(node, Next) and sharing.walked(node) is each else "request"
    slots = slots_of(each)
    is_looked_up = each.op == "=" and len(slots) == 1 and slots[0] in sharing.ranks
    return "range" if is_looked_up or any(slot in sharing.dimension for slot in slots) else "request"


def _condition(definition: StepsDefinition, each: Comparison) -> str:
    if each.left.kind == "duration":
        return f"DUR {each.op} {format_duration(int(each.right.constant))}"
    return f"{_term(definition, each.left)} {each.op} {_term(definition, each.right)}"


def _term(definition: StepsDefinition, term: Term) -> str:
    match term.kind:
        case "text":
            found = format_string(term.text)
        case "number":
            return format_operand(ast.Linear(None, Fraction(1), term.constant))
        case "variable":
            found = definition.parts[term.part].names[term.place]
        case "last":
            first = "" if term.first is None else f", {_term(definition, term.first)}"
            found = f"last({definition.parts[term.part].names[term.place]}{first})"
        case _:
            found = "a kept value"
    for name in reversed(term.functions):
        found = f"{shown_name(name)}({found})"
    return format_operand(ast.Linear(ast.VarPath(found), term.factor, term.constant))
