"""A recursive-descent parser for XSCL: one method a rule of docs/reference/language.md, Statements.

``token_reader``, ``path_parser``, ``atom_parser``, ``step_parser`` and ``from_parser`` have the rules of smaller parts.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from xscl.base.errors import QueryError, Span
from xscl.base.types import to_micros
from xscl.language.syntax import ast, constructor
from xscl.language.syntax.format import format_operand
from xscl.language.syntax.from_parser import FromParser, members
from xscl.language.syntax.token_reader import shown
from xscl.language.syntax.tokens import statement_tokens, tokenize

__all__ = ["StatementParser", "parse_level", "parse_query"]

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
_BEGINNINGS = {"create": "CREATE QUERY", "drop": "DROP QUERY", "declare": "DECLARE NAMESPACE", "select": "SELECT"}
_SECONDS = {first: {both.split()[1].lower(): both} for first, both in _BEGINNINGS.items() if " " in both}
_BEHIND = {
    "join": "JOIN",
    "followed": "FOLLOWED BY",
    "publish": "PUBLISH",
    "starting": "STARTING",
    "consistency": "CONSISTENCY",
    "window": "WINDOW",
    "group": "GROUP BY",
    "having": "HAVING",
}
"""Words at the start of a statement, behind the first word and behind a block, with the way to write them."""
_LEVELS = {"strong": ast.STRONG, "middle": ast.MIDDLE, "weak": ast.WEAK}
_CLAUSES = ("as", "join", "followed", "publish", "starting", "consistency", "on")


def parse_level(text: str) -> ast.Level:
    """Return the level that ``format.format_level`` has written."""
    return StatementParser(text, tokenize(text)).level()


def parse_query(text: str) -> ast.Query:
    """Return the one query that ``text`` is.

    Raises:
        QuerySyntaxError: it is none, or more than one.
    """
    parser = StatementParser(text, tokenize(text))
    parser.check_length()
    query = parser.query()
    parser.check_length()
    after = parser.token
    if after.kind == ";":
        after = tokenize(text, after.end)[0]
    if after.kind != "end":
        parser.fail(f"unexpected {shown(after)} after the end of the query", at=after, hint=parser.meant())
    return query


class _Published(NamedTuple):
    """The clause PUBLISH of a query; without a channel the query has no such clause."""

    channel: str | None = None
    span: Span = ast.NOWHERE
    spanning: bool = False
    as_rows: bool = False


class StatementParser(FromParser):
    """Reads statements and queries."""

    def end(self) -> int:
        """Return the place behind the statement's ';', however far it could be understood."""
        last = self.tokens[-1]
        while last.kind == "constructor":
            try:
                behind = constructor.read(self.text, last.start, self.hole)[1]
            except QueryError:
                return constructor.recover(self.text, last.start)
            last = statement_tokens(self.text, behind, begun=True)[-1]
        return last.start if last.kind == "next" else last.end

    def meant(self) -> str | None:
        """Return a hint on the token that no rule takes: a word that is meant by it, or None."""
        if self.token.is_word("and", "or"):
            return "blocks are joined by A JOIN {x = y, 1 h} B or A FOLLOWED BY {x = y, 1 h} B"
        first = self.tokens[0].value.lower()
        tried = [(self.token, _BEHIND)]
        if self.at == 1:
            tried = [(self.token, _SECONDS.get(first, {})), (self.tokens[0], _BEGINNINGS), *tried]
        for token, words in tried:
            near = get_close_matches(token.value.lower(), words, 1, 0.7) if token.kind == "name" else []
            if near and near[0] != token.value.lower():
                return f"did you mean {words[near[0]]}?"
        return None

    def statement(self) -> ast.Statement:
        """Read a statement: one that begins with none of the words of statements is a query without a name."""
        word, noun = (self.token.value.lower() if self.token.kind == "name" else ""), self.peek()
        if word == "create" and noun.is_word("standing", "query"):
            return self.create_query()
        if word == "drop" and noun.is_word("query"):
            return self.drop_query()
        if word == "declare" and noun.is_word("namespace"):
            return self.declare_namespace()
        if word in ("create", "drop"):
            self._refuse_noun(word)
        query = self.query()
        return ast.CreateQuery(None, query, self.text[query.span.start : query.span.end], query.span)

    def create_query(self) -> ast.CreateQuery:
        """Read CREATE QUERY, with STANDING or without."""
        start = self.next()
        self.take_word_if("standing")
        self.word("query", "after CREATE")
        named = self.kept_name("the query's name")
        self.statement_name = named.value
        self.word("as", "after the query's name")
        query = self.query()
        text = self.text[query.span.start : query.span.end]
        return ast.CreateQuery(named.value, query, text, self.since(start), named.span)

    def drop_query(self) -> ast.DropQuery:
        """Read DROP QUERY."""
        start = self.next()
        self.next()
        named = self.plain_name("the query's name")
        self.statement_name = named.value
        return ast.DropQuery(named.value, self.since(start), named.span)

    def declare_namespace(self) -> ast.DeclareNamespace:
        """Read DECLARE NAMESPACE."""
        start = self.next()
        self.next()
        prefix = self.plain_name("a prefix").value
        self.op("=", "after the prefix")
        if self.token.kind != "string":
            self.fail(f"expected the namespace's URI in quotes, found {shown(self.token)}")
        if self.token.value == "*" or set(self.token.value) & set("{}"):
            self.fail("a namespace's URI is not '*' and has no braces")
        return ast.DeclareNamespace(prefix, self.next().value, self.since(start))

    def _refuse_noun(self, word: str) -> None:
        """Refuse to create or drop what no statement can; ``create`` and ``drop`` may also be names of channels."""
        noun = self.peek()
        if noun.is_word(*_NOUNS):
            self.fail(
                f"{word.upper()} {noun.value.upper()} is no statement of a script",
                at=self.token.span | noun.span,
                hint=_NOUNS[noun.value.lower()].format(verb="add" if word == "create" else "drop"),
            )
        if word == "create" and noun.kind == "name" and self.peek(2).is_word("as") and not noun.is_word(*_CLAUSES):
            self.fail(f"expected QUERY after CREATE, found {shown(noun)}", at=noun, hint="CREATE QUERY name AS S//a")

    def query(self) -> ast.Query:
        """Read a query."""
        start = self.token
        select = None
        if self.at_query():
            self.next()
            select = self.select()
            self.word("from", "after the SELECT list" if not isinstance(select, ast.Constructor) else "after it")
        tree = self.tree()
        negations = self.negations()
        aggregate = self.windows() if self.token.is_word("window", "group", "having", "top") else None
        source, steps = (tree, None) if isinstance(tree, ast.Block | ast.Join) else (members(tree), tree)
        if aggregate is None and steps is None and self.measures:
            self._refuse_measure(next(iter(self.measures.values())))
        publish = self.published() if self.take_word_if("publish") else _Published()
        starting = "NOW"
        if self.take_word_if("starting"):
            starting = self.starting()
            if publish.channel is None and self.token.is_word("publish"):
                self.fail("unexpected 'PUBLISH'; it comes before STARTING")
        level = self.level() if self.take_word_if("consistency") else None
        retracts = self.token.is_word("on") and self.change()
        return ast.Query(
            source,
            select,
            publish.channel,
            starting,
            negations,
            level,
            retracts,
            aggregate,
            measures=tuple(self.measures.values()),
            steps=steps,
            span=self.since(start),
            publish_span=publish.span,
            spanning=publish.spanning,
            as_rows=publish.as_rows,
        )

    def _refuse_measure(self, measure: ast.Measure) -> None:
        """Refuse a value of many matches in a query without windows and steps."""
        self.fail(
            f"{measure.text} speaks of matches together, and no WINDOW says which",
            at=measure.span,
            hint="write WINDOW 1 h GROUP BY x behind the blocks, or WINDOW 1 h EVERY 10 min",
        )

    def at_query(self) -> bool:
        """Return whether SELECT comes, rather than a channel of that name."""
        return self.token.is_word("select") and self.at_select()

    def sub_query(self) -> ast.Query:
        """Read a query in parentheses, which says what it finds, and not when and for whom."""
        query = self.query()
        for said, span, message, hint in (
            (query.publish is not None, query.publish_span, "publishes to the query around it", "leave out PUBLISH"),
            (query.starting != "NOW", query.span, "sees what the query around it sees", "leave out STARTING"),
        ):
            if said:
                message = f"a query in parentheses {message}"
                self.unsupported("XSCL_SUB_QUERY_LIMIT", message, span, hint)
        return query

    def published(self) -> _Published:
        """Read what stands behind PUBLISH: a channel, and in which form it has the answers."""
        channel = self.kept_name("the channel to publish to")
        spanning = self.take_word_if("spanning") is not None
        as_rows = self.take_word_if("as") is not None
        if as_rows:
            self.word("rows", "after AS: PUBLISH name AS ROWS")
        return _Published(channel.value, channel.span, spanning, as_rows)

    def windows(self) -> ast.Aggregate:
        """Read windows and groups of matches."""
        start = self.token
        if not self.take_word_if("window"):
            self.fail(f"{start.value.upper()} without WINDOW", hint="write WINDOW 1 h GROUP BY x HAVING count() > 3")
        window = every = last = None
        per: list[ast.Operand] = []
        if self.token.is_word("last") and self.peek().kind == "number":
            self.next()
            last = self.whole_number("matches")
            if self.take_word_if("per"):
                per = self.operands()
        else:
            window = self.duration()
            every = self.duration() if self.take_word_if("every") else None
        group: list[ast.Operand] = []
        if self.take_word_if("group"):
            self.word("by", "after GROUP")
            group = self.operands()
        self.aggregates = True
        having: list[ast.Atom] = []
        if self.take_word_if("having"):
            having.append(self.atom())
            while self.take_word_if("and"):
                having.append(self.atom())
        crossing, once_per = self.told()
        top = by = None
        if self.take_word_if("top"):
            top = self.whole_number("groups")
            self.word("by", "after TOP and its number")
            by = self.operand()
        self.aggregates = False
        span = self.since(start)
        return ast.Aggregate(
            window, every, last, tuple(per), tuple(group), tuple(having), crossing, once_per, top, by, span
        )

    def operands(self) -> list[ast.Operand]:
        """Read operands with commas between them."""
        found = [self.operand()]
        while self.take_op_if(","):
            found.append(self.operand())
        return found

    def told(self) -> tuple[bool, int | None]:
        """Read which of a group's answers are told."""
        if self.token.is_word("on") and self.peek().is_word("crossing"):
            self.next()
            self.next()
            return True, None
        if self.token.is_word("once") and self.peek().is_word("per"):
            self.next()
            self.next()
            return False, self.duration()
        return False, None

    def at_select(self) -> bool:
        """Return whether a SELECT clause comes, rather than a channel of that name."""
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
        """Read the time behind STARTING."""
        token = self.token
        if self.take_word_if("now", "all"):
            return token.value.upper()
        if token.kind != "string":
            self.fail(f"expected NOW, ALL or a time in quotes after STARTING, found {shown(token)}")
        try:
            to_micros(token.value)
        except ValueError as error:
            self.fail(str(error))
        return self.next().value

    def change(self) -> bool:
        """Read what a newer version of an item does, from ON on; return whether matches are taken back."""
        self.next()
        self.word("change", "after ON")
        token = self.token
        if not self.take_word_if("keep", "retract"):
            self.fail(f"expected KEEP or RETRACT after ON CHANGE, found {shown(token)}")
        return token.is_word("retract")

    def level(self) -> ast.Level:
        """Read the level behind CONSISTENCY."""
        token = self.token
        if self.take_word_if("blocking"):
            blocking = self.duration()
            self.word("memory", "after the time that BLOCKING takes")
            return ast.Level(blocking, self.duration(), self.since(token))
        if not self.take_word_if(*_LEVELS):
            self.fail(f"expected STRONG, MIDDLE, WEAK or BLOCKING after CONSISTENCY, found {shown(token)}")
        return replace(_LEVELS[token.value.lower()], span=token.span)

    def select(self) -> tuple[ast.SelectItem, ...] | ast.Constructor | None:
        """Read the list or the constructor of SELECT; None is all."""
        if self.take_op_if("*"):
            return None
        if self.token.kind == "constructor":
            found, end = constructor.read(self.text, self.token.start, self.hole)
            if self.at == len(self.tokens) - 1:  # read for the first time
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
        """Read a constructor's hole from a place on: (path, place behind its '}')."""
        inner = StatementParser(self.text, tokenize(self.text, at, "};"))
        inner.measures = self.measures
        path = inner.select_path()
        inner.op("}", "to close the hole")
        return path, inner.end()

    def select_item(self) -> ast.SelectItem:
        """Read an item of the list of SELECT."""
        start = self.token
        path = self.select_path()
        name = None
        if self.take_word_if("as"):
            token = self.plain_name("a name after AS")
            name = token.value
            if not constructor.is_element_name(name):
                self.fail(f"an element cannot be called {name!r} in XML", at=token)
        return ast.SelectItem(path, name, self.since(start))

    def select_path(self) -> ast.VarPath:
        """Read a path, a function over matches or over what they are grouped by, or arithmetic."""
        start, at = self.token, self.at
        if start.kind != "number" and self.peek().kind != "(":
            path = self.var_path()
            if self.token.kind not in ("+", "-", "*"):
                return path
            self.at, self.token = at, start
        self.aggregates = True
        operand = self.operand()
        self.aggregates = False
        if isinstance(operand, ast.Linear) and operand.path is not None and operand == ast.Linear(operand.path):
            return operand.path
        return self.measured(ast.Measure(format_operand(operand), "value", operand, span=self.since(start)))
