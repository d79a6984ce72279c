"""A recursive-descent parser for XSCL: one method a rule of docs/reference/language.md, Statements.

``parse_script`` takes every good statement of a text and one error for every bad one, ``iter_script`` one statement at
a time; ``parse_query`` takes one query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NoReturn, cast

from xscl.base.durations import MAX_DIGITS, UNITS, iso_duration, scaled
from xscl.base.errors import QueryError, QuerySyntaxError, Span, UnsupportedFeatureError
from xscl.base.types import MAX_NAME, to_micros
from xscl.language import ast, constructor
from xscl.language.tokens import Token, statement_tokens, tokenize

__all__ = [
    "MAX_BLOCKS",
    "MAX_LENGTH",
    "MAX_TOKENS",
    "PREDICATE_FUNCTIONS",
    "RawStatement",
    "ScriptItem",
    "iter_script",
    "parse_query",
    "parse_script",
    "raw_statements",
]

MAX_BLOCKS = 16
"""Blocks in one query."""
MAX_LENGTH = 262_144
"""Characters of a statement."""
MAX_TOKENS = 20_000
"""Tokens of a statement."""

PREDICATE_FUNCTIONS = {
    "contains": (2, 2),
    "starts-with": (2, 2),
    "normalize-space": (0, 1),
    "string-length": (0, 1),
    "lower": (1, 1),
    "count": (1, 1),
}
"""Functions inside brackets, with the least and the greatest number of arguments; ``not`` has a rule of its own."""

ATOM_FUNCTIONS = ("lower", "normalize-space", "host", "url")
_JOINS = "use FOLLOWED BY {…} or JOIN {…}"
_LATER = {
    "next": _JOINS,
    "fold": _JOINS,
    "filter": "conditions on one document go into its brackets",
    "union": "let several queries PUBLISH to one channel and read that",
    "not": _JOINS,
    "begin": "bound the members' times by windows, and the past by STARTING",
    "end": "drop the query when it is to end",
    "limit": "cut the list of matches where you read it",
}
"""Words behind FROM that are kept free, with what to do meanwhile."""
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_FOREIGN_COMPARISONS = {"==": "=", "<>": "!=", "=<": "<=", "=>": ">=", "=!": "!="}
_FOREIGN_SIGNS = {"the character '&'": "and", "the character '|'": "or"}
"""Words that are meant by operators of other languages, by the message on their first character."""
_FOREIGN_WORDS = {
    "like": "contains({operand}, {value})",
    "ilike": "contains(lower({operand}), {value})",
    "contains": "contains({operand}, {value})",
    "starts-with": "starts-with({operand}, {value})",
    "startswith": "starts-with({operand}, {value})",
    "matches": "contains({operand}, {value})",
    "is": "{operand} = {value}",
    "eq": "{operand} = {value}",
    "ne": "{operand} != {value}",
    "lt": "{operand} < {value}",
    "le": "{operand} <= {value}",
    "gt": "{operand} > {value}",
    "ge": "{operand} >= {value}",
}
"""Forms that are meant by operators of other languages."""
_MADE = "channels and streams are made outside: xscl channel {verb} NAME; a query: CREATE QUERY name AS S//a"
_NOUNS = {
    "stream": _MADE,
    "channel": _MADE,
    "table": _MADE,
    "view": "a view is a query that publishes: CREATE QUERY name AS S//a PUBLISH channel",
    "template": "templates come of themselves with the queries that have their shape: CREATE QUERY name AS S//a",
    "feed": "feeds are subscribed to outside: xscl feed {verb} URL",
}
"""Things that no statement creates or drops, with the way to do it."""
_CLAUSES = ("as", "join", "followed", "publish", "starting")
_MAX_DEPTH = 100
"""Brackets, parentheses (inside brackets they count twice) and steps of paths that are open at one place.

Texts, digests and pickles of a tree are made by recursion, some seven calls a level, and Python allows a thousand."""
_ZERO, _ONE = Fraction(0), Fraction(1)
_HUGE = 10**MAX_DIGITS


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """One statement of a script, or why it cannot be taken."""

    line: int
    """Line of its start, from 1."""
    statement: ast.Statement | None
    error: QueryError | None = None
    name: str | None = None
    """The name the statement gives, as far as it could be read."""


def parse_script(text: str) -> list[ScriptItem]:
    """Return all statements of ``text``, separated by ``;``, each parsed on its own."""
    return list(iter_script(text))


def iter_script(text: str) -> Iterator[ScriptItem]:
    """Yield the statements of ``text``, each read when it is asked for."""
    return (statement.parse() for statement in raw_statements(text))


@dataclass(frozen=True, slots=True)
class RawStatement:
    """A statement that is not parsed yet: its tokens, up to a ``;``, the next statement or the end of the text."""

    text: str
    """The whole script's."""
    tokens: list[Token]
    line: int
    """Line of its start, from 1."""

    def parse(self) -> ScriptItem:
        """Parse the statement, or tell why it is refused. The parser gets a copy of the tokens, since it adds tokens
        behind constructors.
        """
        return _script_item(_Parser(self.text, list(self.tokens)), self.line)


