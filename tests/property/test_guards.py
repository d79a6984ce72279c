"""Guards: conditions on whole documents, in queries of one skeleton, against the oracle and the statements of SQL."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers, rout
from property.test_history import Drop, Register, Run, Step, check
from sqlite_relations import joined_columns, load, statement_rows
from strategies import Choices, Dice

import xscl
from xscl.base.types import format_time
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query

SECOND = 1_000_000
WORDS = ("ebola", "zika", "e", "")
ROWS = {"R": ChannelFacts("rows", numeric=frozenset("n"), texts=frozenset("kt"))}


def atom(choose: Choices) -> str:
    """A condition that compares with a constant, or one that does not."""
    number, op = choose.one("1", "2", "2.5"), choose.one("<", "<=", ">", ">=", "=", "!=")
    return choose.one(
        f"./n {op} {number}",
        f"./p/n {op} {number}",
        f".//n {op} {number}",
        f"./k = '{choose.one('x', 'y')}'",
        f"./k != '{choose.one('x', 'y')}'",
        f"contains(./t, '{choose.one(*WORDS)}')",
        f"string-length(./t) {op} {number}",
        f"count(./n) {op} {number}",
        "./k",
        f"./p[./n > {number}][./k]",
        f"./@a {op} {number}",
    )


def condition(choose: Choices, depth: int = 2) -> str:
    kind = choose.count(0, 5) if depth else 0
    if kind < 3:
        return atom(choose)
    if kind == 3:
        return f"not({condition(choose, depth - 1)})"
    return f"({condition(choose, depth - 1)} {choose.one('and', 'or')} {condition(choose, depth - 1)})"


def block(choose: Choices, variable: str, *, rows: bool) -> str:
    brackets = [f"[{condition(choose)}]" for _ in range(choose.count(0, 2))]
    if rows and choose.chance(20):
        brackets.append(f"[./n->{variable}n > {choose.one('1', '2')}]")
    top = "R" if rows else choose.one("S", "S", "S/r", "S/*")
    return f"{top}{''.join(brackets)}[./t->{variable}]"


def query(choose: Choices, *, rows: bool) -> str:
    window = choose.one("2 s", "5 s", "UNBOUNDED", "3 s, ONCE", "ONCE", "b - a IN [-1 s, 4 s], ONCE")
    join = choose.one("JOIN", "JOIN", "FOLLOWED BY") if "ONCE" not in window else "JOIN"
    return f"{block(choose, 'a', rows=rows)} {join} {{a = b, {window}}} {block(choose, 'b', rows=rows)}"


def document(choose: Choices) -> str:
    inner = "".join(f"<n>{choose.one('0.5', '1', '2', '3', 'x')}</n>" for _ in range(choose.count(0, 2)))
    inner += "".join(f"<k>{choose.one('x', 'y', 'z')}</k>" for _ in range(choose.count(0, 2)))
    if choose.chance(40):
        inner += f"<p><n>{choose.one('1', '2', '3')}</n>{choose.one('<k/>', '')}</p>"
    inner += "".join(f"<t>{choose.one('ebola e', 'zika', 'e')}</t>" for _ in range(choose.count(0, 2)))
    return f"<r a='{choose.one('1', '2', 'x')}'>{inner}</r>"


def row(choose: Choices) -> str:
    cells = {"n": choose.one("1", "2", "3", None), "k": choose.one("x", "y", None), "t": choose.one("ebola", "e")}
    return "<R>" + "".join(f"<{name}>{cell}</{name}>" for name, cell in cells.items() if cell is not None) + "</R>"


def stream(choose: Choices, *, rows: bool) -> list[Doc]:
    channel, make = ("R", row) if rows else ("S", document)
    return [
        Doc(channel, f"e{number}", choose.count(0, 6) * SECOND, make(choose), late=choose.chance(5))
        for number in range(choose.count(3, 9))
    ]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("seed", range(examples(40)))
def test_guards_against_the_oracle(seed: int, rows: bool, tmp_path: Path) -> None:
    choose = Dice(seed)
    texts = list(dict.fromkeys(query(choose, rows=rows) for _ in range(choose.count(1, 6))))
    docs = stream(choose, rows=rows)
    numeric = {"R": frozenset("n")} if rows else {}
    ends = sorted({0, len(docs), choose.count(0, len(docs)), choose.count(0, len(docs))})
    queries = {text: compiled(text, ROWS if rows else {}) for text in texts}
    units = UnitsEngine(tmp_path, queries, seed=seed)
    for engine in (units, LocalEngine(tmp_path, queries)):
        for begin, end in pairwise(ends):
            engine.run(docs[begin:end])
        for text in texts:
            expected = answers(parse_query(text), docs, numeric=numeric)
            assert engine.answers(text) == expected, (text, type(engine))
    found = statement_rows(load(units), queries, own=True)
    ids = [doc.id for doc in docs]
    for text, compiled_query in queries.items():
        expected_rows = rout(parse_query(text), docs, numeric=numeric)
        assert joined_columns(compiled_query, found[text], ids) == expected_rows, text


def home_steps(seed: int) -> list[Step]:
    """Documents, with queries of few skeletons that come with and without what is held, go, and come again."""
    choose = Dice(seed)
    docs = [replace(doc, late=False) for doc in stream(choose, rows=False)] + [
        Doc("S", f"more{number}", choose.count(0, 6) * SECOND, document(choose)) for number in range(5)
    ]
    steps: list[Step] = list(docs)
    for number in range(choose.count(3, 7)):
        starting = choose.one("", " STARTING ALL", " STARTING ALL", f" STARTING '{format_time(3 * SECOND)}'")
        register = Register(f"q{number}", query(choose, rows=False) + starting)
        at = choose.count(0, len(steps))
        steps.insert(at, register)
        if choose.chance(30):
            at = choose.count(at + 1, len(steps))
            steps.insert(at, Drop(register.name))
            if choose.chance(60):
                steps.insert(choose.count(at + 1, len(steps)), register)
    for _ in range(choose.one(0, 1, 3, 6)):
        steps.insert(choose.count(0, len(steps)), Run(choose.one(1, 2, 3, 100)))
    return steps


def test_guards_of_queries_that_come_and_go(tmp_path: Path) -> None:
    """Facts of held documents are completed for queries that start with them, and no other query is told more."""
    count = 0
    for seed in range(examples(42)):
        expected, _ = check(tmp_path / str(seed), home_steps(seed))
        count += sum(map(len, expected.ids.values()))
    assert count > 60, count


def test_quotas_count_the_nodes_of_documents_whose_guards_hold(tmp_path: Path) -> None:
    """Both queries share their variables, and each has its own bindings."""
    pair = "S[./k = '{}'][./t->a] JOIN {{a = b, 1 h}} S[./k = '{}'][./t->b]"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.set_quotas(bindings=4)
        engine.register(pair.format("x", "x"), name="few")
        engine.register(pair.format("y", "y"), name="many")
        engine.register(pair.format("x", "y"), name="both")
        kinds = "xxyyyyy"
        engine.ingest(
            xscl.Event("S", f"e{number}", number, xml=f"<r><k>{kind}</k><t>1</t></r>")
            for number, kind in enumerate(kinds)
        )
        (report,) = engine.run_once()
        assert sorted(found.query for found in report.suspended) == ["both", "many"]
        reasons = {found.query: found.reason for found in report.suspended}
        assert "5 bindings" in reasons["many"] and "7 bindings" in reasons["both"], reasons


def test_guards_with_too_many_alternatives_stay_in_the_pattern(tmp_path: Path) -> None:
    many = "".join(f"[./k = 'x' or ./n = {number}]" for number in range(3))
    texts = [f"S{many}[./t->a] JOIN {{a = b, 9 s}} S{many if both else ''}[./t->b]" for both in (False, True)]
    lifted = [bool(compiled(text).group.guards) for text in texts]
    assert lifted == [True, True]
    wide = many + "[./k = 'y' or ./k = 'z']"
    text = texts[1].replace(many, wide)
    assert not compiled(text).group.guards
    engine = LocalEngine(tmp_path, {text: compiled(text)})
    docs = [Doc("S", f"e{i}", i * SECOND, f"<r><k>x</k><k>{'yq'[i % 2]}</k><t>1</t></r>") for i in range(4)]
    engine.run(docs)
    assert engine.answers(text) == answers(parse_query(text), docs) != set()
