"""Value-join normal form of syntax trees (thesis 6.2): names by URI, one tree of nodes per block, joins of variables
only.

Normalization changes a query so:

- brackets with paths become branches of the block's tree, whether they bind variables or not; every other bracket
  becomes a condition on its node;
- a path that follows a variable in an atom becomes a branch with a variable of its own;
- an atom with one variable becomes a condition on that variable's node;
- windows become bounds on the differences of event times (``windows``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

from xscl.base.errors import QueryError, Span
from xscl.base.own_functions import own_parts, shown_name
from xscl.base.values import apply_functions, number_text
from xscl.language.conditions import Brackets, comparison
from xscl.language.declared import atom_function
from xscl.language.row_windows import rows_of
from xscl.language.syntax import ast
from xscl.language.windows import PlacedJoin, bound_block, cases_of, placed_joins
from xscl.templates.bounds import Case, pair_index
from xscl.xpath.pattern import Compared, Condition, Constant, Here, NodeTest, Step

__all__ = ["MAX_JOINS", "NormalBlock", "NormalJoin", "NormalQuery", "TreeNode", "normalize"]

_MIRRORED: Mapping[ast.Op, ast.Op] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MAX_JOINS = 100
"""Value joins of one query: each is seven columns of R_T, and stores limit columns."""
_LARGEST = Fraction(10) ** 300
"""Doubles end at 1.8e308 and lose digits below 2.2e-308."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an atom: ``factor * functions(path) + constant``."""

    path: ast.VarPath
    functions: str
    linear: bool
    factor: Fraction
    constant: Fraction


@dataclass(slots=True, eq=False)
class TreeNode:
    """A node of a block's tree; the document node has no step."""

    parent: int
    step: Step | None
    variable: str | None = None
    conditions: list[Condition] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    """The place of each condition in the text."""

    def require(self, condition: Condition, span: Span) -> None:
        """Add a condition."""
        self.conditions.append(condition)
        self.spans.append(span)


@dataclass(frozen=True, slots=True)
class NormalBlock:
    """A block's tree: node 0 is the document node, parents come before children."""

    channel: str
    nodes: list[TreeNode]
    result: int


