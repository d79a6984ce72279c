"""Texts of the views of relations, in Spark SQL.

A batch stores combinations of documents, each with the number of its class, and once for each class its rows of R_out
and its matches, with their groups (``templates.results``).  The relations ``rout_<template>`` and ``matches`` bring
both together so that nothing is made, carried or shuffled that a statement does not ask for:

1. *Combinations* get what is said of their documents: times, and the members' ids.  Nothing of it is read for a
   statement that asks for none of it.
2. *Classes* get the queries that have their groups.
3. Both meet in one join by class.  It comes last, so what it multiplies is used as it comes.

Combinations compress so well that Spark takes a million of them for few bytes and would send them to all executors;
hints have them sorted and merged instead.
For a statement that only counts matches, the combinations of each class are counted first.
"""

from __future__ import annotations

from dataclasses import dataclass

from xscl.base.docids import place_sql
from xscl.catalog.tables import NEVER
from xscl.templates.results import batch_sql
from xscl.templates.template import Template

__all__ = [
    "DOCS",
    "EVENTS",
    "HELD",
    "KEPT_EVENTS",
    "OUTPUTS",
    "PLAIN_EVENTS",
    "R_BIN",
    "R_DOC",
    "R_DOCTS",
    "R_MEMBER",
    "VERSIONS",
    "Asked",
    "match_counts_text",
    "matches_text",
    "rout_text",
]

_VAR = "lpad(lower(hex({0})), 16, '0')"

# Spark's lexer takes no >> after the word array.
_IN_BATCHES = f"""
with placed as (
  select e.*, b.batch from xscl_events e left join xscl_batches b on {place_sql("e.docid")} between b.first and b.last
)
select e.docid, e.channel, e.id, e.version, e.item, e.ts, e.declared, e.time_source, e.received, e.late,"""
PLAIN_EVENTS = f"""{_IN_BATCHES}
       cast(array() as array<string>) as member, e.batch, e.content
from placed e
"""
"""``events`` of a home without streams."""
# An event and its later copies have channel and id in common; what belongs to it are the streams of all of them.
EVENTS = f"""{_IN_BATCHES}
       array_sort(array_union(coalesce(m.names, array()), coalesce(c.names, array()))) as member, e.batch, e.content
from placed e
left join xscl_memberships m on m.number = e.membership and m.channel = e.channel
left join (
  select e.channel, e.id, flatten(collect_list(m.names)) as names
  from xscl_events e join xscl_memberships m on m.number = e.membership and m.channel = e.channel and not m.whole
  group by e.channel, e.id
) c on c.channel = e.channel and c.id = e.id
where coalesce(m.whole, true)
"""
"""``events``."""
KEPT_EVENTS = f"""
select /*+ BROADCAST(c) */ e.* from {{events}} e left join xscl_channels c on c.name = e.channel
where c.kept_from is null or e.ts >= c.kept_from or {place_sql("e.docid")} > {{processed}}
"""
"""Events of ``{events}`` that are held, where ``{processed}`` is the last place of a batch."""
R_DOCTS = f"""
select e.docid, e.ts, e.channel, e.id, e.item, e.late, coalesce(m.whole, true) as whole
from xscl_events e left join xscl_memberships m on m.number = e.membership and m.channel = e.channel
where {place_sql("e.docid")} <= {{processed}}
"""
"""``r_docts``."""
R_MEMBER = f"""
select e.docid, s.col as stream
from xscl_events e join xscl_memberships m on m.number = e.membership and m.channel = e.channel
lateral view explode(m.streams) s
where {place_sql("e.docid")} <= {{processed}}
"""
"""``r_member``."""
R_BIN = f"""
select distinct w.docid, {_VAR.format("c.var1")} as var1, {_VAR.format("c.var2")} as var2, c.node1, c.node2
from xscl_witness w lateral view inline(w.chain) c as var1, var2, node1, node2
where c.var1 <> 0
"""
"""``r_bin``."""
R_DOC = "select distinct docid, node, fn, strval, num from xscl_witness where fn is not null and var <> 0"
"""``r_doc``."""
HELD = """
select /*+ BROADCAST(f) */ w.* from {rows} w join {floors} f on w.var = f.var and w.ts >= f.floor where not w.late
"""
"""Witness rows of ``{rows}`` that ``{floors}`` leave in sight."""
_MEMBER = "concat(sha2({0}.channel, 256), sha2({0}.id, 256))"
# Of events that are newer versions: where they came, and what the version before is as a member.
VERSIONS = f"""
select e.docid, {place_sql("e.docid")} as at, v.member
from xscl_events e
left join (
  select distinct a.channel, a.item, a.version, {_MEMBER.format("a")} as member from xscl_events a
) v on v.channel = e.channel and v.item = e.item and v.version = e.version - 1
where e.version > 1
"""
"""``xscl_versions``."""
OUTPUTS = """
select m.match, m.ts_min, m.ts_max, m.replaces, m.nodes, m.witness, m.batch, m.members, struct(q.*) as subscriber
from (
  select match, any_value(number) as number, any_value(ts_min) as ts_min, any_value(ts_max) as ts_max,
         any_value(replaces) as replaces, any_value(nodes) as nodes, any_value(witness) as witness,
         any_value(batch) as batch,
         array_sort(collect_list(struct(f.place, e.docid, e.channel, e.id, e.ts, e.content))) as members
  from (select * from {found} lateral view posexplode(docs) p as place, docid) f join xscl_events e on e.docid = f.docid
  group by match
  having count(*) = any_value(size(docs))
) m join xscl_queries q on q.query = m.number
"""
"""Matches of ``{found}`` with the documents of their members in block order, and their queries."""
_PLACE_1, _PLACE_2 = place_sql("d1"), place_sql("d2")
_PLACES = f"transform(docs, d -> {place_sql('d')})"
# The lexer, again: the word array comes last.
DOCS = f"""
select origin, class,
       if(docs is null, least({_PLACE_1}, {_PLACE_2}), array_min({_PLACES})) as first,
       if(docs is null, greatest({_PLACE_1}, {_PLACE_2}), array_max({_PLACES})) as last,
       coalesce(docs, if(d2 is null, array(d1), array(d1, d2))) as docs
from xscl_results where relation = 'docs'
"""
"""``xscl_docs``: the combinations of documents, with the first and last places of their members."""

