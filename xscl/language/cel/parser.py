"""A recursive-descent parser for CEL, the Cayuga Event Language (docs/reference/cel.md)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, NoReturn

from xscl.base.durations import MAX_DIGITS, UNITS, scaled
from xscl.base.errors import QuerySyntaxError, Span
from xscl.language.cel import tree as cel
from xscl.language.syntax.block_nodes import Op
from xscl.language.syntax.tokens import Token

__all__ = ["parse_cel"]

_TOKEN = re.compile(
    r"""
    \s*
    (?:
        (?P<decorator>\$[12]?)(?=\.)
      | (?P<name>[^\W\d]\w*)
      | (?P<number>[0-9]+(?:\.[0-9]+)?)
      | (?P<string>'(?:[^'\n]|'')*'|"(?:[^"\n]|"")*")
      | (?P<sign><=|>=|!=|<>|[≤≥≠=<>+*/(){},.;-])
      | (?P<end>\Z)
      | (?P<bad>.)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_SIGNS: dict[str, Op] = {
    "=": "=",
    "!=": "!=",
    "<>": "!=",
    "≠": "!=",
    "<": "<",
    "<=": "<=",
    "≤": "<=",
    ">": ">",
    ">=": ">=",
    "≥": ">=",
}
_MOST_DEPTH = 50
_MOST_TOKENS = 5_000
_WORDS = ("select", "from", "publish", "next", "fold", "filter", "as", "and", "or", "not")


def parse_cel(text: str, start: int = 0, end: int | None = None) -> cel.Query:
    """Return the one query that a piece of a text is; spans speak of the whole text.

    Raises:
        QuerySyntaxError: it is none.
    """
    parser = _Parser(text, start, len(text) if end is None else end)
    query = parser.query()
    if parser.token.value == ";":
        parser.next()
    if parser.token.kind != "end":
        parser.fail(f"unexpected {_shown(parser.token)} after the end of the query")
    return query


def _shown(token: Token) -> str:
    return "end of text" if token.kind == "end" else repr(token.value)


