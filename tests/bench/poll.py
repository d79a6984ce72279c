"""Subscribe to some hundred feeds of a local server, and poll them twice: all new, then all not modified.

    python tests/bench/poll.py [--feeds 418] [--per-host 2]

The server is a process of its own, knows as many host names as it takes to have so many feeds a host, packs with gzip,
and counts.  Feeds are real ones where the corpora are (``corpora``), else made up.  Prints one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import multiprocessing
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpora import RAW
from feed_server import Asked, FeedServer, Network, reply

from xscl.base.errors import XsclError
from xscl.catalog.subscriptions import add_feed
from xscl.ingest.fetched import read_fetched
from xscl.intake.polling import PollReport, PollSettings, poll
from xscl.store.home import init_home


def bodies() -> Iterator[bytes]:
    """Real feeds, each of another publisher as far as they go; then made up ones without end."""
    if RAW.is_dir():
        for path in sorted(RAW.glob("smallweb/*.xml.gz")):
            yield gzip.decompress(path.read_bytes())
        for name in ("github-trending", "ai-blogs"):
            last: dict[str, bytes] = {}
            with tarfile.open(RAW / f"{name}.tar.xz", "r|xz") as archive:
                for member in archive:
                    if member.name.endswith(".xml") and (content := archive.extractfile(member)) is not None:
                        key = member.name if name == "github-trending" else member.name.rpartition("/")[0]
                        last[key] = content.read()
            yield from last.values()
    number = 0
    while True:
        number += 1
        items = "".join(
            f"<item><guid>{number}-{item}</guid><title>Title {item} of {number}</title>"
            f"<description>{'Words and words. ' * 40}</description></item>"
            for item in range(20)
        )
        yield f"<rss><channel><title>Feed {number}</title><link>http://f{number}/</link>{items}</channel></rss>".encode()


def _is_feed(body: bytes) -> bool:
    try:
        read_fetched(body, url="http://a.example/", channel="items")
    except XsclError:
        return False
    return True


def serve(pipe: Connection, addresses: list[str]) -> None:
    """Serve a feed for each address until something comes through the pipe, then say what was asked."""
    server = FeedServer(lambda: time.time_ns() // 1000)
    sent: list[tuple[str, int, int]] = []

    def route(body: bytes) -> object:
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        whole = reply(200, gzip.compress(body), etag=tag, content_encoding="gzip", content_type="application/xml")
        none = reply(304, etag=tag)

        def answer(asked: Asked) -> bytes:
            known = asked.headers.get("if-none-match") == tag
            sent.append((asked.host, asked.at, 304 if known else 200))
            return none if known else whole

        return answer

    for address, body in zip(addresses, filter(_is_feed, bodies()), strict=False):
        server.routes[address.removeprefix("http://")] = route(body)  # type: ignore[assignment]
    pipe.send(server.port)
    while pipe.recv():
        pipe.send(list(sent))
        sent.clear()


class Port:
    """What ``Network`` needs of a server in another process."""

    def __init__(self, port: int) -> None:
        self.port = port


def figures(report: PollReport, sent: list[tuple[str, int, int]]) -> dict[str, object]:
    gaps = []
    last: dict[str, int] = {}
    for host, at, _ in sorted(sent, key=lambda entry: entry[1]):
        if host in last:
            gaps.append(at - last[host])
        last[host] = at
    return {
        "seconds": round(report.seconds, 2),
        "requests": report.requests,
        "bytes": report.received,
        "answers": dict(report.statuses),
        "events": report.events,
        "rejected": report.rejected,
        "problems": len(report.problems),
        "server_counted": len(sent),
        "server_sent_304": sum(status == 304 for *_, status in sent),
        "hosts": len(last),
        "least_gap_s": round(min(gaps) / 1e6, 2) if gaps else None,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--feeds", type=int, default=418)
    parser.add_argument("--per-host", type=int, default=2)
    parser.add_argument("--problems", action="store_true", help="print what could not be taken")
    given = parser.parse_args()
    addresses = [f"http://host{n // given.per_host}.example/feed{n}" for n in range(given.feeds)]
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(there, addresses), daemon=True)
    process.start()
    network = Network(Port(here.recv()))  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        home = init_home(folder)
        now = time.time_ns() // 1000
        for address in islice(addresses, given.feeds):
            add_feed(home.catalog, address, now=now)
        found: dict[str, object] = {"feeds": given.feeds, "real": RAW.is_dir()}
        for name in ("first", "second"):
            before = time.process_time()
            report = poll(
                home,
                everything=True,
                settings=PollSettings(contact="https://example.org/"),
                resolve=network.resolve,
                transport=network,
            )
            here.send(True)
            cpu_s = round(time.process_time() - before, 2)
            found[name] = {**figures(report, here.recv()), "cpu_s": cpu_s}
            if given.problems:
                for url, problem in report.problems:
                    print(url, problem, file=sys.stderr)
    here.send(False)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
