"""The oracle: what a query answers, by trying everything (language.md, sections 3 to 5).

``answers`` tries every combination of documents and every assignment of nodes to variables.  It reads the
syntax tree as written and knows nothing of normal forms, templates, state or batches.  Keep its texts tiny.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from oracle.nodes import NAMESPACES, Namespaces, Node, parse, step_nodes
from oracle.texts import FUNCTIONS, normalize_space, number

from xscl import ast

Numeric = Mapping[str, frozenset[str]]
Answer = tuple[tuple[tuple[str, str], ...], tuple[int, ...]]
Env = dict[str, Node]
Value = str | Fraction | None
NO_COLUMNS: Numeric = {}
COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Doc:
    """One event; those with equal channel and item (not None) are versions of one item."""

    channel: str
    id: str
    ts: int
    xml: str
    late: bool = False
    item: str | None = None


@dataclass(frozen=True)
class Row:
    """A match with its variables: documents and result nodes in block order."""

    docs: tuple[Doc, ...]
    results: tuple[int, ...]
    nodes: Mapping[str, int]


def answers(
    query: ast.Query,
    docs: Sequence[Doc],
    *,
    numeric: Numeric = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> set[Answer]:
    """The matches of a query that selects no variables: distinct documents and result nodes by block."""
    rows = bindings_rows(query, docs, numeric=numeric, namespaces=namespaces)
    return {(tuple((doc.channel, doc.id) for doc in row.docs), row.results) for row in rows}


def rout(
    query: ast.Query,
    docs: Sequence[Doc],
    variables: Sequence[str] | None = None,
    *,
    numeric: Numeric = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> set[tuple[str | int, ...]]:
    """R_out of a query: the documents' ids, then the nodes of ``variables``, the joined ones if not given."""
    names = joined_variables(query) if variables is None else variables
    rows = bindings_rows(query, docs, numeric=numeric, namespaces=namespaces)
    return {(*(doc.id for doc in row.docs), *(row.nodes[name] for name in names)) for row in rows}


def joined_variables(query: ast.Query) -> list[str]:
    """The variables that atoms relate to another block, in the order in which the atoms mention them."""
    sides = [(_path(atom.left), _path(atom.right)) for join in _joins(query.source) for atom in join.atoms]
    return list(dict.fromkeys(path.name for pair in sides if None not in pair for path in pair if path))


