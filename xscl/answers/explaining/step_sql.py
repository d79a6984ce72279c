"""Steps as one statement of SQL, for people and for tests: NEXT by NOT EXISTS, FOLD by recursion.

The statement reads a relation of queries with the numbers of their conditions, and one for each part: its matches with
their times, the items that their documents are versions of, and the values of their variables.  The engine moves rows
in lanes instead (``batches.steps.tree``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from xscl.base.values import number_text
from xscl.batches.steps.rows import Layout, layout_of, numbered_nodes, parts_in, terms_of
from xscl.language.steps.shapes import Number, comparisons_of, slots_in
from xscl.language.steps.terms import (
    Between,
    Computed,
    Filter,
    Fold,
    Key,
    Next,
    Node,
    Part,
    StepsDefinition,
    Value,
    Without,
)
from xscl.language.terms import Comparison, Term

__all__ = ["StepRelations", "relations_of", "step_statement"]


@dataclass(frozen=True, slots=True)
class StepRelations:
    """Relations that the statement of a step reads, each as a name with its columns."""

    queries: tuple[str, tuple[str, ...]]
    """Relation with a row for each query: the groups of its parts, its numbers and texts (``n``), and numbers that such
    texts are (``x``)."""
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """Relation of the matches of each part."""


class _Pair(NamedTuple):
    """A value as SQL: its text and its number; ``null`` where it has none."""

    text: str
    number: str


_NULL = _Pair("null", "null")


@dataclass(frozen=True, slots=True)
class _Scope:
    """Rows that a condition is over: one on the left, and one on the right or none."""

    left: str
    right: str = ""
    parts: frozenset[int] = frozenset()
    """Parts that the right row has."""
    folds: frozenset[int] = frozenset()
    fold: Fold | None = None


def relations_of(name: str, definition: StepsDefinition) -> StepRelations:
    """Return the relations that the statement of a step reads."""
    return _Writer(name, definition).relations()


def step_statement(name: str, definition: StepsDefinition, numbers: Sequence[Number] | None = None) -> str:
    """Return the statement of a step; ``numbers`` are those of one query, in place of its row's."""
    return _Writer(name, definition, numbers).statement()


