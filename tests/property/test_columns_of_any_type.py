"""Wildcards over columns of several types: the engine in all its ways, the statements of templates, and the oracle."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers, rout
from sqlite_relations import joined_columns, load, statement_rows
from strategies import Dice

import xscl
from xscl.base.mixed import is_role
from xscl.ingest.rows import row_document
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query

VALUES: Mapping[str, tuple[object, ...]] = {
    "double": (1.0, 2.0, 10.0, -0.5, 2026.0),
    "bigint": (1, 2, 10),
    "string": ("1", "1.0", "2", "10", "x", "", "01", "2026-01-01", "2026-01-01T00:00:00Z", "true", " 2 "),
    "timestamp": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-02T00:00:00Z"),
    "date": ("2026-01-01", "2026-01-02"),
    "boolean": (True, False),
}
TEXTS = ("1", "1.00", "2", "x", "2026-01-01", "2026-01-01T00:00:00Z", "true", "10", "")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
CHANNELS = ("P", "Q", "S")
Schemas = Mapping[str, Mapping[str, str]]


def schemas(choose: Dice) -> Schemas:
    """Columns of P and Q with their types; a column may have the name of the root."""
    types = ("double", "string", "string", "timestamp", "bigint", "date", "boolean")
    return {
        channel: {name: choose.one(*types) for name in ("a", "b", "c", channel)[: choose.count(1, 4)]}
        for channel in ("P", "Q")
    }


def of_types(known: Schemas, *types: str) -> dict[str, frozenset[str]]:
    return {channel: frozenset(name for name, type_ in of.items() if type_ in types) for channel, of in known.items()}


def columns(known: Schemas) -> dict[str, dict[str, frozenset[str]]]:
    """Numbers, texts and times, as the oracle is told."""
    numeric = of_types(known, "double", "bigint")
    return {"numeric": numeric, "texts": of_types(known, "string"), "times": of_types(known, "timestamp", "date")}


def facts(known: Schemas) -> dict[str, ChannelFacts]:
    numeric, texts, times = columns(known).values()
    truths = of_types(known, "boolean")
    rows = {each: ChannelFacts("rows", numeric[each], texts[each], times[each], truths[each]) for each in known}
    return {**rows, "S": ChannelFacts("xml")}


def documents(choose: Dice, known: Schemas) -> tuple[list[Doc], dict[str, dict[str, object]]]:
    """Documents, and the rows of those that are rows."""
    docs, rows = [], {}
    for number in range(12):
        channel, name = choose.one("P", "Q", "P", "Q", "S"), f"e{number}"
        if channel == "S":
            xml = f"<r><a>{choose.one(*TEXTS)}</a><a k='{choose.one(*TEXTS)}'>{choose.one(*TEXTS)}</a></r>"
        else:
            row = {column: choose.one(*VALUES[type_]) for column, type_ in known[channel].items() if choose.count(0, 5)}
            rows[name] = {column: row.get(column) for column in known[channel]}
            xml = row_document(rows[name], element=channel)
        docs.append(Doc(channel, name, choose.count(0, 6) * 1_000_000, xml))
    return docs, rows


def literal(choose: Dice) -> str:
    return choose.one("1", "10", "'1'", "'1.0'", "'2026-01-01'", "'2026-01-01T00:00:00Z'", "'x'", "1.5")


def condition(choose: Dice) -> str:
    step = choose.one("./*", "*", ".//*", "./a", "./*[. != 'x']", "./*[not(. > '2026-01-01')]")
    plain = f"{step} {choose.one(*OPERATORS)} {literal(choose)}"
    return choose.one(plain, plain, f"not({plain})", f"{plain} or ./a = 1", "contains(./*, '1')", "count(./*) > 1")


def block(choose: Dice, channel: str, name: str) -> str:
    if channel == "S":
        return "S" + choose.one("//a", "/r/a", "/*/*", "//*", "//@*", "//@k", "//text()") + f"->{name}"
    brackets = f"[{condition(choose)}]" if choose.chance(30) else ""
    root = f"{channel}/{choose.one(channel, channel, '*')}{brackets}"
    step = choose.one("/*", "/*", "//*", "/a", "/*:a", "/@*")
    inner = f"[. {choose.one(*OPERATORS)} {literal(choose)}]" if step == "/*" and choose.chance(30) else ""
    bound = f"{step}->{name}{inner}"
    return choose.one(f"{root}{bound}", f"{root}{bound}", f"{root}[.{bound}]", f"{channel}//*->{name}")


def query(choose: Dice) -> str:
    one, other = choose.one("P", "Q", "P"), choose.one("P", "Q", "Q", "S", "S")
    if choose.chance(25):
        return block(choose, one, "x")
    form = choose.one("x {} y", "x {} y", "x {} y", "x {} y", "lower(x) {} y", "x {} lower(y)", "x {} 2 * y", "y {} x")
    atoms = [form.format(choose.one("=", "=", *OPERATORS))]
    if choose.chance(15):
        atoms.append(f"x {choose.one(*OPERATORS)} y")
    if choose.chance(30):
        atoms.append(f"{choose.one('x', 'y')} {choose.one(*OPERATORS)} {literal(choose)}")
    ends = block(choose, one, "x"), block(choose, other, "y")
    first, second = ends if choose.chance(70) else ends[::-1]
    once = ", ONCE" if choose.chance(15) else ""
    select = choose.one("", "", "SELECT x FROM ")
    found = f"{select}{first} JOIN {{{' AND '.join(atoms)}, 6 s{once}}} {second}"
    if choose.chance(12):
        third = block(choose, choose.one(*CHANNELS), "z")
        found += f" JOIN {{{choose.one('x', 'y')} {choose.one(*OPERATORS)} z, 6 s}} {third}"
    return found


def test_kernels_and_statements(tmp_path: Path) -> None:
    matches: Counter[bool] = Counter()
    for seed in range(examples(130)):
        choose = Dice(seed)
        known = schemas(choose)
        docs, _ = documents(choose, known)
        texts = list(dict.fromkeys(query(choose) for _ in range(6)))
        program = {text: compiled(text, facts(known)) for text in texts}
        engines = (UnitsEngine(tmp_path, program, seed=seed), LocalEngine(tmp_path, program))
        for engine in engines:
            for start in range(0, len(docs), 5):
                engine.run(docs[start : start + 5])
        statements = statement_rows(load(engines[0]), program, own=seed == 0)
        ids = [doc.id for doc in docs]
        for text, found in program.items():
            expected = answers(parse_query(text), docs, **columns(known))
            for engine in engines:
                assert engine.answers(text) == expected, (text, seed, known, type(engine))
            if found.joined_names and "ONCE" not in text:
                bindings = rout(parse_query(text), docs, found.joined_names, **columns(known))
                assert joined_columns(found, statements[text], ids) == bindings, (text, seed, known)
            matches[any(is_role(join.fn_l) for join in found.group.instance.joins)] += len(expected)
    assert matches[True] > 50 and matches[False] > 50, matches


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_kept_while_columns_are_not_known(operator: str) -> None:
    """Events that came before the other channel's first row can join with it, whatever its columns turn out to be."""
    text = f"P/P/*->x JOIN {{x {operator} y, 5 s}} Q/Q/*->y"
    types = [{"numeric"}, {"texts"}, {"times"}, {"numeric", "texts"}, {"texts", "times"}, {"numeric", "times", "texts"}]
    rows = [ChannelFacts("rows", **{type_: frozenset([type_]) for type_ in sorted(each)}) for each in types]
    for first, second in itertools.product([*rows, ChannelFacts("xml")], rows):
        for known, other in (("P", "Q"), ("Q", "P")):
            before = compiled(text, {known: first})
            after = compiled(text, {known: first, other: second})
            kept, wanted = (
                {name for spec in found.specs if spec.definition.channel == known for name in spec.functions}
                for found in (before, after)
            )
            assert wanted <= kept | {None}, (first, second)


