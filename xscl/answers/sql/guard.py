"""Statements of SQL that only read a home's relations, told from all others without Spark.

A statement is parsed, and every node of its tree must be known here: queries, operators, relations and common table
expressions in scope.  Spark does not get the tree but the statement's own tokens, so an answer is never one of a
rewritten statement.  Two readers of one text may differ, and these rules keep a difference harmless:

- A token is handed on only in a form that Spark's lexer ends where ours does, and comments are blanked out.
- Each word before an opening bracket is an allowed function, a keyword of queries, or an alias that Spark knows no
  function of (``Judged.listed_aliases``), however the sentence around it was read.
- ``USING`` comes before a bracket only, so no program is named.
- The statement stands in brackets, where Spark's grammar has queries and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError

from xscl.answers.sql.counts import replaced_counts
from xscl.answers.sql.functions import FUNCTIONS
from xscl.answers.sql.times import asked_times
from xscl.answers.sql.tokens import (
    RELATIONS_HINT,
    Dialect,
    bracketed,
    canonical,
    judge_calls,
    parse_refusal,
    place,
    refusal,
    tokens_of,
    unknown_function,
    words_of,
)
from xscl.base.errors import EngineError
from xscl.store.event_spans import Events

__all__ = ["Judged", "judge"]

Kind = Literal["query", "describe", "show"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement that reads and does nothing else."""

    kind: Kind
    text: str
    """Text for Spark; a query's own lines begin after ``lines_before``."""
    lines_before: int
    relations: frozenset[str]
    """Relations that it reads, in lower case."""
    columns: frozenset[str] | None
    """Names of columns that it mentions, in lower case; None if it asks for all of some relation."""
    listed_aliases: frozenset[str] = frozenset()
    """Aliases with a list of columns, in lower case: their text is that of a call."""
    named: frozenset[str] = frozenset()
    """Names in lower case that only a column of a relation can have; none where the statement makes columns."""
    counts: str | None = None
    """The text for a relation ``matches`` of counts (``match_steps.count_steps``), if it only counts matches."""
    times: Mapping[str, Events] = field(default_factory=dict)
    """Event times that it asks relations for by their column ``ts``, where it does not ask for all."""

    @property
    def lists_relations(self) -> bool:
        """Whether it asks for the names of all relations and nothing else."""
        return self.text in ("SHOW TABLES", "SHOW VIEWS")


