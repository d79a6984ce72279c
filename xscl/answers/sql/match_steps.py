"""Steps of the relations ``matches`` and ``rout_<template>``.

A batch stores combinations of documents, each with the number of its class, and once for each class its rows of R_out
and its matches, with their groups (``templates.results``).  Both meet here so that no step makes, carries or shuffles
a row that a statement does not ask for:

1. *Combinations* get facts of their documents: times, and the members' ids.  A statement that asks for none of these
   reads no event.
2. *Classes* get the queries that have their groups.
3. Both meet in one join by class.  That join comes last, so its many rows are used as they come.

Spark leaves out columns that no later step reads, so steps compute columns freely; steps with a join of their own are
left out here.  Combinations compress so well that Spark takes a million of them for few bytes and would send them to
all executors; hints have them sorted and merged instead.  For a statement that only counts matches, the combinations
of each class are counted first.
"""

from __future__ import annotations

from dataclasses import replace

from xscl.answers.sql.combination_steps import combinations, documents, held_events
from xscl.answers.sql.seen_steps import FOUND, LISTED, SEEN, classes, found, found_matches, group_rows
from xscl.answers.sql.steps import Needs, Step, chained, commas, step
from xscl.templates.template import Template

__all__ = [
    "all_match_steps",
    "change_steps",
    "count_steps",
    "match_steps",
    "member_steps",
    "output_steps",
    "rout_steps",
]

_MATCHES = "match qid ts_min ts_max received_min received_max docids nodes replaces batch"


def match_steps(needs: Needs) -> list[Step]:
    """Define the relation ``matches``: ids are the same digests as ``results.match_id``.

    A column that costs something and is not asked for is NULL.
    """
    about = "Matches of each query that hold."
    return chained([*found_matches(needs), step("matches", about, _MATCHES, _select(_MATCHES))])


def all_match_steps(needs: Needs) -> list[Step]:
    """Define the relation ``matches_all``: as ``matches``, with those that were taken back."""
    about = "Matches of each query, also those that were taken back."
    every = found_matches(replace(needs, retracted=False))
    return chained([*every, step("matches_all", about, _MATCHES, _select(_MATCHES))])


def change_steps(needs: Needs) -> list[Step]:
    """Define the relation ``changes``: matches that came, and matches that were taken back."""
    came = "admitted" if needs.timed else "found"
    needs = replace(needs, members=True, replaces=False, repeats=False, retracted=True)
    return chained(
        [
            *found_matches(needs),
            step(
                "told",
                "Matches by the batch that found them, and by the batch that took them back.",
                "match qid kind because channel id batch",
                f"""
                select match, qid, 'insert' as kind, cast(null as string) as because, cast(null as string) as channel,
                       cast(null as string) as id, batch from {came}
                union all
                select match, qid, 'retract', because, channel, id, batch
                from retracted r left semi join {came} f
                  on f.match = r.match and f.query = r.query and f.batch < r.batch
                """,
            ),
            step(
                "changes",
                "The same, with the last place of each batch.",
                "match qid kind because channel id batch place",
                """
                select t.match, t.qid, t.kind, t.because, t.channel, t.id, t.batch, b.last as place
                from told t join xscl_batches b on b.batch = t.batch
                """,
            ),
        ]
    )


def member_steps(needs: Needs) -> list[Step]:
    """Define the relation ``match_members``: documents of matches, by which they are joined with channels.

    A column that costs something and is not asked for is NULL.
    """
    unknown = "cast(null as string) as channel, cast(null as string) as id, cast(null as int) as version"
    joined = "join held_events e on e.docid = m.docid" if needs.facts else ""
    events = held_events(needs)
    steps = chained(
        [
            *found_matches(needs),
            step(
                "matches",
                "Matches of each query.",
                "match qid docids batch",
                "select match, qid, docids, batch from previous_step",
            ),
            step(
                "match_members",
                "Documents of matches, one row for each block.",
                "match qid block docid channel id version batch",
                f"""
                select m.match, m.qid, m.block, m.docid, {"e.channel, e.id, e.version" if joined else unknown}, m.batch
                from (
                  select match, qid, batch, block, docid from matches lateral view posexplode(docids) p as block, docid
                ) m {joined}
                """,
            ),
        ]
    )
    has_events = any(each.name == events.name for each in steps)
    return steps if has_events or not joined else [events, *steps]