# As ``stored_matches.StoredMatch.is_seen_by``; each query stands once for each group whose matches it may have.
_SUBSCRIBERS = f"""
  select q.*, gid as asked, sees_from as after,
         coalesce(filled, if(sees_from < docid_from, {NEVER}, 0)) as since from xscl_queries q
  union all
  select q.*, history as asked, 0 as after, 0 as since from xscl_queries q where history is not null
"""
_CLASSES = f"""
select c.*, q.qid, q.query, q.digest, q.after, q.docid_until, q.docid_from, q.ts_from, q.held_from
from (
  select r.origin, r.class, r.instance, r.nodes, r.witness, {batch_sql("r.origin")} as batch, {{group}}
  from {{results}} r lateral view explode({{groups}}) g
  where r.relation = {{relation}}
) c join ({_SUBSCRIBERS}) q
  on q.asked = c.gid and c.batch >= q.since and c.batch <= coalesce(q.ended, {NEVER})
"""
_MATCH_CLASSES = _CLASSES.format(results="xscl_results", relation="'match'", groups="r.groups", group="g.col as gid")
_SEEN = "m.first > c.after and m.last < c.docid_until"
# As ``catalog.QueryInfo.admits``.
_ADMITS = """ and not exists(m.times, t -> coalesce(t.ts < c.ts_from, false) or coalesce(
  t.at <= c.docid_from and t.ts < try_element_at(from_json(c.held_from, 'map<string, bigint>'), t.channel), false))"""
