"""Registration: texts to rows of the catalogue.  Nothing here starts Spark."""

from __future__ import annotations

import gc
import json
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl import ast
from xscl.catalog import Catalog, QueryInfo
from xscl.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.constructor import NO_CHARACTER
from xscl.errors import CatalogError, QuerySyntaxError, Span, XsclError
from xscl.loading import Known, Loading, query_digest
from xscl.parser import RawStatement, parse_query, parse_script, raw_statements
from xscl.prepared import Prepared, Preparer
from xscl.publishing import Publications, is_published
from xscl.queries import reads
from xscl.steps import step
from xscl.tables import GROUPS, NEVER, QUERIES, in_parts
from xscl.tokens import Token
from xscl.types import MAX_NAME, QueryOutcome, is_name, to_micros

__all__ = ["Registry", "compile_info", "namespaces_json", "read_script"]


_CHUNK = 2_000
"""Queries written together."""
_MOST_PREPARERS = 20
_UNNAMED = "once"

T = TypeVar("T")


class Registry:
    """Registers and drops queries of one catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._known = Known()
        self._preparers: dict[str, Preparer] = {}

    def register(
        self,
        text: str,
        *,
        name: str | None = None,
        strict: bool = False,
        connection: Connection | None = None,
        then: Callable[[Connection], None] | None = None,
    ) -> str:
        """Register one query, which DECLAREs may precede; returns its name.

        Args:
            text: the query.
            name: its name; by default the text's, or one that the service gives.
            strict: refuse it over channels that do not exist.
            connection: do it in this transaction.
            then: is called in the same transaction.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: the name is taken; with ``strict``, a channel does not exist.
        """
        if connection is not None:
            # Numbers that this transaction makes are not known until its owner commits it.
            work = _Work(self, connection, strict)
            name = work.register(text, name)
            work.loading.flush()
            return name
        with self._transaction(strict) as work:
            name = work.register(text, name)
            if then is not None:
                then(work.connection)
            return name

    def load(self, text: str, *, strict: bool = False, atomic: bool = False) -> list[QueryOutcome]:
        """Every statement of a script, with an outcome each; with ``atomic`` all or none."""
        namespaces: dict[str, str] = {}
        checked = NO_CHARACTER.search(text) is None

        def take(work: _Work, chunk: Sequence[RawStatement]) -> list[QueryOutcome]:
            work.loading.look_up(name for name in map(_name_of, chunk) if name is not None)
            return [work.statement(statement, namespaces, checked=checked) for statement in chunk]

        return self._many(raw_statements(text), take, strict, atomic)

    def register_many(
        self, texts: Iterable[str | tuple[str | None, str]], *, strict: bool = False, atomic: bool = False
    ) -> list[QueryOutcome]:
        """Texts, or (name, text) pairs; one outcome each, and one bad query never fails the rest unless ``atomic``."""
        if isinstance(texts, str):
            raise CatalogError(
                "XSCL_BAD_OPTION", "register_many takes many texts, not one", hint="use register or load"
            )

        def take(work: _Work, chunk: Sequence[str | tuple[str | None, str]]) -> list[QueryOutcome]:
            pairs = [_pair(given) for given in chunk]
            names = (pair[0] for pair in pairs if not isinstance(pair, CatalogError))
            work.loading.look_up(name for name in names if name is not None and is_name(name))
            return [
                QueryOutcome(None, pair, action="refused") if isinstance(pair, CatalogError) else work.outcome(*pair)
                for pair in pairs
            ]

        return self._many(texts, take, strict, atomic)

    def unregistered(self, text: str, *, name: str | None = None) -> tuple[QueryInfo, CompiledQuery]:
        """A query as it would be if it were registered now, and its compiled form; nothing is written.

        One that nothing gives a name is called ``once``, and the name may be that of a registered query.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: ``name`` is no name, or the text gives another one.
        """
        _require_characters(text)
        statement, name, namespaces = _one_query(text, name)
        name = name or _UNNAMED
        _require_name(name)
        kept = namespaces_json(namespaces)
        text, prepared = _prepared(statement, self.preparer(kept, self.catalog.facts()))
        starting, place = prepared.starting, self.catalog.processed()[1] + 1
        info = QueryInfo(
            query=1,
            name=name,
            text=text,
            namespaces=namespaces,
            gid=1,
            template=prepared.compiled.template.id,
            digest=query_digest(name, text),
            names=json.loads(prepared.names),
            docid_from=place,
            docid_until=NEVER,
            received=0,
            publish=prepared.publish,
            starting=starting,
            sees_from=0,
            ts_from=None if starting in ("NOW", "ALL") else to_micros(starting),
            history=None,
            filled=None,
        )
        return info, prepared.compiled

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

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, strict: bool) -> Iterator[_Work]:
        with self.catalog.begin() as connection:
            work = _Work(self, connection, strict)
            yield work
            work.loading.flush()
            step("register.commit")
        step("register.committed")
        self._known.learn(work.loading.new)

    def _many(
        self, given: Iterable[T], take: Callable[[_Work, Sequence[T]], list[QueryOutcome]], strict: bool, atomic: bool
    ) -> list[QueryOutcome]:
        """Take what is given in chunks: each in a transaction of its own, so that others may write between them, or
        with ``atomic`` all in one.
        """
        outcomes: list[QueryOutcome] = []
        chunks = _chunks(given)
        if not atomic:
            for chunk in chunks:
                with self._transaction(strict) as work, _collecting_later():
                    outcomes += take(work, chunk)
            return outcomes
        try:
            with self._transaction(strict) as work:
                for chunk in chunks:
                    outcomes += take(work, chunk)
                    work.loading.flush()
                if any(not outcome.ok for outcome in outcomes):
                    raise _Undone
        except _Undone:
            outcomes = [outcome if not outcome.ok else _undone(outcome) for outcome in outcomes]
        return outcomes

    def preparer(self, namespaces: str, facts: Mapping[str, ChannelFacts]) -> Preparer:
        """Compiles for these namespaces (JSON) and channels; kept while the channels stay what they are."""
        found = self._preparers.get(namespaces)
        if found is None or found.channels != facts:
            if len(self._preparers) > _MOST_PREPARERS:
                self._preparers.clear()
            found = self._preparers[namespaces] = Preparer(json.loads(namespaces), facts)
        return found

    def refresh(self, connection: Connection, channel: str, before: ChannelFacts | None) -> None:
        """Compile queries over a channel again, now that its columns are known; ``before`` is what was known of it.

        No event of the channel came before its first row, so it is as if they had been registered with this knowledge.
        """
        facts = self.catalog.facts(connection)
        before, now = before or ChannelFacts(), facts.get(channel, ChannelFacts())
        if (before.numeric, before.texts, before.times) == (now.numeric, now.texts, now.times):
            return  # groups depend on nothing else
        preparers: dict[str, Preparer] = {}

        def prepare(text: str, namespaces: str) -> Prepared:
            if namespaces not in preparers:
                preparers[namespaces] = self.preparer(namespaces, facts)
            return preparers[namespaces].prepare_text(text)

        alive = QUERIES.c.docid_until == NEVER
        reading = sa.select(QUERIES.c.gid).where(alive, reads(connection, channel)).distinct()
        grown = before.numeric <= now.numeric
        # What is made here is known to this transaction alone, which may be rolled back.
        loading = Loading(self.catalog, connection, self._known)
        for gids in in_parts(connection.scalars(reading.order_by(QUERIES.c.gid)).all()):
            groups = connection.execute(sa.select(GROUPS).where(GROUPS.c.gid.in_(gids))).all()
            changed = [
                row.gid for row in groups if not (grown and _stays(row.key, prepare(row.text, row.namespaces).compiled))
            ]
            if not changed:
                continue
            statement = sa.select(QUERIES.c.query, QUERIES.c.text, QUERIES.c.namespaces).where(
                alive, QUERIES.c.gid.in_(changed)
            )
            for rows in _chunks(connection.execute(statement.order_by(QUERIES.c.query)).all()):
                found = [(row.query, row.text, row.namespaces, prepare(row.text, row.namespaces)) for row in rows]
                numbers = loading.put_groups(one[1:] for one in found)
                connection.execute(
                    QUERIES.update().where(QUERIES.c.query == sa.bindparam("number")),
                    [
                        {
                            "number": query,
                            "gid": numbers[prepared.compiled.group.key],
                            "template": prepared.compiled.template.id,
                            "names": prepared.names,
                        }
                        for query, _, _, prepared in found
                    ],
                )

    def unknown_channels(self, text: str) -> list[str]:
        """Channels that a registered text reads and that do not exist yet."""
        known = self.catalog.facts()
        items = parse_script(text)
        queries = [i.statement.query for i in items if isinstance(i.statement, ast.CreateQuery)]
        names = {block.channel for query in queries for block in ast.blocks(query.source)}
        return sorted(names - set(known))


class _Undone(Exception):
    """Takes an atomic load back."""


class _Work:
    """What one transaction registers."""

    def __init__(self, registry: Registry, connection: Connection, strict: bool) -> None:
        self.registry = registry
        self.connection = connection
        self.strict = strict
        self.loading = Loading(registry.catalog, connection, registry._known)
        self.facts = registry.catalog.facts(connection)
        self._publications: Publications | None = None
        self._there: set[str] = set(self.facts)
        """Channels that exist, or will be published to."""
        self._preparers: dict[str, Preparer] = {}

    def outcome(self, name: str | None, text: str) -> QueryOutcome:
        """Register a text and say what became of it."""
        try:
            taken = self.register(text, name)
        except XsclError as error:
            return QueryOutcome(name, error, action="refused")
        return QueryOutcome(taken)

    def register(self, text: str, name: str | None) -> str:
        """Register one query, which DECLAREs may precede: its name."""
        _require_characters(text)
        prepared = self._preparer("{}").known(text)
        if prepared is not None:
            return self._take(text, name, "{}", prepared)
        statement, name, namespaces = _one_query(text, name)
        return self._add(statement, name, namespaces)

    def statement(self, statement: RawStatement, namespaces: dict[str, str], *, checked: bool) -> QueryOutcome:
        """Take one statement of a script; DECLARE changes ``namespaces``.

        ``checked``: the whole script has characters of XML only.
        """
        name = _name_of(statement)
        try:
            if not checked:
                _require_characters(statement.text, statement.tokens[0].start, statement.tokens[-1].end)
            if _is_declaration(statement):
                return QueryOutcome(_declare(statement, namespaces), None, statement.line, "declared")
            if _is_drop(statement):
                name = self._drop(statement)
                return QueryOutcome(name, None, statement.line, "dropped")
            return QueryOutcome(self._add(statement, name, namespaces), None, statement.line)
        except XsclError as error:
            return QueryOutcome(name or statement.parse().name, error, statement.line, "refused")

    def _drop(self, statement: RawStatement) -> str:
        parsed = _parsed(statement)
        assert isinstance(parsed, ast.DropQuery)
        self.loading.flush()
        self.registry.drop(parsed.name, connection=self.connection)
        self.loading.forget(parsed.name)
        # It may have published; what others of this transaction publish to is written by now.
        self._publications = None
        self._there = set(self.facts)
        return parsed.name

    def _add(self, statement: RawStatement, name: str | None, namespaces: Mapping[str, str]) -> str:
        kept = namespaces_json(namespaces)
        text, prepared = _prepared(statement, self._preparer(kept))
        return self._take(text, name, kept, prepared)

    def _preparer(self, namespaces: str) -> Preparer:
        if namespaces not in self._preparers:
            self._preparers[namespaces] = self.registry.preparer(namespaces, self.facts)
        return self._preparers[namespaces]

    def _take(self, text: str, name: str | None, namespaces: str, prepared: Prepared) -> str:
        if name is not None:
            _require_name(name)
        if self.strict:
            self._require_channels(prepared.compiled.channels)
        if prepared.publish is not None:
            if self._publications is None:
                self.loading.flush()
                self._publications = Publications(self.connection)
            self._require_no_stream(prepared.publish)
            self._publications.check(name, prepared.compiled.channels, prepared.publish)
        if name is None:
            name = self.loading.free_name()
        self.loading.add(name, text, namespaces, prepared)
        if self._publications is not None and prepared.publish is not None:
            self._publications.add(name, prepared.compiled.channels, prepared.publish)
            self._there.add(prepared.publish)
        return name

    def _require_no_stream(self, target: str) -> None:
        facts = self.facts.get(target)
        if facts is not None and facts.channel is not None:
            raise CatalogError(
                "XSCL_BAD_CHANNEL",
                f"{target} is a stream of {facts.channel}, and PUBLISH appends to a channel",
                hint=f"PUBLISH {facts.channel}, or another name",
            )

    def _require_channels(self, channels: Iterable[str]) -> None:
        for channel in channels:
            if channel not in self._there and not is_published(self.connection, channel):
                raise CatalogError(
                    "XSCL_UNKNOWN_CHANNEL",
                    f"there is no channel {channel!r}",
                    hint=f"create it with 'xscl channel add {channel}', or leave out --strict",
                )


def _require_name(name: str) -> None:
    if not is_name(name):
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"{name!r} is no name",
            hint=f"letters, digits, '_', and inside it '-' and '.'; at most {MAX_NAME} characters",
        )


# -- statements as tokens --------------------------------------------------------------------------------------


def _one_query(text: str, name: str | None) -> tuple[RawStatement, str | None, dict[str, str]]:
    """The one query of a text, which DECLAREs may precede: its statement, name if any, and namespaces."""
    namespaces: dict[str, str] = {}
    found: RawStatement | None = None
    for statement in raw_statements(text):
        if found is not None or _is_drop(statement):
            raise QuerySyntaxError(
                "XSCL_SYNTAX",
                "expected one query",
                text=text,
                span=_parsed(statement).span,
                hint="files of many statements are loaded with 'xscl query load FILE'",
            )
        if _is_declaration(statement):
            _declare(statement, namespaces)
        else:
            found = statement
    if found is None:
        raise QuerySyntaxError("XSCL_SYNTAX", "there is no query in this text", text=text)
    named = _name_of(found)
    if name is not None and named is not None and name != named:
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"the text names the query {named!r}, and it is to be called {name!r}",
            hint="give one name, or 'xscl query load' the text as a file",
        )
    return found, name if name is not None else named, namespaces


def _prepared(statement: RawStatement, preparer: Preparer) -> tuple[str, Prepared]:
    """The text of a query as it is kept, and what it is compiled to."""
    named = _name_of(statement)
    if named is not None and not is_name(named):
        _created(statement)  # says where, whether the query is of a known form or not
    *tokens, last = statement.tokens[_begin_of_query(statement.tokens) :]

    def parse() -> tuple[ast.Query, str]:
        # Spans count from the script's start, so that errors name lines of the file.
        return _created(statement).query, statement.text

    if last.kind == "constructor" or not tokens:
        text = _created(statement).text
    else:
        text = statement.text[tokens[0].start : tokens[-1].end]
    return text, preparer.prepare(text, tokens, parse)


def _is_declaration(statement: RawStatement) -> bool:
    tokens = statement.tokens
    return tokens[0].is_word("declare") and tokens[1].is_word("namespace")


def _is_drop(statement: RawStatement) -> bool:
    tokens = statement.tokens
    return tokens[0].is_word("drop") and tokens[1].is_word("query")


def _parsed(statement: RawStatement) -> ast.Statement:
    item = statement.parse()
    if item.error is not None:
        raise item.error
    assert item.statement is not None
    return item.statement


def _created(statement: RawStatement) -> ast.CreateQuery:
    parsed = _parsed(statement)
    assert isinstance(parsed, ast.CreateQuery)
    return parsed


def _declare(statement: RawStatement, namespaces: dict[str, str]) -> str:
    parsed = _parsed(statement)
    assert isinstance(parsed, ast.DeclareNamespace)
    namespaces[parsed.prefix] = parsed.uri
    return parsed.prefix


def _begin_of_query(tokens: Sequence[Token]) -> int:
    """The place of the token behind ``CREATE STANDING QUERY name AS``; 0 without it."""
    if not tokens[0].is_word("create") or len(tokens) < 6:
        return 0
    at = 2 if tokens[1].is_word("standing") else 1
    named = tokens[at].is_word("query") and tokens[at + 1].kind == "name" and tokens[at + 2].is_word("as")
    return at + 3 if named and not tokens[at + 1].value.endswith("'") else 0


def _name_of(statement: RawStatement) -> str | None:
    """The name that a statement gives its query."""
    begin = _begin_of_query(statement.tokens)
    return statement.tokens[begin - 2].value if begin else None


def namespaces_json(namespaces: Mapping[str, str]) -> str:
    """Declared namespaces as they are kept."""
    return json.dumps(dict(namespaces))


@contextmanager
def _collecting_later() -> Iterator[None]:
    """Thousands of trees without cycles: looking for cycles while they are made takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _chunks(given: Iterable[T]) -> Iterator[list[T]]:
    items = iter(given)
    while chunk := list(islice(items, _CHUNK)):
        yield chunk


