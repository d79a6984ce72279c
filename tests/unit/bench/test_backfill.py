"""The bench of back-fills: all three ways to answer new queries give the same matches."""

from __future__ import annotations

import pytest

from xscl.bench.backfill import BENCH
from xscl.bench.bench import Options, run_bench


@pytest.mark.usefixtures("spark")
def test_a_back_fill_has_the_matches_of_batches() -> None:
    """Homes whose registrations take other places are compared by the places among their events."""
    figures = run_bench(BENCH, Options(quick=True, items=1_200), lambda _: None).figures
    assert figures["digest_equal"] and figures["matches"]
