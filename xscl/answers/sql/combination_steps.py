"""Steps of combinations of documents: their events, and facts of their members for matches."""

from __future__ import annotations

from xscl.answers.sql.steps import Needs, Step, commas, step
from xscl.base.docids import place_sql
from xscl.language.facts import SUB_QUERIES

__all__ = ["combinations", "documents", "held_events"]

_COMBINATION = "origin class first last docs docids ts_min ts_max received_min received_max found times members before"
_MEMBER = "origin class first last docs place docid channel ts received member shown newer"
_OF_MEMBER = ", ".join(f"m.{name}" for name in _MEMBER.split()[:-2])
"""All columns of a member but ``shown`` and ``newer``."""


def _digests(of: str = "") -> str:
    """Write a member's part of a match's id, as ``results.member_digests`` has it."""
    plain = f"if(startswith({of}channel, '{SUB_QUERIES}'), regexp_replace({of}channel, '[.][0-9]+$', ''), {of}channel)"
    return f"concat(sha2({plain}, 256), sha2({of}id, 256))"


def documents() -> Step:
    """Define the stored combinations of documents."""
    return step(
        "documents",
        "Combinations of documents that are of one class, with the first and last places of their members.",
        "origin class first last docs",
        f"""
        select origin, class,
               if(docs is null, least(p1, p2), array_min(places)) as first,
               if(docs is null, greatest(p1, p2), array_max(places)) as last,
               coalesce(docs, if(d2 is null, array(d1), array(d1, d2))) as docs
        from (
          select origin, class, d1, d2, docs, {place_sql("d1")} as p1, {place_sql("d2")} as p2,
                 transform(docs, d -> {place_sql("d")}) as places
          from xscl_results where relation = 'docs'
        )
        """,
    )


def held_events(needs: Needs, *, waiting: bool = False) -> Step:
    """Define the events that channels still show, with ``waiting`` also those that no batch has processed."""
    columns = "docid channel id version item ts declared time_source received late membership content"
    if not needs.kept:
        return step("held_events", "All events.", columns, f"select {commas(columns)} from xscl_events")
    unprocessed = f" or {place_sql('e.docid')} > {needs.processed}" if waiting else ""
    return step(
        "held_events",
        "Events that their channel's retention still shows.",
        columns,
        f"""
        select /*+ BROADCAST(c) */ {", ".join(f"e.{name}" for name in columns.split())}
        from xscl_events e left join xscl_channels c on c.name = e.channel
        where c.kept_from is null or e.ts >= c.kept_from{unprocessed}
        """,
    )


def combinations(needs: Needs) -> list[Step | None]:
    """Define combinations with facts of their documents, whatever their number, for which events are read."""
    if not needs.reads_events:
        return [
            documents(),
            step(
                "combinations",
                "Combinations, of whose members no fact is asked.",
                _COMBINATION,
                """
                select origin, class, first, last, docs, docs as docids,
                       cast(null as bigint) as ts_min, cast(null as bigint) as ts_max,
                       cast(null as bigint) as received_min, cast(null as bigint) as received_max, null as found,
                       null as times, cast(null as string) as members, cast(null as string) as before
                from documents
                """,
            ),
        ]
    return [
        held_events(needs),
        documents(),
        *_members(needs),
        *_grouped_members(needs),
        step(
            "whole_combinations",
            "Combinations all of whose members are still shown.",
            _COMBINATION,
            f"select {commas(_COMBINATION)} from previous_step where found = size(docs)",
        )
        if needs.kept
        else None,
    ]


def _members(needs: Needs) -> list[Step | None]:
    """Define the members of combinations: one row for each combination and block."""
    found = step(
        "members",
        "Members of combinations with their events; place is the block's, member the member's part of a match's id.",
        _MEMBER,
        f"""
        select /*+ MERGE(d) */ d.origin, d.class, d.first, d.last, d.docs, d.place, d.docid, e.channel, e.ts,
               e.received, {_digests("e.")} as member, d.docid as shown,
               cast(null as struct<came: bigint, docid: bigint, place: int, member: string>) as newer
        from (
          select origin, class, first, last, docs, place, docid
          from documents lateral view posexplode(docs) p as place, docid
        ) d join held_events e on e.docid = d.docid
        """,
    )
    members = "shown_members" if needs.streams else "members"
    return [found, *(_copies() if needs.streams else ()), *(_versions(members) if needs.replaces else ())]


def _copies() -> list[Step]:
    """Define members that show the event itself in place of a copy of it."""
    return [
        step(
            "originals",
            "For each copy of an event that a stream brought, the event itself.",
            "copy docid",
            """
            select a.docid as copy, w.docid
            from held_events a
            join xscl_memberships m on m.number = a.membership and m.channel = a.channel and not m.whole
            join held_events w on w.channel = a.channel and w.id = a.id
            left join xscl_memberships n on n.number = w.membership and n.channel = w.channel
            where coalesce(n.whole, true)
            """,
        ),
        step(
            "shown_members",
            "Members, in place of a copy with the event itself as the document that is shown.",
            _MEMBER,
            f"""
            select {_OF_MEMBER}, coalesce(w.docid, m.shown) as shown, m.newer
            from members m left join originals w on w.copy = m.docid
            """,
        ),
    ]


def _versions(members: str) -> list[Step]:
    """Define members with their versions before."""
    return [
        step(
            "newer_versions",
            "Events that are newer versions: when each came, and its version before as a member.",
            "docid came member",
            f"""
            select e.docid, {place_sql("e.docid")} as came, v.member
            from held_events e
            left join (
              select distinct channel, item, version, {_digests()} as member
              from held_events
            ) v on v.channel = e.channel and v.item = e.item and v.version = e.version - 1
            where e.version > 1
            """,
        ),
        step(
            "versioned_members",
            "Members, with the version before where they are newer versions.",
            _MEMBER,
            f"""
            select {_OF_MEMBER}, m.shown,
                   if(v.docid is null, null, struct(v.came, v.docid, m.place, v.member)) as newer
            from {members} m left join newer_versions v on v.docid = m.docid
            """,
        ),
    ]


def _grouped_members(needs: Needs) -> list[Step]:
    """Define one row for each combination.

    Its members are in block order, as in match ids.  ``before`` has the members with the version before in place of
    the newer one that came last (``replacements``).
    """
    shown = "transform(shown, m -> m.shown)" if needs.streams else "docs"
    return [
        step(
            "grouped_members",
            "One row for each combination, with lists of its members; newest is the newer version that came last.",
            "origin class first last docs ts_min ts_max received_min received_max found times placed shown newest",
            f"""
            select origin, class, first, last, docs, min(ts) as ts_min, max(ts) as ts_max,
                   min(received) as received_min, max(received) as received_max, count(*) as found,
                   collect_list(struct(channel, {place_sql("docid")} as came, ts)) as times,
                   array_sort(collect_list(struct(place, member))) as placed,
                   array_sort(collect_list(struct(place, shown))) as shown,
                   max(newer) as newest
            from previous_step group by origin, class, first, last, docs
            """,
        ),
        step(
            "combinations",
            "The same, with the members' ids as one text: of now, and of the version before.",
            _COMBINATION,
            f"""
            select origin, class, first, last, docs, {shown} as docids, ts_min, ts_max, received_min, received_max,
                   found, times, array_join(transform(placed, m -> m.member), '') as members,
                   if(newest.member is null, null, array_join(
                     transform(placed, m -> if(m.place = newest.place, newest.member, m.member)), '')) as before
            from grouped_members
            """,
        ),
    ]
