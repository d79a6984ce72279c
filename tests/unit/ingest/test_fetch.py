"""One poll against a real server that misbehaves: what is asked, what comes of it, what is not asked."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import shutil
import ssl
import subprocess
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
from feed_server import PUBLIC, Asked, FeedServer, Network, reply, rss, serving

from xscl.base.errors import SourceError
from xscl.ingest.fetch import Exchange, Fetched, Fetcher, FetchLimits, follow, user_agent

LIMITS = FetchLimits(connect_s=60, total_s=60, max_bytes=100_000)
FEED = rss("one", "two")


@pytest.fixture
def web() -> Iterator[tuple[FeedServer, Network]]:
    with serving() as found:
        yield found


def fetch(
    network: Network,
    url: str = "http://a.example/feed",
    *,
    etag: str | None = None,
    modified: str | None = None,
    limits: FetchLimits = LIMITS,
    allow_private: bool = False,
) -> Fetched:
    async def run() -> Fetched:
        async with Fetcher("xscl/test", limits=limits, resolve=network.resolve, transport=network) as fetcher:

            async def exchange(at: str) -> Exchange:
                return await fetcher.exchange(at, etag=etag, modified=modified, allow_private=allow_private)

            return await follow(url, exchange)

    return asyncio.run(run())


def problem(found: Fetched) -> str:
    assert found.problem is not None and found.body is None
    return str(found.problem)


def test_what_is_asked(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed?x=1"] = reply(200, FEED, etag='"1"', set_cookie="a=b")
    found = fetch(network, "http://a.example/feed?x=1", etag='W/"0"', modified="Thu, 01 Jan 1970 00:00:00 GMT")
    assert found.body == FEED and found.problem is None
    assert (found.requests, found.received) == (1, len(FEED))
    (asked,) = server.log
    assert asked.headers["user-agent"] == "xscl/test"
    assert asked.headers["accept-encoding"] == "gzip, br, zstd"
    assert asked.headers["if-none-match"] == 'W/"0"'
    assert asked.headers["if-modified-since"] == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert not {"cookie", "authorization", "referer"} & set(asked.headers)
    assert network.connections == [PUBLIC]


def test_not_modified(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(304, etag='"1"')
    found = fetch(network, etag='"1"')
    assert found.problem is None and found.body is None and found.answer.status == 304
    assert "XSCL_HTTP_STATUS" in problem(fetch(network))
    assert "if-none-match" not in server.log[1].headers


def zstd(data: bytes) -> bytes:
    from backports import zstd as library

    return library.compress(data)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [("gzip", gzip.compress(FEED, mtime=0)), ("br", brotli.compress(FEED)), ("zstd", zstd(FEED)), ("identity", FEED)],
)
def test_packed_bodies(web: tuple[FeedServer, Network], coding: str, packed: bytes) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(200, packed, content_encoding=coding)
    found = fetch(network)
    assert found.body == FEED
    assert found.received == len(packed)


BOMB = b"<rss>" + b" " * 20_000_000


@pytest.mark.parametrize(
    ("coding", "packed"),
    [("gzip", gzip.compress(BOMB, mtime=0)), ("br", brotli.compress(BOMB, quality=5)), ("zstd", zstd(BOMB))],
)
def test_bombs(web: tuple[FeedServer, Network], coding: str, packed: bytes) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(200, packed, content_encoding=coding)
    found = fetch(network)
    assert "XSCL_FETCH_LIMIT" in problem(found)
    assert found.received <= len(packed)


def test_a_bomb_in_a_bomb_is_not_unpacked(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(200, gzip.compress(gzip.compress(BOMB)), content_encoding="gzip, gzip")
    assert "was not asked for" in problem(fetch(network))


def test_the_limit_is_inclusive(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(200, b"x" * 100_000)
    server.routes["b.example/feed"] = reply(200, b"x" * 100_001)
    assert fetch(network).body == b"x" * 100_000
    assert "XSCL_FETCH_LIMIT" in problem(fetch(network, "http://b.example/feed"))


def endless(part: bytes, first: bytes, seen: threading.Event) -> Iterator[bytes]:
    yield first
    try:
        while True:
            yield part
    finally:
        seen.set()


@pytest.mark.parametrize(
    ("first", "part", "condition"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n", "has more than 102,400 bytes of headers"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 1_000, "has more than 102,400 bytes of headers"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1_000, "XSCL_FETCH_LIMIT"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nabcd\r\n", "XSCL_FETCH_LIMIT"),
    ],
)
def test_what_never_ends_is_cut(web: tuple[FeedServer, Network], first: bytes, part: bytes, condition: str) -> None:
    server, network = web
    seen = threading.Event()
    server.routes["a.example/feed"] = lambda _: endless(part, first, seen)
    assert condition in problem(fetch(network))
    assert seen.wait(120)  # the server could not go on sending


@pytest.mark.parametrize(
    ("first", "status"),
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<", 200), (b"HTTP/1.1 200 OK\r\n", None), (b"", None)],
)
def test_slow_answers_end_at_the_time_limit(web: tuple[FeedServer, Network], first: bytes, status: int | None) -> None:
    server, network = web
    stop = threading.Event()

    def drip(_: Asked) -> Iterator[bytes]:
        yield first
        while not stop.wait(0.01):
            yield b"x" if b"\r\n\r\n" in first else b""

    server.routes["a.example/feed"] = drip
    # A busy machine takes longer until the first bytes are there.
    for total_s in (0.3, 3, 30):
        found = fetch(network, limits=FetchLimits(connect_s=60, total_s=total_s))
        assert "XSCL_FETCH_TIMEOUT" in problem(found)
        if found.answer.status == status:
            break
    stop.set()
    assert found.answer.status == status


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<rss>",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n<rss>",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n<rss>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n<rss>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<rss>\r\n",
        reply(200, gzip.compress(FEED, mtime=0)[:-9], content_encoding="gzip"),
        reply(200, b"no gzip", content_encoding="gzip"),
        reply(200, brotli.compress(FEED)[:5] + b"\xff" * 20, content_encoding="br"),
        reply(200, zstd(FEED)[:20], content_encoding="zstd"),
        reply(200, FEED, content_encoding="compress"),
        reply(204),
        reply(206, FEED),
    ],
)
def test_answers_that_are_none(web: tuple[FeedServer, Network], answer: bytes) -> None:
    server, network = web
    server.routes["a.example/feed"] = answer
    problem(fetch(network))
    assert len(server.log) == 1


def test_what_comes_after_the_stated_length_is_not_read(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(200, FEED + b"<evil/>", content_length=str(len(FEED)))
    assert fetch(network).body == FEED


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 429, 500, 503, 599])
def test_refusals(web: tuple[FeedServer, Network], status: int) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(status, b"<rss/>", retry_after="7")
    found = fetch(network)
    assert f"answered {status}" in problem(found)
    assert found.answer.status == status and found.answer.headers["retry-after"] == "7"


def test_redirects_are_followed_one_by_one(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(301, location="http://b.example/1")
    server.routes["b.example/1"] = reply(308, location="/2")
    server.routes["b.example/2"] = reply(302, location="?3#top")
    server.routes["b.example/2?3"] = reply(301, location="//c.example/4")
    server.routes["c.example/4"] = reply(200, FEED)
    found = fetch(network, etag='"1"')
    assert found.body == FEED and found.requests == 5
    assert found.url == "http://c.example/4"
    assert found.answer.moved_to == "http://b.example/2"  # what comes after 302 does not last
    assert network.resolved == ["a.example", "b.example", "b.example", "b.example", "c.example"]


@pytest.mark.parametrize("status", [302, 303, 307])
def test_other_redirects_do_not_last(web: tuple[FeedServer, Network], status: int) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(status, location="/new")
    server.routes["a.example/new"] = reply(200, FEED)
    found = fetch(network)
    assert found.body == FEED and found.answer.moved_to is None


def test_a_circle_of_redirects_ends(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(301, location="/other")
    server.routes["a.example/other"] = reply(301, location="/feed")
    assert "XSCL_REDIRECT" in problem(fetch(network))
    assert len(server.log) == 6


@pytest.mark.parametrize(
    ("location", "condition"),
    [
        ("http://169.254.169.254/latest/meta-data/", "XSCL_PRIVATE_ADDRESS"),
        ("http://127.0.0.1/", "XSCL_PRIVATE_ADDRESS"),
        ("http://[::1]/", "XSCL_PRIVATE_ADDRESS"),
        ("http://[::ffff:169.254.169.254]/", "XSCL_PRIVATE_ADDRESS"),
        ("http://inside.example/", "XSCL_PRIVATE_ADDRESS"),
        ("file:///etc/passwd", "XSCL_REDIRECT"),
        ("ftp://b.example/", "XSCL_REDIRECT"),
        ("http://user:secret@b.example/", "XSCL_REDIRECT"),
        ("https://", "XSCL_REDIRECT"),
        ("http://[", "XSCL_REDIRECT"),
        ("http://b.example:99999/", "XSCL_REDIRECT"),
        ("", "XSCL_REDIRECT"),
    ],
)
def test_redirects_to_where_nobody_may_send_us(web: tuple[FeedServer, Network], location: str, condition: str) -> None:
    server, network = web
    network.names["inside.example"] = ["10.0.0.1"]
    server.routes["a.example/feed"] = reply(302, location=location)
    found = fetch(network)
    assert condition in problem(found) and "secret" not in problem(found)
    assert server.asked() == ["http://a.example/feed"]
    assert network.connections == [PUBLIC]
    assert found.requests == 1


def test_nothing_is_sent_to_the_machine_itself_by_default(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    here = f"127.0.0.1:{server.port}"
    server.routes[f"{here}/feed"] = reply(200, FEED)
    network.names["a.example"] = ["127.0.0.1"]
    for url in (f"http://{here}/feed", f"http://a.example:{server.port}/feed"):
        found = fetch(network, url)
        assert "XSCL_PRIVATE_ADDRESS" in problem(found)
        assert (found.requests, found.answer.status) == (0, None)
    assert server.log == [] and network.connections == []
    assert fetch(network, f"http://{here}/feed", allow_private=True).body == FEED


def test_a_name_is_resolved_once(web: tuple[FeedServer, Network]) -> None:
    """Who answers with a public address first and with a private one later gets nothing from it."""
    server, network = web
    answers = itertools.chain([[PUBLIC]], itertools.repeat(["127.0.0.1"]))
    server.routes["a.example/feed"] = reply(200, FEED)

    async def resolve(host: str, port: int) -> list[str]:
        return next(answers)

    network.resolve = resolve  # type: ignore[method-assign]
    assert fetch(network).body == FEED
    assert network.connections == [PUBLIC]
    assert "XSCL_PRIVATE_ADDRESS" in problem(fetch(network))
    assert network.connections == [PUBLIC]


def test_names_that_do_not_resolve(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    network.names["a.example"] = []
    assert "cannot be resolved" in problem(fetch(network))
    assert server.log == []


def test_the_next_address_is_tried_where_one_takes_no_connection(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    with FeedServerThatIsClosed() as closed:
        network.names["a.example"] = ["127.0.0.1", PUBLIC]
        server.routes[f"a.example:{closed}/feed"] = reply(200, FEED)
        found = fetch(network, f"http://a.example:{closed}/feed", allow_private=True)
    assert found.body == FEED and network.connections == ["127.0.0.1", PUBLIC]


class FeedServerThatIsClosed:
    """A port on which nobody listens."""

    def __enter__(self) -> int:
        server = FeedServer()
        server.close()
        return server.port

    def __exit__(self, *_: object) -> None:
        pass


def test_deflate_was_not_asked_for(web: tuple[FeedServer, Network]) -> None:
    server, network = web
    server.routes["a.example/feed"] = reply(200, zlib.compress(FEED), content_encoding="deflate")
    assert "'deflate'" in problem(fetch(network))


def test_how_we_introduce_ourselves() -> None:
    assert user_agent("1.0", None) == "xscl/1.0"
    assert user_agent("1.0", "https://example.org/bot") == "xscl/1.0 (+https://example.org/bot)"
    for contact in ("a\r\nX: y", "ä", "a)", "x" * 201):
        with pytest.raises(SourceError, match="XSCL_BAD_OPTION"):
            user_agent("1.0", contact)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for a.example that signs itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate, and is not on this machine")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "a.pem", folder / "a.key"
    subject = ["-subj", "/CN=a.example", "-addext", "subjectAltName=DNS:a.example"]
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([openssl, *new, *subject, "-keyout", key, "-out", made], check=True, capture_output=True)
    return made, key


def test_certificates_are_checked_against_the_name(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(tls=context) as (server, network):
        server.routes = {f"{host}.example/feed": reply(200, FEED) for host in "ab"}
        assert "CERTIFICATE_VERIFY_FAILED" in problem(fetch(network, "https://a.example/feed")).upper().replace(
            " ", "_"
        )
        network.trust(ssl.create_default_context(cafile=str(certificate[0])))
        assert fetch(network, "https://a.example/feed").body == FEED
        # The same address, and a certificate that is good, but for another name.
        assert "b.example" in problem(fetch(network, "https://b.example/feed"))
        assert [asked.host for asked in server.log] == ["a.example"]