# To Spark's lexer a ">>" behind the word struct is the end of two types.
_TIMES = f"collect_list(named_struct('channel', e.channel, 'at', {place_sql('d.docid')}, 'ts', e.ts)) as times"
# A copy by another stream is no event of its own, and stands for the event.
_COPIES = """left join (
  select a.docid as copy, w.docid
  from xscl_events a
  join xscl_memberships m on m.number = a.membership and m.channel = a.channel and not m.whole
  join xscl_events w on w.channel = a.channel and w.id = a.id
  left join xscl_memberships n on n.number = w.membership and n.channel = w.channel
  where coalesce(n.whole, true)
) w on w.copy = d.docid
"""
_SHOWN = "transform(array_sort(collect_list(struct(d.place, coalesce(w.docid, d.docid) as docid))), m -> m.docid)"
_NEWEST = "max_by(struct(d.place, v.member), struct(v.at, v.docid)) filter (where v.docid is not null)"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the views of matches have to tell, and what of the home they must heed."""

    members: bool = True
    """Times, ids and documents of the members are asked for."""
    replaces: bool = False
    """Which match a match replaces is asked for, and there are newer versions."""
    streams: bool = False
    """Events may be copies of others."""
    kept: bool = False
    """Matches of some time are hidden."""
    timed: bool = False
    """Some query starts at a time, or when events were held no longer."""
    repeats: bool = False
    """A query that starts with what is held was registered again, and so has some matches again."""

    @property
    def reads_events(self) -> bool:
        """Whether combinations of documents are not enough."""
        return self.members or self.replaces or self.kept or self.timed or self.repeats


def _combinations(asked: Asked) -> str:
    """Combinations of documents, and what is said of their documents, whatever their number.

    Members are in block order, as in match ids.  With ``replaces`` also what the members are like with the version
    before in place of the newer one that came last (``replacements``).
    """
    if not asked.reads_events:
        return "select origin, class, docs, docs as shown, first, last from xscl_docs"
    kept = "join xscl_channels h on h.name = e.channel\n" if asked.kept else ""
    having = "having count(*) = size(d.docs) and bool_and(e.ts >= coalesce(h.kept_from, e.ts))" if asked.kept else ""
    return f"""
select *, array_join(transform(placed, m -> m.member), '') as members,
       if(newest.member is null, null,
          array_join(transform(placed, m -> if(m.place = newest.place, newest.member, m.member)), '')) as before
from (
  select /*+ MERGE(d) */ d.origin, d.class, d.docs, d.first, d.last, {_TIMES + "," if asked.timed else ""}
         min(e.ts) as ts_min, max(e.ts) as ts_max, min(e.received) as received_min, max(e.received) as received_max,
         {_SHOWN if asked.streams else "d.docs"} as shown,
         array_sort(collect_list(struct(d.place, {_MEMBER.format("e")} as member))) as placed,
         {_NEWEST if asked.replaces else "cast(null as struct<place: int, member: string>)"} as newest
  from (select * from xscl_docs lateral view posexplode(docs) p as place, docid) d
  join xscl_events e on e.docid = d.docid
  {kept}{_COPIES if asked.streams else ""}{"left join xscl_versions v on v.docid = d.docid" if asked.replaces else ""}
  group by d.origin, d.class, d.docs, d.first, d.last
  {having}
)
"""


def matches_text(asked: Asked, *, built: bool = False) -> str:
    """Define the relation ``matches``: ids are the same digests as ``stored_matches.match_id``.

    A column that is not asked for is NULL, if it costs something.  With ``built`` there are the columns that outputs
    are built from, too: ``docs``, ``witness`` and ``number``, the query's.
    """
    told = asked.reads_events
    columns: dict[str, str | None] = {
        "match": "substring(sha2(concat(c.digest, m.members, array_join(c.nodes, ',')), 256), 1, 32)" if told else None,
        "qid": "c.qid",
        **{name: f"m.{name}" if told else None for name in ("ts_min", "ts_max", "received_min", "received_max")},
        "docids": "m.shown",
        "nodes": "c.nodes",
        "replaces": "cast(null as string)",
        **({"docs": "m.docs", "witness": "c.witness", "number": "c.query"} if built else {}),
        "batch": "c.batch",
    }
    named = [f"{text or 'null'} as {name}" for name, text in columns.items()]
    if asked.replaces:
        named += ["c.query", "m.members", "m.before"]
    found = f"""
