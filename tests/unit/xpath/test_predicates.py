"""The predicate index against its conditions tried one by one, and its parts against lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import Patterns, named
from patterns import document as random_document
from strategies import Choices, Dice

from xscl.base.safe_xml import parse_xml
from xscl.xpath.conditions import condition as condition_module
from xscl.xpath.conditions import predicates
from xscl.xpath.conditions.condition import Memo, holds, reach, select
from xscl.xpath.conditions.intervals import Interval, Key, Ranges
from xscl.xpath.conditions.predicates import PredicateIndex
from xscl.xpath.nodes import DocumentNode, Node, document_order
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Axis,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Here,
    Negation,
    NodeTest,
    Step,
    Truth,
    conditions,
    exists_chain,
)

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
HUGE = "9" * 400
"""Beyond doubles: infinite for XPath, but not for exact atoms."""
TEXTS = (
    "8",
    "8.0",
    " 8 ",
    "-8",
    "0",
    "-0",
    "",
    "NaN",
    "x",
    "X",
    "Infinity",
    HUGE,
    f"-{HUGE}",
    "9007199254740993",
    "7.5",
)
FOLDED = ("8", "x", "nan", "infinity", "7.5", "0")
NUMBERS = ("8", "8.5", "0", "-8", "3", "7", "11", "9007199254740992", HUGE)
FRACTIONS = (*NUMBERS, "17/2", "1/3", "9007199254740993")
A, B, C, K, TEXT = named("a"), named("b"), named("c"), NodeTest("attribute", "", "k"), NodeTest("text")
PATHS: tuple[tuple[Step, ...], ...] = (
    (Step("child", A),),
    (Step("child", A), Step("child", B)),
    (Step("descendant", A),),
    (Step("child", K),),
    (Step("child", TEXT),),
    (Step("child", NodeTest("element", None, None)),),
    (Step("child", B), Step("descendant", K)),
)


def number(text: str) -> Constant:
    return Constant(text, is_number=True)


def string(text: str) -> Constant:
    return Constant(text, is_number=False)


def comparison(choose: Choices) -> Condition:
    """Of the node itself; constants repeat, so that many sets ask for the same one."""
    op = choose.one(*OPERATORS)
    kind = choose.count(0, 3)
    if kind == 0:
        return Comparison(Here(), op, string(choose.one(*TEXTS)))
    if kind < 3:
        return Comparison(Here(), op, number(choose.one(*NUMBERS)))
    functions = choose.one("", "", "lower", "lower normalize-space", "number")
    if choose.chance(50):
        return Compared(functions, op, number(choose.one(*FRACTIONS)), numeric=True)
    return Compared(functions, op, string(choose.one(*TEXTS)), numeric=choose.chance(30))


def of_text(choose: Choices) -> Condition:
    """A search for words, or a comparison with what a function gives; of few paths, so that many sets share one."""
    operand: Expression = Here(choose.one((), *PATHS[:3]))
    if choose.chance(30):
        operand = Call(choose.one("lower", "normalize-space"), (operand,))
    name = choose.one("contains", "contains", "starts-with", "contains-word", "count", "string-length", "lower")
    if name == "contains-word":
        return Truth(Call(name, (operand, *map(string, sorted({choose.one(*FOLDED) for _ in range(2)})))))
    if name in ("contains", "starts-with"):
        return Truth(Call(name, (operand, string(choose.one(*TEXTS, "5", ".", "N", "In")))))
    if name == "count":
        operand = Here(choose.one(*PATHS[:3]))
    constant = choose.one(number, string)(choose.one("0", "1", "2", "3", "", "x", "infinity"))
    return Comparison(Call(name, (operand,)), choose.one(*OPERATORS), constant)


def condition(choose: Choices, depth: int = 2) -> Condition:
    kind = choose.count(0, 11)
    if depth == 0 or kind < 4:
        return comparison(choose)
    if kind < 8:
        return exists_chain(choose.one(*PATHS), condition_set(choose, depth - 1))
    if kind == 8 and choose.chance(60):
        return of_text(choose)
    if kind == 8:
        return Negation(condition(choose, depth - 1))
    if kind < 11:
        return choose.one(AnyOf, AllOf)(conditions([condition(choose, depth - 1), condition(choose, depth - 1)]))
    return Patterns(choose).condition(depth)


def condition_set(choose: Choices, depth: int = 2) -> tuple[Condition, ...]:
    if choose.chance(15):
        # Bounds of one path, which two of its nodes may satisfy.
        path = choose.one(*PATHS)
        bounds = (Comparison(Here(), choose.one(*OPERATORS[2:]), number(choose.one(*NUMBERS))) for _ in range(2))
        return conditions(exists_chain(path, (bound,)) for bound in bounds)
    return conditions(condition(choose, depth) for _ in range(choose.one(0, 1, 1, 1, 2, 2, 3)))


def document(choose: Choices) -> str:
    if choose.chance(50):
        return random_document(choose, depth=4)
    parts = []
    for _ in range(choose.count(0, 5)):
        text = choose.one(*TEXTS)
        key = f" k='{choose.one(*TEXTS)}'" * choose.one(0, 1)
        inner = f"<b{key}>{choose.one(*TEXTS)}</b>" * choose.one(0, 1, 2)
        parts.append(f"<{(name := choose.one('a', 'a', 'b'))}{key}>{text}{inner}</{name}>{choose.one('', '', text)}")
    return f"<a k='{choose.one(*TEXTS)}'>{''.join(parts)}</a>"


def nodes_of(text: str) -> list[Node]:
    root = parse_xml(text)
    return [DocumentNode(root), *document_order(root)]


def check(index: PredicateIndex[int], present: dict[int, tuple[Condition, ...]], nodes: list[Node]) -> int:
    """Compare with the law; how many items were satisfied."""
    count = 0
    memo = Memo()
    for node in nodes:
        wanted = {item for item, parts in present.items() if all(holds(part, node) for part in parts)}
        assert index.satisfied(node, memo) == wanted, node
        count += len(wanted)
    return count


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_sets_that_come_and_go(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    nodes = nodes_of(document(choose))
    index, present = PredicateIndex[int](), dict[int, tuple[Condition, ...]]()
    for item in range(choose.count(1, 8)):
        present[item] = condition_set(choose)
        index.add(present[item], item)
        if choose.chance(30):
            gone = choose.one(*present)
            index.remove(gone)
            del present[gone]
        if choose.chance(40):
            check(index, present, nodes)
    assert len(index) == len(present)
    check(index, present, nodes)


@pytest.mark.parametrize("seed", range(examples(3)))
def test_many_sets_that_come_and_go(seed: int) -> None:
    """Enough of them that trees of ranges are built, changed and built again; taken out and filed again."""
    choose = Dice(seed)
    sets = [condition_set(choose) for _ in range(250)]
    index, present, count = PredicateIndex[int](), dict[int, tuple[Condition, ...]](), 0
    for _ in range(8):
        for item in choose.random.sample(range(len(sets)), choose.count(10, 120)):
            if item in present:
                index.remove(item)
                del present[item]
            else:
                index.add(sets[item], item)
                present[item] = sets[item]
            assert (item in index) == (item in present)
        count += check(index, present, nodes_of(document(choose)))
    assert count > 100
    for item in list(present):
        index.remove(item)
    assert check(index, {}, nodes_of(document(choose))) == 0


def test_what_is_taken_out_leaves_nothing() -> None:
    choose = Dice(11)
    index = PredicateIndex[int]()
    for item in range(300):
        index.add(condition_set(choose), item)
    for item in range(300):
        index.remove(item)
    assert not len(index)
    assert not any((index._conditions, index._filed, index._checked, index._own, index._children, index._attributes))
    assert not any((index._by_child, index._by_descendant, index._others))


def exist(path: tuple[Step, ...], *parts: Condition) -> Condition:
    return exists_chain(path, parts)


def bound(op: str, constant: str) -> Condition:
    return Comparison(Here(), op, number(constant))


ONE_AND_FIVE = "<r><a>1</a><a>5</a></r>"
TO_A = PATHS[0]


@pytest.mark.parametrize(
    ("parts", "text", "holds_of_root"),
    [
        # Two bounds of one path: each may be satisfied by another node, two bounds of one node by one node only.
        ((exist(TO_A, bound(">", "3")), exist(TO_A, bound("<", "3"))), ONE_AND_FIVE, True),
        ((exist(TO_A, bound(">", "3"), bound("<", "4")),), ONE_AND_FIVE, False),
        ((exist(TO_A, bound(">", "3")), exist(TO_A, bound("<", "3"))), "<r><a>5</a></r>", False),
        ((exist(TO_A, bound(">=", "3")), exist(TO_A, bound("<=", "3"))), "<r><a>3</a></r>", True),
        # Text and number are two readings.
        ((Comparison(Here(), "=", string("8")),), "<r>8.0</r>", False),
        ((Comparison(Here(), "=", number("8")),), "<r>8.0</r>", True),
        ((Compared("", "=", number("8"), numeric=True),), "<r> 8.0 </r>", True),
        ((Compared("", "=", string("8"), numeric=False),), "<r>8.0</r>", False),
        ((Comparison(Here(), "=", number("0")),), "<r>-0</r>", True),
        # Doubles and exact numbers are two more.
        ((Comparison(Here(), "=", number("9007199254740992")),), "<r>9007199254740993</r>", True),
        ((Compared("", "=", number("9007199254740992"), numeric=True),), "<r>9007199254740993</r>", False),
        # What is no number satisfies != in brackets, but nothing as an atom.
        ((Comparison(Here(), "!=", number("8")),), "<r>x</r>", True),
        ((Compared("", "!=", number("8"), numeric=True),), "<r>x</r>", False),
        ((), "<r/>", True),
    ],
)
def test_by_hand(parts: tuple[Condition, ...], text: str, holds_of_root: bool) -> None:
    index = PredicateIndex[str]()
    index.add(parts, "it")
    assert (index.satisfied(parse_xml(text), Memo()) == {"it"}) is holds_of_root


# -- the grouped filters of CACQ -------------------------------------------------------------------------------


def column(name: str, op: str, constant: str) -> Condition:
    """A predicate on a column of a row, which is a document with an element for each column."""
    return exists_chain((Step("child", named(name)),), (Compared("", op, number(constant), numeric=True),))


def accepted(index: PredicateIndex[str], **columns: int) -> set[str]:
    row = "".join(f"<{name}>{value}</{name}>" for name, value in columns.items())
    return index.satisfied(parse_xml(f"<row>{row}</row>"), Memo())


def test_cacq_g_c1_grouped_filter() -> None:
    """Figure 5 of Madden et al., *Continuously Adaptive Continuous Queries over Streams*, 2002."""
    index = PredicateIndex[str]()
    for text in (">1", ">7", ">11", "<3", "<5", "=6", "=8"):
        index.add((column("a", text[0], text[1:]),), text)
    assert accepted(index, a=8) == {">1", ">7", "=8"}
    index.add((column("a", "!=", "8"),), "<>8")
    index.add((column("a", ">=", "8"),), ">=8")
    index.add((column("a", "<=", "8"),), "<=8")
    assert accepted(index, a=8) == {">1", ">7", "=8", ">=8", "<=8"}
    assert accepted(index, a=2) == {">1", "<3", "<5", "<>8", "<=8"}


def test_cacq_g_c12_disjunction() -> None:
    """Alternatives beside another column, which the same paper has bits for: (a<1 OR a>7) AND b>=3."""
    index = PredicateIndex[str]()
    index.add(conditions([AnyOf((column("a", "<", "1"), column("a", ">", "7"))), column("b", ">=", "3")]), "it")
    rows = [(4, 3), (3, 1), (3, 8), (0, 0), (8, 4)]
    assert [row for row in rows if accepted(index, a=row[0], b=row[1])] == [(8, 4)]


# -- what is shared, counted -----------------------------------------------------------------------------------


def checks(monkeypatch: pytest.MonkeyPatch, index: PredicateIndex[int], text: str) -> tuple[int, set[int]]:
    """How many conditions are tried for the root element, and which sets it satisfies."""
    calls = 0

    def counted(part: Condition, node: Node, memo: Memo | None = None) -> bool:
        nonlocal calls
        calls += 1
        return holds(part, node, memo)

    root = parse_xml(text)
    with monkeypatch.context() as patched:
        patched.setattr(predicates, "holds", counted)
        found = index.satisfied(root, Memo())
    return calls, found


def below(*parts: Condition) -> Condition:
    return exists_chain((Step("child", A),), parts)


MANY: dict[str, tuple[Callable[[int], tuple[Condition, ...]], str]] = {
    "equal strings": (lambda n: (Comparison(Here(), "=", string(str(n))),), "<r>5</r>"),
    "equal numbers": (lambda n: (Comparison(Here(), "=", number(str(n))),), "<r>5</r>"),
    "equal atoms": (lambda n: (Compared("lower", "=", string(f"w{n}"), numeric=False),), "<r>W5</r>"),
    "bounds": (lambda n: (Comparison(Here(), ">", number(str(n))),), "<r>3</r>"),
    "intervals": (
        lambda n: (Comparison(Here(), ">", number(str(n))), Comparison(Here(), "<", number(str(n + 3)))),
        "<r>5</r>",
    ),
    "children": (lambda n: (below(Comparison(Here(), "=", string(str(n)))),), "<r><a>5</a><a>7</a></r>"),
    "intervals of children": (
        lambda n: (below(Comparison(Here(), ">", number(str(n)))), below(Comparison(Here(), "<", number(str(n + 3))))),
        "<r><a>5</a></r>",
    ),
    "two conditions": (
        lambda n: (Exists(Step("child", A)), Comparison(Here(), "=", string(str(n)))),
        "<r>5<a/></r>",
    ),
    "one of two": (
        lambda n: (AnyOf((Comparison(Here(), "=", string(str(n))), below(Comparison(Here(), "=", string(str(n)))))),),
        "<r>5<a>7</a></r>",
    ),
}


def two(a: str, b: str) -> tuple[Condition, ...]:
    return tuple(
        exists_chain((Step("child", test),), (Comparison(Here(), "=", string(value)),))
        for test, value in ((A, a), (B, b))
    )


MANY |= {
    "all share the first constant": (lambda n: two("x", str(n)), "<r><a>x</a><b>5</b></r>"),
    "all share the second constant": (lambda n: two(str(n), "x"), "<r><a>5</a><b>x</b></r>"),
    "all share a constant further down": (
        lambda n: (exists_chain((Step("child", C),), two(str(n), "x")),),
        "<r><c><a>5</a><b>x</b></c></r>",
    ),
}


@pytest.mark.parametrize("kind", MANY)
def test_ten_times_the_sets_are_no_more_checks(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    of_number, text = MANY[kind]
    counts = []
    for size in (200, 2_000):
        index = PredicateIndex[int]()
        for item in range(size):
            index.add(of_number(item), item)
        calls, found = checks(monkeypatch, index, text)
        assert found
        assert len(found) < 10
        counts.append(calls)
    assert counts[0] == counts[1] <= 10


def test_paths_of_descendants_in_nested_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reached from nested nodes is not gathered from each of them."""
    index = PredicateIndex[int]()
    index.add((exists_chain((Step("descendant", A),) * 10, (Comparison(Here(), "=", string("x")),)),), 0)
    reached = 0

    def counted(step: Step, node: Node, memo: Memo | None = None) -> Iterator[Node]:
        nonlocal reached
        for found in select(step, node, memo):
            reached += 1
            yield found

    monkeypatch.setattr(condition_module, "select", counted)
    root = parse_xml("<a>" * 150 + "x" + "</a>" * 150)
    assert index.satisfied(root, Memo()) == {0}
    assert reached <= 10 * 150


