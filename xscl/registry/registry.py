"""Registration: texts to rows of the catalogue.  Nothing here starts Spark."""

from __future__ import annotations

import gc
import json
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import published_docid
from xscl.base.errors import CatalogError, QueryError, Span, XsclError
from xscl.base.failpoints import step
from xscl.base.types import MAX_NAME, QueryName, QueryOutcome, is_name, now_micros, to_micros
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_channels, read_facts
from xscl.catalog.event_counts import channel_counts
from xscl.catalog.intake_order import read_last_places, take_places
from xscl.catalog.queries import drop_query, read_query, regroup, release_query
from xscl.catalog.records import ChannelInfo, QueryInfo
from xscl.catalog.suggestions import channel_names, no_channel, no_query
from xscl.catalog.tables import GROUPS, NEVER, QUERIES, in_parts
from xscl.language import ast
from xscl.language.compile import CompiledQuery, compile_query
from xscl.language.constructor import NO_CHARACTER
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Prepared, Preparer
from xscl.language.normalize import normalize
from xscl.language.parser import parse_query
from xscl.language.statements import RawStatement, one_query, raw_statements, require_characters
from xscl.language.unsatisfiable import impossible
from xscl.registry.channel_names import ChannelNames, DocumentNames, known_names
from xscl.registry.loading import Known, Loading, query_digest
from xscl.registry.notes import channel_note, mixed_notes, name_notes
from xscl.registry.publish_graph import Publications, is_published
from xscl.registry.query_list import reads

__all__ = ["Registry", "Resumed", "compile_info", "namespaces_json", "read_script"]


_CHUNK = 2_000
"""Queries written together."""
_MOST_PREPARERS = 20
_UNNAMED = "once"
_MOST_SUGGESTED = 20
"""Unknown names in a transaction for which names that are alike are looked for."""

T = TypeVar("T")


class Registry:
    """Registers and drops queries of one catalogue."""

    def __init__(self, catalog: Catalog, names: ChannelNames | None = None) -> None:
        """``names`` knows the documents of channels, for notes; without it notes speak of columns only."""
        self.catalog = catalog
        self.names = names
        self._known = Known()
        self._preparers: dict[str, Preparer] = {}

    def register(
        self,
        text: str,
        *,
        name: str | None = None,
        owner: str | None = None,
        strict: bool = False,
        connection: Connection | None = None,
        then: Callable[[Connection], None] | None = None,
    ) -> QueryName:
        """Register one query, which DECLAREs may precede; returns its name, with notes on it.

        Args:
            text: the query.
            name: its name; by default the text's, or one that the service gives.
            owner: who registers it, any text; None: nobody says.
            strict: refuse it over channels that do not exist.
            connection: do it in this transaction.
            then: is called in the same transaction.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: the name is taken; the owner has as many queries as the home allows; with ``strict``, a
                channel does not exist.
        """
        if connection is not None:
            # Numbers that this transaction makes are not known until its owner commits it.
            work = _Work(self, connection, strict, owner)
            taken = work.register(text, name)
            work.loading.flush()
            return taken
        with self._transaction(strict, owner) as work:
            taken = work.register(text, name)
            if then is not None:
                then(work.connection)
            return taken

    def load(
        self, text: str, *, owner: str | None = None, strict: bool = False, atomic: bool = False
    ) -> list[QueryOutcome]:
        """Take every statement of a script, with an outcome each; with ``atomic`` all or none."""
        namespaces: dict[str, str] = {}
        checked = NO_CHARACTER.search(text) is None

        def take(work: _Work, chunk: Sequence[RawStatement]) -> list[QueryOutcome]:
            work.loading.look_up(name for name in (statement.name for statement in chunk) if name is not None)
            return [work.statement(statement, namespaces, checked=checked) for statement in chunk]

        return self._many(raw_statements(text), take, owner, strict, atomic)

    def register_many(
        self,
        texts: Iterable[str | tuple[str | None, str]],
        *,
        owner: str | None = None,
        strict: bool = False,
        atomic: bool = False,
    ) -> list[QueryOutcome]:
        """Register texts, or (name, text) pairs; one outcome each, and one bad query never fails the rest unless
        ``atomic``.
        """
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

        return self._many(texts, take, owner, strict, atomic)

    def unregistered(self, text: str, *, name: str | None = None) -> tuple[QueryInfo, CompiledQuery, tuple[str, ...]]:
        """Return a query as if it were registered now, its compiled form, and notes on it; nothing is written.

        One that nothing gives a name is called ``once``, and the name may be that of a registered query.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: ``name`` is no name, or the text gives another one.
        """
        statement, name, namespaces = one_query(text, name)
        name = name or _UNNAMED
        _require_name(name)
        kept = namespaces_json(namespaces)
        with self.catalog.read() as connection:
            work = _Work(self, connection, strict=False, owner=None, registers=False)
            text, prepared, notes = work.checked(statement, kept)
            notes = (*work.channel_notes(prepared.compiled), *notes)
        starting, place = prepared.starting, self.catalog.ask(read_last_places)[1] + 1
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
        return info, prepared.compiled, notes

    def drop(self, name: str, *, connection: Connection | None = None) -> None:
        """End a query; its matches stay.

        Raises:
            CatalogError: there is none of that name.
        """
        if connection is None:
            with self.catalog.begin() as connection:
                self.drop(name, connection=connection)
                return
        drop_query(connection, name, now_micros())

    def resume(self, name: str) -> Resumed:
        """Have a suspended query go on from now: it sees what comes after this, and keeps its name, owner and ids.

        Raises:
            CatalogError: ``XSCL_QUERY_NOT_FOUND``; ``XSCL_NOT_SUSPENDED``; its owner has as many queries as the home
                allows; channels would feed themselves with what it publishes.
        """
        with self._transaction(strict=False, owner=None) as work:
            return work.resume(name)

    # -- transactions ------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, strict: bool, owner: str | None) -> Iterator[_Work]:
        with self.catalog.begin() as connection:
            work = _Work(self, connection, strict, owner)
            yield work
            work.loading.flush()
            step("register.commit")
        step("register.committed")
        self._known.learn(work.loading.new)

    def _many(
        self,
        given: Iterable[T],
        take: Callable[[_Work, Sequence[T]], list[QueryOutcome]],
        owner: str | None,
        strict: bool,
        atomic: bool,
    ) -> list[QueryOutcome]:
        """Take what is given in chunks: each in a transaction of its own, so that others may write between them, or
        with ``atomic`` all in one.
        """
        outcomes: list[QueryOutcome] = []
        chunks = _chunks(given)
        if not atomic:
            for chunk in chunks:
                with self._transaction(strict, owner) as work, _collecting_later():
                    outcomes += take(work, chunk)
            return outcomes
        try:
            with self._transaction(strict, owner) as work:
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
        facts = read_facts(connection)
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
                regroup(
                    connection,
                    (
                        (
                            query,
                            numbers[prepared.compiled.group.key],
                            prepared.compiled.template.id,
                            prepared.names,
                        )
                        for query, _, _, prepared in found
                    ),
                )


