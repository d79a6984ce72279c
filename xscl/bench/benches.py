"""The benches there are, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xscl.bench import backfill, growth, latency, levels, recovery, register, retention, rows, rss, stage1, views
from xscl.bench.report import Report

__all__ = ["BENCHES", "BenchSettings"]


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What the command line asks of a bench."""

    quick: bool
    queries: int | None
    """None: as many as the bench thinks fit."""
    seed: int
    workload: str
    windows: str
    items: int | None = None
    """Documents; None: as many as the bench thinks fit."""
    batch_docs: int | None = None
    """Documents in a batch; None: as many as the bench thinks fit."""


def _register(settings: BenchSettings, say: Callable[[str], None]) -> Report:
    return register.measure(
        say,
        quick=settings.quick,
        queries=settings.queries,
        seed=settings.seed,
        workload=settings.workload,
        windows=settings.windows,
    )


def _sized(measure: Callable[..., Report]) -> Callable[[BenchSettings, Callable[[str], None]], Report]:
    """A bench whose sizes are those that all have in common."""

    def run(settings: BenchSettings, say: Callable[[str], None]) -> Report:
        return measure(
            say,
            quick=settings.quick,
            queries=settings.queries,
            items=settings.items,
            batch_docs=settings.batch_docs,
            seed=settings.seed,
        )

    return run


BENCHES: dict[str, Callable[[BenchSettings, Callable[[str], None]], Report]] = {
    "register": _register,
    "stage1": _sized(stage1.measure),
    "two-level": _sized(partial(levels.measure, levels=2)),
    "three-level": _sized(partial(levels.measure, levels=3)),
    "views": _sized(views.measure),
    "rss": _sized(rss.measure),
    "latency": _sized(latency.measure),
    "growth": _sized(growth.measure),
    "retention": _sized(retention.measure),
    "backfill": _sized(backfill.measure),
    "rows": _sized(rows.measure),
    "recovery": _sized(recovery.measure),
}
