"""The server: the application on a port, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import BinaryIO

import uvicorn

from xscl.base.errors import EngineError
from xscl.engine import Engine
from xscl.service.access import LOOPBACK
from xscl.service.access_log import AccessLog
from xscl.service.app import make_app
from xscl.service.connections import Connection, most_connections
from xscl.service.runtime import Service
from xscl.service.settings import ServiceSettings
from xscl.store.served import Serving, announce, withdraw

__all__ = ["Server", "make_server", "serve"]

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses of this machine alone, by those that stand for all."""
_PATIENCE_S = 20
"""Seconds in which requests under way may end."""
_KEEP_ALIVE_S = 75
"""Seconds for which a connection waits for another request."""
_HEAD_BYTES = 256 * 1024
"""Bytes of a request's first line and headers at most; escaped, parameters of the allowed lengths take up to 100 KB."""
_SWITCH_S = 0.001
"""Seconds after which a thread that computes lets another one go on."""


class Server(uvicorn.Server):
    """A server whose live streams end when it is told to end, and which outlives the signal that told it."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self.ended_by: int | None = None
        """Signal that told it to end."""
        self._announced: BinaryIO | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Note the signals that end services; a second Ctrl-C ends requests under way, too."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self.ended_by = sig
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, then tell of it in the home, so that commands there find the service."""
        await super().startup(sockets)
        for listening in sockets or () if self.started else ():
            host, port = listening.getsockname()[:2]
            host = _EVERYWHERE.get(host, host)
            if host in LOOPBACK:
                serving = Serving(f"http://{_shown(host)}:{port}", os.getpid(), self.service.settings.auth)
                self._announced = announce(self.service.home.root, serving)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then everything else."""
        if self._announced is not None:
            withdraw(self.service.home.root, self._announced)
        await self.service.end_streams()
        await super().shutdown(sockets)


def serve(
    engine: Engine, settings: ServiceSettings, *, log: Callable[[str], None], ready: Callable[[str], None]
) -> bool:
    """Serve a home until SIGTERM or Ctrl-C; the batch and the requests under way end first.

    Returns whether Ctrl-C ended it.

    Args:
        engine: on the home; it is closed at the end.
        settings: address and limits.
        log: takes lines of the access log, some together, in a thread of its own.
        ready: is called with the address, once requests are answered.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: a service without tokens would answer to other machines.
            ``XSCL_ADDRESS_IN_USE``: something else listens there.  ``XSCL_BAD_OPTION`` also: ``every`` is no duration.
        CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on the home.
    """
    # Threads that compute let the one that serves requests have its turn sooner.
    sys.setswitchinterval(_SWITCH_S)
    lines = AccessLog(log)
    server, listening = make_server(engine, settings, lines.put)
    host, port = listening.getsockname()[:2]

    async def run() -> None:
        # Of an error within its own start uvicorn prints the trace, and ends the process.
        server.service.start()
        told = asyncio.create_task(_tell_ready(server, lambda: ready(f"http://{_shown(host)}:{port}")))
        try:
            await server.serve(sockets=[listening])
        finally:
            told.cancel()

    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(run())
    finally:
        lines.close()
    return server.ended_by == signal.SIGINT


def make_server(engine: Engine, settings: ServiceSettings, log: Callable[[str], None]) -> tuple[Server, socket.socket]:
    """Make a server for an engine, and open its port; ``serve`` says what is raised."""
    if not settings.auth and settings.host not in LOOPBACK:
        raise EngineError(
            "XSCL_BAD_OPTION",
            f"without tokens the service listens on {', '.join(sorted(LOOPBACK))}, not on {settings.host}",
            hint="leave --no-auth out, and make tokens with 'xscl token add NAME'",
        )
    listening = _listen(settings)
    service = Service(engine, settings)
    config = uvicorn.Config(
        make_app(service, log),
        log_config=None,
        access_log=False,
        http=Connection,
        limit_concurrency=1 + (settings.connections or most_connections()),
        h11_max_incomplete_event_size=_HEAD_BYTES,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE_S,
        timeout_keep_alive=_KEEP_ALIVE_S,
        proxy_headers=False,
        lifespan="on",
    )
    return Server(config, service), listening


def _shown(host: str) -> str:
    """Return a host as addresses have it."""
    return f"[{host}]" if ":" in host else host


async def _tell_ready(server: uvicorn.Server, ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    ready()


def _listen(settings: ServiceSettings) -> socket.socket:
    """Open the port.

    Raises:
        EngineError: ``XSCL_ADDRESS_IN_USE``; ``XSCL_BAD_OPTION``: there is no such address.
    """
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except socket.gaierror as error:
        raise EngineError("XSCL_BAD_OPTION", f"--host {settings.host}: {error.strerror}") from None
    except OSError as error:
        raise EngineError(
            "XSCL_ADDRESS_IN_USE",
            f"{settings.host}:{settings.port} cannot be used: {error.strerror}",
            hint="another --port, or 0 for any free one",
        ) from None
    listening.listen(1024)
    return listening
