"""Queries of one shape whose result nodes have conditions of their own, beside others without any."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers, rout
from property.test_history import Drop, Register, Run, Step, check
from sqlite_relations import joined_columns, load, statement_rows
from strategies import Choices, Dice

import xscl.templates.joins.edge_sets
import xscl.templates.joins.resolve
from xscl.language.syntax.parser import parse_query
from xscl.templates.joins.matched_edges import Matched
from xscl.templates.joins.resolve import Resolver
from xscl.templates.joins.solve import Solution
from xscl.templates.plans import InstancePlan, LinkPlan

SECOND = 1_000_000
NAMES = ("v", "w", "x", "")


def own(choose: Choices) -> str:
    """Return brackets on a result node, or none."""
    name, number = choose.one(*NAMES), choose.one("0", "1", "2")
    return choose.one(
        f"[./n = '{name}']",
        f"[./n = '{name}']",
        f"[./n != '{name}']",
        f"[not(./n = '{name}')]",
        f"[./p > {number}]",
        f"[./n = '{name}'][./p > {number}]",
        f"[. = '{name}']",
        f"[./n = '{name}' or ./p <= {number}]",
        "[./n]",
        "",
    )


def query(choose: Choices) -> str:
    """Return a query whose first block has one of few shapes."""
    step, key = choose.one("/a", "/a", "//a", "/b/a"), choose.one("./k", "./k", "./b/k", ".//k")
    guard = choose.one("", "", "[./c = 'y']")
    shape = choose.count(0, 5)
    if shape == 0:
        return f"S/r{guard}{step}{own(choose)}"
    left = f"S/r{guard}[{key}->k]{step}{own(choose)}"
    if shape == 1:
        left = f"S/r{step}{own(choose)}[./n->k]"
    right = choose.one("S/r/k->l", "S/r/k->l", f"S/r[./k->l]{step}{own(choose)}")
    window = choose.one("3 s", "5 s", "UNBOUNDED", "5 s, ONCE")
    join = choose.one("JOIN", "FOLLOWED BY") if "ONCE" not in window else "JOIN"
    if shape == 2:
        atoms = choose.one("k = l AND p >= 1.5 * q", "k = l AND p < 2 * q")
        return f"S/r[./k->k][./q->p]{step}{own(choose)} {join} {{{atoms}, {window}}} S/r[./k->l]/q->q"
    if shape == 3:
        return f"SELECT z FROM S/r[./k->k]{step}->z{own(choose)} {join} {{k = l, {window}}} {right}"
    return f"{left} {join} {{k = l, {window}}} {right}"


def node(choose: Choices) -> str:
    """Return an element a with names and a number, or a text alone."""
    if choose.chance(20):
        return f"<a>{choose.one(*NAMES)}</a>"
    names = "".join(f"<n>{choose.one(*NAMES)}</n>" for _ in range(choose.count(0, 2)))
    return f"<a>{names}{choose.one('<p>1</p>', '<p>2</p>', '<p/>', '')}</a>"


def document(choose: Choices) -> str:
    """Return a document with several nodes that may be results."""
    nodes = "".join(node(choose) for _ in range(choose.count(0, 3)))
    below = f"<b>{node(choose)}{choose.one('<k>1</k>', '')}</b>" if choose.chance(40) else ""
    keys = "".join(f"<k>{choose.one('1', '2')}</k>" for _ in range(choose.one(1, 1, 1, 2)))
    return f"<r>{choose.one('<c>y</c>', '')}{nodes}{below}{keys}<q>{choose.one('1', '2', '3', 'x', '-1')}</q></r>"


def stream(choose: Choices) -> list[Doc]:
    """Return documents, some of them versions of one item."""
    return [
        Doc("S", f"e{number}", choose.count(0, 6) * SECOND, document(choose), item=choose.one(None, None, None, "i"))
        for number in range(choose.count(3, 9))
    ]


@pytest.mark.parametrize("seed", range(examples(80)))
def test_result_nodes_with_conditions_of_their_own(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Dice(seed)
    monkeypatch.setattr(xscl.templates.joins.resolve, "_MANY_ADMITTED", choose.one(1, 20, 1 << 24))
    monkeypatch.setattr(xscl.templates.joins.edge_sets, "_MOST_NUMBERS", choose.one(0, 1 << 24))
    monkeypatch.setattr(xscl.templates.joins.resolve, "_MOST_SOLUTIONS", choose.one(1, 1 << 24))
    texts = list(dict.fromkeys(query(choose) for _ in range(choose.count(1, 9))))
    docs = stream(choose)
    ends = sorted({0, len(docs), choose.count(0, len(docs)), choose.count(0, len(docs))})
    queries = {text: compiled(text) for text in texts}
    units = UnitsEngine(tmp_path, queries, seed=seed)
    for engine in (units, LocalEngine(tmp_path, queries, choose.one(0, 1 << 40))):
        for begin, end in pairwise(ends):
            engine.run(docs[begin:end])
        for text in texts:
            assert engine.answers(text) == answers(parse_query(text), docs), (text, type(engine))
    found, ids = statement_rows(load(units), queries, own=True), [doc.id for doc in docs]
    for text, query_ in queries.items():
        assert joined_columns(query_, found[text], ids) == rout(parse_query(text), docs), text


def steps(seed: int) -> list[Step]:
    """Return documents, and queries that come, go and come again."""
    choose = Dice(seed)
    found: list[Step] = [Doc(doc.channel, doc.id, doc.ts, doc.xml) for doc in stream(choose)]
    for number in range(choose.count(3, 7)):
        register = Register(f"q{number}", query(choose) + choose.one("", " STARTING ALL"))
        at = choose.count(0, len(found))
        found.insert(at, register)
        if choose.chance(40):
            at = choose.count(at + 1, len(found))
            found.insert(at, Drop(register.name))
            if choose.chance(60):
                found.insert(choose.count(at + 1, len(found)), register)
    for _ in range(choose.one(1, 3, 6)):
        found.insert(choose.count(0, len(found)), Run(choose.one(1, 2, 100)))
    return found


def test_result_nodes_of_queries_that_come_and_go(tmp_path: Path) -> None:
    count = 0
    for seed in range(examples(24)):
        expected, _ = check(tmp_path / str(seed), steps(seed))
        count += sum(map(len, expected.ids.values()))
    assert count


def test_what_is_answered_is_solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queries have a name of their own, a document costs those alone whose names it has."""
    solved: list[int] = []
    solution = Resolver._solution

    def counted(self: Resolver, plan: InstancePlan | LinkPlan, matched: Matched) -> Solution:
        solved.append(1)
        return solution(self, plan, matched)

    monkeypatch.setattr(Resolver, "_solution", counted)
    texts = [f"S/r[./k->k]/a[./n = 'w{number}'] JOIN {{k = l, 1 h}} S/r/k->l" for number in range(60)]
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts}, 0)
    docs = [Doc("S", f"e{n}", n, f"<r><a><n>w{20 * n}</n></a><k>1</k></r>") for n in range(12)]
    for part in (docs[:7], docs[7:]):
        engine.run(part)
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs)
    # Three documents have a name that a query asks for, and eleven others each to meet, which are alike.
    assert 0 < len(solved) <= 3 * 11
