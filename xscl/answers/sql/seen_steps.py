"""Steps that bring combinations of documents and the classes of queries together: the matches that queries see."""

from __future__ import annotations

from xscl.answers.sql.combination_steps import combinations
from xscl.answers.sql.steps import Needs, Step, commas, step
from xscl.catalog.tables import NEVER
from xscl.language.facts import SUB_QUERIES
from xscl.templates.origins import batch_sql

__all__ = ["FOUND", "LISTED", "SEEN", "classes", "found", "found_matches", "group_rows"]

SEEN = "m.first > c.after and m.last < c.docid_until"
"""Condition under which a query (``c``) sees all members of a combination (``m``)."""
LISTED = f"not startswith(qid, '{SUB_QUERIES}')"
"""Condition that a query is no sub-query: listings leave out the matches of those."""
FOUND = (
    "match query qid case ts_min ts_max received_min received_max docids docs nodes witness replaces batch "
    "members before times docid_from ts_from held_from"
)


def found_matches(needs: Needs, wanted: str = LISTED) -> list[Step | None]:
    """Define matches of each query, without those that were taken back where a statement asks only for what holds.

    ``wanted`` is a condition on queries.
    """
    return [
        *combinations(needs),
        *classes(group_rows("xscl_results", "match"), wanted),
        *found(needs),
        *(_holding("admitted" if needs.timed else "found") if needs.retracted else ()),
        *(
            _replacements("holding" if needs.retracted else "admitted" if needs.timed else "found")
            if needs.replaces
            else ()
        ),
        step(
            "first_found",
            "Each match with the first batch that found it.",
            FOUND,
            f"""
            select {commas(FOUND)}
            from (select *, row_number() over (partition by match order by batch, query) as turn from previous_step)
            where turn = 1
            """,
        )
        if needs.repeats
        else None,
    ]


# -- classes --------------------------------------------------------------------------------------------------------


def group_rows(rows: str, relation: str) -> Step:
    """Define the rows of a relation of classes, once for each group that has them."""
    groups = (
        ("r.groups", "g.col", "null", "coalesce(r.later, 0)")
        if relation == "match"
        else ("arrays_zip(r.groups, r.cases)", "g.col.groups", "g.col.cases", "0L")
    )
    exploded, gid, case, later = groups
    return step(
        "group_rows",
        "The nodes of each class, once for each group that has them.",
        "origin class nodes witness batch exchange gid case later",
        f"""
        select r.origin, r.class, r.nodes, r.witness, {batch_sql("r.origin")} as batch, r.exchange,
               {gid} as gid, {case} as case, {later} as later
        from {rows} r lateral view explode({exploded}) g
        where r.relation = '{relation}'
        """,
    )


def classes(of_groups: Step, wanted: str | None = None) -> list[Step]:
    """Define the rows of classes, once for each query that may see them; ``wanted`` is a condition on queries."""
    chosen, also = ("", "") if wanted is None else (f" where {wanted}", f" and {wanted}")
    return [
        of_groups,
        step(
            "subscribers",
            # As ``results.StoredMatch.is_seen_by``.
            "Each query once for each group whose matches it may have, and the batches of these.",
            "query qid digest gid after since ended docid_until docid_from ts_from held_from",
            f"""
            select query, qid, digest, gid, sees_from as after,
                   coalesce(filled, if(sees_from < docid_from, {NEVER}, 0)) as since, coalesce(ended, {NEVER}) as ended,
                   docid_until, docid_from, ts_from, held_from
            from xscl_queries{chosen}
            union all
            select query, qid, digest, history as gid, 0 as after, 0 as since, coalesce(ended, {NEVER}) as ended,
                   docid_until, docid_from, ts_from, held_from
            from xscl_queries where history is not null{also}
            """,
        ),
        step(
            "classes",
            "The nodes of each class, once for each query that may see them.",
            "origin class nodes witness batch case later query qid digest after docid_until docid_from ts_from "
            "held_from",
            """
            select c.origin, c.class, c.nodes, c.witness, c.batch, c.case, c.later, q.query, q.qid, q.digest, q.after,
                   q.docid_until, q.docid_from, q.ts_from, q.held_from
            from group_rows c join subscribers q on q.gid = c.gid and c.batch >= q.since and c.batch <= q.ended
              and q.after >= coalesce(c.exchange, 0)
            """,
        ),
    ]


# -- both -----------------------------------------------------------------------------------------------------------


def found(needs: Needs) -> list[Step | None]:
    """Define the rows that queries see: combinations and classes brought together."""
    rows = "whole_combinations" if needs.kept else "combinations"
    return [
        step(
            "found",
            "Combinations, once for each query that sees all their members.",
            FOUND,
            f"""
            select /*+ MERGE(m) */
                   substring(sha2(concat(c.digest, m.members, array_join(c.nodes, ',')), 256), 1, 32) as match,
                   c.query, c.qid, c.case, m.ts_min, m.ts_max + c.later as ts_max,
                   m.received_min, m.received_max, m.docids, m.docs, c.nodes, c.witness,
                   cast(null as string) as replaces, c.batch, m.members, m.before, m.times,
                   c.docid_from, c.ts_from, c.held_from
            from {rows} m join classes c on c.origin = m.origin and c.class = m.class and {SEEN}
            """,
        ),
        step(
            "admitted",
            # As ``catalog.QueryInfo.admits``.
            "Those whose members are not from before the time at which the query starts.",
            FOUND,
            f"""
            select {commas(FOUND)} from found
            where not exists(times, t -> coalesce(t.ts < ts_from, false) or coalesce(
              t.came <= docid_from and t.ts < try_element_at(from_json(held_from, 'map<string, bigint>'), t.channel),
              false))
            """,
        )
        if needs.timed
        else None,
    ]


def _holding(found: str) -> list[Step]:
    return [
        step(
            "retracted",
            # As ``matches.reader.MatchReader``.
            "Matches that were taken back, once for each query that may have had them.",
            "match query qid because channel id batch",
            """
            select substring(sha2(concat(q.digest, r.members, r.nodes), 256), 1, 32) as match, q.query, q.qid,
                   r.because, r.channel, r.id, r.batch
            from xscl_retractions r join subscribers q on q.gid = r.gid
              and r.batch >= q.since and r.batch <= q.ended
              and r.first > q.after and r.last < q.docid_until and r.place < q.docid_until
              and q.after >= coalesce(r.exchange, 0)
            """,
        ),
        step(
            "holding",
            "Matches that no later batch has taken back.",
            FOUND,
            f"""
            select {commas(FOUND)}
            from {found} f left anti join retracted r
              on r.match = f.match and r.query = f.query and r.batch > f.batch
            """,
        ),
    ]


def _replacements(found: str) -> list[Step]:
    others = ", ".join(f"f.{name}" for name in FOUND.split() if name != "replaces")
    shown = FOUND.replace("replaces ", "") + " replaces"
    return [
        step(
            "older",
            "The matches of each query and combination, by which newer ones find what they replace.",
            "query members matches",
            f"""
            select query, members, array_sort(collect_list(struct(match, nodes))) as matches
            from {found} group by query, members
            """,
        ),
        step(
            "replacing",
            "Each match with the one that it replaces: with the same nodes, or else with the least id.",
            shown,
            f"""
            select {others},
                   coalesce(get(filter(o.matches, m -> m.nodes = f.nodes), 0).match, get(o.matches, 0).match)
                     as replaces
            from {found} f left join older o on o.query = f.query and o.members = f.before
            """,
        ),
    ]