class _Parser:
    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.depth = 0
        self.at = 0
        for found in _TOKEN.finditer(text, start, end):
            kind = found.lastgroup
            assert kind is not None
            self.tokens.append(Token(kind, found[kind], found.end() - len(found[kind]), found.end()))
            if kind == "bad":
                self.at = len(self.tokens) - 1
                self.fail(f"the character {found[kind]!r} has no place in CEL")
            if len(self.tokens) > _MOST_TOKENS:
                self.at = len(self.tokens) - 1
                self.fail(f"more than {_MOST_TOKENS:,} words and signs")
            if kind == "end":
                break
        self.at = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def peek(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def fail(self, message: str, *, at: Span | None = None, hint: str | None = None) -> NoReturn:
        span = self.token.span if at is None else at
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=self.text, span=span, hint=hint)

    def take(self, *values: str) -> bool:
        if self.token.kind == "sign" and self.token.value in values:
            self.next()
            return True
        return False

    def sign(self, value: str, what: str, opened: Token | None = None) -> None:
        if not self.take(value):
            hint = None if opened is None else f"{opened.value!r} at {opened.start + 1} is still open"
            at = self.token.span if opened is None or self.token.kind != "end" else opened.span
            self.fail(f"expected {value!r} {what}, found {_shown(self.token)}", at=at, hint=hint)

    def word(self, word: str, what: str) -> None:
        if not self.token.is_word(word):
            self.fail(f"expected {word.upper()} {what}, found {_shown(self.token)}")
        self.next()

    def name(self, what: str) -> Token:
        if self.token.kind != "name" or self.token.is_word(*_WORDS):
            self.fail(f"expected {what}, found {_shown(self.token)}")
        return self.next()

    def since(self, start: Token) -> Span:
        return Span(start.start, self.tokens[max(self.at - 1, 0)].end)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            self.fail(f"parentheses nest deeper than {_MOST_DEPTH}")

    # -- queries -----------------------------------------------------------------------------------------------

    def query(self) -> cel.Query:
        start = self.token
        items: list[cel.Item] = []
        if start.is_word("select"):
            self.next()
            items.append(self.item())
            while self.take(","):
                items.append(self.item())
            self.word("from", "after the SELECT list")
        of = self.relation()
        publish, is_point = None, False
        if self.token.is_word("publish"):
            self.next()
            publish = self.name("the stream to publish to").value
            if self.token.is_word("as"):
                self.next()
                self.word("point", "after PUBLISH … AS")
                is_point = True
        return cel.Query(tuple(items), of, publish, is_point, self.since(start))

    def item(self) -> cel.Item:
        start = self.token
        if self.take("*"):
            return cel.Item(None, None, start.span)
        value = self.expression()
        for token in self.tokens[self.tokens.index(start) : self.at]:
            if token.kind == "decorator":
                self.fail("SELECT reads one stream, and takes no decorators", at=token.span, hint="write Price_1")
        name = None
        if self.token.is_word("as"):
            self.next()
            name = self.name("a name after AS").value
        return cel.Item(value, name, self.since(start))

    def relation(self) -> cel.Relation:
        start = self.token
        left = self.term()
        while self.token.is_word("next", "fold"):
            word = self.next()
            if word.is_word("next"):
                predicate: cel.Predicate = cel.All((), word.span)
                if self.token.value == "{":
                    opened = self.next()
                    predicate = self.predicate()
                    self.sign("}", "to close the braces of NEXT", opened)
                left = cel.Next(left, self.term(), predicate, self.since(start))
            else:
                left = self.fold(left, start)
        return left

    def fold(self, left: cel.Relation, start: Token) -> cel.Fold:
        opened = self.token
        self.sign("{", "with the three parameters of FOLD")
        choose = self.predicate_or_true(",")
        self.sign(",", "between the parameters of FOLD")
        go_on = self.predicate_or_true(",", "}")
        aggregates: list[cel.Aggregate] = []
        while self.take(","):
            if self.token.value == "}":
                break
            first = self.token
            value = self.expression()
            self.word("as", "behind the value")
            aggregates.append(cel.Aggregate(value, self.name("a name after AS").value, self.since(first)))
        self.sign("}", "to close the braces of FOLD", opened)
        return cel.Fold(left, self.term(), choose, go_on, tuple(aggregates), self.since(start))

    def term(self) -> cel.Relation:
        start = self.token
        if start.is_word("filter"):
            self.next()
            opened = self.token
            self.sign("{", "with the condition of FILTER")
            predicate = self.predicate()
            self.sign("}", "to close the braces of FILTER", opened)
            if self.token.value != "(":
                self.fail(f"expected '(' with what FILTER reads, found {_shown(self.token)}", hint="FILTER{p}(Stock)")
            return cel.Filter(predicate, self.parenthesised(), self.since(start))
        return self.parenthesised() if start.value == "(" else cel.Stream(self.name("a stream").value, start.span)

    def parenthesised(self) -> cel.Relation:
        opened = self.next()
        self.enter()
        query = self.query()
        inner = query if query.items or query.publish is not None else query.of
        self.sign(")", "to close the parenthesis", opened)
        self.depth -= 1
        return inner

    # -- predicates --------------------------------------------------------------------------------------------

    def predicate_or_true(self, *ends: str) -> cel.Predicate:
        if self.token.kind == "sign" and self.token.value in ends:
            return cel.All((), self.token.span)
        return self.predicate()

    def predicate(self) -> cel.Predicate:
        start = self.token
        parts = [self.conjunction()]
        while self.token.is_word("or"):
            self.next()
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else cel.Any(tuple(parts), self.since(start))

    def conjunction(self) -> cel.Predicate:
        start = self.token
        parts = [self.truth()]
        while self.token.is_word("and"):
            self.next()
            parts.append(self.truth())
        return parts[0] if len(parts) == 1 else cel.All(tuple(parts), self.since(start))

    def truth(self) -> cel.Predicate:
        start = self.token
        if start.is_word("not"):
            self.next()
            self.enter()
            part = self.truth()
            self.depth -= 1
            return cel.No(part, self.since(start))
        if start.is_word("true") and self.peek().value not in _SIGNS:
            self.next()
            return cel.All((), start.span)
        if start.value == "(" and self.is_predicate():
            self.next()
            self.enter()
            inner = self.predicate()
            self.sign(")", "to close the parenthesis", start)
            self.depth -= 1
            return inner
        if start.is_word("dur"):
            self.next()
            return cel.Lasts(self.comparison(), self.duration(), self.since(start))
        left = self.expression()
        op = self.comparison()
        return cel.Compared(left, op, self.expression(), self.since(start))

    def is_predicate(self) -> bool:
        """Return whether a parenthesis has a comparison in it."""
        depth = 0
        for token in self.tokens[self.at :]:
            depth += (token.value == "(") - (token.value == ")")
            if depth == 0 or token.kind == "end":
                return False
            if token.kind == "sign" and token.value in _SIGNS or token.is_word("and", "or", "not"):
                return True
        return False

    def comparison(self) -> Op:
        token = self.token
        if token.kind != "sign" or token.value not in _SIGNS:
            self.fail(f"expected a comparison, found {_shown(token)}", hint="one of = != < <= > >=")
        return _SIGNS[self.next().value]

    def duration(self) -> int:
        token = self.token
        if token.kind != "number":
            self.fail(f"expected a time, found {_shown(token)}", hint="for example 10 min")
        self.digits(self.next())
        unit = "s"
        if self.token.kind == "name" and self.token.value.lower() in UNITS:
            unit = self.next().value.lower()
        return scaled(token.value, unit)

    # -- expressions -------------------------------------------------------------------------------------------

    def expression(self) -> cel.Expression:
        start = self.token
        total = self.product()
        while self.token.value in ("+", "-") and self.token.kind == "sign":
            op: Literal["+", "-"] = "+" if self.next().value == "+" else "-"
            total = cel.Operation(op, total, self.product(), self.since(start))
        return total

    def product(self) -> cel.Expression:
        start = self.token
        total = self.factor()
        while self.token.value in ("*", "/") and self.token.kind == "sign":
            op: Literal["*", "/"] = "*" if self.next().value == "*" else "/"
            total = cel.Operation(op, total, self.factor(), self.since(start))
        return total

    def factor(self) -> cel.Expression:
        token = self.token
        if token.value == "-" and token.kind == "sign":
            self.next()
            self.enter()
            inner = self.factor()
            self.depth -= 1
            return cel.Operation("*", cel.Number(Fraction(-1), token.span), inner, self.since(token))
        if token.value == "(":
            self.next()
            self.enter()
            inner = self.expression()
            self.sign(")", "to close the parenthesis", token)
            self.depth -= 1
            return inner
        if token.kind == "number":
            self.digits(self.next())
            return cel.Number(Fraction(token.value), token.span)
        if token.kind == "string":
            self.next()
            quote = token.value[0]
            return cel.Text(token.value[1:-1].replace(quote * 2, quote), token.span)
        if token.kind == "decorator":
            return self.decorated()
        return cel.Attribute("", self.name("an attribute").value, token.span)

    def decorated(self) -> cel.Attribute:
        start = self.next()
        decorator: Literal["$", "$1", "$2"] = "$1" if start.value == "$1" else "$2" if start.value == "$2" else "$"
        self.sign(".", "behind the decorator")
        if self.token.kind == "decorator":
            self.fail("decorators do not nest", at=self.since(start) | self.token.span, hint="write $1.Price_1")
        named = self.name("an attribute behind the decorator")
        return cel.Attribute(decorator, named.value, self.since(start))

    def digits(self, token: Token) -> None:
        if len(token.value) > MAX_DIGITS:
            self.fail(f"a number of more than {MAX_DIGITS} digits", at=token.span)
