"""Plans of the catalogue's statements: which are executed over a rich scenario, and which read whole tables that grow.

The scenario uses everything that a home does every day, so a new statement is judged as soon as somebody executes it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sample_home
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.channel_listing import channel_rows
from xscl.answers.explaining.explain import explain
from xscl.answers.feed_listing import feed_rows
from xscl.answers.status import batch_rows, skipped_notes, state_notes
from xscl.base.types import Event
from xscl.batches.refusals import Unnamed, named
from xscl.catalog.queries import read_queries
from xscl.catalog.subscriptions import add_feed, due_feeds
from xscl.catalog.tables import METADATA
from xscl.engine import Engine
from xscl.registry.query_list import QueryFilter, count_queries, list_queries
from xscl.store.late_events import LateChoice, late_rows
from xscl.upkeep.archive_export import export_home

SMALL = {"home", "channels", "streams", "memberships", "hosts", "templates", "totals", "flushes", "quotas"}
"""Tables that do not grow with events, batches, feeds or queries."""

DELIBERATE: Mapping[str, str] = {
    r"FROM \w+ WHERE (0 = 1|false)": "nothing is asked for: no row is read",
    r"^SELECT DISTINCT \w+\.(path|result_path) FROM \w+ WHERE": "tidying up compares all names with the folder",
    r"^SELECT \w+\.path FROM (intake|state)_files$": "tidying up compares all names with the folder",
    r"FROM state_files ORDER BY state_files\.(batch|path)$": "a batch reads the names of the whole join state",
    r"FROM queries WHERE queries\.docid_from < .* GROUP BY queries\.gid ORDER BY": "a new process learns all queries",
    r"^SELECT queries\.\"?query\"? FROM queries WHERE queries\.docid_from < .* DESC LIMIT": "ends at the first row",
    r"FROM intake_files WHERE intake_files\.last <= .* OR intake_files\.first >=": "upkeep looks at every file",
    r"sum\(.*FROM (batches|intake_files|row_ranges|state_files)": "stats and counters sum up",
    r"^SELECT count\(\*\) AS count_1 FROM (event_ids|late|rejected|batches|queries)": "stats and exports count",
    r"count\(distinct\(?.*FROM event_ids .*GROUP BY event_ids\.channel": "counts of channels count",
    r"FROM event_ids WHERE \(?event_ids\.membership .*GROUP BY": "counts of streams count",
    r"FROM queries WHERE \(?queries\.docid_until = \S+ (OR .*)?ORDER BY queries\.qid": "a listing, some at a time",
    r"^SELECT row_ranges\.channel, row_ranges\.docid, row_ranges\.last_docid FROM row_ranges$": "stats counts rows",
    r"FROM sources WHERE": "as many rows as inputs that grow",
    r"FROM feeds( |$)": "a listing of all feeds, or a pass over those that are due",
    r"FROM queries JOIN groups ON .* ORDER BY queries\.\"?query\"? DESC": "ends at the first query that is older",
    r"FROM (intake|state)_files ORDER BY": "an export reads all names",
    r"FROM \(SELECT DISTINCT parts\.part \+ 0 AS part FROM parts WHERE": "an index has the parts of windows alone",
    r"FROM (parts|removals|retractions) LIMIT": "ends at the first row",
}
"""Statements that read a whole table: a pattern of their text, and why."""

ON_POSTGRES: Mapping[str, str] = {
    r"^SELECT [^()]* FROM \w+$": "an export copies every row",
    r"EXISTS \(SELECT \* FROM intake_files WHERE intake_files\.last > ": "ends at the first file that is not processed",
    r"FROM batches WHERE batches\.matches > ": "a listing reads all results, and so the names of their folders",
    r"FROM parts WHERE parts\.gid > ": "a new process learns the parts of all groups, later ones those of new groups",
    r"FROM parts WHERE parts\.part IN \(SELECT CAST": "for a hundred expected numbers it reads so few rows",
    r"FROM late WHERE late\.channel = .* ORDER BY late\.number LIMIT": "a page of a listing",
}
"""Those that PostgreSQL reads whole besides."""


def executed(engine: Engine, folder: Path) -> dict[str, object]:
    """The statements that a scenario executes, each with parameters that it had."""
    found: dict[str, object] = {}

    def note(_c: object, _u: object, text: str, values: object, _x: object, many: bool) -> None:
        found.setdefault(text, values[0] if many and isinstance(values, (list, tuple)) else values)

    database = engine.home.catalog.engine
    sa.event.listen(database, "before_cursor_execute", note)
    try:
        sample_home.fill(engine, folder)
        sample_home.more(engine, folder)
        _take_late_events_again(engine)
        _ask(engine)
    finally:
        sa.event.remove(database, "before_cursor_execute", note)
    return found


def _take_late_events_again(engine: Engine) -> None:
    """Have late events, some of them taken again, events that go, and queries that are answered from what is held."""
    engine.add_channel("early", lateness="5 s", idle="1 h", retention="20 s")
    engine.register("early/e->x JOIN {x = y, 5 s} early/e->y", name="lag")
    for number, ts in enumerate((1.0, 30.0, 10.0, 60.0, 52.0, 61.0, 62.0, 63.0, 64.0, 65.0, 66.0)):
        engine.ingest([Event("early", f"y{number}", ts, xml="<e>1</e>")])
        engine.run_once()
        if number == 2:
            engine.replay_late(ids=["y2"])
    engine.register("early/e PUBLISH copied STARTING ALL", name="copies")
    engine.register("copied/e->x FOLLOWED BY {4 s} early/e->y STARTING ALL", name="copied")
    engine.run_once()


def _ask(engine: Engine) -> None:
    """Ask for everything that there is to be listed."""
    home, catalog = engine.home, engine.home.catalog
    names = [query.name for query in catalog.ask(read_queries)]
    for wanted in (QueryFilter(), QueryFilter(like="a*", limit=2), QueryFilter(group=1), QueryFilter(channel="S")):
        list(list_queries(catalog, wanted))
        count_queries(catalog, wanted)
    for name in names:
        explain(catalog, name)
    matches = list(engine.matches())
    list(engine.matches("author", limit=3))
    list(engine.matches(since=matches[0].ts, limit=5))
    list(channel_rows(catalog))
    list(batch_rows(catalog))
    list(state_notes(home))
    list(skipped_notes(catalog, 1))
    list(late_rows(catalog, LateChoice(channel="S")))
    add_feed(catalog, "http://feed.example/rss", channel="news", now=1)
    with catalog.read() as connection:
        due_feeds(connection, 1 << 50)
        list(named(connection, [Unnamed("S", "e", 1, "too many", "stage 2", (1, 2), (1,))]))
    list(feed_rows(catalog))
    export_home(home, io.BytesIO())
    engine.drop(names[0])
    engine.run_once()


def add_rows(connection: Connection, count: int) -> None:
    """Have the database add so many rows to each table that grows, with values that no row has."""
    first = sa.select(sa.literal(0).label("number")).cte("numbers", recursive=True)
    numbers = first.union_all(sa.select(first.c.number + 1).where(first.c.number < count - 1))
    for table in METADATA.sorted_tables:
        if table.name not in SMALL:
            row = _row(table, numbers.c.number)
            connection.execute(table.insert().from_select([*row], sa.select(*row.values())))
    connection.commit()


def _row(table: sa.Table, number: sa.ColumnElement[int]) -> dict[str, sa.ColumnElement[Any]]:
    values: dict[str, sa.ColumnElement[Any]] = {}
    many = 1_000_000 + number
    for column in table.columns:
        match column.type:
            case sa.Boolean():
                values[column.name] = sa.false()
            case sa.Integer():
                values[column.name] = many
            case sa.Double():
                values[column.name] = sa.cast(many, sa.Double())
            case sa.JSON():
                values[column.name] = sa.literal("x", sa.JSON())
            case _:
                values[column.name] = "x" + sa.cast(many, sa.Text())
    # Live, and of no other kind: as nearly all are.
    usual = {"docid_until": 1 << 62, "starting": "NOW", "publish": None, "history": None, "ended": None}
    usual |= {"replayed": None, "membership": 0, "replaced": 1 << 60}
    for name, value in usual.items():
        if name in values and (value is not None or table.columns[name].nullable):
            values[name] = sa.literal(value, table.columns[name].type)
    if "channel" in values:
        values["channel"] = "c" + sa.cast(number % 7, sa.Text())
    return values


def bad_plans(
    statements: Mapping[str, object],
    plan_of: Callable[[str, object], list[str]],
    deliberate: Mapping[str, str] = DELIBERATE,
) -> tuple[dict[str, list[str]], set[str]]:
    """Statements that read a whole table that grows though they should not, and patterns that allowed others.

    Args:
        statements: the statements with parameters.
        plan_of: gives the names of the tables that a statement reads whole.
        deliberate: patterns of statements that may, and why.
    """
    bad, used = {}, set()
    for text, values in statements.items():
        if not re.match(r"\s*(select|update|delete|insert|with)\b", text, re.IGNORECASE):
            continue
        whole = [name for name in plan_of(text, values) if name not in SMALL and not name.startswith("pg_")]
        if whole:
            flat = " ".join(text.split())
            reasons = {pattern for pattern in deliberate if re.search(pattern, flat, re.IGNORECASE)}
            used |= reasons
            if not reasons:
                bad[re.sub(r"^SELECT (.{40}).*? FROM", r"SELECT \1… FROM", flat)] = whole
    return bad, used


def sqlite_scans(connection: Connection, names: frozenset[str]) -> Callable[[str, object], list[str]]:
    """Tells which tables SQLite reads whole; ``names`` are all tables."""

    def scans(text: str, values: object) -> Iterator[str]:
        aliases = dict(re.findall(r"(\w+) AS (\w+)", text))
        real = {alias: table for table, alias in aliases.items() if table in names}
        for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values):  # type: ignore[call-overload]
            if found := re.match(r"SCAN (\w+)", row.detail):
                name = real.get(found[1], found[1])
                if name in names:
                    yield name

    return lambda text, values: list(scans(text, values))


def postgres_scans(connection: Connection) -> Callable[[str, object], list[str]]:
    """Tells which tables PostgreSQL reads whole."""

    def scans(text: str, values: object) -> list[str]:
        plan = connection.exec_driver_sql(f"EXPLAIN {text}", values)  # type: ignore[call-overload]
        return [found[1] for row in plan if (found := re.search(r"Seq Scan on (\w+)", row[0]))]

    return scans
