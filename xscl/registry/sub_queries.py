"""Sub-queries: queries in parentheses are registered as queries of their own, which publish to a channel of theirs.

Subscribers of one place share a sub-query.  A query that is registered behind an event sees less than one from before
it, so a sub-query is shared only as long as nothing came since its own registration.  A sub-query ends with its last
subscriber.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED, published_docid
from xscl.base.errors import CatalogError, UnsupportedFeatureError
from xscl.base.values import digest_text
from xscl.catalog.intake_order import read_processed
from xscl.catalog.queries import drop_query, read_query
from xscl.catalog.stored_json import read_stored
from xscl.catalog.suggestions import no_query
from xscl.catalog.tables import CHANNELS, GROUPS, HEARTBEATS, INTAKE_FILES, IS_LISTED, NEVER, QUERIES
from xscl.language.facts import SUB_QUERIES, is_sub_query
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query
from xscl.language.syntax.statements import RawStatement, ScriptItem
from xscl.language.syntax.tokens import Token, tokenize
from xscl.registry.query_list import reads

__all__ = ["Folded", "SubQueries", "channels_beneath", "end_query", "end_unread", "refuse_reserved"]

_DIGITS = 16
_OF_BLOCK = frozenset(("->", "[", "/", "//"))


def refuse_reserved(names: Iterable[str | None]) -> None:
    """Refuse names of sub-queries, which no text says.

    Raises:
        CatalogError: ``XSCL_BAD_NAME``.
    """
    for name in names:
        if name is not None and is_sub_query(name):
            raise CatalogError(
                "XSCL_BAD_NAME",
                f"names that begin with {SUB_QUERIES} are those of queries in parentheses",
                hint="write the query itself in parentheses, or take another name",
            )


@dataclass(frozen=True, slots=True)
class Folded(RawStatement):
    """A statement whose queries in parentheses are channels; refusals speak of the text as it was written."""

    query: ast.CreateQuery
    said: str
    """Text of the query with these channels."""

    @property
    def query_tokens(self) -> list[Token]:
        """Tokens of the text with channels, and the token that ends it."""
        return tokenize(self.said)

    def parse(self) -> ScriptItem:
        """Return the statement as it is parsed."""
        return ScriptItem(self.line, self.query, name=self.query.name)

    def query_text(self) -> str:
        """Return the text of its query as it is kept."""
        return self.said


class Registering(Protocol):
    """Registers queries in parentheses."""

    def take_sub_query(self, statement: Folded, name: str, kept: str) -> Sequence[str]:
        """Register a statement under a name, with namespaces as JSON; return notes on it."""
        ...

    def is_apart(self, statement: Folded, kept: str) -> bool:
        """Tell whether a statement shares no work with equal ones, where rules of sharing are left out."""
        ...


@dataclass
class SubQueries:
    """Sub-queries that one transaction registers."""

    connection: Connection
    registers: bool = True
    """Whether sub-queries are kept, and shared with others; else each is made for its reader alone."""
    with_rules: bool = False
    """Whether rules of sharing are left out."""
    notes: list[str] = field(default_factory=list)
    """Notes on the sub-queries of the last statement."""
    _made: list[str] = field(default_factory=list)
    """Names of the sub-queries that the last statement has made."""
    _known: dict[str, str] = field(default_factory=dict)
    """Names of the sub-queries that this transaction has made or found, by the beginnings of the names."""
    _own: dict[str, str] = field(default_factory=dict)
    """Names of the sub-queries of the last statement that nothing else shares."""

    def folded(self, statement: RawStatement, namespaces: str, of: Registering) -> RawStatement:
        """Register the queries in parentheses of a statement with ``of``, and return it with their channels instead.

        Raises:
            QueryError: one of them is not sound.
            UnsupportedFeatureError: ``XSCL_SUB_QUERY_LIMIT``.
        """
        self.notes, self._made, self._own = [], [], {}
        if not _may_have_some(statement.query_tokens):
            return statement
        created = statement.created()
        first = next(_sub_queries(created.query), None)
        if first is None:
            return statement
        if created.query.starting != "NOW":
            raise UnsupportedFeatureError(
                "XSCL_SUB_QUERY_LIMIT",
                "a query with queries in parentheses sees what comes after its registration",
                text=statement.text,
                span=first.query_span,
                hint="leave out STARTING",
            )
        query = self._with_channels(created.query, statement, namespaces, of)
        return _folded(statement, replace(created, query=query))

    def undo(self, end: Callable[[str], None]) -> None:
        """End the sub-queries that the last statement has made, because it was refused."""
        for name in reversed(self._made):
            self._known = {key: known for key, known in self._known.items() if known != name}
            end(name)
        self._made = []

    def forget(self) -> None:
        """Have all names looked up again: some sub-queries may have ended."""
        self._known.clear()

    def _with_channels(self, query: ast.Query, statement: RawStatement, namespaces: str, of: Registering) -> ast.Query:
        names: dict[str, str] = {}
        for block in _sub_queries(query):
            if block.channel not in names:
                final = _is_to_be_final(block.query, query)
                levelled = replace(block, query=replace(block.query, level=ast.STRONG)) if final else block
                names[block.channel] = self._name(levelled, statement, namespaces, of)
        return _renamed(query, names)

    def _name(self, block: ast.SubQuery, statement: RawStatement, namespaces: str, of: Registering) -> str:
        """Return the name of a sub-query that is there for the statement's place, a new one if there is none."""
        said = format_query(block.query)
        begin = f"{SUB_QUERIES}{digest_text(said, namespaces)[:_DIGITS]}."
        if (known := self._known.get(begin) or self._own.get(begin)) is not None:
            return known
        apart = self._is_apart(block, statement, namespaces, of)
        found = None
        if self.registers and not apart:
            read_processed(self.connection, lock=True)  # nothing comes from here on
            found = _newest(self.connection, begin)
        if found is None:
            query = self._with_channels(block.query, statement, namespaces, of)
            found = f"{begin}{_number(self.connection, begin)}"
            as_rows = isinstance(query.select, tuple)
            query = replace(query, publish=found, spanning=True, as_rows=as_rows, publish_span=block.query_span)
            created = ast.CreateQuery(found, query, "", block.query_span, block.query_span)
            self.notes += of.take_sub_query(_folded(statement, created), found, namespaces)
            self._made.append(found)
        (self._own if apart else self._known)[begin] = found
        return found

    def _is_apart(self, block: ast.SubQuery, statement: RawStatement, namespaces: str, of: Registering) -> bool:
        """Tell whether rules that are left out set a sub-query apart from equal ones."""
        if not self.with_rules:
            return False
        query = self._with_channels(block.query, statement, namespaces, of)
        created = ast.CreateQuery("apart", query, "", block.query_span, block.query_span)
        # One that reads what nothing else shares is itself shared by nothing.
        return not _channels(query).isdisjoint(self._own.values()) or of.is_apart(
            _folded(statement, created), namespaces
        )