@dataclass(frozen=True, slots=True)
class Resumed:
    """The outcome of resuming a query."""

    name: str
    suspended: int
    """Place of the intake order from which on it saw nothing."""
    resumed: int
    """Place after which it sees what comes."""
    missed: int
    """Events of its channels between both places."""


class _Undone(Exception):
    """Takes an atomic load back."""


class _Work:
    """Registrations of one transaction."""

    def __init__(
        self, registry: Registry, connection: Connection, strict: bool, owner: str | None, *, registers: bool = True
    ) -> None:
        self.registry = registry
        self.owner = _owner(owner)
        self.registers = registers
        self.connection = connection
        self.strict = strict
        self.loading = Loading(registry.catalog, connection, registry._known)
        self.facts = read_facts(connection)
        self._publications: Publications | None = None
        self._there: set[str] = set(self.facts)
        """Channels that exist, or will be published to."""
        self._preparers: dict[str, Preparer] = {}
        self._channels: Mapping[str, ChannelInfo] | None = None
        self._fed: dict[str, bool] = {}
        self._missing: dict[str, str] = {}
        """Notes on channels that do not exist."""
        self._refused: dict[str, CatalogError] = {}
        """Refusals of channels that do not exist."""
        self._suggested = 0
        self._names: dict[str, DocumentNames | None] = {}
        self._advice: dict[int, tuple[CompiledQuery, tuple[str, ...]]] = {}
        """Notes on compiled queries by identity; each is kept so that no other one gets it."""

    def outcome(self, name: str | None, text: str) -> QueryOutcome:
        """Register a text and say what became of it."""
        try:
            taken = self.register(text, name)
        except XsclError as error:
            return QueryOutcome(name, error, action="refused")
        return QueryOutcome(str(taken), notes=taken.notes)

    def register(self, text: str, name: str | None) -> QueryName:
        """Register one query, which DECLAREs may precede: its name."""
        require_characters(text)
        prepared = self._preparer("{}").known(text)
        if prepared is not None and id(prepared.compiled) in self._advice:
            # The text is one query without a name, as it is kept.
            notes = self._advice[id(prepared.compiled)][1]
            return self._take(lambda: one_query(text, None)[0], text, name, "{}", prepared, notes)
        statement, name, namespaces = one_query(text, name)
        return self._add(statement, name, namespaces)

    def statement(self, statement: RawStatement, namespaces: dict[str, str], *, checked: bool) -> QueryOutcome:
        """Take one statement of a script; DECLARE changes ``namespaces``.

        ``checked``: the whole script has characters of XML only.
        """
        name = statement.name
        try:
            if not checked:
                statement.require_characters()
            if statement.is_declaration:
                return QueryOutcome(statement.declare(namespaces), None, statement.line, "declared")
            if statement.is_drop:
                name = self._drop(statement)
                return QueryOutcome(name, None, statement.line, "dropped")
            taken = self._add(statement, name, namespaces)
            return QueryOutcome(str(taken), None, statement.line, notes=taken.notes)
        except XsclError as error:
            return QueryOutcome(name or statement.parse().name, error, statement.line, "refused")

    def _drop(self, statement: RawStatement) -> str:
        parsed = statement.parsed()
        assert isinstance(parsed, ast.DropQuery)
        self.loading.flush()
        if not self.loading.is_taken(parsed.name):
            self._suggested += 1
            refusal = no_query(self.connection, parsed.name, suggests=self._suggested <= _MOST_SUGGESTED)
            raise refusal.placed(statement.text, parsed.name_span)
        self.registry.drop(parsed.name, connection=self.connection)
        self.loading.forget(parsed.name)
        # It may have published; what others of this transaction publish to is written by now.
        self._publications = None
        self._there = set(self.facts)
        return parsed.name

    def resume(self, name: str) -> Resumed:
        """Register a suspended query again, from now on."""
        info = read_query(self.connection, name)
        if info.live:
            raise CatalogError(
                "XSCL_NOT_SUSPENDED", f"query {name!r} is not suspended", hint="'xscl query list' says which are"
            )
        since = info.docid_until
        place, _ = take_places(self.connection, 1, now_micros())
        release_query(self.connection, info.query, place)
        self.owner = info.owner
        statement, _, _ = one_query(info.text)
        namespaces = namespaces_json(info.namespaces)
        _, prepared, _ = self.checked(statement, namespaces)
        self.loading.forget(name)
        self._take(lambda: statement, info.text, name, namespaces, prepared, (), resumes=True)
        missed = Counter(channel_counts(self.connection, since, place))
        missed += Counter(channel_counts(self.connection, published_docid(since, 0), published_docid(place, 0) - 1))
        return Resumed(name, since, place, sum(missed[channel] for channel in {*prepared.compiled.channels}))

    def _add(self, statement: RawStatement, name: str | None, namespaces: Mapping[str, str]) -> QueryName:
        kept = namespaces_json(namespaces)
        text, prepared, notes = self.checked(statement, kept)
        return self._take(lambda: statement, text, name, kept, prepared, notes)

    def checked(self, statement: RawStatement, namespaces: str) -> tuple[str, Prepared, tuple[str, ...]]:
        """Return a query's text as it is kept, what it is compiled to, and notes on it; ``namespaces`` as JSON.

        Raises:
            QueryError: it is no sound query, or can never hold.
        """
        text, prepared = _prepared(statement, self._preparer(namespaces))
        compiled = prepared.compiled
        known = self._advice.get(id(compiled))
        if known is None:
            declared = json.loads(namespaces)
            contradictions: tuple[str, ...] = ()
            if impossible(compiled.normal, self.facts) is not None:
                # Told of this text, not of the first one of its form.
                normal = normalize(statement.created().query, statement.text, declared)
                found = impossible(normal, self.facts)
                if found is not None and not found.together:
                    raise QueryError(
                        "XSCL_NEVER_HOLDS",
                        f"this can never hold: {found.reason}",
                        text=statement.text,
                        span=found.span,
                        hint=found.hint,
                    )
                if found is not None:
                    at = statement.text[found.span.start : found.span.end]
                    contradictions = (f"the query finds nothing, whatever comes: {found.reason} ({at})",)
            notes = (
                *contradictions,
                *compiled.notes,
                *mixed_notes(compiled, self.facts),
                *name_notes(compiled, declared, self._names_of),
            )
            known = compiled, notes
            if not contradictions:
                self._advice[id(compiled)] = known
        return text, prepared, known[1]

    def _names_of(self, channel: str) -> DocumentNames | None:
        """Return the names that a channel's documents have, as far as they are known."""
        if channel not in self._names:
            if self._channels is None:
                self._channels = read_channels(self.connection)
            names = self.registry.names
            self._names[channel] = known_names(self._channels, names, self.connection, channel)
        return self._names[channel]

    def channel_notes(self, compiled: CompiledQuery) -> tuple[str, ...]:
        """Return notes on the channels that do not exist and that nothing publishes to."""
        channels = (block.channel for block in compiled.normal.blocks)
        missing = [channel for channel in channels if channel not in self._there and not self._is_fed(channel)]
        return tuple(self._missing_note(channel) for channel in dict.fromkeys(missing))

    def _is_fed(self, channel: str) -> bool:
        if channel not in self._fed:
            self._fed[channel] = is_published(self.connection, channel)
        return self._fed[channel]

    def _missing_note(self, channel: str) -> str:
        if channel not in self._missing:
            known = (*channel_names(self.connection), *self._there)
            self._missing[channel] = channel_note(channel, known, registered=self.registers)
        return self._missing[channel]

    def _preparer(self, namespaces: str) -> Preparer:
        if namespaces not in self._preparers:
            self._preparers[namespaces] = self.registry.preparer(namespaces, self.facts)
        return self._preparers[namespaces]

    def _take(
        self,
        statement: Callable[[], RawStatement],
        text: str,
        name: str | None,
        namespaces: str,
        prepared: Prepared,
        notes: tuple[str, ...],
        *,
        resumes: bool = False,
    ) -> QueryName:
        """Let a query wait to be written; ``statement`` gives it as it was read, for the places of refusals."""
        if name is not None:
            _require_name(name)
        if self.strict:
            self._require_channels(statement, [block.channel for block in prepared.compiled.normal.blocks])
        target = prepared.publish
        if target is not None:
            if self._publications is None:
                self.loading.flush()
                self._publications = Publications(self.connection)
            with _at_part(statement, lambda created: created.query.publish_span):
                self._require_no_stream(target)
                self._publications.check(name, prepared.compiled.channels, target)
        if name is None:
            name = self.loading.free_name()
        with _at_part(statement, lambda created: created.name_span):
            self.loading.add(name, text, namespaces, prepared, self.owner, resumes=resumes)
        if self._publications is not None and target is not None:
            self._publications.add(name, prepared.compiled.channels, target)
            self._there.add(target)
        return QueryName(name, (*self.channel_notes(prepared.compiled), *notes))

    def _require_no_stream(self, target: str) -> None:
        facts = self.facts.get(target)
        if facts is not None and facts.channel is not None:
            raise CatalogError(
                "XSCL_BAD_CHANNEL",
                f"{target} is a stream of {facts.channel}, and PUBLISH appends to a channel",
                hint=f"PUBLISH {facts.channel}, or another name",
            )

    def _require_channels(self, statement: Callable[[], RawStatement], channels: Iterable[str]) -> None:
        for place, channel in enumerate(channels):
            if channel not in self._there and not self._is_fed(channel):
                if channel not in self._refused:
                    create = f"create it with 'xscl channel add {channel}', or leave out --strict"
                    self._refused[channel] = no_channel(self.connection, channel, create)
                raw = statement()
                raise self._refused[channel].placed(raw.text, _channel_span(raw.created(), place))


