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
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from xscl.answers.sql_counts import replaced_counts
from xscl.answers.sql_functions import FUNCTIONS
from xscl.base.errors import EngineError

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
    counts: str | None = None
    """The text for a relation ``matches`` of counts (``match_steps.count_steps``), if it only counts matches."""


class _Dialect(Spark):
    """Spark's SQL with every function left as it is written, but for those whose arguments are no list."""

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parse
            for name, parse in SparkParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("ANY", "CASE")
        }


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

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"""(?P<words>{_WORD}(\s+{_WORD})*)
    | (?P<number>[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?(BD|[LSYDF])?|\.[0-9]+([eE][+-]?[0-9]+)?(BD|[DF])?)
    | (?P<string>'([^'\\]|\\.|'')*'|"([^"\\]|\\.|"")*"|[rR]'[^']*'|[rR]"[^"]*"|[xX]'[0-9A-Fa-f]*')
    | (?P<quoted>`([^`]|``)+`)
    | (?P<operator>[-+*/%~&|^<>=!.,:()\[\]]|\|\||<=>|[<>!=]=|<>|<<|>>>?|->|::)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""Tokens, as Spark's lexer has them (``SqlBaseLexer.g4``)."""

_CLAUSES = """
all and any as between by case cross cube distinct div else escape except exists filter for from full group having
ilike in inner intersect interval is join lateral left like limit minus not nulls offset on or outer over pivot
recursive regexp right rlike rollup select sets some tablesample then union unpivot using values view when where with
"""
_TYPES = "array char character dec decimal numeric varchar"
_BEFORE_BRACKETS = frozenset([*_CLAUSES.split(), *_TYPES.split()])
"""Words that stand before an opening bracket and call nothing."""

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
    tokens = _tokens(statement)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise _refusal("there is no statement", hint="xscl sql 'SELECT * FROM queries'")
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise _refusal(f"one statement at a time; a second one follows the ; at {_place(token)}")
    known = _Known(relations, more)
    match _words(statement, tokens):
        case ["SHOW", *_]:
            return _shown(statement, known)
        case ["DESC" | "DESCRIBE", *_]:
            return _described(statement, tokens, known)
        case ["SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            return _query(statement, tokens, known)
    raise _refusal(
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


def _shown(statement: str, relations: _Known) -> Judged:
    if found := re.fullmatch(r"\s*show\s+(tables|views)[\s;]*", statement, re.IGNORECASE):
        return Judged("show", f"SHOW {found[1].upper()}", 0, relations.all(), None)
    if found := re.fullmatch(r"\s*show\s+columns\s+(?:in|from)\s+(`?)(\w+)\1[\s;]*", statement, re.IGNORECASE):
        name = _relation(found[2], relations)
        return Judged("show", f"SHOW COLUMNS IN `{name}`", 0, frozenset([name]), None)
    raise _refusal("SHOW is followed by TABLES, VIEWS, or COLUMNS IN and a relation")


def _described(statement: str, tokens: Sequence[Token], relations: _Known) -> Judged:
    match _words(statement, tokens):
        case [_, _] | [_, "TABLE", _]:
            name = _relation(tokens[-1].text, relations)
            return Judged("describe", f"DESCRIBE TABLE `{name}`", 0, frozenset([name]), None)
        case [_, "QUERY", "SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            rest = tokens[2:]
        case [_, "SELECT" | "WITH" | "FROM" | "VALUES", *_]:
            rest = tokens[1:]
        case _:
            raise _refusal("DESCRIBE is followed by a relation, or by a query")
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
        raise _refusal("it is nested too deeply") from None
    written = _canonical(statement, tokens)
    _judge_calls([(kind, text) for _, kind, text in written], reading.listed_aliases)
    counts = replaced_counts(tree)
    return Judged(
        "query",
        _bracketed(written, {}),
        1,
        frozenset(reading.relations),
        None if reading.stars else frozenset(reading.columns),
        frozenset(reading.listed_aliases),
        None if counts is None else _bracketed(written, counts),
    )


def _tree(statement: str, tokens: Sequence[Token]) -> exp.Expr:
    try:
        trees = _Dialect().parser().parse(list(tokens), statement)
    except ParseError as error:
        raise _parse_refusal(error) from None
    except RecursionError:
        raise _refusal("it is nested too deeply") from None
    except Exception as error:  # whatever the parser trips over, it has not read
        raise _refusal(f"it cannot be read: {str(error).partition(chr(10))[0]}") from None
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise _refusal("it is no query")
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

    def judge(self, node: exp.Expr, tables: frozenset[str]) -> None:
        """Refuse a node that is not known; ``tables`` are the common table expressions in scope."""
        if type(node) not in _KNOWN:
            raise _refusal(f"{_name_of(node)} is not allowed here{_near(node)}")
        match node:
            case exp.Table():
                self._table(node, tables)
            case exp.Column():
                self.columns.add(node.name.lower())
                if not node.table and node.name.lower() in _ACCOUNT:
                    raise _refusal(f"{node.name} is not allowed; a column of that name is written with its relation")
            case exp.Identifier():
                # A name of a struct's field, a column in USING, an argument of a lambda function.
                self.columns.add(node.name.lower())
            case exp.Star():
                self.stars = self.stars or not _counts_rows(node.parent)
            case exp.Anonymous():
                if (name := _function_name(node)) not in FUNCTIONS:
                    raise _unknown_function(name)
            case exp.Dot() if not isinstance(node.expression, (exp.Identifier, exp.Star)):
                raise _refusal(f"{node.sql('spark')[:60]!r}: functions are called by their bare names")
            case exp.Join() if node.args.get("method"):
                self.stars = True  # a natural join compares all columns
            case exp.TableAlias() if node.args.get("columns"):
                self.listed_aliases.add(node.name.lower())
                self.stars = True  # the list stands for all columns
            case exp.Pivot():
                self.stars = True  # what is not named is grouped by
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
            raise _refusal(f"{node.sql('spark')!r}: relations have no database before their name", hint=_RELATIONS)
        name = node.name.lower()
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


# -- the tokens ----------------------------------------------------------------------------------------------------


def _tokens(statement: str) -> list[Token]:
    try:
        return _Dialect().tokenize(statement)
    except TokenError as error:
        raise _refusal(f"it cannot be read: {str(error).splitlines()[0]}") from None


def _words(statement: str, tokens: Sequence[Token]) -> list[str]:
    """Give the words of tokens in capital letters, without opening brackets before the first."""
    first = next((i for i, token in enumerate(tokens) if token.token_type != TokenType.L_PAREN), 0)
    return [word.upper() for token in tokens[first:] for word in statement[token.start : token.end + 1].split()]


_Written = tuple[int, str, str]
"""A token, or a gap between tokens: its place in the statement, its kind, its text."""


def _canonical(statement: str, tokens: Sequence[Token]) -> list[_Written]:
    """Write the tokens in their places, with spaces for comments, each in a form that Spark reads as one token.

    Raises:
        EngineError: one is none of Spark's.
    """
    written: list[_Written] = []
    end = 0
    for start, stop in _spans(statement, tokens):
        text = statement[start:stop]
        match = _TOKEN.fullmatch(text)
        kind = match.lastgroup if match else None
        if kind is None and re.fullmatch(r"\w+", text):
            text, kind = f"`{text}`", "quoted"  # a name in other letters, or one that begins with a digit
        if kind is None or (kind == "quoted" and "${" in text):
            raise _refusal(f"{text[:60]!r} cannot be read at {_place_of(statement, start)}")
        gap = re.sub(r"[^\n]", " ", statement[end:start])
        if not gap and written and not _may_touch(written[-1], (start, kind, text)):
            gap = " "
        written += [(end, "gap", gap), (start, kind, text)] if gap else [(start, kind, text)]
        end = stop
    return written


def _bracketed(written: Sequence[_Written], replaced: Mapping[int, str]) -> str:
    """Write the text in brackets, with other texts for the calls that begin at some places."""
    parts: list[str] = []
    until_bracket = False
    for start, _, text in written:
        if start in replaced and text and not text.isspace():
            parts.append(replaced[start])
            until_bracket = True
        elif not until_bracket:
            parts.append(text)
        elif text == ")":
            until_bracket = False
    return f"SELECT * FROM (\n{''.join(parts)}\n)"


def _spans(statement: str, tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Places of the tokens in the statement; strings that touch are one, as ``'it''s'`` is."""
    spans: list[tuple[int, int]] = []
    for token in tokens:
        start, stop = token.start, token.end + 1
        if spans and spans[-1] == (start, stop):
            continue  # 10L is read as a number and its type
        before = spans[-1] if spans else None
        quote = statement[start]
        if before and before[1] == start and quote in "'\"" and statement[start - 1] == quote:
            spans[-1] = (before[0], stop)
        else:
            spans.append((start, stop))
    return spans


def _may_touch(before: _Written, after: _Written) -> bool:
    """Tell whether Spark reads two tokens without a space between as two, and as no comment."""
    kinds = before[1], after[1]
    if kinds == ("operator", "operator"):
        return before[2][-1] + after[2][0] not in ("--", "/*", "*/")
    return "operator" in kinds


def _judge_calls(written: Sequence[tuple[str, str]], aliases: Collection[str]) -> None:
    """Refuse calls and programs by the tokens alone, as (kind, text)."""
    tokens = [token for token in written if token[0] != "gap"]
    for place, ((kind, text), (_, after)) in enumerate(pairwise([*tokens, ("end", "")])):
        if kind == "words" and text.split()[-1].lower() == "using" and after != "(":
            raise _refusal("USING is followed by columns in brackets; programs are not run")
        if after != "(" or kind in ("operator", "number"):
            continue
        word = text.split()[-1].lower() if kind == "words" else text[1:-1].lower()
        if place and tokens[place - 1][1] == ".":
            raise _refusal(f"{word!r}: functions are called by their bare names")
        if kind == "words" and word in _BEFORE_BRACKETS or kind != "string" and word in FUNCTIONS:
            continue
        if kind == "string" or word not in aliases:
            raise _unknown_function(word)


# -- refusals ------------------------------------------------------------------------------------------------------

_RELATIONS = "xscl sql 'SHOW TABLES' lists the relations"


def _refusal(message: str, *, hint: str | None = None) -> EngineError:
    return EngineError("XSCL_SQL", message, hint=hint or "docs/reference/sql.md says what statements may hold")


def _unknown_function(name: str) -> EngineError:
    return _refusal(f"the function {name[:60]!r} is not among those that statements may call")


def _unknown_relation(name: str, relations: _Known) -> EngineError:
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), sorted(relations.all()), n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return _refusal(f"there is no relation {name!r}{meant}", hint=_RELATIONS)


def _parse_refusal(error: ParseError) -> EngineError:
    first = error.errors[0] if error.errors else {}
    what = str(first.get("description") or error).rstrip(".").partition("\n")[0]
    near = first.get("highlight")
    at = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
    return _refusal(f"it cannot be read{at}{f', near {near!r}' if near else ''}: {what}")


def _place(token: Token) -> str:
    return f"line {token.line}, column {token.col}"


def _place_of(statement: str, offset: int) -> str:
    before = statement[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"
