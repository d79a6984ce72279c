"""What columns answer of rows is what the walk over their documents finds; without Spark."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rows_and_specs import NUMBERS, PLAIN, TEXTS, random_cells, random_shape, random_spec, random_text

import xscl.xpath.relational
import xscl.xpath.row_witness
import xscl.xpath.spans.crossings
import xscl.xpath.spans.search
from xscl.base.alike_rows import LoneRows
from xscl.base.errors import DocumentLimitError
from xscl.base.safe_xml import parse_xml
from xscl.base.values import number_text, time_key, to_number, value_hash
from xscl.ingest.rows import cells_document
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.columns.formulas import There
from xscl.xpath.document_witnesses import Witness, match_document
from xscl.xpath.fact_rows import FactVariables, with_facts
from xscl.xpath.pattern import (
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Definition,
    Exists,
    Here,
    Negation,
    NodeTest,
    Step,
    Truth,
    conditions,
)
from xscl.xpath.relational import Asked, ChannelSplit, RowShape
from xscl.xpath.row_witness import RowMatcher

SHAPE = RowShape("r", ("a", "b", "c"))


@dataclass(frozen=True, slots=True)
class Split:
    """Specs by how they are answered; all specs of one definition in the same way."""

    walked: tuple[WitnessSpec, ...]
    """By walking documents."""
    answered: tuple[WitnessSpec, ...]
    """By columns alone."""
    asked: Mapping[str, tuple[Asked, ...]]
    """What ``answered`` comes to, by channel."""


def split_specs(specs: Iterable[WitnessSpec], shapes: Mapping[str, RowShape]) -> Split:
    """Tell the specs that columns alone answer from the others; ``shapes`` are those of the row channels."""
    by_channel: defaultdict[str, defaultdict[int, list[WitnessSpec]]] = defaultdict(lambda: defaultdict(list))
    for spec in specs:
        by_channel[spec.definition.channel][spec.definition.key].append(spec)
    walked: list[WitnessSpec] = []
    answered: list[WitnessSpec] = []
    asked: dict[str, tuple[Asked, ...]] = {}
    for channel, by_definition in by_channel.items():
        split = ChannelSplit(shapes[channel])
        split.put(by_definition)
        if found := split.asked():
            asked[channel] = found
        for key, asking in by_definition.items():
            (answered if split.answers(key) else walked).extend(asking)
    return Split(tuple(walked), tuple(answered), asked)


def child(name: str | None, *conditions: Condition, axis: str = "child") -> Step:
    return Step(axis, NodeTest("element", "" if name else None, name), conditions)  # type: ignore[arg-type]


def path(*steps: Step) -> Definition:
    return Definition("T", steps)


def asks(definition: Definition, *functions: str | None) -> WitnessSpec:
    return WitnessSpec(definition, functions or ("",), ((definition, definition),))


def walk(specs: Sequence[WitnessSpec], shape: RowShape, cells: Sequence[str | None]) -> list[Witness]:
    document = parse_xml(cells_document(cells, shape.columns, element=shape.element))
    return match_document(Automaton(dict.fromkeys(specs)), "T", document)


def answer(
    asked: Sequence[Asked], shape: RowShape, rows: Sequence[Sequence[str | None]], lone: LoneRows | None = None
) -> list[list[Witness]]:
    """What the kernel makes of rows, row by row."""
    matcher = RowMatcher(len(shape.columns))
    by_definition: defaultdict[int, list[Asked]] = defaultdict(list)
    for row in asked:
        by_definition[row.var].append(row)
    for key, of in by_definition.items():
        matcher.put(key, of)
    return matched(matcher, rows, lone)


def matched(
    matcher: RowMatcher, rows: Sequence[Sequence[str | None]], lone: LoneRows | None = None
) -> list[list[Witness]]:
    found: list[list[Witness]] = [[] for _ in rows]
    batches = list(matcher.witness_rows(events_of(rows), lone))
    for batch in [*batches, *(each.witnesses() for each in (() if lone is None else lone.found))]:
        for row in batch.to_pylist():
            chain = tuple(tuple(entry.values()) for entry in row["chain"])
            witness = Witness(row["var"], row["node"], row["fn"], row["strval"], row["num"], row["h"], chain)  # type: ignore[arg-type]
            found[row["docid"]].append(witness)
    return found


def events_of(rows: Sequence[Sequence[str | None]]) -> pa.RecordBatch:
    numbers = list(range(len(rows)))
    columns = {
        "docid": pa.array(numbers, pa.int64()),
        "channel": pa.array(["T"] * len(rows), pa.string()),
        "id": pa.array(map(str, numbers), pa.string()),
        "item": pa.array(numbers, pa.int64()),
        "ts": pa.array(numbers, pa.int64()),
        "late": pa.array([False] * len(rows)),
        "cells": pa.array(list(map(list, rows)), pa.list_(pa.string())),
    }
    return pa.RecordBatch.from_pydict(columns)


def counted(found: Sequence[Witness]) -> Counter[object]:
    """Rows without the order of their chains, which says nothing."""
    return Counter(replace(row, chain=tuple(sorted(row.chain))) for row in found)


def columns(row: Asked) -> tuple[int, ...]:
    """What must be there, of a row that asks for nothing else."""
    assert all(isinstance(part, There) for part in row.guard)
    return tuple(sorted(part.column for part in row.guard if isinstance(part, There)))


def check(specs: Sequence[WitnessSpec], shape: RowShape, rows: Sequence[Sequence[str | None]]) -> None:
    split = split_specs(specs, {"T": shape})
    assert {*split.walked, *split.answered} == set(specs)
    assert not {s.definition for s in split.walked} & {s.definition for s in split.answered}
    asked = split.asked.get("T", ())
    # Rows of which one is as the other, one of each kind apart, are the same rows.
    lone = LoneRows(frozenset(row.var for row in asked if row.var % 3))
    told = answer(asked, shape, rows, lone)
    for cells, found, alike in zip(rows, answer(asked, shape, rows), told, strict=True):
        assert counted(found) == counted(alike)
        assert counted([*found, *walk(split.walked, shape, cells)]) == counted(walk(specs, shape, cells))


@settings(max_examples=examples(120), deadline=None)
@given(st.integers(0, 1 << 40), st.integers(1, 6))
def test_both_ways_together_are_the_walk(seed: int, count: int) -> None:
    generator = random.Random(seed)
    shape = random_shape(generator)
    specs = [random_spec(generator, "T", shape) for _ in range(count)]
    check(specs, shape, [random_cells(generator, shape) for _ in range(4)])


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 1 << 40))
def test_many_conditions_on_many_rows(seed: int) -> None:
    generator = random.Random(seed)
    shape = random_shape(generator)
    specs = [random_spec(generator, "T", shape) for _ in range(40)]
    check(specs, shape, [random_cells(generator, shape) for _ in range(30)])


TIMES = (
    "2026-01-01",
    "2026-01-01T00:00:00.25Z",
    "2026-01-01T01:00:00+01:00",
    "2026-01-02",
    "2025-12-31",
    "x",
    "",
    "5",
    None,
)


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_times_are_compared_in_their_order(op: str) -> None:
    shape = RowShape("r", ("a",))
    keys = [key for text in TIMES if text and (key := time_key(text)) is not None]
    specs = []
    for key in keys:
        one = Compared("time", op, Constant(key, is_number=False), numeric=False)
        other = Compared("time", "<=", Constant(keys[0], is_number=False), numeric=False)
        equal = Compared("lower", "=", Constant("2026-01-02", is_number=False), numeric=False)
        for asked in ((one,), (Negation(one),), (one, other), (one, equal), (AnyOf((other, equal)), one)):
            last = Step("child", NodeTest("element", "", "a"), conditions(asked))
            specs.append(WitnessSpec(Definition("T", (Step("child", NodeTest("element")), last)), ("",), (), ()))
    assert not split_specs(specs, {"T": shape}).walked
    check(specs, shape, [[text] for text in TIMES])


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
    assert {row.position: columns(row) for row in split.asked.get("T", ())} == selected
    check([asks(definition, None)], SHAPE, [["1", "2", "3"], [None, "2", None], [None, None, None]])


@pytest.mark.parametrize(
    "spec",
    [
        asks(path(child("r"), child("a"), Step("child", NodeTest("text")))),
        asks(path(child("r", Truth(Call("contains", (Here((child("a"),)), Here((child("b"),)))))))),
        asks(path(child("r", Truth(Call("contains", (Here((child(None),)), Constant("x", False))))))),
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


@pytest.mark.parametrize(
    "spec",
    [
        asks(path(child("r"), child("a")), "lower", "number lower"),
        asks(path(child("r"), child("a", Comparison(Here(), "=", Constant("x", False))))),
        asks(path(child("r", Exists(child(None))), child("a"))),
        asks(path(child("r", Truth(Call("contains", (Here((child("a"),)), Constant("x", False))))))),
        asks(path(child("r", Comparison(Call("count", (Here((child("a"),)),)), "=", Constant("0", True))))),
        asks(path(child("r", Comparison(Here(), "=", Constant("123", True)))), "number"),
    ],
)
def test_what_needs_no_walk(spec: WitnessSpec) -> None:
    assert split_specs([spec], {"T": SHAPE}).answered == (spec,)
    check([spec], SHAPE, [["1", "2", "3"], [None, "2", None], ["x", "X", None], ["yx", None, "a"]])


def test_specs_of_one_definition_go_one_way() -> None:
    definition = path(child("r"), child("a"))
    below = path(child("r"), child("a"), Step("child", NodeTest("text")))
    specs = [asks(definition), WitnessSpec(definition, ("",), ((definition, below),), ((definition, below),))]
    assert split_specs(specs, {"T": SHAPE}).walked == tuple(specs)


def test_chains_beyond_the_limit_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[Witness]:
        raise DocumentLimitError("XSCL_DOCUMENT_LIMIT", "too many")

    monkeypatch.setattr(xscl.xpath.relational, "match_document", refuse)
    spec = asks(path(child("r"), child("a")))
    split = split_specs([spec], {"T": SHAPE})
    assert (split.walked, split.answered, split.asked) == ((spec,), (), {})


def test_numbers_and_hashes_of_columns() -> None:
    generator = random.Random(3)
    texts = [*TEXTS, *NUMBERS, *PLAIN, *(random_text(generator) for _ in range(3_000))]
    spec = asks(path(child("r"), child("a")), "", "number")
    split = split_specs([spec], {"T": RowShape("r", ("a",))})
    for text, found in zip(
        texts, answer(split.asked["T"], RowShape("r", ("a",)), [[text] for text in texts]), strict=True
    ):
        by_function = {row.function: row for row in found}
        assert (by_function[""].value, repr(by_function[""].number)) == (text, repr(to_number(text)))
        assert by_function[""].hash == value_hash(text)
        exact = number_text(text)
        assert (None if exact is None else by_function["number"].value) == exact
        assert len(found) == 1 + (exact is not None)


@settings(max_examples=examples(16), deadline=None)
@given(st.integers(0, 1 << 40))
def test_definitions_come_and_go(seed: int) -> None:
    generator = random.Random(seed)
    shape = random_shape(generator)
    specs = list(
        {spec.definition.key: spec for spec in (random_spec(generator, "T", shape) for _ in range(12))}.values()
    )
    rows = [random_cells(generator, shape) for _ in range(6)]
    split, matcher = ChannelSplit(shape), RowMatcher(len(shape.columns))
    live: dict[int, WitnessSpec] = {}
    for _ in range(4):
        for spec in generator.choices(specs, k=40):
            key = spec.definition.key
            if live.pop(key, None) is None:
                live[key] = spec
            split.put({key: [live[key]] if key in live else []})
            matcher.put(key, split.rows(key))
        fresh = answer(split.asked(), shape, rows)
        assert [Counter(found) for found in matched(matcher, rows)] == [Counter(found) for found in fresh]


def test_what_asks_for_much_of_a_row_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    root, every, beside = path(child("r")), path(child("r"), child(None)), path(child("r"), child("a"))
    spec = WitnessSpec(every, ("",), ((root, every),), ((root, beside),))
    assert split_specs([spec], {"T": SHAPE}).answered == (spec,)
    monkeypatch.setattr(xscl.xpath.relational, "_MOST_ENTRIES", 5)
    assert split_specs([spec, asks(beside)], {"T": SHAPE}).walked == (spec,)


@pytest.mark.parametrize("few", [0, 8, 1 << 30])
def test_two_entries_at_once(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Many conditions on a value of one column and a span of another, some of them with more."""
    monkeypatch.setattr(xscl.xpath.spans.crossings, "_FEW", few)
    chance = random.Random(3)

    def compared(name: str, op: str, value: int) -> Exists:
        return Exists(child(name, Comparison(Here(), op, Constant(str(value), is_number=op != "="))))

    def asked() -> Definition:
        low = chance.randrange(100)
        parts: list[Condition] = [compared("a", "=", chance.randrange(3)), compared("b", ">=", low)]
        parts += [compared("b", "<", low + 20)] * chance.randrange(2)
        parts += [Negation(compared("c", "=", chance.randrange(3)))] * chance.randrange(2)
        parts += [compared("c", "=", chance.randrange(3))] * chance.randrange(2)
        parts += [AnyOf((compared("c", ">", 1), compared("a", "=", 1)))] * chance.randrange(2)
        return path(child("r", *parts))

    def cell(most: int) -> str | None:
        return None if chance.random() < 0.1 else str(chance.randrange(most))

    rows = [(cell(3), cell(120), cell(3)) for _ in range(50)]
    check([asks(definition) for definition in {asked(): None for _ in range(60)}], SHAPE, rows)


