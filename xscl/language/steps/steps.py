"""Steps in queries, by places: what a query with NEXT, FOLD and FILTER asks of the matches of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn

from xscl.base.errors import QueryError, Span, UnsatisfiableWindowError, UnsupportedFeatureError
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.language.absence import cut_offset, unbounded
from xscl.language.normalize import normalize
from xscl.language.selection import Element, prepare_select
from xscl.language.steps.parts import parts_of, selects_values
from xscl.language.steps.refusals import refuse_negated, refuse_window
from xscl.language.steps.terms import (
    Between,
    Filter,
    Fold,
    Key,
    Next,
    Node,
    Part,
    PartVariables,
    Skip,
    StepsDefinition,
    Value,
    Without,
)
from xscl.language.steps.values import FoldNames, Scope, StepValues
from xscl.language.syntax import ast, constructor
from xscl.language.terms import Comparison, Term, item_name

__all__ = ["steps_of"]


def steps_of(query: ast.Query, text: str, namespaces: Mapping[str, str] | None = None) -> StepsDefinition:
    """Return what a query with steps asks of the matches of its parts; spans speak of ``text``.

    Raises:
        QueryError: ``XSCL_STEP``: something does not fit; a variable is not bound; and as ``normalize``.
        UnsupportedFeatureError: ``XSCL_STEP_LIMIT``.
    """
    return _Definer(query, text, namespaces).definition()


def _has_longest_right(tree: ast.Tree) -> bool:
    """Tell whether the right side of a step has LONGEST: its matches are certain long after they end."""
    match tree:
        case ast.Filter():
            return _has_longest_right(tree.of)
        case ast.Next() | ast.Fold():
            return _has_longest(tree.right) or _has_longest_right(tree.left)
    return False


def _has_longest(tree: ast.Tree) -> bool:
    match tree:
        case ast.Filter():
            return _has_longest(tree.of)
        case ast.Next():
            return _has_longest(tree.left) or _has_longest(tree.right)
        case ast.Fold():
            return tree.longest or _has_longest(tree.left) or _has_longest(tree.right)
    return False


# -- the definition ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Built:
    """A part of the tree with its blocks."""

    node: Node
    blocks: range


@dataclass(slots=True)
class _Places:
    """Places of parts and blocks that were met so far."""

    blocks: int = 0
    parts: list[PartVariables] = field(default_factory=list)
    part_of: list[tuple[int, int]] = field(default_factory=list)
    """Part of each block, and the block's place in it."""


