"""Registration: texts to rows of the catalogue.  Nothing here starts Spark."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from sqlalchemy.engine import Connection

from xscl.base.collecting import collecting_later
from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.own_functions import declared_functions
from xscl.base.types import QueryName, QueryOutcome, is_name, now_micros, require_name, to_micros
from xscl.base.xml_characters import NO_CHARACTER
from xscl.catalog.catalog import Catalog
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.kept_groups import FEW, KeptGroups, group_name
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import NEVER
from xscl.language.compiled import CompiledQuery
from xscl.language.declared import declared_json
from xscl.language.group_data import GroupForm
from xscl.language.syntax.statements import RawStatement, one_query, raw_statements
from xscl.registry.channel_names import ChannelNames
from xscl.registry.loading import query_digest
from xscl.registry.memory import Memory
from xscl.registry.registrations import Registrations, Resumed
from xscl.registry.sub_queries import end_query

__all__ = ["Registry", "read_script"]

_CHUNK = 2_000
"""Queries written together."""
_UNNAMED = "once"

T = TypeVar("T")


class Registry:
    """Registers and drops queries of one catalogue."""

    def __init__(
        self,
        catalog: Catalog,
        names: ChannelNames | None = None,
        kept: KeptGroups | None = None,
        rules: Collection[str] | None = None,
        *,
        ends: bool = False,
    ) -> None:
        """Begin.

        Args:
            catalog: gets the queries.
            names: knows the documents of channels, for notes; without it notes speak of columns only.
            kept: gets what many texts are compiled to.
            rules: names of the rules by which queries share work; None: all of them.
            ends: whether the channels end before anything is answered, so that all their times are settled.
        """
        self._rules = rules
        self._ends = ends
        self.catalog = catalog
        self._kept = kept
        self.names = names
        self.memory = Memory()

    def register(
        self,
        text: str,
        *,
        name: str | None = None,
        owner: str | None = None,
        strict: bool = False,
        then: Callable[[Connection], None] | None = None,
    ) -> QueryName:
        """Register one query, which DECLAREs may precede; returns its name, with notes on it.

        Args:
            text: the query.
            name: its name; by default the text's, or one that the service gives.
            owner: who registers it, any text; None: nobody says.
            strict: refuse it over channels that do not exist.
            then: is called in the same transaction; an error of it takes the registration back.

        Raises:
            QueryError: the text is no sound query.
            CatalogError: the name is taken; the owner has as many queries as the home allows; with ``strict``, a
                channel does not exist.
        """
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

        def take(work: Registrations, chunk: Sequence[RawStatement]) -> list[QueryOutcome]:
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

        def take(work: Registrations, chunk: Sequence[str | tuple[str | None, str]]) -> list[QueryOutcome]:
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
        require_name(name)
        with self.catalog.read() as connection:
            work = self._registrations(connection, strict=False, owner=None, registers=False)
            statement = work.in_xscl(statement)
            kept = declared_json(namespaces, statement.query_tokens, declared_functions())
            text, prepared, notes, written = work.unregistered(statement, kept)
        starting, place = prepared.starting, self.catalog.ask(read_last_places)[1] + 1
        info = QueryInfo(
            query=1,
            name=name,
            text=text,
            namespaces=json.loads(kept),
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
            written=written,
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
        end_query(connection, name, now_micros())

    def resume(self, name: str) -> Resumed:
        """Have a suspended query go on from now: it sees what comes after this, and keeps its name, owner and ids.

        Raises:
            CatalogError: ``XSCL_QUERY_NOT_FOUND``; ``XSCL_NOT_SUSPENDED``; its owner has as many queries as the home
                allows; channels would feed themselves with what it publishes.
        """
        with self._transaction(strict=False, owner=None) as work:
            return work.resume(name)

    # -- transactions ------------------------------------------------------------------------------------------

    def _registrations(
        self, connection: Connection, strict: bool, owner: str | None, *, registers: bool = True
    ) -> Registrations:
        return Registrations(
            connection,
            self.memory,
            self.names,
            strict,
            owner,
            registers=registers,
            rules=self._rules,
            ends=self._ends,
        )

    @contextmanager
    def _transaction(self, strict: bool, owner: str | None) -> Iterator[Registrations]:
        with self.catalog.begin() as connection:
            work = self._registrations(connection, strict, owner)
            yield work
            work.loading.flush()
            step("register.commit")
        step("register.committed")
        self.memory.known.learn(work.loading.new)
        if self._kept is not None and len(work.loading.made) > FEW:
            self._kept.add([_group_form(work, *made) for made in work.loading.made])

    def _many(
        self,
        given: Iterable[T],
        take: Callable[[Registrations, Sequence[T]], list[QueryOutcome]],
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
                with collecting_later():
                    outcomes += self._taken(chunk, take, owner, strict)
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

    def _taken(
        self,
        chunk: Sequence[T],
        take: Callable[[Registrations, Sequence[T]], list[QueryOutcome]],
        owner: str | None,
        strict: bool,
    ) -> list[QueryOutcome]:
        """Take a chunk in a transaction of its own, which is gone before the collector begins again."""
        with self._transaction(strict, owner) as work:
            return take(work, chunk)


def _group_form(work: Registrations, text: str, namespaces: str, compiled: CompiledQuery) -> tuple[str, GroupForm]:
    """Return what a group of a transaction is compiled to, and the name under which it is kept."""
    known = [(channel, work.channels.facts.get(channel)) for channel in sorted(compiled.read)]
    form = GroupForm(compiled.group, compiled.channels, compiled.specs, compiled.facts)
    return group_name(text, namespaces, known), form


class _Undone(Exception):
    """Takes an atomic load back."""


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
