"""Steps of the relations that statements of SQL read; ``match_steps`` has those of matches and R_out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Table

from xscl.answers.explaining.plan import PLAN_COLUMNS
from xscl.answers.sql.combination_steps import held_events
from xscl.answers.sql.match_steps import all_match_steps, change_steps, match_steps, member_steps, rout_steps
from xscl.answers.sql.steps import Needs, Step, chained, step
from xscl.base.docids import place_sql
from xscl.catalog import tables
from xscl.templates.statements.relations import rt_table
from xscl.templates.template import Template

__all__ = ["RELATION_NAMES", "relation_steps", "template_relations"]


def relation_steps(name: str, needs: Needs, templates: Mapping[str, Template]) -> list[Step]:
    """Define a relation as steps; the last has its name and columns.

    Args:
        name: of a relation in ``RELATION_NAMES`` or ``templates``.
        needs: facts about the home and the statement.
        templates: by relation, as ``template_relations`` gives them.
    """
    if name in templates:
        template = templates[name]
        if name.startswith("rout_"):
            return rout_steps(template, needs)
        return _stored(name, "One row for each query and case of the template.", rt_table(template).columns.keys())
    return _RELATIONS[name](needs)


def template_relations(templates: Sequence[Template]) -> dict[str, Template]:
    """Name the two relations of each template."""
    return {name: each for each in templates for name in (f"rt_{each.id}", f"rout_{each.id}")}


def _stored(name: str, about: str, columns: Sequence[str]) -> list[Step]:
    return [step(name, about, " ".join(columns), f"select {', '.join(f'`{c}`' for c in columns)} from xscl_{name}")]


def _of_table(table: Table, about: str, *hidden: str) -> Callable[[Needs], list[Step]]:
    columns = [name for name in table.columns.keys() if name not in hidden]  # noqa: SIM118  (columns are no mapping)

    def steps(_: Needs) -> list[Step]:
        return _stored(table.name, about, columns)

    return steps


# -- events ---------------------------------------------------------------------------------------------------------

_EVENT = "docid channel id version item ts declared time_source received late member batch content"


def _events(needs: Needs) -> list[Step]:
    *columns, _, _, _ = (f"e.{name}" for name in _EVENT.split())
    own = ", ".join(columns)
    return chained(
        [
            held_events(needs, waiting=True),
            step(
                "placed_events",
                "Events with the batch that processed each.",
                f"{_EVENT.replace(' member', '')} membership",
                f"""
                select {own}, b.batch, e.content, e.membership
                from held_events e left join xscl_batches b on {place_sql("e.docid")} between b.first and b.last
                """,
            ),
            *(_streamed_events(own) if needs.streams else [_plain_events(own)]),
        ]
    )


def _plain_events(own: str) -> Step:
    return step(
        "events",
        "Events; the home has no streams.",
        _EVENT,
        f"select {own}, cast(array() as array<string>) as member, e.batch, e.content from placed_events e",
    )


def _streamed_events(own: str) -> list[Step]:
    return [
        step(
            "streams_of_copies",
            "The streams that brought copies of an event, which have its channel and id.",
            "channel id names",
            """
            select e.channel, e.id, flatten(collect_list(m.names)) as names
            from held_events e
            join xscl_memberships m on m.number = e.membership and m.channel = e.channel and not m.whole
            group by e.channel, e.id
            """,
        ),
        step(
            "events",
            "Events without copies, each with the streams of all its copies.",
            _EVENT,
            f"""
            select {own}, array_sort(array_union(coalesce(m.names, array()), coalesce(c.names, array()))) as member,
                   e.batch, e.content
            from placed_events e
            left join xscl_memberships m on m.number = e.membership and m.channel = e.channel
            left join streams_of_copies c on c.channel = e.channel and c.id = e.id
            where coalesce(m.whole, true)
            """,
        ),
    ]


def _r_docts(needs: Needs) -> list[Step]:
    return [
        held_events(needs),
        step(
            "replayed_events",
            "Late events that a batch has joined since, as if they had been in time.",
            "docid",
            f"select docid from xscl_late where replayed <= {needs.processed}",
        ),
        step(
            "r_docts",
            "Documents that a batch has processed, and later copies of them (whole is false).",
            "docid ts channel id item late whole",
            f"""
            select e.docid, e.ts, e.channel, e.id, e.item, e.late and r.docid is null as late,
                   coalesce(m.whole, true) as whole
            from held_events e left join xscl_memberships m on m.number = e.membership and m.channel = e.channel
            left join replayed_events r on r.docid = e.docid
            where {place_sql("e.docid")} <= {needs.processed}
            """,
        ),
    ]


def _r_member(needs: Needs) -> list[Step]:
    return [
        held_events(needs),
        step(
            "r_member",
            "The streams of each document that a batch has processed.",
            "docid stream",
            f"""
            select e.docid, s.col as stream
            from held_events e join xscl_memberships m on m.number = e.membership and m.channel = e.channel
            lateral view explode(m.streams) s
            where {place_sql("e.docid")} <= {needs.processed}
            """,
        ),
    ]


def _r_ordinal(needs: Needs) -> list[Step]:
    return [
        held_events(needs),
        step(
            "r_ordinal",
            "Events of each channel in the intake order, without later copies and published documents.",
            "docid channel ordinal",
            f"""
            select e.docid, e.channel, row_number() over (partition by e.channel order by e.docid) - 1 as ordinal
            from held_events e left join xscl_memberships m on m.number = e.membership and m.channel = e.channel
            where e.docid <= {needs.processed} and coalesce(m.whole, true)
            """,
        ),
    ]


# -- witnesses ------------------------------------------------------------------------------------------------------


def _held_witness(needs: Needs) -> Step:
    columns = "docid var node fn strval num chain"
    if not needs.floors:
        text = f"select {', '.join(columns.split())} from xscl_witness"
        return step("held_witness", "Witness rows of the join state.", columns, text)
    return step(
        "held_witness",
        "Witness rows of the join state that some live query may still join.",
        columns,
        f"""
        select /*+ BROADCAST(f) */ {", ".join(f"w.{name}" for name in columns.split())}
        from xscl_witness w join xscl_floors f on w.var = f.var and w.ts >= f.floor
        where not w.late
        """,
    )


def _r_bin(needs: Needs) -> list[Step]:
    return [
        _held_witness(needs),
        step(
            "chains",
            "Edges of patterns within a document, with the keys of their variables.",
            "docid key1 key2 node1 node2",
            """
            select w.docid, c.key1, c.key2, c.node1, c.node2
            from held_witness w lateral view inline(w.chain) c as key1, key2, node1, node2
            where c.key1 <> 0 and c.key2 <> 0
            """,
        ),
        step(
            "r_bin",
            "The same once each, with variables by their names.",
            "docid var1 var2 node1 node2",
            """
            select distinct docid, lpad(lower(hex(key1)), 16, '0') as var1, lpad(lower(hex(key2)), 16, '0') as var2,
                   node1, node2
            from chains
            """,
        ),
    ]


def _r_doc(needs: Needs) -> list[Step]:
    return [
        _held_witness(needs),
        step(
            "r_doc",
            "Values of nodes, once each.",
            "docid node fn strval num",
            "select distinct docid, node, fn, strval, num from held_witness where fn is not null and var <> 0",
        ),
    ]


def _r_guard(needs: Needs) -> list[Step]:
    return [
        _held_witness(needs),
        step(
            "facts",
            "Facts of documents, and numbers in them, that guards read.",
            "docid key fn num",
            """
            select w.docid, c.key1 as key, cast(null as string) as fn, cast(null as double) as num
            from held_witness w lateral view inline(w.chain) c as key1, key2, node1, node2
            where c.key1 <> 0 and c.key2 = 0
            union all
            select w.docid, w.var, w.fn, w.num from held_witness w where w.fn = '' and w.num is not null
            union all
            select w.docid, w.var, w.fn, min_by(w.num, w.node) from held_witness w where w.fn = 'string-length'
            group by w.docid, w.var, w.fn
            """,
        ),
        step(
            "held_literals",
            "Literals of guards that documents satisfy, once each.",
            "docid guard alternative literal literals",
            """
            select distinct f.docid, l.guard, l.alternative, l.literal, l.literals
            from facts f join xscl_guard_literals l on l.key = f.key
            where f.fn is not distinct from case when l.op = 'has' then null when l.op like 'length%'
                                                 then 'string-length' else '' end
              and case l.op when 'has' then true
                            when '<' then f.num < l.constant when '<=' then f.num <= l.constant
                            when '>' then f.num > l.constant when '>=' then f.num >= l.constant
                            when 'length >' then f.num > l.constant else f.num >= l.constant end
            """,
        ),
        step(
            "r_guard",
            "The guards that each document of the join state satisfies.",
            "docid guard",
            """
            select distinct docid, guard
            from (
              select docid, guard from held_literals
              group by docid, guard, alternative, literals having count(*) = literals
            )
            """,
        ),
    ]


# -- all ------------------------------------------------------------------------------------------------------------


def _feeds(_: Needs) -> list[Step]:
    return _stored("feeds", "Numbers of items and versions.", ["feed", "channel", "items", "versions"])


def _frontiers(_: Needs) -> list[Step]:
    columns = ["channel", "clock", "watermark", "source", "waiting"]
    return _stored("frontiers", "How far the times of channels are settled.", columns)


def _plan(_: Needs) -> list[Step]:
    return _stored("plan", "What runs for live queries.", PLAN_COLUMNS)


_RELATIONS: Mapping[str, Callable[[Needs], list[Step]]] = MappingProxyType(
    {
        "batches": _of_table(tables.BATCHES, "Batches, and what each took.", "result_path"),
        "changes": change_steps,
        "channels": _of_table(tables.CHANNELS, "Channels.", "former"),
        "events": _events,
        "feed_clocks": _of_table(tables.FEED_CLOCKS, "Clocks and lateness of feeds in channels with lateness auto."),
        "feeds": _feeds,
        "frontiers": _frontiers,
        "guards": _of_table(tables.GUARDS, "Guards of blocks.", "alternatives"),
        "heartbeats": _of_table(tables.HEARTBEATS, "Heartbeats of channels, by place."),
        "late": _of_table(tables.LATE, "Late events.", "number"),
        "match_members": member_steps,
        "matches": match_steps,
        "matches_all": all_match_steps,
        "plan": _plan,
        "queries": _of_table(tables.QUERIES, "Queries, also dropped ones.", "names", "digest", "held_from"),
        "r_bin": _r_bin,
        "r_doc": _r_doc,
        "r_docts": _r_docts,
        "r_guard": _r_guard,
        "r_member": _r_member,
        "r_ordinal": _r_ordinal,
        "rejected": _of_table(tables.REJECTED, "Input that was refused.", "number"),
        "removals": _of_table(tables.REMOVALS, "Removed events, by place."),
        "streams": _of_table(tables.STREAMS, "Streams of channels."),
        "templates": _of_table(tables.TEMPLATES, "Query templates."),
        "variables": _of_table(tables.VARIABLES, "Variables of queries.", "key"),
    }
)
RELATION_NAMES = tuple(_RELATIONS)
"""Relations of every home; ``rt_<template>`` and ``rout_<template>`` come with templates."""
