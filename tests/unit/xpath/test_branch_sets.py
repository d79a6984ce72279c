"""Sets that branches ask for, joined with the sets that hold at nodes: every way gives the same pairs."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
import pytest

from xscl.xpath.moves import branch_sets
from xscl.xpath.moves.branch_sets import BranchSets


@pytest.mark.parametrize(("cells", "sparse"), [(1 << 23, 32), (1 << 23, 1 << 40), (20, 1 << 40), (1, 0)])
@pytest.mark.parametrize("seed", range(20))
def test_what_holds_and_is_asked_for_is_found(
    seed: int, cells: int, sparse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch_sets, "_CELLS", cells)
    monkeypatch.setattr(branch_sets, "_SPARSE", sparse)
    choose = Random(seed)
    branches, numbers, count = choose.randint(1, 6), choose.randint(1, 12), choose.randint(1, 30)
    asked = {(choose.randrange(branches), choose.randrange(numbers)) for _ in range(choose.randint(1, 20))}
    known = sorted({number for _, number in asked})
    held = sorted({(choose.randrange(count), choose.choice(known)) for _ in range(choose.randint(0, 60))})
    states = {pair: place for place, pair in enumerate(sorted(asked))}
    sets = BranchSets([(*pair, state) for pair, state in states.items()], branches)
    # Nodes behind the last one that a branch asks about have sets, too.
    places = [(choose.randrange(branches), choose.randrange((count + 1) // 2)) for _ in range(choose.randint(1, 25))]
    wanted = sorted(
        (place, states[branch, number])
        for place, (branch, node) in enumerate(places)
        for number in known
        if (branch, number) in asked and (node, number) in set(held)
    )
    at, which = (np.array([pair[part] for pair in held], dtype=np.int64) for part in (0, 1))
    found: defaultdict[tuple[int, int], int] = defaultdict(int)
    led = sets.led(*np.array(places, dtype=np.int64).T, (at, which), count)
    for of, leads in led:
        for pair in zip(of.tolist(), leads.tolist(), strict=True):
            found[pair] += 1
    assert sorted(found) == wanted and set(found.values()) <= {1}