def _channel_span(created: ast.CreateQuery, place: int) -> Span:
    """Return the place of the channel's name of a block."""
    block = ast.blocks(created.query.source)[place]
    return Span(block.span.start, block.span.start + len(block.channel))


@contextmanager
def _at_part(statement: Callable[[], RawStatement], span: Callable[[ast.CreateQuery], Span]) -> Iterator[None]:
    """Give refusals by the catalogue the place of a part of a statement."""
    try:
        yield
    except CatalogError as error:
        raw = statement()
        where = span(raw.created())
        if where == ast.NOWHERE:
            raise
        raise error.placed(raw.text, where) from None


def _require_name(name: str) -> None:
    if not is_name(name):
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"{name!r} is no name",
            hint=f"letters, digits, '_', and inside it '-' and '.'; at most {MAX_NAME} characters",
        )


def _owner(owner: object) -> str:
    """Return an owner as it is kept.

    Raises:
        CatalogError: ``XSCL_BAD_OWNER``.
    """
    if owner is None:
        return ""
    # Stores refuse NUL and halves of characters.
    if not isinstance(owner, str) or len(owner) > MAX_NAME or re.search("[\0\ud800-\udfff]", owner):
        raise CatalogError(
            "XSCL_BAD_OWNER",
            f"{reprlib.repr(owner)} is no owner",
            hint=f"any text of at most {MAX_NAME} characters, without U+0000",
        )
    return owner


def _prepared(statement: RawStatement, preparer: Preparer) -> tuple[str, Prepared]:
    """Return the text of a query as it is kept, and the form that it is compiled to."""
    text = statement.query_text()
    # Spans count from the script's start, so that errors name lines of the file.
    return text, preparer.prepare(
        text, statement.query_tokens[:-1], lambda: (statement.created().query, statement.text)
    )


def namespaces_json(namespaces: Mapping[str, str]) -> str:
    """Return declared namespaces as they are kept."""
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
    """Return the text of a file of statements, in UTF-8.

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


def _pair(given: object) -> tuple[str | None, str] | CatalogError:
    """Return the name and the text that were given, or why they cannot be taken."""
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