def end_query(connection: Connection, name: str, now: int) -> list[str]:
    """End a query, and the sub-queries that nothing else reads; return the names of these.

    Raises:
        CatalogError: there is no query of that name.
    """
    if is_sub_query(name):
        raise no_query(connection, name)
    gid = read_query(connection, name).gid
    drop_query(connection, name, now)
    return [*end_unread(connection, gid, now)]


def end_unread(connection: Connection, gid: int, now: int) -> Iterator[str]:
    """End the sub-queries that a group of queries reads and no other query does; yield their names."""
    channels = connection.scalar(sa.select(GROUPS.c.channels).where(GROUPS.c.gid == gid)) or "[]"
    for name in read_stored(GROUPS.c.channels, channels) if SUB_QUERIES in channels else ():
        if not is_sub_query(name):
            continue
        row = connection.execute(sa.select(QUERIES.c.gid).where(QUERIES.c.qid == name, IS_LISTED)).first()
        reading = sa.select(QUERIES.c.query).where(IS_LISTED, reads(connection, name)).limit(1)
        if row is not None and connection.execute(reading).first() is None:
            drop_query(connection, name, now)
            yield name
            yield from end_unread(connection, row.gid, now)


def channels_beneath(connection: Connection, gid: int) -> set[str]:
    """Return the channels and streams that a group of queries reads, with those of its sub-queries instead of these."""
    found: set[str] = set()
    channels = connection.scalar(sa.select(GROUPS.c.channels).where(GROUPS.c.gid == gid)) or "[]"
    for name in read_stored(GROUPS.c.channels, channels):
        if is_sub_query(name):
            of = connection.scalar(sa.select(QUERIES.c.gid).where(QUERIES.c.qid == name))
            found |= set() if of is None else channels_beneath(connection, of)
        else:
            found.add(name)
    return found


