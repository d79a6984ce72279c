"""What stage 1 costs for rows, by columns and by walking documents: ``python tests/bench/row_witnesses.py``.

200,000 sensor rows of five columns in two channels and one query that joins them by one column, in one process and by
turns: with rows kept as cells, and as the documents that they were before.  Medians of the runs after the first.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from xscl.channels import add_channel
from xscl.event_files import EVENT_SCHEMA
from xscl.executors import write_witnesses
from xscl.home import Home, init_home
from xscl.ingest.rows import cells_document
from xscl.planner import Plan, Planner
from xscl.registry import Registry
from xscl.session import start_session
from xscl.tables import INTAKE_FILES
from xscl.xpath.relational import ChannelSplit

QUERY = "temps/temps[./room->r] JOIN {r = s, 1 s} doors/doors[./room->s]"
COLUMNS = ("room", "temp", "humidity", "open", "note")
ROWS = 200_000
FIRST = 10
RUNS = 5


def sensor(number: int, generator: random.Random, as_document: bool) -> dict[str, object]:
    channel = ("temps", "doors")[number % 2]
    cells = [
        f"room-{generator.randrange(1_000_000)}",
        str(generator.randrange(101, 300) / 10),
        str(generator.randrange(100)),
        generator.choice(("true", "false")),
        generator.choice((None, "checked & found well", "")),
    ]
    kept = {"content": None, "cells": cells}
    if as_document:
        kept = {"content": cells_document(cells, COLUMNS, element=channel), "cells": None}
    times = dict.fromkeys(("docid", "item", "ts", "received"), number)
    return {"channel": channel, "id": f"e{number}", "version": 1, "late": False, **times, **kept}


def made(folder: Path, as_document: bool) -> Home:
    """A home with the rows and the query."""
    generator = random.Random(1)
    home = init_home(folder)
    for channel in ("temps", "doors"):
        schema = "room string, temp double, humidity int, open boolean, note string"
        add_channel(home.catalog, channel, kind="rows", schema=schema)
    Registry(home.catalog).register(QUERY, name="rooms")
    stored = EVENT_SCHEMA.remove(EVENT_SCHEMA.get_field_index("cells")) if as_document else EVENT_SCHEMA
    rows = [sensor(number, generator, as_document) for number in range(FIRST, FIRST + ROWS)]
    name = "events/rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=stored), home.root / name, row_group_size=2_000)
    with home.catalog.begin() as connection:
        connection.execute(INTAKE_FILES.insert().values(path=name, first=FIRST, last=FIRST + ROWS - 1, rows=ROWS))
    return home


def planned(planner: Planner, as_document: bool) -> Plan:
    put = ChannelSplit.put
    if as_document:
        # Everything is walked for, as it was when rows were documents.
        ChannelSplit.put = lambda self, asked: None
    plan = planner.plan(FIRST, FIRST + ROWS - 1)
    ChannelSplit.put = put
    assert plan is not None
    return plan


def stage1_seconds(home: Home, plan: Plan, target: Path) -> float:
    started = time.perf_counter()
    paths = home.paths(["events/rows.parquet"])
    write_witnesses(start_session(), plan, paths, FIRST, FIRST + ROWS - 1, ("temps", "doors"), target)
    taken = time.perf_counter() - started
    assert ds.dataset(target).count_rows() == ROWS
    return taken


def main() -> None:
    runs: dict[str, list[float]] = {"columns": [], "documents": []}
    with tempfile.TemporaryDirectory() as folder:
        homes = {name: made(Path(folder) / name, name == "documents") for name in runs}
        planners = {name: Planner(home) for name, home in homes.items()}
        plans = {name: planned(planner, name == "documents") for name, planner in planners.items()}
        for run in range(RUNS):
            for name, home in homes.items():
                runs[name].append(stage1_seconds(home, plans[name], home.root / f"witness/{run}"))
    medians = {name: statistics.median(taken[1:]) for name, taken in runs.items()}
    for name, taken in runs.items():
        print(f"{name}: {' '.join(f'{run:.2f}' for run in taken)} s, median {medians[name]:.2f} s")
    print(f"documents take {medians['documents'] / medians['columns']:.1f} times as long")


if __name__ == "__main__":
    main()
