"""All benches, by name."""

from __future__ import annotations

from typing import Any

from xscl.bench import (
    absence,
    aggregates,
    backfill,
    consistency,
    constants,
    double_top,
    growth,
    latency,
    levels,
    memory,
    patterns,
    people,
    recovery,
    register,
    retention,
    rises,
    rows,
    rss,
    rss_patterns,
    sharing,
    spark,
    stage1,
    views,
)
from xscl.bench.bench import Bench

__all__ = ["BENCHES"]

_ALL: tuple[Bench[Any, Any], ...] = (
    register.BENCH,
    stage1.BENCH,
    *levels.BENCHES,
    views.BENCH,
    rss.BENCH,
    latency.BENCH,
    spark.BENCH,
    growth.BENCH,
    retention.BENCH,
    backfill.BENCH,
    rows.BENCH,
    people.BENCH,
    constants.BENCH,
    rises.BENCH,
    absence.BENCH,
    aggregates.BENCH,
    consistency.BENCH,
    patterns.BENCH,
    *sharing.BENCHES,
    rss_patterns.BENCH,
    double_top.BENCH,
    recovery.BENCH,
    memory.BENCH,
)
BENCHES: dict[str, Bench[Any, Any]] = {bench.name: bench for bench in _ALL}