@dataclass
class _Writer:
    name: str
    definition: StepsDefinition
    numbers: Sequence[Number] | None = None
    written: list[str] = field(default_factory=list)
    """Relations of the statement so far."""

    @property
    def layout(self) -> Layout:
        return layout_of(self.definition)

    # -- relations ---------------------------------------------------------------------------------------------

    def relations(self) -> StepRelations:
        nodes = numbered_nodes(self.definition.root)
        constants = [f"n{place}" for place in sorted({place for node in nodes for place in slots_in(node)})]
        constants += [f"x{place}" for place in sorted(set(_compared_as_numbers(nodes)))]
        count = len(self.definition.parts)
        queries = ("qid", *(f"part{number + 1}" for number in range(count)), *constants)
        parts = [
            (f"{self.name}_part{number + 1}", ("part", "start", "ts", *self._of_part(number)))
            for number in range(count)
        ]
        return StepRelations((f"rs_{self.name}", queries), tuple(parts))

    def _of_part(self, number: int) -> list[str]:
        """Return the columns of a part's rows, but for times."""
        blocks, names = self.layout.of_parts(frozenset([number]))
        found = [f"{kind}{block + 1}" for block in blocks.tolist() for kind in ("docid", "item", "t", "node")]
        found += [f"{kind}{name + 1}" for name in names.tolist() for kind in ("m", "v", "x")]
        used = {(term.place, term.functions) for term in terms_of(self.definition.root) if _is_of(term, number)}
        for place, functions in sorted(used):
            column = self._variable(number, place, functions)
            found += [f"v{column}", f"x{column}"] if functions else []
        return found

    def _variable(self, part: int, place: int, functions: tuple[str, ...]) -> str:
        plain = str(self.layout.variable(part, place) + 1)
        return "_".join([plain, *(name.replace("-", "_") for name in functions)])

    def _columns(self, node: Node) -> list[str]:
        """Return the columns of a step's rows, but for the query and the times."""
        found = [column for part in sorted(parts_in(node)) for column in self._of_part(part)]
        folds = [each for each in numbered_nodes(node) if isinstance(each, Fold)]
        return found + [column for each in folds for column in _kept(each)]

    # -- the statement -----------------------------------------------------------------------------------------

    def statement(self) -> str:
        last = self._node(self.definition.root)
        blocks = self.layout.blocks[len(self.definition.members)]
        chosen = [f"{kind}{block + 1}" for kind in ("docid", "node") for block in range(blocks)]
        chosen += [f"m{self.layout.variable(*each) + 1} AS selected{at + 1}" for at, each in enumerate(self._selected)]
        recursive = "RECURSIVE " if any(isinstance(n, Fold) for n in numbered_nodes(self.definition.root)) else ""
        relations = ",\n".join(self.written)
        return f"WITH {recursive}{relations}\nSELECT DISTINCT qid, {', '.join(chosen)}, start, ts\nFROM {last}"

    @property
    def _selected(self) -> tuple[tuple[int, int], ...]:
        return self.definition.selected

    def _write(self, what: str, text: str) -> str:
        name = f"{what}{len(self.written) + 1}"
        indented = text.replace("\n", "\n  ")
        self.written.append(f"{name} AS (\n  {indented}\n)")
        return name

    def _node(self, node: Node) -> str:
        """Write the relations of a step; return the name of the last, which has its rows."""
        match node:
            case Part(number):
                columns = ", ".join(f"p.{name}" for name in ("start", "ts", *self._of_part(number)))
                of = (
                    f"FROM rs_{self.name} AS q\n  JOIN {self.name}_part{number + 1} AS p ON p.part = q.part{number + 1}"
                )
                return self._write("part", f"SELECT q.qid, {columns}\n{of}")
            case Filter():
                return self._filter(node)
            case Next():
                return self._next(node)
            case Without():
                return self._node(node.left)
        return self._fold(node)

    def _of_queries(self, alias: str) -> str:
        """Join the queries' numbers, where they are no constants of the statement."""
        return "" if self.numbers is not None else f"\n  JOIN rs_{self.name} AS q ON q.qid = {alias}.qid"

    def _filter(self, node: Filter) -> str:
        of = self._node(node.of)
        scope = _Scope("l")
        conditions = [self._compared(each, scope) for each in node.comparisons]
        conditions += [text for each in node.between for text in self._between(each, scope)]
        return self._write("kept", f"SELECT l.*\nFROM {of} AS l{self._of_queries('l')}\n{_where(conditions)}")

    def _next(self, node: Next) -> str:
        left, right = self._node(node.left), self._node(node.right)
        columns = ["l.qid", "l.start", "r.ts", *(f"l.{name}" for name in self._columns(node.left))]
        columns += [f"r.{name}" for name in self._columns(node.right)]
        first = self._first(node, right, _Scope("l", "r", parts_in(node.right), _folds(node.right)))
        from_ = f"FROM {left} AS l{self._of_queries('l')}\n  JOIN {right} AS r ON r.qid = l.qid"
        return self._write("next", f"SELECT {', '.join(columns)}\n{from_}\n{_where(first)}")

    def _first(self, node: Next | Fold, right: str, scope: _Scope) -> list[str]:
        """Return the conditions on a left row and the first rows behind it that satisfy those of a step."""
        other = _Scope("l", "o", scope.parts, scope.folds, scope.fold)
        sooner = _where(["o.qid = l.qid", *self._skip(node, other), "o.ts < r.ts"])
        none = sooner.replace("\n", "\n    ")
        return [*self._skip(node, scope), f"NOT EXISTS (\n    SELECT 1\n    FROM {right} AS o\n    {none})"]

    def _skip(self, node: Next | Fold, scope: _Scope) -> list[str]:
        skip, left, right = node.skip, scope.left, scope.right
        found = [f"{left}.ts < {right}.start", *(self._equal(key, scope) for key in skip.keys)]
        least = skip.least if skip.least_slot is None else self._limit(skip.least_slot)
        found += [] if least is None else [f"{right}.ts >= {left}.ts + {least}"]
        most = skip.most if skip.most_slot is None else self._limit(skip.most_slot)
        found += [] if most is None else [f"{right}.ts <= {left}.ts + {most}"]
        duration = skip.duration if skip.duration_slot is None else self._limit(skip.duration_slot)
        found += [] if duration is None else [f"{right}.ts <= {left}.start + {duration}"]
        found += [text for each in skip.between for text in self._between(each, scope)]
        found += [self._compared(each, scope) for each in skip.comparisons]
        return [*found, *self._apart(node, scope)]

    def _apart(self, node: Next | Fold, scope: _Scope) -> Iterator[str]:
        """Yield conditions that no documents of both sides are versions of one item."""
        left, right = scope.left, scope.right
        mine, left_runs = self._items(node.left)
        others, right_runs = self._items(node.right)
        left_runs += [node.number] if isinstance(node, Fold) else []
        yield from (f"{left}.{one} != {right}.{other}" for other in others for one in mine)
        yield from (_not_among(f"{right}.{other}", f"{left}.items_{run}") for other in others for run in left_runs)
        yield from (_not_among(f"{left}.{one}", f"{right}.items_{run}") for run in right_runs for one in mine)
        both = [(f"{left}.items_{one}", f"{right}.items_{other}") for one in left_runs for other in right_runs]
        yield from (text for one, other in both for text in self._disjoint(one, other, parts_in(node.right)))

    def _items(self, node: Node) -> tuple[list[str], list[int]]:
        """Return the columns of a step's rows with an item, and the numbers of the FOLDs whose items are a text."""
        match node:
            case Part(number):
                return [f"item{block + 1}" for block in self.layout.of_parts(frozenset([number]))[0].tolist()], []
            case Filter():
                return self._items(node.of)
            case Next():
                (mine, left_runs), (others, right_runs) = self._items(node.left), self._items(node.right)
                return mine + others, left_runs + right_runs
        items, runs = self._items(node.left)
        return items, [*runs, *([node.number] if isinstance(node, Fold) else [])]

    def _disjoint(self, one: str, other: str, parts: frozenset[int]) -> Iterator[str]:
        """Yield conditions that two texts have no item in common; the other's are of some parts."""
        for part in sorted(parts):
            for item in self._items(Part(part))[0]:
                among = " AND ".join(f"{items} LIKE '%,' || v.{item} || ',%'" for items in (one, other))
                yield f"NOT EXISTS (SELECT 1 FROM {self.name}_part{part + 1} AS v WHERE {among})"

    def _limit(self, slot: int) -> str:
        """Return a window in microseconds, or a number of iterations, which is one of a query's numbers."""
        return f"q.n{slot}" if self.numbers is None else str(int(self.numbers[slot]))

    def _equal(self, key: Key, scope: _Scope) -> str:
        return f"{self._value(key.left, scope).text} = {self._value(key.right, scope).text}"

    def _between(self, each: Between, scope: _Scope) -> Iterator[str]:
        later, earlier = (
            f"{scope.right if part in scope.parts else scope.left}.t{self.layout.block(part, block) + 1}"
            for part, block in (each.later, each.earlier)
        )
        if each.low is not None:
            yield f"{later} - {earlier} >= {each.low}"
        if each.high is not None:
            yield f"{later} - {earlier} <= {each.high}"

    # -- FOLD --------------------------------------------------------------------------------------------------

    def _fold(self, node: Fold) -> str:
        left, right = self._node(node.left), self._node(node.right)
        name = f"fold{len(self.written) + 1}"
        begin = _Scope("l", fold=node)
        scope = _Scope("l", "r", parts_in(node.right), _folds(node.right), node)
        mine, others = self._columns(node.left), self._columns(node.right)
        names = ["qid", "start", "ts", *mine, *others, *_kept(node)]
        firsts = ["l.qid", "l.start", "l.ts", *(f"l.{each}" for each in mine), *("null" for _ in others)]
        firsts += ["0", "','", *self._begun(node, begin)]
        goes = ["l.qid", "l.start", "r.ts", *(f"l.{each}" for each in mine), *(f"r.{each}" for each in others)]
        items, runs = self._items(node.right)
        taken = [f"l.items_{node.number}", *(f"r.{item} || ','" for item in items)]
        taken += [f"substr(r.items_{run}, 2)" for run in runs]
        goes += [f"l.n_{node.number} + 1", " || ".join(taken), *self._behind(node, scope)]
        conditions = [*self._first(node, right, scope), *(self._compared(each, scope) for each in node.conditions)]
        most = node.at_most if node.at_most_slot is None else self._limit(node.at_most_slot)
        conditions += [] if most is None else [f"l.n_{node.number} < {most}"]
        text = (
            f"SELECT {', '.join(firsts)}\nFROM {left} AS l\nUNION\n"
            f"SELECT {', '.join(goes)}\nFROM {name} AS l{self._of_queries('l')}\n  JOIN {right} AS r ON r.qid = l.qid\n"
            f"{_where(conditions)}"
        )
        indented = text.replace("\n", "\n  ")
        self.written.append(f"{name} ({', '.join(names)}) AS (\n  {indented}\n)")
        return self._write("runs", f"SELECT l.*\nFROM {name} AS l\nWHERE l.n_{node.number} > 0")

    def _begun(self, node: Fold, scope: _Scope) -> list[str]:
        """Return what a FOLD keeps before its first iteration."""
        found = ["null", "null"] * len(node.accumulators)
        for each in node.taken:
            text, number = _NULL if each.first is None else self._value(each.first, scope)
            there = f"CASE WHEN {_any(text, number)} THEN 1 ELSE 0 END"
            is_number = f"CASE WHEN {number} IS NOT NULL THEN 1 ELSE 0 END"
            found += [there, f"coalesce({number}, 0)", is_number, number, number, text, number]
        return found

    def _behind(self, node: Fold, scope: _Scope) -> list[str]:
        """Return what a FOLD keeps behind an iteration."""
        found = [each for kept in node.accumulators for each in self._value(kept.value, scope)]
        for place, each in enumerate(node.taken):
            text, number = _NULL if each.term is None else self._value(each.term, scope)
            there = "1" if each.term is None else f"CASE WHEN {_any(text, number)} THEN 1 ELSE 0 END"
            values, total, numbers, least, most, first, first_number = (f"l.{c}" for c in _taken(node, place))
            found += [
                f"{values} + {there}",
                f"{total} + coalesce({number}, 0)",
                f"{numbers} + CASE WHEN {number} IS NOT NULL THEN 1 ELSE 0 END",
                f"CASE WHEN {least} <= {number} OR {number} IS NULL THEN {least} ELSE {number} END",
                f"CASE WHEN {most} >= {number} OR {number} IS NULL THEN {most} ELSE {number} END",
                f"CASE WHEN {values} = 0 THEN {text} ELSE {first} END",
                f"CASE WHEN {values} = 0 THEN {number} ELSE {first_number} END",
            ]
        return found

    # -- values ------------------------------------------------------------------------------------------------

    def _compared(self, each: Comparison, scope: _Scope) -> str:
        left, right = self._value(each.left, scope), self._value(each.right, scope)
        numbers = f"{left.number} {each.op} {right.number}"
        if each.op not in ("=", "!=") or "null" in (left.text, right.text):
            return numbers
        texts = f"{left.text} {each.op} {right.text}"
        if _are_texts(each):
            return texts
        return f"CASE WHEN {left.text} IS NOT NULL AND {right.text} IS NOT NULL THEN {texts} ELSE {numbers} END"

    def _value(self, asked: Value, scope: _Scope) -> _Pair:
        if isinstance(asked, Computed):
            left, right = self._value(asked.left, scope).number, self._value(asked.right, scope).number
            return _Pair("null", f"({left} {asked.op} {f'nullif({right}, 0)' if asked.op == '/' else right})")
        found = self._plain(asked, scope)
        if not asked.is_number or asked.kind == "number":
            return found
        factor, constant = (self._number(asked, behind) for behind in (False, True))
        product = found.number if factor == "1" else f"{factor} * {found.number}"
        return _Pair("null", f"({product})" if constant == "0" else f"({product} + {constant})")

    def _number(self, term: Term, behind: bool) -> str:
        own = term.constant if behind else term.factor
        if term.slot is not None:
            if self.numbers is None:
                return f"q.n{term.slot + behind}"
            own = Fraction(self.numbers[term.slot + behind])
        return str(own.numerator) if own.denominator == 1 else repr(float(own))

    def _plain(self, term: Term, scope: _Scope) -> _Pair:
        match term.kind:
            case "text" if term.slot is not None and self.numbers is None:
                return _Pair(f"q.n{term.slot}", f"q.x{term.slot}")
            case "text" if term.slot is not None and self.numbers is not None:
                return _constant(str(self.numbers[term.slot]))
            case "text":
                return _constant(term.text)
            case "number":
                return _Pair("null", self._number(term, True))
            case "duration":
                return _Pair("null", f"({scope.left}.ts - {scope.left}.start)")
            case "variable" | "last":
                is_right = term.kind == "variable" and term.part in scope.parts
                alias = scope.right if is_right else scope.left
                column = self._variable(term.part, term.place, term.functions)
                found = _Pair(f"{alias}.v{column}", f"{alias}.x{column}")
                return found if term.kind == "variable" else self._at_first(term, found, scope)
        alias = scope.right if term.part in scope.folds else scope.left
        if term.kind == "accumulator":
            found = _Pair(f"{alias}.k_{term.part}_{term.place}", f"{alias}.kx_{term.part}_{term.place}")
            return self._at_first(term, found, scope)
        fold = next(n for n in numbered_nodes(self.definition.root) if isinstance(n, Fold) and n.number == term.part)
        columns = [f"{alias}.{name}" for name in _taken(fold, term.place)]
        return _function(fold.taken[term.place].function, columns)

    def _at_first(self, term: Term, found: _Pair, scope: _Scope) -> _Pair:
        """Return the value at the first iteration in place of that of the one before."""
        if term.first is None or scope.fold is None:
            return found
        first, begins = self._value(term.first, scope), f"{scope.left}.n_{scope.fold.number} = 0"
        both = zip(first, found, strict=True)
        return _Pair(*(f"CASE WHEN {begins} THEN {one} ELSE {other} END" for one, other in both))


