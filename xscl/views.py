"""The relations of the architecture as Spark views, and read-only SQL over them.

Stored rows carry sets of groups; ``rout_<template>`` and ``matches`` fan them out to queries.  Views are made for the
relations a statement mentions, in a Spark session of their own, so that they hide nobody's tables.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from xscl.arrow import spark_schema
from xscl.errors import EngineError
from xscl.event_files import EVENT_SCHEMA
from xscl.executors import read_parquet, with_documents
from xscl.home import Home
from xscl.places import place_sql
from xscl.planner import row_shapes
from xscl.state import held_state
from xscl.streams import member_names
from xscl.tables import (
    BATCHES,
    CHANNELS,
    EVENT_IDS,
    INSTANCES,
    INTAKE_FILES,
    LATE,
    NEVER,
    QUERIES,
    REJECTED,
    STREAMS,
    TEMPLATES,
    VARIABLES,
)
from xscl.templates.relations import rt_table
from xscl.templates.results import RESULT_SCHEMA, batch_sql
from xscl.templates.template import Template
from xscl.xpath.witness import WITNESS_SCHEMA

if TYPE_CHECKING:
    from sqlalchemy import Table

__all__ = ["RELATION_NAMES", "sql_errors", "sql_session"]

_VAR = "lpad(lower(hex({0})), 16, '0')"

# Spark's lexer takes no >> after the word array.
_IN_BATCHES = f"""
with placed as (
  select e.*, b.batch from xscl_events e left join xscl_batches b on {place_sql("e.docid")} between b.first and b.last
)
select e.docid, e.channel, e.id, e.version, e.item, e.ts, e.declared, e.time_source, e.received, e.late,"""
_PLAIN_EVENTS = f"""{_IN_BATCHES}
       cast(array() as array<string>) as member, e.batch, e.content
from placed e
"""
# An event and its later copies have channel and id in common; what belongs to it are the streams of all of them.
_EVENTS = f"""{_IN_BATCHES}
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
_R_DOCTS = f"""
select e.docid, e.ts, e.channel, e.id, e.item, e.late, coalesce(m.whole, true) as whole
from xscl_events e left join xscl_memberships m on m.number = e.membership and m.channel = e.channel
where {place_sql("e.docid")} <= {{processed}}
"""
_R_MEMBER = f"""
select e.docid, s.col as stream
from xscl_events e join xscl_memberships m on m.number = e.membership and m.channel = e.channel
lateral view explode(m.streams) s
where {place_sql("e.docid")} <= {{processed}}
"""
_R_BIN = f"""
select distinct w.docid, {_VAR.format("c.var1")} as var1, {_VAR.format("c.var2")} as var2, c.node1, c.node2
from xscl_witness w lateral view inline(w.chain) c as var1, var2, node1, node2
"""
_R_DOC = "select distinct docid, node, fn, strval, num from xscl_witness where fn is not null and var <> 0"
_HELD = """
select /*+ BROADCAST(f) */ w.* from {rows} w join {floors} f on w.var = f.var and w.ts >= f.floor where not w.late
"""
_DOCS = """
select origin, class, coalesce(docs, filter(array(d1, d2), d -> d is not null)) as docs
from xscl_results where relation = 'docs'
"""
# Every combination of documents with what its class means, and the groups apart.
_STORED = f"""
select d.docs, c.instance, c.nodes, c.gid, c.case, {batch_sql("c.origin")} as batch
from (
  select r.*, g.col.groups as gid, g.col.cases as case
  from xscl_results r lateral view explode(arrays_zip(r.groups, r.cases)) g
  where r.relation = '{{relation}}'
) c join xscl_docs d on d.origin = c.origin and d.class = c.class
"""
_KEPT_EVENTS = f"""
select /*+ BROADCAST(c) */ e.* from {{events}} e left join xscl_channels c on c.name = e.channel
where c.kept_from is null or e.ts >= c.kept_from or {place_sql("e.docid")} > {{processed}}
"""
_PLACES = f"transform(r.docs, d -> {place_sql('d')})"
# As ``stored_matches.StoredMatch.is_seen_by``; each query stands once for each group whose matches it may have.
_SEEN = f"""
join (
  select q.*, gid as asked, sees_from as after,
         coalesce(filled, if(sees_from < docid_from, {NEVER}, 0)) as since from xscl_queries q
  union all
  select q.*, history as asked, 0 as after, 0 as since from xscl_queries q where history is not null
) q on q.asked = r.gid and array_min({_PLACES}) > q.after and array_max({_PLACES}) < q.docid_until
  and r.batch >= q.since and r.batch <= coalesce(q.ended, {NEVER})
"""
# Combinations whose members are all kept: what is older may be gone.
_KEPT = """
select d.docs
from (select docs, docid from (select distinct docs from xscl_docs) lateral view explode(docs) p as docid) d
join xscl_events e on e.docid = d.docid
join xscl_channels c on c.name = e.channel and e.ts >= coalesce(c.kept_from, e.ts)
group by d.docs
having count(*) = size(d.docs)
"""
# To Spark's lexer a ">>" behind the word struct is the end of two types.
_TIMES = f"collect_list(named_struct('channel', e.channel, 'at', {place_sql('d.docid')}, 'ts', e.ts)) as times"
# As ``catalog.QueryInfo.admits``.
_ADMITS = """not exists(m.times, t -> coalesce(t.ts < q.ts_from, false) or coalesce(
  t.at <= q.docid_from and t.ts < try_element_at(from_json(q.held_from, 'map<string, bigint>'), t.channel), false))"""
