"""A service that is killed while it works: all that it acknowledged is answered, streams go on without a gap, and a
webhook that fails half the time gets every match.

``XSCL_KILLS=50`` kills more often; ``tests/bench/service_load.py --kills 50`` does so under the load of many queries.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
from budget import THOROUGH
from hook_server import hook_server
from http_service import XML, events
from waiting import wait_for

from xscl.answers.deliveries import add_webhook
from xscl.engine import Engine
from xscl.store.home import init_home, open_home

QUERY = "S//book->b[./key->k] FOLLOWED BY {k=c, 1 day} S//blog->g[./key->c]"
KILLS = int(os.environ.get("XSCL_KILLS", "2" if THOROUGH else "1"))


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
        with httpx2.Client(headers=XML, timeout=120) as client:
            while not self.ended:
                for place, root in enumerate(("book", "blog")):
                    key = f"{number}-{pair}"
                    params = {"id": f"{root}-{key}", "ts": str(pair * 10 + place)}
                    body = f"<{root}><key>{key}</key></{root}>"
                    while not self.ended and not self.pushed(client, params, body):
                        time.sleep(0.05)
                    time.sleep(0.01)
                pair += 1

    def pushed(self, client: httpx2.Client, params: dict[str, str], body: str) -> bool:
        url = f"{self.served.address}/v1/channels/S/events"
        try:
            answer = client.post(url, content=body, params=params)
        except httpx2.HTTPError:
            return False
        if answer.status_code == 202:
            self.acknowledged.add(params["id"])
        return answer.status_code == 202

    def keys(self) -> set[str]:
        """Keys of the pairs that were acknowledged."""
        return {id_.partition("-")[2] for id_ in self.acknowledged.copy() if id_.startswith("blog-")}

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
                with httpx2.stream("GET", url, params={"after": "start"}, headers=headers, timeout=120) as stream:
                    for event in events(stream):
                        self.found.append(event["data"]["match"])
                        self.last = event["id"]
            except httpx2.HTTPError:
                time.sleep(0.05)


def test_all_that_was_acknowledged_is_answered_after_kills(tmp_path: Path) -> None:
    home, chance = tmp_path / "home", random.Random(1)
    with hook_server(lambda number: 503 if number % 2 else 200) as hooks:
        with Engine(init_home(home)) as engine:
            engine.register(QUERY, name="q")
            add_webhook(engine.home, "hook", "q", hooks.url, after="start", private=True)
        served = Served(home)
        served.start()
        pushers, readers = Pushers(served, 3), [Reader(served) for _ in range(2)]
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.2, 1.8))
            assert served.end(signal.SIGKILL) == -signal.SIGKILL
            served.start()
        wait_for(lambda: len(pushers.keys()) > KILLS + 20)
        pushers.end()
        listed = matches_of(served)
        wait_for(lambda: min(len(set(hooks.taken)), *(len(reader.found) for reader in readers)) >= len(listed))
        for reader in readers:
            reader.ended = True
        assert served.end(signal.SIGTERM) == 0
    assert {match["values"]["k"] for match in listed} >= pushers.keys()
    ids = [match["match"] for match in listed]
    assert len(set(ids)) == len(ids)
    for reader in readers:
        assert reader.found == ids
    # At least once, and under the same ids.
    assert set(hooks.taken) == set(ids)
    with Engine(open_home(home)) as engine:
        assert [match.id for match in engine.matches("q", after="start")] == ids


def matches_of(served: Served) -> list[dict[str, Any]]:
    """Wait until everything is processed, and list all matches, page after page."""
    with httpx2.Client(base_url=served.address, timeout=120) as client:
        wait_for(lambda: not client.get("/v1/stats").json()["lag"])
        listed, cursor = [], "start"
        while page := client.get("/v1/queries/q/matches", params={"after": cursor, "limit": 1000}).json():
            listed += page["matches"]
            cursor = page["cursor"]
            if not page["matches"]:
                break
    return listed
