"""A service under load: pushes at a steady rate, live readers, and a webhook that fails half the time.

    python tests/bench/service_load.py [--queries 10000] [--rate 200] [--seconds 600] [--readers 5] [--kills 0]

The service is a process of its own; senders and readers share another one.  The script tells the time from a push to
its match on a live stream, and the processor time of the service.  With ``--kills`` the load lasts until the service
was killed so many times (``kill -9``) and started again.  The script ends with 1 if an acknowledged event is missing,
if a reader has a gap or a match twice, or if the webhook has missed a match.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from pathlib import Path

from xscl.bench.engines import register
from xscl.bench.news import CHANNEL, News, questions
from xscl.engine import Engine
from xscl.registry.channels import ChannelOptions
from xscl.store.home import init_home

HOT = f"{CHANNEL}//item->a[./link->x] FOLLOWED BY {{x = y, 1 h}} {CHANNEL}//item->b[./link->y]"
"""The query whose matches are awaited: each pushed pair has a link of its own."""
SENDERS = 64
XSCL = [sys.executable, "-m", "xscl"]
GONE = (OSError, asyncio.IncompleteReadError, IndexError, ValueError)
"""Ways in which an answer of a killed service breaks off."""


class Webhook(BaseHTTPRequestHandler):
    """Takes matches, and fails half the time."""

    protocol_version = "HTTP/1.1"
    found: Counter[str] = Counter()
    chance = random.Random(1)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        fails = self.chance.random() < 0.5
        if not fails:
            Webhook.found.update([json.loads(line)["match"] for line in body.splitlines()])
        self.send_response(503 if fails else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *given: object) -> None:
        """Say nothing."""


class WebhookServer(ThreadingHTTPServer):
    """Says nothing of requests that break off, as those of a killed service do."""

    def handle_error(self, *given: object) -> None:
        """Say nothing."""


class Served:
    """A service in a process of its own, which may be killed and started again on the same port."""

    def __init__(self, home: Path) -> None:
        self.home, self.port, self.spent_s = home, 0, 0.0
        self.start()

    def start(self) -> None:
        command = [*XSCL, "serve", "--no-auth", "--no-fetch", "--port", str(self.port), "--home", str(self.home)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        address = next(line for line in self.process.stderr if line.startswith(("serving", "error"))).split()[-1]
        self.port = int(address.rpartition(":")[2])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def end(self, number: int) -> int:
        """End it by a signal, and count the processor time that it took."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        self.spent_s += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.process.send_signal(number)
        return self.process.wait()


class Client:
    """One connection that stays open: much cheaper than a client for everybody."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str]]:
        """Send a request; return the status and the headers of its answer."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.served.port, limit=1 << 24)
        reader, writer = self.streams
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/xml\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if "content-length" in headers:
            await reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split()[1]), headers

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


