"""A service in a thread of its own, on a home with a token for each scope."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from waiting import wait_for

from xscl.base.types import now_micros
from xscl.catalog.tokens import add_token
from xscl.engine import Engine
from xscl.service.runtime import Service
from xscl.service.server import make_server
from xscl.service.settings import ServiceSettings
from xscl.store.home import init_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = "S//book->b[./author->a] FOLLOWED BY {a=c, 7 days} S//blog->g[./author->c]"
XML = {"content-type": "application/xml"}
LINES = {"content-type": "application/x-ndjson"}
CSV = {"content-type": "text/csv"}


@dataclass
class Running:
    """A service that runs, and its clients by the scope of their token."""

    address: str
    service: Service
    log: list[str]
    tokens: dict[str, str]

    def client(self, scope: str | None = "admin") -> httpx2.Client:
        headers = {} if scope is None else {"authorization": f"Bearer {self.tokens[scope]}"}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=120)

    def settled(self) -> None:
        """Wait until everything that was taken is processed."""

        def is_done() -> bool:
            stats = client.get("/v1/stats").json()
            assert stats["running"], stats["problem"]
            return not stats["lag"]

        with self.client("read") as client:
            wait_for(is_done)


@contextmanager
def running(home: Path, settings: ServiceSettings, spark: SparkSession | None = None) -> Iterator[Running]:
    engine = Engine(init_home(home), spark=spark)
    tokens = {}
    with engine.home.catalog.begin() as connection:
        for scope in ("read", "write", "admin"):
            tokens[scope] = add_token(connection, f"{scope}er", [scope], now_micros())
    log: list[str] = []
    server, listening = make_server(engine, settings, log.append)
    host, port = listening.getsockname()[:2]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield Running(f"http://{host}:{port}", server.service, log, tokens)
    finally:
        server.should_exit = True
        thread.join()


SETTINGS = ServiceSettings(port=0, fetch=False, apart_s=0.01)


def events(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    """Server-Sent Events as they come, comments left out."""
    event: dict[str, Any] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if not line and "data" in event:
            yield event
        if not line:
            event = {}
        elif name == "data":
            event["data"] = json.loads(value)
        elif name:
            event[name] = value
