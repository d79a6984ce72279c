"""The automaton: shared states, a path automaton that strangers' names do not fill, and what changes forget."""

from __future__ import annotations

from collections import Counter

import pytest
from lxml import etree
from patterns import Patterns, family_document, many_definitions, plain_spec
from patterns import document as random_document
from strategies import Dice

from xscl.base.safe_xml import parse_xml
from xscl.xpath.automaton import automaton as module
from xscl.xpath.automaton.automaton import Automaton, Move
from xscl.xpath.document_witnesses import Witness, match_document
from xscl.xpath.pattern import Comparison, Condition, Constant, Definition, Exists, Here, NodeTest, Step

A, B, C = (NodeTest("element", "", name) for name in "abc")
ANY = NodeTest("element", None, None)
K = NodeTest("attribute", "", "k")


def equals(value: str) -> Condition:
    return Comparison(Here(), "=", Constant(value, is_number=False))


def path(*steps: tuple[str, NodeTest]) -> Definition:
    return Definition("S", tuple(Step(axis, test) for axis, test in steps))  # type: ignore[arg-type]


def guarded(test: NodeTest, value: str, *below: Step) -> Definition:
    return Definition("S", (Step("descendant", test, (equals(value),)), *below))


def machine_of(*definitions: Definition) -> Automaton:
    return Automaton(map(plain_spec, definitions))


def walked(machine: Automaton, *texts: str) -> list[list[Witness]]:
    return [match_document(machine, "S", parse_xml(text)) for text in texts]


def found(rows: list[Witness]) -> list[tuple[int, int, str | None]]:
    return sorted((row.var, row.node, row.value) for row in rows)


def moves(machine: Automaton) -> set[Move]:
    return set(machine.moves())


def keys(move: Move) -> int:
    """Entries by which a node is found, without those that only save making the key of a name."""
    return sum(name.startswith(("element ", "attribute ")) or name in {*"abck", "@k", "text()"} for name in move.next)


def widest(machine: Automaton) -> int:
    return max(map(keys, moves(machine)))


# -- states ----------------------------------------------------------------------------------------------------


def test_equal_prefixes_are_one_state() -> None:
    definitions = (
        path(("descendant", A), ("child", B)),
        path(("descendant", A), ("child", C)),
        path(("descendant", A)),
    )
    machine = machine_of(*definitions)
    assert machine.size().states == machine.trie.count == 4
    depths = Counter(state.depth for state in machine.trie.all_states())
    assert depths == {0: 1, 1: 1, 2: 2}
    (a,) = (state for state in machine.trie.all_states() if state.depth == 1)
    assert {state.parent for state in machine.trie.all_states() if state.depth == 2} == {a}


def test_axes_make_different_states() -> None:
    assert machine_of(path(("descendant", A)), path(("child", A))).size().states == 3


def test_other_conditions_are_another_state() -> None:
    machine = machine_of(path(("child", A)), *(Definition("S", (Step("child", A, (equals(v),)),)) for v in "xy"))
    assert machine.size().states == 4
    assert len({state.key for state in machine.trie.all_states()}) == 4
    assert Counter(state.plain for state in machine.trie.all_states()) == {True: 2, False: 2}


def test_conditions_on_the_document_node_are_another_root() -> None:
    below = Exists(Step("descendant", B))
    machine = machine_of(Definition("S", (Step("child", A),)), Definition("S", (Step("child", A),), (below,)))
    assert Counter(state.depth for state in machine.trie.all_states()) == {0: 2, 1: 2}
    without, with_b = walked(machine, "<a/>", "<a><b/></a>")
    assert (len(without), len(with_b)) == (1, 2)


def test_states_of_two_channels_are_not_shared() -> None:
    machine = machine_of(path(("child", A)), Definition("T", (Step("child", A),)))
    assert machine.size().states == 4


def test_states_go_with_the_last_spec_that_needs_them() -> None:
    long, short, side = (
        path(("descendant", A), ("child", B)),
        path(("descendant", A)),
        guarded(A, "x", Step("child", B)),
    )
    machine = machine_of(long, short, side)
    for definition, left in ((long, 4), (side, 2), (short, 0)):
        machine.remove(plain_spec(definition))
        assert machine.size().states == left == sum(1 for _ in machine.trie.all_states())


def test_conditions_go_with_the_last_state_that_needs_them() -> None:
    definitions = [guarded(test, value) for test in (A, B, ANY) for value in "xyz"]
    machine = machine_of(*definitions)
    guards = machine.trie.guards
    for place, definition in enumerate(definitions, start=1):
        machine.remove(plain_spec(definition))
        left = definitions[place:]
        conditions = {each.steps[0].conditions for each in left}
        assert None not in {guards.number(each) for each in conditions}
        assert len(guards._numbers) == len(guards._conditions) == len(conditions)
        assert len(guards.sets()) == len({each.steps[0].test for each in left})
        if place == 3:  # some sets are filed when they go, others wait
            match_document(machine, "S", parse_xml("<a>x</a>"))
    assert not guards._indexes
    assert not any(guards._waiting.values())
    assert guards.number((equals("x"),)) is None


