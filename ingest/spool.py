"""Feeds polled into a folder, for readers that must be able to read the same again: one file for each answer.

A file has a line of JSON (address, type, or what went wrong) and then the body.  ``.feeds.json`` in the folder keeps
what polling needs to know: validators, and when feeds may be asked next (``fetch_policy``).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xscl.base.errors import SourceError, XsclError
from xscl.base.private import private_folder
from xscl.base.values import digest_text
from xscl.ingest.addresses import checked_url
from xscl.ingest.fetch import Exchange, Fetched, Fetcher, follow
from xscl.ingest.fetch_policy import SPACING, Answer, Subscription, after_failure, after_success, host_key
from xscl.ingest.fetched import read_fetched
from xscl.ingest.poll_hints import NO_HINTS, Hints, hints_from_json, hints_json
from xscl.ingest.records import Record, rejected

__all__ = ["Wanted", "fetch_all", "poll_spool", "read_answer", "read_spooled", "write_answer"]

_STATE = ".feeds.json"
_AT_ONCE = 16
"""Hosts that are asked at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A feed to ask for."""

    url: str
    etag: str | None = None
    modified: str | None = None


Fetch = Callable[[Sequence[Wanted]], list[Fetched]]


def fetch_all(wanted: Sequence[Wanted], *, agent: str, allow_private: bool = False) -> list[Fetched]:
    """Ask for all, each host for one after the other with its spacing; answers in the order of ``wanted``."""
    return asyncio.run(_fetch_all(wanted, Fetcher(agent, allow_private=allow_private)))


async def _fetch_all(wanted: Sequence[Wanted], fetcher: Fetcher) -> list[Fetched]:
    hosts: dict[str, asyncio.Lock] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(feed: Wanted) -> Fetched:
        async def exchange(url: str) -> Exchange:
            async with hosts.setdefault(host_key(url), asyncio.Lock()), slots:
                found = await fetcher.exchange(url, etag=feed.etag, modified=feed.modified)
                if found.sent:
                    await asyncio.sleep(SPACING / 1e6)
                return found

        try:
            url = checked_url(feed.url)
        except SourceError as error:
            return Fetched(Answer(None, {}), feed.url, None, error, 0, 0)
        return await follow(url, exchange)

    async with fetcher:
        return list(await asyncio.gather(*map(ask, wanted)))


def poll_spool(
    folder: Path, urls: Sequence[str], fetch: Fetch, *, now: int, chance: Callable[[], float] = random.random
) -> int:
    """Ask the feeds that are due, and write what they answered; the number of files that were written.

    Args:
        folder: is made if it is not there.
        urls: addresses of feeds.
        fetch: asks for feeds.
        now: microseconds since the epoch.
        chance: numbers from 0 to 1, for jitter.
    """
    private_folder(folder)
    file = folder / _STATE
    states: dict[str, dict[str, Any]] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    due = [url for url in dict.fromkeys(urls) if _is_due(states.get(url, {}), now)]
    if not due:
        return 0
    wanted = [Wanted(url, states.get(url, {}).get("etag"), states.get(url, {}).get("modified")) for url in due]
    written = 0
    for one, fetched in zip(wanted, fetch(wanted), strict=True):
        if fetched.body is not None or fetched.problem is not None:
            write_answer(folder / f"{now:020d}-{digest_text(one.url)}.fetched", one.url, fetched)
            written += 1
        states[one.url] = states.get(one.url, {}) | _after(one.url, states.get(one.url, {}), fetched, now, chance())
    # After the answers, so that a feed is asked again, not forgotten, if this is not reached.
    _write(file, json.dumps(states, sort_keys=True).encode())
    return written


def write_answer(file: Path, url: str, fetched: Fetched) -> None:
    """Write an answer to a file, which appears in whole."""
    head: dict[str, object] = {"url": url, "content_type": fetched.answer.headers.get("content-type", "")}
    if fetched.problem is not None:
        head |= {"condition": fetched.problem.condition, "message": fetched.problem.message}
    _write(file, json.dumps(head).encode() + b"\n" + (fetched.body or b""))


def read_spooled(files: Iterable[str], channel: str) -> Iterator[Record]:
    """Yield the feeds in files of a spool folder, and what was wrong with them."""
    for file in files:
        try:
            head, _, body = Path(file).read_bytes().partition(b"\n")
            told = json.loads(head)
            yield from read_answer(told["url"], told["content_type"], body, channel, told)
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield rejected(
                file, SourceError("XSCL_SOURCE_UNREADABLE", f"{file} is no spooled answer: {error}"), channel
            )


def read_answer(
    url: str, content_type: str, body: bytes, channel: str, problem: Mapping[str, str] | None = None
) -> Iterator[Record]:
    """Yield the feed of an answer, or why there is none; ``problem`` may have a ``condition`` and its ``message``."""
    if problem is not None and "condition" in problem:
        yield rejected(url, SourceError(problem["condition"], problem["message"]), channel)
        return
    try:
        yield read_fetched(body, url=url, channel=channel, content_type=content_type).document
    except XsclError as error:
        yield rejected(url, error, channel)


def _is_due(state: Mapping[str, Any], now: int) -> bool:
    return state.get("status") != "stopped" and (state.get("next_fetch") or 0) <= now


def _after(url: str, state: Mapping[str, Any], fetched: Fetched, now: int, chance: float) -> dict[str, object]:
    hints: Hints = hints_from_json(state.get("hints")) if state.get("hints") else NO_HINTS
    feed = Subscription(url, None, state.get("failures", 0), state.get("moved_to"), hints)
    problem: XsclError | None = fetched.problem
    if problem is None and fetched.body is not None:
        try:
            kind = fetched.answer.headers.get("content-type", "")
            hints = read_fetched(fetched.body, url=url, channel="items", content_type=kind).hints
        except XsclError as error:
            problem = error
    if problem is not None:
        return after_failure(feed, fetched.answer, problem.message, now, chance)
    return after_success(replace(feed, hints=hints), fetched.answer, hints, now, chance) | {"hints": hints_json(hints)}


def _write(file: Path, data: bytes) -> None:
    hidden = file.with_name(f".{file.name}.part")
    hidden.write_bytes(data)
    hidden.replace(file)
