"""Counters and times of the service for Prometheus; every label has a bounded number of values."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """All figures of one service."""

    def __init__(self, lag: Callable[[], float], waiting: Callable[[], float]) -> None:
        """``lag`` gives the places that are not processed yet, ``waiting`` the bytes that are not taken in yet."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "xscl_http_requests", "Requests by call and class of status.", ("method", "call", "status"), registry=own
        )
        self.request_seconds = Histogram(
            "xscl_http_request_seconds",
            "Time of a request, live streams left out.",
            ("call",),
            buckets=_SECONDS,
            registry=own,
        )
        self.events = Counter("xscl_pushed_events", "Pushed events by outcome.", ("outcome",), registry=own)
        self.batches = Counter("xscl_batches", "Batches committed.", registry=own)
        self.matches = Counter("xscl_matches", "Matches found.", registry=own)
        self.batch_seconds = Histogram("xscl_batch_seconds", "Time of a batch.", buckets=_SECONDS, registry=own)
        self.answered_seconds = Histogram(
            "xscl_push_to_commit_seconds",
            "Time from the commit of pushed events to that of the batch with their matches.",
            buckets=_SECONDS,
            registry=own,
        )
        self.losses = Counter(
            "xscl_refused_to_queries", "What queries did not get of batches, and suspensions.", registry=own
        )
        self.deliveries = Counter(
            "xscl_delivered_matches", "Matches of deliveries, by outcome of each attempt.", ("outcome",), registry=own
        )
        self.polls = Counter("xscl_feed_polls", "Feeds asked, by outcome.", ("outcome",), registry=own)
        self.streams = Gauge("xscl_live_streams", "Live streams that are open.", registry=own)
        self.running = Gauge("xscl_engine_running", "1 while batches are processed, 0 after a failure.", registry=own)
        behind = Gauge("xscl_lag_places", "Places of the intake order that no batch has processed.", registry=own)
        behind.set_function(lag)
        held = Gauge("xscl_waiting_bytes", "Bytes of pushes that wait to be taken in.", registry=own)
        held.set_function(waiting)

    def text(self) -> bytes:
        """Write all figures in Prometheus' text format."""
        return generate_latest(self.registry)
