"""Sending of one delivery: page after page to its target, each noted behind it, or put off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from xscl.base.errors import XsclError
from xscl.base.failpoints import step
from xscl.base.shown import bounded_message
from xscl.base.types import format_time, now_micros
from xscl.catalog.deliveries import (
    DeadLetter,
    Delivery,
    give_up,
    note_failure,
    note_file,
    note_sent,
    read_dead_letters,
    read_delivery,
    settle_dead_letter,
)
from xscl.ingest.fetch import Fetcher, FetchLimits
from xscl.service.delivering.files import append_lines, next_file
from xscl.service.delivering.pages import Page, next_page
from xscl.service.delivering.webhooks import Failure, Retries, post_page
from xscl.store.home import Home

__all__ = ["DeliverySettings", "Sender"]

_SECOND = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """Settings of all deliveries."""

    retries: Retries = field(default_factory=Retries)
    page: int = 1_000
    """Matches of a page."""
    page_bytes: int = 4 << 20
    """Bytes of a page, unless its first match has more."""
    limits: FetchLimits = field(default_factory=FetchLimits)
    apart_s: float = 1.0
    """Time between two looks at least, so that a page is worth its cost."""
    look_s: float = 5.0
    """Time between two looks for deliveries that were added, dropped or set back."""
    contact: str | None = None
    """Address of the operator, which requests name."""


class Sender:
    """Sends the matches of deliveries with one fetcher."""

    def __init__(
        self, home: Home, settings: DeliverySettings, fetcher: Fetcher, done: Callable[[str, int], None]
    ) -> None:
        """``done`` learns of each attempt: delivered, failed or given up, and of how many matches."""
        self._home = home
        self._settings = settings
        self._fetcher = fetcher
        self._done = done
        self._chance = random.SystemRandom().random

    async def go_on(self, delivery: Delivery, after: str, is_ending: Callable[[], bool]) -> tuple[Delivery, str] | None:
        """Send pages until nothing is left; return the delivery and the cursor behind everything, or None.

        None: a page was not taken, or the service ends.

        Args:
            delivery: as the catalogue has it.
            after: cursor behind which to begin; nothing between the catalogue's and it is for the query.
            is_ending: tells whether to stop behind a page.
        """
        while not is_ending():
            page = None
            try:
                page = await asyncio.to_thread(self._page, delivery, after, None)
                if not page.cursors:
                    return delivery, page.cursor
                failure = await self._put(delivery, page)
            except XsclError as error:
                failure = Failure(bounded_message(str(error)))
            if failure is not None:
                await asyncio.to_thread(self._failed, delivery, after, page, failure)
                return None
            delivery = await asyncio.to_thread(self._home.catalog.ask, read_delivery, delivery.name)
            after = delivery.cursor
        return None

    async def note_place(self, delivery: Delivery, cursor: str) -> None:
        """Note a place up to which nothing was for a delivery."""
        await asyncio.to_thread(self._write, note_sent, delivery, cursor, 0, delivery.size)

    async def send_again(self, delivery: Delivery) -> Delivery:
        """Send once more what was given up, where that is wanted; what is not taken stays.  Returns the delivery."""
        ask, created = self._home.catalog.ask, delivery.created
        for letter in await asyncio.to_thread(ask, read_dead_letters, delivery.name, again=True):
            after, failure = letter.after, None
            # Another delivery may have the name by now, whose matches are others.
            while failure is None and delivery.created == created:
                try:
                    page = await asyncio.to_thread(self._page, delivery, after, letter.until)
                    if not page.cursors:
                        break
                    failure, after = await self._put(delivery, page, moves=False), page.cursor
                except XsclError as error:
                    failure = Failure(bounded_message(str(error)))
                delivery = await asyncio.to_thread(ask, read_delivery, delivery.name)
            problem = None if failure is None else failure.problem
            await asyncio.to_thread(self._write, settle_dead_letter, delivery.name, letter, problem)
        return delivery

    # -- one page ----------------------------------------------------------------------------------------------

    def _page(self, delivery: Delivery, after: str, until: str | None) -> Page:
        most, most_bytes = self._settings.page, self._settings.page_bytes
        return next_page(self._home, delivery.query, after, most=most, most_bytes=most_bytes, until=until)

    async def _put(self, delivery: Delivery, page: Page, *, moves: bool = True) -> Failure | None:
        """Bring a page to its target, and note it; with ``moves`` the delivery goes on behind it."""
        if delivery.kind == "files":
            await asyncio.to_thread(self._append, delivery, page, moves)
        else:
            failure = await post_page(self._fetcher, delivery, page, now_micros())
            if failure is not None:
                self._done("failed", len(page.cursors))
                return failure
            await asyncio.to_thread(self._sent, delivery, page, delivery.size, moves)
        self._done("delivered", len(page.cursors))
        return None

    def _append(self, delivery: Delivery, page: Page, moves: bool) -> None:
        folder, day = Path(delivery.target), format_time(now_micros())[:10].replace("-", "")
        most, written, of_others = delivery.most_bytes or 1, None, False
        while written is None:
            file = next_file(folder, delivery.name, day, delivery.file, delivery.size, most, new=of_others)
            if file != delivery.file:
                # The name is noted first: nothing is ever written over what a catalogue does not know.
                self._write(note_file, delivery, file)
                delivery = replace(delivery, file=file, size=0)
            written = append_lines(folder / file, delivery.size, page.body)
            of_others = written is None
        self._sent(delivery, page, written, moves)

    def _sent(self, delivery: Delivery, page: Page, size: int, moves: bool) -> None:
        step("deliver.sent")
        self._write(note_sent, delivery, page.cursor if moves else delivery.cursor, len(page.cursors), size)

    def _failed(self, delivery: Delivery, after: str, page: Page | None, failure: Failure) -> None:
        """Put a delivery off; a page that its target did not take for too long is given up."""
        now, retries = now_micros(), self._settings.retries
        if page is not None and retries.is_last(delivery, now):
            letter = DeadLetter(after, page.cursor, len(page.cursors), failure.problem, now)
            self._write(give_up, delivery, letter)
            self._done("given_up", len(page.cursors))
            return
        failing_s = 0.0 if delivery.failing is None else (now - delivery.failing) / _SECOND
        pause_s = retries.pause_s(delivery.failures + 1, failing_s, self._chance())
        pause_s = max(pause_s, min(failure.wait_s, retries.most_s))
        self._write(note_failure, delivery, failure.problem, now=now, due=now + int(pause_s * _SECOND))

    def _write(self, change: Callable[..., T], *args: object, **kwargs: object) -> T:
        with self._home.catalog.begin() as connection:
            return change(connection, *args, **kwargs)
