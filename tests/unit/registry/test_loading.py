"""Writing queries together comes to the same as writing them one by one; what is taken back leaves nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from budget import examples
from sqlalchemy.engine import Connection
from strategies import Dice, many_block_query
from window_queries import window_query

from xscl.base.errors import CatalogError, XsclError
from xscl.base.types import QueryOutcome
from xscl.catalog.catalog import Catalog, open_catalog
from xscl.catalog.groups import stored_template
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import (
    CHANNELS,
    GROUPS,
    GUARDS,
    HOME,
    INSTANCES,
    PARTS,
    QUERIES,
    TEMPLATES,
    VARIABLES,
    statements,
)
from xscl.language import forms
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.outlines.outlines import Outlines
from xscl.language.query_rows import variables_of
from xscl.registry import loading, memory, registry
from xscl.registry.loading import Loading
from xscl.registry.memory import Known
from xscl.registry.registrations import Registrations
from xscl.registry.registry import Registry

JOIN = "S//a->x JOIN {x = y, 1 h} T//p->y"
Rows = dict[str, list[tuple[object, ...]]]
Made = Callable[[], Catalog]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes catalogues, with two channels that exist."""
    opened = []
    numbers = count()

    def make() -> Catalog:
        catalog = open_catalog(f"sqlite:///{tmp_path / f'{next(numbers)}.db'}", create=True)
        opened.append(catalog)
        with catalog.begin() as connection:
            for name in ("S", "T"):
                connection.execute(CHANNELS.insert().values(name=name, kind="xml", feed=False, clock=name))
        return catalog

    yield make
    for catalog in opened:
        catalog.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks so small that scripts of a few statements go over their ends."""
    monkeypatch.setattr(registry, "_CHUNK", 3)
    monkeypatch.setattr(statements, "_PART", 2)
    monkeypatch.setattr(loading, "_FREE", 2)


def rows(catalog: Catalog) -> Rows:
    """Everything that registration writes, without times and the names that serve as examples."""
    left_out = ("received", "example")
    found: Rows = {}
    with catalog.read() as connection:
        tables = [HOME, TEMPLATES, INSTANCES, GROUPS, PARTS, GUARDS, QUERIES, VARIABLES]
        names = [name for name in sa.inspect(connection).get_table_names() if name.startswith("rt_")]
        tables += [sa.Table(name, sa.MetaData(), autoload_with=connection) for name in names]
        for table in tables:
            columns = [column for column in table.c if column.name not in left_out]
            found[table.name] = sorted(map(tuple, connection.execute(sa.select(*columns))), key=repr)
        templates = [stored_template(row).id for row in connection.execute(sa.select(TEMPLATES))]
    assert sorted(names) == sorted(f"rt_{template}" for template in templates)
    return found


def said(outcomes: list[QueryOutcome]) -> list[tuple[object, ...]]:
    return [(o.name, o.error and (o.error.condition, o.error.message), o.action) for o in outcomes]


# -- random scripts ------------------------------------------------------------------------------------------------

BAD = ("S//[", "S//a JOIN {} T//b", "S//a->x JOIN {x = z, 1 h} T//b->y", "S//q:a", "SELECT <e>{z}</e> FROM S", "S//")
TEXTS = (
    "S//a",
    "S//b->x",
    "S//p:a",
    "S//p:a->x JOIN {x = y, 1 h} T//p:b->y",
    JOIN,
    JOIN.replace("1 h", "2 h"),
    JOIN.replace("x", "left").replace("y", "right"),
    JOIN.replace("1 h", "2 s..1 s"),
    "SELECT <e>{x}</e> FROM " + JOIN,
    "S//a STARTING ALL",
)


def text(choose: Dice) -> str:
    if choose.chance(25):
        return choose.one("S", "T", "A", "B", "C") + "//a PUBLISH " + choose.one("A", "B", "C", "S")
    if choose.chance(15):
        return choose.one("A", "B", "C") + "//a->x JOIN {x = y, 1 h} S//b->y"
    if choose.chance(20):
        return many_block_query(choose, ("S", "T", "A"), least=2, most=3).replace("n:", "p:")
    return choose.one(*BAD) if choose.chance(15) else choose.one(*TEXTS)


def statement(choose: Dice) -> str:
    kind = choose.count(0, 9)
    if kind == 0:
        return f"DECLARE NAMESPACE {choose.one('p', 'p', 'r')} = 'urn:{choose.count(1, 2)}'"
    if kind < 3:
        return f"DROP QUERY {choose.one('a', 'b', 'c', 'q1', 'q3')}"
    if kind < 5:
        return text(choose)
    return f"CREATE QUERY {choose.one('a', 'b', 'c', 'd', 'e', 'q2', 'q7', 'q8')} AS {text(choose)}"


def one_by_one(catalog: Catalog, statements: list[str], strict: bool) -> list[tuple[str | None, str | None]]:
    """Each statement by a registry that knows nothing, in a transaction of its own: (name, condition)."""
    declared: list[str] = []
    found: list[tuple[str | None, str | None]] = []
    for given in statements:
        words = given.split()
        try:
            if words[0] == "DECLARE":
                declared.append(given + ";\n")
                found.append((words[2], None))
            elif words[0] == "DROP":
                Registry(catalog).drop(words[2])
                found.append((words[2], None))
            else:
                found.append((Registry(catalog).register("".join(declared) + given, strict=strict), None))
        except XsclError as error:
            found.append((words[2] if words[0] in ("DROP", "CREATE") else None, error.condition))
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_script_is_its_statements(seed: int, made: Made) -> None:
    choose = Dice(seed)
    strict = choose.chance(40)
    statements = [statement(choose) for _ in range(choose.count(5, 30))]
    expected, found, atomic = made(), made(), made()
    conditions = one_by_one(expected, statements, strict)
    outcomes = Registry(found).load(";\n".join(statements), strict=strict)
    assert [(o.name, o.error and o.error.condition) for o in outcomes] == conditions
    assert [o.line for o in outcomes] == list(range(1, len(statements) + 1))
    assert rows(found) == rows(expected)

    before = rows(atomic)
    loader = Registry(atomic)
    together = loader.load(";\n".join(statements), strict=strict, atomic=True)
    assert len(together) == len(statements)
    if any(condition for _, condition in conditions):
        assert rows(atomic) == before
        good = [given for given, (_, condition) in zip(statements, conditions, strict=True) if condition is None]
        # What the load that was taken back had numbered is numbered again.
        assert all(o.ok for o in loader.load(";\n".join(good), strict=strict, atomic=True))
    assert rows(atomic) == rows(expected)


def test_texts_with_windows_that_are_filled_in_are_written_as_parsed_ones(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = "SELECT v FROM S[./v->v] WINDOW {0} s EVERY 1 s GROUP BY v HAVING count() > {0}"
    texts = [*(window_query(Dice(seed)) for seed in range(160)), *map(of.format, range(2, 14))]
    asked = [(f"q{number}", text) for number, text in enumerate(texts)]
    compiled: list[object] = []

    def counting(*args: Any, **options: Any) -> CompiledQuery:
        compiled.append(args)
        return compile_query(*args, **options)

    monkeypatch.setattr(forms, "compile_query", counting)
    found, parsed = made(), made()
    outcomes = Registry(found).register_many(asked)
    assert any(each.error for each in outcomes)
    few = len(compiled)
    monkeypatch.setattr(Outlines, "find", lambda *_: None)
    assert said(Registry(parsed).register_many(asked)) == said(outcomes)
    assert len(compiled) > 2 * few + 20, "many are filled in"
    assert rows(found) == rows(parsed)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(100, 125))
def test_many_are_each(seed: int, made: Made) -> None:
    choose = Dice(seed)
    strict = choose.chance(40)
    given: list[str | tuple[str | None, str]] = []
    for _ in range(choose.count(5, 25)):
        name = choose.one(None, "a", "b", "c", "d", "e", "q2", "q5", "no name", "")
        written = choose.one("", "", "", "DECLARE NAMESPACE p = 'urn:p'; ", "CREATE QUERY a AS ") + text(choose)
        given.append(written if choose.chance(30) else (name, written))
    expected, found, atomic = made(), made(), made()
    one: list[QueryOutcome] = []
    for item in given:
        name, written = (None, item) if isinstance(item, str) else item
        one += Registry(expected).register_many([(name, written)], strict=strict)
        if one[-1].ok:
            with pytest.raises(CatalogError):
                Registry(expected).register(written, name=one[-1].name)
    outcomes = Registry(found).register_many(given, strict=strict)
    assert said(outcomes) == said(one)
    assert rows(found) == rows(expected)

    loader, before = Registry(atomic), rows(atomic)
    loader.register_many(given, strict=strict, atomic=True)
    if not all(outcome.ok for outcome in one):
        assert rows(atomic) == before
        good = [item for item, outcome in zip(given, one, strict=True) if outcome.ok]
        assert all(o.ok for o in loader.register_many(good, strict=strict, atomic=True))
    assert rows(atomic) == rows(expected)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(200, 206))
def test_the_order_of_registration_changes_no_template(seed: int, made: Made) -> None:
    choose = Dice(seed)
    texts = {f"n{place}": many_block_query(choose, least=1, most=4) for place in range(12)}
    pairs = [(name, "DECLARE NAMESPACE n = 'urn:n'; " + written) for name, written in texts.items()]
    found = []
    for given in (pairs, pairs[::-1], sorted(pairs, key=lambda pair: pair[1])):
        catalog = made()
        Registry(catalog).register_many(given)
        found.append({info.name: info.template for info in catalog.ask(read_queries)})
    assert found[0] == found[1] == found[2] != {}


# -- transactions --------------------------------------------------------------------------------------------------


def test_what_a_transaction_made_is_unknown_when_it_is_taken_back(made: Made) -> None:
    catalog = made()
    loader, before = Registry(catalog), rows(catalog)
    texts = [JOIN, JOIN.replace("1 h", "2 h"), "S//a"]
    assert not any(outcome.ok for outcome in loader.register_many([*texts, "S//["], atomic=True))
    assert rows(catalog) == before
    # Other queries take the numbers that were given back.
    assert all(o.ok for o in loader.register_many(["S//z", "T//z->x JOIN {x = y, 1 s} T//z->y", *texts]))
    with catalog.read() as connection:
        joined = sa.select(QUERIES.c.text, GROUPS.c.text).join(GROUPS, QUERIES.c.gid == GROUPS.c.gid)
        assert all(own == of_group for own, of_group in connection.execute(joined))


def test_a_transaction_that_fails_leaves_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = made()
    loader = Registry(catalog)
    loader.register("S//kept", name="kept")
    before = rows(catalog)
    original = Loading.flush

    def failing(self: Loading) -> None:
        original(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Loading, "flush", failing)
    for attempt in (lambda: loader.register(JOIN), lambda: loader.load(JOIN), lambda: loader.register_many([JOIN])):
        with pytest.raises(KeyboardInterrupt):
            attempt()
        assert rows(catalog) == before
    monkeypatch.undo()
    assert loader.register("S//other") == "q2"
    assert loader.register(JOIN) == "q3"
    expected = made()
    Registry(expected).load(f"CREATE QUERY kept AS S//kept; S//other; {JOIN}")
    assert rows(catalog) == rows(expected)


def test_registering_within_a_transaction_that_the_caller_takes_back(made: Made) -> None:
    catalog = made()
    loader, before = Registry(catalog), rows(catalog)

    def take_back(_: Connection) -> None:
        raise KeyboardInterrupt

    for text in (JOIN, "S//a"):
        with pytest.raises(KeyboardInterrupt):
            loader.register(text, then=take_back)
    assert rows(catalog) == before
    loader.register("S//z", name="z")
    with pytest.raises(KeyboardInterrupt), catalog.begin() as connection:
        loader.drop("z", connection=connection)
        raise KeyboardInterrupt
    loader.register(JOIN)
    loader.register("S//a")
    loader.register("S//a")
    expected = made()
    Registry(expected).load(f"CREATE QUERY z AS S//z; {JOIN}; S//a; S//a")
    assert rows(catalog) == rows(expected)


def test_transactions_leave_hardly_anything_to_the_collector(made: Made, small: None) -> None:
    of = Registry(made())
    texts = [f"S[./n > {number}][./a->x] JOIN {{x = y, 1 h}} T/b->y[./p = 'k{number}']" for number in range(40)]
    of.register_many(texts[:10])
    gc.collect()
    gc.disable()
    try:
        assert all(each.error is None for each in of.register_many(texts[10:]))
        assert not [each for each in gc.get_objects() if isinstance(each, Registrations)]
        left = gc.collect()
    finally:
        gc.enable()
    assert left < 60 * 30, "some for each transaction, by the library of databases"


def test_what_other_registries_write_is_seen(made: Made) -> None:
    catalog = made()
    one, other = Registry(catalog), Registry(catalog)
    names = [registry.register(written) for written in (JOIN, "S//a", JOIN) for registry in (one, other)]
    assert names == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert len(rows(catalog)["groups"]) == 2
    with pytest.raises(CatalogError):
        other.register("S//b", name="q1")
    one.drop("q1")
    other.register("S//b", name="q1")
    with pytest.raises(CatalogError):
        one.register("S//b", name="q1")


def test_two_definitions_of_one_digest_in_one_transaction(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = made()
    monkeypatch.setattr(
        loading, "variables_of", lambda compiled: [{**row, "key": 7, "var": "v7"} for row in variables_of(compiled)]
    )
    before = rows(catalog)
    for texts in (["S//a", "S//b"], ["S//a JOIN {1 h} S//b"]):
        with pytest.raises(CatalogError) as caught:
            Registry(catalog).register_many(texts)
        assert caught.value.condition == "XSCL_DIGEST_COLLISION"
        assert rows(catalog) == before


def test_what_is_known_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST_KNOWN", 5)
    known = Known()
    for number in range(20):
        known.learn(Known({f"g{number}": number}, {f"i{number}": number}, {"t"}, {number: "d"}))
        assert len(known.groups) <= 4
    assert known.groups["g19"] == 19


def test_channels_that_are_published_to_no_longer(made: Made) -> None:
    """With ``strict``, within a script as between scripts."""
    statements = ["CREATE QUERY p AS S//a PUBLISH out", "out//a", "DROP QUERY p", "out//b"]
    expected, found = made(), made()
    conditions = one_by_one(expected, statements, strict=True)
    assert [condition for _, condition in conditions] == [None, None, None, "XSCL_UNKNOWN_CHANNEL"]
    outcomes = Registry(found).load("; ".join(statements), strict=True)
    assert [(o.name, o.error and o.error.condition) for o in outcomes] == conditions


# -- constants -----------------------------------------------------------------------------------------------------

SELECTING = (
    "S//a->x[./k = '%d'] FOLLOWED BY {x = y, %d min} T//p->y",
    "S/a[./k = '%d'][./i->x] NOT FOLLOWED BY {x = y, %d min} T/b[./i->y]",
    "S/a[./i->x] JOIN {x = z, 1 h} T/b[./n > %d][./i->z] WITHOUT {x = y, y - x IN [1 s, %d min]} S/b[./i->y]",
    "S/a[./i->x] NOT FOLLOWED BY {x = y, 5 min} T/b[./k = '%d'][./k = '%d'][./i->y] CONSISTENCY STRONG",
    "S/a[./k = '%d'][./n < %d]",
)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(300, 304))
def test_queries_that_select_are_registered_together_as_one_by_one(seed: int, made: Made) -> None:
    choose = Dice(seed)
    given = [
        (f"n{place}", choose.one(*SELECTING) % (choose.count(1, 9), choose.count(1, 9)))
        for place in range(choose.count(20, 40))
    ]
    found, expected = made(), made()
    together = Registry(found).register_many(given)
    alone = [outcome for one in given for outcome in Registry(expected).register_many([one])]
    assert [(o.name, o.action, o.error, o.notes) for o in together] == [
        (o.name, o.action, o.error, o.notes) for o in alone
    ]
    assert rows(found) == rows(expected)
    assert rows(found)["parts"] and rows(found)["guards"]


# -- thousands -----------------------------------------------------------------------------------------------------


def test_a_thousand(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Dice(1)
    texts = []
    for place in range(1_000):
        a, b = choose.one("a", "b", "c", "d"), choose.one("a", "b", "c", "d")
        op = choose.one("JOIN", "FOLLOWED BY")
        written = f"S//{a}->x{place} {op} {{x{place} = y, {choose.count(1, 40)} min}} T//{b}->y"
        texts.append(written if choose.chance(98) else choose.one(*BAD))
    found, expected = made(), made()
    outcomes = Registry(found).load(";\n".join(texts))
    monkeypatch.setattr(registry, "_CHUNK", 7)
    given: list[str | tuple[str | None, str]] = list(texts)
    each = Registry(expected).register_many(given)
    assert [(o.name, o.error and o.error.condition) for o in outcomes] == [
        (o.name, o.error and o.error.condition) for o in each
    ]
    assert rows(found) == rows(expected)
    assert len(rows(found)["queries"]) == sum(o.ok for o in outcomes) > 960
