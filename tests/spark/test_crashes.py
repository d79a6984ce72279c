"""A few points of the crash matrix, which has two hundred (``make crash``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from crashes import Run, crashed, differences, killed, outcome_of, workload

from xscl.base.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, ROUNDS = 1, 5


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    steady = Run(tmp_path_factory.mktemp("crashes") / "steady", workload(SEED, ROUNDS))
    steady.play()
    found = outcome_of(steady)
    assert all(len(found[name]) > 0 for name in found)
    assert any(" -" in line for line in found["seen"]), "nothing is taken back"  # type: ignore[operator]
    assert any(row[-1] for row in found["queries"]), "nothing is too late for a query"  # type: ignore[index]
    return found


def test_a_run_that_ends_anywhere_comes_to_what_another_does(tmp_path: Path, expected: dict[str, list[object]]) -> None:
    rounds = workload(SEED, ROUNDS)
    often = Run(tmp_path / "often", rounds)
    for at, times in (
        ("batch.answered", 1),
        ("intake.committed", 5),
        ("batch.windows", 1),
        ("batch.published", 1),
        ("batch.pending", 2),
        ("replay.rows", 1),
        ("batch.decided", 2),
        ("catalog.committed", 2),
    ):
        assert crashed(often, at, times), at
    assert killed(often, "batch.commit", 2, ["--seed", str(SEED), "--rounds", str(ROUNDS)])
    often.play()
    assert differences(expected, outcome_of(often)) == []


def test_a_run_that_ends_in_tasks(tmp_path: Path, expected: dict[str, list[object]], spark: SparkSession) -> None:
    """Tasks work on the last round, so that few batches take long."""
    rounds = workload(SEED, ROUNDS)
    spread = Run(tmp_path / "spread", rounds[:-1])
    spread.play()
    spread = Run(spread.folder, rounds, Settings("spark"), spark)
    assert crashed(spread, "tasks.results", 1)
    spread.play()
    assert differences(expected, outcome_of(spread)) == []
