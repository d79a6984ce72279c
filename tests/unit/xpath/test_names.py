"""Which node tests a name passes, against trying them one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Choices

from xscl.xpath.automaton.names import TEXT, NodeTests, attribute
from xscl.xpath.conditions.condition import matches_name
from xscl.xpath.pattern import NodeTest

URIS = ("", "urn:n", "urn:m", "?", " ", "a b", "a", "}", "{")
LOCALS = ("a", "b", "é", "text", "element")


def node_test(choose: Choices) -> NodeTest:
    kind = choose.one("element", "element", "attribute", "text")
    if kind == "text":
        return NodeTest("text")
    return NodeTest(kind, choose.one(None, *URIS), choose.one(None, *LOCALS))  # type: ignore[arg-type]


def clark(uri: str, local: str) -> str:
    return f"{{{uri}}}{local}" if uri else local


def passes(test: NodeTest, name: str) -> bool:
    if test.kind == "text" or name == TEXT:
        return test.kind == "text" and name == TEXT
    if test.kind == "attribute":
        return name.startswith("@") and matches_name(test, name[1:])
    return not name.startswith("@") and matches_name(test, name)


NAMES = [clark(uri, local) for uri in (*URIS, "urn:strange") for local in (*LOCALS, "strange")]
ALL_NAMES = [*NAMES, *map(attribute, NAMES), TEXT]


@given(st.data())
def test_passed_tests(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    tests = NodeTests()
    asked: dict[NodeTest, int] = {}
    for _ in range(choose.count(1, 12)):
        test = node_test(choose)
        asked[test] = tests.number(test)
        assert tests.number(test) == asked[test]
        # Asked in between too: a later test may be passed by a name that is known.
        for name in ALL_NAMES if choose.chance(20) else ():
            assert set(tests.passed(name)) == {number for test, number in asked.items() if passes(test, name)}
    assert len(set(asked.values())) == len(asked)
    for name in ALL_NAMES:
        found = tests.passed(name)
        assert len(found) == len(set(found))
        assert set(found) == {number for test, number in asked.items() if passes(test, name)}, name


@given(st.data())
def test_names_of_one_key_pass_the_same_tests(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    tests = NodeTests()
    for _ in range(choose.count(1, 8)):
        tests.number(node_test(choose))
    passed: dict[str, set[int]] = {}
    for name in ALL_NAMES:
        found = set(tests.passed(name))
        assert passed.setdefault(tests.key(name), found) == found


@pytest.mark.parametrize("uri", ["?", "\ufffd"])
def test_a_namespace_that_looks_like_a_placeholder(uri: str) -> None:
    tests = NodeTests()
    number = tests.number(NodeTest("element", uri, None))
    assert tests.passed("{urn:strange}a") == ()
    assert tests.passed(clark(uri, "a")) == (number,)


def test_names_of_strangers_have_few_keys() -> None:
    tests = NodeTests()
    for test in (
        NodeTest("element", "", "a"),
        NodeTest("element", "urn:n", None),
        NodeTest("element", None, "b"),
        NodeTest("attribute", None, None),
        NodeTest("attribute", "", "k"),
        NodeTest("text"),
    ):
        tests.number(test)
    names = [clark(uri, f"e{n}") for n in range(500) for uri in ("", "urn:n", f"urn:{n}")]
    names += [clark(f"urn:{n}", local) for n in range(500) for local in "ab"]
    keys = {tests.key(name) for name in names} | {tests.key(attribute(name)) for name in names}
    for name in (*names, *map(attribute, names)):
        tests.passed(name)
    # Of elements: of two namespaces or none of them, of one local name or another; and of all attributes.
    assert len(keys) <= 5
    assert len(tests._passed) == len(keys)
