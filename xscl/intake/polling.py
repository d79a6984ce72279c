"""One pass over the feeds that are due: many hosts at once, one request at a time to each, spaced.

Fetching waits for hosts; meanwhile what has arrived is taken in.  A feed's validators are stored with the items they
came with, so a process that ends in between asks for the same content again, and nothing is lost or taken twice.  When
hosts may be asked again is stored with each batch and at the end, so that spacing holds for the next pass, too.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import httpx2
import sqlalchemy as sa

from xscl.base.errors import SourceError, XsclError
from xscl.base.failpoints import step
from xscl.base.locks import locked
from xscl.base.progress import told
from xscl.base.shown import masked
from xscl.base.types import Scalar
from xscl.base.version import VERSION
from xscl.catalog.catalog import Catalog
from xscl.catalog.feeds import update_feed
from xscl.catalog.home_channels import HOME_POLLS
from xscl.catalog.subscriptions import DueFeed, due_feeds, find_feeds, move_feed
from xscl.catalog.tables import FEEDS
from xscl.ingest.addresses import Resolve, private_allowed
from xscl.ingest.fetch import DEFAULT_FETCH_LIMITS, Exchange, Fetched, Fetcher, FetchLimits, follow, user_agent
from xscl.ingest.fetch_policy import (
    Answer,
    after_failure,
    after_success,
    host_key,
    lasting_move,
)
from xscl.ingest.fetched import FetchedFeed, read_fetched
from xscl.ingest.poll_hints import hints_json
from xscl.ingest.records import FeedDocument, Poll
from xscl.intake.host_queue import SECOND, Clock, Hosts, NotNowError
from xscl.intake.intake import Intake
from xscl.intake.transaction import told_file
from xscl.store.home import Home
from xscl.store.home_rows import tell_home

__all__ = ["DEFAULT_POLL_SETTINGS", "Clock", "PollReport", "PollSettings", "environment_settings", "poll"]

_WAITING = 64
"""Bodies that wait to be taken in at most."""
_MAX_PROBLEM = 2_000
_OF_CONTENT = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    sa.exc.StatementError,
)
"""Errors by which our own faults over a stranger's content show; they must not stop the other feeds."""
_TOGETHER = 32
"""Feeds that are taken in by one transaction at most."""


@dataclass(frozen=True, slots=True)
class PollSettings:
    """Settings of polling."""

    contact: str | None = None
    """Address of the operator, as a part of the User-Agent."""
    allow_private: bool = False
    """Whether all feeds may be on private networks."""
    patience_s: float = 300.0
    """Seconds in which a pass begins requests; a feed whose host must be left alone for longer waits for the next."""
    at_once: int = 32
    """Requests under way."""
    limits: FetchLimits = DEFAULT_FETCH_LIMITS


DEFAULT_POLL_SETTINGS = PollSettings()


def environment_settings(settings: PollSettings = DEFAULT_POLL_SETTINGS) -> PollSettings:
    """Return the settings with what ``XSCL_CONTACT`` and ``XSCL_ALLOW_PRIVATE`` say, where nothing else was said."""
    contact = settings.contact or os.environ.get("XSCL_CONTACT") or None
    return replace(settings, contact=contact, allow_private=private_allowed(settings.allow_private))


@dataclass(slots=True)
class PollReport:
    """Counts of a pass."""

    feeds: int = 0
    """Feeds that were asked."""
    left: int = 0
    """Feeds that are due, but whose host must be left alone for longer than the pass takes."""
    requests: int = 0
    received: int = 0
    """Bytes of bodies as they were sent."""
    statuses: Counter[str] = field(default_factory=Counter)
    """Feeds by the last answer: ``200``, ``304``, …, ``none`` without one."""
    events: int = 0
    versions: int = 0
    """Number of events that are newer versions of known items."""
    rejected: int = 0
    seconds: float = 0.0
    problems: list[tuple[str, str]] = field(default_factory=list)
    """(address, what was wrong) of feeds that brought nothing they should have."""
    notes: list[str] = field(default_factory=list)
    """Notes on feeds that were taken: what was read tolerantly, and what has moved."""


