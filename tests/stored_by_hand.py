"""Results of batches that were never run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.sealed import seal_folder
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import BATCHES
from xscl.store.home import Home
from xscl.templates.origins import origin_of
from xscl.templates.results import RESULT_SCHEMA

StoredRow = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Query, docids, result nodes, meta-variables' nodes."""


def store(home: Home, *matches: StoredRow) -> int:
    """Commit a batch of these matches; its number."""
    batch = len(home.catalog.rows(BATCHES)) + 1
    rows: list[dict[str, object]] = []
    for number, (name, docids, nodes, witness) in enumerate(matches):
        info = home.catalog.ask(read_queries, live_only=False, name=name)[0]
        of_class = {"origin": origin_of(batch, 0), "class": number}
        if len(docids) > 2:
            rows.append({"relation": "docs", **of_class, "docs": docids})
        else:
            left, right = (*docids, None)[:2]
            rows.append({"relation": "docs", **of_class, "d1": left, "d2": right})
        shared = {**of_class, "groups": [info.gid], "cases": [1]}
        rows.append({"relation": "match", "nodes": nodes, "witness": witness, **shared})
        rows.append({"relation": "rout", "nodes": witness, **shared})
    path = home.folder("results") / str(batch)
    path.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=RESULT_SCHEMA), path / "part.parquet")
    seal_folder(path)
    zeros = dict.fromkeys(("first", "last", "events", "witnesses", "pairs", "rout", "committed"), 0)
    times = dict.fromkeys(("prepare_s", "stage1_s", "join_s", "commit_s"), 0.0)
    with home.catalog.begin() as connection:
        values = {"batch": batch, "matches": len(matches), "result_path": f"results/{batch}", **zeros, **times}
        connection.execute(BATCHES.insert().values(**values))
    return batch


def compact(home: Home, batches: Sequence[int], shuffle: Sequence[int] = ()) -> None:
    """Put the results of some batches into one file, in another order."""
    paths = sorted({row["result_path"] for row in home.catalog.rows(BATCHES) if row["batch"] in batches})
    rows = pa.concat_tables([pq.read_table(home.root / path, schema=RESULT_SCHEMA) for path in paths])
    order = sorted(range(rows.num_rows), key=lambda n: (hash((n, *shuffle)), n))
    rows = rows.take(pa.array(order, pa.int64()))
    target = f"results/together-{'-'.join(map(str, batches))}"
    (home.root / target).mkdir()
    pq.write_table(rows, home.root / target / "part.parquet", row_group_size=4)
    seal_folder(home.root / target)
    with home.catalog.begin() as connection:
        connection.execute(BATCHES.update().where(BATCHES.c.result_path.in_(paths)).values(result_path=target))
    for path in paths:
        shutil.rmtree(home.root / path)
