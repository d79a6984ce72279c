"""A home that is open, with its registry and its Spark session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from xscl.answers.explaining.plan import chosen_rules
from xscl.answers.spark_sources.sessions import register_sources
from xscl.base.errors import EngineError
from xscl.base.locks import RunLock
from xscl.base.notebook import facts_html
from xscl.base.settings import DEFAULT_SETTINGS, Settings
from xscl.batches.memory.driver import Driver
from xscl.batches.run_handle import CLOSED, RunHandle
from xscl.batches.suspensions import Suspension
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.kept_groups import KeptGroups
from xscl.planning.planner import Planner
from xscl.registry.channel_names import ChannelNames
from xscl.registry.query_list import count_queries
from xscl.registry.registry import Registry
from xscl.spark.session import forget_session, is_stopped, session_has_ended, start_session
from xscl.spark.session_options import LOCAL, SessionOptions
from xscl.store.home import Home
from xscl.templates.rules import RULES
from xscl.upkeep.upkeep import Upkeep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OpenedHome"]


class OpenedHome:
    """A home with everything that calls share: its registry, its plan, a Spark session, and locks."""

    def __init__(
        self,
        home: Home,
        spark: SparkSession | None = None,
        settings: Settings = DEFAULT_SETTINGS,
        session_options: SessionOptions = LOCAL,
    ) -> None:
        self._home = home
        self._session_options = session_options
        self._registry = _registry(home, settings)
        self._is_closed = False
        self._spark = spark
        self._is_given = spark is not None
        if spark is not None:
            register_sources(spark)
        self._planner = Planner(home.catalog, home.folder("programs"))
        self._driver = Driver(settings)
        self._upkeep = Upkeep(home, self._planner)
        self._lock = threading.Lock()
        """Held while batches run, and while the home is given back."""
        self._runner: int | None = None
        """Thread that runs batches."""
        self._start_lock = threading.Lock()
        self._handle: RunHandle | None = None
        """Loop that was started last."""
        self._is_given_back = False
        self._spark_lock = threading.Lock()
        self._run_lock = RunLock(home.root)
        self._is_tidy = False
        self._untold: list[Suspension] = []
        """Suspensions before batches that failed once more, which the next report tells of."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the loop that was started, and batches of other threads behind the one that is running, and give the
        catalogue back.

        The Spark session stays, because others may use it.  A function that is called between batches may close the
        home: it is given back once the call that runs batches ends.
        """
        with self._start_lock:
            self._is_closed = True
            handle = self._handle
        if handle is not None:
            handle.stop()
        if self._runner != threading.get_ident():
            with self._lock:
                self._give_back()

    def _give_back(self) -> None:
        """Give back what the home holds, once; the caller has the lock."""
        if not self._is_given_back:
            self._is_given_back = True
            self._planner.close()
            self._home.catalog.close()

    @contextmanager
    def _running_batches(self) -> Iterator[Home]:
        """Run batches by turns; a home that was closed meanwhile is given back at the end.

        Raises:
            EngineError: ``XSCL_ENGINE_CLOSED``.  ``XSCL_OWN_CALL``: this thread is running batches.
        """
        if self._runner == threading.get_ident():
            raise EngineError(
                "XSCL_OWN_CALL",
                f"batches of {self._home.root} run in this thread, which calls this function between two of them",
                hint="run others when the call has ended",
            )
        with self._lock:
            self._refuse_closed()
            self._runner = threading.get_ident()
            try:
                yield self._home
            finally:
                self._runner = None
                if self._is_closed:
                    self._give_back()

    def __repr__(self) -> str:
        return f"<xscl.Engine on {str(self._home.root)!r}{', closed' if self._is_closed else ''}>"

    def _repr_html_(self) -> str:
        if self._is_closed:
            return facts_html("xscl.Engine", {"home": self._home.root, "state": "closed"})
        last, batch = self._home.catalog.ask(read_last_places)
        facts = {"home": self._home.root, "queries": count_queries(self._home.catalog), "batches": batch}
        return facts_html("xscl.Engine", {**facts, "processed up to place": last})

    @property
    def home(self) -> Home:
        """The home, while the engine is open.

        Raises:
            EngineError: ``XSCL_ENGINE_CLOSED``.
        """
        self._refuse_closed()
        return self._home

    @property
    def registry(self) -> Registry:
        """The home's registry, while the engine is open.

        Raises:
            EngineError: ``XSCL_ENGINE_CLOSED``.
        """
        self._refuse_closed()
        return self._registry

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise EngineError(
                CLOSED,
                f"the engine on {self._home.root} was closed",
                hint="xscl.connect(home=…) opens the home again; use it within the with block",
            )

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started on first use, and anew if its Java has ended or its server no longer knows it.

        Raises:
            EngineError: ``XSCL_SPARK_GONE``: the session that was given has been stopped.
        """
        with self._spark_lock:
            if self._is_given and self._spark is not None and is_stopped(self._spark):
                raise EngineError(
                    "XSCL_SPARK_GONE",
                    "the session of Spark that was given has been stopped",
                    hint="open the home with another one: xscl.connect(home=…, spark=…)",
                )
            if self._spark is not None and not self._is_given and session_has_ended(self._spark):
                forget_session(self._spark)
                self._spark = None
            if self._spark is None:
                started = start_session(self._session_options)
                register_sources(started)
                self._spark = started
            return self._spark


def _registry(home: Home, settings: Settings) -> Registry:
    rules = chosen_rules(settings.rules)
    names = None if rules == RULES else frozenset(rule.name for rule in rules)
    return Registry(home.catalog, ChannelNames(home.root), KeptGroups(home.folder("programs")), names)
