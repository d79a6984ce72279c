"""Columns of times, dates and texts in order: the engine both ways, the statements of templates, and the oracle."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from both_sides import channel_facts
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers, rout
from sqlite_relations import joined_columns, load, statement_rows
from strategies import Dice

from xscl.base.values import time_key
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query

NUMERIC = {"P": frozenset({"n"}), "Q": frozenset({"n"})}
TEXTS = {"P": frozenset({"s"}), "Q": frozenset({"s"})}
TIMES = {"P": frozenset({"t", "d"}), "Q": frozenset({"t", "d"})}
FACTS = channel_facts(NUMERIC, TEXTS, TIMES)
VALUES = {
    "t": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.25Z", "2026-01-02T00:00:00Z"),
    "d": ("2026-01-01", "2026-01-02", "2025-12-31"),
    "s": ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00.5+01:00", "2026-01-01", "b", "", "2026-01-01T00:00:00"),
    "n": ("2026", "1", "10"),
}
OPERATORS = ("<", "<=", ">", ">=", "=", "!=")


def documents(choose: Dice, channels: tuple[str, ...] = ("P", "Q")) -> list[Doc]:
    docs = []
    for number in range(14):
        channel = choose.one(*channels)
        columns = {name: choose.one(*values) for name, values in VALUES.items() if choose.count(0, 4)}
        cells = "".join(f"<{name}>{value}</{name}>" for name, value in columns.items())
        docs.append(Doc(channel, f"e{number}", choose.count(0, 6) * 1_000_000, f"<{channel}>{cells}</{channel}>"))
    return docs


def literal(choose: Dice) -> str:
    """A literal of a query: times with and without a zone, a date, a text, a number."""
    times = ("2026-01-01", "2026-01-01T00:00:00.25Z", "2026-01-01T01:00:00+01:00", "2026-01-02")
    return choose.one("10", *(f"'{text}'" for text in (*times, "b", "2026-01-01T00:00:00")))


def brackets(choose: Dice) -> str:
    """Conditions of a block on columns, by which most rows still pass."""
    if choose.chance(50):
        return ""
    first, second = (f"./{choose.one('t', 'd', *VALUES)} {choose.one(*OPERATORS)} {literal(choose)}" for _ in range(2))
    form = choose.one("[{0}]", "[{0} or {1}]", "[not({0})]", "[./t[. != 'x' and not(. > '2026-01-02')] or {0}]")
    return form.format(first, second)


def queries(choose: Dice, channels: tuple[str, str] = ("P", "Q")) -> list[str]:
    found = []
    for _ in range(8):
        atoms = [
            choose.one("x{0} {1} y{0}", "x{0} {1} y{0}", "lower(x{0}) {1} y{0}").format(place, choose.one(*OPERATORS))
            for place in range(choose.count(1, 2))
        ]
        if choose.chance(40):
            atoms.append(f"{choose.one('x', 'y')}0 {choose.one(*OPERATORS)} {literal(choose)}")
        blocks = [
            f"{channel}/{channel}"
            + brackets(choose)
            + "".join(f"[./{choose.one(*VALUES)}->{name}{i}]" for i in range(len(atoms)))
            for channel, name in zip(channels, "xy", strict=True)
        ]
        join = choose.one("JOIN", "FOLLOWED BY")
        found.append(f"{blocks[0]} {join} {{{' AND '.join(atoms)}, {choose.count(1, 6)} s}} {blocks[1]}")
    return list(dict.fromkeys(found))


def test_orders_of_times(tmp_path: Path) -> None:
    matches: Counter[bool] = Counter()
    for seed in range(examples(50)):
        choose = Dice(seed)
        docs, texts = documents(choose), queries(choose)
        program = {text: compiled(text, FACTS) for text in texts}
        asked = {
            text: any("time" in {join.fn_l, join.fn_r} for join in query.group.instance.joins)
            for text, query in program.items()
        }
        engines = (UnitsEngine(tmp_path, program, seed=seed % 3 - 1), LocalEngine(tmp_path, program))
        for engine in engines:
            for start in range(0, len(docs), 5):
                engine.run(docs[start : start + 5])
        statements = statement_rows(load(engines[0]), program, own=seed == 0)
        ids = [doc.id for doc in docs]
        for text, query in program.items():
            expected = answers(parse_query(text), docs, numeric=NUMERIC, texts=TEXTS, times=TIMES)
            for engine in engines:
                assert engine.answers(text) == expected, (text, seed)
            bindings = rout(parse_query(text), docs, query.joined_names, numeric=NUMERIC, texts=TEXTS, times=TIMES)
            assert joined_columns(query, statements[text], ids) == bindings, (text, seed)
            matches[asked[text]] += len(expected)
    assert matches[True] > 20 and matches[False] > 20, "the workload must find something"


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_kept_while_columns_are_not_known(operator: str) -> None:
    """Rows that came before the other channel's first row can join with it, whatever its columns turn out to be."""
    text = f"P/P/a->x JOIN {{x {operator} y, 5 s}} Q/Q/b->y"
    kinds = [{"numeric": frozenset("ab")}, {"texts": frozenset("ab")}, {"times": frozenset("ab")}]
    for first, second in itertools.product(kinds, repeat=2):
        before = compiled(text, {"P": ChannelFacts("rows", **first)})
        after = compiled(text, {"P": ChannelFacts("rows", **first), "Q": ChannelFacts("rows", **second)})
        kept = {spec.definition.key: set(spec.functions) for spec in before.specs if spec.definition.channel == "P"}
        wanted = {spec.definition.key: set(spec.functions) for spec in after.specs if spec.definition.channel == "P"}
        [join] = after.group.instance.joins
        [(key, functions)] = kept.items()
        assert {join.fn_l, join.fn_r} & functions, (first, second)
        assert set(wanted) == {key}


def test_order_of_texts_of_times() -> None:
    texts = ["2026-01-01", "2026-01-01T00:00:00.25Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:01Z"]
    keys = [time_key(text) for text in texts]
    assert keys == sorted(keys, key=str)
    assert time_key("2026-02-30") is time_key("0000-01-01T00:00:00Z") is None
