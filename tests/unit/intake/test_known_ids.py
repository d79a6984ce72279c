"""Ids of events that the intake has just noted."""

from __future__ import annotations

import time

from xscl.intake.identity import IdsOfChannel


def test_ids_are_noted_one_after_another_at_one_price() -> None:
    """A feed brings events of two channels in turn, so its ids are noted one by one."""
    ids = IdsOfChannel()
    began = time.process_time()
    for number in range(40_000):
        ids.add_new([("items", f"i{number}", f"i{number}", "f", 1, number, number, "digest", 0, 0, 0)])
    assert time.process_time() - began < 4  # 0.1 s; where each copied the ids before it, 16 s
    assert ids.asked == {f"i{number}" for number in range(40_000)}
    assert ids.is_taken("i7") and not ids.is_taken("j7")