def test_channels_nobody_reads() -> None:
    machine = machine_of(path(("child", A)))
    assert machine.start("T") is None
    assert match_document(machine, "T", parse_xml("<a/>")) == []
    assert machine.start("S") is not None
    assert machine.visits == 0


# -- the path automaton ----------------------------------------------------------------------------------------


def test_one_node_for_each_path_of_names() -> None:
    machine = machine_of(path(("descendant", A), ("child", B)))
    walked(machine, "<a><b/><b/><a><b/></a></a>")
    before = machine.size().moves
    # The document node, /a, /a/b, /a/a, /a/a/b.
    assert before == 5
    walked(machine, "<a><a><b/></a><b/><a/></a>")
    assert machine.size().moves == before


def test_nothing_below_a_dead_end_is_looked_at() -> None:
    machine = machine_of(path(("child", A), ("child", B)))
    walked(machine, f"<c>{'<a><b/></a>' * 100}</c>")
    assert machine.visits == 1
    walked(machine, f"<a>{'<c><b/></c>' * 100}</a>")
    assert machine.visits == 1 + 101
    (rows,) = walked(machine, f"<a>{'<c><b/></c>' * 100}<b/></a>")
    assert [row.node for row in rows] == [201]


def test_comments_are_nowhere() -> None:
    machine = machine_of(path(("child", ANY), ("descendant", ANY)))
    start = machine.start("S")
    assert start is not None
    root = parse_xml("<a><!--c--><?p i?><b/></a>")
    assert [machine.enter(start, child.tag) is None for child in root] == [True, True, False]
    assert [row.node for row in walked(machine, "<a><!--c--><?p i?><b/><!--c--></a>")[0]] == [1]


def test_wildcards_by_namespace() -> None:
    tests = (
        ANY,
        NodeTest("element", "urn:n", None),
        NodeTest("element", None, "a"),
        A,
        NodeTest("element", "urn:n", "a"),
    )
    definitions = [path(("child", test)) for test in tests]
    machine = machine_of(*definitions)
    test_of = dict(zip((definition.key for definition in definitions), tests, strict=True))
    texts = ("<a/>", "<z/>", "<a xmlns='urn:n'/>", "<z xmlns='urn:n'/>", "<a xmlns='urn:m'/>", "<z xmlns='?'/>")
    reached = {text: {test_of[row.var] for row in match_document(machine, "S", parse_xml(text))} for text in texts}
    any_, of_n, of_a, a, n_a = tests
    assert reached == {
        "<a/>": {any_, of_a, a},
        "<z/>": {any_},
        "<a xmlns='urn:n'/>": {any_, of_n, of_a, n_a},
        "<z xmlns='urn:n'/>": {any_, of_n},
        "<a xmlns='urn:m'/>": {any_, of_a},
        "<z xmlns='?'/>": {any_},
    }


# -- names of strangers ----------------------------------------------------------------------------------------


MANY = (
    path(("descendant", A)),
    Definition("S", (Step("descendant", ANY, (Exists(Step("child", B)),)), Step("descendant", C))),
    path(("child", ANY), ("descendant", K)),
)


def strange(number: int) -> str:
    name = f"e{number}"
    return f"<{name} {name}='1'><a><b/><{name}><c k='{number}'/></{name}></a></{name}>"


def test_names_of_strangers_do_not_fill_the_tables() -> None:
    machine = machine_of(*MANY)
    before = None
    for number in range(1_500):
        assert len(walked(machine, strange(number))[0]) == 3
        if number == 10:
            before = machine.size().moves, widest(machine)
    assert (machine.size().moves, widest(machine)) == before
    assert widest(machine) <= 4


def test_namespaces_of_strangers_do_not_fill_the_tables() -> None:
    machine = machine_of(path(("descendant", NodeTest("element", "urn:n", "a"))))
    for number in range(1_000):
        walked(machine, f"<a xmlns='urn:{number}'><b{number} xmlns='urn:n'/></a>")
    assert widest(machine) <= 2
    # Nothing is reached, so all paths are where the document node is.
    assert machine.size().moves == 2


@pytest.mark.parametrize(
    ("test", "name"),
    [(NodeTest("element", None, "a"), "{{urn:{}}}a"), (NodeTest("element", "urn:n", None), "{{urn:n}}{}")],
)
def test_names_that_wildcards_match_do_not_fill_the_tables(test: NodeTest, name: str) -> None:
    machine = machine_of(path(("descendant", test)))
    start = machine.start("S")
    assert start is not None
    reached = {machine.enter(start, name.format(f"n{number}")) for number in range(1_000)}
    assert len(reached) == 1
    assert machine.size().moves == 2


def test_names_that_save_making_keys_are_kept_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 5_000)
    machine, most = machine_of(*MANY), 0
    for number in range(2_000):
        assert len(walked(machine, strange(number))[0]) == 3
        most = max(most, sum(len(move.next) for move in moves(machine)))
    assert 100 < most < 5_000 // 8


