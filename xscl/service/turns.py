"""Turns of calls that read for long: few at a time, and few of one holder; others are told to come again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from xscl.service.problems import Refused

__all__ = ["Turns"]

_AT_ONCE = 4
"""Calls that run at the same time."""
_OF_HOLDER = 8
"""Calls of one holder that run or wait."""
_AGAIN_S = 2.0
"""Seconds after which a holder with too many calls may try again."""


class Turns:
    """Turns of calls of one service.  Calls wait in the event loop, so they take no thread from others."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._asked: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, holder: str, seconds: float) -> AsyncIterator[None]:
        """Wait for a turn, at most so many seconds, and give it back.

        Raises:
            Refused: ``XSCL_BUSY``: none came in time, or the holder has too many calls that run or wait.
        """
        if self._asked[holder] >= _OF_HOLDER:
            told = f"{_OF_HOLDER} statements or counts of this token run or wait"
            raise Refused(503, "XSCL_BUSY", told, after_s=_AGAIN_S)
        self._asked[holder] += 1
        try:
            try:
                async with asyncio.timeout(seconds):
                    await self._free.acquire()
            except TimeoutError:
                told = f"{_AT_ONCE} statements or counts run, and others wait"
                raise Refused(503, "XSCL_BUSY", told, after_s=seconds) from None
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._asked[holder] -= 1
            if not self._asked[holder]:
                del self._asked[holder]