def read_script(path: str | Path) -> str:
    """The text of a file of statements, in UTF-8.

    Raises:
        CatalogError: ``XSCL_SOURCE_UNREADABLE``.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CatalogError("XSCL_SOURCE_UNREADABLE", f"{path}: {reason}") from None


def compile_info(info: QueryInfo, facts: Mapping[str, ChannelFacts]) -> CompiledQuery:
    """Compile a registered query again."""
    return compile_query(
        parse_query(info.text),
        info.text,
        namespaces=info.namespaces,
        channels=facts,
    )


def _stays(key: str, compiled: CompiledQuery) -> bool:
    """Whether all queries of a group stay in it when columns were added, told from what its text compiles to now."""
    # Comparisons in order with and without arithmetic (x < y, x < y + 0) are one group until both are known as texts.
    return key == compiled.group.key and all(join.kind != "BAND" for join in compiled.group.instance.joins)


def _require_characters(text: str, start: int = 0, end: int | None = None) -> None:
    """Refuse what XML does not have: no document could hold it, and stores refuse some of it."""
    if (bad := NO_CHARACTER.search(text, start, len(text) if end is None else end)) is not None:
        message = f"U+{ord(bad[0]):04X} is no character of XML"
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=text, span=Span(*bad.span()))


def _pair(given: object) -> tuple[str | None, str] | CatalogError:
    """The name and the text that were given, or why they cannot be taken."""
    match given:
        case str():
            return None, given
        case (str() | None as name, str() as text):
            return name, text
    shown = reprlib.repr(given)
    return CatalogError(
        "XSCL_BAD_OPTION", f"expected a text, or a name (or None) and a text, found {shown}", hint="as in ('q', 'S//a')"
    )


def _undone(outcome: QueryOutcome) -> QueryOutcome:
    error = CatalogError("XSCL_NOT_REGISTERED", "not registered, because another statement failed")
    return QueryOutcome(outcome.name, error, outcome.line, "refused")


def _now() -> int:
    return time.time_ns() // 1000
