"""A service under load: pushes at a steady rate, live readers, and a webhook that fails half the time.

    python tests/bench/service_load.py [--queries 10000] [--rate 200] [--seconds 600] [--readers 5]

The service is a process of its own; senders and readers share another one.  The script tells the time from a push to
its match on a live stream, and the processor time of the service.  It ends with 1 if an acknowledged event is missing,
or a reader or the webhook has missed a match.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import httpx2

from xscl.bench.engines import register
from xscl.bench.news import CHANNEL, News, questions
from xscl.engine import Engine
from xscl.store.home import init_home

HOT = f"{CHANNEL}//item->a[./link->x] FOLLOWED BY {{x = y, 1 h}} {CHANNEL}//item->b[./link->y]"
"""The query whose matches are awaited: each pushed pair has a link of its own."""


class Webhook(BaseHTTPRequestHandler):
    """Takes matches, and fails half the time."""

    found: Counter[str] = Counter()
    chance = random.Random(1)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        fails = self.chance.random() < 0.5
        if not fails:
            lines = [json.loads(line) for line in body.splitlines() if line.strip()]
            Webhook.found.update(line["match"] for line in lines)
        self.send_response(503 if fails else 204)
        self.end_headers()

    def log_message(self, *given: object) -> None:
        """Say nothing."""


class Load:
    """Senders and readers of one run."""

    def __init__(self, address: str, rate: float, seconds: float) -> None:
        self.address, self.rate, self.seconds = address, rate, seconds
        self.pushed_at: dict[str, float] = {}
        self.acknowledged: set[str] = set()
        self.refused: Counter[int] = Counter()
        self.delays: list[float] = []
        self.found: list[list[str]] = []

    async def send(self, client: httpx2.AsyncClient, number: int) -> None:
        key = f"https://load.example/{number // 2}"
        body = f"<item><title>t{number}</title><link>{key}</link></item>"
        params = {"id": f"load{number}", "ts": str(2_000_000_000 + number // 2 * 10 + number % 2)}
        self.pushed_at[params["id"]] = time.monotonic()
        for _ in range(50):
            try:
                answer = await client.post(
                    f"{self.address}/v1/channels/{CHANNEL}/events",
                    content=body,
                    params=params,
                    headers={"content-type": "application/xml"},
                )
            except httpx2.HTTPError:
                self.refused[0] += 1
                await asyncio.sleep(0.2)
                continue
            if answer.status_code == 202:
                self.acknowledged.add(params["id"])
                return
            self.refused[answer.status_code] += 1
            await asyncio.sleep(float(answer.headers.get("retry-after", "1")))

    async def read(self, client: httpx2.AsyncClient, reader: int) -> None:
        found = self.found[reader]
        last = "start"
        while True:
            try:
                url = f"{self.address}/v1/queries/hot/matches/stream"
                async with client.stream("GET", url, params={"after": last}, timeout=60) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("id: "):
                            last = line[4:]
                        elif line.startswith("data: "):
                            match = json.loads(line[6:])
                            found.append(match["match"])
                            if reader == 0:
                                pushed = self.pushed_at[match["events"][1]["id"]]
                                self.delays.append(time.monotonic() - pushed)
            except httpx2.HTTPError:
                await asyncio.sleep(0.1)

    async def run(self, readers: int) -> None:
        self.found = [[] for _ in range(readers)]
        limits = httpx2.Limits(max_connections=400, max_keepalive_connections=100)
        async with httpx2.AsyncClient(timeout=30, limits=limits) as client:
            reading = [asyncio.create_task(self.read(client, number)) for number in range(readers)]
            await asyncio.sleep(1)
            began, sending = time.monotonic(), set()
            for number in range(int(self.rate * self.seconds)):
                due = began + number / self.rate
                if (wait := due - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                task = asyncio.create_task(self.send(client, number))
                sending.add(task)
                task.add_done_callback(sending.discard)
            await asyncio.gather(*sending)
            until = time.monotonic() + 60
            while min(map(len, self.found)) < len(self.acknowledged) // 2 and time.monotonic() < until:
                await asyncio.sleep(0.2)
            for each in reading:
                each.cancel()


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--readers", type=int, default=5)
    given = parser.parse_args()
    hook = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        with Engine(init_home(home)) as engine:
            news = News(1)
            asked = islice(questions(1, news.feeds()), given.queries)
            register(engine, ((f"q{number}", each.text) for number, each in enumerate(asked)))
            engine.register(HOT, name="hot")
        xscl = [sys.executable, "-m", "xscl"]
        target = f"http://127.0.0.1:{hook.server_address[1]}/"
        added = [*xscl, "deliver", "add", "hook", "--query", "hot", "--to", target, "--allow-private"]
        subprocess.run([*added, "--home", str(home)], check=True, stdout=subprocess.DEVNULL)
        command = [*xscl, "serve", "--no-auth", "--no-fetch", "--port", "0", "--home", str(home)]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert service.stderr is not None
        address = next(line for line in service.stderr if line.startswith("serving")).split()[-1]
        threading.Thread(target=service.stderr.read, daemon=True).start()
        load = Load(address, given.rate, given.seconds)
        asyncio.run(load.run(given.readers))
        until = time.monotonic() + 120
        while len(Webhook.found) < len(set(load.found[0])) and time.monotonic() < until:
            time.sleep(0.5)
        spent = cpu_s(service.pid)
        service.send_signal(signal.SIGTERM)
        code = service.wait()
    delays = sorted(load.delays)
    wanted = len(load.acknowledged) // 2
    figures = {
        "acknowledged": len(load.acknowledged),
        "asked_again": dict(load.refused),
        "matches_wanted": wanted,
        "matches_by_reader": [len(each) for each in load.found],
        "twice_by_reader": [len(each) - len(set(each)) for each in load.found],
        "webhook_matches": len(Webhook.found),
        "p50_s": round(statistics.median(delays), 3),
        "p95_s": round(delays[int(0.95 * len(delays))], 3),
        "max_s": round(delays[-1], 3),
        "service_cpu_s": round(spent, 1),
        "exit_code": code,
    }
    print(json.dumps(figures, indent=1))
    complete = all(len(set(each)) == len(each) == wanted for each in load.found)
    return 0 if complete and len(Webhook.found) == wanted and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
