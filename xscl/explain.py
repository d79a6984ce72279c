"""What there is to say about a query, a batch and a home, for listings and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl import ast
from xscl.catalog import Catalog
from xscl.durations import format_duration
from xscl.home import Home
from xscl.normalize import NormalJoin
from xscl.parser import parse_query
from xscl.registry import compile_info
from xscl.tables import BATCHES, CHANNELS, EVENT_IDS, LATE, QUERIES, REJECTED
from xscl.templates.bounds import UNBOUNDED, Case
from xscl.templates.relations import var_name

__all__ = ["batch_columns", "batch_rows", "query_facts", "query_text", "skipped_notes", "state_notes"]


def query_facts(catalog: Catalog, name: str) -> dict[str, object]:
    """A query as one record.

    Raises:
        CatalogError: there is none of that name.
    """
    info = catalog.query(name)
    compiled = compile_info(info, catalog.facts())
    with catalog.read() as connection:
        sharing = connection.scalar(
            sa.select(sa.func.count()).where(QUERIES.c.gid == info.gid, QUERIES.c.docid_until == info.docid_until)
        )
    return {
        "query": info.name,
        "text": info.text,
        "channels": list(compiled.channels),
        "windows": [_windows(case, compiled.block_names) for case in compiled.group.cases if case],
        "template": info.template,
        "group": info.gid,
        "queries_in_group": sharing,
        "place": info.docid_from,
        "publish": info.publish,
        "starting": info.starting,
        "variables": [
            {"name": var, "var": var_name(d.key), "definition": str(d)} for var, d in compiled.definitions.items()
        ],
        "joins": [_join_text(join) for join in compiled.normal.joins],
    }


def query_text(catalog: Catalog, name: str) -> str:
    """A query for a person to read."""
    facts = query_facts(catalog, name)
    variables = facts["variables"]
    joins = facts["joins"]
    assert isinstance(variables, list) and isinstance(joins, list)
    lines = [
        f"CREATE QUERY {facts['query']} AS",
        f"{facts['text']};",
        "",
        f"template  {facts['template']}",
        f"group     {facts['group']}, of {facts['queries_in_group']} queries",
        f"place     {facts['place']} of the intake order",
    ]
    windows = facts["windows"]
    assert isinstance(windows, list)
    for number, case in enumerate(windows, start=1):
        lines += [f"{f'case {number}' if len(windows) > 1 else 'window':<9} {window}" for window in case]
    lines += [f"join      {join}" for join in joins]
    width = max((len(v["name"]) for v in variables), default=0)
    lines += [f"variable  {v['name']:<{width}}  {v['var']}  {v['definition']}" for v in variables]
    return "\n".join(lines)


def _applied(functions: str, name: str) -> str:
    names = functions.split(" ") if functions else []
    return "".join(f"{f}(" for f in names) + name + ")" * len(names)


def _join_text(join: NormalJoin) -> str:
    right = _applied(join.fn_r, join.right)
    if join.f != 1:
        right = f"{join.f} * {right}"
    if join.add:
        right += f" {'-' if join.add < 0 else '+'} {abs(join.add)}"
    return f"{_applied(join.fn_l, join.left)} {join.op} {right}"


def _windows(case: Case, names: Sequence[str]) -> list[str]:
    """The bounds of one case, as relative windows between the blocks."""
    found = []
    for bounds, (earlier, later) in zip(case, combinations(names, 2), strict=True):
        low = "-UNBOUNDED" if bounds.lo <= -UNBOUNDED else format_duration(bounds.lo)
        high = "UNBOUNDED" if bounds.hi >= UNBOUNDED else format_duration(bounds.hi)
        order = {0: "", 1: f", {earlier} first", -1: f", {later} first"}[bounds.order]
        found.append(f"{later} - {earlier} IN [{low}, {high}]{order}")
    return found


def batch_columns() -> list[str]:
    """Columns of ``batch_rows``."""
    hidden = ("witness_path", "result_path", "joined_path", "committed")
    return [column.name for column in BATCHES.columns if column.name not in hidden]


def batch_rows(catalog: Catalog) -> list[dict[str, object]]:
    """One row a committed batch."""
    rows = sorted(catalog.rows(BATCHES), key=lambda row: int(str(row["batch"])))
    return [{name: round(v, 3) if isinstance(v := row[name], float) else v for name in batch_columns()} for row in rows]


def state_notes(home: Home) -> Iterator[str]:
    """What a home holds, in a few lines."""
    catalog = home.catalog
    with catalog.read() as connection:
        events = _count(connection, EVENT_IDS)
        witnesses = connection.scalar(sa.select(sa.func.sum(BATCHES.c.witnesses))) or 0
        late, rejected = _count(connection, LATE), _count(connection, REJECTED)
        unlimited = connection.scalar(sa.select(sa.func.count()).where(CHANNELS.c.lateness.is_(None))) or 0
    size = sum(f.stat().st_size for f in home.folder("witness").rglob("*.parquet"))
    processed, last = catalog.processed()
    yield f"events {events}, state {witnesses} witness rows in {size:,} bytes, late {late}, rejected {rejected}"
    if last > processed:
        yield f"{last - processed} places of the intake order are not processed yet: xscl run --once"
    if unlimited:
        yield f"{unlimited} channels have no limit on lateness: nothing of theirs is late, and no join state is purged"


def skipped_notes(catalog: Catalog, first: int) -> Iterator[str]:
    """Which queries did not see events of their channels that were processed from ``first`` on, being older."""
    with catalog.read() as connection:
        for info in catalog.queries(connection, limit=1000):
            if info.docid_from <= first:
                continue
            channels = {block.channel for block in ast.blocks(parse_query(info.text).source)}
            count = connection.scalar(
                sa.select(sa.func.count()).where(
                    EVENT_IDS.c.channel.in_(channels), EVENT_IDS.c.docid.between(first, info.docid_from)
                )
            )
            if count:
                yield (
                    f"note: {count} events are older than query {info.name} and were skipped for it; STARTING ALL "
                    "would include them, once it is supported"
                )


def _count(connection: Connection, table: sa.Table) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
