"""Baselines of ``absence``: NOT EXISTS on DuckDB, asked again after each part, and an outer join of Spark's streams."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.bench.orders import LATENESS_S, ORDERS, PAYMENTS, WINDOW_S, Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Asked", "Streams", "asked_again"]

_LAST = -1
"""Number of an order and of a payment behind all others: they move the watermark, and are no answer."""
_ASKED = f"""
create or replace table unpaid as select no from orders o where o.ts + {WINDOW_S * 1_000_000} < ? and not exists (
  select 1 from payments p where p.no = o.no and p.ts > o.ts and p.ts <= o.ts + {WINDOW_S * 1_000_000})
"""


class Asked:
    """Tables of all orders and payments, and the answer made again after each part."""

    def __init__(self) -> None:
        import duckdb

        self._database = duckdb.connect(config={"threads": 1})
        self._database.execute("create table orders (no bigint, ts bigint)")
        self._database.execute("create table payments (no bigint, ts bigint)")

    def take(self, part: Part) -> None:
        """Take a part in, and answer as far as the payments are in."""
        for name, table in ((ORDERS, part.orders), (PAYMENTS, part.payments)):
            self._database.register("given", table.select(["no", "ts"]))
            self._database.execute(f"insert into {name} select * from given")
        self._answer(f"(select max(ts) - {LATENESS_S * 1_000_000} from payments)")

    def found(self) -> list[int]:
        """Return all orders that nobody paid, as if nothing came any more."""
        self._answer(str(1 << 62))
        return [no for (no,) in self._database.execute("select no from unpaid order by no").fetchall()]

    def _answer(self, until: str) -> None:
        self._database.execute(_ASKED.replace("?", until))


def asked_again() -> Asked | None:
    """Make the baseline on DuckDB, where that is installed."""
    return Asked() if find_spec("duckdb") else None


class Streams:
    """Two streams of files, a file a part, and their outer join with watermarks."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._parts = 0
        self._last = 0
        for name in (ORDERS, PAYMENTS):
            (folder / name).mkdir(parents=True)

    def take(self, part: Part) -> None:
        """Write the files of a part."""
        for name, table in ((ORDERS, part.orders), (PAYMENTS, part.payments)):
            whole = table.select(["no", "ts"])
            times = whole.column("ts").cast(pa.timestamp("us", "UTC"))
            path = self._folder / name / f"{self._parts:06d}.parquet"
            pq.write_table(whole.set_column(1, "ts", times), path)
            self._last = max([self._last, *whole.column("ts").to_pylist()[-1:]])
        self._parts += 1

    def end(self) -> None:
        """Write an order and a payment behind all others, so that the watermark passes these."""
        far = self._last + 10 * (WINDOW_S + LATENESS_S) * 1_000_000
        row = pa.table({"no": [_LAST], "ts": [far]})
        self.take(Part(row, row))

    def run(self) -> None:
        """Read all files, one of each stream at a time, and write what is found."""
        orders, payments = (self._read(name).alias(name) for name in (ORDERS, PAYMENTS))
        within = f"payments.ts > orders.ts AND payments.ts <= orders.ts + INTERVAL {WINDOW_S} SECONDS"
        from pyspark.sql.functions import expr

        joined = orders.join(payments, expr(f"payments.no = orders.no AND {within}"), "leftOuter")
        unpaid = joined.where("payments.no IS NULL").selectExpr("orders.no AS no")
        before = self._spark.conf.get("spark.sql.shuffle.partitions")
        self._spark.conf.set("spark.sql.shuffle.partitions", "2")
        try:
            writer = unpaid.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
            writer.option("checkpointLocation", str(self._folder / "checkpoint"))
            writer.start(str(self._folder / "found")).awaitTermination()
        finally:
            self._spark.conf.set("spark.sql.shuffle.partitions", str(before))

    def found(self) -> list[int]:
        """Return all orders that nobody paid."""
        rows = self._spark.read.parquet(str(self._folder / "found")).toArrow()
        return sorted(no for no in rows.column("no").to_pylist() if no != _LAST)

    def _read(self, name: str) -> DataFrame:
        stream = self._spark.readStream.schema("no bigint, ts timestamp").option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(self._folder / name))
        return frame.withWatermark("ts", f"{LATENESS_S} seconds")