def poll(
    home: Home,
    *,
    urls: Sequence[str] | None = None,
    everything: bool = False,
    settings: PollSettings = DEFAULT_POLL_SETTINGS,
    clock: Clock | None = None,
    chance: Callable[[], float] | None = None,
    resolve: Resolve | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> PollReport:
    """Ask the feeds that are due, and take in what they bring.

    Args:
        home: where the feeds are subscribed.
        urls: ask these, also before they are due.
        everything: ask all active feeds, also before they are due.  Hosts are left alone for as long as they asked,
            and feeds that are gone (410) or paused are not asked, in any case.
        settings: how to poll.
        clock: the time.
        chance: gives numbers from 0 up to 1.
        resolve: gives the addresses of a host.
        transport: sends a request to an address.

    Raises:
        CatalogError: ``XSCL_FEED_NOT_FOUND``: one of ``urls`` is not subscribed; ``XSCL_HOME_IN_USE``: another process
            polls the home's feeds.
    """
    clock = clock or Clock()
    began = time.monotonic()
    alone = locked(
        home.root / "polling.lock",
        f"polls the feeds of {home.root}",
        "wait until it is done; 'xscl run --fetch' polls by itself",
    )
    with alone:
        due = _wanted(home.catalog, clock.now(), urls, everything)
        fetcher = Fetcher(
            user_agent(VERSION, settings.contact),
            limits=settings.limits,
            allow_private=settings.allow_private,
            resolve=resolve,
            transport=transport,
        )
        told("feeds", 0, len(due))
        one = _Pass(home, settings, clock, chance or random.SystemRandom().random, fetcher)
        _run(one.run(due))
    one.report.seconds = time.monotonic() - began
    return one.report


def _wanted(catalog: Catalog, now: int, urls: Sequence[str] | None, everything: bool) -> list[DueFeed]:
    with catalog.read() as connection:
        numbers: Sequence[int] | None = None
        if urls:
            numbers = find_feeds(connection, urls)
        elif everything:
            active = sa.select(FEEDS.c.number).where(FEEDS.c.status == "active")
            numbers = list(connection.scalars(active))
        return due_feeds(connection, now, numbers)


def _run(work: Awaitable[None]) -> None:
    """Run to the end, also where a loop runs already, as in a notebook."""

    async def whole() -> None:
        await work

    def run() -> None:
        try:
            asyncio.run(whole())
        except BaseExceptionGroup as errors:
            error: BaseException = errors
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from None

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run()
        return
    with ThreadPoolExecutor(1, "xscl-poll") as threads:
        threads.submit(run).result()


@dataclass(frozen=True, slots=True)
class _Decided:
    """Consequence of an answer for its feed."""

    feed: DueFeed
    fetched: Fetched
    values: dict[str, object]
    """The feed's new columns; with a document the intake writes them."""
    document: FeedDocument | None = None
    move: str | None = None
    """The feed's address from now on."""


class _Pass:
    """The state of one pass."""

    def __init__(
        self, home: Home, settings: PollSettings, clock: Clock, chance: Callable[[], float], fetcher: Fetcher
    ) -> None:
        self.home = home
        self.settings = settings
        self.due = 0
        """Feeds that are to be asked."""
        self.clock = clock
        self.chance = chance
        self.fetcher = fetcher
        self.report = PollReport()
        self.intake = Intake(home, now=clock.now)
        until = clock.now() + int(settings.patience_s * SECOND)
        self.hosts = Hosts(home.catalog, clock, chance, until)
        self.arrived: asyncio.Queue[tuple[DueFeed, Fetched] | None] = asyncio.Queue(_WAITING)
        self.slots = asyncio.Semaphore(settings.at_once)

    async def run(self, due: Sequence[DueFeed]) -> None:
        """Ask all, and take in meanwhile."""
        self.due = len(due)
        try:
            async with self.fetcher, asyncio.TaskGroup() as group:
                taking = group.create_task(self._take_all())
                async with asyncio.TaskGroup() as asking:
                    for feed in due:
                        asking.create_task(self._ask(feed))
                await self.arrived.put(None)
                await taking
        finally:
            with self.home.catalog.begin() as connection:
                self.hosts.save(connection)

    async def _ask(self, feed: DueFeed) -> None:
        own_host = host_key(feed.subscription.url)
        seconds = 0.0

        async def exchange(url: str) -> Exchange:
            nonlocal seconds
            host = host_key(url)
            async with self.hosts.turn(host, self.slots) as turn:
                began = time.monotonic()
                found = await self.fetcher.exchange(
                    url,
                    etag=feed.etag,
                    modified=feed.modified,
                    allow_private=feed.allow_private and host == own_host,
                )
                seconds += time.monotonic() - began
                if found.sent:
                    turn.answer = Answer(found.status, found.headers)
                return found

        try:
            fetched = await follow(feed.subscription.url, exchange)
        except NotNowError:
            self.report.left += 1
            return
        await self.arrived.put((feed, replace(fetched, seconds=seconds)))

    async def _take_all(self) -> None:
        while (first := await self.arrived.get()) is not None:
            batch = [first]
            while len(batch) < _TOGETHER and not self.arrived.empty():
                if (more := self.arrived.get_nowait()) is None:
                    await asyncio.to_thread(self._take, batch)
                    return
                batch.append(more)
            await asyncio.to_thread(self._take, batch)

    # -- in a thread, one batch at a time ----------------------------------------------------------------------

    def _take(self, batch: Sequence[tuple[DueFeed, Fetched]]) -> None:
        """Decide what the answers mean, and store it together with what they brought."""
        self._store([self._decided(feed, fetched) for feed, fetched in batch])

    def _decided(self, feed: DueFeed, fetched: Fetched) -> _Decided:
        report = self.report
        report.feeds += 1
        told("feeds", report.feeds + report.left, self.due)
        report.requests += fetched.requests
        report.received += fetched.received
        report.statuses[str(fetched.answer.status or "none")] += 1
        url = feed.subscription.url
        read: FetchedFeed | None = None
        problem: XsclError | None = fetched.problem
        if problem is None and fetched.body is not None:
            kind = fetched.answer.headers.get("content-type", "")
            try:
                read = read_fetched(fetched.body, url=url, channel=feed.channel, content_type=kind)
            except XsclError as error:
                problem = error
            except Exception as error:  # whatever a stranger makes a parser do costs its own feed alone
                problem = SourceError("XSCL_NOT_A_FEED", f"{url}: {type(error).__name__}: {error}")
        if problem is not None:
            return self._failed(feed, fetched, problem)
        hints = feed.subscription.hints if read is None else read.hints
        values = after_success(feed.subscription, fetched.answer, hints, self.clock.now(), self.chance())
        values |= {"hints": hints_json(hints), **_counted(feed, fetched)}
        left = Poll(feed.number, values, fetched.url, _told_poll(feed, fetched))
        document = None if read is None else replace(read.document, poll=left)
        return _Decided(feed, fetched, values, document, lasting_move(feed.subscription, fetched.answer))

    def _failed(self, feed: DueFeed, fetched: Fetched, problem: XsclError) -> _Decided:
        told = _told(problem)
        self.report.problems.append((feed.subscription.url, told))
        values = after_failure(feed.subscription, fetched.answer, told, self.clock.now(), self.chance())
        return _Decided(feed, fetched, values | _counted(feed, fetched))

    def _store(self, decided: Sequence[_Decided]) -> None:
        documents = [one.document for one in decided if one.document is not None]
        step("poll.fetched")
        try:
            taken = self.intake.take(documents)
        except XsclError:
            raise
        except _OF_CONTENT as error:
            if len(decided) > 1:
                for one in decided:
                    self._store([one])
                return
            (one,) = decided
            reason = SourceError("XSCL_NOT_A_FEED", f"{one.feed.subscription.url}: {type(error).__name__}: {error}")
            self._store([self._failed(one.feed, one.fetched, reason)])
            return
        self.report.events += taken.taken
        self.report.versions += taken.versions
        self.report.rejected += taken.rejected
        self.report.notes += [*taken.notes, *(f"{flaw}; read tolerantly" for flaw in taken.flaws)]
        step("poll.taken")
        with self.home.catalog.begin() as connection:
            self.hosts.save(connection)
            # With a document, its transaction has told of the poll.
            bare = [_told_poll(one.feed, one.fetched, one.values) for one in decided if one.document is None]
            tell_home(connection, HOME_POLLS, bare, self.clock.now(), told_file(self.home))
            for one in decided:
                if one.document is None:
                    update_feed(connection, one.feed.number, one.values)
                if one.move is not None:
                    url = one.feed.subscription.url
                    if problem := move_feed(connection, one.feed.number, url, one.move):
                        self.report.problems.append((url, problem))
                    else:
                        moved = f"{masked(url)} has moved: {masked(one.move)} is subscribed from now on"
                        self.report.notes.append(moved)
        step("poll.stored")


def _counted(feed: DueFeed, fetched: Fetched) -> dict[str, object]:
    return {"requests": feed.requests + fetched.requests, "bytes": feed.received + fetched.received}


def _told_poll(
    feed: DueFeed, fetched: Fetched, values: Mapping[str, object] = MappingProxyType({})
) -> dict[str, Scalar]:
    """Return the row about a poll; ``values`` are the feed's new columns, where it brought no document."""
    problem = values.get("problem")
    return {
        "feed": masked(feed.subscription.url),
        "channel": feed.channel,
        "status": fetched.answer.status,
        "new": 0,
        "problem": None if problem is None else masked(str(problem)),
        "seconds": round(fetched.seconds, 6),
    }


def _told(problem: XsclError) -> str:
    """Return a problem as it is stored and printed: terminals obey some of what strangers send."""
    text = "".join(c if c.isprintable() or c == "\n" else "·" for c in str(problem))
    return text if len(text) <= _MAX_PROBLEM else f"{text[:_MAX_PROBLEM]}…"
