"""What columns answer of rows is what the walk over their documents finds; without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_and_specs import random_cells, random_shape, random_spec

import xscl.xpath.relational
from xscl.errors import DocumentLimitError
from xscl.ingest.rows import cells_document
from xscl.safexml import parse_xml
from xscl.values import apply_functions, to_number, value_hash
from xscl.xpath.automaton import Automaton, WitnessSpec
from xscl.xpath.pattern import Comparison, Condition, Constant, Definition, Exists, Here, NodeTest, Step
from xscl.xpath.relational import ASKED_SCHEMA, Asked, RowShape, asked_table, split_specs
from xscl.xpath.witness import ChainEntry, Witness, match_document

SHAPE = RowShape("r", ("a", "b", "c"))


def child(name: str | None, *conditions: Condition, axis: str = "child") -> Step:
    return Step(axis, NodeTest("element", "" if name else None, name), conditions)  # type: ignore[arg-type]


def path(*steps: Step) -> Definition:
    return Definition("T", steps)


def asks(definition: Definition, *functions: str | None) -> WitnessSpec:
    return WitnessSpec(definition, functions or ("",), ((definition, definition),))


def walk(specs: Sequence[WitnessSpec], shape: RowShape, cells: Sequence[str | None]) -> list[Witness]:
    document = parse_xml(cells_document(cells, shape.columns, element=shape.element))
    return match_document(Automaton(dict.fromkeys(specs)), "T", document)


def answer(asked: Sequence[Asked], cells: Sequence[str | None]) -> list[Witness]:
    """``WITNESSES`` in Python, for one row."""

    def there(position: int) -> bool:
        return position < 1 or cells[position - 1] is not None

    def number(position: int) -> int:
        return position if position < 1 else sum(cell is not None for cell in cells[:position])

    found = []
    for row in asked:
        if not all(map(there, row.needs)):
            continue
        text = cells[row.position - 1] if row.position > 0 else "".join(cell or "" for cell in cells)
        assert text is not None
        value = None if row.function is None else apply_functions(row.function, text)
        if value is None and row.function is not None:
            continue
        chain: list[ChainEntry] = [
            (var1, var2, number(high), number(low)) for var1, var2, high, low in row.chain if there(high) and there(low)
        ]
        numeric, hashed = (None, 0) if value is None else (to_number(value), value_hash(value))
        found.append(Witness(row.var, number(row.position), row.function, value, numeric, hashed, tuple(chain)))
    return found


def check(specs: Sequence[WitnessSpec], shape: RowShape, rows: Sequence[Sequence[str | None]]) -> None:
    split = split_specs(specs, {"T": shape})
    assert {*split.walked, *split.answered} == set(specs)
    assert not {s.definition for s in split.walked} & {s.definition for s in split.answered}
    for cells in rows:
        found = Counter(answer(split.asked.get("T", ()), cells))
        assert found + Counter(walk(split.walked, shape, cells)) == Counter(walk(specs, shape, cells))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 40), st.integers(1, 6))
def test_both_ways_together_are_the_walk(seed: int, count: int) -> None:
    generator = random.Random(seed)
    shape = random_shape(generator)
    specs = [random_spec(generator, "T", shape) for _ in range(count)]
    check(specs, shape, [random_cells(generator, shape) for _ in range(4)])


def test_much_is_answered_and_much_is_not() -> None:
    generator = random.Random(1)
    answered = walked = chains = 0
    for _ in range(300):
        shape = random_shape(generator)
        split = split_specs([random_spec(generator, "T", shape) for _ in range(4)], {"T": shape})
        answered += len(split.answered)
        walked += len(split.walked)
        chains += sum(len(row.chain) > 1 for rows in split.asked.values() for row in rows)
    assert answered > 400 and walked > 200 and chains > 20


@pytest.mark.parametrize(
    ("definition", "selected"),
    [
        (path(), {-1: ()}),
        (path(child("r")), {0: ()}),
        (path(child(None)), {0: ()}),
        (path(child("a")), {}),
        (path(child("r"), child("b")), {2: (2,)}),
        (path(child("b", axis="descendant")), {2: (2,)}),
        (path(child("r"), child(None)), {1: (1,), 2: (2,), 3: (3,)}),
        (path(child(None, axis="descendant")), {0: (), 1: (1,), 2: (2,), 3: (3,)}),
        (path(child("r"), child("b"), child(None, axis="descendant")), {}),
        (path(child("r", Exists(child("a"))), child("b")), {2: (1, 2)}),
        (path(child("r", Exists(child("x"))), child("b")), {}),
        (path(child("r", Exists(child("a", Exists(child("b"))))), child("b")), {}),
        (Definition("T", (child("r"),), (Exists(child("c", axis="descendant")),)), {0: (3,)}),
        (Definition("T", (child("r"),), (Exists(child(None, axis="descendant")),)), {0: ()}),
    ],
)
def test_what_definitions_select(definition: Definition, selected: dict[int, tuple[int, ...]]) -> None:
    split = split_specs([asks(definition, None)], {"T": SHAPE})
    assert split.walked == ()
    assert {row.position: row.needs for row in split.asked["T"]} == selected
    check([asks(definition, None)], SHAPE, [["1", "2", "3"], [None, "2", None], [None, None, None]])


@pytest.mark.parametrize(
    "spec",
    [
        asks(path(child("r"), child("a")), "lower"),
        asks(path(child("r"), child("a")), "number lower"),
        asks(path(child("r"), child("a", Comparison(Here(), "=", Constant("x", False))))),
        asks(path(child("r", Exists(child(None))), child("a"))),
        asks(path(child("r"), child("a"), Step("child", NodeTest("text")))),
        asks(path(child("r"), Step("child", NodeTest("attribute", "", "a")))),
        WitnessSpec(path(child("r")), ("",), ((path(child("r")), path(child("r"), Step("child", NodeTest("text")))),)),
        # The hanging branch has another root, with a condition that the row need not satisfy.
        WitnessSpec(path(child("r")), ("",), ((path(), path(child("r", Exists(child("a"))))),)),
    ],
)
def test_what_needs_a_walk(spec: WitnessSpec) -> None:
    plain = asks(path(child("r"), child("b")))
    split = split_specs([plain, spec], {"T": SHAPE})
    assert split.walked == (spec,)
    assert split.answered == (plain,)
    check([plain, spec], SHAPE, [["1", "2", "3"], [None, "2", None], ["x", "X", None]])


def test_specs_of_one_definition_go_one_way() -> None:
    definition = path(child("r"), child("a"))
    specs = [asks(definition), asks(definition, "lower")]
    assert split_specs(specs, {"T": SHAPE}).walked == tuple(specs)


def test_other_channels_are_walked() -> None:
    spec = asks(path(child("r")))
    assert split_specs([spec], {"U": SHAPE}).walked == (spec,)


def test_chains_beyond_the_limit_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[Witness]:
        raise DocumentLimitError("XSCL_DOCUMENT_LIMIT", "too many")

    monkeypatch.setattr(xscl.xpath.relational, "match_document", refuse)
    spec = asks(path(child("r"), child("a")))
    split = split_specs([spec], {"T": SHAPE})
    assert (split.walked, split.answered, split.asked) == ((spec,), (), {})


def test_the_relation() -> None:
    spec = WitnessSpec(path(child("r"), child("b")), (None, ""), ((path(child("r")), path(child("r"), child("b"))),))
    table = asked_table(split_specs([spec], {"T": SHAPE}).asked)
    assert table.schema == ASKED_SCHEMA
    upper, lower = spec.edges[0]
    chain = [{"var1": upper.key, "var2": lower.key, "node1": 0, "node2": 2}]
    row = {"position": 2, "var": lower.key, "needs": [2], "chain": chain}
    (channel,) = table.to_pylist()
    assert channel["channel"] == "T"
    assert channel["asked"] == [{**row, "fn": None}, {**row, "fn": ""}]
