"""Statements of a text: found one by one, told apart by their tokens, parsed when they are asked for.

``parse_script`` takes every good statement of a text and one error for every bad one, ``iter_script`` one statement at
a time; ``one_query`` takes a text of one query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xscl.base.errors import CatalogError, QueryError, QuerySyntaxError, Span
from xscl.base.types import is_name
from xscl.base.ways import way
from xscl.base.xml_characters import NO_CHARACTER
from xscl.language.syntax import ast
from xscl.language.syntax.parser import StatementParser
from xscl.language.syntax.token_reader import shown
from xscl.language.syntax.tokens import Token, statement_tokens

__all__ = [
    "RawStatement",
    "ScriptItem",
    "in_cel",
    "iter_script",
    "one_query",
    "parse_script",
    "raw_statements",
    "require_characters",
]


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """One statement of a script, or the reason for which it cannot be taken."""

    line: int
    """Line where it starts, 1-based."""
    statement: ast.Statement | None
    error: QueryError | None = None
    name: str | None = None
    """Name that the statement gives, as far as it could be read."""


@dataclass(frozen=True, slots=True)
class RawStatement:
    """A statement that is not parsed yet: its tokens, up to a ``;``, the next statement or the end of the text."""

    text: str
    """Text of the whole script."""
    tokens: list[Token]
    line: int
    """Line where it starts, 1-based."""

    @property
    def is_declaration(self) -> bool:
        """Whether it begins as DECLARE NAMESPACE does."""
        return self.tokens[0].is_word("declare") and self.tokens[1].is_word("namespace")

    @property
    def is_drop(self) -> bool:
        """Whether it begins as DROP QUERY does."""
        return self.tokens[0].is_word("drop") and self.tokens[1].is_word("query")

    @property
    def is_cel(self) -> bool:
        """Whether its query is a text in CEL."""
        return self._head[2]

    @property
    def name(self) -> str | None:
        """Name that it gives its query."""
        place = self._head[0]
        return self.tokens[place].value if place else None

    @property
    def name_span(self) -> Span:
        """Place of the name that it gives its query."""
        return self.tokens[self._head[0]].span

    @property
    def query_tokens(self) -> list[Token]:
        """Tokens of its query, and the one that ends the statement."""
        return self.tokens[self._begin :]

    @property
    def _begin(self) -> int:
        """Place of the token behind ``CREATE STANDING QUERY name AS``; 0 without it."""
        return self._head[1]

    @property
    def _head(self) -> tuple[int, int, bool]:
        """Places of the query's name and of the query's first token, 0 without them, and whether it is in CEL."""
        tokens = self.tokens
        if _says_cel(tokens):
            return 0, 3, True
        if not tokens[0].is_word("create") or len(tokens) < 6:
            return 0, 0, False
        at = 2 if tokens[1].is_word("standing") else 1
        if not tokens[at].is_word("query") or tokens[at + 1].kind != "name" or tokens[at + 1].value.endswith("'"):
            return 0, 0, False
        if tokens[at + 2].is_word("as"):
            return at + 1, at + 3, False
        return (at + 1, at + 5, True) if _says_cel(tokens[at + 2 :]) else (0, 0, False)

    def parse(self) -> ScriptItem:
        """Parse it; a parser adds to its tokens behind constructors, hence the copy."""
        return _script_item(StatementParser(self.text, list(self.tokens)), self.line)

    def parsed(self) -> ast.Statement:
        """Parse it.

        Raises:
            QueryError: it is no sound statement.
        """
        item = self.parse()
        if item.error is not None:
            raise item.error
        assert item.statement is not None
        return item.statement

    def created(self) -> ast.CreateQuery:
        """Parse a statement that is a query.

        Raises:
            QueryError: it is no sound query.
        """
        parsed = self.parsed()
        assert isinstance(parsed, ast.CreateQuery)
        return parsed

    def declare(self, namespaces: dict[str, str]) -> str:
        """Put the namespace that it declares among ``namespaces``; return the prefix."""
        parsed = self.parsed()
        assert isinstance(parsed, ast.DeclareNamespace)
        namespaces[parsed.prefix] = parsed.uri
        return parsed.prefix

    def query_text(self) -> str:
        """Return the text of its query as it is kept.

        Raises:
            QueryError: it is no sound query.
        """
        if self.name is not None and not is_name(self.name) or self.tokens[-1].kind == "next":
            self.created()  # says where, whether the query is of a known form or not
        *tokens, last = self.query_tokens
        if last.kind == "constructor" or not tokens:
            return self.created().text
        return self.text[tokens[0].start : tokens[-1].end]

    def require_characters(self) -> None:
        """Refuse characters that XML does not have.

        Raises:
            QuerySyntaxError: it has one.
        """
        require_characters(self.text, self.tokens[0].start, self.tokens[-1].end)


def _says_cel(tokens: list[Token]) -> bool:
    return len(tokens) > 3 and all(map(Token.is_word, tokens, ("language", "cel", "as")))


def in_cel(script: str) -> str:
    """Return a script whose queries are texts in CEL as one that says so of each query."""
    said: list[str] = []
    end = 0
    for statement in raw_statements(script):
        if statement.is_declaration or statement.is_drop or statement.is_cel:
            continue
        named = statement.name is not None
        at = statement.name_span.end if named else statement.tokens[0].start
        said += [script[end:at], " LANGUAGE CEL" if named else "LANGUAGE CEL AS "]
        end = at
    return "".join(said) + script[end:]


def parse_script(text: str) -> list[ScriptItem]:
    """Parse all statements of ``text``, separated by ``;``, each on its own."""
    return list(iter_script(text))


def iter_script(text: str) -> Iterator[ScriptItem]:
    """Iterate over the statements of ``text``, each parsed when it is asked for."""
    return (statement.parse() for statement in raw_statements(text))


def raw_statements(text: str) -> Iterator[RawStatement]:
    """Iterate over the statements of ``text``, each found when it is asked for.

    A statement also ends before a line that begins the next one, so that a missing ``;`` costs one statement only.
    """
    at, line, counted = 0, 1, 0
    while True:
        tokens = statement_tokens(text, at)
        first = tokens[0]
        if first.kind == "end":
            return
        if first.kind != ";":
            line += text.count("\n", counted, first.start)
            counted = first.start
            yield RawStatement(text, tokens, line)
        at = StatementParser(text, list(tokens)).end()


def one_query(text: str, name: str | None = None) -> tuple[RawStatement, str | None, dict[str, str]]:
    """Return the one query of a text, which DECLAREs may precede: its statement, name if any, and namespaces.

    Raises:
        QuerySyntaxError: the text has no query, or more than one statement besides DECLAREs.
        CatalogError: ``XSCL_BAD_NAME``: the text gives another name than ``name``.
    """
    require_characters(text)
    namespaces: dict[str, str] = {}
    found: RawStatement | None = None
    for statement in raw_statements(text):
        if found is not None or statement.is_drop:
            raise QuerySyntaxError(
                "XSCL_SYNTAX",
                "expected one query",
                text=text,
                span=statement.parsed().span,
                hint=f"many statements are loaded with {way('xscl query load FILE', 'engine.load(TEXT)')}",
            )
        if statement.is_declaration:
            statement.declare(namespaces)
        else:
            found = statement
    if found is None:
        raise QuerySyntaxError("XSCL_SYNTAX", "there is no query in this text", text=text)
    if name is not None and found.name is not None and name != found.name:
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"the text names the query {found.name!r}, and it is to be called {name!r}",
            text=text,
            span=found.name_span,
            hint="give one name, or 'xscl query load' the text as a file",
        )
    return found, name if name is not None else found.name, namespaces


def require_characters(text: str, start: int = 0, end: int | None = None) -> None:
    """Refuse characters that XML does not have: no document could hold them, and stores refuse some of them.

    Raises:
        QuerySyntaxError: the text has one between ``start`` and ``end``.
    """
    if (bad := NO_CHARACTER.search(text, start, len(text) if end is None else end)) is not None:
        message = f"U+{ord(bad[0]):04X} is no character of XML"
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=text, span=Span(*bad.span()))


def _script_item(parser: StatementParser, line: int) -> ScriptItem:
    try:
        parser.check_length()
        statement = parser.statement()
        if parser.token.kind == "next":
            end = parser.tokens[parser.at - 1].end
            parser.fail("a ';' is missing behind this statement", at=Span(end, end), hint="statements end with ';'")
        if parser.token.kind not in (";", "end"):
            hint = parser.meant()
            parser.fail(f"unexpected {shown(parser.token)}" + ("" if hint else "; statements end with ';'"), hint=hint)
        parser.check_length()  # a constructor has added to it
    except QueryError as error:
        # A trace keeps the parser and its tokens, and what is refused here is kept.
        return ScriptItem(line, None, error.with_traceback(None), parser.statement_name)
    return ScriptItem(line, statement, name=getattr(statement, "name", None))