_IN_TIME = f"""left join (
  select d.docs, {_TIMES}
  from (select docs, explode(docs) as docid from (select distinct docs from xscl_docs)) d
  join xscl_events e on e.docid = d.docid group by d.docs
) m on m.docs = r.docs
where {_ADMITS}
"""
_ONLY_KEPT = "left semi join xscl_kept k on k.docs = r.docs"
_MEMBER = "concat(sha2({0}.channel, 256), sha2({0}.id, 256))"
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
# Of events that are newer versions: where they came, and what the version before is as a member.
_VERSIONS = f"""
select e.docid, {place_sql("e.docid")} as at, v.member
from xscl_events e
left join (
  select distinct a.channel, a.item, a.version, {_MEMBER.format("a")} as member from xscl_events a
) v on v.channel = e.channel and v.item = e.item and v.version = e.version - 1
where e.version > 1
"""
_JOIN_VERSIONS = "left join xscl_versions v on v.docid = d.docid\n"
_NEWEST = "max_by(struct(d.place, v.member), struct(v.at, v.docid)) filter (where v.docid is not null)"


def _members_text(*, streams: bool, versions: bool, timed: bool) -> str:
    """What is said of a match's documents, whatever their number; members in block order as in match ids.

    With ``versions`` also what the members are like with the version before in place of the newer one that came last
    (``replacements``).
    """
    shown = (
        "transform(array_sort(collect_list(struct(d.place, coalesce(w.docid, d.docid) as docid))), m -> m.docid)"
        if streams
        else "docs"
    )
    return f"""
select docs, ts_min, ts_max, received_min, received_max, shown, {"times," if timed else ""}
       array_join(transform(members, m -> m.member), '') as members,
       if(newest.member is null, null,
          array_join(transform(members, m -> if(m.place = newest.place, newest.member, m.member)), '')) as before
from (
  select docs, {_TIMES + "," if timed else ""}
         min(e.ts) as ts_min, max(e.ts) as ts_max, min(e.received) as received_min,
         max(e.received) as received_max, {shown} as shown,
         array_sort(collect_list(struct(d.place, {_MEMBER.format("e")} as member))) as members,
         {_NEWEST if versions else "cast(null as struct<place: int, member: string>)"} as newest
  from (
    select docs, place, docid
    from (select distinct docs from xscl_docs) lateral view posexplode(docs) p as place, docid
  ) d
  join xscl_events e on e.docid = d.docid
  {_COPIES if streams else ""}{_JOIN_VERSIONS if versions else ""}group by docs
)
"""


