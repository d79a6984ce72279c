"""Many inequalities that differ in one constant, looked up as one: the engine in its ways, and the oracle."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers
from strategies import Dice

import xscl.templates.joins.meet
import xscl.templates.joins.verify
from xscl.base.values import COMPARISONS
from xscl.language.syntax.parser import parse_query
from xscl.templates.joins.families import candidates, families_of
from xscl.templates.plans import Edge, EdgeKey
from xscl.templates.results import ResultColumns

OPERATORS = ("<", "<=", ">", ">=", "=", "!=")
FACTORS = ("1", "1.1", "1.02", "2", "0.5", "-1", "-1.1", "3", "1.000000000000001")
ADDENDS = ("0", "1", "0.1", "-2", "0.02", "100")
TINY, GREAT = f"0.{'0' * 300}1", "9" * 320
NUMBERS = ("0", "1", "1.1", "1.10", "1.21", "-1", "-1.1", "2", "0.11", "100", "1.02", "x", "", TINY, f"-{TINY}", GREAT)


def document(choose: Dice, number: int) -> Doc:
    """Return a document with a key or two, and mostly one value."""
    keys = "".join(f"<k>{choose.one('a', 'b')}</k>" for _ in range(choose.one(1, 1, 1, 2)))
    values = "".join(f"<v>{choose.one(*NUMBERS)}</v>" for _ in range(choose.one(1, 1, 1, 0, 2, 3)))
    return Doc("S", f"e{number}", choose.count(0, 6) * 1_000_000, f"<r>{keys}{values}</r>")


def queries(choose: Dice) -> list[str]:
    """Return queries most of which differ in a constant alone."""
    joined = choose.chance(75)
    one, other = ("S/r[./k->k][./v->x]", "S/r[./k->l][./v->y]") if joined else ("S/r/v->x", "S/r/v->y")
    found = []
    for _ in range(choose.count(2, 9)):
        op, f, add = choose.one(*OPERATORS[: choose.one(1, 4, 6)]), choose.one(*FACTORS), choose.one(*ADDENDS)
        if choose.chance(50):
            f = "1.1"
        elif choose.chance(50):
            add = "0"
        atom = f"x {op} {f} * y + {add}".replace("+ -", "- ")
        atoms = [*(["k = l"] if joined else []), atom, *([f"x >= {choose.one(*ADDENDS)}"] if choose.chance(10) else [])]
        found.append(f"{one} JOIN {{{' AND '.join(atoms)}, 6 s}} {other}")
    third = "JOIN {y = z, 6 s} S/r/v->z"
    return [*found, f"{found[0]} {third}"] if choose.chance(30) else found


def test_the_engine_finds_what_the_oracle_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matches = 0
    for seed in range(examples(160)):
        choose = Dice(seed)
        monkeypatch.setattr(xscl.templates.joins.verify, "_TOGETHER", choose.one(1, 7, 1 << 17))
        monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_BOUNDED", choose.one(0, 0, 1 << 40))
        docs = [document(choose, number) for number in range(12)]
        program = {text: compiled(text) for text in dict.fromkeys(queries(choose))}
        limit = choose.one(0, 1 << 40)
        engines = (UnitsEngine(tmp_path, program, limit, seed=seed), LocalEngine(tmp_path, program, limit))
        for engine in engines:
            for start in range(0, len(docs), 5):
                engine.run(docs[start : start + 5])
        for text in program:
            expected = answers(parse_query(text), docs)
            for engine in engines:
                assert engine.answers(text) == expected, (text, seed, type(engine))
            matches += len(expected)
    assert matches > 100


def test_pairs_are_counted_whether_bounds_leave_them_out_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions of one item are no pair in either way."""
    counted: list[int] = []
    add_count = ResultColumns.add_count

    def count(self: ResultColumns, pairs: int) -> None:
        counted.append(pairs)
        add_count(self, pairs)

    monkeypatch.setattr(ResultColumns, "add_count", count)
    fewer = 0
    for seed in range(examples(80)):
        found = []
        for least in (0, 1 << 40):
            choose = Dice(seed)
            monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_BOUNDED", least)
            docs = [document(choose, number) for number in range(14)]
            docs = [replace(doc, item=choose.one(None, "i", "j")) for doc in docs]
            program = {text: compiled(text) for text in dict.fromkeys(queries(choose))}
            engine = LocalEngine(tmp_path, program, 0)
            del counted[:]
            for start in range(0, len(docs), 5):
                engine.run(docs[start : start + 5])
            found.append((counted[:], {text: engine.answers(text) for text in program}))
        assert found[0] == found[1], seed
        fewer += sum(found[0][0])
    assert fewer


@pytest.mark.parametrize("op", ["=", "<=", ">="])
def test_values_that_only_fractions_tell_from_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    """1.1 * 1.1 is more than 1.21 in doubles, and 1.1 * 3 more than 3.3."""
    monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_BOUNDED", 0)
    text = f"S/r[./k->k][./v->x] JOIN {{k = l AND x {op} 1.1 * y, 6 s}} S/r[./k->l][./v->y]"
    values = ("1.21", "1.1", "3.3", "3", "0.11", "0.1", "-3.3", "-3")
    docs = [Doc("S", f"e{n}", n, f"<r><k>a</k><v>{value}</v></r>") for n, value in enumerate(values)]
    engine = LocalEngine(tmp_path, {text: compiled(text)}, 0)
    for part in (docs[:3], docs[3:]):
        engine.run(part)
    assert engine.answers(text) == answers(parse_query(text), docs)


@pytest.mark.parametrize("op", OPERATORS[:-1])
def test_no_edge_that_two_values_satisfy_is_left_out(op: str) -> None:
    for seed in range(examples(400)):
        choose = Dice(seed)
        of_f = choose.chance(50)
        constants = sorted({Fraction(choose.one(*FACTORS, *ADDENDS)) for _ in range(choose.count(2, 12))})
        fixed = Fraction(choose.one(*(ADDENDS if of_f else FACTORS)))
        edges = {
            number: Edge(
                number, EdgeKey("BAND", 1, "number", 2, "number", op, *((c, fixed) if of_f else (fixed, c))), 0, 0
            )
            for number, c in enumerate(constants)
        }
        found = families_of(edges, edges)
        if len(constants) == 1:
            assert found == ((), (0,))
            continue
        (family,) = found.families
        assert not found.others and sorted(family.edges.tolist()) == sorted(edges)
        texts = [
            (left, right) for left in NUMBERS for right in NUMBERS if left not in ("", "x") and right not in ("", "x")
        ]
        left, right = (np.array([float(each) for each in side]) for side in zip(*texts, strict=True))
        begin, count = candidates(family, left, right)
        for at, (one, other) in enumerate(texts):
            chosen = set(family.edges[begin[at] : begin[at] + count[at]].tolist())
            holds = {
                number
                for number, edge in edges.items()
                if COMPARISONS[op](Fraction(one), edge.key.f * Fraction(other) + edge.key.add)
            }
            assert holds <= chosen, (op, one, other, constants, fixed)
            ordinary = all(abs(float(each)) in (1, 1.1, 2, 0.11, 100) for each in (one, other))
            if ordinary and op != "=":
                assert len(chosen - holds) <= 2
