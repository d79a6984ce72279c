"""FROM: blocks, their joins, steps over them, and what must not be there: one method a rule of
docs/reference/language.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NoReturn

from xscl.base.errors import QueryError, Span, UnsupportedFeatureError
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.base.values import digest_text
from xscl.language.facts import SUB_QUERIES
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query
from xscl.language.syntax.step_parser import StepParser
from xscl.language.syntax.token_reader import shown
from xscl.language.syntax.tokens import Token

__all__ = ["MAX_BLOCKS", "MAX_FILTERS", "MAX_STEPS", "FromParser", "filtered", "members", "sub_query_name"]

MAX_BLOCKS = 16
"""Blocks in one query."""
MAX_STEPS = 8
"""NEXT and FOLD in one query."""
MAX_FILTERS = 16
"""FILTER in one query."""
_ABSENT = "write A NOT FOLLOWED BY {x = y, 1 h} B"
_LATER = {
    "union": "let several queries PUBLISH to one channel and read that",
    "begin": "bound the members' times by windows, and the past by STARTING",
    "end": "drop the query when it is to end",
    "limit": "cut the list of matches where you read it",
}
"""Words behind FROM that are kept free, with what to do meanwhile."""
_STEPS = ("next", "fold", "filter")
_OF_BLOCK = ("->", "[", "/", "//")
"""Signs behind a channel or a query in parentheses, and behind no other parenthesis."""
_OF_QUERY = ("window", "group", "having", "top", "publish", "starting", "consistency", "on")
"""Words behind blocks, joins and steps that make a query of them."""
_DIGITS = 16
"""Digits of a digest in the names of sub-queries."""


def members(tree: ast.Tree) -> ast.Source:
    """Return the blocks of a tree, in their order, with nothing that they have to satisfy together."""
    first, *others = ast.blocks(tree)
    source: ast.Source = first
    for number, block in enumerate(others):
        any_time = (ast.Window("max", None, LAST_TIME - FIRST_TIME),) if number == 0 else ()
        source = ast.Join("join", source, block, (), any_time, first.span | block.span)
    return source


class FromParser(StepParser):
    """Reads what stands behind FROM."""

    steps_seen = 0
    """Number of NEXT and FOLD so far."""
    filters_seen = 0
    """Number of FILTER so far."""

    def tree(self) -> ast.Tree:
        """Read blocks, their joins, and steps over them."""
        left = self.term()
        while True:
            start = self.token
            if start.kind != "name" or self.at_negation():
                return left
            word = start.value.lower()
            if word in _STEPS:
                left = self.step_over(left)
            elif word in ("followed", "join"):
                left = self.join(left)
            elif word == "where":
                self.fail(
                    "there is no WHERE",
                    at=start,
                    hint="conditions on one document go into its brackets: S//a[./b = 'x'];"
                    " comparisons of two documents into the braces of their join: {x = y, 1 h}",
                )
            elif word in _LATER:
                self.later(start, _LATER[word])
            else:
                return left

    def join(self, left: ast.Tree) -> ast.Join:
        """Read an operator that joins blocks, and its right operand."""
        start = self.next()
        op: Literal["followed by", "join"] = "join"
        if start.is_word("followed"):
            if not self.token.is_word("by"):
                self.fail(
                    f"expected BY after {start.value}, found {shown(self.token)}",
                    hint="write A FOLLOWED BY {x = y, 1 h} B",
                )
            self.next()
            op = "followed by"
        atoms, windows = self.params(op)
        right = self.term()
        if not isinstance(left, ast.Block | ast.Join):
            self.fail_above(f"{op.upper()} behind a step", start.span)
        if not isinstance(right, ast.Block | ast.Join):
            self.fail_above(f"{op.upper()} with a step in parentheses", start.span)
        return ast.Join(op, left, right, atoms, windows, left.span | right.span)

    # -- steps -------------------------------------------------------------------------------------------------

    def step_over(self, left: ast.Tree) -> ast.Tree:
        """Read a step over what stands to the left of it."""
        start = self.next()
        word = start.value.lower()
        if word == "filter":
            self.filters_seen += 1
            self.refuse_many(self.filters_seen, MAX_FILTERS, "FILTER", start.span)
            conditions, windows = self.filter_braces()
            return filtered(left, conditions, windows, self.since(start))
        self.steps_seen += 1
        self.refuse_many(self.steps_seen, MAX_STEPS, "NEXT and FOLD", start.span)
        if word == "next":
            atoms, plain = self.next_braces()
            span = self.since(start)
            return ast.Next(left, self.term(), atoms, plain, span)
        found = self.fold_braces()
        span = self.since(start)
        return ast.Fold(
            left,
            self.term(),
            tuple(found.atoms),
            tuple(found.windows),
            tuple(found.conditions),
            tuple(found.accumulators),
            found.longest,
            found.at_most,
            span,
        )

    def refuse_many(self, count: int, most: int, what: str, span: Span) -> None:
        """Refuse more of something than a query may have."""
        if count > most:
            raise QueryError(
                "XSCL_TOO_MANY_STEPS",
                f"a query has at most {most} {what}",
                text=self.text,
                span=span,
                hint="publish a part of it as a channel and go on from that",
            )

    def fail_above(self, found: str, span: Span) -> NoReturn:
        """Refuse a join over steps."""
        raise UnsupportedFeatureError(
            "XSCL_STEP_LIMIT",
            f"steps are over joins, and this has {found}",
            text=self.text,
            span=span,
            hint="join first: A JOIN {…} B NEXT {…} C; or have a query with the steps PUBLISH, and join that",
        )

    # -- absence -----------------------------------------------------------------------------------------------

    def at_negation(self) -> bool:
        """Return whether WITHOUT or NOT FOLLOWED BY comes."""
        token, after = self.token, self.peek()
        if token.is_word("not") and not after.is_word("followed"):
            self.fail(f"expected FOLLOWED BY after {token.value}, found {shown(after)}", at=after, hint=_ABSENT)
        return token.is_word("without", "not")

    def negations(self) -> tuple[ast.Negation, ...]:
        """Read what must not be there, behind blocks and their joins."""
        found: list[ast.Negation] = []
        while self.token.kind == "name" and self.at_negation():
            start = self.token
            self.next()
            negated: Literal["without", "not followed by"] = "without"
            if start.is_word("not"):
                self.next()
                self.word("by", "after NOT FOLLOWED")
                negated = "not followed by"
            self.negates = True
            atoms, windows = self.params(negated)
            self.negates = False
            span, behind = self.since(start), self.token
            right = self.term()
            if not isinstance(right, ast.Block):
                self.fail_inside("joins in parentheses behind it", behind.span)
            found.append(ast.Negation(negated, right, atoms, windows, span))
            behind = self.token
            if behind.is_word("join") or behind.is_word("followed") and self.peek().is_word("by"):
                self.fail_inside("a join behind it", behind.span)
        return tuple(found)

    def fail_inside(self, found: str, span: Span) -> NoReturn:
        """Refuse an absence that is not the end of FROM."""
        raise UnsupportedFeatureError(
            "XSCL_ABSENCE_LIMIT",
            f"an absence ends FROM with one block, and this has {found}",
            text=self.text,
            span=span,
            hint="join first, and say last what must not be there: A JOIN {…} B WITHOUT {…} C",
        )

    def term(self) -> ast.Tree:
        """Read a block, or joins and steps in parentheses."""
        if self.token.kind != "(":
            return self.block()
        start = self.token
        self.enter()
        self.next()
        begin = self.at, self.token
        counted = self.measures.copy(), self.blocks, self.steps_seen, self.filters_seen
        inner = None if self.at_query() else self.tree()
        if inner is not None and self.token.kind == "name" and self.at_negation():
            self.fail_inside("a parenthesis around it", self.token.span)
        behind = self.peek()
        is_block = self.token.kind == ")" and (behind.kind in _OF_BLOCK or behind.is_word("as"))
        is_block = is_block or self.token.is_word(*_OF_QUERY)
        if inner is not None and not is_block:
            self.op(")", "to close the parenthesis")
            self.depth -= 1
            return inner
        # A block begins with it: what it finds is read as a query of its own.
        self.at, self.token = begin
        self.measures, self.blocks, self.steps_seen, self.filters_seen = {}, 0, 0, 0
        query = self.sub_query()
        self.measures, self.blocks, self.steps_seen, self.filters_seen = counted
        self.op(")", "to close the parenthesis")
        self.depth -= 1
        return self.block_of(start, sub_query_name(query), query)

    def at_query(self) -> bool:
        """Return whether a query with SELECT comes."""
        raise NotImplementedError

    def sub_query(self) -> ast.Query:
        """Read a query in parentheses."""
        raise NotImplementedError

    def block(self) -> ast.Block:
        """Read a block."""
        start = self.token
        return self.block_of(start, self.kept_name("a channel").value, None)

    def block_of(self, start: Token, channel: str, query: ast.Query | None) -> ast.Block:
        """Read what stands behind the channel or the query of a block."""
        of = self.since(start)
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
        if query is not None:
            return ast.SubQuery(channel, binding, predicates, steps, self.since(start), query, of)
        return ast.Block(channel, binding, predicates, steps, self.since(start))


def sub_query_name(query: ast.Query) -> str:
    """Return the name of what a query in parentheses finds: equal ones have one name."""
    return SUB_QUERIES + digest_text("query", format_query(query))[:_DIGITS]


def filtered(
    left: ast.Tree,
    conditions: tuple[ast.Atom | ast.Duration, ...],
    windows: tuple[ast.RelativeWindow, ...],
    span: Span,
) -> ast.Tree:
    """Return what a FILTER leaves; conditions on the blocks of a join are conditions of the join."""
    if isinstance(left, ast.Join):
        atoms = tuple(each for each in conditions if isinstance(each, ast.Atom))
        left = replace(left, atoms=(*left.atoms, *atoms), windows=(*left.windows, *windows))
        conditions = tuple(each for each in conditions if isinstance(each, ast.Duration))
        windows = ()
    return ast.Filter(left, conditions, windows, span) if conditions or windows else left