def output_steps(needs: Needs) -> list[Step]:
    """Define the rows that ``Engine.matches_df`` builds its rows from.

    The statement has the parameters ``query`` (a name), ``since`` and ``until`` (microseconds), which may be NULL.
    """
    return chained(
        [
            *found_matches(needs, f"({LISTED} or qid = :query)"),
            step(
                "wanted_matches",
                "The matches of the query and times that are asked for.",
                FOUND,
                f"""
                select {commas(FOUND)} from previous_step
                where (:query is null or qid = :query)
                  and (:since is null or ts_max >= :since) and (:until is null or ts_max <= :until)
                """,
            ),
            step(
                "matches_with_documents",
                "Each of these matches, with the documents of its members in block order.",
                "match query ts_min ts_max replaces nodes witness batch members",
                """
                select match, any_value(m.query) as query, any_value(ts_min) as ts_min, any_value(ts_max) as ts_max,
                       any_value(replaces) as replaces, any_value(nodes) as nodes, any_value(witness) as witness,
                       any_value(batch) as batch,
                       array_sort(collect_list(struct(m.place, e.docid, e.channel, e.id, e.ts, e.content))) as members
                from (select * from wanted_matches lateral view posexplode(docs) p as place, docid) m
                join held_events e on e.docid = m.docid
                group by match
                having count(*) = any_value(size(docs))
                """,
            ),
            step(
                "outputs",
                "The same, with the query's row of the catalogue.",
                "match ts_min ts_max replaces nodes witness batch members subscriber",
                """
                select m.match, m.ts_min, m.ts_max, m.replaces, m.nodes, m.witness, m.batch, m.members,
                       struct(q.*) as subscriber
                from matches_with_documents m join xscl_queries q on q.query = m.query
                """,
            ),
        ]
    )


def count_steps() -> list[Step]:
    """Define the relation that stands for ``matches`` where they are only counted: (qid, batch, counted_rows).

    A class counts once for a query that sees all its combinations; of others each is looked at.
    """
    return [
        documents(),
        step(
            "class_sizes",
            "The number of combinations of each class, and the first and last places of all their members.",
            "origin class total first last",
            """
            select origin, class, count(*) as total, min(first) as first, max(last) as last
            from documents group by origin, class
            """,
        ),
        *classes(group_rows("xscl_results", "match"), LISTED),
        step(
            "classes_seen_in_part",
            "The classes of which a query does not see every combination.",
            "origin class qid batch after docid_until",
            f"""
            select c.origin, c.class, c.qid, c.batch, c.after, c.docid_until
            from classes c join class_sizes m on m.origin = c.origin and m.class = c.class and not ({SEEN})
            """,
        ),
        step(
            "matches",
            "The counts of whole classes, and one for each combination of the others.",
            "qid batch counted_rows",
            f"""
            select c.qid, c.batch, m.total as counted_rows
            from classes c join class_sizes m on m.origin = c.origin and m.class = c.class and {SEEN}
            union all
            select /*+ MERGE(m) */ c.qid, c.batch, 1L as counted_rows
            from classes_seen_in_part c join documents m on m.origin = c.origin and m.class = c.class and {SEEN}
            """,
        ),
    ]


def rout_steps(template: Template, needs: Needs) -> list[Step]:
    """Define the relation ``rout_<template>``, whose rows have no facts of members."""
    # Spark may look at combinations of fewer documents before it leaves them out.
    docs = [f"get(docs, {i}) as docid{i + 1}" for i in range(template.block_count)]
    nodes = [f"get(nodes, {i}) as node{i + 1}" for i in range(template.width)]
    names = [text.split()[-1] for text in (*docs, *nodes)]
    return chained(
        [
            *combinations(replace(needs, members=False, replaces=False, repeats=False)),
            *_template_rows(template),
            *classes(group_rows("single_rows", "rout")),
            *found(needs),
            step(
                "first_found",
                "Each row with the first batch that found it.",
                "qid case docs nodes batch",
                "select qid, case, docs, nodes, min(batch) as batch from previous_step group by qid, case, docs, nodes",
            )
            if needs.repeats
            else None,
            step(
                f"rout_{template.id}",
                "Rows of R_out of each query.",
                " ".join(["qid case", *names, "batch"]),
                f"select qid, case, {', '.join(docs + nodes)}, batch from previous_step",
            ),
        ]
    )


def _template_rows(template: Template) -> list[Step]:
    """Define the stored rows of R_out of a template, each written out."""
    places = [f"m{i}" for i in range(template.width)]
    stored = "origin class relation nodes others witness groups cases exchange"
    return [
        step(
            "stored_rows",
            "Stored rows of R_out of the template's instances.",
            stored,
            f"""
            select {commas(stored)} from xscl_results
            where relation = 'rout' and instance in (select iid from xscl_instances where template = '{template.id}')
            """,
        ),
        step(
            "single_rows",
            "The same, with a row for each choice where several nodes stand alike.",
            "origin class relation nodes witness groups cases exchange",
            f"""
            select origin, class, relation, nodes, witness, groups, cases, exchange
            from stored_rows where others is null
            union all
            select origin, class, relation, array({", ".join(places)}) as nodes, witness, groups, cases, exchange
            from (select * from stored_rows where others is not null)
            {" ".join(f"lateral view explode(others[{i}]) n{i} as {place}" for i, place in enumerate(places))}
            """,
        ),
    ]


def _select(columns: str) -> str:
    return f"select {commas(columns)} from previous_step"
