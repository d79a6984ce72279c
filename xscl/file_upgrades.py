"""Upgrades of a home's files, one function a version; ``xscl.upgrade`` says when they run.

Each writes new files beside the old ones and has the catalogue name the new ones, so an upgrade that fails leaves the
home as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.arrow import MEMBER
from xscl.compile import ChannelFacts, compile_query
from xscl.errors import QueryError
from xscl.parser import parse_query
from xscl.state import facts_of_file, link_rows
from xscl.tables import BATCHES, GROUPS, QUERIES, STATE_FILES, TEMPLATES
from xscl.values import value_hash

__all__ = ["FILE_UPGRADES", "FileUpgrade"]

FileUpgrade = Callable[[Path, Connection, Mapping[str, ChannelFacts]], None]
"""Takes the home's folder, a connection, and what is known of the channels."""

Order = tuple[int, ...]

_RESULTS_1 = pa.schema(
    [
        ("relation", pa.string()),
        ("instance", pa.int32()),
        ("link", pa.int64()),
        ("docs", pa.list_(pa.int64())),
        ("nodes", pa.list_(pa.int32())),
        ("witness", pa.list_(pa.int32())),
        ("groups", pa.list_(pa.int64())),
        ("cases", pa.list_(pa.int32())),
        ("members", pa.list_(MEMBER)),
    ]
)
"""Results of version 1 and 2: a row has its documents and its groups."""
_RESULTS_3 = pa.schema(
    [
        ("relation", pa.string()),
        ("origin", pa.int64()),
        ("class", pa.int32()),
        ("d1", pa.int64()),
        ("d2", pa.int64()),
        ("docs", pa.list_(pa.int64())),
        *(_RESULTS_1.field(name) for name in ("instance", "link", "nodes", "witness", "groups", "cases", "members")),
    ]
)
"""Results of version 3: documents have a class, and the class has the rows."""


def results_of_any_number_of_blocks(folder: Path, connection: Connection, facts: Mapping[str, ChannelFacts]) -> None:
    """Version 0 to 1: documents in one list instead of two columns, and meta-variables in their present order.

    The names of queries, which say what the columns of results are, change with them: those of a query that is not
    taken any more are not made again.
    """
    orders = _orders(connection, facts)
    batches = connection.execute(sa.select(BATCHES.c.batch, BATCHES.c.result_path)).all()
    for batch, path in batches:
        if path is None:
            continue
        rows = ds.dataset(folder / path).to_table().to_pylist()
        table = pa.Table.from_pylist([_result(row, orders) for row in rows], schema=_RESULTS_1)
        target = f"{path}-1"
        (folder / target).mkdir(exist_ok=True)
        pq.write_table(table, folder / target / "part.parquet")
        connection.execute(BATCHES.update().where(BATCHES.c.batch == batch).values(result_path=target))
    _rename(connection, orders)


def _result(row: Mapping[str, Any], orders: Mapping[int, Order]) -> dict[str, object]:
    docs = [row[name] for name in ("d1", "d2") if row[name] is not None]
    if row["relation"] == "pairs":
        return {"relation": "pairs", "docs": docs}
    moved = "nodes" if row["relation"] == "rout" else "witness"
    shared = {name: row[name] for name in ("relation", "instance", "nodes", "witness", "groups")}
    order = orders.get(row["instance"])
    # A query of two blocks is one case.
    return {**shared, moved: _moved(row[moved], order), "docs": docs, "cases": [1] * len(row["groups"])}


def _moved(values: Sequence[Any], order: Order | None) -> list[Any]:
    return list(values) if order is None else [values[place] for place in order]


def _rename(connection: Connection, orders: Mapping[int, Order]) -> None:
    statement = sa.select(QUERIES.c.query, QUERIES.c.names, GROUPS.c.iid).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
    changed = []
    for row in connection.execute(statement):
        names = json.loads(row.names)
        names["meta"] = _moved(names["meta"], orders.get(row.iid))
        # The result node of each block, in their order.
        names["result_blocks"] = list(range(len(names["results"])))
        changed.append({"b_query": row.query, "names": json.dumps(names)})
    if changed:
        connection.execute(QUERIES.update().where(QUERIES.c.query == sa.bindparam("b_query")), changed)


def _orders(connection: Connection, facts: Mapping[str, ChannelFacts]) -> dict[int, Order]:
    """By instance: the old place of each meta-variable.

    A text that is not taken any more says nothing; its instance's meta-variables stay where they are, unless another
    query asks for the same instance.
    """
    trees = {
        row.template: (json.loads(row.blocks), json.loads(row.parents))
        for row in connection.execute(sa.select(TEMPLATES))
    }
    statement = sa.select(QUERIES, GROUPS.c.iid).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid).order_by(QUERIES.c.query)
    found: dict[int, Order] = {}
    for row in connection.execute(statement):
        if row.iid in found:
            continue
        try:
            query = parse_query(row.text)
            compiled = compile_query(query, row.text, namespaces=json.loads(row.namespaces), channels=facts)
        except QueryError:
            continue
        template = compiled.template
        old = _marks(json.loads(row.names)["meta"], *trees[row.template])
        found[row.iid] = tuple(
            old.index(mark) for mark in _marks(compiled.meta_names, template.blocks, template.parents)
        )
    return found