def bindings_rows(
    query: ast.Query,
    docs: Sequence[Doc],
    *,
    numeric: Numeric = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> Iterator[Row]:
    """Every combination of documents and assignments that satisfies the query."""
    world = _World(numeric, {**NAMESPACES, **namespaces})
    blocks = ast.blocks(query.source)
    atoms = [atom for join in _joins(query.source) for atom in join.atoms]
    places = {name: place for place, block in enumerate(blocks) for name in variables_of(block)}
    channels = {name: blocks[place].channel for name, place in places.items()}
    for atom in atoms:
        world.check_blocks(atom, places)
    found: list[dict[Doc, list[tuple[Node, Env]]]] = []
    for block in blocks:
        usable = [d for d in docs if d.channel == block.channel and not (d.late and len(blocks) > 1)]
        found.append({doc: hits for doc in usable if (hits := world.block(block, parse(doc.xml)))})
    for members in product(*found):
        if not (_different(members) and _in_time(query.source, members, places)):
            continue
        for choice in product(*(hits[doc] for hits, doc in zip(found, members, strict=True))):
            env = {name: node for _, part in choice for name, node in part.items()}
            if all(world.atom(atom, env, channels) for atom in atoms):
                nodes = {name: node.id for name, node in env.items()}
                yield Row(members, tuple(result.id for result, _ in choice), nodes)


def witnesses(block: ast.Block, doc: Doc, *, namespaces: Namespaces = NAMESPACES) -> list[dict[str, int]]:
    """The distinct assignments of node ids to the block's variables for which the whole pattern holds."""
    hits = _World(NO_COLUMNS, {**NAMESPACES, **namespaces}).block(block, parse(doc.xml))
    distinct = {tuple(sorted((name, node.id) for name, node in env.items())) for _, env in hits}
    return [dict(pairs) for pairs in sorted(distinct)]


def variables_of(block: ast.Block) -> list[str]:
    """The variables that a block binds, in the order of its text."""

    def steps(found: Sequence[ast.Step]) -> Iterator[str]:
        for step in found:
            if step.binding:
                yield step.binding.name
            yield from predicates(step.predicates)

    def predicates(found: Sequence[ast.Predicate]) -> Iterator[str]:
        for predicate in found:
            match predicate:
                case ast.And(parts):
                    yield from predicates(parts)
                case ast.Truth(ast.RelPath(inner)):
                    yield from steps(inner)

    own = [block.binding.name] if block.binding else []
    return [*own, *predicates(block.predicates), *steps(block.steps)]


# -- documents and time --------------------------------------------------------------------------------------


def _joins(source: ast.Source) -> list[ast.Join]:
    return [*_joins(source.left), *_joins(source.right), source] if isinstance(source, ast.Join) else []


def _different(members: Sequence[Doc]) -> bool:
    ids = [(doc.channel, doc.id) for doc in members]
    items = [(doc.channel, doc.item) for doc in members if doc.item is not None]
    return len(set(ids)) == len(ids) and len(set(items)) == len(items)


def _in_time(source: ast.Source, members: Sequence[Doc], places: Mapping[str, int]) -> bool:
    return all(_join_in_time(join, start, members, places) for join, start in _placed(source, 0))


def _placed(source: ast.Source, start: int) -> list[tuple[ast.Join, int]]:
    """Every join with the place of its first block."""
    if isinstance(source, ast.Block):
        return []
    middle = start + len(ast.blocks(source.left))
    return [*_placed(source.left, start), *_placed(source.right, middle), (source, start)]


def _join_in_time(join: ast.Join, start: int, members: Sequence[Doc], places: Mapping[str, int]) -> bool:
    middle = start + len(ast.blocks(join.left))
    left, right = members[start:middle], members[middle : start + len(ast.blocks(join))]
    # A composite counts by its latest member.
    first, second = (max((d.ts, d.channel, d.id) for d in side) for side in (left, right))
    delta = second[0] - first[0]
    ranges = [w for w in join.windows if isinstance(w, ast.Window) and w.kind == "range"]
    if join.op == "followed by" and not ranges and delta <= 0:
        return False
    for window in join.windows:
        match window:
            case ast.RelativeWindow(later, earlier, low, high):
                holds = _within(members[places[later]].ts - members[places[earlier]].ts, low, high)
            case ast.Window("range", low, high):
                holds = _within(delta, low, high)
            case ast.Window("max", _, high):
                holds = _within(max(d.ts for d in members) - min(d.ts for d in members), 0, high)
            case ast.Window("within", _, high) if join.op == "followed by":
                holds = _within(delta, 1, high)
            case ast.Window("within", _, high):
                holds = _within(abs(delta), 0, high)
            case _:  # ONCE
                holds = first < second
        if not holds:
            return False
    return True


def _within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _path(operand: ast.Operand) -> ast.VarPath | None:
    while isinstance(operand, ast.FunctionOperand):
        operand = operand.operand
    return operand.path if isinstance(operand, ast.Linear) else None


@dataclass(frozen=True)
class _World:
    """What does not change while one query is answered."""

    numeric: Numeric
    namespaces: Namespaces

    # -- patterns --------------------------------------------------------------------------------------------

    def block(self, block: ast.Block, document: Node) -> list[tuple[Node, Env]]:
        """Every (result node, assignment) of a block in one document."""
        root = document.children[0]
        own = {block.binding.name: root} if block.binding else {}
        found = []
        for brackets in self.all_of(block.predicates, root):
            if block.steps:
                found += [(end, own | brackets | env) for end, env in self.walk(block.steps, document)]
            else:
                found.append((root, own | brackets))
        return found

    def walk(self, steps: Sequence[ast.Step], node: Node) -> Iterator[tuple[Node, Env]]:
        """Every node the path ends in, with what is bound on the way there."""
        if not steps:
            yield node, {}
            return
        step, *rest = steps
        for reached in step_nodes(step, node, self.namespaces):
            own = {step.binding.name: reached} if step.binding else {}
            for brackets in self.all_of(step.predicates, reached):
                for end, env in self.walk(rest, reached):
                    yield end, own | brackets | env

    def all_of(self, predicates: Sequence[ast.Predicate], node: Node) -> Iterator[Env]:
        """The assignments under which all the predicates hold at a node."""
        if not predicates:
            yield {}
            return
        for first in self.satisfy(predicates[0], node):
            for others in self.all_of(predicates[1:], node):
                yield first | others

    def satisfy(self, predicate: ast.Predicate, node: Node) -> Iterator[Env]:
        """The assignments under which a predicate holds at a node; one empty one where it binds nothing."""
        match predicate:
            case ast.And(parts):
                yield from self.all_of(parts, node)
            case ast.Truth(ast.RelPath(steps), op, literal):
                for end, env in self.walk(steps, node):
                    if op is None or literal is None or _xpath_compare(end.string(), op, literal):
                        yield env
            case _:
                if self.holds(predicate, node):
                    yield {}

    def holds(self, predicate: ast.Predicate, node: Node) -> bool:
        """XPath 1.0's truth of a predicate that binds nothing."""
        match predicate:
            case ast.Or(parts):
                return any(self.holds(part, node) for part in parts)
            case ast.Not(part):
                return not self.holds(part, node)
            case ast.Truth(ast.Call() as call, op, literal):
                value = self.value(call, node)
                return bool(value) if op is None or literal is None else _xpath_compare(value, op, literal)
            case _:
                return any(True for _ in self.satisfy(predicate, node))

    def reach(self, path: ast.RelPath | ast.VarPath, node: Node) -> list[Node]:
        """The node set of a path, in document order."""
        distinct = {end.id: end for end, _ in self.walk(path.steps, node)}
        return [distinct[number] for number in sorted(distinct)]

    def value(self, expression: ast.RelPath | ast.Literal_ | ast.Call, node: Node) -> str | float | bool:
        """XPath 1.0's value of an argument or a call."""
        match expression:
            case ast.Literal_(value, is_number):
                return float(value) if is_number else value
            case ast.RelPath():
                return next((end.string() for end in self.reach(expression, node)), "")
            case ast.Call("count", (ast.RelPath() as path,)):
                return float(len(self.reach(path, node)))
        texts = [_xpath_string(self.value(arg, node)) for arg in expression.args] or [node.string()]
        match expression.name, texts:
            case "contains", [text, part]:
                return part in text
            case "starts-with", [text, part]:
                return text.startswith(part)
            case "string-length", [text]:
                return float(len(text))
            case "lower", [text]:
                return text.lower()
            case "normalize-space", [text]:
                return normalize_space(text)
        raise ValueError(f"no function of brackets: {expression.name}")

    # -- atoms -----------------------------------------------------------------------------------------------

    def check_blocks(self, atom: ast.Atom, places: Mapping[str, int]) -> None:
        """Refuse what is no query: the oracle speaks of sound queries only."""
        paths = [path for path in (_path(atom.left), _path(atom.right)) if path]
        if not paths or len({places[path.name] for path in paths}) < len(paths):
            raise ValueError("an atom relates variables of different blocks, or one variable and a constant")

    def atom(self, atom: ast.Atom, env: Env, channels: Mapping[str, str]) -> bool:
        """Whether an atom holds for some of the nodes its paths reach."""
        sides = [self.candidates(side, env, channels) for side in (atom.left, atom.right)]
        return any(_compare(left, atom.op, right) for left, right in product(*sides))

    def candidates(self, operand: ast.Operand, env: Env, channels: Mapping[str, str]) -> list[Value]:
        """The values an operand takes: a number is a Fraction, None satisfies nothing."""
        match operand:
            case ast.StringOperand(value):
                return [value]
            case ast.FunctionOperand(name, inner):
                values = self.candidates(inner, env, {})
                if any(isinstance(value, Fraction) for value in values):
                    raise ValueError("functions of atoms take strings")
                return [value if value is None else FUNCTIONS[name](str(value)) for value in values]
            case ast.Linear(None, _, constant):
                return [constant]
        assert isinstance(operand, ast.Linear) and operand.path is not None
        plain = operand.factor == 1 and operand.constant == 0
        channel = channels.get(operand.path.name, "")
        found: list[Value] = []
        for node in self.reach(operand.path, env[operand.path.name]):
            text = node.string()
            if plain and not self.is_number(node, channel):
                found.append(text)
            else:
                exact = number(text)
                found.append(None if exact is None else operand.factor * exact + operand.constant)
        return found

    def is_number(self, node: Node, channel: str) -> bool:
        """Whether a node is a numeric column: a child of the root of a row."""
        columns = self.numeric.get(channel, frozenset())
        return node.kind == "element" and node.depth == 2 and node.uri == "" and node.local in columns


def _compare(left: Value, op: str, right: Value) -> bool:
    """An atom's comparison: of strings only if both are and the operator is ``=`` or ``!=``."""
    if isinstance(left, str) and isinstance(right, str) and op in ("=", "!="):
        return bool(COMPARE[op](left, right))
    exact = (number(side) if isinstance(side, str) else side for side in (left, right))
    numbers = [value for value in exact if value is not None]
    return len(numbers) == 2 and bool(COMPARE[op](*numbers))


def _xpath_compare(value: str | float | bool, op: str, literal: ast.Literal_) -> bool:
    """XPath 1.0, 3.4: ``!=`` holds for what is no number, unlike in atoms."""
    if isinstance(value, bool) and op in ("=", "!="):
        truth = float(literal.value) != 0 if literal.is_number else literal.value != ""
        return bool(COMPARE[op](value, truth))
    if isinstance(value, str) and not literal.is_number and op in ("=", "!="):
        return bool(COMPARE[op](value, literal.value))
    return bool(COMPARE[op](_xpath_number(value), _xpath_number(literal.value)))


def _xpath_number(value: str | float | bool) -> float:
    if not isinstance(value, str):
        return float(value)
    return float(value) if number(value) is not None else float("nan")


def _xpath_string(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else repr(value)
    return value