_NODES = (
    # queries
    *(exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.With, exp.CTE, exp.RecursiveWithSearch),
    *(exp.From, exp.Table, exp.TableAlias, exp.Join, exp.Lateral, exp.Values, exp.Pivot, exp.PivotAlias),
    *(exp.TableSample, exp.Where, exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Having, exp.Order),
    *(exp.Ordered, exp.Sort, exp.Cluster, exp.Distribute, exp.Limit, exp.Offset, exp.Distinct),
    # columns, constants, names
    *(exp.Column, exp.Identifier, exp.Star, exp.Dot, exp.Alias, exp.Aliases, exp.Var, exp.Literal, exp.Null),
    *(exp.Boolean, exp.HexString, exp.RawString, exp.Concat, exp.Interval, exp.IntervalSpan, exp.Tuple, exp.Paren),
    *(exp.CurrentDate, exp.CurrentTimestamp, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.Array),
    # calls
    *(exp.Anonymous, exp.Lambda, exp.Cast, exp.TryCast, exp.Extract, exp.Overlay, exp.StrPosition, exp.Substring),
    *(exp.Trim, exp.Case, exp.If, exp.Bracket, exp.Slice, exp.Filter, exp.WithinGroup, exp.IgnoreNulls),
    *(exp.RespectNulls, exp.Window, exp.WindowSpec),
    # operators
    *(exp.And, exp.Or, exp.Not, exp.Xor, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ),
    *(exp.NullSafeNEQ, exp.Is, exp.Between, exp.In, exp.Exists, exp.Any, exp.All, exp.Like, exp.ILike, exp.Escape),
    *(exp.RegexpLike, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Neg, exp.BitwiseAnd),
    *(exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
)
_KNOWN = frozenset(_NODES)

_NAME = re.compile(r"\w+")
_MAKES_COLUMNS = frozenset(
    ["explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "stack"]
    + ["date_add", "date_diff", "dateadd", "datediff", "date_part", "datepart"]
)
"""Functions whose columns have names of their own, or that take units in place of columns."""
# They name the account that the engine runs under.
_ACCOUNT = frozenset(["current_user", "session_user", "user"])


def judge(statement: str, relations: Collection[str], more: Callable[[], Collection[str]] = frozenset) -> Judged:
    """Judge one statement.

    Args:
        statement: a text of Spark SQL.
        relations: names, in lower case, of what there is to read.
        more: gives further such names; is asked when a name is not among ``relations``.

    Raises:
        EngineError: ``XSCL_SQL``: it is no query, nor SHOW or DESCRIBE of relations, or holds something unknown.
    """
    tokens = tokens_of(statement)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise refusal("there is no statement", hint="xscl sql 'SELECT * FROM queries'")
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise refusal(f"one statement at a time; a second one follows the ; at {place(token)}")
    known = _Known(relations, more)
    match words_of(statement, tokens):
        case ["SHOW", *_]:
            return _judge_show(statement, known)
        case ["DESC" | "DESCRIBE", *_]:
            return _described(statement, tokens, known)
        case ["SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            return _query(statement, tokens, known)
    raise refusal(
        f"{tokens[0].text!r} begins no statement that reads",
        hint="one SELECT, WITH … SELECT, SHOW TABLES, SHOW COLUMNS IN r, or DESCRIBE r",
    )


# -- kinds of statements -------------------------------------------------------------------------------------------


class _Known:
    """Names of relations; further ones are asked for late."""

    def __init__(self, names: Collection[str], more: Callable[[], Collection[str]]) -> None:
        self._names = frozenset(names)
        self._more: Callable[[], Collection[str]] | None = more

    def all(self) -> frozenset[str]:
        if self._more is not None:
            self._names |= frozenset(self._more())
            self._more = None
        return self._names

    def __contains__(self, name: str) -> bool:
        return name in self._names or name in self.all()


def _judge_show(statement: str, relations: _Known) -> Judged:
    if found := re.fullmatch(r"\s*show\s+(tables|views)[\s;]*", statement, re.IGNORECASE):
        return Judged("show", f"SHOW {found[1].upper()}", 0, relations.all(), None)
    if found := re.fullmatch(r"\s*show\s+columns\s+(?:in|from)\s+(`?)(\w+)\1[\s;]*", statement, re.IGNORECASE):
        name = _relation(found[2], relations)
        return Judged("show", f"SHOW COLUMNS IN `{name}`", 0, frozenset([name]), None)
    raise refusal("SHOW is followed by TABLES, VIEWS, or COLUMNS IN and a relation")


def _described(statement: str, tokens: Sequence[Token], relations: _Known) -> Judged:
    match words_of(statement, tokens):
        case [_, _] | [_, "TABLE", _]:
            name = _relation(tokens[-1].text, relations)
            return Judged("describe", f"DESCRIBE TABLE `{name}`", 0, frozenset([name]), None)
        case [_, "QUERY", "SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            rest = tokens[2:]
        case [_, "SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            rest = tokens[1:]
        case _:
            raise refusal("DESCRIBE is followed by a relation, or by a query")
    judged = _query(statement, rest, relations)
    return replace(judged, kind="describe", text=f"DESCRIBE QUERY {judged.text}", counts=None)


def _relation(name: str, relations: _Known) -> str:
    if name.lower() not in relations:
        raise _unknown_relation(name, relations)
    return name.lower()


def _query(statement: str, tokens: Sequence[Token], relations: _Known) -> Judged:
    tree = _tree(statement, tokens)
    reading = _Reading(relations)
    try:
        reading.judge(tree, frozenset())
    except RecursionError:
        raise refusal("it is nested too deeply") from None
    written = canonical(statement, tokens)
    judge_calls([(kind, text) for _, kind, text in written], reading.listed_aliases)
    counts = replaced_counts(tree)
    return Judged(
        "query",
        bracketed(written, {}),
        1,
        frozenset(reading.relations),
        None if reading.stars else frozenset(reading.columns),
        frozenset(reading.listed_aliases),
        reading.named,
        None if counts is None else bracketed(written, counts),
        asked_times(tree, reading.relations),
    )


def _tree(statement: str, tokens: Sequence[Token]) -> exp.Expr:
    try:
        trees = Dialect().parser().parse(list(tokens), statement)
    except ParseError as error:
        raise parse_refusal(error) from None
    except RecursionError:
        raise refusal("it is nested too deeply") from None
    except Exception as error:  # whatever the parser trips over, it has not read
        raise refusal(f"it cannot be read: {str(error).partition(chr(10))[0]}") from None
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise refusal("it is no query")
    return trees[0]


# -- the tree ------------------------------------------------------------------------------------------------------


class _Reading:
    """Collects the names of a tree while its nodes are judged."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self.relations: set[str] = set()
        self.columns: set[str] = set()
        self.stars = False
        """Tell whether a node asks for all columns of something."""
        self.listed_aliases: set[str] = set()
        self._asked: set[tuple[str, str]] = set()
        """Columns, each with what stands before it: a relation, a column with fields, or nothing."""
        self._tables: set[str] = {""}
        """Names of relations and of their aliases."""
        self._given: set[str] = set()
        """Names that the statement gives to columns."""
        self._makes_columns = False
        """Tell whether functions name columns, so that their names are not known."""

    @property
    def named(self) -> frozenset[str]:
        """Names that only a column of a relation can have."""
        if self._makes_columns:
            return frozenset()
        asked = {name for table, name in self._asked if table in self._tables and _NAME.fullmatch(name)}
        return frozenset(asked - self._given)

    def judge(self, node: exp.Expr, tables: frozenset[str]) -> None:
        """Refuse a node that is not known; ``tables`` are the common table expressions in scope."""
        if type(node) not in _KNOWN:
            raise refusal(f"{_name_of(node)} is not allowed here{_near(node)}")
        match node:
            case exp.Table():
                self._table(node, tables)
            case exp.Column():
                self.columns.add(node.name.lower())
                self._asked.add((node.table.lower(), node.name.lower()))
                if not node.table and node.name.lower() in _ACCOUNT:
                    raise refusal(f"{node.name} is not allowed; a column of that name is written with its relation")
            case exp.Identifier():
                # A name of a struct's field, a column in USING, an argument of a lambda function.
                self.columns.add(node.name.lower())
            case exp.Star():
                self.stars = self.stars or not _counts_rows(node.parent)
            case exp.Anonymous():
                if (name := _function_name(node)) not in FUNCTIONS:
                    raise unknown_function(name)
                self._makes_columns |= name in _MAKES_COLUMNS or name.startswith("timestamp")
            case exp.Dot() if not isinstance(node.expression, (exp.Identifier, exp.Star)):
                raise refusal(f"{node.sql('spark')[:60]!r}: functions are called by their bare names")
            case exp.Join() if node.args.get("method"):
                self.stars = True  # a natural join compares all columns
            case exp.Alias():
                self._given.add(node.alias.lower())
            case exp.Lateral() | exp.Values() | exp.Aliases() | exp.Lambda():
                self._makes_columns = True
            case exp.TableAlias() if node.args.get("columns"):
                self._makes_columns = True
                self.listed_aliases.add(node.name.lower())
                self.stars = True  # the list stands for all columns
            case exp.Pivot():
                self.stars = self._makes_columns = True  # what is not named is grouped by
        for child in _children(node, with_=True):
            assert isinstance(child, exp.With)
            recursive = bool(child.args.get("recursive"))
            for table in child.expressions:
                name = table.alias.lower()
                self.judge(table, tables | {name} if recursive else tables)
                tables |= {name}
        for child in _children(node, with_=False):
            self.judge(child, tables)

    def _table(self, node: exp.Table, tables: frozenset[str]) -> None:
        if isinstance(node.this, exp.Anonymous):
            return
        if node.args.get("db") or node.args.get("catalog"):
            raise refusal(f"{node.sql('spark')!r}: relations have no database before their name", hint=RELATIONS_HINT)
        name = node.name.lower()
        self._tables.add(node.alias_or_name.lower())
        if name in tables:
            return
        if name not in self._known:
            raise _unknown_relation(node.name, self._known)
        self.relations.add(name)


def _children(node: exp.Expr, *, with_: bool) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        if isinstance(child, exp.With) == with_:
            yield child


def _counts_rows(node: exp.Expr | None) -> bool:
    """Tell whether a node is ``count(*)``."""
    return isinstance(node, exp.Anonymous) and _function_name(node) == "count" and len(node.expressions) == 1


def _function_name(node: exp.Anonymous) -> str:
    return str(node.this.name if isinstance(node.this, exp.Expr) else node.this).lower()


def _name_of(node: exp.Expr) -> str:
    match node:
        case exp.Hint():
            return "a hint"
        case exp.QueryTransform():
            return "TRANSFORM … USING"
        case exp.Placeholder() | exp.Parameter() | exp.SessionParameter():
            return "a variable or parameter"
        case exp.CurrentUser() | exp.SessionUser():
            return "current_user"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def _near(node: exp.Expr) -> str:
    text = node.sql("spark", comments=False)
    return f": {text[:60]!r}{'…' if len(text) > 60 else ''}" if text else ""


def _unknown_relation(name: str, relations: _Known) -> EngineError:
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), sorted(relations.all()), n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return refusal(f"there is no relation {name!r}{meant}", hint=RELATIONS_HINT)
