"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

_AMPLE_S = 120
"""Seconds that only a hang takes, however many programs share the machine."""


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until something holds; whoever waits longer looks less often."""
    end, pause_s = time.monotonic() + _AMPLE_S, 0.005
    while not holds():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 0.1)
