"""The number of random examples that a test tries: few in ``make test``, a hundred times that in ``make test-all``."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("XSCL_TESTS") == "thorough"


def examples(quick: int) -> int:
    """Give the number of examples for this run.

    Args:
        quick: ten times the number within ``make test``, and a tenth of that within ``make test-all``.
    """
    return 10 * quick if THOROUGH else -(-quick // 10)