@pytest.mark.parametrize("axis", ["child", "descendant"])
def test_paths_that_begin_with_names_elsewhere_are_not_followed(monkeypatch: pytest.MonkeyPatch, axis: Axis) -> None:
    followed = 0

    def counted(path: tuple[Step, ...], node: Node, memo: Memo) -> list[Node]:
        nonlocal followed
        followed += 1
        return reach(path, node, memo)

    monkeypatch.setattr(predicates, "reach", counted)
    index = PredicateIndex[int]()
    for item in range(1_000):
        steps = Step(axis, named(f"e{item}")), Step("child", B)
        index.add((exists_chain(steps, (bound("<", "9"),)),), item)
    root = parse_xml("<r><e3><b>1</b></e3><e4><b>10</b></e4><a/><e5/></r>")
    assert index.satisfied(DocumentNode(root), Memo()) == ({3} if axis == "descendant" else set())
    assert index.satisfied(root, Memo()) == {3}
    assert followed <= 6


def test_whether_a_path_leads_anywhere_is_found_by_its_first_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by all node sets on the way: twenty steps of ``//`` in a hundred nested elements."""
    index = PredicateIndex[int]()
    index.add((exists_chain((Step("descendant", A),) * 20),), 0)
    steps = 0

    def counted(step: Step, node: Node, memo: Memo | None = None) -> Iterator[Node]:
        nonlocal steps
        for found in select(step, node, memo):
            steps += 1
            yield found

    monkeypatch.setattr(condition_module, "select", counted)
    memo = Memo()
    root = parse_xml("<a>" * 100 + "</a>" * 100)
    assert [index.satisfied(node, memo) for node in root.iter()] == [{0}] * 80 + [set()] * 20
    assert steps < 20_000