def _marks(names: Sequence[str | None], blocks: Sequence[int], parents: Sequence[int]) -> list[tuple[int, set[str]]]:
    """What tells the meta-variables of a query apart in whatever order: the block, and the names at and below each.

    Definitions do not: two variables can have one.  All leaves of a block are joined and so have names, but for a block
    of one variable.
    """
    below: list[set[str]] = [set() for _ in names]
    for place, name in enumerate(names):
        while place >= 0:
            below[place].update(() if name is None else (name,))
            place = parents[place]
    return list(zip(blocks, below, strict=True))


def hashes_that_spark_has(folder: Path, connection: Connection, facts: Mapping[str, ChannelFacts]) -> None:
    """Version 1 to 2: witness rows' ``h`` is the hash that Spark SQL computes too.

    Event files have a column ``cells`` from then on; those without it are read as they are.
    """
    for (path,) in connection.execute(sa.select(STATE_FILES.c.path)).all():
        dataset = ds.dataset(folder / path)
        if not dataset.files:
            continue
        target = f"{path}-2"
        (folder / target).mkdir(exist_ok=True)
        # A few rows at a time: what is kept of all batches can be large.
        with pq.ParquetWriter(folder / target / "part.parquet", dataset.schema) as writer:
            for rows in dataset.to_batches():
                writer.write_batch(
                    rows.set_column(rows.schema.names.index("h"), dataset.schema.field("h"), _hashes(rows))
                )
        connection.execute(STATE_FILES.update().where(STATE_FILES.c.path == path).values(path=target))


def _hashes(rows: pa.RecordBatch) -> pa.Array:
    # A row without a function has no value, and one of a refused document has its reason there.
    named = zip(rows.column("fn").to_pylist(), rows.column("strval").to_pylist(), strict=True)
    return pa.array([0 if function is None else value_hash(value) for function, value in named], pa.int64())


def classes_of_documents(folder: Path, connection: Connection, facts: Mapping[str, ChannelFacts]) -> None:
    """Version 2 to 3: results say which class documents are of; files of join state are named one by one.

    Until then ``state_files`` names folders.  Joined results stood in a folder beside the batch's other results.
    """
    _name_state(folder, connection)
    for batch, path in connection.execute(sa.select(BATCHES.c.batch, BATCHES.c.result_path)).all():
        if path is None:
            continue
        target = f"{path}-3"
        for part, (source, name) in enumerate(((path, ""), (f"{path}-joined", "joined"))):
            if not (folder / source).is_dir():
                continue
            rows = ds.dataset(folder / source, schema=_RESULTS_1).to_table().to_pylist()
            (folder / target / name).mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_pylist(_classed(rows, batch << 24 | part), schema=_RESULTS_3)
            pq.write_table(table, folder / target / name / "part.parquet")
            links = table.filter(pc.equal(table.column("relation"), "link"))
            if links.num_rows:
                kept = f"witness/{batch:08d}-links-3.parquet"
                pq.write_table(link_rows(links), folder / kept)
                _add_state(folder, connection, kept, "link", batch)
        connection.execute(BATCHES.update().where(BATCHES.c.batch == batch).values(result_path=target))


def _name_state(folder: Path, connection: Connection) -> None:
    folders = connection.execute(sa.select(STATE_FILES.c.path, STATE_FILES.c.batch)).all()
    connection.execute(STATE_FILES.delete())
    for path, batch in folders:
        for file in sorted((folder / path).glob("*.parquet")):
            _add_state(folder, connection, str(file.relative_to(folder)), "witness", batch)


def _add_state(folder: Path, connection: Connection, path: str, kind: Literal["witness", "link"], batch: int) -> None:
    # Nothing was purged, so every row is held.
    facts = facts_of_file(folder, path, kind, batch)
    connection.execute(STATE_FILES.insert().values(**{**facts.row(), "held": facts.rows}))


def _classed(rows: Sequence[Mapping[str, Any]], origin: int) -> list[dict[str, Any]]:
    """Rows of version 1 as rows of version 3: documents with equal rows are one class."""
    found: list[dict[str, Any]] = []
    of_docs: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["relation"] in ("rout", "match"):
            of_docs.setdefault(tuple(row["docs"]), []).append({name: row[name] for name in row if name != "docs"})
        else:
            found.append(dict(row))
    classes: dict[str, int] = {}
    for docs, its_rows in of_docs.items():
        signature = repr(sorted(map(repr, its_rows)))
        if signature not in classes:
            classes[signature] = len(classes)
            found += ({**row, "origin": origin, "class": classes[signature]} for row in its_rows)
        combination = {"docs": list(docs)} if len(docs) > 2 else dict(zip(("d1", "d2"), docs, strict=False))
        found.append({"relation": "docs", "origin": origin, "class": classes[signature], **combination})
    return found


FILE_UPGRADES: tuple[FileUpgrade, ...] = (
    results_of_any_number_of_blocks,
    hashes_that_spark_has,
    classes_of_documents,
)
"""The n-th takes a home's files from version n to n + 1; raise ``FILES_VERSION`` when you add one.

It runs after the migrations and before what is derived is made again: templates, groups and names are still those of
the version that wrote the files, and texts compile to those of this version.
"""
