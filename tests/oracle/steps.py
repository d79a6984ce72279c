"""The oracle of steps: the matches of NEXT, FOLD and FILTER by their definition (docs/reference/language.md).

Sets of bindings are made from the syntax tree, from the leaves up, over all events that a query sees; each NEXT looks
at every pair.  Nothing here knows parts, lanes, state or batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from oracle.absence import FOR_EVER, Asked, Intake
from oracle.evaluate import (
    COMPARE,
    NO_COLUMNS,
    Answer,
    Columns,
    Doc,
    Env,
    Value,
    World,
    applied,
    bindings_rows,
    compare_values,
    operand_names,
    selected_variables,
    variables_of,
)
from oracle.nodes import NAMESPACES, Node, parse
from oracle.texts import number

from xscl.language.syntax import ast


@dataclass(frozen=True)
class Stepped:
    """A match: its members and nodes, the values that SELECT lists, its times, and the place at which it is decided."""

    answer: Answer
    values: tuple[tuple[str, str], ...]
    start: int
    ts: int
    place: int


@dataclass(frozen=True)
class _Binding:
    """A composite: its documents by block, of a FOLD those of the last iteration, and its variables."""

    docs: tuple[Doc, ...]
    results: tuple[int, ...]
    env: Mapping[str, Node]
    start: int
    end: int
    place: int
    all_docs: frozenset[Doc]
    """Documents of all iterations."""
    taken: Mapping[str, Value] = field(default_factory=dict)
    """Values of functions over iterations, by their texts, and of accumulators by their names."""
    time: int = 0
    """Time of the match, once it is certain that nothing forbids it."""


@dataclass(frozen=True)
class _Run:
    """An iteration of a FOLD."""

    left: _Binding
    taken: tuple[_Binding, ...]
    kept: Mapping[str, Value]
    place: int

    @property
    def end(self) -> int:
        return self.taken[-1].end if self.taken else self.left.end

    @property
    def docs(self) -> frozenset[Doc]:
        return self.left.all_docs.union(*(each.all_docs for each in self.taken))


def stepped(
    asked: Asked,
    intake: Intake,
    *,
    numeric: Columns = NO_COLUMNS,
    texts: Columns = NO_COLUMNS,
    times: Columns = NO_COLUMNS,
) -> set[Stepped]:
    """All matches of a query with steps, each with its times and the place at which it is decided."""
    return set(_Steps(asked, intake, numeric, texts, times).matches())


def at_last(query: ast.Query, docs: Sequence[Doc], *, numeric: Columns = NO_COLUMNS) -> set[Stepped]:
    """All matches over some events, of which none is late, when nothing comes any more."""
    return stepped(Asked(query), Intake({doc: at for at, doc in enumerate(docs)}, {}, {}, ends=True), numeric=numeric)


def _is_range(window: ast.Window | ast.RelativeWindow) -> bool:
    return isinstance(window, ast.Window) and window.kind == "range"


@dataclass(frozen=True)
class _Half:
    """What is there of a composite that may still come: its documents, its times, and the time at which it ends."""

    docs: frozenset[Doc]
    start: int
    end: int
    until: int


class _Steps:
    def __init__(self, asked: Asked, intake: Intake, numeric: Columns, texts: Columns, times: Columns) -> None:
        assert asked.query.steps is not None
        self.asked, self.query, self.intake = asked, asked.query, intake
        self.world = World(numeric, texts, times, NAMESPACES)
        self.columns = {"numeric": numeric, "texts": texts, "times": times}
        judged = intake.judged().items()
        level = asked.query.level or ast.STRONG
        self.memory, self.behind = level.memory, level.blocking
        if level.blocking == 0 and level.memory != 0:
            self.behind = -1  # the clock shows it
        self.events = {
            d: p
            for d, p in judged
            if asked.since < p < asked.until and not d.late and d.ts >= intake.settled(d.channel, p - 1, self.memory)
        }
        self.events |= {d: at for d, at in intake.again.items() if asked.since < intake.events[d] and at < asked.until}
        self.measures = {each.text: each for each in asked.query.measures}
        self.channels: dict[str, str] = {}
        """Channel of each variable."""
        self.certain: dict[int, dict[frozenset[Doc], int]] = {}
        """Time at which the longest matches of some documents are certain, by their FOLD."""
        self.halves_of: dict[int, list[_Half]] = {}
        """What waits for a right side, by its step."""
        self.found: dict[int, list[_Binding]] = {}
        """Bindings by their part of the tree."""
        changes = {place for former in intake.before.values() for place, _ in former}
        self.places = sorted(
            {*intake.events.values(), *intake.beats, *intake.again.values(), *changes, *([FOR_EVER] * intake.ends)}
        )

    def matches(self) -> Iterator[Stepped]:
        assert self.query.steps is not None
        names = selected_variables(self.query.select)
        for each in self.present(self.tree(self.query.steps)):
            if each.place >= self.asked.until:
                continue
            has_values = any(name in each.taken or name in self.measures for name in names)
            values = tuple(self.selected(each)) if isinstance(self.query.select, tuple) else ()
            nodes = () if has_values else tuple(each.env[name].id for name in names)
            members = tuple((doc.channel, doc.id) for doc in each.docs)
            yield Stepped((members, (*each.results, *nodes)), values, each.start, each.time, each.place)

    # -- absence -----------------------------------------------------------------------------------------------

    def present(self, found: list[_Binding]) -> Iterator[_Binding]:
        """The composites that nothing of what must not be there accompanies, with their times and places."""
        assert self.query.steps is not None
        blocks = ast.blocks(self.query.steps)
        for each in found:
            if any(
                self.forbids(negation, b, each, blocks)
                for negation in self.query.negations
                for b in self.part(negation.right)
            ):
                continue
            time, place = each.end, each.place
            for negation in self.query.negations:
                until = self.until(negation, each, blocks)
                time, place = max(time, until), self.settled(negation.right, until, place)
            yield replace(each, time=time, place=place)

    def forbids(self, negation: ast.Negation, b: _Binding, each: _Binding, blocks: Sequence[ast.Block]) -> bool:
        (doc,) = b.docs
        if doc in each.all_docs or not _apart(each.all_docs, [doc]):
            return False
        distance = doc.ts - each.end
        if negation.op == "not followed by" and distance <= 0 and not any(_is_range(w) for w in negation.windows):
            return False
        for window in negation.windows:
            match window:
                case ast.RelativeWindow():
                    if not self.relative(window, (*blocks, negation.right), (*each.docs, doc)):
                        return False
                case ast.Window("between"):
                    if not min(one.ts for one in each.docs) < doc.ts < each.end:
                        return False
                case ast.Window("range", low, high):
                    if low is None or high is None or not low <= distance <= high:
                        return False
                case ast.Window(_, _, high):
                    if high is None or abs(distance) > high:
                        return False
        scope = _Scope({**each.env, **b.env}, each.taken)
        return all(self.atom(one, scope) for one in negation.atoms)

    def until(self, negation: ast.Negation, each: _Binding, blocks: Sequence[ast.Block]) -> int:
        """The greatest time of what forbids a composite."""
        ts = {name: doc.ts for block, doc in zip(blocks, each.docs, strict=True) for name in variables_of(block)}
        ends = []
        for window in negation.windows:
            match window:
                case ast.RelativeWindow(later, earlier, low, high):
                    ends += [ts[earlier] + high] if earlier in ts and later not in ts and high is not None else []
                    ends += [ts[later] - low] if later in ts and earlier not in ts and low is not None else []
                case ast.Window("between"):
                    ends.append(each.end - 1)
                case ast.Window(_, _, high) if high is not None:
                    ends.append(each.end + high)
        return min(ends)

    def selected(self, each: _Binding) -> Iterator[tuple[str, str]]:
        assert isinstance(self.query.select, tuple)
        for item in self.query.select:
            if item.path.steps:
                continue
            value = self.value(ast.Linear(item.path), _Scope(each.env, each.taken))
            yield item.name or item.path.name.partition("(")[0], _text(value)

    # -- the tree ----------------------------------------------------------------------------------------------

    def tree(self, tree: ast.Tree) -> list[_Binding]:
        if id(tree) not in self.found:
            self.found[id(tree)] = self.bindings(tree)
        return self.found[id(tree)]

    def bindings(self, tree: ast.Tree) -> list[_Binding]:
        match tree:
            case ast.Block() | ast.Join():
                return self.part(tree)
            case ast.Filter():
                return [each for each in self.tree(tree.of) if self.holds(tree, each)]
            case ast.Next():
                return self.next(tree)
            case ast.Fold():
                return self.fold(tree)

    def part(self, source: ast.Source) -> list[_Binding]:
        found = []
        for row in bindings_rows(ast.Query(source), list(self.events), **self.columns):
            env: Env = {}
            for block, doc in zip(ast.blocks(source), row.docs, strict=True):
                nodes = _nodes(doc.xml)
                for name in variables_of(block):
                    env[name] = nodes[row.nodes[name]]
                    self.channels[name] = doc.channel
            starts = [doc.ts if doc.start is None else doc.start for doc in row.docs]
            place = max(self.events[doc] for doc in row.docs)
            end = max(doc.ts for doc in row.docs)
            found.append(_Binding(row.docs, row.results, env, min(starts), end, place, frozenset(row.docs)))
        return found

    def holds(self, step: ast.Filter, each: _Binding) -> bool:
        scope = _Scope(each.env, each.taken)
        for condition in step.conditions:
            if isinstance(condition, ast.Duration):
                if not COMPARE[condition.op](each.end - each.start, condition.time):
                    return False
            elif not self.atom(condition, scope):
                return False
        blocks = ast.blocks(step.of)
        return all(self.relative(window, blocks, each.docs) for window in step.windows)

    def next(self, step: ast.Next) -> list[_Binding]:
        lefts, rights = self.tree(step.left), self.tree(step.right)
        found = []
        for a in lefts:
            for b in self.next_of(step, a, rights):
                place = self.settled(step.right, b.end, max(a.place, b.place))
                found.append(
                    _Binding(
                        (*a.docs, *b.docs),
                        (*a.results, *b.results),
                        {**a.env, **b.env},
                        min(a.start, b.start),
                        b.end,
                        place,
                        a.all_docs | b.all_docs,
                        {**a.taken, **b.taken},
                    )
                )
        return found

    def next_of(self, step: ast.Next, a: _Binding, rights: Sequence[_Binding]) -> Iterator[_Binding]:
        """What a left side comes to."""
        blocks = (*ast.blocks(step.left), *ast.blocks(step.right))

        def skipped(b: _Binding) -> bool:
            scope = _Scope({**a.env, **b.env}, {**a.taken, **b.taken})
            in_time = self.in_time(step, a.start, a.end, b, blocks, (*a.docs, *b.docs))
            good = in_time and _apart(a.all_docs, b.all_docs)
            return not (good and all(self.atom(each, scope) for each in step.atoms))

        return iter(_first(a.end, rights, skipped))

    def fold(self, step: ast.Fold) -> list[_Binding]:
        found = [run for run in self.runs(step) if run.taken]
        if step.longest:
            rights = self.tree(step.right)
            found = [run for run in found if not any(run.docs < other.docs for other in found)]
            ends = self.certain.setdefault(id(step), {})
            for run in found:
                ends[run.docs] = max(ends.get(run.docs, -1), self.end(step, run, rights), self.grows(step, run.docs))
            found = [replace(run, place=self.settled(step, ends[run.docs], run.place)) for run in found]
        return [self.folded(step, run) for run in found]

    def runs(self, step: ast.Fold) -> list[_Run]:
        """All runs, those without an iteration too."""
        rights = self.tree(step.right)
        runs = [_Run(left, (), {}, left.place) for left in self.tree(step.left)]
        found = list(runs)
        while runs and (step.at_most is None or len(runs[0].taken) < step.at_most):
            runs = [longer for run in runs for longer in self.iterations(step, run, rights)]
            found += runs
        return found

    def grows(self, step: ast.Fold, docs: frozenset[Doc]) -> int:
        """The time up to which a left side that has all of some documents, or may come to have them, waits for more."""
        rights = self.tree(step.right)
        own = [_Run(left, (), {}, left.place) for left in self.tree(step.left) if docs <= left.all_docs]
        ends = [self.end(step, run, rights) for run in own if self.has_keys(step, run.left)]
        halves = [*self.halves(step.left), *self.with_halves(step)]
        return max([*ends, *(half.until for half in halves if docs <= half.docs)], default=-1)

    def halves(self, tree: ast.Tree) -> list[_Half]:
        """What is there of composites that may still come, or might have come, of a tree."""
        match tree:
            case ast.Filter():
                return self.halves(tree.of)
            case ast.Next() | ast.Fold():
                longest = self.certain.get(id(tree), {}) if isinstance(tree, ast.Fold) and tree.longest else {}
                found = [_Half(docs, 0, 0, until) for docs, until in longest.items()]
                return [*found, *self.own(tree), *self.halves(tree.left), *self.with_halves(tree)]
        return []

    def own(self, tree: ast.Next | ast.Fold) -> list[_Half]:
        """What waits for a right side of a step, or has waited, without one that is half made."""
        if id(tree) not in self.halves_of:
            rights = self.tree(tree.right)
            if isinstance(tree, ast.Next):
                lefts = [left for left in self.tree(tree.left) if self.has_keys(tree, left)]
                ends = [self.next_end(tree, left, rights) for left in lefts]
                found = [_Half(left.all_docs, left.start, left.end, end) for left, end in zip(lefts, ends, strict=True)]
            else:
                runs = [run for run in self.runs(tree) if self.has_keys(tree, run.left)]
                found = [_Half(run.docs, run.left.start, run.end, self.end(tree, run, rights)) for run in runs]
            self.halves_of[id(tree)] = found
        return self.halves_of[id(tree)]

    def with_halves(self, tree: ast.Next | ast.Fold) -> list[_Half]:
        """What waits for a right side, with one that is half made and begins behind it."""
        return [
            _Half(mine.docs | right.docs, mine.start, right.end, min(mine.until, right.until))
            for right in self.halves(tree.right)
            for mine in self.own(tree)
            if mine.end < right.start
        ]

    def has_keys(self, step: ast.Next | ast.Fold, left: _Binding) -> bool:
        """Whether a left side has all values that equalities of the step compare; without them it waits for nothing."""
        scope = _Scope(left.env, left.taken)
        sides = [side for atom in step.atoms if atom.op == "=" for side in (atom.left, atom.right)]
        mine = [side for side in sides if isinstance(side, ast.Linear) and side.path.name in left.env]
        return all(self.value(side, scope) is not None for side in mine)

    def next_end(self, step: ast.Next, left: _Binding, rights: Sequence[_Binding]) -> int:
        """The time up to which all is known that tells what a left side comes to."""
        ends = [b.end for b in self.next_of(step, left, rights)]
        ends += [
            (left.start if window.kind == "max" else left.end) + window.high
            for window in step.windows
            if isinstance(window, ast.Window) and window.high is not None
        ]
        return min(ends, default=FOR_EVER - 1)  # there is no event then

    def end(self, step: ast.Fold, run: _Run, rights: Sequence[_Binding]) -> int:
        """The time up to which all is known that tells that a run does not go on."""
        if step.at_most is not None and len(run.taken) == step.at_most:
            return run.end
        ends = [b.end for b, _ in self.taken_next(step, run, rights)]
        ends += [
            (run.left.start if window.kind == "max" else run.end) + window.high
            for window in step.windows
            if isinstance(window, ast.Window) and window.high is not None
        ]
        return min(ends, default=FOR_EVER - 1)  # there is no event then

    def iterations(self, step: ast.Fold, run: _Run, rights: Sequence[_Binding]) -> Iterator[_Run]:
        """The next iterations of a run."""
        for b, scope in self.taken_next(step, run, rights):
            if all(self.atom(each, scope) for each in step.conditions):
                kept = {each.name: self.value(each.value, scope) for each in step.accumulators}
                place = self.settled(step.right, b.end, max(run.place, b.place))
                yield _Run(run.left, (*run.taken, b), kept, place)

    def taken_next(self, step: ast.Fold, run: _Run, rights: Sequence[_Binding]) -> Iterator[tuple[_Binding, _Scope]]:
        """What a run comes to next, whether WHILE holds or not."""
        blocks = (*ast.blocks(step.left), *ast.blocks(step.right))
        left = run.left

        def scope(b: _Binding) -> _Scope:
            return _Scope({**left.env, **b.env}, {**left.taken, **b.taken}, step, run)

        def skipped(b: _Binding) -> bool:
            docs = (*left.docs, *b.docs)
            good = self.in_time(step, left.start, run.end, b, blocks, docs) and _apart(run.docs, b.all_docs)
            return not (good and all(self.atom(each, scope(b)) for each in step.atoms))

        yield from ((b, scope(b)) for b in _first(run.end, rights, skipped))

    def folded(self, step: ast.Fold, run: _Run) -> _Binding:
        left, last = run.left, run.taken[-1]
        inside = {**left.taken, **last.taken}
        behind = _Scope({**left.env, **last.env}, inside, step, run)
        mine = {variable for block in ast.blocks(step.right) for variable in variables_of(block)}
        for text, measure in self.measures.items():
            if measure.function in ("last", "value"):
                continue
            known = left.env.keys() | left.taken.keys()
            if set(operand_names(measure.operand)) <= mine and set(operand_names(measure.first)) <= known:
                inside[text] = self.measure(measure, behind)
        return _Binding(
            (*left.docs, *last.docs),
            (*left.results, *last.results),
            {**left.env, **last.env},
            min(left.start, last.start),
            last.end,
            run.place,
            run.docs,
            {**inside, **run.kept},
        )

    # -- times -------------------------------------------------------------------------------------------------

    def in_time(
        self,
        step: ast.Next | ast.Fold,
        start: int,
        end: int,
        b: _Binding,
        blocks: Sequence[ast.Block],
        docs: Sequence[Doc],
    ) -> bool:
        """Whether a right side keeps the windows of a step."""
        for window in step.windows:
            match window:
                case ast.RelativeWindow():
                    if not self.relative(window, blocks, docs):
                        return False
                case ast.Window("max", _, high):
                    if high is not None and b.end - start > high:
                        return False
                case ast.Window(_, low, high):
                    delta = b.end - end
                    if low is not None and delta < low or high is not None and delta > high:
                        return False
        return True

    def relative(self, window: ast.RelativeWindow, blocks: Sequence[ast.Block], docs: Sequence[Doc]) -> bool:
        ts = {name: doc.ts for block, doc in zip(blocks, docs, strict=True) for name in variables_of(block)}
        delta = ts[window.later] - ts[window.earlier]
        return (window.low is None or window.low <= delta) and (window.high is None or delta <= window.high)

    def settled(self, right: ast.Tree, time: int, least: int) -> int:
        """The first place, from one on, at which all that may stand to the right up to a time is in."""
        channels = {block.channel for block in ast.blocks(right)}
        for place in self.places:
            if place >= least and all(self.intake.settled(channel, place, self.behind) > time for channel in channels):
                return place
        return FOR_EVER + 1

    # -- values ------------------------------------------------------------------------------------------------

    def atom(self, atom: ast.Atom, scope: _Scope) -> bool:
        return compare_values(self.value(atom.left, scope), atom.op, self.value(atom.right, scope))

    def value(self, expression: ast.Expression, scope: _Scope) -> Value:
        match expression:
            case ast.Arithmetic(op, left, right):
                one, other = (_number(self.value(each, scope)) for each in (left, right))
                if one is None or other is None or op == "/" and other == 0:
                    return None
                return {"+": one + other, "-": one - other, "*": one * other}[op] if op != "/" else one / other
            case ast.FunctionOperand(name, inner):
                found = self.text(inner, scope)
                return None if found is None else applied(name, found)
            case ast.Linear(ast.VarPath(name)) if name in self.measures or name in scope.kept_names:
                found = self.measured(name, scope)
                if expression == ast.Linear(expression.path):
                    return found
                exact = _number(found)
                return None if exact is None else expression.factor * exact + expression.constant
        (only,) = self.world.candidates(expression, dict(scope.env), self.channels)
        return only

    def text(self, operand: ast.Operand, scope: _Scope) -> Value:
        """A value as functions take it: of a column of numbers the text."""
        match operand:
            case ast.Linear(ast.VarPath(name)) if name in scope.env and name not in scope.kept_names:
                return replace(self.world, numeric=NO_COLUMNS).candidates(operand, dict(scope.env), self.channels)[0]
        found = self.value(operand, scope)
        return None if isinstance(found, Fraction) else found

    def measured(self, name: str, scope: _Scope) -> Value:
        """The value of a function over iterations, or of an accumulator."""
        measure = self.measures.get(name)
        if measure is None:
            if scope.step is not None and name in {each.name for each in scope.step.accumulators}:
                assert scope.run is not None
                if scope.run.taken:
                    return scope.run.kept[name]
                return self.value(ast.Linear(ast.VarPath(name)), scope.left)
            return scope.taken[name]
        if measure.function == "value":
            assert measure.operand is not None
            return self.value(measure.operand, scope)
        if measure.function == "last":
            return self.last(measure, scope)
        mine = scope.step is not None and (
            measure.operand is None
            or set(operand_names(measure.operand)) <= {v for b in ast.blocks(scope.step.right) for v in variables_of(b)}
        )
        return self.measure(measure, scope) if mine else scope.taken[name]

    def last(self, measure: ast.Measure, scope: _Scope) -> Value:
        assert scope.step is not None and scope.run is not None and measure.first is not None
        if not scope.run.taken:
            return self.value(measure.first, scope.left)
        (name,) = operand_names(measure.operand)
        if name in {each.name for each in scope.step.accumulators}:
            return scope.run.kept[name]
        before = scope.run.taken[-1]
        return self.value(ast.Linear(ast.VarPath(name)), _Scope(before.env, before.taken))

    def measure(self, measure: ast.Measure, scope: _Scope) -> Value:
        """A function over the iterations that a run has taken."""
        assert scope.run is not None
        values: list[Value] = []
        if measure.first is not None:
            values.append(self.value(measure.first, scope.left))
        taken = [_Scope(each.env, each.taken) for each in scope.run.taken]
        values += [Fraction(1) if measure.operand is None else self.value(measure.operand, each) for each in taken]
        values = [value for value in values if value is not None]
        if measure.function == "count":
            return Fraction(len(values))
        if measure.function == "first":
            return values[0] if values else None
        numbers = [found for value in values if (found := _number(value)) is not None]
        if not numbers:
            return None
        total = sum(numbers, Fraction(0))
        return {"sum": total, "avg": total / len(numbers), "min": min(numbers), "max": max(numbers)}[measure.function]


@dataclass(frozen=True)
class _Scope:
    """What names stand for at a place of the text."""

    env: Mapping[str, Node]
    taken: Mapping[str, Value]
    step: ast.Fold | None = None
    """The FOLD whose braces these are."""
    run: _Run | None = None
    """What it has come to before the current iteration."""

    @property
    def left(self) -> _Scope:
        """The left side of the FOLD."""
        assert self.run is not None
        return _Scope(self.run.left.env, self.run.left.taken)

    @property
    def kept_names(self) -> set[str]:
        own = () if self.step is None else (each.name for each in self.step.accumulators)
        return {*self.taken, *own}


def _first(end: int, rights: Sequence[_Binding], skipped: Callable[[_Binding], bool]) -> list[_Binding]:
    """Those behind an end that are not skipped and have no other one that ends before them."""
    found = [b for b in rights if end < b.start and not skipped(b)]
    return [b for b in found if not any(other.end < b.end for other in found)]


def _apart(one: Iterable[Doc], other: Iterable[Doc]) -> bool:
    """Whether no document of one side is a version of the same item as one of the other."""
    items = {(doc.channel, doc.item) for doc in one if doc.item is not None}
    return not any((doc.channel, doc.item) in items for doc in other)


def _nodes(xml: str) -> dict[int, Node]:
    found = {}
    for node in parse(xml).branch():
        found[node.id] = node
        found.update((each.id, each) for each in node.attributes)
    return found


def _number(value: Value) -> Fraction | None:
    return number(value) if isinstance(value, str) else value


def _text(value: Value) -> str:
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else repr(float(value))
    return value or ""
