"""An explanation of a query as a text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xscl.answers.explaining.explain import Explanation
from xscl.answers.explaining.shared_steps import SharedStep

__all__ = ["columns", "count", "explanation_text"]


_SETTLED = "certain once the channel's times are settled further"
_BY_CLOCK = "answered by the channel's clock, and certain as far as the query remembers"
_ANSWERED: dict[str | None, str] = {
    "STRONG": _SETTLED,
    "MIDDLE": f"answered by the channel's clock, and {_SETTLED}",
    "WEAK": "certain once the channel's clock is further",
}
_WAYS = {
    "range": "a row has the range of numbers that satisfy it",
    "walk": "one walk serves all numbers",
    "value": "a row looks its value up among them",
}


def explanation_text(found: Explanation) -> str:
    """Write an explanation to read from the top: the query, its normal form, and what it shares with others."""
    parts = [[found.canonical], *_normal_form(found), _shared(found)]
    parts.append(["Conjunctive queries of the parts" if found.parts else "The template's conjunctive query", found.sql])
    return "\n\n".join("\n".join(lines) for lines in parts)


def _normal_form(found: Explanation) -> Iterator[list[str]]:
    for number, block in enumerate(found.blocks, start=1):
        rows = [("  " * node.depth + node.step, node.variable or "", node.role) for node in block.nodes]
        yield [f"Block {number}, of channel {block.channel}", *columns(rows)]
    if found.joins:
        edges = [(join.edge, join.kind, join.text, f"compares {join.compares}") for join in found.joins]
        yield ["Joined by value", *columns(edges)]
    for number, case in enumerate(found.cases, start=1):
        many = f", case {number} of {len(found.cases)}" if len(found.cases) > 1 else ""
        orders = f": {', '.join(case.orders)}" if case.orders else ""
        yield [f"Time{many}{orders}", *(f"  {window}" for window in case.windows)]
    if found.absent:
        rows = [(each.channel, f"up to {each.certain}", each.settled) for each in found.absent]
        yield [f"Must not be there; {_ANSWERED.get(found.level, _BY_CLOCK)}", *columns(rows)]
    if found.steps:
        steps = [(step.left, step.text, step.right) for step in found.steps]
        yield ["Steps, from the first to the last", *columns(steps)]
        shared = [(part.blocks, f"group {part.group}", part.template, _users(part.users)) for part in found.parts]
        yield ["Parts that the steps are over, each joined once for all that share it", *columns(shared)]
    if found.shared is not None:
        yield _shared_step(found.shared)
    if found.ends:
        rows = [(each.channel, f"up to {each.certain}", each.settled) for each in found.ends]
        what = "Steps" if found.steps else "Windows"
        when = _ANSWERED.get(found.level, _BY_CLOCK)
        if found.level in (None, "STRONG"):
            when = "answered once the times of all channels are settled further"
        yield [f"{what}; {when}", *columns(rows)]
    if found.links:
        linked = [(" with ".join(link.blocks), f"by {link.by}:", ", ".join(link.asks)) for link in found.links]
        yield ["Links, put together by the documents they share", *columns(linked)]
    variables = [(v.place, v.name or "-", v.var, v.definition) for v in found.variables]
    yield ["Canonical variables", *columns(variables)]
    if found.guards:
        guards = [(each.block, each.guard, each.text) for each in found.guards]
        yield ["Guards, which are columns of the query's group and no part of its variables", *columns(guards)]


def _shared_step(found: SharedStep) -> list[str]:
    more = found.queries - len(found.names)
    names = ", ".join(found.names) + (f" and {more:,} more" if more > 0 else "")
    queries = f"{count(found.queries, 'query')} in {count(found.groups, 'group')}"
    rows = [
        (
            each.condition,
            count(each.numbers, "number"),
            f"{each.requests:,} requests of a row, one for each" if each.way == "request" else _WAYS[each.way],
        )
        for each in found.numbers
    ]
    return [f"Step {found.step}, whose rows are moved once for {queries}: {names}", *columns(rows)]


def _shared(found: Explanation) -> list[str]:
    more = found.queries_in_group - len(found.names_in_group)
    names = ", ".join(found.names_in_group) + (f" and {more:,} more" if more else "")
    queries, groups = count(found.queries_in_template, "query"), count(found.groups_in_template, "group")
    alike, of_skeleton = count(found.queries_in_skeleton, "query"), count(found.groups_in_skeleton, "group")
    rows = [
        ("select", found.select),
        ("publish", found.publish or "nothing"),
        ("starting", found.starting),
        *([] if found.level is None else [("consistency", found.level)]),
        *([("too late for it", count(found.late_for, "event"))] if found.late_for else []),
        ("template", f"{found.template}, of {queries} in {groups}"),
        ("skeleton", f"shared by {alike} in {of_skeleton}, which differ in windows and guards"),
        ("group", f"{found.group}, of {count(found.queries_in_group, 'query')}: {names}"),
        ("place", f"{found.place} of the intake order"),
    ]
    return ["Output and place", *columns(rows)]


def _users(groups: int) -> str:
    return f"shared by {count(groups, 'group')} of queries"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write rows with their cells below each other, indented."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def count(number: int, what: str) -> str:
    """Write a number of things.

    >>> count(1, "query"), count(2_000, "query")
    ('1 query', '2,000 queries')
    """
    plural = {"query": "queries"}.get(what, f"{what}s")
    return f"{number:,} {what if number == 1 else plural}"
