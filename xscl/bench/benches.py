"""The benches there are, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xscl.bench import register, stage1
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


def _stage1(settings: BenchSettings, say: Callable[[str], None]) -> Report:
    return stage1.measure(
        say,
        quick=settings.quick,
        queries=settings.queries,
        items=settings.items,
        batch_docs=settings.batch_docs,
        seed=settings.seed,
    )


BENCHES: dict[str, Callable[[BenchSettings, Callable[[str], None]], Report]] = {
    "register": _register,
    "stage1": _stage1,
}
