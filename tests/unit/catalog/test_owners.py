"""Each table of the catalogue is written by one module."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from xscl.catalog import tables

ROOT = Path(__file__).resolve().parents[3]
OWNERS = {
    "batches": ["batches"],
    "channels": ["channels", "streams"],
    "counters": ["totals"],
    "deliveries": ["deliveries", "dead_letters"],
    "events": ["intake_files", "event_ids", "row_ranges"],
    "feed_clocks": ["feed_clocks"],
    "feeds": ["feeds", "hosts"],
    "groups": ["groups", "guards", "instances", "templates", "variables"],
    "intake_order": ["home", "flushes", "heartbeats"],
    "late": ["late", "rejected"],
    "memberships": ["memberships"],
    "parts": ["parts"],
    "queries": ["queries"],
    "quotas": ["quotas"],
    "removals": ["removals"],
    "retractions": ["retractions"],
    "source_offsets": ["sources"],
    "state_files": ["state_files", "old_files"],
    "tokens": ["tokens"],
}
OWNER = {table: f"xscl/catalog/{module}.py" for module, names in OWNERS.items() for table in names}
NAMES = {name: table.name for name, table in vars(tables).items() if isinstance(table, sa.Table)}
WRITES = ("insert", "update", "delete")
COPIES = {"xscl/upkeep/catalog_copy.py", "xscl/upkeep/received_catalog.py"}
"""Modules that fill the tables of another database, whichever they are, with the rows of one."""
BASELINES = {f"xscl/bench/{name}.py" for name in ("aggregates", "baselines", "news_joins", "rises", "unpaid")}
"""Modules that fill databases of their own."""
ANY = "some table"
STATEMENT = re.compile(r"\s*(insert\s+into|delete\s+from|update\s+\w+\s+set)\b", re.IGNORECASE)


def written(source: str) -> Iterator[str]:
    """Tables that a module writes; ``ANY`` for an expression that only running it tells."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and STATEMENT.match(node.value):
            yield ANY
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in WRITES:
            continue
        receiver = ast.unparse(node.func.value)
        if receiver == "sa":
            receiver = ast.unparse(node.args[0])
        elif node.args or node.keywords:
            continue  # a list, dictionary, set or digest
        yield NAMES.get(receiver, ANY)


def sources() -> Iterator[tuple[str, str]]:
    for folder in ("xscl", "xpath", "templates", "ingest"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_every_table_has_an_owner() -> None:
    assert sorted(OWNER) == sorted(tables.METADATA.tables)


def test_tables_of_one_owner_are_declared_in_one_file() -> None:
    declared = {}
    for module in pkgutil.iter_modules(tables.__path__, f"{tables.__name__}."):
        found = vars(importlib.import_module(module.name)).values()
        declared |= {table.name: module.name for table in found if isinstance(table, sa.Table)}
    assert sorted(declared) == sorted(OWNER)
    for names in OWNERS.values():
        assert len({declared[name] for name in names}) == 1, names


def test_tables_are_written_by_their_owners() -> None:
    found = {(table, module) for module, source in sources() for table in written(source)}
    named = {(table, module) for table, module in found if table != ANY}
    assert named == set(OWNER.items())
    # Tables of templates have no name of their own, nor has the one that ``put_derived`` mends.
    assert {module for table, module in found if table == ANY} == {OWNER["groups"], *BASELINES, *COPIES}


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("connection.execute(QUERIES.update().where(x).values(y=1))", "queries"),
        ("connection.execute(sa.insert(LATE), rows)", "late"),
        ("statement = sa.delete(BATCHES)", "batches"),
        ("connection.execute(table.insert(), rows)", ANY),
        ("connection.exec_driver_sql('delete from queries')", ANY),
        ("names.update(others); words.insert(0, 'x'); digest.update(b'')", None),
    ],
)
def test_what_counts_as_writing(source: str, table: str | None) -> None:
    assert list(written(source)) == ([] if table is None else [table])