# -- ranges ----------------------------------------------------------------------------------------------------


class Listed:
    """What ``Ranges`` does, item by item."""

    def __init__(self) -> None:
        self.intervals: dict[int, list[Interval]] = {}

    def at(self, key: Key) -> set[int]:
        return {item for item, found in self.intervals.items() if any(contains(each, key) for each in found)}


def contains(interval: Interval, key: Key) -> bool:
    assert isinstance(key, (int, float, Fraction))
    low = -float("inf") if interval.low is None else interval.low
    high = float("inf") if interval.high is None else interval.high
    assert not isinstance(low, str)
    assert not isinstance(high, str)
    return (key > low or (interval.with_low and key == low) or (interval.low is None)) and (
        key < high or (interval.with_high and key == high) or (interval.high is None)
    )


def interval(choose: Choices, most: int) -> Interval:
    """Many are empty, of one point, or half the line."""
    low, high = (choose.one(None, *[float(choose.count(0, most))] * 3) for _ in range(2))
    return Interval(low, high, with_low=choose.chance(50), with_high=choose.chance(50))


def change(choose: Choices, ranges: Ranges[int], listed: Listed, items: int, most: int) -> None:
    item = choose.count(0, items)
    if item in listed.intervals and choose.chance(70):
        ranges.remove(item)
        del listed.intervals[item]
    elif item not in listed.intervals:
        listed.intervals[item] = [interval(choose, most) for _ in range(choose.one(1, 1, 2, 3))]
        for each in listed.intervals[item]:
            ranges.add(each, item)


