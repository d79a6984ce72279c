"""The oracle: what a query answers, by trying everything (docs/reference/language.md, Blocks, Joins, Output).

``answers`` tries every combination of documents and every assignment of nodes to variables.  It reads the
syntax tree as written and knows nothing of normal forms, templates, state or batches.  Its one thrift: members are
chosen block by block, and a window or atom is looked at as soon as the blocks it speaks of have a member.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from typing import Any

from oracle.nodes import NAMESPACES, Namespaces, Node, parse, step_nodes
from oracle.texts import FUNCTIONS, OWN, normalize_space, number
from oracle.words import words

from xscl.language.syntax import ast

Columns = Mapping[str, frozenset[str]]
"""Channel to names of columns."""
Answer = tuple[tuple[tuple[str, str], ...], tuple[int, ...]]
Env = dict[str, Node]
NO_COLUMNS: Columns = {}
COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Column(str):
    """A value of a column of strings, which ``<`` compares with another such value by code points."""

    __slots__ = ()


class TimeColumn(Column):
    """A value of a column of times or dates.

    ``<`` compares it with another such value or a text as times, any operator with a time that the query writes.
    """

    __slots__ = ()


class Written(str):
    """A string of an atom."""

    __slots__ = ()


Value = str | Fraction | None
"""What an atom compares; None satisfies nothing."""


@dataclass(frozen=True)
class Doc:
    """One event; those with equal channel and item (not None) are versions of one item.

    An event that a stream brings again has several: with equal channel and id, and ``whole`` the first of them alone.
    """

    channel: str
    id: str
    ts: int
    xml: str
    late: bool = False
    item: str | None = None
    streams: tuple[str, ...] = ()
    whole: bool = True
    start: int | None = None
    """When it began; None: it is a point in time."""


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
    numeric: Columns = NO_COLUMNS,
    texts: Columns = NO_COLUMNS,
    times: Columns = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> set[Answer]:
    """The matches: distinct documents, then result nodes by block and the nodes of the variables of SELECT."""
    names = selected_variables(query.select)
    rows = bindings_rows(query, docs, numeric=numeric, texts=texts, times=times, namespaces=namespaces)
    return {
        (tuple((doc.channel, doc.id) for doc in row.docs), (*row.results, *(row.nodes[name] for name in names)))
        for row in rows
    }


def rout(
    query: ast.Query,
    docs: Sequence[Doc],
    variables: Sequence[str] | None = None,
    *,
    numeric: Columns = NO_COLUMNS,
    texts: Columns = NO_COLUMNS,
    times: Columns = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> set[tuple[str | int, ...]]:
    """R_out of a query: the documents' ids, then the nodes of ``variables``, the joined ones if not given."""
    names = joined_variables(query) if variables is None else variables
    rows = bindings_rows(query, docs, numeric=numeric, texts=texts, times=times, namespaces=namespaces)
    return {(*(doc.id for doc in row.docs), *(row.nodes[name] for name in names)) for row in rows}


def joined_variables(query: ast.Query) -> list[str]:
    """The variables that atoms relate to another block, in the order in which the atoms mention them."""
    sides = [(_path(atom.left), _path(atom.right)) for join in _joins(query.source) for atom in join.atoms]
    return list(dict.fromkeys(path.name for pair in sides if None not in pair for path in pair if path))


