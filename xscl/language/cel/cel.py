"""CEL, the Cayuga Event Language, to the tree of XSCL (docs/reference/cel.md).

A stream is a block, and each of its attributes a variable.  A relation has a tree and knows what its attributes are in
terms of these variables, so that renaming costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from xscl.base.errors import QueryError, Span, UnsupportedFeatureError
from xscl.language.cel import tree as cel
from xscl.language.cel.parser import parse_cel
from xscl.language.cel.tree import MIRRORED, conjuncts, literal_of
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_operand, format_query
from xscl.language.syntax.from_parser import filtered, members
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.step_parser import linear_of

__all__ = ["query_of_cel"]

_Schema = dict[str, ast.Expression]
"""Attributes of a relation in the order of its schema, by name."""


def query_of_cel(
    text: str, schemas: Mapping[str, Collection[str]], start: int = 0, end: int | None = None
) -> ast.Query:
    """Return the query of XSCL that a piece of a text says in CEL; ``schemas`` has the attributes of streams.

    Raises:
        QueryError: ``XSCL_SYNTAX``; ``XSCL_CEL``: names or schemas do not fit.
        UnsupportedFeatureError: ``XSCL_CEL_LIMIT``.
    """
    query = _Lowering(text, schemas).query(parse_cel(text, start, end))
    return parse_query(format_query(query))


@dataclass(slots=True)
class _Block:
    """A stream that a query reads."""

    stream: str
    variables: dict[str, str]
    """Variables by attribute."""
    brackets: list[ast.Predicate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation: blocks stand in its tree with their numbers for channels."""

    tree: ast.Tree
    schema: _Schema


@dataclass(frozen=True, slots=True)
class _Scope:
    """Attributes that a predicate speaks of."""

    one: _Schema
    two: _Schema | None = None
    last: Callable[[str, Span], ast.Expression] | None = None
    """Gives values of the iteration before."""