def _compared_as_numbers(nodes: Sequence[Node]) -> Iterator[int]:
    """Yield the places of texts that were taken out of conditions which compare numbers, too."""
    for each in (one for node in nodes for one in comparisons_of(node)):
        sides = each.left, each.right
        if not _are_texts(each):
            yield from (side.slot for side in sides if side.kind == "text" and side.slot is not None)


def _are_texts(each: Comparison) -> bool:
    """Tell whether a condition compares texts alone."""
    return not any(side.is_number or side.kind not in ("variable", "text", "last") for side in (each.left, each.right))


def _constant(text: str) -> _Pair:
    return _Pair("'" + text.replace("'", "''") + "'", number_text(text) or "null")


def _function(name: str, columns: Sequence[str]) -> _Pair:
    values, total, numbers, least, most, first, first_number = columns
    match name:
        case "count":
            return _Pair("null", values)
        case "first":
            return _Pair(first, first_number)
        case "min" | "max":
            return _Pair("null", least if name == "min" else most)
    found = total if name == "sum" else f"1.0 * {total} / {numbers}"
    return _Pair("null", f"CASE WHEN {numbers} > 0 THEN {found} END")


def _kept(fold: Fold) -> list[str]:
    """Return the columns of what a FOLD keeps: its iterations, their items, accumulators, and functions over them."""
    found = [f"n_{fold.number}", f"items_{fold.number}"]
    found += [f"{kind}_{fold.number}_{place}" for place in range(len(fold.accumulators)) for kind in ("k", "kx")]
    return found + [column for place in range(len(fold.taken)) for column in _taken(fold, place)]


def _taken(fold: Fold, place: int) -> list[str]:
    names = ("taken", "total", "numbers", "least", "most", "first", "first_number")
    return [f"{name}_{fold.number}_{place}" for name in names]


def _any(text: str, number: str) -> str:
    return f"({text} IS NOT NULL OR {number} IS NOT NULL)"


def _not_among(item: str, items: str) -> str:
    """Return the condition that an item is not in a text with a comma on both sides of each."""
    return f"{items} NOT LIKE '%,' || {item} || ',%'"


def _where(conditions: Sequence[str]) -> str:
    return "WHERE " + "\n  AND ".join(conditions or ["1 = 1"])


def _folds(node: Node) -> frozenset[int]:
    return frozenset(each.number for each in numbered_nodes(node) if isinstance(each, Fold))


def _is_of(term: Term, part: int) -> bool:
    return term.kind in ("variable", "last") and term.part == part