@dataclass(frozen=True, slots=True)
class NormalJoin:
    """A comparison of two variables of different blocks, with the earlier block on the left.

    The comparison is ``left op f * right + add``; ``linear`` is whether any arithmetic was written, which makes it a
    comparison of numbers.  ``f`` and ``add`` are exact.
    """

    left: str
    right: str
    op: ast.Op
    fn_l: str
    fn_r: str
    linear: bool = False
    f: Fraction = Fraction(1)
    add: Fraction = Fraction(0)
    span: Span = field(default=ast.NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NormalQuery:
    """A query in value-join normal form."""

    blocks: tuple[NormalBlock, ...]
    variables: Mapping[str, tuple[int, int]]
    """Variable to (block, node)."""
    joins: tuple[NormalJoin, ...]
    cases: tuple[Case, ...]
    """Bounds of the differences of event times; the cases are disjoint."""
    rows: tuple[int, ...]
    """Number of newest events of its channel that each block's event is among, 0 for any; empty: all have any."""
    block_names: tuple[str, ...]
    """Name of each block: its first variable, or its place and channel."""
    selected: tuple[str, ...]
    """The variables that SELECT mentions, in the order of first mention."""


def normalize(query: ast.Query, text: str, namespaces: Mapping[str, str] | None = None) -> NormalQuery:
    """Return the normal form of a query; spans speak of ``text``.

    Raises:
        QueryError: the query is not sound, or asks for something not supported; with line, column and hint.
    """
    return _Normalizer(text, Brackets(text, namespaces)).query(query)


class _Normalizer:
    def __init__(self, text: str, brackets: Brackets) -> None:
        self.text = text
        self.brackets = brackets
        self.trees: list[list[TreeNode]] = []
        self.variables: dict[str, tuple[int, int]] = {}

    def query(self, query: ast.Query) -> NormalQuery:
        sources = ast.blocks(query.source)
        blocks = tuple(self._block(block) for block in sources)
        joins = tuple(self._joins(query.source))
        named = {place: name for name, (place, _) in reversed(self.variables.items())}
        names = tuple(named.get(i, f"block {i + 1} ({block.channel})") for i, block in enumerate(sources))
        block_of = {name: place for name, (place, _) in self.variables.items()}
        cases = cases_of(query.source, self.text, block_of, names)
        rows = rows_of(query.source, self.text, block_of, len(sources))
        self._require_ties(sources, joins, cases)
        return NormalQuery(blocks, self.variables, joins, cases, rows, names, self._selected(query.select))

    def _selected(self, select: ast.Select) -> tuple[str, ...]:
        found = [path for path in ast.selected(select) if self._lookup(path.name, path.span)]
        return tuple(dict.fromkeys(path.name for path in found))

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
            parent = self._add(block, parent, Step(step.axis, self.brackets.test(step.test)), step.binding)
            self._predicates(block, parent, step.predicates)
        return parent

    # -- brackets ----------------------------------------------------------------------------------------------

    def _predicates(self, block: int, node: int, predicates: tuple[ast.Predicate, ...]) -> None:
        for predicate in predicates:
            match predicate:
                case ast.And(parts):
                    self._predicates(block, node, parts)
                case ast.Truth(ast.RelPath(steps), op, literal) if steps:
                    last = self._path(block, node, steps)
                    if op is not None and literal is not None:
                        self.trees[block][last].require(comparison(Here(), op, literal), predicate.span)
                case _:
                    self.trees[block][node].require(self.brackets.condition(predicate), predicate.span)

    # -- atoms -------------------------------------------------------------------------------------------------

    def _joins(self, source: ast.Source) -> Iterator[NormalJoin]:
        found: set[NormalJoin] = set()
        for placed in placed_joins(source):
            for atom in placed.join.atoms:
                join = self._atom(atom, placed)
                if join is None or join in found:
                    continue
                if len(found) == MAX_JOINS:
                    self._fail(
                        "XSCL_TOO_MANY_ATOMS",
                        f"a query has at most {MAX_JOINS} atoms that join two variables",
                        atom.span,
                        "leave out joins that follow from others, or publish a part of it as a channel and join that",
                    )
                found.add(join)
                yield join

    def _atom(self, atom: ast.Atom, placed: PlacedJoin) -> NormalJoin | None:
        left, right = self._side(atom.left), self._side(atom.right)
        op = atom.op
        if isinstance(left, str | Fraction):
            left, right, op = right, left, _MIRRORED[op]
        if isinstance(left, str | Fraction):
            self._fail("XSCL_SYNTAX", "this compares two constants", atom.span, "use a variable on one side")
        block_l = self._lookup(left.path.name, left.path.span, placed)[0]
        if isinstance(right, str | Fraction):
            self._one_variable(left, op, right, atom.span)
            return None
        block_r = self._lookup(right.path.name, right.path.span, placed)[0]
        if block_l == block_r:
            self._fail(
                "XSCL_ATOM_INSIDE_BLOCK",
                f"{left.path.name} and {right.path.name} are variables of one block",
                atom.span,
                "conditions inside a document go into its brackets, compared with a literal",
            )
        name_l, name_r = self._variable(left.path), self._variable(right.path)
        if block_l > block_r:
            left, right, name_l, name_r, op = right, left, name_r, name_l, _MIRRORED[op]
        if not (left.linear or right.linear):
            return NormalJoin(name_l, name_r, op, left.functions, right.functions, span=atom.span)
        f, add = right.factor / left.factor, (right.constant - left.constant) / left.factor
        if (reason := _too_far(f, add)) is not None:
            self._fail(
                "XSCL_SYNTAX",
                f"solved for one side, this has {reason} a number for arithmetic",
                atom.span,
                "factors lie between 1e-300 and 1e300, addends within 1e300",
            )
        if left.factor < 0:
            op = _MIRRORED[op]
        return NormalJoin(name_l, name_r, op, left.functions, right.functions, True, f, add, atom.span)

    def _side(self, operand: ast.Operand) -> _Side | str | Fraction:
        """Return an operand with a variable, or a constant."""
        names: list[str] = []
        while isinstance(operand, ast.FunctionOperand):
            names.append(atom_function(operand, self.brackets.namespaces, self.text))
            operand = operand.operand
        functions = " ".join(names)
        if isinstance(operand, ast.StringOperand):
            if own := own_parts(functions):
                # Whoever registers a text has the function called by nobody.
                said = f"{shown_name(own[0])}() is applied to a constant"
                self._fail("XSCL_SYNTAX", said, operand.span, "write the value that it gives")
            value = apply_functions(functions, operand.value) if names else operand.value
            if value is None:
                self._fail("XSCL_SYNTAX", f"{names[0]}() has no value here", operand.span, "write the value itself")
            return value
        if operand.path is None:
            if names:
                self._fail(
                    "XSCL_SYNTAX", f"{shown_name(names[0])}() is applied to a number", operand.span, "it takes text"
                )
            return operand.constant
        if operand.factor == 0:
            self._fail("XSCL_SYNTAX", f"{operand.path.name} is multiplied by 0", operand.span, "leave it out")
        linear = operand.factor != 1 or operand.constant != 0
        if linear and names:
            self._fail(
                "XSCL_SYNTAX",
                f"{shown_name(names[0])}() takes text, not arithmetic",
                operand.span,
                "compare plain variables",
            )
        return _Side(operand.path, functions, linear, operand.factor, operand.constant)

    def _variable(self, path: ast.VarPath) -> str:
        """Return the variable a path stands for; a path with steps gets a branch and a variable of its own.

        Every occurrence gets its own, because every atom speaks of some node that the path reaches.
        """
        block, node = self.variables[path.name]
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

    def _lookup(self, name: str, span: Span, placed: PlacedJoin | None = None) -> tuple[int, int]:
        """Return (block, node) of a variable; with ``placed``, of one that is joined so far."""
        block_of = {known: block for known, (block, _) in self.variables.items()}
        bound_block(name, span, self.text, block_of, None if placed is None else placed.blocks)
        return self.variables[name]

    def _one_variable(self, side: _Side, op: ast.Op, constant: str | Fraction, span: Span) -> None:
        """Add a condition to a node: ``factor * node + constant op value``, solved for the node."""
        if isinstance(constant, str) and side.linear:
            number = number_text(constant)
            if number is None:
                self._fail("XSCL_SYNTAX", f"'{constant}' is no number", side.path.span, "arithmetic takes numbers")
            constant = Fraction(number)
        if isinstance(constant, Fraction):
            constant = (constant - side.constant) / side.factor
        op = _MIRRORED[op] if side.factor < 0 else op
        value = Constant(str(constant), is_number=isinstance(constant, Fraction))
        block, node = self.variables[self._variable(side.path)]
        self.trees[block][node].require(Compared(side.functions, op, value, numeric=value.is_number), span)

    # -- ties --------------------------------------------------------------------------------------------------

    def _require_ties(
        self, sources: tuple[ast.Block, ...], joins: tuple[NormalJoin, ...], cases: tuple[Case, ...]
    ) -> None:
        """Require that predicates or finite bounds tie every block to the others, whichever case holds."""
        joined = {(self.variables[join.left][0], self.variables[join.right][0]) for join in joins}
        for case in cases:
            finite = {pair for pair, place in pair_index(len(sources)).items() if case[place].finite}
            tied = {0}
            while more := {b for pair in joined | finite for b in pair if tied & set(pair)} - tied:
                tied |= more
            for place, block in enumerate(sources):
                if place not in tied:
                    self._fail(
                        "XSCL_UNTIED_BLOCK",
                        f"no predicate and no finite window ties the block of {block.channel} to the ones before it: "
                        "every pair of events would match for ever",
                        block.span,
                        "add a predicate such as {x = y}, or a window such as {1 h}",
                    )

    # -- refusals ----------------------------------------------------------------------------------------------

    def _fail(self, condition: str, message: str, span: Span, hint: str | None) -> NoReturn:
        raise QueryError(condition, message, text=self.text, span=span, hint=hint)


def _too_far(f: Fraction, add: Fraction) -> str | None:
    """Return the reason why ``left op f * right + add``, solved for either side, is unfit for doubles, or None."""
    if abs(f) > _LARGEST or abs(f) < 1 / _LARGEST:
        return f"a factor that is too {'large' if abs(f) > 1 else 'small'}"
    if max(abs(add), abs(add / f)) > _LARGEST:
        return "an addend that is too large"
    return None


def _path_text(path: ast.VarPath) -> str:
    def step_text(step: ast.Step) -> str:
        test = step.test
        name = "text()" if test.kind == "text" else (f"{test.prefix}:" if test.prefix else "") + test.local
        return ("/" if step.axis == "child" else "//") + ("@" if test.kind == "attribute" else "") + name

    return path.name + "".join(map(step_text, path.steps))