def compare(ranges: Ranges[int], listed: Listed, keys: list[float]) -> None:
    assert len(ranges) == len(listed.intervals)
    for key in keys:
        assert set(ranges.at(key)) == listed.at(key)


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_ranges_against_a_list(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    ranges, listed = Ranges[int](), Listed()
    for _ in range(choose.count(1, 40)):
        change(choose, ranges, listed, 12, 4)
        if choose.chance(30):
            compare(ranges, listed, [choose.count(-1, 10) / 2])
    compare(ranges, listed, [half / 2 for half in range(-1, 11)])


@pytest.mark.parametrize(("seed", "items", "most"), [(1, 30, 3), (2, 300, 20), (3, 300, 2_000), (4, 3_000, 100)])
def test_many_ranges(seed: int, items: int, most: int) -> None:
    """Past the number of changes at which the tree is built, again and again."""
    choose = Dice(seed)
    ranges, listed = Ranges[int](), Listed()
    for _ in range(40):
        for _ in range(choose.count(1, items // 2)):
            change(choose, ranges, listed, items, most)
        compare(ranges, listed, [choose.count(-2, 2 * most + 2) / 2 for _ in range(6)])


def test_a_range_that_comes_back_with_other_bounds() -> None:
    ranges = Ranges[int]()
    for item in range(100):
        ranges.add(Interval(low=float(item)), item)
    assert set(ranges.at(4.5)) == {0, 1, 2, 3, 4}
    ranges.remove(2)
    ranges.add(Interval(high=3.0), 2)
    assert set(ranges.at(4.5)) == {0, 1, 3, 4}
    assert set(ranges.at(0.5)) == {0, 2}
    ranges.remove(2)
    assert set(ranges.at(4.5)) == {0, 1, 3, 4}
    ranges.remove(2)
    assert len(ranges) == 99


def test_ranges_of_strings_and_fractions() -> None:
    words, exact = Ranges[int](), Ranges[int]()
    for item in range(60):
        words.add(Interval(low=f"w{item:02}", high=f"w{item:02}x", with_low=True), item)
        exact.add(Interval(Fraction(item, 3), Fraction(item + 1, 3), with_high=True), item)
    assert words.at("w07") == words.at("w07a") == [7]
    assert words.at("w07x") == []
    assert exact.at(Fraction(1, 3)) == [0]
    assert exact.at(Fraction(5, 12)) == [1]


@settings(max_examples=examples(80))
@given(st.data())
def test_both_of_two_intervals(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    one, other = interval(choose, 3), interval(choose, 3)
    for half in range(-1, 9):
        key = half / 2
        assert (key in one) == contains(one, key)
        assert (key in one & other) == (contains(one, key) and contains(other, key))
