"""Queries of one transaction that publish: their channels, the rows that they publish, and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError, Span
from xscl.catalog.channels import put_channel
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import is_sub_query
from xscl.language.forms import Prepared, Preparer
from xscl.language.published_columns import published_columns
from xscl.language.syntax import ast
from xscl.language.syntax.statements import RawStatement
from xscl.registry.counted import refuse_counting
from xscl.registry.loading import Loading
from xscl.registry.memory import Memory
from xscl.registry.publish_graph import Publications
from xscl.registry.recompile import refresh
from xscl.registry.retracting import Retracting, keeps_retracted
from xscl.registry.row_channels import make_row_channel, require_target
from xscl.registry.seen_channels import SeenChannels

__all__ = ["Publishing", "at_part"]

_ROWS = re.compile(r"\brows\b", re.IGNORECASE)


class Publishing:
    """Queries of one transaction that publish, and those that read their channels."""

    def __init__(
        self,
        connection: Connection,
        memory: Memory,
        loading: Loading,
        channels: SeenChannels,
        preparers: dict[str, Preparer],
    ) -> None:
        """Begin with what a transaction has; ``preparers`` are by namespaces as JSON."""
        self._connection = connection
        self._memory = memory
        self._loading = loading
        self._channels = channels
        self._preparers = preparers
        self._publications: Publications | None = None
        """None: to be read when a query publishes."""
        self._retracting = Retracting(connection)

    def forget(self) -> None:
        """Forget who publishes, where queries were dropped that may have; all queries are written by now."""
        self._publications = None
        self._retracting.forget()
        self._channels.forget_published()

    def check(
        self,
        statement: Callable[[], RawStatement],
        name: str | None,
        read: Collection[str],
        target: str,
        columns: Mapping[str, str] | None,
    ) -> None:
        """Refuse a query that may not publish to a channel.

        Args:
            statement: gives the query as it was read, for places.
            name: its name, if it has one.
            read: the channels that it reads.
            target: the channel.
            columns: columns of the rows that it publishes; None: it publishes documents.

        Raises:
            CatalogError: the channel is not open to it, or it would read what it publishes.
        """
        if self._publications is None:
            self._loading.flush()
            self._publications = Publications(self._connection)
        with at_part(statement, lambda created: created.query.publish_span):
            if not is_sub_query(target):
                self._channels.require_open(target)
                require_target(self._connection, target, columns)
            self._publications.check(name, read, target)
            if not is_sub_query(target):
                self._loading.flush()
                refuse_counting(self._connection, target)

    def note(self, name: str, compiled: CompiledQuery, target: str, columns: Mapping[str, str] | None) -> None:
        """Note for later queries that a query publishes to a channel, and make that if rows are published."""
        assert self._publications is not None
        self._publications.add(name, compiled.read, target)
        self._channels.publish(target)
        if compiled.takes_back:
            self._retracting.add(name, target)
        if columns is not None:
            self._make_rows(target, columns)

    def columns(self, statement: Callable[[], RawStatement], text: str, namespaces: str) -> dict[str, str] | None:
        """Return the columns of the rows that a query publishes; None: it publishes documents."""
        if _ROWS.search(text) is None:
            return None
        raw = statement()
        query = raw.created().query
        if not query.as_rows:
            return None
        schemas = self._channels.schemas(block.channel for block in ast.blocks(query.source))
        return published_columns(query, raw.text, json.loads(namespaces), self._channels.facts, schemas)

    def _make_rows(self, target: str, columns: Mapping[str, str]) -> None:
        """Make the channel of the rows that a query publishes; queries that read it already are compiled again."""
        if is_sub_query(target):
            put_channel(self._connection, self._channels.note_rows(target, columns))
            facts = self._channels.facts[target]
            for preparer in self._preparers.values():
                preparer.channels[target] = facts  # no text that it has seen speaks of the channel
            return
        before = self._channels.facts.get(target)
        self._loading.flush()
        if make_row_channel(self._connection, target, columns) is not None:
            refresh(self._memory, self._connection, target, before)
            self._channels.read()
            self._preparers.clear()

    def refuse_kept(self, statement: Callable[[], RawStatement], prepared: Prepared) -> None:
        """Refuse a query that keeps matches over documents that are removed again, or that has others do so.

        Raises:
            CatalogError: ``XSCL_KEEPS_RETRACTED``.
        """
        compiled, target = prepared.compiled, prepared.publish
        if not compiled.follows_removals and (found := self._retracting.first_of(sorted(compiled.read))) is not None:
            places = _channel_spans(statement().created(), found[0])
            raise keeps_retracted(*found).placed(statement().text, places[0])
        if target is not None and compiled.takes_back:
            self._loading.flush()
            with at_part(statement, lambda created: created.query.publish_span):
                self._retracting.refuse_readers(target)


@contextmanager
def at_part(statement: Callable[[], RawStatement], span: Callable[[ast.CreateQuery], Span]) -> Iterator[None]:
    """Give refusals by the catalogue the place of a part of a statement."""
    try:
        yield
    except CatalogError as error:
        raw = statement()
        where = span(raw.created())
        if where == ast.NOWHERE:
            raise
        raise error.placed(raw.text, where) from None


def _channel_spans(created: ast.CreateQuery, channel: str) -> list[Span]:
    """Return the places of a channel's name; the whole query where it has a stream of it."""
    absent = (negation.right for negation in created.query.negations)
    blocks = (*ast.blocks(created.query.source), *absent)
    found = [block.span.start for block in blocks if block.channel == channel]
    return [Span(start, start + len(channel)) for start in found] or [created.query.span]
