"""What stage 1 costs for rows, by columns and by walking documents: ``python tests/bench/row_witnesses.py``.

200,000 sensor rows of five columns in two channels and one query that joins them by one column, in one process: with
rows kept as cells, and as the documents that they were before.  Medians of the runs after
the first two.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import xscl
import xscl.batch
from xscl.ingest.rows import cells_document
from xscl.intake import EVENT_SCHEMA
from xscl.session import start_session
from xscl.tables import INTAKE_FILES

QUERY = "temps/temps[./room->r] JOIN {r = s, 1 s} doors/doors[./room->s]"
COLUMNS = ("room", "temp", "humidity", "open", "note")
ROWS = 200_000
RUNS = {False: 7, True: 4}


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
    return {"channel": channel, "id": f"e{number}", "version": 1, "late": False, "member": channel, **times, **kept}


def seconds(as_document: bool) -> list[float]:
    """Of stage 1."""
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, xscl.connect(home=folder) as engine:
        for channel in ("temps", "doors"):
            schema = "room string, temp double, humidity int, open boolean, note string"
            engine.add_channel(channel, kind="rows", schema=schema)
        engine.register(QUERY, name="rooms")
        home = engine.home
        schema = EVENT_SCHEMA.remove(EVENT_SCHEMA.get_field_index("cells")) if as_document else EVENT_SCHEMA
        rows = [sensor(number, generator, as_document) for number in range(10, ROWS + 10)]
        name = "events/rows.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), home.root / name, row_group_size=2_000)
        with home.catalog.begin() as connection:
            connection.execute(INTAKE_FILES.insert().values(path=name, first=10, last=ROWS + 9, rows=ROWS))
        planner = xscl.batch.Planner(home)
        plan = planner.plan(10, ROWS + 9)
        assert plan is not None
        found = []
        for run in range(RUNS[as_document]):
            target = Path(folder) / f"witness/{run}"
            started = time.perf_counter()
            xscl.batch._stage1(home, start_session(), plan, 10, ROWS + 9, ("temps", "doors"), target)
            found.append(time.perf_counter() - started)
            assert pq.read_table(target, columns=["var"]).num_rows == ROWS
        planner.close()
        return found


def main() -> None:
    medians = {}
    for name, as_document in (("columns", False), ("documents", True)):
        runs = seconds(as_document)
        medians[name] = statistics.median(runs[2:])
        print(f"{name}: {' '.join(f'{run:.2f}' for run in runs)} s, median {medians[name]:.2f} s")
    print(f"documents take {medians['documents'] / medians['columns']:.1f} times as long")


if __name__ == "__main__":
    main()
