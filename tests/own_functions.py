"""Functions of one's own, those of the oracle, as the engine is given them, and what declares them for a text."""

from __future__ import annotations

from oracle import texts

import xscl
from xscl.base.own_functions import load_functions

swap = xscl.function(name="swap")(texts.swap)


@xscl.function(returns="number", version="1.5")
def size(text: str) -> float | None:
    """The oracle's function, as a double."""
    found = texts.size(text)
    return None if found is None else float(found)


DECLARED = {"swap()": "swap@1", "size()": "size#1.5"}

load_functions([swap, size])
