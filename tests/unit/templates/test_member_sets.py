"""Sets of queries that share a row, cut by ranges of their constants."""

from __future__ import annotations

import numpy as np
import pytest

from xscl.templates.sequences import member_sets
from xscl.templates.sequences.member_sets import MemberSets


@pytest.mark.parametrize("few", [0, 100])
def test_members_in_ranges_are_those_that_each_range_has(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(member_sets, "_FEW", few)
    random = np.random.default_rng(1)
    ranks = [random.integers(0, 10, 200) for _ in range(2)]
    sets = MemberSets(200, ranks)
    base = sets.add(np.unique(random.integers(0, 200, 90)))
    for of in (0, base):
        for _ in range(50):
            box = random.integers(0, 11, 4)
            wanted = [
                member
                for member in sets.of(of).tolist()
                if all(box[2 * at] <= rank[member] < box[2 * at + 1] for at, rank in enumerate(ranks))
            ]
            assert sets.members(of, box).tolist() == wanted
    assert MemberSets(3).members(0, ()).tolist() == [0, 1, 2]