def test_rows_without_a_value_are_told_by_their_events() -> None:
    """Those with a NULL, of several nodes, or with a value are rows."""
    one, several, valued = path(child("r", Exists(child("a")))), path(child("r"), child(None)), path(child("r"))
    specs = [asks(one, None), asks(several, None), asks(valued, "")]
    rows: list[list[str | None]] = [["1", "2", "3"], ["1", None, "3"], ["1", "2", "4"], [None, "2", "3"]]
    asked = split_specs(specs, {"T": SHAPE}).asked["T"]
    lone = LoneRows(frozenset(spec.definition.key for spec in specs))
    found = answer(asked, SHAPE, rows, lone)
    (alike,) = lone.found
    assert alike.event.tolist() == [0, 2] and alike.kinds.column("var").to_pylist() == [one.key]
    assert [counted(row) for row in found] == [counted(row) for row in answer(asked, SHAPE, rows)]


@pytest.mark.parametrize("has_chains", [False, True])
def test_facts_of_a_row_are_put_together_at_once(has_chains: bool) -> None:
    """Facts without chains of their own make the row that ``with_facts`` makes of their rows."""
    definitions = [
        path(child("r", Exists(child("a", Comparison(Here(()), "!=", Constant(f"{n}", False)))))) for n in range(9)
    ]
    specs = [WitnessSpec(definition, (None,), ()) for definition in definitions]
    specs += [asks(path(child("r"), child("b"))), WitnessSpec(path(child("r"), child("a")), ("",), ())]
    specs += [asks(definitions[0])] * has_chains
    facts = np.array(sorted(each.key for each in definitions), dtype=np.int64)
    known = FactVariables(facts, np.where(np.arange(9) % 2, 7, 8))
    rows = [("3", "x", None), ("8", None, "y"), (None, "z", "1"), ("none", "3", "3")]
    matcher = RowMatcher(3)
    for key, of in itertools.groupby(sorted(split_specs(specs, {"T": SHAPE}).asked["T"], key=_var), key=_var):
        matcher.put(key, [*of])
    apart = [each for batch in matcher.witness_rows(events_of(rows)) for each in with_facts(batch, known)]
    together = [*matcher.witness_rows(events_of(rows), known=known)]
    if has_chains:
        together = [each for batch in together for each in with_facts(batch, known)]
    told = [sorted(map(repr, pa.Table.from_batches(found).to_pylist())) for found in (apart, together)]
    assert told[0] == told[1] and any("'var': 7" in each for each in told[0])


def _var(asked: Asked) -> int:
    return asked.var


def test_what_all_rows_satisfy_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    holding = xscl.xpath.spans.search._Search._holding

    def counted(search: Any, rows: Any, entries: Any) -> Any:
        looked_at.append(len(rows))
        return holding(search, rows, entries)

    monkeypatch.setattr(xscl.xpath.spans.search._Search, "_holding", counted)
    some = Comparison(Here(), "!=", Constant("x", is_number=False))
    spec = asks(path(child("r", Exists(child("a")), Exists(child("b")), Exists(child("c", some)))))
    asked = split_specs([spec], {"T": SHAPE}).asked["T"]
    rows: list[list[str | None]] = [["1", "2", str(number)] for number in range(50)]
    assert all(answer(asked, SHAPE, rows))
    assert not any(looked_at)
    for number in range(0, 50, 5):
        rows[number][number % 3] = None
    assert [bool(found) for found in answer(asked, SHAPE, rows)] == [number % 5 > 0 for number in range(50)]
    assert any(looked_at)
