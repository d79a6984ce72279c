"""The Filter workload without its parts: answers stay the same, and are those of a loop."""

from __future__ import annotations

import numpy as np

from xscl.bench.ablation import Ablated, measure_ablated
from xscl.bench.patterns import BENCH
from xscl.bench.subscriptions import new_subscriptions


def test_what_is_left_out_changes_no_answer() -> None:
    data = new_subscriptions(60, 1_500, seed=4)
    # A few values, so that subscriptions have answers.
    data.events[:, :4] %= 3
    data.equal[:, :, 0] %= 3
    data.equal[:, :, 2] %= 3
    figures, agrees = measure_ablated(Ablated(data), 5)
    assert agrees and figures["matches"] > 0
    assert {name for name in figures if name.startswith("slowdown")} == {
        "slowdown_without_index",
        "slowdown_without_lanes",
        "slowdown_without_both",
        "slowdown_of_loops",
    }


def test_small_runs_have_the_promised_names() -> None:
    sizes = BENCH.sizes
    quick = {name: getattr(sizes, name) for name in ("queries", "subscriptions")}
    assert quick == {"queries": 100_000, "subscriptions": (100_000, 400_000)}
    assert np.all([sizes.__dataclass_fields__[name].metadata["quick"] == quick[name] for name in quick])
