"""One request at a time to each host, spaced, and not before its time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.types import now_micros
from xscl.catalog.catalog import Catalog
from xscl.catalog.feeds import put_hosts, remove_quiet_hosts
from xscl.catalog.tables import HOSTS
from xscl.ingest.fetch_policy import (
    Answer,
    HostState,
    host_after,
    spaced,
)

__all__ = ["SECOND", "Clock", "Hosts", "NotNowError"]


SECOND = 1_000_000


_DAY = 24 * 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and waiting; tests have their own."""

    now: Callable[[], int] = now_micros
    """Microseconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Seconds."""


class NotNowError(Exception):
    """The host's turn comes after the pass."""


@dataclass(slots=True)
class _Turn:
    """Answer of the host; None where nothing was sent."""

    answer: Answer | None = None


class Hosts:
    """Queues of hosts: one request at a time to a host, not before its time, which is stored.

    Args:
        catalog: holds the times.
        clock: the time.
        chance: gives numbers from 0 up to 1.
        until: no turn begins later, microseconds since the epoch.
    """

    def __init__(self, catalog: Catalog, clock: Clock, chance: Callable[[], float], until: int) -> None:
        self._catalog = catalog
        self._clock = clock
        self._chance = chance
        self._until = until
        self._locks: dict[str, asyncio.Lock] = {}
        self._new: dict[str, HostState] = {}
        self._noting = threading.Lock()
        with catalog.begin() as connection:
            remove_quiet_hosts(connection, clock.now() - _DAY)
            rows = connection.execute(sa.select(HOSTS)).all()
        self._states = {row.host: HostState(row.next_request, row.failures) for row in rows}

    @asynccontextmanager
    async def turn(self, host: str, slots: asyncio.Semaphore) -> AsyncIterator[_Turn]:
        """Wait until the host may be asked and one of the slots is free; inside, no one else asks the host.

        Raises:
            NotNowError: that is after the pass.
        """
        async with self._locks.setdefault(host, asyncio.Lock()):
            await self._wait(host)
            async with slots:
                before = self._state(host)
                self._note(host, HostState(spaced(self._clock.now(), self._chance()), before.failures))
                turn = _Turn()
                yield turn
                after = before
                if turn.answer is not None:
                    after = host_after(before, turn.answer, self._clock.now(), self._chance())
                self._note(host, after)

    def save(self, connection: Connection) -> None:
        """Write what is new since the last call; from any thread."""
        with self._noting:
            new, self._new = self._new, {}
        rows = [
            {"host": host, "next_request": state.next_request, "failures": state.failures}
            for host, state in new.items()
        ]
        put_hosts(connection, rows)

    async def _wait(self, host: str) -> None:
        """Wait until the host may be asked."""
        while (state := self._state(host)).next_request > (now := self._clock.now()):
            if state.next_request > self._until:
                raise NotNowError
            await self._clock.sleep((state.next_request - now) / SECOND)
        if now > self._until:
            raise NotNowError

    def _state(self, host: str) -> HostState:
        return self._states.get(host, HostState(0, 0))

    def _note(self, host: str, state: HostState) -> None:
        with self._noting:
            self._states[host] = self._new[host] = state
