"""Registration: texts to rows of the catalogue.  Nothing here starts Spark."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl import ast
from xscl.catalog import Catalog, QueryInfo, names_json
from xscl.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.errors import CatalogError, QuerySyntaxError, Span, XsclError
from xscl.parser import ScriptItem, parse_query, parse_script
from xscl.publishing import Publications, is_published, later_note
from xscl.tables import GROUPS, NEVER, QUERIES
from xscl.types import QueryOutcome, is_name

__all__ = ["Registry", "compile_info"]


@dataclass(frozen=True, slots=True)
class _Added:
    """A query that was registered."""

    name: str
    note: str | None


class Registry:
    """Registers and drops queries of one catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._publications: WeakKeyDictionary[Connection, Publications] = WeakKeyDictionary()
        """Of transactions under way."""

    def register(
        self,
        text: str,
        *,
        name: str | None = None,
        strict: bool = False,
        connection: Connection | None = None,
    ) -> str:
        """Register one query, which DECLAREs may precede; returns its name.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: the name is taken; with ``strict``, a channel does not exist.
        """
        if connection is None:
            with self.catalog.begin() as connection:
                return self.register(text, name=name, strict=strict, connection=connection)
        return self._register(connection, text, name, strict).name

    def _register(self, connection: Connection, text: str, name: str | None, strict: bool) -> _Added:
        namespaces: dict[str, str] = {}
        query: ast.CreateQuery | None = None
        _require_unicode(text)
        for item in parse_script(text):
            if item.error is not None:
                raise item.error
            match item.statement:
                case ast.DeclareNamespace(prefix, uri):
                    namespaces[prefix] = uri
                case ast.CreateQuery() as found if query is None:
                    query = found
                case _:
                    raise QuerySyntaxError(
                        "XSCL_SYNTAX",
                        "expected one query",
                        text=text,
                        span=item.statement.span if item.statement else None,
                        hint="files of many statements are loaded with 'xscl query load FILE'",
                    )
        if query is None:
            raise QuerySyntaxError("XSCL_SYNTAX", "there is no query in this text", text=text)
        if name is not None and query.name is not None and name != query.name:
            raise CatalogError(
                "XSCL_BAD_NAME",
                f"the text names the query {query.name!r}, and it is to be called {name!r}",
                hint="give one name, or 'xscl query load' the text as a file",
            )
        return self._add(connection, query, text, name if name is not None else query.name, namespaces, strict)

    def load(self, text: str, *, strict: bool = False, atomic: bool = False) -> list[QueryOutcome]:
        """Every statement of a script, with an outcome each; with ``atomic`` all or none."""
        _require_unicode(text)
        items = parse_script(text)
        namespaces: dict[str, str] = {}
        with self.catalog.begin() as connection:
            outcomes = [self._statement(connection, item, text, namespaces, strict) for item in items]
            if atomic and any(not outcome.ok for outcome in outcomes):
                connection.rollback()
                outcomes = [o if not o.ok else _undone(o) for o in outcomes]
        return outcomes

    def register_many(self, texts: Iterable[str | tuple[str, str]]) -> list[QueryOutcome]:
        """Texts, or (name, text) pairs; one outcome each, and one bad query never fails the rest."""
        outcomes = []
        with self.catalog.begin() as connection:
            for given in texts:
                name, text = given if isinstance(given, tuple) else (None, given)
                try:
                    with connection.begin_nested():
                        added = self._register(connection, text, name, strict=False)
                    outcomes.append(QueryOutcome(added.name, note=added.note))
                except XsclError as error:
                    outcomes.append(QueryOutcome(name, error, action="refused"))
        return outcomes

    def drop(self, name: str, *, connection: Connection | None = None) -> None:
        """End a query; its matches stay.

        Raises:
            CatalogError: there is none of that name.
        """
        if connection is None:
            with self.catalog.begin() as connection:
                self.drop(name, connection=connection)
                return
        self.catalog.drop_query(connection, name, _now())
        self._publications.pop(connection, None)

    def refresh(self, connection: Connection, channel: str) -> None:
        """Compile queries over a row channel again, now that its columns are known.

        No event of the channel came before its first row, so it is as if they had been registered with this knowledge.
        """
        facts = self.catalog.facts(connection)
        for info in self.catalog.queries(connection):
            if channel not in info.text:
                continue
            compiled = compile_info(info, facts)
            if channel in compiled.channels:
                gid = self.catalog.put_group(connection, compiled, info.text, info.namespaces)
                connection.execute(
                    QUERIES.update()
                    .where(QUERIES.c.query == info.query)
                    .values(gid=gid, template=compiled.template.id, names=names_json(compiled))
                )

    def unknown_channels(self, text: str) -> list[str]:
        """Channels that a registered text reads and that do not exist yet."""
        known = self.catalog.channels()
        items = parse_script(text)
        queries = [i.statement.query for i in items if isinstance(i.statement, ast.CreateQuery)]
        names = {block.channel for query in queries for block in ast.blocks(query.source)}
        return sorted(names - set(known))

    def _statement(
        self,
        connection: Connection,
        item: ScriptItem,
        script: str,
        namespaces: dict[str, str],
        strict: bool,
    ) -> QueryOutcome:
        if item.error is not None or item.statement is None:
            return QueryOutcome(item.name, item.error, item.line, "refused")
        try:
            with connection.begin_nested():
                match item.statement:
                    case ast.DeclareNamespace(prefix, uri):
                        namespaces[prefix] = uri
                        return QueryOutcome(prefix, None, item.line, "declared")
                    case ast.DropQuery(name):
                        self.drop(name, connection=connection)
                        return QueryOutcome(name, None, item.line, "dropped")
                    case ast.CreateQuery() as create:
                        added = self._add(connection, create, script, create.name, namespaces, strict)
                        return QueryOutcome(added.name, None, item.line, note=added.note)
        except XsclError as error:
            return QueryOutcome(item.name, error, item.line, "refused")

    def _add(
        self,
        connection: Connection,
        create: ast.CreateQuery,
        script: str,
        name: str | None,
        namespaces: Mapping[str, str],
        strict: bool,
    ) -> _Added:
        if name is not None and not is_name(name):
            raise CatalogError(
                "XSCL_BAD_NAME", f"{name!r} is no name", hint="letters, digits, '_', and inside it '-' and '.'"
            )
        facts = self.catalog.facts(connection)
        if strict:
            for block in ast.blocks(create.query.source):
                if block.channel not in facts and not is_published(connection, block.channel):
                    raise CatalogError(
                        "XSCL_UNKNOWN_CHANNEL",
                        f"there is no channel {block.channel!r}",
                        hint=f"create it with 'xscl channel add {block.channel}', or leave out --strict",
                    )
        # Spans count from the script's start, so that errors name lines of the file; kept is the query's own text.
        compiled = compile_query(create.query, script, namespaces=namespaces, channels=facts)
        publish, starting = create.query.publish, create.query.starting
        publications = None
        if publish is not None:
            # Read once a transaction, because a file may register very many.
            publications = self._publications.get(connection) or Publications(connection)
            self._publications[connection] = publications
            publications.check(name, compiled.channels, publish)
        name = self._free_name(connection) if name is None else name
        self.catalog.add_query(
            connection,
            name=name,
            text=create.text,
            namespaces=namespaces,
            compiled=compiled,
            digest=hashlib.sha256(f"{name}\0{create.text}".encode()).hexdigest(),
            now=_now(),
            publish=publish,
            starting=starting,
        )
        if publications is not None and publish is not None:
            publications.add(name, compiled.channels, publish)
        return _Added(name, later_note(publish, starting))

    def _free_name(self, connection: Connection) -> str:
        number = (connection.scalar(sa.select(sa.func.max(QUERIES.c.query))) or 0) + 1
        while connection.execute(
            sa.select(QUERIES.c.query).where(QUERIES.c.qid == f"q{number}", QUERIES.c.docid_until == NEVER)
        ).first():
            number += 1
        return f"q{number}"


