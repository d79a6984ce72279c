"""Settings of the service: its address, its pauses, and the limits of requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["ANSWER_BYTES", "BOUNDS", "EVENT_BYTES", "RUN_BYTES", "ServiceSettings"]

EVENT_BYTES = 1024
"""Memory that an event takes besides its text, about."""
RUN_BYTES = 2 * 1024 * 1024 * 1024
"""Memory of a query that is asked once."""
ANSWER_BYTES = 64 * 1024 * 1024
"""Bytes of its answer."""
BOUNDS: Mapping[str, str] = MappingProxyType({"spark.driver.maxResultSize": "256m"})
"""Settings of Spark by which an answer ends that is too large to be read, before it takes all memory."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of one service; sizes are bytes, times seconds."""

    host: str = "127.0.0.1"
    port: int = 8080
    """Port that it listens on; 0: any free one."""
    every: str = "1 second"
    """Time between two looks for events that came by other ways; pushed events are processed at once."""
    apart_s: float = 0.25
    """Time between the beginnings of two batches at least; a batch takes all that has come by then."""
    auth: bool = True
    """Whether calls need a token; without it the service answers on loopback addresses only."""
    strict: bool = False
    """Whether pushed events need a channel that exists."""
    fetch: bool = True
    """Whether feeds that are due are asked."""
    contact: str | None = None
    """Address of the operator, which requests to feeds name."""
    max_body: int = 32 * 1024 * 1024
    """Largest body of a request."""
    connections: int | None = None
    """Connections that are open at the same time; None: half as many as the process may have files open."""
    max_waiting: int = 128 * 1024 * 1024
    """Bodies of pushes that wait to be taken, each event counted with ``EVENT_BYTES`` more; others are refused with
    503.
    """
    max_behind: int = 200_000
    """Places of the intake order that no batch has processed; with more, pushes are refused with 503."""
    requests_per_s: float = 1_000.0
    """Requests a second of one token, on the average; twice as many may come at once."""
    streams: int = 20
    """Live streams of one token that are open at the same time."""
    sql_rows: int = 10_000
    """Rows of an answer in SQL."""
    sql_s: float = 60.0
    """Time for which a statement in SQL may run."""
    run_bytes: int = RUN_BYTES
    """Memory of the process that answers a query once."""
    answer_bytes: int = ANSWER_BYTES
    """Largest answer to a query that is asked once."""
    page: int = 1_000
    """Entries of a page at most."""