def bindings_rows(
    query: ast.Query,
    docs: Sequence[Doc],
    *,
    numeric: Columns = NO_COLUMNS,
    texts: Columns = NO_COLUMNS,
    times: Columns = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> Iterator[Row]:
    """Every combination of documents and assignments that satisfies the query, as ``ONCE`` leaves them."""
    found = _all_rows(query, docs, numeric=numeric, texts=texts, times=times, namespaces=namespaces)
    newest = [(block, window) for join, start in _placed(query.source, 0) for block, window in _newest(join, start)]
    found = (row for row in found if all(_is_newest(row, block, count, docs) for block, count in newest))
    chosen = [start for join, start in _placed(query.source, 0) if _chooses(join)]
    return _once(list(found), chosen, docs) if chosen else found


def _newest(join: ast.Join, start: int) -> Iterator[tuple[int, int]]:
    """The blocks that LAST n OF speaks of, and each n; ``start`` is the place of the join's first block."""
    places = {name: start + at for at, block in enumerate(ast.blocks(join)) for name in variables_of(block)}
    for window in join.windows:
        if isinstance(window, ast.Window) and window.kind == "rows":
            yield places[window.of or ""], window.high or 0


def _is_newest(row: Row, block: int, count: int, docs: Sequence[Doc]) -> bool:
    """Whether a member was among the newest events of its channel when the last member came."""
    came = {(doc.channel, doc.id): at for at, doc in enumerate(docs)}
    last = max(came[doc.channel, doc.id] for doc in row.docs)
    member = row.docs[block]
    there = [(doc.channel, doc.id) for doc in docs[: last + 1] if doc.channel == member.channel and doc.whole]
    return (member.channel, member.id) in there[-count:]


def _chooses(join: ast.Join) -> bool:
    """Whether ``ONCE`` chooses between the two orders of two documents."""
    single = isinstance(join.left, ast.Block) and isinstance(join.right, ast.Block)
    return single and any(isinstance(w, ast.Window) and w.kind == "once" for w in join.windows)


def _once(rows: Sequence[Row], pairs: Sequence[int], docs: Sequence[Doc]) -> Iterator[Row]:
    """The rows that no row with two neighbours exchanged forestalls.

    A row forestalls its exchange if its last document comes first, and of two that are complete with one document that
    whose left neighbour is first by time, channel and id.  ``docs`` are in the order in which they come.
    """

    def names(of: Sequence[Doc]) -> tuple[tuple[str, str], ...]:
        return tuple((doc.channel, doc.id) for doc in of)

    places = {doc: place for place, doc in enumerate(docs)}
    complete = {names(row.docs): max(places[doc] for doc in row.docs) for row in rows}
    for row in rows:
        own = complete[names(row.docs)]
        for at in pairs:
            a, b = row.docs[at : at + 2]
            other = complete.get(names((*row.docs[:at], b, a, *row.docs[at + 2 :])))
            right_first = (b.ts, b.channel, b.id) < (a.ts, a.channel, a.id)
            if other is not None and (other < own or (other == own and right_first)):
                break
        else:
            yield row


def _all_rows(
    query: ast.Query,
    docs: Sequence[Doc],
    *,
    numeric: Columns,
    texts: Columns,
    times: Columns,
    namespaces: Namespaces,
) -> Iterator[Row]:
    """Every combination of documents and assignments, whatever ``ONCE`` says of the order of two documents."""
    world = World(numeric, texts, times, {**NAMESPACES, **namespaces})
    blocks = ast.blocks(query.source)
    placed = _placed(query.source, 0)
    places = {name: place for place, block in enumerate(blocks) for name in variables_of(block)}
    stream_of = {stream: doc.channel for doc in docs for stream in doc.streams}
    channels = {name: stream_of.get(blocks[place].channel, blocks[place].channel) for name, place in places.items()}
    due: list[list[ast.Atom]] = [[] for _ in blocks]
    for join, _ in placed:
        for atom in join.atoms:
            due[world.last_block(atom, places)].append(atom)
    trees = {doc: parse(doc.xml) for doc in docs if any(_read_by(block, doc) for block in blocks)}
    found: list[dict[Doc, list[tuple[Node, Env]]]] = []
    for block in blocks:
        usable = [d for d in docs if _read_by(block, d) and not (d.late and len(blocks) > 1)]
        found.append({})
        for doc in usable:
            of_channel = replace(world, own_times=times.get(doc.channel, frozenset()))
            if hits := of_channel.block(block, trees[doc]):
                found[-1][doc] = hits

    def extend(members: tuple[Doc, ...], results: tuple[int, ...], env: Env) -> Iterator[Row]:
        place = len(members)
        if place == len(blocks):
            yield Row(members, results, {name: node.id for name, node in env.items()})
            return
        for doc, hits in found[place].items():
            longer = (*members, doc)
            if _different(longer) and all(_in_time(join, start, longer, places) for join, start in placed):
                for result, own in hits:
                    both = env | own
                    if all(world.atom(atom, both, channels) for atom in due[place]):
                        yield from extend(longer, (*results, result.id), both)

    return extend((), (), {})


def witnesses(block: ast.Block, doc: Doc, *, namespaces: Namespaces = NAMESPACES) -> list[dict[str, int]]:
    """The distinct assignments of node ids to the block's variables for which the whole pattern holds."""
    hits = World(NO_COLUMNS, NO_COLUMNS, NO_COLUMNS, {**NAMESPACES, **namespaces}).block(block, parse(doc.xml))
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


def selected_variables(select: Any) -> list[str]:
    """The variables that a SELECT list or constructor mentions, in the order of first mention."""

    def mentioned(part: Any) -> Iterator[str]:
        if isinstance(part, ast.VarPath):
            yield part.name
        elif isinstance(part, ast.SelectItem):
            yield part.path.name
        elif isinstance(part, tuple):
            for inner in part:
                yield from mentioned(inner)
        elif not isinstance(part, str):  # a constructor or an attribute of one
            for name in ("attributes", "parts", "content"):
                yield from mentioned(getattr(part, name, ()))

    return list(dict.fromkeys(mentioned(select)))


# -- documents and time --------------------------------------------------------------------------------------


def _joins(source: ast.Source) -> list[ast.Join]:
    return [*_joins(source.left), *_joins(source.right), source] if isinstance(source, ast.Join) else []


def _read_by(block: ast.Block, doc: Doc) -> bool:
    """A block names a channel, which has an event once, or a stream."""
    return block.channel in doc.streams or (doc.whole and doc.channel == block.channel)


def _different(members: Sequence[Doc]) -> bool:
    ids = [(doc.channel, doc.id) for doc in members]
    items = [(doc.channel, doc.item) for doc in members if doc.item is not None]
    return len(set(ids)) == len(ids) and len(set(items)) == len(items)


def _placed(source: ast.Source, start: int) -> list[tuple[ast.Join, int]]:
    """Every join with the place of its first block."""
    if isinstance(source, ast.Block):
        return []
    middle = start + len(ast.blocks(source.left))
    return [*_placed(source.left, start), *_placed(source.right, middle), (source, start)]


def _in_time(join: ast.Join, start: int, members: Sequence[Doc], places: Mapping[str, int]) -> bool:
    """Whether the members chosen so far keep what a join says of their times; ``start`` is its first block's place."""
    for window in join.windows:
        match window:
            case ast.RelativeWindow(later, earlier, low, high) if max(places[later], places[earlier]) < len(members):
                if not _within(members[places[later]].ts - members[places[earlier]].ts, low, high):
                    return False
            case ast.Window("max", _, high):  # over all members of the query, inside the join or not
                if not _within(max(d.ts for d in members) - min(d.ts for d in members), 0, high):
                    return False
    middle, end = start + len(ast.blocks(join.left)), start + len(ast.blocks(join))
    if len(members) < end:
        return True
    # A composite counts by its latest member.
    first, second = (
        max((d.ts, d.channel, d.id) for d in side) for side in (members[start:middle], members[middle:end])
    )
    delta = second[0] - first[0]
    own = [window for window in join.windows if isinstance(window, ast.Window)]
    if join.op == "followed by" and delta <= 0 and not any(window.kind == "range" for window in own):
        return False
    for window in own:
        if window.kind == "range" and not _within(delta, window.low, window.high):
            return False
        if window.kind == "within" and not _within(abs(delta), 0, window.high):
            return False
        if window.kind == "once" and not _chooses(join) and not first < second:
            return False
    return True


def _within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _path(operand: ast.Operand) -> ast.VarPath | None:
    while isinstance(operand, ast.FunctionOperand):
        operand = operand.operand
    return operand.path if isinstance(operand, ast.Linear) else None


def operand_names(operand: ast.Operand | None) -> list[str]:
    """The name of the operand's variable, if it has one."""
    path = None if operand is None else _path(operand)
    return [] if path is None else [path.name]


@dataclass(frozen=True)
class World:
    """What does not change while one query is answered."""

    numeric: Columns
    texts: Columns
    times: Columns
    namespaces: Namespaces
    own_times: frozenset[str] = frozenset()
    """The columns of times of the channel whose documents are looked at."""

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
        # What is reached in several ways is found once.
        return list({(end.id, *(node.id for node in env.values())): (end, env) for end, env in found}.values())

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
                    if op is None or literal is None or self.compare(end, op, literal):
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

    def compare(self, node: Node, op: str, literal: ast.Literal_) -> bool:
        """XPath 1.0's comparison of a node, but times of columns of times are compared as times."""
        time = None if literal.is_number else _time(literal.value)
        if time is not None and _is_column(node, self.own_times):
            mine = _time(node.string())
            return mine is not None and bool(COMPARE[op](mine, time))
        return _xpath_compare(node.string(), op, literal)

    def reach(self, path: ast.RelPath | ast.VarPath, node: Node) -> list[Node]:
        """The node set of a path, in document order."""
        distinct = {end.id: end for end, _ in self.walk(path.steps, node)}
        return [distinct[number] for number in sorted(distinct)]

    def has_node(self, expression: ast.RelPath | ast.Literal_ | ast.Call, node: Node) -> bool:
        """Whether the path that a function of one's own reads, through other functions, reaches a node."""
        while isinstance(expression, ast.Call) and expression.args and expression.name != "count":
            expression = expression.args[0]
        return not isinstance(expression, ast.RelPath) or bool(self.reach(expression, node))

    def value(self, expression: ast.RelPath | ast.Literal_ | ast.Call, node: Node) -> str | float | bool | None:
        """XPath 1.0's value of an argument or a call; None: a function of one's own has no value."""
        match expression:
            case ast.Literal_(value, is_number):
                return float(value) if is_number else value
            case ast.RelPath():
                return next((end.string() for end in self.reach(expression, node)), "")
            case ast.Call("count", (ast.RelPath() as path,)):
                return float(len(self.reach(path, node)))
        if expression.name in OWN and not self.has_node(expression, node):
            return None
        values = [self.value(arg, node) for arg in expression.args] or [node.string()]
        texts = [_xpath_string(value) for value in values if value is not None]
        if len(texts) < len(values):
            return None
        if expression.name in OWN:
            own = OWN[expression.name](*texts)
            return float(own) if isinstance(own, Fraction) else own
        match expression.name, texts:
            case "contains-word", [text, *asked]:
                return not {word.casefold() for word in asked}.isdisjoint(words(text))
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

    def last_block(self, atom: ast.Atom, places: Mapping[str, int]) -> int:
        """The last of the blocks that an atom speaks of; what is no query is refused."""
        paths = [path for path in (_path(atom.left), _path(atom.right)) if path]
        if not paths or len({places[path.name] for path in paths}) < len(paths):
            raise ValueError("an atom relates variables of different blocks, or one variable and a constant")
        return max(places[path.name] for path in paths)

    def atom(self, atom: ast.Atom, env: Env, channels: Mapping[str, str]) -> bool:
        """Whether an atom holds for some of the nodes its paths reach."""
        sides = [self.candidates(side, env, channels) for side in (atom.left, atom.right)]
        return any(compare_values(left, atom.op, right) for left, right in product(*sides))

    def candidates(self, operand: ast.Operand, env: Env, channels: Mapping[str, str]) -> list[Value]:
        """The values an operand takes; a number is a Fraction."""
        match operand:
            case ast.StringOperand(value):
                return [Written(value)]
            case ast.FunctionOperand(name, inner):
                # A function takes the string value, of a numeric column too.
                return [applied(name, v) for v in replace(self, numeric=NO_COLUMNS).candidates(inner, env, channels)]
            case ast.Linear(None, _, constant):
                return [constant]
        assert isinstance(operand, ast.Linear) and operand.path is not None
        plain = operand.factor == 1 and operand.constant == 0
        channel = channels.get(operand.path.name, "")
        found: list[Value] = []
        for node in self.reach(operand.path, env[operand.path.name]):
            text = node.string()
            if plain and not _is_column(node, self.numeric.get(channel)):
                if _is_column(node, self.times.get(channel)):
                    found.append(TimeColumn(text))
                else:
                    found.append(Column(text) if _is_column(node, self.texts.get(channel)) else text)
            else:
                exact = number(text)
                found.append(None if exact is None else operand.factor * exact + operand.constant)
        return found


def _is_column(node: Node, columns: frozenset[str] | None) -> bool:
    """Whether a node is one of these columns: a child of the root of a row."""
    return node.kind == "element" and node.depth == 2 and node.uri == "" and node.local in (columns or ())


def applied(name: str, value: Value) -> Value:
    if isinstance(value, Fraction):
        raise ValueError("functions of atoms take strings")
    found = None if value is None else FUNCTIONS[name](value)
    if isinstance(found, Fraction):
        return found
    if isinstance(value, Written) and found is not None:
        return Written(found)
    return Column(found) if isinstance(value, Column) and found is not None else found


def compare_values(left: Value, op: str, right: Value) -> bool:
    """An atom's comparison: of strings if both are and the operator is ``=`` or ``!=``, or both are columns."""
    if {type(left), type(right)} == {TimeColumn, Written}:
        moments = [_time(str(side)) for side in (left, right)]
        if _time(str(left if isinstance(left, Written) else right)) is not None:
            return None not in moments and bool(COMPARE[op](*moments))
    columns = isinstance(left, Column) and isinstance(right, Column)
    if columns and op not in ("=", "!=") and (isinstance(left, TimeColumn) or isinstance(right, TimeColumn)):
        times = [_time(str(side)) for side in (left, right)]
        return None not in times and bool(COMPARE[op](*times))
    if isinstance(left, str) and isinstance(right, str) and (columns or op in ("=", "!=")):
        return bool(COMPARE[op](str(left), str(right)))
    exact = (number(side) if isinstance(side, str) else side for side in (left, right))
    numbers = [value for value in exact if value is not None]
    return len(numbers) == 2 and bool(COMPARE[op](*numbers))


def _time(text: str) -> datetime | None:
    """The moment a text of ISO 8601 stands for; a date stands for its midnight in UTC."""
    if not re.match(r"\d{4}-\d{2}-\d{2}", text.strip()):
        return None  # weeks and days of a year are no times here
    try:
        found = datetime.fromisoformat(text.strip())
        if len(text) == len("2026-01-01"):
            return found.replace(tzinfo=UTC)
        if found.tzinfo is None:
            return None
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _xpath_compare(value: str | float | bool | None, op: str, literal: ast.Literal_) -> bool:
    """XPath 1.0, 3.4: ``!=`` holds for what is no number, unlike in atoms; nothing holds for no value."""
    if value is None:
        return False
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
