"""Many inequalities that differ in one constant, looked up as one: the engine in its ways, and the oracle."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers
from strategies import Dice

import xscl.templates.joins.line_search
import xscl.templates.joins.meet
import xscl.templates.joins.resolve
import xscl.templates.joins.verify
from xscl.base.values import COMPARISONS
from xscl.language.syntax.parser import parse_query
from xscl.templates.joins.edge_sets import EdgeSet
from xscl.templates.joins.families import candidates, families_of
from xscl.templates.joins.matched_edges import Matched, MatchedEdges
from xscl.templates.joins.resolve import Resolver
from xscl.templates.joins.signatures import Signature
from xscl.templates.joins.solve import Solution
from xscl.templates.plans import Edge, EdgeKey, InstancePlan, LinkPlan
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
    facts = f"<c>{choose.one('a', 'b', 'c')}</c><n>{choose.one('1', '2', '3', 'x')}</n>"
    return Doc("S", f"e{number}", choose.count(0, 6) * 1_000_000, f"<r>{facts}{keys}{values}</r>")


GUARDS = ("[./c = 'a']", "[./c = 'b']", "[./c != 'c']", "[./n > 1]", "[./n < 3]", "[./n > 2 or ./c = 'a']", "[./n]")


def queries(choose: Dice) -> list[str]:
    """Return queries most of which differ in a constant alone."""
    joined, guarded = choose.chance(75), choose.chance(50)
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
        if choose.chance(40):
            more = f"x {choose.one(*OPERATORS[: choose.one(1, 4, 6)])} {choose.one(*FACTORS)} * y"
            atoms.append(more if choose.chance(50) else f"{more} + {choose.one('0', '1', '0.1', '100')}")
        sides = [
            side.replace("S/r", f"S/r{choose.one('', *GUARDS)}", 1) if guarded and choose.chance(90) else side
            for side in (one, other)
        ]
        found.append(f"{sides[0]} JOIN {{{' AND '.join(atoms)}, 6 s}} {sides[1]}")
    third = "JOIN {y = z, 6 s} S/r/v->z"
    return [*found, f"{found[0]} {third}"] if choose.chance(30) else found


def test_the_engine_finds_what_the_oracle_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matches = 0
    for seed in range(examples(110)):
        choose = Dice(seed)
        monkeypatch.setattr(xscl.templates.joins.verify, "_TOGETHER", choose.one(1, 7, 1 << 17))
        monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_BOUNDED", choose.one(0, 0, 1 << 40))
        monkeypatch.setattr(xscl.templates.joins.resolve, "_MANY_EDGES", choose.one(0, 2, 8))
        monkeypatch.setattr(xscl.templates.joins.line_search, "_FEW", choose.one(0, 2, 8))
        monkeypatch.setattr(xscl.templates.joins.line_search, "_LEAF", choose.one(1, 2, 4))
        monkeypatch.setattr(xscl.templates.joins.line_search, "_MANY", choose.one(2, 30, 1 << 19))
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


def test_a_pair_is_solved_for_those_queries_alone_whose_guards_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved: list[str] = []
    solution = Resolver._solution

    def counted(self: Resolver, plan: InstancePlan | LinkPlan, matched: Matched) -> Solution:
        solved.append(plan.name)
        return solution(self, plan, matched)

    monkeypatch.setattr(Resolver, "_solution", counted)
    texts = [
        f"S/r[./c = 'c{number % 20}'][./v->x] JOIN {{x >= 1.{number:02} * y, 6 s}} S/r[./c = 'c{number % 20}'][./v->y]"
        for number in range(10, 90)
    ]
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts}, 0)
    docs = [Doc("S", f"e{n}", n, f"<r><c>c{n % 20}</c><v>{n + 1}</v></r>") for n in range(40)]
    for part in (docs[:30], docs[30:]):
        engine.run(part)
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs)
    # Twenty pairs have one symbol on both sides, and the four factors of that symbol.
    assert 0 < len(solved) <= 20 * 4


def test_pairs_that_satisfy_half_of_each_query_have_no_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved: list[MatchedEdges] = []
    solve = Resolver._solve

    def counted(self: Resolver, edges: MatchedEdges, asked: EdgeSet) -> Signature:
        solved.append(edges)
        return solve(self, edges, asked)

    monkeypatch.setattr(Resolver, "_solve", counted)
    texts = [
        f"S/r[./k->k][./v->x][./w->z] JOIN {{k = l AND x >= 1.{number} * y AND z >= 1.{number} * u, 6 s}} "
        "S/r[./k->l][./v->y][./w->u]"
        for number in range(10, 90)
    ]
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts}, 0)
    # What rises in v falls in w, but for the last one.
    docs = [Doc("S", f"e{n}", n, f"<r><k>a</k><v>{n + 1}</v><w>{99 if n == 39 else 50 - n}</w></r>") for n in range(40)]
    for part in (docs[:30], docs[30:]):
        engine.run(part)
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs)
    assert 0 < len(solved) <= 39


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
    for seed in range(examples(50)):
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


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("line", ["y", "2 * y", "2 * y + 1", "-1 * y"])
def test_numbers_near_the_greatest_double(tmp_path: Path, line: str) -> None:
    values = (17 * 10**307, 17 * 10**307 + 1, -17 * 10**307, 85 * 10**306, 1, 34 * 10**307)
    docs = [Doc("S", f"e{n}", n, f"<r><k>a</k><v>{value}</v></r>") for n, value in enumerate(values)]
    texts = [f"S/r[./k->k][./v->x] JOIN {{k = l AND x {op} {line}, 6 s}} S/r[./k->l][./v->y]" for op in OPERATORS]
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts}, 0)
    for part in (docs[:3], docs[3:]):
        engine.run(part)
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs)


@pytest.mark.parametrize("op", OPERATORS[:-1])
def test_no_edge_that_two_values_satisfy_is_left_out(op: str) -> None:
    for seed in range(examples(280)):
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


def bands(choose: Dice, count: int) -> list[str]:
    """Return queries for bands and lines of their own, some of them alike."""
    found = []
    for _ in range(count):
        f, add = choose.one(*FACTORS), choose.one(*ADDENDS)
        wide = choose.one("0", "0.05", "0.5")
        band = f"x >= {f} * y AND x <= {Decimal(f) + Decimal(wide)} * y"
        line = f"x {choose.one('<', '>=', '=')} {f} * y + {add}".replace("+ -", "- ")
        three = f"{line} AND z > {choose.one(*FACTORS)} * u AND z <= {choose.one('5', '50')} * u"
        atoms = choose.one(band, band, line, three)
        found.append(f"S/r[./k->k][./v->x][./w->z] JOIN {{k = l AND {atoms}, 6 s}} S/r[./k->l][./v->y][./w->u]")
    return list(dict.fromkeys(found))


def test_bands_and_lines_that_a_tree_finds_are_those_that_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matches = refused = 0
    for seed in range(examples(40)):
        choose = Dice(seed)
        monkeypatch.setattr(xscl.templates.joins.line_search, "_LEAF", choose.one(1, 2, 4))
        monkeypatch.setattr(xscl.templates.joins.line_search, "_MANY", choose.one(2, 30, 1 << 19))
        most = choose.one(3, 4_000_000)
        monkeypatch.setattr(xscl.templates.joins.verify, "MAX_COMPARED", most)
        texts = bands(choose, choose.count(10, 30))
        docs = [document(choose, number) for number in range(12)]
        docs = [
            replace(doc, xml=doc.xml.replace("</r>", f"<w>{choose.one(*NUMBERS)}</w></r>"), item=choose.one(None, "i"))
            for doc in docs
        ]
        found = []
        for few in (0, 1000):
            monkeypatch.setattr(xscl.templates.joins.line_search, "_FEW", few)
            engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts}, 0)
            for start in range(0, len(docs), 5):
                engine.run(docs[start : start + 5])
            told = sorted(
                (sorted(member["place"] for member in row["members"]), group, row["reason"])
                for row in engine.results
                if row["relation"] == "refused"
                for group in row["groups"]
            )
            found.append(({text: engine.answers(text) for text in texts}, told))
        assert found[0] == found[1], seed
        if not found[0][1]:
            assert found[0][0] == {text: answers(parse_query(text), docs) for text in texts}, seed
        matches += sum(map(len, found[0][0].values()))
        refused += len(found[0][1])
    assert matches and refused