class Load:
    """Senders and readers of one run."""

    def __init__(self, served: Served, readers: int) -> None:
        self.served = served
        self.pushed_at: dict[str, float] = {}
        self.acknowledged: set[str] = set()
        self.refused: Counter[int] = Counter()
        self.delays: list[float] = []
        self.found: list[list[str]] = [[] for _ in range(readers)]
        self.waiting: asyncio.Queue[int] = asyncio.Queue()

    async def send(self) -> None:
        """Send what waits, each until it is acknowledged."""
        client = Client(self.served)
        while True:
            number = await self.waiting.get()
            pair, second = divmod(number, 2)
            body = f"<item><title>t{number}</title><link>https://load.example/{pair}</link></item>".encode()
            path = (
                f"/v1/channels/{CHANNEL}/events?id=load{number}&ts={2_000_000_000 + pair * 0.01 + second * 0.001:.3f}"
            )
            while f"load{number}" not in self.acknowledged:
                try:
                    status, headers = await client.ask("POST", path, body)
                except GONE:
                    client.close()
                    status, headers = 0, {"retry-after": "0.2"}
                if status == 202:
                    self.acknowledged.add(f"load{number}")
                else:
                    self.refused[status] += 1
                    await asyncio.sleep(float(headers.get("retry-after", "1")))
            self.waiting.task_done()

    async def read(self, reader: int) -> None:
        """Follow a live stream; behind a break it goes on behind the last match."""
        found, last = self.found[reader], "start"
        while True:
            client = Client(self.served)
            try:
                await client.ask("GET", f"/v1/queries/hot/matches/stream?after={last}")
                assert client.streams is not None
                while line := await client.streams[0].readline():
                    # Lines with sizes of chunks stand between those of events.
                    if line.startswith(b"id: "):
                        begun = line[4:].decode().strip()
                    elif line.startswith(b"data: "):
                        match = json.loads(line[6:])
                        found.append(match["match"])
                        last = begun
                        if reader == 0:
                            self.delays.append(time.monotonic() - self.pushed_at[match["events"][1]["id"]])
            except GONE:
                pass
            client.close()
            await asyncio.sleep(0.1)

    async def push(self, rate: float, is_over: asyncio.Event, most: int | None) -> int:
        """Have pairs of documents sent at a steady rate, until it is over; return their number."""
        began = time.monotonic()
        for number in count():
            if not number % 2 and (is_over.is_set() or number == most):
                return number
            if (wait := began + number / rate - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            self.pushed_at[f"load{number}"] = time.monotonic()
            self.waiting.put_nowait(number)
        raise AssertionError

    async def kill(self, kills: int, is_over: asyncio.Event) -> None:
        """Kill the service at moments of chance, some before it is ready, and start it again."""
        chance = random.Random(3)
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.2, 3.0))
            self.served.end(signal.SIGKILL)
            await asyncio.to_thread(self.served.start)
        is_over.set()

    async def run(self, rate: float, seconds: float, kills: int) -> int:
        await self.ready()
        reading = [asyncio.create_task(self.read(number)) for number in range(len(self.found))]
        sending = [asyncio.create_task(self.send()) for _ in range(SENDERS)]
        await asyncio.sleep(1)
        is_over = asyncio.Event()
        killing = asyncio.create_task(self.kill(kills, is_over)) if kills else None
        pushed = await self.push(rate, is_over, None if kills else int(rate * seconds) // 2 * 2)
        await self.waiting.join()
        if killing is not None:
            await killing
        until = time.monotonic() + 60
        while min(map(len, self.found)) < pushed // 2 and time.monotonic() < until:
            await asyncio.sleep(0.2)
        for each in (*reading, *sending):
            each.cancel()
        return pushed // 2

    async def ready(self) -> None:
        while (await Client(self.served).ask("GET", "/readyz"))[0] != 200:
            await asyncio.sleep(0.1)


def make_home(home: Path, queries: int, target: str) -> None:
    """Make a home with queries, and a delivery of one of them."""
    with Engine(init_home(home)) as engine:
        engine.add_channel(CHANNEL, ChannelOptions(kind="xml"))
        asked = islice(questions(1, News(1).feeds()), queries)
        register(engine, ((f"q{number}", each.text) for number, each in enumerate(asked)))
        engine.register(HOT, name="hot")
    added = [*XSCL, "deliver", "add", "hook", "--query", "hot", "--to", target, "--allow-private"]
    subprocess.run([*added, "--home", str(home)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--readers", type=int, default=5)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    hook = WebhookServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    folder = Path(tempfile.mkdtemp())
    make_home(folder / "home", given.queries, f"http://127.0.0.1:{hook.server_address[1]}/")
    served = Served(folder / "home")
    load = Load(served, given.readers)
    began = time.monotonic()
    wanted = asyncio.run(load.run(given.rate, given.seconds, given.kills))
    took_s = time.monotonic() - began
    until = time.monotonic() + 180
    while len(Webhook.found) < wanted and time.monotonic() < until:
        time.sleep(0.5)
    code = served.end(signal.SIGTERM)
    shutil.rmtree(folder)
    delays = sorted(load.delays)
    figures = {
        "seconds": round(took_s, 1),
        "acknowledged": len(load.acknowledged),
        "asked_again": dict(load.refused),
        "matches_wanted": wanted,
        "matches_by_reader": [len(each) for each in load.found],
        "twice_by_reader": [len(each) - len(set(each)) for each in load.found],
        "webhook_matches": len(Webhook.found),
        "webhook_again": Webhook.found.total() - len(Webhook.found),
        "p50_s": round(statistics.median(delays), 3),
        "p95_s": round(delays[int(0.95 * len(delays))], 3),
        "max_s": round(delays[-1], 3),
        "service_cpu_s": round(served.spent_s, 1),
        "exit_code": code,
    }
    print(json.dumps(figures, indent=1))
    first = load.found[0]
    complete = len(first) == len(set(first)) == wanted and all(each == first for each in load.found)
    return 0 if complete and set(Webhook.found) == set(first) and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