def test_rows_by_columns() -> None:
    """Rows, whose definitions columns answer where they can; the channels' first rows come behind the queries."""
    matches = 0
    for seed in range(examples(20)):
        choose = Dice(1_000 + seed)
        known = schemas(choose)
        docs, rows = documents(choose, known)
        queries = {f"q{number}": query(choose) for number in range(12)}
        with TemporaryDirectory() as folder, xscl.connect(home=Path(folder) / "home") as engine:

            def declare(engine: xscl.Engine = engine, known: Schemas = known) -> None:
                for channel, types in known.items():
                    schema = ", ".join(f"{name} {type_}" for name, type_ in types.items())
                    engine.add_channel(channel, kind="rows", schema=schema)

            if seed % 2:
                declare()
            registered = [
                name for name, text in queries.items() if engine.register_many([(name, text)])[0].error is None
            ]
            if not seed % 2:
                # Documents of S come before anything is known of the others.
                docs.sort(key=lambda doc: doc.channel != "S")
                before = [doc for doc in docs if doc.channel == "S"]
                engine.ingest(xscl.Event("S", doc.id, doc.ts // 1_000_000, xml=doc.xml) for doc in before)
                engine.run_once()
                declare()
            for doc in docs:
                event = {"row": rows[doc.id]} if doc.id in rows else {"xml": doc.xml}
                engine.ingest([xscl.Event(doc.channel, doc.id, doc.ts // 1_000_000, **event)])  # type: ignore[arg-type]
                if choose.chance(30):
                    engine.run_once()
            engine.run_once()
            found: dict[str, set[tuple[str, ...]]] = {name: set() for name in registered}
            for match in engine.matches():
                found[match.query].add(tuple(event.id for event in match.events))
        for name in registered:
            expected = answers(parse_query(queries[name]), docs, **columns(known))
            assert found[name] == {tuple(each for _, each in row) for row, _ in expected}, (queries[name], seed, known)
            matches += len(expected)
    assert matches > 50