def _matches_text(*, streams: bool, versions: bool, kept: bool, timed: bool) -> str:
    """The relation ``matches``: ids are the same digests as ``stored_matches.match_id``."""
    found = f"""
select substring(sha2(concat(q.digest, m.members, array_join(r.nodes, ',')), 256), 1, 32) as match,
       q.qid, m.ts_min, m.ts_max, m.received_min, m.received_max, m.shown as docids,
       r.nodes, {"q.query, m.members, m.before" if versions else "cast(null as string) as replaces"}, r.batch
from ({_STORED.format(relation="match")}) r
{_ONLY_KEPT if kept else ""}
{_SEEN}
join ({_members_text(streams=streams, versions=versions, timed=timed)}) m on m.docs = r.docs
{"where " + _ADMITS if timed else ""}
"""
    if not versions:
        return found
    return f"""
with found as ({found}),
older as (
  select query, members, array_sort(collect_list(struct(match, nodes))) as matches from found group by query, members
)
select f.match, f.qid, f.ts_min, f.ts_max, f.received_min, f.received_max, f.docids, f.nodes,
       coalesce(get(filter(o.matches, m -> m.nodes = f.nodes), 0).match, get(o.matches, 0).match) as replaces, f.batch
from found f left join older o on o.query = f.query and o.members = f.before
"""


RELATION_NAMES = (
    "batches",
    "channels",
    "events",
    "feeds",
    "late",
    "matches",
    "queries",
    "r_bin",
    "r_doc",
    "r_docts",
    "r_member",
    "rejected",
    "streams",
    "templates",
    "variables",
)
"""Relations of every home; ``rt_<template>`` and ``rout_<template>`` come with templates."""

_MEMBERSHIPS = pa.schema(
    [
        ("number", pa.int32()),
        ("channel", pa.string()),
        ("streams", pa.list_(pa.int32())),
        ("names", pa.list_(pa.string())),
        ("whole", pa.bool_()),
    ]
)
_ARROW = {
    sa.BigInteger: pa.int64(),
    sa.Integer: pa.int32(),
    sa.Boolean: pa.bool_(),
    sa.Double: pa.float64(),
    sa.String: pa.string(),
    sa.Text: pa.string(),
}


# Operators and functions of Spark's plans that run programs or call into the Java machine.
_REACHING_OUT = re.compile(r"ScriptTransformation|\b(?:try_)?(?:reflect|java_method)\(", re.IGNORECASE)


def sql_session(home: Home, spark: SparkSession, statement: str) -> DataFrame:
    """One read-only statement over the home's relations.

    Raises:
        EngineError: it is no query, or Spark cannot run it; Spark's message says where.
    """
    session = spark.newSession()
    # Relations are what a home shows; files are not.
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    views = _Views(home, session)
    views.create(statement)
    text = statement.strip().rstrip(";")
    is_query = not re.match(r"(show|describe|desc|explain)\b", text, re.IGNORECASE)
    # Inside parentheses only a query parses, so nothing can be written or created.
    wrapped = f"select * from (\n{text}\n)" if is_query else text
    with sql_errors(moved_by=1 if is_query else 0):
        if is_query:
            # A query can still start a program (TRANSFORM … USING); the plan shows it, and planning runs nothing.
            plan = session.sql(f"explain extended {wrapped}").collect()[0][0]
            if _REACHING_OUT.search(plan):
                raise EngineError("XSCL_SQL", "queries that run programs or call into the Java machine are refused")
        return session.sql(wrapped)


@contextmanager
def sql_errors(*, moved_by: int = 0) -> Iterator[None]:
    """Spark's refusals in our words; ``moved_by`` lines stand before the user's text."""
    logger = logging.getLogger("SQLQueryContextLogger")
    level = logger.level
    # Spark's Python side logs what it raises; we say it once.
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    except PySparkException as error:
        first = str(error).strip().split("\n\n")[0].partition(";\n")[0].partition("\nJVM stacktrace")[0]
        first = re.sub(r"\bline (\d+)", lambda found: f"line {int(found[1]) - moved_by}", first)
        raise EngineError(
            "XSCL_SQL",
            first,
            hint=f"relations: {', '.join(RELATION_NAMES)}, rt_<template>, rout_<template>; one query at a time, "
            "and no other statements",
        ) from None
    finally:
        logger.setLevel(level)


