"""Operators of registered queries: conditions, windows, joins, steps and absence, as rules of sharing speak of them.

Shapes are the keys by which the engine itself shares work: instances of joins, definitions of windows and steps.
The operators of a query in parentheses are those of the query around it, which reads their events from a channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from xscl.base.durations import format_duration
from xscl.language.aggregates import definition_of
from xscl.language.compile import at_level
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import is_sub_query
from xscl.language.outlines.steps import known_shape
from xscl.language.steps.parts import parts_of
from xscl.language.steps.shapes import slots_in, step_id
from xscl.language.steps.terms import Filter, Fold, Next, Node, Part, Without
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_level, format_negation, format_operand, format_operator, format_query
from xscl.language.syntax.parser import parse_level, parse_query
from xscl.language.variable_paths import paths_of, pattern_of, selected_paths
from xscl.templates.rules import Kind, Operator

__all__ = ["EVERY", "Queried", "operators_of"]

EVERY = "every event"
"""Words of a condition that everything satisfies."""
Source = str | int
"""A channel, or the number of an operator."""
_Paths = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Queried:
    """A query that is planned."""

    name: str
    text: str
    namespaces: Mapping[str, str]
    level: str | None
    """Level of consistency that it is kept with; None: it has none."""


_Compile = Callable[[str, Mapping[str, str]], CompiledQuery]
"""Compiles a text with namespaces."""
_SubQuery = Callable[[str], Queried | None]
"""Gives the query whose answers a channel has; None: it ended meanwhile."""


@dataclass(slots=True)
class _Operators:
    """Operators of one query that were met so far; equal ones are one."""

    query: str
    found: list[Operator] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)
    """Operators whose events are the answers of queries in parentheses, by their channels."""
    known: dict[Hashable, int] = field(default_factory=dict)

    def add(
        self,
        kind: Kind,
        shape: Hashable,
        own: Hashable,
        inputs: tuple[Source, ...],
        text: str,
        constants: str = "",
    ) -> int:
        """Return the number of an operator, new or known."""
        key = kind, shape, own, inputs
        if key not in self.known:
            self.known[key] = len(self.found)
            self.found.append(Operator(self.query, len(self.found), kind, shape, own, inputs, text, constants))
        return self.known[key]

    def publish(self, source: Source, channel: str) -> None:
        """Note where the answers of a query in parentheses come from."""
        if isinstance(source, str):
            source = self.add("select", (), (), (source,), EVERY)
        self.found[source] = replace(self.found[source], channel=channel)
        self.channels[channel] = source


@lru_cache(maxsize=1 << 12)
def _part_tree(text: str) -> ast.Query:
    """Return the tree of a query that is part of many others."""
    return parse_query(text)


def operators_of(query: Queried, compile_: _Compile, sub_query: _SubQuery) -> list[Operator]:
    """Return the operators of a query, each behind those that it reads."""
    made = _Operators(query.name)
    last = _Reader(made, query, compile_, sub_query).answers()
    return [replace(each, is_last=each.number == last) for each in made.found]


class _Reader:
    """Reads a query, and the queries that it is made of."""

    def __init__(self, made: _Operators, query: Queried, compile_: _Compile, sub_query: _SubQuery) -> None:
        self.made, self.query, self.compile, self.sub_query = made, query, compile_, sub_query

    def answers(self) -> Source:
        """Return the channel or the operator that the answers of the query come from."""
        text, level = self.query.text, self.query.level
        compiled = self.compile(text, self.query.namespaces)
        if level is not None:
            compiled = at_level(compiled, parse_level(level))
        return self.source(parse_query(text), text, compiled)

    def source(self, tree: ast.Query, text: str, compiled: CompiledQuery) -> Source:
        """Return the channel or the operator that the matches of a query come from."""
        if compiled.stepped:
            return self._steps(tree, text, compiled)
        if compiled.windowed is not None:
            return self._windows(tree, text, compiled)
        if compiled.absence is not None:
            return self._absence(tree, compiled)
        blocks = [self._block(place, block, compiled) for place, block in enumerate(ast.blocks(tree.source))]
        if len(blocks) == 1:
            return blocks[0]
        group = compiled.group
        names = paths_of(ast.blocks(tree.source))
        said, constants = _joined(tree.source, names)
        own = group.cases, group.streams
        return self.made.add("join", group.instance.key, own, tuple(blocks), said, constants)

    def _part(self, text: str, compiled: CompiledQuery) -> Source:
        return self.source(_part_tree(text), text, compiled)

    def _block(self, place: int, block: ast.Block, compiled: CompiledQuery) -> Source:
        """Return the channel or the operator that the documents of a block come from."""
        conditions = [_predicate(block, each) for each in block.predicates if _is_condition(each)]
        channel = self._channel(block.channel)
        if not conditions and not block.steps:
            return channel
        instance, guard = compiled.group.instance, compiled.group.guard(place)
        shape = instance.nodes[instance.results[place]].var, None if guard is None else guard.name
        below = pattern_of(block.steps)
        said = [" and ".join(text for text, _ in conditions)] if conditions else []
        constants = conditions[0][1] if len(conditions) == 1 else ""
        if constants:
            said = [conditions[0][0].removesuffix(constants) + "{}"]
        return self.made.add("select", shape, (), (channel,), " ".join([below, *said]).strip(), constants)

    def _channel(self, name: str) -> Source:
        """Return where the events of a channel come from: the query in parentheses that publishes them, or itself."""
        if is_sub_query(name) and name not in self.made.channels and (query := self.sub_query(name)) is not None:
            inner = replace(self.made, known={})
            inner.publish(_Reader(inner, query, self.compile, self.sub_query).answers(), name)
        return self.made.channels.get(name, name)

    # -- windows -----------------------------------------------------------------------------------------------

    def _windows(self, tree: ast.Query, text: str, compiled: CompiledQuery) -> Source:
        assert tree.aggregate is not None and compiled.windowed is not None
        of = self._part(compiled.windowed.text, compiled.windowed.compiled)
        definition = definition_of(tree, text, self.query.namespaces)
        names = paths_of(ast.blocks(tree.source))
        paths = selected_paths(_part_tree(compiled.windowed.text))
        kind = definition.window, definition.every, definition.last, definition.per, definition.group
        told = definition.columns, definition.element, definition.holes
        own = kind, definition.aggregates, definition.crossing, definition.once_per, definition.top, definition.by, told
        said = _with_paths(_window(tree), names)
        found = self.made.add("aggregate", (paths, len(compiled.channels)), own, (of,), said)
        if not definition.having:
            return found
        conditions, constants = _conditions(tree.aggregate.having, names)
        # The windows of each selection of a channel are looked at by themselves.
        shape = definition.having, self.made.found[of].shape if isinstance(of, int) else of
        return self.made.add("select", shape, (), (found,), conditions, constants)

    # -- steps -------------------------------------------------------------------------------------------------

    def _steps(self, tree: ast.Query, text: str, compiled: CompiledQuery) -> Source:
        assert tree.steps is not None
        names = paths_of([*ast.blocks(tree.source), *(each.right for each in tree.negations)])
        absent = list(tree.negations)
        sources = [self._part(part.text, part.compiled) for part in compiled.stepped]
        shape, numbers = known_shape(text, tuple(sorted(self.query.namespaces.items())))
        # Right sides that select other nodes are other rows.
        told = [[path.name for path in ast.selected(part.select)] for part in parts_of(tree)]
        paths = tuple(tuple(names.get(name, name) for name in part) for part in told)
        level = compiled.level or ast.STRONG
        shared = step_id(shape, [part.channels for part in shape.parts], (level.behind, level.memory)), paths

        def keys(node: Node) -> tuple[Hashable, Hashable]:
            # The engine runs the whole of the steps of a shape as one.
            return (*shared, places[id(node)]), tuple(numbers[place] for place in slots_in(node))

        def walked(node: Node, said: ast.Tree) -> Source:
            if isinstance(node, Part):
                return sources[node.number]
            if isinstance(node, Filter):
                assert isinstance(said, ast.Filter)
                words, constants = _filter(said, names)
                return self.made.add("select", *keys(node), (walked(node.of, said.of),), words, constants)
            if isinstance(node, Without):
                negation = absent.pop()
                sides = walked(node.left, said), sources[node.right.number]
                words = f"{negation.op.replace(' ', '-')} {_inside(format_negation(negation))}".strip()
                return self.made.add("absence", *keys(node), sides, _with_paths(words, names))
            assert isinstance(said, ast.Next | ast.Fold)
            inputs = walked(node.left, said.left), walked(node.right, said.right)
            kind: Kind = "next" if isinstance(node, Next) else "fold"
            words = f"{kind} {_inside(format_operator(said))}".strip()
            return self.made.add(kind, *keys(node), inputs, _with_paths(words, names))

        places = {id(node): place for place, node in enumerate(_nodes(shape.root))}
        return walked(shape.root, tree.steps)

    # -- absence -----------------------------------------------------------------------------------------------

    def _absence(self, tree: ast.Query, compiled: CompiledQuery) -> Source:
        assert compiled.absence is not None
        inputs = tuple(self._part(part.text, part.compiled) for part in compiled.absence.parts)
        level = None if compiled.level is None else format_level(compiled.level)
        keys = tuple(part.compiled.group.key for part in compiled.absence.parts)
        own = compiled.absence.ends, level, keys, compiled.absence.retracts
        said = [each.op.replace(" ", "-") for each in tree.negations] + ["newest version"] * compiled.absence.retracts
        return self.made.add("absence", compiled.absence.shown, own, inputs, " ".join(said))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Filter():
            yield from _nodes(node.of)
        case Next() | Fold() | Without():
            yield from _nodes(node.left)
            yield from _nodes(node.right)


def _joined(source: ast.Source, names: _Paths) -> tuple[str, str]:
    """Return the joins of some blocks as words, and the window of one join alone."""
    assert isinstance(source, ast.Join)
    of_two = isinstance(source.left, ast.Block) and isinstance(source.right, ast.Block)
    window = source.windows[0] if of_two and len(source.windows) == 1 else None
    if isinstance(window, ast.Window) and window.kind == "within" and window.high is not None:
        atoms = _inside(format_operator(replace(source, windows=())))
        return f"{source.op} {_with_paths(atoms, names)} within {{}}", format_duration(window.high)
    return _with_paths(_join_words(source), names), ""


def _join_words(source: ast.Source) -> str:
    """Return the joins of some blocks in the order of the text, those of a right side in parentheses."""
    if not isinstance(source, ast.Join):
        return ""
    right = _join_words(source.right)
    words = (_join_words(source.left), format_operator(source), right and f"({right})")
    return " ".join(filter(None, words))


# -- words ---------------------------------------------------------------------------------------------------------


def _is_condition(predicate: ast.Predicate) -> bool:
    """Tell whether a bracket selects documents, and does not only name nodes of them."""
    match predicate:
        case ast.And(parts):
            return any(map(_is_condition, parts))
        case ast.Truth(ast.RelPath(steps), None):
            return not any(step.binding is not None for step in steps)
    return True


def _predicate(block: ast.Block, predicate: ast.Predicate) -> tuple[str, str]:
    """Return a bracket as words, and the constant that ends it."""
    said = format_query(ast.Query(ast.Block(block.channel, None, (predicate,)))).removeprefix(block.channel)[1:-1]
    constants = ""
    if isinstance(predicate, ast.Truth) and predicate.literal is not None:
        constants = predicate.literal.value if predicate.literal.is_number else f"'{predicate.literal.value}'"
    said = re.sub(r"->\w+", "", said.removeprefix("./"))
    return said, constants if said.endswith(constants) else ""


_VARIABLE = re.compile(r"(?<![\w/@:.-])(?<!\d )[^\W\d]\w*(?! *\()")
"""A word that may be a variable: no part of a path, no unit behind a number, and no function."""


def _with_paths(words: str, names: _Paths) -> str:
    """Return words in which variables are the paths that they stand for."""
    parts = re.split(r"('(?:[^']|'')*')", words)
    return "".join(
        part if at % 2 else _VARIABLE.sub(lambda found: names.get(found[0], found[0]), part)
        for at, part in enumerate(parts)
    )


def _inside(operator: str) -> str:
    """Return what stands in the braces of an operator."""
    return operator[operator.index("{") + 1 : -1] if "{" in operator else ""


def _conditions(atoms: Sequence[ast.Atom], names: _Paths) -> tuple[str, str]:
    """Return conditions as words, and the constant that ends them, if there is one."""
    words = [f"{format_operand(a.left)} {a.op} {format_operand(a.right)}" for a in atoms]
    said = _with_paths(" AND ".join(words), names)
    last = atoms[0].right
    if len(atoms) == 1 and isinstance(last, ast.StringOperand | ast.Linear) and getattr(last, "path", None) is None:
        constants = format_operand(last)
        return said.removesuffix(constants) + "{}", constants
    return said, ""


def _filter(step: ast.Filter, names: _Paths) -> tuple[str, str]:
    """Return FILTER as words, and the constant that ends it, if there is one."""
    atoms = [each for each in step.conditions if isinstance(each, ast.Atom)]
    if len(atoms) == len(step.conditions) and not step.windows:
        return _conditions(atoms, names)
    return _with_paths(_inside(format_operator(step)), names), ""


def _window(tree: ast.Query) -> str:
    """Return windows, groups and what is told of them."""
    of = tree.aggregate
    assert of is not None
    functions = [each.text for each in tree.measures if each.function != "value"]
    every = "" if of.every is None else f" EVERY {format_duration(of.every)}"
    per = f" PER {', '.join(map(format_operand, of.per))}" if of.per else ""
    window = f"WINDOW LAST {of.last}{per}" if of.window is None else f"WINDOW {format_duration(of.window)}{every}"
    group = f"GROUP BY {', '.join(map(format_operand, of.group))}" if of.group else ""
    return " ".join(filter(None, [", ".join(dict.fromkeys(functions)), window, group]))
