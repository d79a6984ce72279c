"""The deliverer: a thread that has deliveries go on as matches are committed.

Each delivery goes on for itself: one that waits for a slow target, or pauses after a failure, holds up no other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy.engine import Connection

from xscl.answers.matches.cursors import parse_cursor
from xscl.base.errors import XsclError
from xscl.base.shown import bounded_message
from xscl.base.terminal import tell
from xscl.base.types import now_micros
from xscl.base.version import VERSION
from xscl.catalog.batches import newest_batch
from xscl.catalog.deliveries import Delivery, deliveries_to_repeat, list_deliveries
from xscl.ingest.addresses import private_allowed
from xscl.ingest.fetch import Fetcher, user_agent
from xscl.service.delivering.sending import DeliverySettings, Sender
from xscl.store.home import Home

__all__ = ["Deliverer"]

_SECOND = 1_000_000
_UNNOTED = 1_000
"""Batches without a match after which the catalogue learns of the place, so that nobody looks through them again."""


class _Reached(NamedTuple):
    """Place up to which nothing was for a delivery; the catalogue learns of it with the next page."""

    created: int
    """Time at which the delivery was added: another one may have its name by now."""
    stored: str
    """Cursor of the catalogue at that time."""
    cursor: str


class _State(NamedTuple):
    """Deliveries as the catalogue has them at one moment."""

    deliveries: list[Delivery]
    repeated: frozenset[str]
    """Deliveries that send again what was given up."""
    newest: int
    """Last batch."""


class Deliverer:
    """Has deliveries go on, from ``start`` to ``stop``."""

    def __init__(
        self,
        home: Home,
        settings: DeliverySettings | None = None,
        done: Callable[[str, int], None] = lambda outcome, matches: None,
    ) -> None:
        """``done`` learns of each attempt: delivered, failed or given_up, and of how many matches."""
        self._home = home
        self._settings = settings or DeliverySettings()
        self._done = done
        self._reached: dict[str, _Reached] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._missed: set[str] = set()
        """Deliveries for which a look came while they were going on."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._ending = asyncio.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._main, name="xscl-deliverer", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()
        self._begun.wait()

    def wake(self) -> None:
        """Have matches delivered that were committed now; may be called by any thread."""
        self._set(self._changed)

    def stop(self) -> None:
        """End behind the requests that are under way."""
        if self._thread.is_alive():
            self._set(self._ending)
            self.wake()
            self._thread.join(timeout=self._settings.limits.total_s)

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(event.set)

    def place(self, delivery: Delivery) -> str:
        """Return the cursor behind which something may be for a delivery; may be called by any thread."""
        reached = self._reached.get(delivery.name)
        if reached is None or (reached.created, reached.stored) != (delivery.created, delivery.cursor):
            return delivery.cursor
        return reached.cursor

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        finally:
            self._begun.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        agent = user_agent(VERSION, self._settings.contact)
        async with Fetcher(agent, limits=self._settings.limits, allow_private=private_allowed()) as fetcher:
            sender = Sender(self._home, self._settings, fetcher, self._done)
            while not self._ending.is_set():
                self._changed.clear()
                pause_s = self._settings.look_s
                going_on = frozenset(self._running)
                try:
                    state = await asyncio.to_thread(self._home.catalog.ask, _read_state)
                    pause_s = self._look(sender, state, going_on)
                except Exception as error:  # nobody would begin this thread again
                    tell(f"deliveries: {error if isinstance(error, XsclError) else bounded_message(repr(error))}")
                await _pause(self._ending, self._settings.apart_s)
                await _pause(self._changed, pause_s - self._settings.apart_s)
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _look(self, sender: Sender, state: _State, going_on: frozenset[str]) -> float:
        """Have every delivery go on that is due; return the seconds after which to look again.

        ``going_on`` has the deliveries that went on while the state was read.  The state may have one of them as it
        was before its last page, so such a delivery waits for the next look, which comes at once.
        """
        now, pause_s = now_micros(), self._settings.look_s
        for delivery in state.deliveries:
            name = delivery.name
            if name in self._running:
                self._missed.add(name)
            elif name in going_on:
                self._changed.set()
            elif delivery.due > now:
                pause_s = min(pause_s, (delivery.due - now) / _SECOND)
            elif name in state.repeated or parse_cursor(self.place(delivery)).batch <= state.newest:
                task = asyncio.create_task(self._go_on(sender, delivery, name in state.repeated))
                task.add_done_callback(lambda ended, name=name: self._ended(name, ended))  # type: ignore[misc]
                self._running[name] = task
        for name in self._reached.keys() - {delivery.name for delivery in state.deliveries}:
            del self._reached[name]
        return pause_s

    async def _go_on(self, sender: Sender, delivery: Delivery, repeated: bool) -> None:
        if repeated:
            delivery = await sender.send_again(delivery)
        done = await sender.go_on(delivery, self.place(delivery), self._ending.is_set)
        if done is None:
            # A pause has begun, which the next look has to know.
            self._missed.add(delivery.name)
            return
        behind, cursor = done
        self._reached[delivery.name] = _Reached(behind.created, behind.cursor, cursor)
        if parse_cursor(cursor).batch - parse_cursor(behind.cursor).batch >= _UNNOTED:
            await sender.note_place(behind, cursor)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        del self._running[name]
        error = None if task.cancelled() else task.exception()
        if error is not None and getattr(error, "condition", None) != "XSCL_DELIVERY_NOT_FOUND":
            tell(f"delivery {name}: {bounded_message(repr(error))}")
        if name in self._missed:
            self._missed.discard(name)
            self._changed.set()


async def _pause(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event comes, for so many seconds at most."""
    if seconds > 0:
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


def _read_state(connection: Connection) -> _State:
    return _State(list_deliveries(connection), deliveries_to_repeat(connection), newest_batch(connection))
