"""The running service: one engine, the pushes that come in, the loop of batches, and the poller of feeds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import traceback
from collections import Counter, deque

from xscl.answers.matches.cursors import Cursor
from xscl.base.errors import XsclError
from xscl.base.shown import bounded_message
from xscl.base.terminal import tell
from xscl.batches.report import BatchReport
from xscl.batches.run_handle import RunHandle
from xscl.catalog.batches import newest_batch
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.records import QueryInfo
from xscl.engine import Engine
from xscl.intake.intake import Intake
from xscl.intake.polling import PollSettings, environment_settings
from xscl.language.compiled import CompiledQuery
from xscl.registry.channel_names import ChannelNames
from xscl.registry.registry import Registry
from xscl.service.arrivals import Arrivals
from xscl.service.delivering.deliverer import Deliverer
from xscl.service.delivering.sending import DeliverySettings
from xscl.service.feed_pages import FeedPages
from xscl.service.live_pages import LivePages
from xscl.service.metrics import Metrics
from xscl.service.problems import Refused
from xscl.service.settings import ServiceSettings
from xscl.service.turns import Turns

__all__ = ["Service"]

_POLL_S = 10.0
"""Time between two looks for feeds that are due."""
_PATIENCE_S = 30.0
"""Seconds in which one look begins requests."""
_BEHIND_S = 2.0
"""Seconds after which a push is welcome again that came while batches were too far behind."""


class Service:
    """An engine that runs, with everything that requests need of it."""

    def __init__(self, engine: Engine, settings: ServiceSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.home = engine.home
        self.intake = Intake(engine.home, strict=settings.strict)
        self.polling = environment_settings(PollSettings(contact=settings.contact, patience_s=_PATIENCE_S))
        self.metrics = Metrics(self._lag, lambda: float(self.arrivals.waiting))
        self.registering = threading.Lock()
        """Is held while queries are registered or dropped: texts are compiled by one thread at a time."""
        self._checking = threading.Lock()
        self._checker = Registry(engine.home.catalog, ChannelNames(engine.home.root))
        """Checks texts that are not registered, with a memory of its own."""
        self.is_ending = False
        """Whether live streams are to end."""
        self.open_streams: Counter[str] = Counter()
        """Live streams that are open, by the holder of their token."""
        self.commits = 0
        """Number of times that batches were committed since the start."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Condition()
        self._taken: deque[tuple[int, float]] = deque()
        """Places of commits of pushes that no batch has reached, and the times of the commits."""
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._processed_place, self._taken_place = self.home.catalog.ask(read_last_places)
        self.turns = Turns()
        self.feed_pages = FeedPages(engine.home)
        self.live_pages = LivePages()
        self.deliverer = Deliverer(engine.home, DeliverySettings(contact=self.polling.contact), self._delivered)
        self.arrivals = Arrivals(self.intake, settings.max_waiting, self.took)
        self.handle: RunHandle | None = None

    def unregistered(self, text: str, name: str | None) -> tuple[QueryInfo, CompiledQuery, tuple[str, ...]]:
        """Check a text, as ``Registry.unregistered`` does; registrations do not wait for it.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: ``name`` is no name, or the text gives another one.
        """
        with self._checking:
            return self._checker.unregistered(text, name=name)

    # -- begin and end -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to process batches and to ask feeds; is called in the thread of the event loop."""
        self._loop = asyncio.get_running_loop()
        self.handle = self.engine.start(
            every=self.settings.every,
            name="xscl-batches",
            then=self._processed,
            failed=_tell_end,
            warns=lambda text: tell(f"batches: {text}"),
            apart_s=self.settings.apart_s,
        )
        self.metrics.running.set_function(lambda: float(self.is_running))
        self.deliverer.start()
        if self.settings.fetch:
            poller = threading.Thread(target=self._poll, name="xscl-poller", daemon=True)
            poller.start()
            self._threads.append(poller)

    def stop(self) -> None:
        """Take what was pushed, end behind the batch that is running, and close the engine."""
        self._stopping.set()
        self.arrivals.close()
        if self.handle is not None:
            self.handle.stop()
        self.deliverer.stop()
        for thread in self._threads:
            thread.join(timeout=self.polling.limits.total_s)
        self.engine.close()

    @property
    def is_running(self) -> bool:
        """Whether batches are processed."""
        return self.handle is not None and self.handle.isActive

    @property
    def is_warm(self) -> bool:
        """Whether the live queries are planned for, so that what comes is processed at once."""
        return self.handle is not None and self.handle.isWarm

    @property
    def problem(self) -> BaseException | None:
        """Reason why batches are not processed now; None while they are."""
        if self.handle is None:
            return None
        return self.handle.exception() or self.handle.lastProblem

    # -- pushes and batches ------------------------------------------------------------------------------------

    def took(self, place: int) -> None:
        """Have a batch begin soon for what was taken up to a place; may be called by any thread."""
        self._taken_place = place
        self._taken.append((place, time.monotonic()))
        self.wake()

    def admit(self) -> None:
        """Refuse a push while too much of what was taken waits for a batch.

        Raises:
            Refused: ``XSCL_BUSY``.
        """
        behind, most = self._taken_place - self._processed_place, self.settings.max_behind
        if behind > most:
            told = f"{behind:,} events and registrations wait for a batch; no more are taken with over {most:,}"
            raise Refused(503, "XSCL_BUSY", told, after_s=_BEHIND_S)

    def wake(self) -> None:
        """Have a batch begin soon; may be called by any thread."""
        if self.handle is not None:
            self.handle.wake()

    def _processed(self, report: BatchReport) -> None:
        """Count what a batch did, and tell the live streams; is called by the thread of batches."""
        self.metrics.matches.inc(report.matches)
        # What takes registrations and drops alone is listed nowhere.
        if report.batch <= self.home.catalog.ask(newest_batch):
            self.metrics.batch_seconds.observe(report.stage1_s + report.join_s + report.commit_s)
            self.metrics.batches.inc()
        self.metrics.losses.inc(len(report.rejected) + len(report.suspended))
        for loss in (*report.suspended, *report.rejected[:20]):
            tell(f"batch {report.batch}: {loss}")
        if report.unmerged is not None:
            tell(f"batch {report.batch}: files of join state stay small, the next batch merges them: {report.unmerged}")
        now, (self._processed_place, _) = time.monotonic(), self.home.catalog.ask(read_last_places)
        while self._taken and self._taken[0][0] <= self._processed_place:
            self.metrics.answered_seconds.observe(now - self._taken.popleft()[1])
        self.deliverer.wake()
        if self._loop is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._tell_streams(), self._loop)

    def _delivered(self, outcome: str, matches: int) -> None:
        """Count an attempt of a delivery."""
        self.metrics.deliveries.labels(outcome).inc(matches)

    async def _tell_streams(self) -> None:
        async with self._changed:
            self.commits += 1
            self._changed.notify_all()

    async def committed(self, seen: int, seconds: float) -> None:
        """Wait until ``commits`` is not ``seen`` any more, for so many seconds at most."""
        async with self._changed:
            # wait_for of asyncio would wait in a task of its own.  If a client hangs up, the server cancels more than
            # once; that task would then take the lock and never give it back.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self.commits != seen)

    async def end_streams(self) -> None:
        """Have all live streams end."""
        self.is_ending = True
        await self._tell_streams()

    def here(self) -> str:
        """Return the cursor behind everything that is committed."""
        return str(Cursor(self.home.catalog.ask(newest_batch) + 1))

    def _lag(self) -> float:
        processed, last = self.home.catalog.ask(read_last_places)
        return float(last - processed)

    # -- feeds -------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Ask the feeds that are due, until the end."""
        while not self._stopping.wait(_POLL_S):
            try:
                report = self.engine.fetch_feeds(settings=self.polling)
            except Exception as error:  # nobody would begin this thread again
                tell(f"feeds: {error if isinstance(error, XsclError) else bounded_message(repr(error))}")
                continue
            self.metrics.polls.labels("failed").inc(len(report.problems))
            self.metrics.polls.labels("answered").inc(report.feeds - len(report.problems))
            if report.events:
                self.wake()


def _tell_end(error: BaseException) -> None:
    """Tell of the error that ends the batches, with its trace where nobody foresaw it."""
    tell(f"batches are not processed any more: {error}")
    if getattr(error, "condition", "XSCL_INTERNAL") == "XSCL_INTERNAL":
        tell("".join(traceback.format_exception(error)).rstrip("\n"))
