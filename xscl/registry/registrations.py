"""Registrations of one transaction: texts checked, with notes on them, and names, channels and cycles refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy.engine import Connection

from xscl.base.docids import published_docid
from xscl.base.errors import CatalogError, XsclError
from xscl.base.own_functions import declared_functions
from xscl.base.types import QueryName, QueryOutcome, now_micros, owner_text, require_name
from xscl.base.ways import way
from xscl.catalog.event_counts import channel_counts
from xscl.catalog.intake_order import take_places
from xscl.catalog.queries import drop_query, read_query, release_query
from xscl.catalog.suggestions import no_query
from xscl.language.compile import at_level
from xscl.language.compiled import CompiledQuery
from xscl.language.declared import declared_json
from xscl.language.facts import is_sub_query
from xscl.language.forms import Prepared, Preparer
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query
from xscl.language.syntax.statements import RawStatement, one_query, require_characters
from xscl.registry.channel_names import ChannelNames
from xscl.registry.counted import refuse_counted
from xscl.registry.levels import levelled
from xscl.registry.loading import Loading
from xscl.registry.memory import Memory
from xscl.registry.notes import contradiction_notes, name_notes
from xscl.registry.publish_graph import is_published
from xscl.registry.publishing import Publishing, at_part
from xscl.registry.seen_channels import SeenChannels
from xscl.registry.sub_queries import Folded, SubQueries, channels_beneath, end_query, end_unread, refuse_reserved
from xscl.registry.unshared import is_apart

__all__ = ["Registrations", "Resumed"]

_MOST_SUGGESTED = 20
"""Unknown names in a transaction for which names that are alike are looked for."""


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


class Registrations:
    """Registrations of one transaction."""

    def __init__(
        self,
        connection: Connection,
        memory: Memory,
        names: ChannelNames | None,
        strict: bool,
        owner: str | None,
        *,
        registers: bool = True,
        rules: Collection[str] | None = None,
        ends: bool = False,
    ) -> None:
        """Begin; ``registers`` is whether queries are kept, and the other arguments are those of ``Registry``."""
        self.connection = connection
        self.memory = memory
        self.strict = strict
        self.owner = owner_text(owner)
        self.channels = SeenChannels(connection, names, registers=registers, ends=ends)
        self.loading = Loading(connection, memory.known, rules)
        self._preparers: dict[str, Preparer] = {}
        """Preparers by namespaces as JSON."""
        self._publishing = Publishing(connection, memory, self.loading, self.channels, self._preparers)
        self._sub_queries = SubQueries(connection, registers, with_rules=rules is not None)
        self._registers = registers
        self._suggested = 0
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
        """Register one query, which DECLAREs may precede; return its name, with notes on it."""
        require_characters(text)
        refuse_reserved([name])
        prepared = self._preparer("{}").known(text)
        if prepared is not None and not any(map(is_sub_query, (*prepared.compiled.read, prepared.publish or ""))):
            # The text is one query without a name, as it is kept.
            def statement() -> RawStatement:
                return one_query(text, None)[0]

            return self._take(statement, text, name, "{}", prepared, self._notes(statement, prepared.compiled, "{}"))
        found, name, namespaces = one_query(text, name)
        return self._add(found, name, namespaces)

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
        self._forget_dropped([parsed.name, *end_query(self.connection, parsed.name, now_micros())])
        self._sub_queries.forget()
        return parsed.name

    def resume(self, name: str) -> Resumed:
        """Register a suspended query again, from now on."""
        info = read_query(self.connection, name)
        if info.live:
            raise CatalogError(
                "XSCL_NOT_SUSPENDED",
                f"query {name!r} is not suspended",
                hint=f"list those that are with {way('xscl query list', 'engine.queries()')}",
            )
        since, channels = info.docid_until, channels_beneath(self.connection, info.gid)
        place, _ = take_places(self.connection, 1, now_micros())
        release_query(self.connection, info.query, place)
        self.owner = info.owner
        statement, _, _ = one_query(info.said)
        self.loading.forget(name)
        kept = json.dumps(dict(info.namespaces))
        self._fold(statement, name, kept, info.level, resumes=True)
        self.loading.flush()
        self._forget_dropped(end_unread(self.connection, info.gid, now_micros()))
        missed = Counter(channel_counts(self.connection, since, place))
        missed += Counter(channel_counts(self.connection, published_docid(since, 0), published_docid(place, 0) - 1))
        return Resumed(name, since, place, sum(missed[channel] for channel in channels))

    def in_xscl(self, statement: RawStatement) -> RawStatement:
        """Return a statement that is a query in XSCL: itself, or what it says in CEL.

        Raises:
            QueryError: ``XSCL_CEL``, ``XSCL_CEL_LIMIT``, or it is no text in CEL.
        """
        if not statement.is_cel:
            return statement
        # Most commands meet no text in CEL, and its trees are many classes.
        from xscl.language.cel.cel import query_of_cel
        from xscl.registry.cel_schemas import stream_schemas

        self.loading.flush()  # queries of the same script may publish what this one reads
        *tokens, last = statement.query_tokens
        names = {token.value for token in tokens if token.kind == "name"}
        schemas = stream_schemas(self.connection, self.channels.facts, names)
        query = query_of_cel(statement.text, schemas, tokens[0].start if tokens else last.start, last.start)
        return one_query(format_query(query))[0]

    def _add(self, statement: RawStatement, name: str | None, namespaces: Mapping[str, str]) -> QueryName:
        refuse_reserved([name])
        statement = self.in_xscl(statement)
        return self._fold(statement, name, declared_json(namespaces, statement.query_tokens, declared_functions()))

    def _fold(
        self, statement: RawStatement, name: str | None, kept: str, level: str | None = None, *, resumes: bool = False
    ) -> QueryName:
        """Register a query, and the queries that it has in parentheses; ``kept`` are namespaces as JSON."""
        try:
            folded = self._sub_queries.folded(statement, kept, self)
            text, prepared, notes = self.checked(folded, kept)
            if folded is statement:
                refuse_reserved((*prepared.compiled.read, prepared.publish))
            written = None if folded is statement else statement.query_text()
            notes = () if resumes else (*self._sub_queries.notes, *notes)
            prepared = levelled(prepared, level)
            return self._take(lambda: folded, text, name, kept, prepared, notes, resumes=resumes, written=written)
        except XsclError:
            self._sub_queries.undo(self._end)
            raise

    def take_sub_query(self, statement: Folded, name: str, kept: str) -> tuple[str, ...]:
        """Register a query in parentheses, and return notes on it."""
        if not self._registers:
            return self._note_sub_query(statement, name, kept)
        text, prepared, notes = self.checked(statement, kept)
        return self._take(lambda: statement, text, name, kept, prepared, notes).notes

    def is_apart(self, statement: Folded, kept: str) -> bool:
        """Tell whether the rules set a query in parentheses apart from equal ones."""
        assert self.loading.rules is not None
        _, prepared, _ = self.checked(statement, kept)
        return is_apart(prepared.compiled, self.loading.rules)

    def _note_sub_query(self, statement: Folded, name: str, kept: str) -> tuple[str, ...]:
        """Check a query in parentheses, and note what it publishes, as if it were registered; return notes on it."""
        text, prepared, notes = self.checked(statement, kept)
        self.channels.note_rows(name, self._publishing.columns(lambda: statement, text, kept) or {})
        self._preparers.clear()
        self._preparers[kept] = Preparer(json.loads(kept), self.channels.facts)
        self.channels.publish(name)
        return (*self.channels.missing_notes(prepared.compiled), *notes)

    def unregistered(self, statement: RawStatement, kept: str) -> tuple[str, Prepared, tuple[str, ...], str | None]:
        """Check a query that is not registered.

        Returns:
            Its text as it would be kept, its compiled form, notes on it, and its text as it was written; None in place
            of the latter if it has no queries in parentheses.
        """
        folded = self._sub_queries.folded(statement, kept, self)
        text, prepared, notes = self.checked(folded, kept)
        notes = (*self.channels.missing_notes(prepared.compiled), *self._sub_queries.notes, *notes)
        return text, prepared, notes, None if folded is statement else statement.query_text()

    def _end(self, name: str) -> None:
        """End a query that this transaction has registered."""
        self.loading.flush()
        drop_query(self.connection, name, now_micros())
        self._forget_dropped([name])

    def _forget_dropped(self, names: Iterable[str]) -> None:
        for name in names:
            self.loading.forget(name)
        self._publishing.forget()

    def checked(self, statement: RawStatement, namespaces: str) -> tuple[str, Prepared, tuple[str, ...]]:
        """Return a query's text as it is kept, what it is compiled to, and notes on it; ``namespaces`` as JSON.

        Raises:
            QueryError: it is no sound query, or can never hold.
        """
        text, prepared = _prepared(statement, self._preparer(namespaces))
        return text, prepared, self._notes(lambda: statement, prepared.compiled, namespaces)

    def _notes(
        self, statement: Callable[[], RawStatement], compiled: CompiledQuery, namespaces: str
    ) -> tuple[str, ...]:
        """Return notes on a query; ``statement`` gives it as it was read, and ``namespaces`` is JSON.

        Raises:
            QueryError: it can never hold.
        """
        known = self._advice.get(id(compiled))
        if known is None:
            declared = json.loads(namespaces)
            contradictions = contradiction_notes(statement, compiled, declared, self.channels.facts)
            names = name_notes(compiled, declared, self.channels.names_of)
            known = compiled, (*contradictions, *compiled.notes, *names)
            if not contradictions:
                self._advice[id(compiled)] = known
        return known[1]

    def _preparer(self, namespaces: str) -> Preparer:
        if namespaces not in self._preparers:
            self._preparers[namespaces] = self.memory.preparer(namespaces, self.channels.facts)
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
        written: str | None = None,
    ) -> QueryName:
        """Let a query wait to be written; ``statement`` gives it as it was read, for the places of refusals."""
        if name is not None:
            require_name(name)
        self.channels.put_home_channels(prepared.compiled)
        if self.strict:
            self.channels.require_all(statement, prepared.compiled)
        target, columns = prepared.publish, None
        if prepared.compiled.group.rows:
            self.loading.flush()
            refuse_counted(prepared.compiled, partial(is_published, self.connection))
        if target is not None:
            columns = self._publishing.columns(statement, text, namespaces)
            self._publishing.check(statement, name, prepared.compiled.read, target, columns)
        if name is None:
            name = self.loading.free_name()
        if prepared.compiled.waits:
            prepared = replace(prepared, compiled=at_level(prepared.compiled, self.channels.level(prepared.compiled)))
        if prepared.compiled.level is not None and not resumes:
            with at_part(statement, lambda created: (created.query.level or ast.STRONG).span):
                self.channels.require_lateness(prepared.compiled)
        self._publishing.refuse_kept(statement, prepared)
        with at_part(statement, lambda created: created.name_span):
            self.loading.add(name, text, namespaces, prepared, self.owner, resumes=resumes, written=written)
        if target is not None:
            self._publishing.note(name, prepared.compiled, target, columns)
        return QueryName(name, (*self.channels.notes(prepared, begins=not resumes), *notes))


def _prepared(statement: RawStatement, preparer: Preparer) -> tuple[str, Prepared]:
    """Return the text of a query as it is kept, and the form that it is compiled to."""
    text = statement.query_text()
    # Spans count from the script's start, so that errors name lines of the file.
    return text, preparer.prepare(
        text, statement.query_tokens[:-1], lambda: (statement.created().query, statement.text)
    )