def raw_statements(text: str) -> Iterator[RawStatement]:
    """Yield the statements of ``text``, each found when it is asked for.

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
        at = _Parser(text, list(tokens)).end()


def parse_query(text: str) -> ast.Query:
    """Return the one query that ``text`` is.

    Raises:
        QuerySyntaxError: it is none, or more than one.
    """
    parser = _Parser(text, tokenize(text))
    parser.check_length()
    query = parser.query()
    parser.check_length()
    after = parser.token
    if after.kind == ";":
        after = tokenize(text, after.end)[0]
    if after.kind != "end":
        parser.fail(f"unexpected {_shown(after)} after the end of the query", at=after)
    return query


def _script_item(parser: _Parser, line: int) -> ScriptItem:
    try:
        parser.check_length()
        statement = parser.statement()
        if parser.token.kind == "next":
            end = parser.tokens[parser.at - 1].end
            parser.fail("a ';' is missing behind this statement", at=Span(end, end), hint="statements end with ';'")
        if parser.token.kind not in (";", "end"):
            parser.fail(f"unexpected {_shown(parser.token)}; statements end with ';'")
        parser.check_length()  # a constructor has added to it
    except QueryError as error:
        # A trace keeps the parser and its tokens, and what is refused here is kept.
        return ScriptItem(line, None, error.with_traceback(None), parser.statement_name)
    return ScriptItem(line, statement, name=getattr(statement, "name", None))


def _shown(token: Token) -> str:
    if token.kind == "end":
        return "end of text"
    if token.kind == "bad":
        return token.value
    return repr(token.value)


class _Parser:
    """The tokens of one statement and how far they were taken; the last one is never passed."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.token = tokens[0]
        self.depth = 0
        self.blocks = 0
        self.statement_name: str | None = None

    # -- tokens ------------------------------------------------------------------------------------------------

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        if self.at + 1 < len(self.tokens):
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def end(self) -> int:
        """Return the place where the statement ends, behind its ';', however far it could be understood."""
        last = self.tokens[-1]
        while last.kind == "constructor":
            try:
                behind = constructor.read(self.text, last.start, self.hole)[1]
            except QueryError:
                return constructor.recover(self.text, last.start)
            last = statement_tokens(self.text, behind, begun=True)[-1]
        return last.start if last.kind == "next" else last.end

    def take_op_if(self, *ops: str) -> Token | None:
        return self.next() if self.token.kind in ops else None

    def take_word_if(self, *words: str) -> Token | None:
        return self.next() if self.token.is_word(*words) else None

    def op(self, op: str, what: str) -> Token:
        if self.token.kind != op:
            self.fail(f"expected {op!r} {what}, found {_shown(self.token)}")
        return self.next()

    def word(self, word: str, what: str) -> Token:
        if not self.token.is_word(word):
            self.fail(f"expected {word.upper()} {what}, found {_shown(self.token)}")
        return self.next()

    def plain_name(self, what: str) -> Token:
        token = self.token
        if token.kind != "name":
            self.fail(f"expected {what}, found {_shown(token)}")
        if token.value.endswith("'"):
            self.fail(f"expected {what}; only variables may end in primes")
        return self.next()

    def kept_name(self, what: str) -> Token:
        """Return the name of a query or a channel, which is stored."""
        token = self.plain_name(what)
        if len(token.value) > MAX_NAME:
            self.fail(f"a name of more than {MAX_NAME} characters", at=token)
        return token

    def fail(self, message: str, *, at: Token | Span | None = None, hint: str | None = None) -> NoReturn:
        where = at if at is not None else self.token
        span = where if isinstance(where, Span) else where.span
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=self.text, span=span, hint=hint)

    def unsupported(self, condition: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        raise UnsupportedFeatureError(condition, message, text=self.text, span=span, hint=hint)

    def later(self, word: Token, hint: str) -> NoReturn:
        self.unsupported("XSCL_UNSUPPORTED_OPERATOR", f"{word.value} is kept free for later", word.span, hint)

    def since(self, start: Token) -> Span:
        return Span(start.start, self.tokens[self.at - 1 if self.at else 0].end)

    def check_length(self) -> None:
        """Refuse a statement that is too long: what it is compiled to may grow with its square."""
        tokens = self.tokens
        if len(tokens) <= MAX_TOKENS and tokens[-1].end - tokens[0].start <= MAX_LENGTH:
            return
        beyond = next((token for token in tokens[:-1] if token.end - tokens[0].start > MAX_LENGTH), None)
        if len(tokens) > MAX_TOKENS and (beyond is None or tokens[MAX_TOKENS].start < beyond.start):
            beyond = tokens[MAX_TOKENS]
        if beyond is not None:
            raise QueryError(
                "XSCL_QUERY_LIMIT",
                f"a statement has at most {MAX_LENGTH:,} characters and {MAX_TOKENS:,} words and signs",
                text=self.text,
                span=beyond.span,
                hint="register several queries, or publish a part of it as a channel",
            )

    def enter(self, levels: int = 1) -> None:
        self.depth += levels
        if self.depth > _MAX_DEPTH:
            self.fail(f"brackets, parentheses and the steps of paths together nest deeper than {_MAX_DEPTH}")

    # -- statements --------------------------------------------------------------------------------------------

    def statement(self) -> ast.Statement:
        start = self.token
        word = start.value.lower() if start.kind == "name" else ""
        if word == "create" and self.peek().is_word("standing", "query"):
            self.next()
            self.take_word_if("standing")
            self.word("query", "after CREATE")
            named = self.kept_name("the query's name")
            self.statement_name = named.value
            self.word("as", "after the query's name")
            query = self.query()
            text = self.text[query.span.start : query.span.end]
            return ast.CreateQuery(named.value, query, text, self.since(start), named.span)
        noun = self.peek()
        if word in ("create", "drop") and noun.is_word(*_NOUNS):
            self.fail(
                f"{word.upper()} {noun.value.upper()} is no statement of a script",
                at=start.span | noun.span,
                hint=_NOUNS[noun.value.lower()].format(verb="add" if word == "create" else "drop"),
            )
        if word == "create" and noun.kind == "name" and self.peek(2).is_word("as") and not noun.is_word(*_CLAUSES):
            self.fail(f"expected QUERY after CREATE, found {_shown(noun)}", at=noun, hint="CREATE QUERY name AS S//a")
        if word == "drop" and self.peek().is_word("query"):
            self.next()
            self.next()
            named = self.plain_name("the query's name")
            self.statement_name = named.value
            return ast.DropQuery(named.value, self.since(start), named.span)
        if word == "declare" and self.peek().is_word("namespace"):
            self.next()
            self.next()
            prefix = self.plain_name("a prefix").value
            self.op("=", "after the prefix")
            if self.token.kind != "string":
                self.fail(f"expected the namespace's URI in quotes, found {_shown(self.token)}")
            if self.token.value == "*" or set(self.token.value) & set("{}"):
                self.fail("a namespace's URI is not '*' and has no braces")
            return ast.DeclareNamespace(prefix, self.next().value, self.since(start))
        query = self.query()
        return ast.CreateQuery(None, query, self.text[query.span.start : query.span.end], query.span)

    def query(self) -> ast.Query:
        start = self.token
        select = None
        if start.is_word("select") and self.at_select():
            self.next()
            select = self.select()
            self.word("from", "after the SELECT list" if not isinstance(select, ast.Constructor) else "after it")
        source = self.source()
        publish, starting, published = None, "NOW", ast.NOWHERE
        if self.take_word_if("publish"):
            token = self.kept_name("the channel to publish to")
            publish, published = token.value, token.span
        if self.take_word_if("starting"):
            starting = self.starting()
            if publish is None and self.token.is_word("publish"):
                self.fail("unexpected 'PUBLISH'; it comes before STARTING")
        return ast.Query(source, select, publish, starting, self.since(start), published)

    def at_select(self) -> bool:
        after, later = self.peek(), self.peek(2)
        if after.kind != "name":
            return after.kind not in ("end", "/", "//", "[", "->", ";", ")")
        if after.is_word("as") and later.is_word("from"):
            # Either the variable 'as' of what follows, or the channel 'select' bound to the variable 'from'.
            source, behind = self.peek(3), self.peek(4)
            joined = (
                source.is_word("join") and behind.kind == "{" or source.is_word("followed") and behind.is_word("by")
            )
            return source.kind in ("name", "(") and not joined
        if after.is_word(*_CLAUSES):
            return later.kind in (",", "/", "//") or later.is_word("from", "as")
        return True

    def starting(self) -> str:
        token = self.token
        if self.take_word_if("now", "all"):
            return token.value.upper()
        if token.kind != "string":
            self.fail(f"expected NOW, ALL or a time in quotes after STARTING, found {_shown(token)}")
        try:
            to_micros(token.value)
        except ValueError as error:
            self.fail(str(error))
        return self.next().value

    def select(self) -> tuple[ast.SelectItem, ...] | ast.Constructor | None:
        if self.take_op_if("*"):
            return None
        if self.token.kind == "constructor":
            found, end = constructor.read(self.text, self.token.start, self.hole)
            self.tokens[-1] = self.token._replace(end=end)
            self.tokens += statement_tokens(self.text, end, begun=True)
            self.next()
            return found
        if self.token.kind == "<":
            self.fail("expected the name of an element right after '<'", hint="as in SELECT <pair>{x1}</pair> FROM …")
        if self.token.is_word("distinct"):
            after = self.peek()
            if after.kind in ("*", "<", "name") and not after.is_word("as", "from"):
                self.later(self.token, "a match comes once for each combination of the nodes that SELECT mentions")
        items = [self.select_item()]
        while self.take_op_if(","):
            items.append(self.select_item())
        return tuple(items)

    def hole(self, at: int) -> tuple[ast.VarPath, int]:
        """Parse a constructor's hole from ``at`` on; return it and the place behind its '}'."""
        inner = _Parser(self.text, tokenize(self.text, at, "};"))
        path = inner.var_path()
        inner.op("}", "to close the hole")
        return path, inner.end()

    def select_item(self) -> ast.SelectItem:
        start = self.token
        path = self.var_path()
        name = None
        if self.take_word_if("as"):
            token = self.plain_name("a name after AS")
            name = token.value
            if not constructor.is_element_name(name):
                self.fail(f"an element cannot be called {name!r} in XML", at=token)
        return ast.SelectItem(path, name, self.since(start))

    # -- FROM --------------------------------------------------------------------------------------------------

    def source(self) -> ast.Source:
        left = self.term()
        while True:
            start = self.token
            if start.kind != "name":
                return left
            word = start.value.lower()
            if word == "followed" and self.peek().is_word("by"):
                self.next()
                op = "followed by"
            elif word == "followed" and self.peek().kind in ("{", "name"):
                self.fail(
                    f"expected BY after {start.value}, found {_shown(self.peek())}",
                    at=self.peek(),
                    hint="write A FOLLOWED BY {x = y, 1 h} B",
                )
            elif word == "where":
                self.fail(
                    "there is no WHERE",
                    at=start,
                    hint="conditions on one document go into its brackets: S//a[./b = 'x'];"
                    " comparisons of two documents into the braces of their join: {x = y, 1 h}",
                )
            elif word == "join":
                op = "join"
            elif word in _LATER:
                self.later(start, _LATER[word])
            else:
                return left
            self.next()
            atoms, windows = self.params()
            right = self.term()
            left = ast.Join(op, left, right, atoms, windows, left.span | right.span)  # type: ignore[arg-type]

    def term(self) -> ast.Source:
        if self.token.kind != "(":
            return self.block()
        self.enter()
        self.next()
        inner = self.source()
        self.op(")", "to close the parenthesis")
        self.depth -= 1
        return inner

    def block(self) -> ast.Block:
        start = self.token
        channel = self.kept_name("a channel").value
        self.blocks += 1
        if self.blocks > MAX_BLOCKS:
            raise QueryError(
                "XSCL_TOO_MANY_BLOCKS",
                f"a query has at most {MAX_BLOCKS} blocks",
                text=self.text,
                span=start.span,
                hint="publish a part of it as a channel and join that",
            )
        binding = self.binding()
        predicates = self.predicates()
        self.no_binding_here(start, binding)
        steps = self.steps()
        return ast.Block(channel, binding, predicates, steps, self.since(start))

    def binding(self) -> ast.Binding | None:
        kind = self.token.kind
        if kind != "->" and (kind != "name" or self.token.value.lower() != "as"):
            return None
        self.next()
        if self.token.kind != "name":
            self.fail(f"expected a variable, found {_shown(self.token)}")
        token = self.next()
        return ast.Binding(token.value, token.span)

    def no_binding_here(self, start: Token, bound: ast.Binding | None) -> None:
        """Refuse a binding behind the brackets of what begins with ``start``, or a second one."""
        token, variable = self.token, self.peek()
        if variable.kind != "name" or token.kind != "->" and not token.is_word("as"):
            return
        name = start.value if start.kind in ("name", "*") else "name"
        if bound is not None:
            message, hint = "a second variable for one node", f"bind it once: {name}->{bound.name}"
        else:
            message = "a variable behind the brackets; it stands before them"
            hint = f"write {name}->{variable.value}[…]"
        self.fail(message, at=Span(token.start, variable.end), hint=hint)

    def steps(self, *, binding: bool = True) -> tuple[ast.Step, ...]:
        found = []
        # A '/' before a number, '-' or '(' divides (x/2); before anything else it starts a step.
        while self.token.kind == "//" or (self.token.kind == "/" and self.peek().kind not in ("number", "-", "(")):
            axis = "descendant" if self.next().value == "//" else "child"
            self.enter()
            found.append(self.step(axis, binding=binding))
        self.depth -= len(found)
        return tuple(found)

    def step(self, axis: str, *, binding: bool = True) -> ast.Step:
        start = self.token
        test = self.test()
        bound = self.binding() if binding else None
        predicates = self.predicates()
        if binding:
            self.no_binding_here(start, bound)
        return ast.Step(axis, test, bound, predicates, self.since(start))  # type: ignore[arg-type]

    def test(self) -> ast.Test:
        start = self.token
        if self.take_op_if("@"):
            prefix, local = self.name_test("an attribute's name after '@'")
            if prefix is not None and "*" in (prefix, local):
                self.fail(
                    "'*' beside a prefix is for elements",
                    at=self.since(start),
                    hint="write @name, @prefix:name or @*",
                )
            return ast.Test("attribute", prefix, local, self.since(start))
        if start.is_word("text") and start.value == "text" and self.peek().kind == "(":
            self.next()
            self.next()
            self.op(")", "after 'text('")
            return ast.Test("text", None, "", self.since(start))
        if start.kind == ".":
            self.fail("'.' is no step of a path", hint="'.' stands only at the start of a path inside brackets")
        if start.kind == "..":
            self.unsupported_axis("parent (..)", start.span)
        prefix, local = self.name_test("a name, '*', '@name' or 'text()'")
        if self.token.kind == "(":
            self.unsupported(
                "XSCL_UNSUPPORTED_FUNCTION",
                f"{local}() is not supported in a path",
                start.span,
                "supported there: names, '*', '@name', 'text()'",
            )
        return ast.Test("element", prefix, local, self.since(start))

    def name_test(self, what: str) -> tuple[str | None, str]:
        if self.take_op_if("*"):
            if self.token.kind == ":" and self.peek().kind == "name":
                self.next()
                return "*", self.plain_name("a name after '*:'").value
            return None, "*"
        name = self.plain_name(what)
        if self.token.kind == "::":
            self.unsupported_axis(name.value, name.span)
        if self.token.kind != ":":
            return None, name.value
        self.next()
        if self.take_op_if("*"):
            return name.value, "*"
        return name.value, self.plain_name(f"a name or '*' after '{name.value}:'").value

    def unsupported_axis(self, axis: str, span: Span) -> NoReturn:
        self.unsupported(
            "XSCL_UNSUPPORTED_AXIS",
            f"the axis {axis} is not supported",
            span,
            "supported: '/' (child), '//' (descendant), '@' (attribute), 'text()'",
        )

    # -- brackets ----------------------------------------------------------------------------------------------

    def predicates(self) -> tuple[ast.Predicate, ...]:
        found = []
        while self.token.kind == "[":
            self.enter()
            self.next()
            found.append(self.predicate())
            self.no_foreign_sign(in_brackets=True)
            self.op("]", "to close the bracket")
            self.depth -= 1
        return tuple(found)

    def predicate(self) -> ast.Predicate:
        parts = [self.conjunction()]
        while self.take_word_if("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else ast.Or(tuple(parts), parts[0].span | parts[-1].span)

    def conjunction(self) -> ast.Predicate:
        parts = [self.unary()]
        while self.take_word_if("and"):
            parts.append(self.unary())
        return parts[0] if len(parts) == 1 else ast.And(tuple(parts), parts[0].span | parts[-1].span)

    def unary(self) -> ast.Predicate:
        start = self.token
        if start.value == "not" and start.kind == "name" and self.peek().kind == "(":
            self.next()
            return ast.Not(self.parenthesised(), self.since(start))
        if start.kind == "(":
            return self.parenthesised()
        operand: ast.RelPath | ast.Call = self.call() if self.at_call() else self.relpath()
        op, literal = None, None
        self.no_foreign_word(start, in_brackets=True)
        if self.token.kind in _COMPARISONS:
            op = self.comparison()
            literal = self.literal()
        return ast.Truth(operand, op, literal, self.since(start))

    def comparison(self) -> ast.Op:
        """Return the operator of a comparison, which other languages write otherwise."""
        token, after = self.token, self.peek()
        written = token.value + after.value
        if after.start == token.end and written in _FOREIGN_COMPARISONS:
            right = _FOREIGN_COMPARISONS[written]
            self.fail(f"there is no operator {written}", at=Span(token.start, after.end), hint=f"write {right}")
        return cast(ast.Op, self.next().value)

    def parenthesised(self) -> ast.Predicate:
        # A 'not', an 'or' and an 'and' may begin here, each a node of its own; two levels are enough for the three.
        self.enter(2)
        self.op("(", "")
        inner = self.predicate()
        self.no_foreign_sign(in_brackets=True)
        self.op(")", "to close the parenthesis")
        self.depth -= 2
        return inner

    def no_foreign_sign(self, *, in_brackets: bool) -> None:
        """Refuse ``&&`` and ``||``, which stand where a condition has ended, with the right form."""
        token, after = self.token, self.peek()
        if token.kind != "bad" or token.value not in _FOREIGN_SIGNS:
            return
        word = _FOREIGN_SIGNS[token.value]
        hint = f"write {word}" if in_brackets else f"write {word.upper()}"
        if word == "or" and not in_brackets:
            hint = "atoms are joined by AND; for OR register two queries"
        end = after.end if after.kind == "bad" and after.start == token.end else token.end
        self.fail(f"there is no operator {self.text[token.start : end]}", at=Span(token.start, end), hint=hint)

    def no_foreign_word(self, start: Token, *, in_brackets: bool) -> None:
        """Refuse an operator of other languages behind the operand that begins with ``start``, with the right form."""
        token, after = self.token, self.peek()
        if token.kind != "name" or token.value.lower() not in _FOREIGN_WORDS:
            return
        if after.kind not in ("string", "number", "name"):
            return
        operand, value = self.text[start.start : self.since(start).end], self.text[after.start : after.end]
        if not in_brackets:
            operand, value = "./a", value if after.kind != "name" else "'x'"
        if after.kind == "string" and token.value.lower() in ("like", "ilike"):
            value = value.replace("%", "")
        form = _FOREIGN_WORDS[token.value.lower()].format(operand=operand, value=value)
        where = "" if in_brackets else " in the brackets of a block, where texts are searched"
        self.fail(f"there is no operator {token.value}", at=token, hint=f"write [{form}]{where}")

    def check_digits(self, token: Token) -> None:
        if len(token.value) > MAX_DIGITS:
            self.fail(f"a number of more than {MAX_DIGITS} digits", at=token)

    def literal(self) -> ast.Literal_:
        start = self.token
        negative = self.take_op_if("-") is not None
        token = self.token
        if token.kind == "number":
            self.check_digits(token)
            self.next()
            return ast.Literal_(("-" if negative else "") + token.value, True, self.since(start))
        if token.kind == "string" and not negative:
            self.next()
            return ast.Literal_(token.value, False, token.span)
        return self.fail(
            f"expected a string or a number, found {_shown(token)}",
            hint="two paths of one document are not compared; bind them and join two blocks instead",
        )

    def at_call(self) -> bool:
        token = self.token
        if token.kind != "name" or self.peek().kind != "(":
            return False
        return token.value != "text" or self.peek(2).kind != ")"

    def call(self) -> ast.Call:
        start = self.next()
        if start.value not in PREDICATE_FUNCTIONS:
            self.unsupported(
                "XSCL_UNSUPPORTED_FUNCTION",
                f"the function {start.value}() is not supported inside brackets",
                start.span,
                "supported: " + ", ".join(sorted([*PREDICATE_FUNCTIONS, "not"])),
            )
        self.enter()
        self.op("(", "")
        args: list[ast.RelPath | ast.Literal_ | ast.Call] = []
        if self.token.kind != ")":
            args.append(self.argument())
            while self.take_op_if(","):
                args.append(self.argument())
        self.op(")", f"to close {start.value}(")
        self.depth -= 1
        least, most = PREDICATE_FUNCTIONS[start.value]
        if not least <= len(args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.fail(f"{start.value}() takes {wanted} arguments, not {len(args)}", at=self.since(start))
        if start.value == "count" and not isinstance(args[0], ast.RelPath):
            self.fail("count() takes a path", at=args[0].span)
        return ast.Call(start.value, tuple(args), self.since(start))

    def argument(self) -> ast.RelPath | ast.Literal_ | ast.Call:
        if self.token.kind in ("string", "number") or self.token.kind == "-":
            return self.literal()
        return self.call() if self.at_call() else self.relpath()

    def relpath(self) -> ast.RelPath:
        start = self.token
        if start.kind in ("/", "//"):
            raise QueryError(
                "XSCL_ABSOLUTE_PATH",
                f"a path inside brackets that starts with '{start.value}' would be absolute",
                text=self.text,
                span=start.span,
                hint=f"write '.{start.value}' for a path from here",
            )
        if self.take_op_if("."):
            follows = self.token.kind in ("name", "@", "*") and not self.token.is_word("and", "or")
            if follows and self.token.start == start.end:
                name = self.text[start.end : self.token.end]
                self.fail(f"'.' before {name!r}; a child is written with '/'", at=start, hint=f"write ./{name}")
            steps = self.steps()
        else:
            if start.kind == "number":
                self.unsupported(
                    "XSCL_UNSUPPORTED_FUNCTION",
                    "a position inside brackets is not supported",
                    start.span,
                    "brackets hold paths, comparisons with a literal and the functions "
                    + ", ".join(sorted([*PREDICATE_FUNCTIONS, "not"])),
                )
            self.enter()
            steps = (self.step("child"), *self.steps())
            self.depth -= 1
        return ast.RelPath(steps, self.since(start))

    # -- join parameters ---------------------------------------------------------------------------------------

    def params(self) -> tuple[tuple[ast.Atom, ...], tuple[ast.Window | ast.RelativeWindow, ...]]:
        if self.token.kind != "{":
            self.fail(
                f"expected '{{' with the join's predicates and window, found {_shown(self.token)}",
                hint="write A JOIN {x = y, 1 h} B",
            )
        self.next()
        atoms: list[ast.Atom] = []
        windows: list[ast.Window | ast.RelativeWindow] = []
        if self.token.kind != "}":
            while True:
                window = self.window_if()
                if window is not None:
                    windows.append(window)
                elif self.token.kind == "number" and (atoms or windows or self.at_unit()):
                    self.duration()
                    self.no_and_behind([*windows, None])
                    self.fail(f"expected ',' or '}}' after the window, found {_shown(self.token)}")
                elif atoms or windows:
                    self.fail(
                        f"expected a window, found {_shown(self.token)}",
                        hint="predicates come first and are joined by AND, windows follow after commas:"
                        " {x = y AND z = w, 1 h}",
                    )
                else:
                    atoms.append(self.atom())
                    while self.take_word_if("and"):
                        atoms.append(self.atom())
                if not self.take_op_if(","):
                    break
        self.no_and_behind(windows)
        self.no_foreign_sign(in_brackets=False)
        self.op("}", "to close the join's parameters")
        return tuple(atoms), tuple(windows)

    def at_unit(self) -> bool:
        """Whether a number with a unit of time comes, and AND behind it."""
        return self.peek().kind == "name" and self.peek().value.lower() in UNITS and self.peek(2).is_word("and")

    def no_and_behind(self, windows: Sequence[object]) -> None:
        """Refuse AND behind a window."""
        if windows and self.token.is_word("and"):
            message = f"{self.token.value} behind a window; predicates stand before it"
            self.fail(message, hint="write {x = y AND z = w, 1 h}")

    def window_if(self) -> ast.Window | ast.RelativeWindow | None:
        token, after = self.token, self.peek()
        alone = after.kind in (",", "}")
        if token.is_word("unbounded") and alone:
            self.next()
            return ast.Window("within", None, None, token.span)
        if token.is_word("once") and alone:
            self.next()
            return ast.Window("once", None, None, token.span)
        if token.is_word("maxwindow") and after.kind in ("number", "string"):
            self.next()
            bare = self.bare_number()
            return ast.Window("max", None, self.duration(), self.since(token), bare)
        if token.is_word("maxwindow") and after.kind == "name":
            self.fail("MAXWINDOW takes a duration", at=after, hint="for example MAXWINDOW 7 days")
        if self.at_relative_window():
            return self.relative_window()
        if token.kind == "name" and "-" in token.value and after.is_word("in"):
            later, _, earlier = token.value.partition("-")
            self.fail(
                f"{token.value!r} is one name",
                hint=f"write white space around the '-': {later} - {earlier.lstrip('-')} IN …",
            )
        if not self.at_duration():
            return None
        bare = self.bare_number()
        low = self.duration()
        if not self.take_op_if(".."):
            return ast.Window("within", None, low, self.since(token), bare)
        bare = self.bare_number() or bare
        high = None if self.take_word_if("unbounded") else self.duration()
        return ast.Window("range", low, high, self.since(token), bare)

    def bare_number(self) -> str | None:
        """Return the number of a duration that comes and has no unit; None of 0, which needs none."""
        token = self.token
        is_bare = token.kind == "number" and self.peek().kind != "name" and bool(set(token.value) - set("0."))
        return token.value if is_bare else None

    def at_relative_window(self) -> bool:
        return (
            self.token.kind == "name"
            and self.peek(1).kind == "-"
            and self.peek(2).kind == "name"
            and self.peek(3).is_word("in")
        )

    def at_duration(self) -> bool:
        token, after = self.token, self.peek()
        if token.kind == "number" and after.kind == "name":
            after = self.peek(2)
        return token.kind in ("number", "string") and after.kind in (",", "}", "..")

    def duration(self) -> int:
        token = self.next()
        if token.kind == "string":
            try:
                return iso_duration(token.value)
            except ValueError as error:
                self.fail(str(error), at=token, hint="for example 'PT5M' or 5 min")
        if token.kind != "number":
            self.fail(f"expected a duration, found {_shown(token)}", at=token, hint="for example 7 days or 'PT5M'")
        unit = "s"
        if self.token.kind == "name" and not self.token.is_word("in"):
            named = self.next()
            unit = named.value.lower()
            if unit not in UNITS:
                self.fail(
                    f"{named.value!r} is no unit of time", at=named, hint="units: us ms s min h d w, or long forms"
                )
        self.check_digits(token)
        return scaled(token.value, unit)

    def relative_window(self) -> ast.RelativeWindow:
        later, _, earlier, _ = self.next(), self.next(), self.next(), self.next()
        opening = self.take_op_if("[", "(")
        if opening is None:
            self.fail(f"expected '[' or '(' after IN, found {_shown(self.token)}")
        low = self.bound(infinite=-1)
        self.op(",", "between the bounds")
        high = self.bound(infinite=1)
        closing = self.take_op_if("]", ")")
        if closing is None:
            self.fail(f"expected ']' or ')', found {_shown(self.token)}")
        # Time is discrete (microseconds), so an open end is a closed end one tick further in.
        if low is not None and opening.value == "(":
            low += 1
        if high is not None and closing.value == ")":
            high -= 1
        return ast.RelativeWindow(later.value, earlier.value, low, high, self.since(later), later.span, earlier.span)

    def bound(self, *, infinite: int) -> int | None:
        start = self.token
        sign = -1 if self.take_op_if("-") else 1
        if self.take_word_if("unbounded"):
            if sign != infinite:
                self.fail("this end cannot be unbounded in that direction", at=self.since(start))
            return None
        return sign * self.duration()

    # -- atoms -------------------------------------------------------------------------------------------------

    def atom(self) -> ast.Atom:
        start = self.token
        left = self.operand()
        if self.token.kind not in _COMPARISONS:
            self.no_foreign_sign(in_brackets=False)
            self.no_foreign_word(start, in_brackets=False)
            self.no_comparison(start, left)
        op = self.comparison()
        right = self.operand()
        return ast.Atom(left, op, right, self.since(start))

    def no_comparison(self, start: Token, left: ast.Operand) -> NoReturn:
        """Say that an operand is compared with nothing."""
        written = self.text[start.start : self.since(start).end]
        if self.token.kind in (",", "}", ";", "end", "next") or self.token.is_word("and"):
            other = "'…'" if isinstance(left, ast.StringOperand) else "y"
            self.fail(
                f"{written} is compared with nothing",
                at=self.since(start),
                hint=f"write {written} = {other} with a variable of the other block, or a window alone: {{1 h}}",
            )
        self.fail(f"expected a comparison, found {_shown(self.token)}", hint="one of " + " ".join(_COMPARISONS))

    def operand(self) -> ast.Operand:
        token = self.token
        if token.kind == "string":
            self.next()
            return ast.StringOperand(token.value, token.span)
        if token.kind == "name" and self.peek().kind == "(":
            self.next()
            if token.value not in ATOM_FUNCTIONS:
                self.unsupported(
                    "XSCL_UNSUPPORTED_FUNCTION",
                    f"the function {token.value}() is not supported in a join predicate",
                    token.span,
                    "supported: " + ", ".join(ATOM_FUNCTIONS),
                )
            self.enter()
            self.next()
            inner = self.operand()
            self.op(")", f"to close {token.value}(")
            self.depth -= 1
            return ast.FunctionOperand(token.value, inner, self.since(token))
        return self.linear()

    def linear(self) -> ast.Linear:
        start = self.token
        total = self.product()
        while self.token.kind in ("+", "-"):
            sign = 1 if self.next().value == "+" else -1
            part = self.product()
            if total.path is not None and part.path is not None:
                self.fail(
                    "an expression may use one variable path",
                    at=self.since(start),
                    hint="move the other one to the other side of the comparison",
                )
            total = replace(
                total if total.path is not None else part,
                factor=total.factor if part.path is None else sign * part.factor,
                constant=total.constant + sign * part.constant,
                span=self.since(start),
            )
            self.check_size(total, start)
        return total if total.span.start == start.start else replace(total, span=self.since(start))

    def product(self) -> ast.Linear:
        start = self.token
        total = self.factor()
        while self.token.kind in ("*", "/"):
            divide = self.next().value == "/"
            part = self.factor()
            if part.path is not None and (divide or total.path is not None):
                self.fail("this is not linear in one variable", at=self.since(start))
            if divide:
                if part.constant == 0:
                    self.fail("division by zero", at=self.since(start))
                part = replace(part, constant=1 / part.constant)
            path, scale = (part, total.constant) if part.path is not None else (total, part.constant)
            factor = path.factor * scale if path.path is not None else path.factor
            total = replace(path, factor=factor, constant=path.constant * scale, span=self.since(start))
            self.check_size(total, start)
        return total

    def check_size(self, number: ast.Linear, start: Token) -> None:
        """Refuse numbers that grow without bound as they are multiplied."""
        parts = (number.factor, number.constant)
        if any(abs(part.numerator) >= _HUGE or part.denominator >= _HUGE for part in parts):
            self.fail(f"a number of more than {MAX_DIGITS} digits", at=self.since(start))

    def factor(self) -> ast.Linear:
        token = self.token
        if self.take_op_if("-"):
            self.enter()
            inner = self.factor()
            self.depth -= 1
            factor = inner.factor if inner.path is None else -inner.factor
            return replace(inner, factor=factor, constant=-inner.constant)
        if self.take_op_if("("):
            self.enter()
            inner = self.linear()
            self.op(")", "to close the parenthesis")
            self.depth -= 1
            return inner
        if token.kind == "number":
            self.next()
            self.check_digits(token)
            return ast.Linear(None, _ONE, Fraction(token.value), token.span)
        path = self.var_path()
        return ast.Linear(path, _ONE, _ZERO, path.span)

    def var_path(self) -> ast.VarPath:
        start = self.token
        if start.kind != "name":
            self.fail(f"expected a variable, found {_shown(start)}")
        self.next()
        return ast.VarPath(start.value, self.steps(binding=False), self.since(start))
