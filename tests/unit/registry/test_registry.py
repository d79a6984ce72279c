"""Registration of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from xscl.base.errors import CatalogError, QueryError, QuerySyntaxError, Span, UnboundVariableError
from xscl.base.types import Event, QueryOutcome
from xscl.catalog.channels import put_channel, read_facts
from xscl.catalog.groups import owner_use, read_rt_rows, read_template_use
from xscl.catalog.queries import read_queries, read_query
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import GROUPS, NEVER
from xscl.catalog.tokens import add_token
from xscl.intake.intake import Intake
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query
from xscl.registry.channels import add_channel, set_channel
from xscl.registry.memory import Memory
from xscl.registry.recompile import compile_info, refresh
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home
from xscl.templates.template import Group

JOIN = "S//a->x JOIN {x = y, 1 h} T//p->y"


@pytest.fixture
def registry(home: Home) -> Registry:
    return Registry(home.catalog)


def names(registry: Registry) -> list[str]:
    return [info.name for info in registry.catalog.ask(read_queries)]


def outcomes(found: list[QueryOutcome]) -> list[tuple[str | None, str | None]]:
    return [(outcome.name, outcome.error and outcome.error.condition) for outcome in found]


def stored_group(registry: Registry, gid: int) -> Group:
    """What the text that stands for a group is compiled to."""
    with registry.catalog.read() as connection:
        row = connection.execute(sa.select(GROUPS).where(GROUPS.c.gid == gid)).one()
    namespaces, facts = json.loads(row.namespaces), registry.catalog.ask(read_facts)
    return compile_query(parse_query(row.text), row.text, namespaces=namespaces, channels=facts).group


# -- names -----------------------------------------------------------------------------------------------------


def test_names_given_by_the_service(registry: Registry) -> None:
    assert [registry.register("S//a") for _ in range(2)] == ["q1", "q2"]
    registry.register("S//a", name="q4")
    assert registry.register("S//b") == "q5"
    registry.drop("q2")
    assert registry.register("S//b") == "q6"
    assert names(registry) == ["q1", "q4", "q5", "q6"]


def test_a_name_given_by_the_service_is_free(registry: Registry) -> None:
    registry.register("S//a", name="q2")
    assert registry.register("S//a") == "q3"


def test_names_given_by_the_text(registry: Registry) -> None:
    assert registry.register("CREATE QUERY mine AS S//a") == "mine"
    with pytest.raises(CatalogError) as caught:
        registry.register("CREATE QUERY mine AS S//a", name="yours")
    assert caught.value.condition == "XSCL_BAD_NAME"


def test_a_name_that_is_taken(registry: Registry) -> None:
    registry.register("S//a", name="x")
    with pytest.raises(CatalogError) as caught:
        registry.register("S//b", name="x")
    assert caught.value.condition == "XSCL_NAME_TAKEN"
    registry.drop("x")
    registry.register("S//b", name="x")
    assert [info.text for info in registry.catalog.ask(read_queries)] == ["S//b"]
    assert len(registry.catalog.ask(read_queries, live_only=False)) == 2


def test_drops(registry: Registry) -> None:
    registry.register("S//a", name="x")
    registry.drop("x")
    assert names(registry) == []
    (info,) = registry.catalog.ask(read_queries, live_only=False)
    assert not info.live
    assert info.docid_from < info.docid_until < NEVER
    with pytest.raises(CatalogError) as caught:
        registry.drop("x")
    assert caught.value.condition == "XSCL_QUERY_NOT_FOUND"


# -- texts -----------------------------------------------------------------------------------------------------


def test_namespaces_of_the_text(registry: Registry) -> None:
    registry.register("DECLARE NAMESPACE p = 'urn:p'; S//p:a", name="x")
    info = registry.catalog.ask(read_query, "x")
    assert (info.text, info.namespaces) == ("S//p:a", {"p": "urn:p"})
    assert str(compile_info(info, {}).specs[0].definition) == "S//{urn:p}a"
    assert stored_group(registry, info.gid) == compile_info(info, {}).group


def test_namespaces_do_not_outlive_their_text(registry: Registry) -> None:
    registry.register("DECLARE NAMESPACE p = 'urn:p'; S//p:a")
    with pytest.raises(QueryError) as caught:
        registry.register("S//p:a")
    assert caught.value.condition == "XSCL_UNDECLARED_PREFIX"


def test_errors_speak_of_the_whole_text(registry: Registry) -> None:
    with pytest.raises(UnboundVariableError) as caught:
        registry.register("DECLARE NAMESPACE p = 'urn:p';\n\nS//a JOIN {z = 'x', 1 s} S//b")
    assert (caught.value.line, caught.value.column) == (3, 12)


@pytest.mark.parametrize("text", ["", ";", "S//a; S//b", "DROP QUERY x", "DECLARE NAMESPACE p = 'u'", "S//["])
def test_texts_that_are_not_one_query(registry: Registry, text: str) -> None:
    with pytest.raises(QuerySyntaxError):
        registry.register(text)
    assert names(registry) == []


def test_strict(registry: Registry) -> None:
    with pytest.raises(CatalogError) as caught:
        registry.register("S//a", strict=True)
    assert caught.value.condition == "XSCL_UNKNOWN_CHANNEL"


def test_equal_queries_are_one_group(registry: Registry) -> None:
    texts = [JOIN, "S//a->one JOIN {two = one, 60 min} T//p->two", JOIN.replace("1 h", "2 h")]
    for text in texts:
        registry.register(text)
    gids = [info.gid for info in registry.catalog.ask(read_queries)]
    assert gids[0] == gids[1] != gids[2]
    ((template, queries, groups),) = registry.catalog.ask(read_template_use)
    assert (queries, groups) == (3, 2)
    rows = registry.catalog.ask(read_rt_rows, template)
    assert [row["qid"] for row in rows] == ["q1", "q2", "q3"]
    assert rows[0]["var1"] == rows[2]["var1"]


# -- many ------------------------------------------------------------------------------------------------------


def test_register_many_never_fails_whole(registry: Registry) -> None:
    texts: list[str | tuple[str, str]] = [
        "S//a",
        "S//[",
        ("mine", "S//b"),
        ("mine", "S//c"),
        "S//a JOIN {} S//b",
        "S//a[" + "(" * 5000,
        ("last", JOIN),
    ]
    assert outcomes(registry.register_many(texts)) == [
        ("q1", None),
        (None, "XSCL_SYNTAX"),
        ("mine", None),
        ("mine", "XSCL_NAME_TAKEN"),
        (None, "XSCL_UNTIED_BLOCK"),
        (None, "XSCL_SYNTAX"),
        ("last", None),
    ]
    assert names(registry) == ["last", "mine", "q1"]


@pytest.mark.parametrize("bad", ["S//a[. = '\ud800']", ("\ud800", "S//a"), "S//a[. = '\0']", ("\0", "S//a")])
def test_register_many_with_what_is_no_character(registry: Registry, bad: str | tuple[str, str]) -> None:
    first, second = registry.register_many(["S//a", bad])
    assert first.ok
    assert not second.ok


@pytest.mark.parametrize(
    ("bad", "shown"), [("\0", "0000"), ("\x0b", "000B"), ("\ufffe", "FFFE"), ("\uffff", "FFFF"), ("\ud800", "D800")]
)
def test_characters_that_xml_does_not_have(registry: Registry, bad: str, shown: str) -> None:
    text = f"S//a[\n\t. = '\r\x7f\ufffd{bad}']"
    with pytest.raises(QuerySyntaxError, match=rf"U\+{shown} is no character of XML") as caught:
        registry.register(text)
    assert caught.value.span == Span(text.index(bad), text.index(bad) + 1)
    assert caught.value.line == 2
    # In a script it is one statement's.
    good, refused, also_good = registry.load(f"S//b;\n{text};\nS//c;")
    assert good.ok and also_good.ok
    assert isinstance(refused.error, QuerySyntaxError) and refused.error.line == 3 and refused.line == 2
    registry.register(text.replace(bad, ""))


def test_register_many_with_what_is_no_text(registry: Registry) -> None:
    bad: list[object] = [None, 5, b"S//a", (), ("a",), ("a", "S//a", "b"), ("a", None), (5, "S//a"), {"a": "S//a"}]
    texts: list[Any] = ["S//a", *bad, (None, "S//b"), ["c", "S//c"]]
    found = registry.register_many(texts)
    assert outcomes(found) == [("q1", None), *[(None, "XSCL_BAD_OPTION")] * len(bad), ("q2", None), ("c", None)]
    assert {outcome.action for outcome in found[1:-2]} == {"refused"}
    assert "expected a text, or a name (or None) and a text, found ('a',)" in str(found[5].error)
    assert not any(outcome.ok for outcome in registry.register_many(texts, atomic=True))


def test_names_of_more_than_128_characters(registry: Registry) -> None:
    longest = "n" * 128
    registry.register(f"CREATE QUERY {longest} AS S//a")
    # Whether the query is of a known form or not.
    for text in ("S//a", "S//b", "S//b->x PUBLISH c"):
        with pytest.raises(QuerySyntaxError, match="a name of more than 128 characters") as caught:
            registry.register(f"CREATE QUERY {longest}n AS {text}")
        assert caught.value.column == 14
    with pytest.raises(CatalogError, match="at most 128 characters") as refused:
        registry.register("S//a", name=f"{longest}n")
    assert refused.value.condition == "XSCL_BAD_NAME"
    assert names(registry) == [longest]


def test_load_keeps_the_good_ones(registry: Registry) -> None:
    script = "CREATE QUERY a AS S//a;\nCREATE QUERY b AS S//[;\nDECLARE NAMESPACE p = 'urn:p';\n"
    script += "S//p:c; DROP QUERY a;\nDROP QUERY z"
    found = registry.load(script)
    assert [(o.name, o.line, o.action, o.ok) for o in found] == [
        ("a", 1, "registered", True),
        ("b", 2, "refused", False),
        ("p", 3, "declared", True),
        ("q2", 4, "registered", True),
        ("a", 4, "dropped", True),
        ("z", 5, "refused", False),
    ]
    assert names(registry) == ["q2"]


def test_load_all_or_none(registry: Registry) -> None:
    good, bad = registry.load(f"CREATE QUERY a AS {JOIN}; S//[", atomic=True)
    assert (good.error and good.error.condition, bad.error and bad.error.condition) == (
        "XSCL_NOT_REGISTERED",
        "XSCL_SYNTAX",
    )
    assert names(registry) == []
    assert registry.catalog.ask(read_template_use) == []
    assert all(o.ok for o in registry.load(f"CREATE QUERY a AS {JOIN}; S//b", atomic=True))
    assert names(registry) == ["a", "q2"]


# -- row channels ----------------------------------------------------------------------------------------------


def functions(registry: Registry, name: str) -> set[tuple[str, str]]:
    info = registry.catalog.ask(read_query, name)
    group = stored_group(registry, info.gid)
    assert group == compile_info(info, registry.catalog.ask(read_facts)).group
    (template,) = [t for t, _, _ in registry.catalog.ask(read_template_use) if t.id == info.template]
    (row,) = [row for row in registry.catalog.ask(read_rt_rows, template) if row["qid"] == name]
    assert [(row["fn_l_1"], row["fn_r_1"])] == [(j.fn_l, j.fn_r) for j in group.instance.joins[:1]]
    return {(j.fn_l, j.fn_r) for j in group.instance.joins}


def test_the_first_row_makes_joins_numeric(home: Home, registry: Registry) -> None:
    registry.register(JOIN, name="x")
    registry.register("S//a", name="other")
    assert functions(registry, "x") == {("", "")}
    Intake(home).take([Event("T", "1", 1, row={"p": 1.5, "q": "s"})])
    assert functions(registry, "x") == {("number", "number")}
    registry.register(JOIN.replace("p->y", "q->y"), name="y")
    assert functions(registry, "y") == {("", "")}


def test_a_column_that_was_null_becomes_numeric(home: Home, registry: Registry) -> None:
    registry.register(JOIN, name="x")
    intake = Intake(home)
    intake.take([Event("T", "1", 1, row={"p": None, "q": "s"})])
    assert functions(registry, "x") == {("", "")}
    intake.take([Event("T", "2", 1, row={"p": 7})])
    assert functions(registry, "x") == {("number", "number")}


def test_documents_make_no_joins_numeric(home: Home, registry: Registry) -> None:
    registry.register(JOIN, name="x")
    Intake(home).take([Event("T", "1", 1, xml="<p>1</p>")])
    assert functions(registry, "x") == {("", "")}


@pytest.mark.parametrize("schemas", [("p string, q string",), ("p double, q string", "p string, q string")])
def test_known_columns_are_as_if_they_had_been_known(tmp_path: Path, schemas: tuple[str, ...]) -> None:
    texts = [f"T//p->x JOIN {{{join}, 1 h}} T//q->y" for join in ("x < y + 0", "x < y", "x = y", "y = x")]
    texts += [f"T->x[./p = {literal}] JOIN {{x = y, 1 h}} S->y" for literal in ("5", "'5'")]
    texts += ["S//p", "U//p->x JOIN {x = y, 1 h} S//a->y"]
    told = []
    for order, early in ((1, True), (-1, True), (1, False)):
        home = init_home(tmp_path / f"{order} {early}")
        registry = Registry(home.catalog)
        if early:
            registry.register_many([(f"q{texts.index(text)}", text) for text in texts[::order]])
        add_channel(home.catalog, "T", kind="rows", schema=schemas[0])
        for schema in schemas[1:]:
            set_channel(home.catalog, "T", schema=schema)
        if not early:
            registry.register_many([(f"q{texts.index(text)}", text) for text in texts])
        keys = {}
        for info in home.catalog.ask(read_queries):
            group = stored_group(registry, info.gid)
            assert group == compile_info(info, home.catalog.ask(read_facts)).group, info.text
            keys[info.name] = group.key, info.template, info.names
        told.append(keys)
        home.catalog.close()
    assert told[0] == told[1] == told[2]


def test_a_first_row_that_is_taken_back_leaves_no_numbers(home: Home, registry: Registry) -> None:
    registry.register(JOIN, name="x")
    with pytest.raises(ZeroDivisionError), home.catalog.begin() as connection:
        put_channel(connection, ChannelInfo("T", "rows", False, "T", {"p": "double"}, None, "T"))
        refresh(registry.memory, connection, "T", None)
        raise ZeroDivisionError
    registry.register("S//c", name="next")
    Intake(home).take([Event("T", "1", 1, row={"p": 1.5})])
    registry.register(JOIN, name="y")
    assert functions(registry, "x") == functions(registry, "y") == {("number", "number")}
    assert registry.catalog.ask(read_query, "x").gid == registry.catalog.ask(read_query, "y").gid


def test_a_first_document_compiles_nothing(home: Home, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register(JOIN, name="x")
    monkeypatch.setattr(Memory, "preparer", None)
    Intake(home).take([Event("T", "1", 1, xml="<p>1</p>")])
    add_channel(home.catalog, "S", kind="xml")
    assert functions(registry, "x") == {("", "")}


def test_the_first_row_does_not_mix_up_names(home: Home, registry: Registry) -> None:
    registry.register("S//a->r[./b->x][./b->y] JOIN {x = u AND y = v, 1 h} T->t[./p->u][./q->v]", name="x")
    Intake(home).take([Event("T", "1", 1, row={"p": 1, "q": "s"})])
    info = registry.catalog.ask(read_query, "x")
    assert tuple(info.names["meta"]) == compile_info(info, registry.catalog.ask(read_facts)).meta_names


def test_limits_of_tokens_count_the_parts_of_absences(registry: Registry) -> None:
    plain = "S[./k->a] FOLLOWED BY {a = b, 1 d} S[./k->b]"
    texts = [plain, f"{plain} WITHOUT {{a = c, BETWEEN}} T[./k->c]", f"{plain} ON CHANGE RETRACT"]
    costs = [registry.unregistered(text)[1].cost for text in texts]
    assert costs == [3, 3 + 5, 3]
    with registry.catalog.begin() as connection:
        add_token(connection, "ann", ["write"], 1, cost=sum(costs) + 3)
    for number, text in enumerate(texts, start=1):
        registry.register(text, owner="ann")
        assert registry.catalog.ask(owner_use, "ann") == (number, sum(costs[:number]))
    outcomes = registry.register_many([texts[1], plain, plain], owner="ann")
    assert [each.error and each.error.condition for each in outcomes] == ["XSCL_QUERY_COST", None, "XSCL_QUERY_COST"]


def test_a_note_says_that_nothing_ends_what_waits(registry: Registry) -> None:
    text = "S->x NOT FOLLOWED BY {1 h} T->y"
    notes = {level: registry.register(f"{text} CONSISTENCY {level}").notes for level in ("STRONG", "MIDDLE")}
    for told, words in (("STRONG", "what waits stays forever"), ("MIDDLE", "their rows stay forever")):
        assert any("nothing settles the times of T" in note and words in note for note in notes[told])
    # The command is one that works.
    assert any("xscl channel add T --lateness 1h" in note for note in notes["STRONG"])
    add_channel(registry.catalog, "T")
    assert any("xscl channel set T --lateness 1h" in note for note in registry.register(text).notes)
    set_channel(registry.catalog, "T", lateness="1h")
    assert not any("forever" in note for note in registry.register(text).notes)


def test_channels_are_settled_that_the_same_script_publishes_to(registry: Registry) -> None:
    add_channel(registry.catalog, "S", lateness="1h")
    script = "CREATE QUERY a AS S PUBLISH P; CREATE QUERY b AS SELECT count() AS n FROM P->p WINDOW 1 h EVERY 1 h;"
    published, windowed = registry.load(script)
    assert published.ok and windowed.ok and windowed.notes == ()
    _, _, again = registry.load(
        "CREATE QUERY c AS S PUBLISH R; DROP QUERY c; CREATE QUERY d AS S->x NOT FOLLOWED BY {1 h} R;"
    )
    assert any("nothing settles the times of R" in note for note in again.notes)


def test_a_memory_is_no_longer_than_the_lateness(registry: Registry) -> None:
    for name, lateness in (("A", "1 h"), ("B", "2 min")):
        add_channel(registry.catalog, name, lateness=lateness)
    text = "A->x NOT FOLLOWED BY {1 h} B CONSISTENCY BLOCKING 1 min MEMORY"
    assert registry.register(f"{text} 2 min").notes == ()
    with pytest.raises(CatalogError, match=r"XSCL_BAD_LEVEL.*events of B .*2 min.*10 min") as refused:
        registry.register(f"{text} 10 min")
    assert refused.value.span is not None and refused.value.span.start == text.index("BLOCKING")
    # Where nothing settles times, the clock settles what is not remembered.
    assert not any("nothing settles" in note for note in registry.register(f"C{text[1:]} 2 min").notes)
