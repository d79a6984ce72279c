"""A service that is killed while it works: what it acknowledged is answered, and streams go on without a gap."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TypeVar

import httpx2
from http_service import XML, events

from xscl.engine import Engine
from xscl.store.home import init_home, open_home

QUERY = "S//book->b[./key->k] FOLLOWED BY {k=c, 1 day} S//blog->g[./key->c]"
KILLS = int(os.environ.get("XSCL_KILLS", "2"))
T = TypeVar("T")


class Served:
    """A service in a process of its own, which may be killed and started again on the same port."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = 0
        self.address = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "xscl", "serve", "--no-auth", "--no-fetch", "--home", str(self.home)]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if line.startswith(("serving", "error")))
        assert line.startswith("serving"), line
        self.address = line.split()[-1]
        self.port = int(self.address.rpartition(":")[2])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait()


class Pushers:
    """Threads that push pairs of documents with equal keys, and remember what was acknowledged."""

    def __init__(self, served: Served, count: int) -> None:
        self.served = served
        self.acknowledged: set[str] = set()
        self.ended = False
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, number: int) -> None:
        pair = 0
        while not self.ended:
            for place, root in enumerate(("book", "blog")):
                key = f"{number}-{pair}"
                params = {"id": f"{root}-{key}", "ts": str(pair * 10 + place)}
                body = f"<{root}><key>{key}</key></{root}>"
                while not self.ended and not self.pushed(params, body):
                    time.sleep(0.05)
            pair += 1

    def pushed(self, params: dict[str, str], body: str) -> bool:
        url = f"{self.served.address}/v1/channels/S/events"
        try:
            answer = httpx2.post(url, content=body, headers=XML, params=params, timeout=10)
        except httpx2.HTTPError:
            return False
        if answer.status_code == 202:
            self.acknowledged.add(params["id"])
        return answer.status_code == 202

    def end(self) -> None:
        self.ended = True
        for thread in self.threads:
            thread.join()


class Reader:
    """A thread that reads a live stream, and asks again behind the last match when the stream breaks."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.found: list[str] = []
        self.last = ""
        self.ended = False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while not self.ended:
            headers = {"last-event-id": self.last} if self.last else {}
            url = f"{self.served.address}/v1/queries/q/matches/stream"
            try:
                with httpx2.stream("GET", url, params={"after": "start"}, headers=headers, timeout=20) as stream:
                    for event in events(stream):
                        self.found.append(event["data"]["match"])
                        self.last = event["id"]
            except httpx2.HTTPError:
                time.sleep(0.05)


def test_what_was_acknowledged_is_answered_after_kills(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Engine(init_home(home)) as engine:
        engine.register(QUERY, name="q")
    served = Served(home)
    served.start()
    pushers, reader = Pushers(served, 3), Reader(served)
    for _ in range(KILLS):
        time.sleep(1.0)
        assert served.end(signal.SIGKILL) == -signal.SIGKILL
        served.start()
    time.sleep(1.0)
    pushers.end()
    with httpx2.Client(base_url=served.address, timeout=30) as client:
        until = time.monotonic() + 60
        while client.get("/v1/stats").json()["lag"] and time.monotonic() < until:
            time.sleep(0.05)
        listed, cursor = [], "start"
        while page := client.get("/v1/queries/q/matches", params={"after": cursor, "limit": 1000}).json():
            listed += page["matches"]
            cursor = page["cursor"]
            if not page["matches"]:
                break
    until = time.monotonic() + 30
    while len(reader.found) < len(listed) and time.monotonic() < until:
        time.sleep(0.05)
    reader.ended = True
    assert served.end(signal.SIGTERM) == 0
    keys = {id_.partition("-")[2] for id_ in pushers.acknowledged if id_.startswith("blog-")}
    assert len(keys) > KILLS
    assert {match["values"]["k"] for match in listed} >= keys
    assert len({match["match"] for match in listed}) == len(listed)
    assert reader.found == [match["match"] for match in listed]
    with Engine(open_home(home)) as engine:
        assert [match.id for match in engine.matches("q", after="start")] == reader.found
