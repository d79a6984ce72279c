"""Channels, queries and quotas of a home."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscl.answers.explaining.plan import QueryPlan, query_plan
from xscl.base.types import QueryName, QueryOutcome, with_fields
from xscl.catalog.quotas import Quotas, read_quotas, set_quotas
from xscl.catalog.records import QueryInfo
from xscl.engine.opened import OpenedHome
from xscl.intake.data_frames import frame_texts
from xscl.registry.channels import NEW_CHANNEL, ChannelOptions, add_channel, drop_channel
from xscl.registry.query_list import ALL_QUERIES, QueryFilter, list_queries
from xscl.registry.registrations import Resumed
from xscl.registry.registry import read_script

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Registering"]


class Registering(OpenedHome):
    """Calls that register and list queries, and define channels."""

    def add_channel(self, name: str, options: ChannelOptions = NEW_CHANNEL, **given: Any) -> list[str]:
        """Create a channel, or a stream of one; return notes on it.

        Args:
            name: the channel's name.
            options: kind, columns, times and the like; ``given`` are fields of it, such as ``lateness="1 h"``.

        Raises:
            CatalogError: the name is taken, or queries use it for a channel that is not there yet.
        """
        return add_channel(self.home.catalog, name, options, **given)

    def drop_channel(self, name: str) -> None:
        """Remove a channel or a stream that holds no events and that nothing reads.

        Raises:
            CatalogError: there is none, or something needs it.
        """
        drop_channel(self.home.catalog, name)

    def register(
        self, text: str, *, name: str | None = None, owner: str | None = None, strict: bool = False
    ) -> QueryName:
        """Register one query; returns its name, a text with ``notes`` on what it may not say as it was meant.

        Args:
            text: the query, which DECLAREs may precede.
            name: its name; by default the text's, or one that the service gives.
            owner: who registers it, any text of at most 128 characters; quotas count queries by owner.
            strict: refuse it over channels that do not exist.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: the name is taken; with ``strict``, a channel does not exist.  ``XSCL_TOO_MANY_QUERIES``: the
                owner has as many queries as the home allows.
        """
        return self.registry.register(text, name=name, owner=owner, strict=strict)

    def register_many(
        self,
        texts: Iterable[str | tuple[str | None, str]] | DataFrame,
        *,
        owner: str | None = None,
        strict: bool = False,
        atomic: bool = False,
    ) -> list[QueryOutcome]:
        """Register many texts; one outcome each, in order, and one bad text never fails the rest.

        Args:
            texts: texts, (name, text) pairs, or a DataFrame of pandas or Spark with a column ``text`` and, if wanted,
                one ``name``; where a name is missing the service gives one.
            owner: who registers them, as of ``register``.
            strict: refuse queries over channels that do not exist.
            atomic: register all or none.

        Raises:
            EngineError: ``XSCL_BAD_FRAME``: the DataFrame has no column ``text``.
        """
        given = frame_texts(texts) if hasattr(texts, "columns") else texts
        return self.registry.register_many(given, owner=owner, strict=strict, atomic=atomic)

    def load(
        self, script: str, *, owner: str | None = None, strict: bool = False, atomic: bool = False
    ) -> list[QueryOutcome]:
        """Take the statements of a script; one outcome each, in order; with ``atomic`` all or none."""
        return self.registry.load(script, owner=owner, strict=strict, atomic=atomic)

    def load_file(
        self, path: str | Path, *, owner: str | None = None, strict: bool = False, atomic: bool = False
    ) -> list[QueryOutcome]:
        """Take the statements of a file in UTF-8, as ``load``.

        Raises:
            CatalogError: ``XSCL_SOURCE_UNREADABLE``.
        """
        return self.load(read_script(path), owner=owner, strict=strict, atomic=atomic)

    def drop(self, name: str) -> None:
        """End a query; its matches stay."""
        self.registry.drop(name)

    def resume(self, name: str) -> Resumed:
        """Have a suspended query go on from now, with the same name, owner and ids of matches.

        The query does not see events from in between; ``query_once(text, name=name)`` asks for it.

        Raises:
            CatalogError: ``XSCL_QUERY_NOT_FOUND``; ``XSCL_NOT_SUSPENDED``; ``XSCL_TOO_MANY_QUERIES``.
        """
        return self.registry.resume(name)

    @property
    def quotas(self) -> Quotas:
        """Quotas of the home."""
        with self.home.catalog.read() as connection:
            return read_quotas(connection)

    def set_quotas(self, **quotas: int | None) -> Quotas:
        """Set quotas of the home, for all processes that work on it; returns all of them.

        A batch in which a query exceeds one is its last one until ``resume``; what the batch has found stays::

            engine.set_quotas(queries=1_000, bindings=5_000_000, pairs=1_000_000)

        Args:
            quotas: ``queries`` that are live of one owner, ``bindings`` and ``pairs`` (combinations of documents) of
                one query in one batch; None: any number.

        Raises:
            CatalogError: ``XSCL_BAD_OPTION``.
        """
        with self.home.catalog.begin() as connection:
            return set_quotas(connection, **quotas)

    def queries(self, wanted: QueryFilter = ALL_QUERIES, **given: Any) -> Iterator[QueryInfo]:
        """List live and suspended queries by name (in the order of code points), read a thousand at a time.

        All filters hold together; ``given`` are fields of ``wanted``::

            page = list(engine.queries(like="quake*", channel="items", limit=100))
            next_page = engine.queries(like="quake*", channel="items", limit=100, after=page[-1].name)
        """
        return list_queries(self.home.catalog, with_fields(wanted, given))

    def plan(self, like: str | None = None, *, rules: str | None = None) -> QueryPlan:
        """Return the m-ops that run for live queries, and the rules that made them::

            print(engine.plan("ramp*").text())

        Args:
            like: a pattern that names of queries fit: ``*`` is any text, ``?`` any character; None: all queries.
            rules: names of rules, as ``xscl plan --rules`` takes them: what would run with these alone.  By default
                those of the engine's settings.

        Raises:
            EngineError: ``XSCL_BAD_OPTION``: there is no such rule.
        """
        return query_plan(self.home.catalog, like, self._driver.settings.rules if rules is None else rules)
