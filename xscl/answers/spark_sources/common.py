"""Common part of the Spark data sources that read a home: its place, and options that are checked by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from xscl.base.errors import EngineError
from xscl.base.home_folders import default_home
from xscl.base.system_errors import named_file_faults
from xscl.base.types import time_bound
from xscl.catalog.suggestions import suggestion
from xscl.store.event_spans import EVERYTHING, Events
from xscl.store.home import Home, open_home

__all__ = ["HomeSource"]


class HomeSource(DataSource):
    """Common part of the sources that read a home, which is the path, ``XSCL_HOME`` or ``./xscl-home``."""

    known: tuple[str, ...]
    """Options, as users write them."""

    def check(self) -> None:
        """Refuse options that the source does not have.

        Raises:
            EngineError: ``XSCL_BAD_OPTION``.
        """
        known = ("path", "catalog", "maxRowsPerTrigger", *self.known)
        small = {name.lower() for name in known}
        for name in self.options:
            if name.lower() not in small:
                hint = suggestion(name, known, f"options are {', '.join(known)}")
                raise EngineError("XSCL_BAD_OPTION", f"{self.name()} has no option {name!r}", hint=hint)

    @contextmanager
    def home(self) -> Iterator[Home]:
        """Open the home.

        Raises:
            CatalogError: ``XSCL_NO_HOME``.
        """
        home = open_home(self.options.get("path") or default_home(), self.options.get("catalog"))
        try:
            with named_file_faults(home.root):
                yield home
        finally:
            home.catalog.close()

    @property
    def limit(self) -> ReadLimit:
        """Return how much a micro-batch of a stream reads."""
        text = self.options.get("maxRowsPerTrigger")
        if text is None:
            return ReadAllAvailable()
        if not text.strip().isdecimal() or int(text) < 1:
            raise EngineError("XSCL_BAD_OPTION", f"maxRowsPerTrigger is a number of at least 1, not {text!r}")
        return ReadMaxRows(int(text))

    @property
    def times(self) -> Events:
        """Return the event times that are asked for."""
        since, until = (time_bound(name, self._time(name)) for name in ("since", "until"))
        return Events(
            since=EVERYTHING.since if since is None else since, until=EVERYTHING.until if until is None else until
        )

    def _time(self, name: str) -> int | str | None:
        text = self.options.get(name)
        return int(text) if text is not None and text.strip().lstrip("-").isdecimal() else text