class _Definer:
    def __init__(self, query: ast.Query, text: str, namespaces: Mapping[str, str] | None) -> None:
        assert query.steps is not None
        self.query, self.text, self.namespaces = query, text, namespaces
        self._refuse_limits()
        source: ast.Source = query.source
        for each in query.negations:
            any_time = (ast.Window("max", None, LAST_TIME - FIRST_TIME),)
            source = ast.Join("join", source, each.right, (), any_time, each.span)
        plain = ast.Query(source, span=query.span)
        block_of = {name: block for name, (block, _) in normalize(plain, text, namespaces).variables.items()}
        self.places = _Places()
        for part in parts_of(query):
            self._place(part, block_of)
        where = {
            name: (number, place)
            for number, part in enumerate(self.places.parts)
            for place, name in enumerate(part.names)
        }
        self.values = StepValues(text, query.measures, block_of, where, namespaces or {})

    def definition(self) -> StepsDefinition:
        query, steps = self.query, self.query.steps
        assert steps is not None
        built = self._tree(steps)
        refuse_negated(query, self.text)
        root, scope = built.node, Scope(built.blocks)
        for place, each in enumerate(query.negations):
            root = self._without(each, root, built.blocks, built.blocks.stop + place)
        columns: tuple[tuple[str, Term], ...] = ()
        element, holes = None, list[tuple[str, Value]]()
        selected = ast.selected(query.select)
        nodes = list[tuple[int, int]]()
        if not selects_values(query):
            nodes = [self.values.place(path, scope) for path in selected]
        elif isinstance(query.select, tuple):
            columns = self._columns(query.select, scope)
        elif query.select is not None:
            made = prepare_select(query.select, self.text, self.namespaces)
            assert isinstance(made, Element)
            element = made
            holes = [(path.name, self.values.of_path(path, scope)) for path in dict.fromkeys(selected)]
        return StepsDefinition(
            tuple(self.places.parts),
            self._finished(root),
            tuple(dict.fromkeys(nodes)),
            columns,
            element,
            tuple(holes),
            len(query.negations),
        )

    def _place(self, part: ast.Query, block_of: Mapping[str, int]) -> None:
        """Note the blocks and variables of a part."""
        places = self.places
        names = tuple(path.name for path in ast.selected(part.select))
        channels = tuple(block.channel for block in ast.blocks(part.source))
        blocks = tuple(block_of[name] - places.blocks for name in names)
        places.part_of += ((len(places.parts), place) for place in range(len(channels)))
        places.parts.append(PartVariables(names, blocks, channels))
        places.blocks += len(channels)

    # -- refusals ----------------------------------------------------------------------------------------------

    def _fail(self, message: str, span: Span, hint: str) -> NoReturn:
        raise QueryError("XSCL_STEP", message, text=self.text, span=span, hint=hint)

    def _refuse_limits(self) -> None:
        query = self.query
        assert query.steps is not None
        for said, message, hint in (
            (query.aggregate is not None, "WINDOW is over matches of blocks and joins", "PUBLISH, and count that"),
            (query.retracts, "a query with steps takes nothing back on changes", "leave out ON CHANGE RETRACT"),
            (query.starting != "NOW", "steps see what comes after the registration", "leave out STARTING"),
            (_has_longest_right(query.steps), "LONGEST to the right of a step is not known in time", "PUBLISH it"),
        ):
            if said:
                raise UnsupportedFeatureError(
                    "XSCL_STEP_LIMIT", message, text=self.text, span=query.steps.span, hint=hint
                )

    # -- nodes -------------------------------------------------------------------------------------------------

    def _tree(self, tree: ast.Tree, start: int = 0) -> _Built:
        match tree:
            case ast.Block() | ast.Join():
                part, _ = self.places.part_of[start]
                return _Built(Part(part), range(start, start + len(ast.blocks(tree))))
            case ast.Filter():
                return self._filter(tree, start)
            case ast.Next():
                left = self._tree(tree.left, start)
                right = self._tree(tree.right, left.blocks.stop)
                scope = Scope(range(start, right.blocks.stop))
                node = Next(left.node, right.node, self._skip(tree, left, right, scope))
                return _Built(node, scope.blocks)
            case ast.Fold():
                return self._fold(tree, start)

    def _filter(self, step: ast.Filter, start: int) -> _Built:
        of = self._tree(step.of, start)
        scope = Scope(of.blocks)
        comparisons = [self._comparison(each, scope) for each in step.conditions if isinstance(each, ast.Atom)]
        durations = [each for each in step.conditions if isinstance(each, ast.Duration)]
        most = min((each.time - (each.op == "<") for each in durations if each.op in ("<", "<=")), default=None)
        node = of.node if most is None else _limited(of.node, most)
        comparisons += map(_long, durations)
        node = Filter(node, tuple(comparisons), self._between(step.windows, scope))
        return _Built(node, of.blocks)

    def _fold(self, step: ast.Fold, start: int) -> _Built:
        left = self._tree(step.left, start)
        names = FoldNames(len(self.values.folds), {})
        self.values.folds.append(names)
        right = self._tree(step.right, left.blocks.stop)
        names.blocks, names.right = range(start, right.blocks.stop), right.blocks
        scope = Scope(names.blocks, names)
        for each in step.accumulators:
            if each.name in names.accumulators:
                self._fail(f"two values have the name {each.name}", each.name_span, "give one of them another name")
            if self.values.block_of.get(each.name) in right.blocks:
                hint = "give it the name of a variable to the left, or a name of its own"
                self._fail(f"{each.name} is a variable of what FOLD takes", each.name_span, hint)
            names.accumulators[each.name] = len(names.accumulators)
        kept = tuple(self.values.accumulator(each, scope) for each in step.accumulators)
        node = Fold(
            names.number,
            left.node,
            right.node,
            self._skip(step, left, right, scope),
            tuple(self._comparison(each, scope) for each in step.conditions),
            kept,
            (),
            step.longest,
            step.at_most,
        )
        names.is_done = True
        return _Built(node, names.blocks)

    def _finished(self, node: Node) -> Node:
        """Return a node whose FOLDs have all functions that are asked of them."""
        match node:
            case Part():
                return node
            case Filter():
                return replace(node, of=self._finished(node.of))
            case Next():
                return replace(node, left=self._finished(node.left), right=self._finished(node.right))
            case Without():
                return replace(node, left=self._finished(node.left))
            case Fold():
                taken = tuple(self.values.folds[node.number].taken)
                return replace(node, left=self._finished(node.left), right=self._finished(node.right), taken=taken)

    # -- conditions --------------------------------------------------------------------------------------------

    def _comparison(self, atom: ast.Atom, scope: Scope) -> Comparison:
        left, right = self.values.term(atom.left, scope), self.values.term(atom.right, scope)
        if {left.kind, right.kind} <= {"text", "number"}:
            self._fail("this compares two constants", atom.span, "use a variable on one side")
        return Comparison(left, atom.op, right)

    def _skip(self, step: ast.Next | ast.Fold, left: _Built, right: _Built, scope: Scope) -> Skip:
        keys, comparisons = self._conditions(step.atoms, left.blocks, right.blocks, scope)
        least = most = duration = None
        for window in step.windows:
            if not isinstance(window, ast.Window):
                continue
            if window.kind in ("once", "between", "rows"):
                name = "LAST" if window.kind == "rows" else window.kind.upper()
                self._fail(f"{name} says nothing of a step", window.span, "leave it out")
            if window.high is not None and window.high <= 0 or window.low is not None and _less(window):
                raise UnsatisfiableWindowError(
                    "XSCL_UNSATISFIABLE_WINDOW",
                    "no event times satisfy this window: a step goes to what is later",
                    text=self.text,
                    span=window.span,
                    hint="the second end of a range is not below the first, and is more than 0",
                )
            if window.kind == "max":
                duration = _least(duration, window.high)
            else:
                least = max(filter(None, (least, window.low)), default=None)
                most = _least(most, window.high)
        return Skip(keys, least, most, duration, self._relative(step, scope), comparisons)

    def _relative(self, step: ast.Next | ast.Fold | ast.Negation, scope: Scope) -> tuple[Between, ...]:
        return self._between(tuple(each for each in step.windows if isinstance(each, ast.RelativeWindow)), scope)

    def _conditions(
        self, atoms: Sequence[ast.Atom], left: range, right: range, scope: Scope
    ) -> tuple[tuple[Key, ...], tuple[Comparison, ...]]:
        """Return equalities of both sides as such, and other conditions."""
        found = [self._comparison(atom, scope) for atom in atoms]
        keys = [self._key(each, left, right) for each in found]
        others = tuple(each for each, key in zip(found, keys, strict=True) if key is None)
        return tuple(key for key in keys if key is not None), others

    # -- absence -----------------------------------------------------------------------------------------------

    def _without(self, negation: ast.Negation, of: Node, left: range, block: int) -> Without:
        part, _ = self.places.part_of[block]
        scope = Scope(range(left.start, block + 1))
        keys, comparisons = self._conditions(negation.atoms, left, range(block, block + 1), scope)
        is_follower = negation.op == "not followed by"
        least, most, is_inside = (1 if is_follower else None), None, False
        for window in negation.windows:
            if not isinstance(window, ast.Window):
                continue
            refuse_window(negation, window, len(left), self.text)
            if window.kind == "between":
                is_inside = True
                continue
            low = window.low if is_follower else None if window.high is None else -window.high
            if low is not None:
                least = low if window.kind == "range" or least is None else max(least, low)
            most = _least(most, window.high)
        between = self._relative(negation, scope)
        ends = [
            each.high if each.later[0] == part else each.low
            for each in between
            if part in (each.later[0], each.earlier[0])
        ]
        if most is None and not is_inside and all(each is None for each in ends):
            raise unbounded(negation, next(iter(self.values.block_of), "x"), self.text)
        cut = tuple(replace(each, low=_cut(each.low), high=_cut(each.high)) for each in between)
        return Without(of, Part(part), Skip(keys, _cut(least), _cut(most), None, cut, comparisons), is_inside)

    def _key(self, found: Comparison, left: range, right: range) -> Key | None:
        """Return an equality of both sides as such; None: it is another condition."""
        sides = (found.left, found.right)
        if found.op != "=" or any(side.kind != "variable" or side.is_number for side in sides):
            return None
        one, other = (self._block(side) for side in sides)
        if one in left and other in right:
            return Key(found.left, found.right)
        return Key(found.right, found.left) if one in right and other in left else None

    def _block(self, term: Term) -> int:
        """Return the block of a variable among all."""
        block = self.places.parts[term.part].blocks[term.place]
        return self.places.part_of.index((term.part, block))

    def _between(
        self, windows: tuple[ast.Window | ast.RelativeWindow, ...] | tuple[ast.RelativeWindow, ...], scope: Scope
    ) -> tuple[Between, ...]:
        found = []
        for window in windows:
            assert isinstance(window, ast.RelativeWindow)
            later = self.values.block(window.later, window.later_span, scope)
            earlier = self.values.block(window.earlier, window.earlier_span, scope)
            if later == earlier:
                self._fail(
                    f"{window.later} and {window.earlier} are variables of one block, whose difference in time is 0",
                    window.span,
                    "name variables of two blocks",
                )
            where = self.places.part_of
            found.append(Between(where[later], where[earlier], window.low, window.high))
        return tuple(found)

    def _columns(self, select: tuple[ast.SelectItem, ...], scope: Scope) -> tuple[tuple[str, Term], ...]:
        found: dict[str, Term] = {}
        for item in select:
            name = item_name(item)
            if not constructor.is_element_name(name):
                self._fail(f"{item.path.name} has no name as an element", item.span, f"write {item.path.name} AS name")
            if name in found:
                self._fail(f"two values have the name {name}", item.span, f"write {item.path.name} AS another")
            found[name] = self.values.of_path(item.path, scope)
        return tuple(found.items())


def _limited(node: Node, most: int) -> Node:
    """Return a node that gives no match which lasts longer, where all that do are left out behind it.

    A left side that has waited so long is of no use, and is not kept.  Right sides compete with each other, and so do
    the matches of LONGEST: those that last long are left as they are.
    """
    match node:
        case Filter():
            return replace(node, of=_limited(node.of, most))
        case Next() | Fold() if not (isinstance(node, Fold) and node.longest):
            skip = replace(node.skip, duration=_least(node.skip.duration, most))
            return replace(node, left=_limited(node.left, most), skip=skip)
    return node


def _long(condition: ast.Duration) -> Comparison:
    time = Term("number", constant=Fraction(condition.time), is_number=True)
    return Comparison(Term("duration", is_number=True), condition.op, time)


def _cut(offset: int | None) -> int | None:
    return None if offset is None else cut_offset(offset)


def _less(window: ast.Window) -> bool:
    return window.low is not None and window.high is not None and window.high < window.low


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