class _Lowering:
    def __init__(self, text: str, schemas: Mapping[str, Collection[str]]) -> None:
        self.text, self.schemas = text, schemas
        self.blocks: list[_Block] = []
        self.taken: set[str] = set()
        self.mentioned: set[str] = set()
        """Variables that functions speak of."""

    def query(self, query: cel.Query) -> ast.Query:
        found = self.selected(query)
        is_all = self.is_whole(found) and query.publish is None
        tree = self.built(found.tree, {*self.used(found, shown=not is_all), *self.mentioned})
        select = None if is_all else self.select(found)
        source = tree if isinstance(tree, ast.Block | ast.Join) else members(tree)
        steps = None if isinstance(tree, ast.Block | ast.Join) else tree
        publishes = query.publish is not None
        spanning = publishes and not query.is_point
        return ast.Query(source, select, query.publish, steps=steps, spanning=spanning, as_rows=publishes)

    # -- refusals ----------------------------------------------------------------------------------------------

    def fail(self, message: str, span: Span, hint: str) -> NoReturn:
        raise QueryError("XSCL_CEL", message, text=self.text, span=span, hint=hint)

    def limit(self, message: str, span: Span, hint: str) -> NoReturn:
        raise UnsupportedFeatureError("XSCL_CEL_LIMIT", message, text=self.text, span=span, hint=hint)

    # -- relations ---------------------------------------------------------------------------------------------

    def relation(self, relation: cel.Relation) -> _Relation:
        match relation:
            case cel.Stream():
                return self.stream(relation)
            case cel.Filter():
                return self.filter(relation)
            case cel.Next():
                return self.next(relation)
            case cel.Fold():
                return self.fold(relation)
            case cel.Query():
                if relation.publish is not None:
                    hint = "register it as a query of its own, and read its stream"
                    self.limit("a query in parentheses does not publish", relation.span, hint)
                return self.selected(relation)

    def stream(self, stream: cel.Stream) -> _Relation:
        names = self.schemas.get(stream.name)
        if names is None:
            known = ", ".join(sorted(self.schemas)) or "none"
            hint = f"CEL reads channels of rows, and what its queries publish; known here: {known}"
            self.fail(f"the attributes of {stream.name} are not known", stream.span, hint)
        number = len(self.blocks)
        variables = {name: self.fresh(name) for name in names}
        self.blocks.append(_Block(stream.name, variables))
        schema: _Schema = {name: ast.Linear(ast.VarPath(variable)) for name, variable in variables.items()}
        return _Relation(ast.Block(str(number)), schema)

    def fresh(self, name: str) -> str:
        """Return a variable that is not used yet."""
        found, number = name, 1
        while found in self.taken or found.lower() == "dur":
            number += 1
            found = f"{name}{number}"
        self.taken.add(found)
        return found

    def filter(self, relation: cel.Filter) -> _Relation:
        of = self.relation(relation.of)
        scope = _Scope(of.schema)
        conditions: list[ast.Atom | ast.Duration] = []
        for part in conjuncts(relation.predicate):
            bracket = self.bracket(part, of) if isinstance(of.tree, ast.Block) else None
            if bracket is not None:
                self.blocks[int(ast.blocks(of.tree)[0].channel)].brackets.append(bracket)
            elif isinstance(part, cel.Lasts):
                conditions.append(ast.Duration(part.op, part.time))
            else:
                conditions.append(self.atom(part, scope))
        return replace(of, tree=filtered(of.tree, tuple(conditions), (), relation.span))

    def next(self, relation: cel.Next) -> _Relation:
        left, right = self.relation(relation.left), self.relation(relation.right)
        atoms, windows = self.params(relation.predicate, _Scope(left.schema, right.schema))
        first = left.schema
        if first.keys() & right.schema.keys():
            first = {f"{name}_1": value for name, value in first.items()}
        schema = self.united(first, right.schema, relation.span)
        return _Relation(ast.Next(left.tree, right.tree, atoms, windows), schema)

    def united(self, left: _Schema, right: _Schema, span: Span) -> _Schema:
        twice = sorted(left.keys() & right.keys())
        if twice:
            hint = "rename one of them: (SELECT … AS …)"
            self.fail(f"two attributes would have the name {twice[0]} even after renaming", span, hint)
        return {**left, **right}

    def fold(self, relation: cel.Fold) -> _Relation:
        left, right = self.relation(relation.left), self.relation(relation.right)
        lacking = sorted(right.schema.keys() - left.schema.keys())
        if lacking:
            message = f"the left side of FOLD lacks {lacking[0]}, which its first iteration would be compared with"
            self.fail(message, relation.span, "the schema of the left side has all attributes of the right one")
        kept = {each.name: self.fresh(each.name) for each in relation.aggregates}
        for each in relation.aggregates:
            if each.name in right.schema:
                self.fail(f"{each.name} is an attribute of what FOLD takes", each.span, "give it another name")

        def last(name: str, span: Span) -> ast.Expression:
            variable = kept.get(name)
            if variable is None:
                plain = self.attribute(name, right.schema, span)
                variable = format_operand(plain)
            first = self.attribute(name, left.schema, span)
            self.mentioned |= {*_variables(first), variable}
            return ast.Linear(ast.VarPath(f"last({variable}, {format_operand(first)})"))

        scope = _Scope(left.schema, right.schema, last)
        atoms, windows = self.params(relation.choose, scope)
        go_on = tuple(self.atom(each, scope) for each in conjuncts(relation.go_on))
        accumulators = tuple(
            ast.Accumulator(self.value(each.value, scope), kept[each.name]) for each in relation.aggregates
        )
        changed = right.schema.keys() | kept.keys()
        first = {f"{name}_1" if name in changed else name: value for name, value in left.schema.items()}
        latest = {**right.schema, **{name: ast.Linear(ast.VarPath(variable)) for name, variable in kept.items()}}
        schema = self.united(first, latest, relation.span)
        return _Relation(ast.Fold(left.tree, right.tree, atoms, windows, go_on, accumulators), schema)

    def selected(self, query: cel.Query) -> _Relation:
        of = self.relation(query.of)
        if not query.items:
            return of
        schema: _Schema = {}
        for item in query.items:
            new = {item.name or "": self.value(item.value, _Scope(of.schema))} if item.value else of.schema
            if isinstance(item.value, cel.Attribute) and item.name is None:
                new = {item.value.name: new[""]}
            for name, value in new.items():
                if not name:
                    self.fail("this value has no name", item.span, "write AS name")
                if name in schema:
                    self.fail(f"two attributes have the name {name}", item.span, "write AS another")
                schema[name] = value
        return _Relation(of.tree, schema)

    # -- predicates --------------------------------------------------------------------------------------------

    def params(self, predicate: cel.Predicate, scope: _Scope) -> tuple[tuple[ast.Atom, ...], tuple[ast.Window, ...]]:
        atoms: list[ast.Atom] = []
        windows: list[ast.Window] = []
        for part in conjuncts(predicate):
            if isinstance(part, cel.Lasts):
                if part.op not in ("<", "<="):
                    hint = "write FILTER{DUR >= 10 min} around it"
                    self.limit("between the braces DUR has an upper bound only", part.span, hint)
                windows.append(ast.Window("max", None, part.time - (part.op == "<")))
            else:
                atoms.append(self.atom(self.chained(part, scope), scope))
        return tuple(atoms), tuple(windows)

    def chained(self, part: cel.Predicate, scope: _Scope) -> cel.Predicate:
        """Return ``$2.a = $.a`` as ``$2.a = $1.a``: what is equal to each before it is equal to the first."""
        if scope.last is not None and isinstance(part, cel.Compared) and part.op == "=":
            sides = (part.left, part.right)
            for this, other in (sides, sides[::-1]):
                if not isinstance(this, cel.Attribute) or not isinstance(other, cel.Attribute):
                    continue
                if (this.decorator, other.decorator) == ("$2", "$") and this.name == other.name:
                    return cel.Compared(this, "=", replace(other, decorator="$1"), part.span)
        return part

    def atom(self, part: cel.Predicate, scope: _Scope) -> ast.Atom:
        if not isinstance(part, cel.Compared):
            what = "DUR" if isinstance(part, cel.Lasts) else "OR" if isinstance(part, cel.Any) else "NOT"
            self.limit(f"{what} does not stand here", part.span, "use AND, or several queries")
        sides = []
        for side in (part.left, part.right):
            value = self.value(side, scope)
            if isinstance(value, ast.Arithmetic):
                self.limit("several attributes on one side of a comparison", side.span, "bring one to the other side")
            sides.append(value)
        return ast.Atom(sides[0], part.op, sides[1])

    def bracket(self, part: cel.Predicate, of: _Relation) -> ast.Predicate | None:
        """Return a condition on a stream as one in its brackets; None: it is another one."""
        match part:
            case cel.All(parts) | cel.Any(parts):
                found = [self.bracket(each, of) for each in parts]
                if any(each is None for each in found):
                    return None
                known = tuple(each for each in found if each is not None)
                return ast.And(known) if isinstance(part, cel.All) else ast.Or(known)
            case cel.No(inner):
                negated = self.bracket(inner, of)
                return None if negated is None else ast.Not(negated)
            case cel.Compared(left, op, right):
                if isinstance(right, cel.Attribute) and not isinstance(left, cel.Attribute):
                    left, right, op = right, left, MIRRORED[op]
                literal = literal_of(right)
                if not isinstance(left, cel.Attribute) or literal is None:
                    return None
                return self.compared(left, op, literal, of)
        return None

    def compared(self, left: cel.Attribute, op: ast.Op, literal: ast.Literal_, of: _Relation) -> ast.Predicate | None:
        if left.decorator not in ("", "$1"):
            self.fail(f"{left.decorator}. in FILTER, which reads one stream", left.span, "leave it out")
        block = self.blocks[int(ast.blocks(of.tree)[0].channel)]
        if left.name not in of.schema and f"{left.name}_1" not in of.schema:
            # A comparison with what an event lacks does not hold.
            return ast.Not(ast.Truth(ast.RelPath(())))
        value = self.attribute(left.name, of.schema, left.span)
        names = [name for name, variable in block.variables.items() if value == ast.Linear(ast.VarPath(variable))]
        if not names:
            return None
        path = ast.RelPath((ast.Step("child", ast.Test("element", None, names[0])),))
        return ast.Truth(path, op, literal)

    # -- values ------------------------------------------------------------------------------------------------

    def attribute(self, name: str, schema: _Schema, span: Span) -> ast.Expression:
        """Return what an attribute is; ``n`` is ``n_1`` where there is no ``n``."""
        found = schema.get(name, schema.get(f"{name}_1"))
        if found is None:
            self.fail(f"there is no attribute {name} here", span, f"there are {', '.join(schema)}")
        return found

    def value(self, expression: cel.Expression, scope: _Scope) -> ast.Expression:
        match expression:
            case cel.Number(number):
                return ast.Linear(None, constant=number)
            case cel.Text(text):
                return ast.StringOperand(text)
            case cel.Operation(op, left, right):
                one, other = self.value(left, scope), self.value(right, scope)
                if isinstance(one, ast.StringOperand) or isinstance(other, ast.StringOperand):
                    self.fail("arithmetic takes numbers", expression.span, "compare texts with = and !=")
                if op == "/" and isinstance(other, ast.Linear) and other.path is None and other.constant == 0:
                    self.fail("division by zero", expression.span, "divide by another number")
                return linear_of(op, one, other) or ast.Arithmetic(op, one, other)
            case cel.Attribute():
                return self.decorated(expression, scope)

    def decorated(self, attribute: cel.Attribute, scope: _Scope) -> ast.Expression:
        name, span, decorator = attribute.name, attribute.span, attribute.decorator
        if decorator == "$2" and scope.two is None or decorator == "$" and scope.last is None:
            self.fail(f"{decorator}. stands for nothing here", span, "$. belongs to FOLD, $2. to NEXT and FOLD")
        if decorator == "$" and scope.last is not None:
            return scope.last(name, span)
        schema = scope.one if scope.two is None or decorator == "$1" else scope.two
        if decorator == "" and scope.two is not None:
            sides = [side for side in (scope.one, scope.two) if name in side]
            if len(sides) > 1:
                self.fail(f"{name} is an attribute of both sides", span, f"write $1.{name} or $2.{name}")
            schema = sides[0] if sides else scope.one
        return self.attribute(name, schema, span)

    # -- the tree ----------------------------------------------------------------------------------------------

    def is_whole(self, found: _Relation) -> bool:
        """Return whether a relation has all attributes of one stream as they are."""
        if len(self.blocks) > 1:
            return False
        block = self.blocks[int(ast.blocks(found.tree)[0].channel)]
        return found.schema == {name: ast.Linear(ast.VarPath(each)) for name, each in block.variables.items()}

    def select(self, found: _Relation) -> tuple[ast.SelectItem, ...]:
        items = []
        for name, value in found.schema.items():
            text = format_operand(value)
            is_plain = isinstance(value, ast.Linear) and value == ast.Linear(value.path)
            if isinstance(value, ast.Arithmetic | ast.StringOperand) or not is_plain and self.is_joined(found.tree):
                self.limit(f"{name} is computed", Span(0, 0), "select attributes, and compute behind the query")
            items.append(ast.SelectItem(ast.VarPath(text), None if text == name else name))
        return tuple(items)

    def is_joined(self, tree: ast.Tree) -> bool:
        return isinstance(tree, ast.Block | ast.Join)

    def used(self, found: _Relation, *, shown: bool) -> Iterator[str]:
        """Yield the variables that a query speaks of in its steps, and if they are shown in its output."""
        for value in found.schema.values() if shown else ():
            yield from _variables(value)
        waiting: list[ast.Tree] = [found.tree]
        while waiting:
            tree = waiting.pop()
            atoms: tuple[ast.Atom | ast.Duration, ...] = ()
            match tree:
                case ast.Filter():
                    waiting.append(tree.of)
                    atoms = tree.conditions
                case ast.Next():
                    waiting += (tree.left, tree.right)
                    atoms = tree.atoms
                case ast.Fold():
                    waiting += (tree.left, tree.right)
                    atoms = (*tree.atoms, *tree.conditions)
                    for each in tree.accumulators:
                        yield from _variables(each.value)
            for atom in atoms:
                if isinstance(atom, ast.Atom):
                    yield from _variables(atom.left)
                    yield from _variables(atom.right)

    def built(self, tree: ast.Tree, used: set[str]) -> ast.Tree:
        """Return a tree with its blocks, which bind the variables that are used."""
        match tree:
            case ast.Block(number):
                block = self.blocks[int(number)]
                bound = [
                    ast.Truth(ast.RelPath((ast.Step("child", ast.Test("element", None, name), ast.Binding(variable)),)))
                    for name, variable in block.variables.items()
                    if variable in used
                ]
                return ast.Block(block.stream, None, (*block.brackets, *bound))
            case ast.Filter():
                return replace(tree, of=self.built(tree.of, used))
            case ast.Join():
                raise AssertionError(tree)
        return replace(tree, left=self.built(tree.left, used), right=self.built(tree.right, used))


def _variables(expression: ast.Expression) -> Iterator[str]:
    match expression:
        case ast.Arithmetic():
            yield from _variables(expression.left)
            yield from _variables(expression.right)
        case ast.Linear(ast.VarPath(name)):
            yield name
