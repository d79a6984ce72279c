"""Syntax trees to value-join normal form (thesis 6.2): names by URI, one tree of nodes per block, joins of variables
only.

What the normal form does to a query:

- brackets with paths become branches of the block's tree, whether they bind variables or not; every other bracket
  becomes a condition on its node;
- a path that follows a variable in an atom becomes a branch with a variable of its own;
- an atom with one variable becomes a condition on that variable's node;
- windows become bounds on the difference of event times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from xscl import ast
from xscl.durations import format_duration
from xscl.errors import (
    QueryError,
    Span,
    UnboundVariableError,
    UnsatisfiableWindowError,
    UnsupportedFeatureError,
)
from xscl.parser import PREDICATE_FUNCTIONS
from xscl.templates.bounds import UNBOUNDED, Bounds
from xscl.values import number_text
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Expression,
    Here,
    Negation,
    NodeTest,
    Step,
    Truth,
    conditions,
    exists_chain,
)

__all__ = ["DEFAULT_NAMESPACES", "NormalBlock", "NormalJoin", "NormalQuery", "TreeNode", "normalize"]

DEFAULT_NAMESPACES: Mapping[str, str] = {
    "atom": "http://www.w3.org/2005/Atom",
    "cap": "urn:oasis:names:tc:emergency:cap:1.2",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "georss": "http://www.georss.org/georss",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rss": "http://purl.org/rss/1.0/",
    "xhtml": "http://www.w3.org/1999/xhtml",
    "xlink": "http://www.w3.org/1999/xlink",
    "xml": "http://www.w3.org/XML/1998/namespace",
}
"""Prefixes that need no declaration."""

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = ("count", "string-length")
_BOOLEANS = ("contains", "starts-with")


@dataclass(slots=True, eq=False)
class TreeNode:
    """A node of a block's tree; the document node has no step."""

    parent: int
    step: Step | None
    variable: str | None = None
    conditions: list[Condition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NormalBlock:
    """A block's tree: node 0 is the document node, parents come before children."""

    channel: str
    nodes: list[TreeNode]
    result: int


@dataclass(frozen=True, slots=True)
class NormalJoin:
    """A comparison of two variables of different blocks, the one of the earlier block on the left."""

    left: str
    right: str
    op: ast.Op
    fn_l: str
    fn_r: str


@dataclass(frozen=True, slots=True)
class NormalQuery:
    """A query in value-join normal form."""

    blocks: tuple[NormalBlock, ...]
    variables: Mapping[str, tuple[int, int]]
    """Variable to (block, node)."""
    joins: tuple[NormalJoin, ...]
    bounds: Bounds
    """On ts of the second block minus ts of the first; unbounded for one block."""
    once: bool


def normalize(query: ast.Query, text: str, namespaces: Mapping[str, str] | None = None) -> NormalQuery:
    """The normal form of a query; ``text`` is what spans speak of.

    Raises:
        QueryError: the query is not sound, or asks for something not supported; with line, column and hint.
    """
    return _Normalizer(text, {**DEFAULT_NAMESPACES, **(namespaces or {})}).query(query)


class _Normalizer:
    def __init__(self, text: str, namespaces: Mapping[str, str]) -> None:
        self.text = text
        self.namespaces = namespaces
        self.trees: list[list[TreeNode]] = []
        self.variables: dict[str, tuple[int, int]] = {}

    def query(self, query: ast.Query) -> NormalQuery:
        self._refuse_later_features(query)
        blocks = tuple(self._block(block) for block in ast.blocks(query.source))
        joins: list[NormalJoin] = []
        bounds, once = Bounds(), False
        if isinstance(query.source, ast.Join):
            joins = self._joins(query.source)
            bounds, once = self._windows(query.source)
            self._require_tie(query.source, joins, bounds)
        return NormalQuery(blocks, self.variables, tuple(joins), bounds, once)

    def _refuse_later_features(self, query: ast.Query) -> None:
        count = len(ast.blocks(query.source))
        if count > 2:
            self._unsupported(
                "XSCL_UNSUPPORTED_BLOCKS",
                f"this query joins {count} blocks; two are supported so far",
                query.source.span,
                "split it into queries of two blocks",
            )
        if query.select is not None:
            self._unsupported(
                "XSCL_UNSUPPORTED_SELECT",
                "a SELECT list is not supported yet",
                query.select[0].span,
                "SELECT * (or no SELECT at all) outputs the result nodes of all blocks",
            )

    # -- blocks ------------------------------------------------------------------------------------------------

    def _block(self, block: ast.Block) -> NormalBlock:
        place = len(self.trees)
        self.trees.append([TreeNode(-1, None)])
        root = None
        if block.binding or block.predicates or not block.steps:
            root = self._add(place, 0, Step("child", NodeTest("element", None, None)), block.binding)
            self._predicates(place, root, block.predicates)
        result = root if not block.steps else self._path(place, 0, block.steps)
        assert result is not None
        return NormalBlock(block.channel, self.trees[place], result)

    def _add(self, block: int, parent: int, step: Step, binding: ast.Binding | None) -> int:
        nodes = self.trees[block]
        nodes.append(TreeNode(parent, step))
        if binding is not None:
            self._bind(binding.name, binding.span, block, len(nodes) - 1)
        return len(nodes) - 1

    def _bind(self, name: str, span: Span, block: int, node: int) -> None:
        if name in self.variables:
            raise QueryError(
                "XSCL_DUPLICATE_VARIABLE",
                f"the variable {name} is bound twice",
                text=self.text,
                span=span,
                hint="give one of them another name; primes are allowed, as in x5'",
            )
        self.variables[name] = (block, node)
        self.trees[block][node].variable = name

    def _path(self, block: int, parent: int, steps: tuple[ast.Step, ...]) -> int:
        for step in steps:
            parent = self._add(block, parent, Step(step.axis, self._test(step.test)), step.binding)
            self._predicates(block, parent, step.predicates)
        return parent

    def _test(self, test: ast.Test) -> NodeTest:
        if test.kind == "text":
            return NodeTest("text")
        local = None if test.local == "*" else test.local
        if test.prefix is None:
            # '*' alone matches any namespace; an unprefixed name means none.
            return NodeTest(test.kind, None if local is None else "", local)
        if test.prefix == "*":
            return NodeTest(test.kind, None, local)
        uri = self.namespaces.get(test.prefix)
        if uri is None:
            raise QueryError(
                "XSCL_UNDECLARED_PREFIX",
                f"the prefix {test.prefix} is not declared",
                text=self.text,
                span=test.span,
                hint=f"declare it: DECLARE NAMESPACE {test.prefix} = '…'; "
                f"known without declaration: {' '.join(sorted(self.namespaces))}",
            )
        return NodeTest(test.kind, uri, local)

    # -- brackets ----------------------------------------------------------------------------------------------

    def _predicates(self, block: int, node: int, predicates: tuple[ast.Predicate, ...]) -> None:
        for predicate in predicates:
            match predicate:
                case ast.And(parts):
                    self._predicates(block, node, parts)
                case ast.Truth(ast.RelPath(steps), op, literal) if steps:
                    last = self._path(block, node, steps)
                    if op is not None and literal is not None:
                        self.trees[block][last].conditions.append(_comparison(Here(), op, literal))
                case _:
                    self.trees[block][node].conditions.append(self._condition(predicate))

    def _condition(self, predicate: ast.Predicate) -> Condition:
        match predicate:
            case ast.And(parts):
                return AllOf(conditions(self._condition(part) for part in parts))
            case ast.Or(parts):
                return AnyOf(conditions(self._condition(part) for part in parts))
            case ast.Not(part):
                return Negation(self._condition(part))
            case ast.Truth(ast.Call() as call, op, literal):
                return self._call_condition(call, op, literal)
            case ast.Truth(ast.RelPath(steps) as path, op, literal):
                compared = () if op is None or literal is None else (_comparison(Here(), op, literal),)
                if steps:
                    return exists_chain(self._steps(steps), compared)
                if op is None or literal is None:
                    self._fail("XSCL_SYNTAX", "'.' alone is always true", path.span, "compare it, as in [. = 'x']")
                return _comparison(Here(), op, literal)
        raise AssertionError(predicate)

    def _call_condition(self, call: ast.Call, op: str | None, literal: ast.Literal_ | None) -> Condition:
        converted = self._call(call)
        if op is None or literal is None:
            if call.name in _NUMBERS:
                self._fail(
                    "XSCL_SYNTAX",
                    f"{call.name}() is a number, which alone inside brackets would be a position",
                    call.span,
                    f"compare it, as in [{call.name}(…) > 0]",
                )
            return Truth(converted)
        if call.name in _BOOLEANS:
            self._fail(
                "XSCL_SYNTAX",
                f"{call.name}() is true or false and is not compared",
                call.span,
                f"write [{call.name}(…)] or [not({call.name}(…))]",
            )
        return _comparison(converted, op, literal)

    def _call(self, call: ast.Call) -> Call:
        assert call.name in PREDICATE_FUNCTIONS
        return Call(call.name, tuple(self._expression(arg) for arg in call.args))

    def _expression(self, arg: ast.RelPath | ast.Literal_ | ast.Call) -> Expression:
        match arg:
            case ast.Literal_():
                return _constant(arg)
            case ast.Call():
                return self._call(arg)
            case ast.RelPath(steps):
                return Here(self._steps(steps))

    def _steps(self, steps: tuple[ast.Step, ...]) -> tuple[Step, ...]:
        """Steps where variables have no place: under ``or`` and ``not``, and in arguments of functions."""
        found = []
        for step in steps:
            if step.binding is not None:
                self._fail(
                    "XSCL_BINDING_IN_DISJUNCTION",
                    f"the variable {step.binding.name} is bound under 'or', 'not' or inside a function, "
                    "where it may have no node",
                    step.binding.span,
                    "bind it in a bracket of its own",
                )
            found.append(
                Step(
                    step.axis,
                    self._test(step.test),
                    conditions(part for p in step.predicates for part in self._conjuncts(p)),
                )
            )
        return tuple(found)

    def _conjuncts(self, predicate: ast.Predicate) -> list[Condition]:
        if isinstance(predicate, ast.And):
            return [c for part in predicate.parts for c in self._conjuncts(part)]
        return [self._condition(predicate)]

    # -- atoms -------------------------------------------------------------------------------------------------

    def _joins(self, source: ast.Join) -> list[NormalJoin]:
        found = []
        for atom in source.atoms:
            join = self._atom(atom)
            if join is not None and join not in found:
                found.append(join)
        return found

    def _atom(self, atom: ast.Atom) -> NormalJoin | None:
        left, right = self._side(atom.left), self._side(atom.right)
        if left is None and right is None:
            self._fail("XSCL_SYNTAX", "this compares two constants", atom.span, "use a variable on one side")
        if left is None or right is None:
            side, constant, op = (left, atom.right, atom.op) if right is None else (right, atom.left, atom.op)
            assert side is not None
            self._one_variable(side, op if right is None else _MIRRORED[op], constant)
            return None
        (path_l, fn_l), (path_r, fn_r) = left, right
        name_l, name_r = self._variable(path_l), self._variable(path_r)
        block_l, block_r = self.variables[name_l][0], self.variables[name_r][0]
        if block_l == block_r:
            self._fail(
                "XSCL_ATOM_INSIDE_BLOCK",
                f"{path_l.name} and {path_r.name} are variables of one block",
                atom.span,
                "conditions inside a document go into its brackets, compared with a literal",
            )
        if atom.op not in ("=", "!="):
            self._unsupported(
                "XSCL_UNSUPPORTED_COMPARISON",
                f"'{atom.op}' between two variables is not supported yet",
                atom.span,
                "'=' and '!=' are; compare with a literal inside brackets",
            )
        if block_l < block_r:
            return NormalJoin(name_l, name_r, atom.op, fn_l, fn_r)
        return NormalJoin(name_r, name_l, _MIRRORED[atom.op], fn_r, fn_l)  # type: ignore[arg-type]

    def _side(self, operand: ast.Operand) -> tuple[ast.VarPath, str] | None:
        """(variable path, functions) of an operand; None for a constant."""
        names = []
        while isinstance(operand, ast.FunctionOperand):
            names.append(operand.name)
            operand = operand.operand
        if isinstance(operand, ast.StringOperand) or operand.path is None:
            if names:
                self._fail("XSCL_SYNTAX", f"{names[0]}() is applied to a constant", operand.span, None)
            return None
        if operand.factor != 1 or operand.constant != 0:
            self._unsupported(
                "XSCL_UNSUPPORTED_COMPARISON",
                "arithmetic in a join predicate is not supported yet",
                operand.span,
                "compare plain variables",
            )
        return operand.path, " ".join(names)

    def _variable(self, path: ast.VarPath) -> str:
        """The variable a path stands for; a path with steps gets a branch and a variable of its own.

        Every occurrence gets its own, because every atom speaks of some node that the path reaches.
        """
        block, node = self._lookup(path.name, path.span)
        if not path.steps:
            return path.name
        last = self.trees[block][self._path(block, node, path.steps)]
        if last.variable is None:
            name = _path_text(path)
            while name in self.variables:
                name += "'"
            last.variable = name
            self.variables[name] = (block, self.trees[block].index(last))
        return last.variable

    def _lookup(self, name: str, span: Span) -> tuple[int, int]:
        place = self.variables.get(name)
        if place is None:
            known = ", ".join(sorted(self.variables)) or "none"
            raise UnboundVariableError(
                "XSCL_UNBOUND_VARIABLE",
                f"the variable {name} is not bound in any block",
                text=self.text,
                span=span,
                hint=f"bind it with ->{name} in a block; bound here: {known}",
            )
        return place

    def _one_variable(self, side: tuple[ast.VarPath, str], op: str, constant: ast.Operand) -> None:
        path, functions = side
        block, node = self.variables[self._variable(path)]
        if isinstance(constant, ast.StringOperand):
            value = Constant(constant.value, is_number=False)
        else:
            assert isinstance(constant, ast.Linear)
            value = Constant(str(constant.constant), is_number=True)
        self.trees[block][node].conditions.append(Compared(functions, op, value, numeric=value.is_number))

    # -- windows -----------------------------------------------------------------------------------------------

    def _windows(self, source: ast.Join) -> tuple[Bounds, bool]:
        following = source.op == "followed by"
        bounds = Bounds()
        once = ranged = False
        for window in source.windows:
            match window:
                case ast.RelativeWindow():
                    bounds &= self._relative(window)
                case ast.Window("once"):
                    if following:
                        self._fail(
                            "XSCL_SYNTAX",
                            "ONCE belongs to JOIN; FOLLOWED BY already orders its members",
                            window.span,
                            "leave it out",
                        )
                    once = True
                case ast.Window("max", _, high):
                    assert high is not None
                    bounds &= Bounds(-high, high)
                case ast.Window("range", low, high):
                    if not following:
                        self._fail(
                            "XSCL_SYNTAX",
                            "a range of differences belongs to FOLLOWED BY",
                            window.span,
                            "JOIN takes one duration, or a relative window such as y - x IN [1 s, 2 s]",
                        )
                    assert low is not None
                    ranged = True
                    bounds &= Bounds(low, UNBOUNDED if high is None else high)
                case ast.Window("within", _, high):
                    limit = UNBOUNDED if high is None else high
                    bounds &= Bounds(1, limit) if following else Bounds(-limit, limit)
        if following and not ranged:
            bounds &= Bounds(1, UNBOUNDED)
        # Bounds are stored in 64 bits; what lies beyond differs from no difference of two event times.
        bounds = Bounds(*(max(-UNBOUNDED, min(UNBOUNDED, bound)) for bound in (bounds.lo, bounds.hi)))
        if bounds.empty:
            raise UnsatisfiableWindowError(
                "XSCL_UNSATISFIABLE_WINDOW",
                "no event times satisfy these windows: the second block would have to be at least "
                f"{format_duration(bounds.lo)} and at most {format_duration(bounds.hi)} after the first",
                text=self.text,
                span=source.windows[0].span if source.windows else source.span,
                hint="FOLLOWED BY means a later second block; a..b needs a <= b",
            )
        return bounds, once

    def _relative(self, window: ast.RelativeWindow) -> Bounds:
        later = self._lookup(window.later, window.later_span)[0]
        earlier = self._lookup(window.earlier, window.earlier_span)[0]
        if later == earlier:
            self._fail(
                "XSCL_ATOM_INSIDE_BLOCK",
                f"{window.later} and {window.earlier} are variables of one block, whose difference in time is 0",
                window.span,
                "name variables of two blocks",
            )
        lo = -UNBOUNDED if window.low is None else window.low
        hi = UNBOUNDED if window.high is None else window.high
        return Bounds(lo, hi) if later > earlier else Bounds(-hi, -lo)

    def _require_tie(self, source: ast.Join, joins: list[NormalJoin], bounds: Bounds) -> None:
        if not joins and not bounds.finite:
            self._fail(
                "XSCL_UNTIED_BLOCK",
                "no predicate and no finite window ties the two blocks: every pair of events would match for ever",
                source.right.span,
                "add a predicate such as {x = y}, or a window such as {1 h}",
            )

    # -- refusals ----------------------------------------------------------------------------------------------

    def _fail(self, condition: str, message: str, span: Span, hint: str | None) -> NoReturn:
        raise QueryError(condition, message, text=self.text, span=span, hint=hint)

    def _unsupported(self, condition: str, message: str, span: Span, hint: str) -> NoReturn:
        raise UnsupportedFeatureError(condition, message, text=self.text, span=span, hint=hint)


def _constant(literal: ast.Literal_) -> Constant:
    if not literal.is_number:
        return Constant(literal.value, is_number=False)
    return Constant(number_text(literal.value) or literal.value, is_number=True)


def _comparison(left: Expression, op: str, literal: ast.Literal_) -> Comparison:
    return Comparison(left, op, _constant(literal))


def _path_text(path: ast.VarPath) -> str:
    def step_text(step: ast.Step) -> str:
        test = step.test
        name = "text()" if test.kind == "text" else (f"{test.prefix}:" if test.prefix else "") + test.local
        return ("/" if step.axis == "child" else "//") + ("@" if test.kind == "attribute" else "") + name

    return path.name + "".join(map(step_text, path.steps))
