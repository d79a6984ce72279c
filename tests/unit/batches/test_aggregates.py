"""Windows of matches in a batch, one by one: numbers, windows that are asked for, and who is told."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xscl
from xscl.batches.aggregate_groups import Matches
from xscl.batches.aggregate_rows import ROW_SCHEMA
from xscl.batches.aggregate_values import Numbers


def matches(times: list[int]) -> Matches:
    """Matches at some times, one after another."""
    count = len(times)
    columns = {
        "part": [1] * count,
        "ts": times,
        "key": [b"%08d" % number for number in range(count)],
        "first": range(count),
        "came": range(count),
        "received": [0] * count,
        "name": [str(number) for number in range(count)],
        "texts": [["x"]] * count,
    }
    return Matches(pa.table({name: list(values) for name, values in columns.items()}, schema=ROW_SCHEMA))


@pytest.mark.parametrize("digits", [1, 18, 19, 20, 40])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_nothing_are_compared_with_any_number(digits: int, sign: int) -> None:
    sums = Numbers(np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64), np.array([True, False]))
    for number in (Fraction(sign, 10**digits), Fraction(sign * 10**digits)):
        assert sums.compared("<", number).tolist() == [sign > 0, False]


def test_no_other_windows_are_made_than_are_asked_for() -> None:
    found = matches([-3, 0, 0, 4, 25, 1000])
    for every, window in [(1, 1), (2, 5), (5, 10), (10, 10)]:
        known = sorted(
            {n for ts in [-3, 0, 4, 25, 1000] for n in range(-20, 1001) if n * every <= ts < n * every + window}
        )
        for least, most in [(-20, 1000), (0, 3), (3, 2), (6, 999)]:
            assert found.windows(every, window, least, most) == [n for n in known if least <= n <= most]
    assert matches([]).windows(1, 10, 0, 5) == []
    # Each of many matches is in many windows, and two of them are asked for.
    far = matches(list(range(20_000)))
    assert far.windows(1, 1 << 40, 7, 8) == [7, 8]


def test_windows_of_a_channel_that_the_same_batch_publishes_first(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("a", lateness="1 s")
        engine.register("SELECT k FROM a[./k->k] PUBLISH pb", name="p")
        engine.register("SELECT k, count() AS n FROM pb[./k->k] WINDOW 5 min EVERY 5 min GROUP BY k", name="w")
        engine.ingest([xscl.Event("a", f"e{hour}", hour * 3600, xml="<r><k>1</k></r>") for hour in range(2)])
        engine.run_once()
        assert [dict(match.values) for match in engine.matches("w")] == [{"k": "1", "n": "1"}]


def test_a_late_event_counts_in_no_window_when_it_is_replayed(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for name in "ab":
            engine.add_channel(name, lateness="1 s")
        text = "SELECT k, count() AS n FROM a[./k->k] JOIN {k = m, 1 h} b[./m->m] WINDOW 1 h EVERY 1 h GROUP BY k"
        engine.register(text, name="n")
        engine.register("a[./k->k] JOIN {k = m, 1 h} b[./m->m]", name="plain")
        came = [("b", 240, "m"), ("a", 600, "k"), ("a", 300, "k")]
        engine.ingest([xscl.Event(name, f"e{ts}", ts, xml=f"<r><{tag}>x</{tag}></r>") for name, ts, tag in came])
        engine.run_once()
        engine.replay_late()
        engine.run_once()
        engine.ingest([xscl.Event(name, "end", 7200, xml="<r/>") for name in "ab"])
        engine.run_once()
        assert len([*engine.matches("plain")]) == 2
        assert [dict(match.values) for match in engine.matches("n")] == [{"k": "x", "n": "1"}]
        assert [dict(match.values) for match in engine.query_once(text)] == [{"k": "x", "n": "1"}]


@pytest.mark.parametrize("text", ["WINDOW 1 h EVERY 1 h", "WINDOW 1 h"])
def test_a_dropped_query_leaves_the_ids_of_others_alone(tmp_path: Path, text: str) -> None:
    def ids(folder: Path, cut: bool) -> list[tuple[str, str | None]]:
        with xscl.connect(home=folder) as engine:
            engine.add_channel("s", lateness="1 s")
            for number, name in enumerate(["q1", "q2"]):
                engine.register(f"SELECT k, count() AS n FROM s[./k->k] {text} GROUP BY k", name=name)
                engine.ingest([xscl.Event("s", name, 60 * number, xml="<r><k>x</k></r>")])
            engine.drop("q1")
            if cut:
                engine.run_once()
            engine.ingest([xscl.Event("s", "end", 7200, xml="<r><k>x</k></r>")])
            engine.run_once()
            return [(match.events[0].id, match.document) for match in engine.matches("q2")]

    whole = ids(tmp_path / "whole", False)
    assert whole and whole == ids(tmp_path / "cut", True)