def compile_info(info: QueryInfo, facts: Mapping[str, ChannelFacts]) -> CompiledQuery:
    """Compile a registered query again."""
    return compile_query(
        parse_query(info.text),
        info.text,
        namespaces=info.namespaces,
        channels=facts,
    )


def compile_group(connection: Connection, gid: int, facts: Mapping[str, ChannelFacts]) -> CompiledQuery:
    """Compile the text that stands for a group."""
    row = connection.execute(sa.select(GROUPS).where(GROUPS.c.gid == gid)).one()
    return compile_query(
        parse_query(row.text),
        row.text,
        namespaces=json.loads(row.namespaces),
        channels=facts,
    )


def _require_unicode(text: str) -> None:
    if (nul := text.find("\0")) >= 0:
        raise QuerySyntaxError("XSCL_SYNTAX", "NUL is no character of XML", text=text, span=Span(nul, nul + 1))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        span = Span(error.start, error.end)
        message = "half a surrogate pair is no character"
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=text, span=span) from None


def _undone(outcome: QueryOutcome) -> QueryOutcome:
    error = CatalogError("XSCL_NOT_REGISTERED", "not registered, because another statement failed")
    return QueryOutcome(outcome.name, error, outcome.line, "refused")


def _now() -> int:
    return time.time_ns() // 1000