def test_long_names_count_by_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 50_000)
    machine = machine_of(*MANY)
    most = 0
    for number in range(200):
        walked(machine, f"<a><{'e' * 10_000}{number}/></a>")
        most = max(most, sum(len(name) for move in moves(machine) for name in move.next))
    assert most < 50_000 * 8 + 10_000


@pytest.mark.parametrize("limit", [0, 300, 3_000])
def test_a_path_automaton_that_starts_anew_answers_the_same(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    choose = Dice(limit)
    specs = Patterns(choose).specs(60)
    texts = [random_document(choose, depth=5) for _ in range(40)]
    wanted = [sorted(rows, key=repr) for rows in walked(Automaton(specs), *texts)]
    free = Automaton(specs)
    walked(free, *texts)
    monkeypatch.setattr(module, "MAX_HELD", limit)
    machine = Automaton(specs)
    largest = 0
    for text, rows in zip(texts, wanted, strict=True):
        assert sorted(walked(machine, text)[0], key=repr) == rows
        largest = max(largest, machine.size().moves)
    assert largest < free.size().moves
    assert any(wanted)


# -- what changes forget ---------------------------------------------------------------------------------------


def kept(machine: Automaton, before: set[Move]) -> set[Move]:
    machine.start("S")  # what changed takes effect
    return moves(machine) & before


def test_a_pattern_below_one_path_keeps_the_moves_of_the_others() -> None:
    machine = machine_of(*(path(("child", ANY), ("child", test), ("child", ANY)) for test in (A, B)))
    walked(machine, "<r><a><x/></a><b><x/></b></r>")
    before = moves(machine)
    assert len(before) == 6
    machine.add(plain_spec(path(("child", ANY), ("child", A), ("child", C))))
    # Those that go are /r/a and what is below.
    assert len(kept(machine, before)) == 4
    (rows,) = walked(machine, "<r><a><c/></a><b><c/></b></r>")
    assert len(rows) == 3
    assert before & moves(machine) == kept(machine, before)


def test_another_constant_forgets_nothing() -> None:
    machine = machine_of(guarded(A, "x"), guarded(A, "x", Step("child", B)))
    text = "<r><a>y<b/></a><a>z</a></r>"
    walked(machine, text)
    before = moves(machine)
    more = [guarded(A, "y"), guarded(A, "z"), guarded(A, "y<b/>"), guarded(A, "y", Step("child", B))]
    for definition in more:
        machine.add(plain_spec(definition))
        assert kept(machine, before) == before
    (rows,) = walked(machine, text)
    assert found(rows) == sorted([(more[0].key, 1, "y"), (more[1].key, 3, "z"), (more[3].key, 2, "")])
    for definition in more:
        machine.remove(plain_spec(definition))
    assert walked(machine, text) == [[]]


def test_the_first_constant_forgets_where_it_begins() -> None:
    machine = machine_of(path(("child", ANY), ("child", A)), path(("child", ANY), ("child", B), ("child", C)))
    walked(machine, "<r><a/><b><c/></b></r>")
    before = moves(machine)
    machine.add(plain_spec(Definition("S", (Step("child", ANY), Step("child", B), Step("child", C, (equals("x"),))))))
    # /r/b leads to it, so it and /r/b/c go.
    assert len(kept(machine, before)) == len(before) - 2
    assert [len(rows) for rows in walked(machine, "<r><b><c>x</c><c/></b></r>")] == [3]


def test_a_wanted_value_more_forgets_its_node_only() -> None:
    machine = machine_of(path(("child", ANY), ("child", A)), path(("child", ANY), ("child", B)))
    walked(machine, "<r><a/><b/></r>")
    before = moves(machine)
    machine.add(plain_spec(path(("child", ANY), ("child", A)), "number"))
    assert len(kept(machine, before)) == len(before) - 1
    assert len(walked(machine, "<r><a>1</a><b/></r>")[0]) == 3


def test_another_channel_forgets_nothing() -> None:
    machine = machine_of(path(("descendant", A)))
    walked(machine, "<r><a/></r>")
    before = moves(machine)
    other = plain_spec(Definition("T", (Step("descendant", A),)))
    machine.add(other)
    assert kept(machine, before) == before
    machine.remove(other)
    assert kept(machine, before) == before


# -- visits, counted -------------------------------------------------------------------------------------------


def test_visits_do_not_grow_with_patterns() -> None:
    texts = [family_document(Dice(seed), 20) for seed in range(3)]
    elements = sum(1 for text in texts for _ in parse_xml(text).iter(etree.Element))
    visits, sizes = [], []
    for count in (10, 1_000, 10_000):
        machine = machine_of(*many_definitions(Dice(1), count))
        assert any(walked(machine, *texts))
        visits.append(machine.visits)
        sizes.append(machine.size().moves)
    assert visits == [elements] * 3
    assert len(set(sizes)) == 1