class _Views:
    def __init__(self, home: Home, session: SparkSession) -> None:
        self.home = home
        self.session = session
        self.made: set[str] = set()
        self.kept = False
        """Whether matches of some time are hidden."""
        self.timed = False
        """Whether some query starts at a time, or when events were held no more."""
        self.repeats = False
        """Whether one that starts with what is held was registered again, and so has some matches again."""
        self.simple: dict[str, Callable[[], DataFrame]] = {
            "xscl_events": self._all_events,
            "xscl_witness": self._held_witness,
            "xscl_results": self._results,
            "xscl_batches": lambda: self._table(BATCHES),
            "xscl_channels": lambda: self._table(CHANNELS),
            "xscl_queries": lambda: self._table(QUERIES),
            "xscl_memberships": self._memberships,
            "xscl_instances": lambda: self._table(INSTANCES),
            "batches": lambda: self._table(BATCHES, without=("result_path",)),
            "channels": lambda: self._table(CHANNELS),
            "feeds": self._feeds,
            "late": lambda: self._table(LATE, without=("number",)),
            "queries": lambda: self._table(QUERIES, without=("names", "digest", "held_from")),
            "rejected": lambda: self._table(REJECTED, without=("number",)),
            "streams": lambda: self._table(STREAMS),
            "templates": lambda: self._table(TEMPLATES),
            "variables": lambda: self._table(VARIABLES, without=("key",)),
        }
        self.names = list(member_names(home.catalog))
        self.processed = processed = home.catalog.processed()[0]
        self.derived: dict[str, str] = {
            "events": _EVENTS if self.names else _PLAIN_EVENTS,
            "r_docts": _R_DOCTS.format(processed=processed),
            "r_member": _R_MEMBER.format(processed=processed),
            "r_bin": _R_BIN,
            "r_doc": _R_DOC,
            "xscl_docs": _DOCS,
            "xscl_kept": _KEPT,
            "xscl_versions": _VERSIONS,
        }

    def create(self, statement: str) -> None:
        """Create the views that a statement mentions, and those that they need."""
        names = {word.lower() for word in re.findall(r"\w+", statement)}
        with self.home.catalog.read() as connection:
            self.kept = bool(connection.scalar(sa.select(sa.func.count(CHANNELS.c.kept_from))))
            # What is replaced costs a join of all matches with themselves.
            wanted = "replaces" in names or "*" in re.sub(r"\(\s*\*\s*\)", "", statement)
            newer = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.version > 1).limit(1)
            versions = wanted and "matches" in names and connection.scalar(newer) is not None
            by_time = sa.or_(QUERIES.c.ts_from.is_not(None), QUERIES.c.held_from.is_not(None))
            timed = sa.select(QUERIES.c.query).where(by_time).limit(1)
            self.timed = connection.scalar(timed) is not None
            held = sa.select(QUERIES.c.digest).where(QUERIES.c.history.is_not(None)).group_by(QUERIES.c.digest)
            self.repeats = connection.scalar(held.having(sa.func.count() > 1).limit(1)) is not None
        text = _matches_text(streams=bool(self.names), versions=versions, kept=self.kept, timed=self.timed)
        self.derived["matches"] = _once(text) if self.repeats else text
        mentions_all = bool(re.match(r"\s*show\b", statement, re.IGNORECASE))
        for template in self.home.catalog.shapes():
            for name in (f"rt_{template.id}", f"rout_{template.id}"):
                if name in names or mentions_all:
                    self._template_view(name, template)
        for name in RELATION_NAMES:
            if name in names or mentions_all:
                self._make(name)

    def _make(self, name: str) -> None:
        if name in self.made:
            return
        self.made.add(name)
        frame = self._derived(self.derived[name]) if name in self.derived else self.simple[name]()
        frame.createOrReplaceTempView(name)

    def _derived(self, text: str) -> DataFrame:
        for needed in re.findall(r"\bxscl_\w+", text):
            self._make(needed)
        return self.session.sql(text)

    def _template_view(self, name: str, template: Template) -> None:
        if name.startswith("rt_"):
            columns = [(column.name, column.type) for column in rt_table(template).columns]
            frame = self._frame(columns, self.home.catalog.rt_rows(template))
        else:
            text = _rout_text(template, kept=self.kept, timed=self.timed)
            frame = self._derived(_once(text) if self.repeats else text)
        frame.createOrReplaceTempView(name)

    def _all_events(self) -> DataFrame:
        with self.home.catalog.read() as connection:
            statement = sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)
            paths = [row.path for row in connection.execute(statement)]
        events = read_parquet(self.session, EVENT_SCHEMA, self.home.paths(paths))
        if self.kept:
            self._make("xscl_channels")
            text = _KEPT_EVENTS.format(events="{events}", processed=self.processed)
            events = self.session.sql(text, events=events)
        return with_documents(self.session, events, row_shapes(self.home.catalog.channels()))

    def _held_witness(self) -> DataFrame:
        """The witness rows of the join state: those that some live query may still join."""
        with self.home.catalog.read() as connection:
            state = held_state(self.home, connection)
        rows = read_parquet(self.session, WITNESS_SCHEMA, state.paths("witness"))
        if state.floors is None:
            return rows
        floors = self.session.createDataFrame(state.floors.table())
        return self.session.sql(_HELD, rows=rows, floors=floors)

    def _memberships(self) -> DataFrame:
        """What memberships stand for in each channel that has them."""
        rows = [dict(zip(_MEMBERSHIPS.names, row, strict=True)) for row in self.names]
        if not rows:
            return self.session.createDataFrame([], spark_schema(_MEMBERSHIPS))
        return self.session.createDataFrame(pa.Table.from_pylist(rows, schema=_MEMBERSHIPS))

    def _results(self) -> DataFrame:
        with self.home.catalog.read() as connection:
            # A batch that has found nothing may have no folder; those whose results were merged name the same one.
            found = sa.or_(BATCHES.c.rout > 0, BATCHES.c.matches > 0)
            statement = sa.select(BATCHES.c.result_path).where(found).order_by(BATCHES.c.batch)
            paths = [path for path in dict.fromkeys(connection.scalars(statement)) if path is not None]
        return read_parquet(self.session, RESULT_SCHEMA, self.home.results(paths))

    def _table(self, table: Table, *, without: Sequence[str] = ()) -> DataFrame:
        columns = [(c.name, c.type) for c in table.columns if c.name not in without]
        return self._frame(columns, self.home.catalog.rows(table))

    def _feeds(self) -> DataFrame:
        statement = (
            sa.select(
                EVENT_IDS.c.feed,
                EVENT_IDS.c.channel,
                sa.func.count(sa.distinct(EVENT_IDS.c.item)).label("items"),
                sa.func.count().label("versions"),
            )
            .where(EVENT_IDS.c.feed != "")
            .group_by(EVENT_IDS.c.feed, EVENT_IDS.c.channel)
            .order_by(EVENT_IDS.c.feed, EVENT_IDS.c.channel)
        )
        with self.home.catalog.read() as connection:
            rows = [dict(row._mapping) for row in connection.execute(statement)]
        types: list[tuple[str, object]] = [
            ("feed", sa.String()),
            ("channel", sa.String()),
            ("items", sa.BigInteger()),
            ("versions", sa.BigInteger()),
        ]
        return self._frame(types, rows)

    def _frame(self, columns: Sequence[tuple[str, object]], rows: list[dict[str, object]]) -> DataFrame:
        schema = pa.schema([(name, _ARROW[type(type_)]) for name, type_ in columns])
        if not rows:
            return self.session.createDataFrame([], spark_schema(schema))
        return self.session.createDataFrame(pa.Table.from_pylist(rows, schema=schema))


def _once(text: str) -> str:
    """The rows of a view whose last column is ``batch``, each with its first batch."""
    return f"select * except (batch), min(batch) as batch from ({text}) group by all"


def _rout_text(template: Template, *, kept: bool, timed: bool) -> str:
    docs = [f"r.docs[{i}] as docid{i + 1}" for i in range(template.block_count)]
    nodes = [f"r.nodes[{i}] as node{i + 1}" for i in range(template.width)]
    return f"""
select q.qid, r.case, {", ".join(docs + nodes)}, r.batch
from ({_STORED.format(relation="rout")}) r
{_ONLY_KEPT if kept else ""}
join xscl_instances i on i.iid = r.instance and i.template = '{template.id}'
{_SEEN}{_IN_TIME if timed else ""}"""
