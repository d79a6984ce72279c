"""Upgrades of a home's files, one function a version; ``xscl.upgrade`` says when they run.

Each writes new files beside the old ones and has the catalogue name the new ones, so an upgrade that fails leaves the
home as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy import MetaData, Table
from sqlalchemy.engine import Connection

from xscl.compile import ChannelFacts, compile_query
from xscl.errors import QueryError
from xscl.parser import parse_query
from xscl.tables import BATCHES, GROUPS, QUERIES
from xscl.templates.relations import var_name
from xscl.templates.results import RESULT_SCHEMA

__all__ = ["FILE_UPGRADES", "FileUpgrade"]

FileUpgrade = Callable[[Path, Connection, Mapping[str, ChannelFacts]], None]
"""Takes the home's folder, a connection, and what is known of the channels."""

Order = list[int]


def results_of_any_number_of_blocks(folder: Path, connection: Connection, facts: Mapping[str, ChannelFacts]) -> None:
    """Version 0 to 1: documents in one list instead of two columns, and meta-variables in their present order."""
    orders = _orders(connection, facts)
    batches = connection.execute(sa.select(BATCHES.c.batch, BATCHES.c.result_path)).all()
    for batch, path in batches:
        if path is None:
            continue
        rows = ds.dataset(folder / path).to_table().to_pylist()
        table = pa.Table.from_pylist([_result(row, orders) for row in rows], schema=RESULT_SCHEMA)
        target = f"{path}-1"
        (folder / target).mkdir(exist_ok=True)
        pq.write_table(table, folder / target / "part.parquet")
        connection.execute(BATCHES.update().where(BATCHES.c.batch == batch).values(result_path=target))


def _result(row: Mapping[str, object], orders: Mapping[object, Order]) -> dict[str, object]:
    docs = [row[name] for name in ("d1", "d2") if row[name] is not None]
    if row["relation"] == "pairs":
        return {"relation": "pairs", "docs": docs}
    groups = row["groups"]
    assert isinstance(groups, list)
    names = ("nodes",) if row["relation"] == "rout" else ("witness",)
    moved = {name: _moved(row[name], orders.get(groups[0])) for name in names}
    shared = {name: row[name] for name in ("relation", "instance", "nodes", "witness", "groups")}
    return {**shared, **moved, "docs": docs, "cases": [1] * len(groups)}


def _moved(nodes: object, order: Order | None) -> object:
    assert isinstance(nodes, list)
    return nodes if order is None else [nodes[place] for place in order]


def _orders(connection: Connection, facts: Mapping[str, ChannelFacts]) -> dict[object, Order]:
    """By group: the old place of each meta-variable, where places have changed."""
    found: dict[object, Order] = {}
    for group in connection.execute(sa.select(GROUPS)).all():
        stored = Table(f"rt_{group.template}", MetaData(), autoload_with=connection)
        row = connection.execute(sa.select(stored).where(stored.c.gid == group.gid)).first()
        same_text = (QUERIES.c.gid == group.gid) & (QUERIES.c.text == group.text)
        names = connection.scalar(sa.select(QUERIES.c.names).where(same_text).limit(1))
        try:
            compiled = compile_query(
                parse_query(group.text), group.text, namespaces=json.loads(group.namespaces), channels=facts
            )
        except QueryError:
            continue
        if row is None or names is None:
            continue
        width = len(compiled.meta_names)
        # Variables of one definition are told apart by the query's own names.
        old = [(row._mapping[f"var{place}"], name) for place, name in enumerate(json.loads(names)["meta"], start=1)]
        new = zip(map(var_name, compiled.group.instance.variables), compiled.meta_names, strict=True)
        order: Order = []
        for wanted in new:
            order.append(next(place for place in range(width) if old[place] == wanted and place not in order))
        if order != list(range(width)):
            found[group.gid] = order
    return found


FILE_UPGRADES: tuple[FileUpgrade, ...] = (results_of_any_number_of_blocks,)
"""The n-th takes a home's files from version n to n + 1; raise ``FILES_VERSION`` when you add one.

It runs after the migrations and before what is derived is made again: groups, names and ``rt_`` tables are still those
of the version that wrote the files, and texts compile to those of this version.
"""
