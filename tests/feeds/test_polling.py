"""Passes over subscriptions against a server that counts, with a clock of our own."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from budget import examples
from feed_server import Asked, FeedServer, Network, reply, rss, serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xscl.answers.feed_listing import feed_rows, one_listed
from xscl.answers.item_listing import ItemFilter, item_rows
from xscl.base.errors import CatalogError
from xscl.catalog.subscriptions import add_feed, drop_feed, set_feed
from xscl.catalog.tables import EVENT_IDS, FEEDS, HOSTS, INTAKE_FILES
from xscl.ingest.fetch import FetchLimits
from xscl.ingest.fetch_policy import SPACING
from xscl.ingest.records import FeedDocument
from xscl.intake.host_queue import Clock
from xscl.intake.intake import Intake
from xscl.intake.polling import PollReport, PollSettings, poll
from xscl.intake.transaction import Chunk
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = 1_780_000_000 * SECOND
A = "http://a.example/feed"
SETTINGS = PollSettings(limits=FetchLimits(connect_s=60, total_s=60, max_bytes=1_000_000))


@dataclass
class Time:
    """Sleeping takes no time, and makes it later."""

    micros: int = START
    slept: list[float] = field(default_factory=list)

    def now(self) -> int:
        return self.micros

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.micros += int(seconds * SECOND)
        await asyncio.sleep(0)


class World:
    """A home, a server, a network and a clock."""

    def __init__(self, root: Path, server: FeedServer, network: Network, time: Time) -> None:
        self.home: Home = init_home(root)
        self.server = server
        self.network = network
        self.time = time

    def add(self, *urls: str, **options: object) -> None:
        for url in urls:
            add_feed(self.home.catalog, url, now=self.time.now(), **options)  # type: ignore[arg-type]

    def poll(self, *urls: str, everything: bool = False, settings: PollSettings = SETTINGS) -> PollReport:
        return poll(
            self.home,
            urls=urls or None,
            everything=everything,
            settings=settings,
            clock=Clock(self.time.now, self.time.sleep),
            chance=lambda: 0.5,
            resolve=self.network.resolve,
            transport=self.network,
        )

    def later(self, span: int = 2 * HOUR) -> World:
        self.time.micros += span
        return self

    def row(self, url: str = A) -> sa.Row[tuple[object, ...]]:
        with self.home.catalog.read() as connection:
            return connection.execute(sa.select(FEEDS).where(FEEDS.c.url == url)).one()

    def ids(self, channel: str = "items") -> list[str]:
        with self.home.catalog.read() as connection:
            statement = sa.select(EVENT_IDS.c.id).where(EVENT_IDS.c.channel == channel).order_by(EVENT_IDS.c.docid)
            return list(connection.scalars(statement))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    time = Time()
    with serving(time.now) as (server, network):
        yield World(tmp_path / "home", server, network, time)


def test_polls_are_told_to_queries(world: World) -> None:
    def answer(asked: Asked) -> bytes:
        return reply(304) if "if-none-match" in asked.headers else reply(200, rss("one", "two"), etag='"1"')

    world.server.routes["a.example/feed"] = answer
    world.server.routes["a.example/gone"] = lambda asked: reply(404)
    Registry(world.home.catalog).register("xscl.polls[./feed->f]", name="polls")
    world.add(A, "http://a.example/gone?token=secret")
    world.poll()
    world.later().poll(A)
    with world.home.catalog.read() as connection:
        paths = list(connection.scalars(sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)))
    rows = [row for path in paths for row in pq.read_table(world.home.root / path).to_pylist()]
    told = {tuple(row["cells"][:4]): row["cells"][4] for row in rows if row["channel"] == "xscl.polls"}
    hidden = "http://a.example/gone?token=***"
    assert told.keys() == {(A, "items", "200", "2"), (hidden, "items", "404", "0"), (A, "items", "304", "0")}
    assert [problem is not None for (_, _, status, _), problem in told.items() if status == "404"] == [True]
    assert "secret" not in str(rows)


def test_items_come_once_and_conditions_are_sent(world: World) -> None:
    def answer(asked: Asked) -> bytes:
        if asked.headers.get("if-none-match") == '"1"':
            return reply(304, etag='"1"')
        return reply(200, rss("one", "two"), etag='"1"', last_modified="Thu, 01 Jan 1970 00:00:00 GMT")

    world.server.routes["a.example/feed"] = answer
    world.add(A)
    first = world.poll()
    assert (first.feeds, first.requests, dict(first.statuses)) == (1, 1, {"200": 1})
    assert first.received == len(rss("one", "two")) and first.problems == []
    assert world.ids() == ["one", "two"]
    assert world.poll().feeds == 0  # not due
    second = world.later().poll()
    assert (second.requests, dict(second.statuses), second.events) == (1, {"304": 1}, 0)
    assert world.server.log[1].headers["if-modified-since"] == "Thu, 01 Jan 1970 00:00:00 GMT"
    row = world.row()
    assert (row.etag, row.http_status, row.requests, row.problem) == ('"1"', 304, 2, None)
    assert row.bytes == len(rss("one", "two"))


def test_validators_that_lie_double_nothing(world: World) -> None:
    count = iter(range(10))
    world.server.routes["a.example/feed"] = lambda _: reply(200, rss("one"), etag=f'"{next(count)}"')
    world.add(A)
    assert world.poll().events == 2  # of the channel and of its .raw
    assert world.later().poll().events == 0
    assert world.row().etag == '"1"'


def test_no_second_request_within_the_spacing(world: World) -> None:
    names = [f"/{number}" for number in range(5)]
    for host in ("a.example", "b.example"):
        world.server.routes |= {host + name: reply(200, rss(host + name)) for name in names}
    world.add(*(f"http://a.example{name}" for name in names))
    assert world.poll().feeds == 5
    times = [asked.at for asked in world.server.log]
    assert all(later - before >= SPACING for before, later in zip(times, times[1:], strict=False))
    assert len(times) == 5
    # Another pass, as of another process, at once: the host's time was stored.
    world.server.log.clear()
    world.poll(everything=True)
    assert world.server.log[0].at - times[-1] >= SPACING


def test_hosts_do_not_wait_for_each_other(world: World) -> None:
    hosts = [f"h{number}.example" for number in range(20)]
    world.server.routes = {f"{host}/feed": reply(200, rss(host)) for host in hosts}
    world.add(*(f"http://{host}/feed" for host in hosts))
    assert world.poll().feeds == 20
    assert world.time.slept == []


def test_one_request_at_a_time_to_a_host(world: World) -> None:
    under_way: dict[str, int] = {}
    most: dict[str, int] = {}

    def answer(asked: Asked) -> Iterator[bytes]:
        under_way[asked.host] = under_way.get(asked.host, 0) + 1
        most[asked.host] = max(most.get(asked.host, 0), under_way[asked.host])
        whole = reply(200, rss(asked.url))
        yield whole[:20]
        yield whole[20:-1]
        under_way[asked.host] -= 1
        yield whole[-1:]

    urls = [f"http://{host}.example/{number}" for host in "ab" for number in range(4)]
    world.server.routes = {url.removeprefix("http://"): answer for url in urls}
    world.add(*urls)
    assert world.poll().feeds == 8
    assert most == {"a.example": 1, "b.example": 1}


def test_what_is_gone_is_never_asked_again(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(410)
    world.add(A)
    report = world.poll()
    assert [url for url, _ in report.problems] == [A]
    for _ in range(3):
        world.later(30 * 24 * HOUR)
        assert world.poll().feeds == world.poll(everything=True).feeds == world.poll(A).feeds == 0
    assert world.server.asked() == [A]
    assert world.row().status == "stopped"
    set_feed(world.home.catalog, A, now=world.time.now(), status="active")
    assert world.poll().feeds == 1  # the operator wants it


def test_paused_feeds_are_not_asked(world: World) -> None:
    world.add(A)
    set_feed(world.home.catalog, A, now=world.time.now(), status="paused")
    assert world.later().poll(everything=True).feeds == 0
    drop_feed(world.home.catalog, A)
    assert world.poll(everything=True).feeds == 0 and world.server.log == []


@pytest.mark.parametrize("as_date", [False, True])
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds_for_the_feed_and_its_host(world: World, status: int, as_date: bool) -> None:
    wait = "Thu, 28 May 2026 23:26:40 GMT" if as_date else "10800"  # three hours after the start
    world.server.routes["a.example/feed"] = reply(status, retry_after=wait)
    world.server.routes["a.example/other"] = reply(200, rss("one"))
    world.add(A, "http://a.example/other")
    report = world.poll()
    assert (report.feeds, report.left) == (1, 1)
    world.later(3 * HOUR - 400 * SECOND)
    assert world.poll(everything=True).left == 2
    assert world.server.asked() == [A]
    world.server.routes["a.example/feed"] = reply(200, rss("two"))
    assert world.later(HOUR).poll(everything=True).feeds == 2
    with world.home.catalog.read() as connection:
        assert connection.scalar(sa.select(HOSTS.c.failures)) == 0


def test_failures_in_a_row_wait_longer(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(500)
    world.add(A)
    waits = []
    for _ in range(6):
        assert world.poll().feeds == 1
        row = world.row()
        waits.append(row.next_fetch - row.fetched)
        world.time.micros = row.next_fetch
    assert waits == sorted(waits) and waits[0] > HOUR and waits[-1] > 10 * HOUR
    assert world.row().failures == 6
    world.server.routes["a.example/feed"] = reply(200, rss("one"))
    assert world.poll().events == 2 and world.row().failures == 0 and world.row().problem is None


@pytest.mark.parametrize("status", [301, 308])
def test_a_lasting_redirect_seen_twice_is_kept(world: World, status: int) -> None:
    world.server.routes["a.example/feed"] = reply(status, location="http://b.example/new")
    world.server.routes["b.example/new"] = reply(200, rss("one"), etag='"1"')
    world.add(A, allow_private=True)
    world.poll()
    assert world.row().moved_to == "http://b.example/new"
    assert world.later().poll().notes == [f"{A} has moved: http://b.example/new is subscribed from now on"]
    row = world.row("http://b.example/new")
    assert (row.moved_to, row.etag, row.allow_private, row.status) == (None, '"1"', False, "active")
    world.server.log.clear()
    world.later().poll()
    assert world.server.asked() == ["http://b.example/new"]


@pytest.mark.parametrize("status", [302, 303, 307])
def test_other_redirects_are_not_kept(world: World, status: int) -> None:
    world.server.routes["a.example/feed"] = reply(status, location="http://b.example/new")
    world.server.routes["b.example/new"] = reply(200, rss("one"))
    world.add(A)
    for _ in range(3):
        world.poll()
        world.later()
    assert world.row().moved_to is None
    assert world.server.asked("a.example") == [A] * 3


def test_a_redirect_to_what_is_no_feed_is_not_kept(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(301, location="http://b.example/page")
    world.server.routes["b.example/page"] = reply(200, b"<html><body>gone</body></html>")
    world.add(A)
    for _ in range(3):
        world.poll()
        world.later(24 * HOUR)
    assert world.row().moved_to is None and world.server.asked("a.example") == [A] * 3


def test_two_feeds_that_become_one(world: World) -> None:
    target = "http://b.example/new"
    world.server.routes["a.example/feed"] = reply(301, location=target)
    world.server.routes["b.example/new"] = reply(200, rss("one"))
    world.add(A, target)
    world.poll()
    world.later().poll()
    assert world.row().status == "stopped" and "moved to http://b.example/new" in world.row().problem
    assert world.row(target).status == "active"
    world.server.log.clear()
    world.later().poll()
    assert world.server.asked() == [target]
    assert world.ids() == ["one"]


def test_a_feed_that_is_subscribed_at_two_addresses(world: World) -> None:
    own = "http://a.example/own.xml"
    text = rss("one", head=f'<link xmlns="http://www.w3.org/2005/Atom" rel="self" href="{own}"/>')
    world.server.routes["a.example/feed"] = world.server.routes["a.example/own.xml"] = reply(200, text)
    world.add(A)
    world.poll()
    world.add(own)
    world.later().poll()
    assert world.row().identity == own
    first, identity = one_listed(world.home.catalog, A)
    second, same = one_listed(world.home.catalog, own)
    assert (first["feed"], first["polls"], first["items"]) == (A, 2, 1) and identity == same == own
    assert (second["feed"], second["polls"], second["items"]) == (own, 1, 0)
    assert second["title"] == first["title"] is not None
    assert second["reason"] == f"the same feed as {A}, which counts the items"
    assert len(list(item_rows(world.home, ItemFilter(feed=own)))) == 1


def test_redirects_to_the_same_host_are_spaced_too(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(302, location="/new")
    world.server.routes["a.example/new"] = reply(200, rss("one"))
    world.add(A)
    world.poll()
    first, second = world.server.log
    assert second.at - first.at >= SPACING


def test_hosts_that_redirect_to_each_other_do_not_block(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(302, location="http://b.example/x")
    world.server.routes["b.example/feed"] = reply(302, location="http://a.example/x")
    world.server.routes |= {f"{host}.example/x": reply(200, rss(host)) for host in "ab"}
    world.add(A, "http://b.example/feed")
    assert world.poll().requests == 4


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "XSCL_NOT_A_FEED"),
        (b"nonsense", "XSCL_NOT_A_FEED"),
        (b"\x00\xff" * 100, "XSCL_NOT_A_FEED"),
        (b"<catalog/>", "XSCL_NOT_A_FEED"),
        (b"<!DOCTYPE html><html><p>down for a while</html>", "page of HTML"),
        (b'<html xmlns="http://www.w3.org/1999/xhtml"><body/></html>', "page of HTML"),
        (gzip.compress(rss("one"), mtime=0), "XSCL_NOT_A_FEED"),
    ],
)
def test_what_is_no_feed_leaves_the_validators_of_the_last_one(world: World, body: bytes, words: str) -> None:
    world.server.routes["a.example/feed"] = reply(200, rss("one"), etag='"good"')
    world.add(A)
    world.poll()
    world.server.routes["a.example/feed"] = reply(200, body, etag='"bad"')
    report = world.later().poll()
    assert words in report.problems[0][1]
    row = world.row()
    assert (row.etag, row.failures, row.http_status) == ('"good"', 1, 200)
    assert words in row.problem
    world.server.routes["a.example/feed"] = reply(200, rss("two"), etag='"new"')
    world.later().poll(A)
    assert world.server.log[-1].headers["if-none-match"] == '"good"'
    assert world.ids() == ["one", "two"]


def test_a_page_names_its_feeds(world: World) -> None:
    page = b"""<!doctype html><head><link rel=stylesheet href=a.css>
      <link rel="alternate" type="application/rss+xml" href="/rss.xml">
      <link REL="Alternate nofollow" type="application/atom+xml;charset=utf-8" href="http://b.example/atom">
      <link rel="alternate" type="application/rss+xml" href="/rss.xml">
      <link rel="alternate" type="text/html" href="/de/"><link rel=alternate type=application/rss+xml href="file:///x">"""
    world.server.routes["a.example/"] = reply(200, page, content_type="text/html")
    world.add("http://a.example")
    _, problem = world.poll().problems[0]
    assert problem.endswith("hint: add one of its feeds: http://a.example/rss.xml, http://b.example/atom")


@pytest.mark.parametrize("charset", ["utf-16", "iso-8859-1", "no-such", "utf-8"])
def test_a_wrong_charset_in_the_header_is_no_matter(world: World, charset: str) -> None:
    body = b'<?xml version="1.0" encoding="utf-8"?>' + rss("Grüße")
    world.server.routes["a.example/feed"] = reply(200, body, content_type=f"text/xml; charset={charset}")
    world.add(A)
    world.poll()
    assert world.ids() == ["Grüße"]


def test_the_charset_of_the_header_helps_where_the_document_is_wrong(world: World) -> None:
    body = b'<?xml version="1.0" encoding="utf-8"?>' + rss("Привет").decode().encode("windows-1251")
    world.server.routes["a.example/feed"] = reply(200, body, content_type="text/xml; charset=windows-1251")
    world.add(A)
    world.poll()
    assert world.ids() == ["Привет"]


@pytest.mark.parametrize("kind", ["text/xml", "text/xml; charset=utf-8", "text/xml; charset=utf-16"])
def test_a_feed_that_is_not_well_formed_is_read_all_the_same(world: World, kind: str) -> None:
    body = rss("one").replace(b"<title>one", b"<title>one & two")
    world.server.routes["a.example/feed"] = reply(200, body, content_type=kind, etag='"1"')
    world.add(A)
    report = world.poll()
    assert report.problems == [] and len(report.notes) == 1
    assert report.notes[0].startswith(f"{A}: line 1, column ") and report.notes[0].endswith("; read tolerantly")
    assert world.ids() == ["one"] and world.row().etag == '"1"'


def test_hints_of_the_feed_are_remembered(world: World) -> None:
    head = "<ttl>180</ttl>"
    world.server.routes["a.example/feed"] = reply(200, rss("one", head=head), etag='"1"')
    world.add(A)
    world.poll()
    world.server.routes["a.example/feed"] = reply(304)
    for _ in range(2):
        row = world.row()
        assert row.next_fetch - row.fetched >= 3 * HOUR
        world.later(4 * HOUR).poll()
    assert len(world.server.log) == 3


def test_nothing_is_sent_to_private_addresses(world: World) -> None:
    here = f"127.0.0.1:{world.server.port}"
    world.server.routes[f"{here}/feed"] = reply(200, rss("one"))
    for number, target in enumerate([f"http://{here}/feed", "http://169.254.169.254/", "http://inside.example/"]):
        world.server.routes[f"a.example/{number}"] = reply(301, location=target)
        world.add(f"http://a.example/{number}")
    world.network.names |= {"inside.example": ["10.1.2.3"], "meta.example": ["169.254.169.254"]}
    world.add("http://inside.example/feed", "http://meta.example/feed")
    report = world.poll()
    assert len(report.problems) == 5
    assert all("XSCL_PRIVATE_ADDRESS" in problem for _, problem in report.problems)
    assert {asked.host for asked in world.server.log} == {"a.example"} and len(world.server.log) == 3
    assert set(world.network.connections) == {"93.184.216.34"}
    assert report.requests == 3 and world.ids() == []


def test_private_addresses_that_the_operator_allows(world: World) -> None:
    here = f"127.0.0.1:{world.server.port}"
    world.server.routes[f"{here}/feed"] = reply(200, rss("one"))
    world.server.routes["a.example/feed"] = reply(302, location=f"http://{here}/feed")
    world.add(f"http://{here}/feed", A, allow_private=True)
    report = world.poll()
    # The permission is for the host of the subscription, not for where others send us.
    assert [url for url, _ in report.problems] == [A]
    assert world.ids() == ["one"]
    everywhere = replace(SETTINGS, allow_private=True)
    assert world.later().poll(A, settings=everywhere).problems == []


class Stop(Exception):
    """The process ends here."""


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_crash_between_fetch_and_commit_loses_and_doubles_nothing(
    world: World, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(asked: Asked) -> bytes:
        return reply(304) if asked.headers.get("if-none-match") == '"1"' else reply(200, rss("one"), etag='"1"')

    world.server.routes["a.example/feed"] = answer
    world.add(A)
    crashing, name = (Chunk, "write") if when == "within" else (Intake, "take")
    whole: Callable[..., object] = getattr(crashing, name)

    def crash(self: object, *arguments: object) -> None:
        if when != "before":
            whole(self, *arguments)
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(crashing, name, crash)
        with pytest.raises(Stop):
            world.poll()
    committed = when == "after"
    assert (world.ids() == ["one"]) == (world.row().etag == '"1"') == committed
    world.poll()
    # What was not committed is asked for again as if it had never come, and not at once.
    assert len(world.server.log) == 1 + (not committed)
    assert world.server.log[-1].at >= START + (not committed) * SPACING
    assert all("if-none-match" not in asked.headers for asked in world.server.log)
    assert world.ids() == ["one"]
    world.later().poll()
    assert world.server.log[-1].headers["if-none-match"] == '"1"'
    assert world.ids() == ["one"]


def test_a_fault_of_ours_costs_one_feed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"h{number}.example" for number in range(5)]
    world.server.routes = {f"{name}/feed": reply(200, rss(name, link=f"http://{name}/")) for name in names}
    world.add(*(f"http://{name}/feed" for name in names))
    take: Callable[[Intake, list[FeedDocument]], object] = Intake.take

    def faulty(self: Intake, records: list[FeedDocument]) -> object:
        if any(record.source == "http://h2.example/feed" for record in records):
            raise ValueError("a mistake")
        return take(self, records)

    monkeypatch.setattr(Intake, "take", faulty)
    report = world.poll()
    assert [url for url, _ in report.problems] == ["http://h2.example/feed"]
    assert sorted(world.ids()) == sorted(set(names) - {"h2.example"})
    assert world.row("http://h2.example/feed").failures == 1


def test_only_one_process_polls(world: World) -> None:
    def answer(asked: Asked) -> bytes:
        with pytest.raises(CatalogError, match="XSCL_HOME_IN_USE"):
            world.poll()
        return reply(200, rss("one"))

    world.server.routes["a.example/feed"] = answer
    world.add(A)
    assert world.poll().events == 2


def test_a_pass_runs_where_a_loop_runs_already(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(200, rss("one"))
    world.add(A)

    async def notebook() -> PollReport:
        return world.poll()

    assert asyncio.run(notebook()).events == 2


def test_unknown_addresses_are_told(world: World) -> None:
    with pytest.raises(CatalogError, match="XSCL_FEED_NOT_FOUND"):
        world.poll("http://nobody.example/")


BODIES = st.binary(max_size=200) | st.sampled_from([rss("one"), b"<rss><channel>", b"<html>", b"<!DOCTYPE x [", b"{}"])
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
ANSWERS = st.one_of(
    st.binary(max_size=100),
    st.builds(
        lambda status, body, headers: reply(status, body, **headers),
        st.sampled_from([100, 200, 204, 206, 300, 301, 302, 304, 308, 404, 410, 429, 500, 999]),
        BODIES,
        st.dictionaries(
            st.sampled_from(
                [
                    "etag",
                    "last_modified",
                    "location",
                    "retry_after",
                    "cache_control",
                    "content_encoding",
                    "content_type",
                ]
            ),
            HEADER,
            max_size=3,
        ),
    ),
)


@settings(
    max_examples=examples(16),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(answers=st.lists(ANSWERS, min_size=1, max_size=3))
def test_no_answer_stops_the_service(answers: list[bytes], world: World) -> None:
    url = f"http://a.example/{len(list(feed_rows(world.home.catalog)))}"
    given = iter(answers)
    world.server.routes[url.removeprefix("http://")] = lambda _: next(given, reply(404))
    world.add(url)
    for _ in answers:
        world.later(24 * HOUR).poll(url)
    row = world.row(url)
    assert row.status in ("active", "stopped") and row.fetched is not None


def test_what_lists_show(world: World) -> None:
    world.server.routes["a.example/feed"] = reply(404)
    world.add(A, folder="News")
    world.poll()
    (row,) = feed_rows(world.home.catalog)
    assert row["status"] == "active" and row["folder"] == "News" and row["failures"] == 1
    assert str(row["last"]).startswith("[XSCL_HTTP_STATUS]") and row["next"] > row["fetched"]  # type: ignore[operator]