# -- names ---------------------------------------------------------------------------------------------------------


def _newest(connection: Connection, begin: str) -> str | None:
    """Return the newest live sub-query of some beginning, if nothing came since its registration."""
    mine = *_begins_with(QUERIES.c.qid, begin), QUERIES.c.docid_until == NEVER
    statement = sa.select(QUERIES.c.qid, QUERIES.c.docid_from).where(*mine).order_by(QUERIES.c.docid_from.desc())
    row = connection.execute(statement.limit(1)).first()
    return None if row is None or _came(connection, row.docid_from) else str(row.qid)


def _came(connection: Connection, place: int) -> bool:
    """Tell whether an event or a heartbeat came, or a document was published, behind a place."""
    files = INTAKE_FILES.c
    taken_in = sa.and_(files.first < PUBLISHED, files.last > place)
    published = files.last >= published_docid(place + 1, 0)
    for statement in (
        sa.select(files.first).where(sa.or_(taken_in, published)),
        sa.select(HEARTBEATS.c.place).where(HEARTBEATS.c.place > place),
    ):
        if connection.execute(statement.limit(1)).first() is not None:
            return True
    return False


def _number(connection: Connection, begin: str) -> int:
    """Return a number that no sub-query and no channel of this beginning has had."""
    taken = {
        name
        for column in (QUERIES.c.qid, CHANNELS.c.name)
        for name in connection.scalars(sa.select(column).where(*_begins_with(column, begin)))
    }
    return 1 + max((int(name.removeprefix(begin)) for name in taken), default=0)


def _begins_with(column: sa.Column[str], begin: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the condition that a name has this beginning, which ends with a dot."""
    return column >= begin, column < begin[:-1] + "/"


def _channels(query: ast.Query) -> set[str]:
    """Return the channels that a query reads."""
    return {block.channel for block in (*ast.blocks(query.source), *(each.right for each in query.negations))}


# -- trees ---------------------------------------------------------------------------------------------------------


def _may_have_some(tokens: Sequence[Token]) -> bool:
    """Tell from its tokens whether a query may have queries in parentheses."""
    before = None
    for token in tokens:
        if before is not None and (
            before.kind == "("
            and token.is_word("select")
            or before.kind == ")"
            and (token.kind in _OF_BLOCK or token.is_word("as"))
        ):
            return True
        before = token
    return tokens[-1].kind == "constructor"  # the rest is not among them


def _is_to_be_final(query: ast.Query, reader: ast.Query) -> bool:
    """Tell whether a query in parentheses has to give final answers: its reader keeps what it makes of them."""
    return query.level is None and not reader.retracts and (query.steps is not None or bool(query.negations))


def _sub_queries(query: ast.Query) -> Iterator[ast.SubQuery]:
    """Yield the queries in parentheses, in the order of the text."""
    for block in (*ast.blocks(query.source), *(negation.right for negation in query.negations)):
        if isinstance(block, ast.SubQuery):
            yield block


def _renamed(query: ast.Query, names: Mapping[str, str]) -> ast.Query:
    """Return a query with channels instead of queries in parentheses."""
    source = _in_tree(query.source, names)
    assert isinstance(source, ast.Block | ast.Join)
    steps = None if query.steps is None else _in_tree(query.steps, names)
    assert steps is None or not isinstance(steps, ast.Block | ast.Join)
    negations = tuple(replace(each, right=_plain(each.right, names)) for each in query.negations)
    return replace(query, source=source, steps=steps, negations=negations)


def _in_tree(tree: ast.Tree, names: Mapping[str, str]) -> ast.Tree:
    match tree:
        case ast.Block():
            return _plain(tree, names)
        case ast.Filter():
            return replace(tree, of=_in_tree(tree.of, names))
    return replace(tree, left=_in_tree(tree.left, names), right=_in_tree(tree.right, names))  # type: ignore[arg-type]


def _plain(block: ast.Block, names: Mapping[str, str]) -> ast.Block:
    if not isinstance(block, ast.SubQuery):
        return block
    return ast.Block(names[block.channel], block.binding, block.predicates, block.steps, block.span)


def _folded(statement: RawStatement, created: ast.CreateQuery) -> Folded:
    return Folded(statement.text, statement.tokens, statement.line, created, format_query(created.query))