select /*+ MERGE(m) */ {", ".join(named)}
from ({_combinations(asked)}) m
join ({_MATCH_CLASSES}) c on c.origin = m.origin and c.class = m.class and {_SEEN}{_ADMITS if asked.timed else ""}
"""
    if asked.replaces:
        before = "coalesce(get(filter(o.matches, m -> m.nodes = f.nodes), 0).match, get(o.matches, 0).match)"
        shown = [f"{before} as replaces" if name == "replaces" else f"f.{name}" for name in columns]
        found = f"""
with found as ({found}),
older as (
  select query, members, array_sort(collect_list(struct(match, nodes))) as matches from found group by query, members
)
select {", ".join(shown)}
from found f left join older o on o.query = f.query and o.members = f.before
"""
    if not asked.repeats:
        return found
    if built:  # Queries of one name and text may have one match with different witnesses.
        turn = "row_number() over (partition by match order by batch, number)"
        return f"select * except (turn) from (select *, {turn} as turn from ({found})) where turn = 1"
    return _once(found)


def match_counts_text() -> str:
    """Define the relation that stands for ``matches`` where they are only counted: (qid, batch, counted_rows).

    A class counts once for a query that sees all its combinations; of others each is looked at.
    """
    return f"""
with class_docs as (
  select origin, class, count(*) as total, min(first) as first, max(last) as last from xscl_docs group by origin, class
),
classes as ({_MATCH_CLASSES})
select c.qid, c.batch, m.total as counted_rows
from classes c join class_docs m on m.origin = c.origin and m.class = c.class and {_SEEN}
union all
select /*+ MERGE(m) */ c.qid, c.batch, 1L as counted_rows
from (
  select c.* from classes c join class_docs m on m.origin = c.origin and m.class = c.class and not ({_SEEN})
) c join xscl_docs m on m.origin = c.origin and m.class = c.class and {_SEEN}
"""


def rout_text(template: Template, asked: Asked) -> str:
    """Define the relation ``rout_<template>``; of ``asked``, what is asked of members is not heeded."""
    docs = [f"m.docs[{i}] as docid{i + 1}" for i in range(template.block_count)]
    nodes = [f"c.nodes[{i}] as node{i + 1}" for i in range(template.width)]
    heeded = Asked(members=False, kept=asked.kept, timed=asked.timed)
    mine = f"(select iid from xscl_instances where template = '{template.id}')"
    # Where nodes stand alike, a stored row has a list of them for each place.
    expanded = "".join(f"\n    lateral view explode(s.others[{i}]) n{i} as m{i}" for i in range(template.width))
    one_by_one = ", ".join(f"m{i}" for i in range(template.width))
    classes = _CLASSES.format(
        results=f"""(
    select s.relation, s.origin, s.class, s.instance, s.nodes, s.witness, s.groups, s.cases
    from xscl_results s where s.others is null
    union all
    select s.relation, s.origin, s.class, s.instance, array({one_by_one}) as nodes, s.witness, s.groups, s.cases
    from (select * from xscl_results where relation = 'rout' and others is not null and instance in {mine}) s{expanded}
  )""",
        relation=f"'rout' and r.instance in {mine}",
        groups="arrays_zip(r.groups, r.cases)",
        group="g.col.groups as gid, g.col.cases as case",
    )
    text = f"""
select /*+ MERGE(m) */ c.qid, c.case, {", ".join(docs + nodes)}, c.batch
from ({_combinations(heeded)}) m
join ({classes}) c on c.origin = m.origin and c.class = m.class and {_SEEN}{_ADMITS if asked.timed else ""}
"""
    return _once(text) if asked.repeats else text


def _once(text: str) -> str:
    """Keep the first batch of the rows of a view whose last column is ``batch``."""
    return f"select * except (batch), min(batch) as batch from ({text}) group by all"
