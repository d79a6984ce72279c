"""Batches of events in Arrow to witness rows in Arrow: as document by document, however the batch is cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from patterns import Patterns, documents, family, family_document, plain_spec, spec_sets, walk
from patterns import document as random_document
from strategies import Choices, Dice
from xpath_oracle import Law, Numbered

from xscl.base.arrow_schemas import REFUSED, WITNESS_SCHEMA
from xscl.base.errors import DocumentLimitError
from xscl.base.mixed import by_column
from xscl.base.safe_xml import parse_stored, parse_xml, serialize
from xscl.xpath import document_witnesses, witness
from xscl.xpath.automaton import chains
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.moves import branch_sets, guard_sets
from xscl.xpath.moves import paths as path_moves
from xscl.xpath.pattern import Comparison, Condition, Constant, Definition, Exists, Here, NodeTest, Step
from xscl.xpath.witness import witness_rows

EVENTS = pa.schema(
    [
        ("docid", pa.int64()),
        ("channel", pa.string()),
        ("id", pa.string()),
        ("item", pa.int64()),
        ("ts", pa.int64()),
        ("late", pa.bool_()),
        ("content", pa.string()),
    ]
)
Row = tuple[object, ...]


def batch_of(documents: Sequence[tuple[str, str]], first: int = 0) -> pa.RecordBatch:
    """Events of (channel, content); what else they carry tells them apart."""
    rows = [
        {
            "docid": place * 7 + 1,
            "channel": channel,
            "id": f"e{place}é",
            "item": place * 7 + 1 - (place % 3) * 7,
            "ts": 1_700_000_000_000_000 + place % 5,
            "late": place % 4 == 0,
            "content": content,
        }
        for place, (channel, content) in enumerate(documents, first)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)


def comparable(row: dict[str, Any]) -> Row:
    chain = sorted((entry["var1"], entry["var2"], entry["node1"], entry["node2"]) for entry in row["chain"])
    return (*(row[name] for name in WITNESS_SCHEMA.names if name != "chain"), tuple(chain))


def rows_of(machine: Automaton, batches: Iterable[pa.RecordBatch]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for events in batches:
        for rows in witness_rows(machine, events):
            assert rows.schema.equals(WITNESS_SCHEMA), rows.schema
            rows.validate(full=True)
            found.update(map(comparable, rows.to_pylist()))
    return found


def one_by_one(machine: Automaton, events: pa.RecordBatch) -> Counter[Row]:
    """The rows of sound documents by ``match_document``."""
    found: Counter[Row] = Counter()
    for event in events.to_pylist():
        place = f"{event['channel']}\0{event['id']}"
        shared = event["docid"], event["ts"], event["item"], place, event["late"], 0
        for row in match_document(machine, event["channel"], parse_xml(event["content"])):
            values = row.var, row.node, row.function, row.value, row.number, row.hash
            found[(*shared, *values, tuple(sorted(row.chain)))] += 1
    return found


def check(machine: Automaton, events: pa.RecordBatch) -> int:
    wanted = one_by_one(machine, events)
    assert rows_of(machine, [events]) == wanted
    return wanted.total()


@pytest.fixture(autouse=True)
def columns_of_few_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the documents are, those in the stored form are columns."""
    monkeypatch.setattr(witness, "_FEW", 0)


def plain(definition: Definition) -> Definition:
    return Definition(definition.channel, tuple(Step(step.axis, step.test) for step in definition.steps))


def plain_specs(specs: Iterable[WitnessSpec]) -> list[WitnessSpec]:
    """Specs that paths alone answer."""
    found = [
        WitnessSpec(
            plain(spec.definition),
            tuple(name for name in spec.functions if not by_column(name)),
            tuple((plain(upper), plain(lower)) for upper, lower in spec.edges if (upper, lower) not in spec.hanging),
        )
        for spec in specs
    ]
    return list(dict.fromkeys(found))


def stored(text: str) -> str:
    return serialize(parse_xml(text))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(documents().map(stored), min_size=1, max_size=5), spec_sets(6))
def test_paths_alone(texts: list[str], specs: list[WitnessSpec]) -> None:
    machine = Automaton(plain_specs(specs))
    events = batch_of([("S", text) for text in texts])
    walked = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(witness, "_FEW", 0)
        patched.setattr(witness, "parse_stored", lambda text: walked.append(text) or parse_stored(text))
        found = rows_of(machine, [events])
    assert found == one_by_one(machine, events)
    assert len(walked) == sum("<!" in text or "<?" in text for text in texts)


def by_columns(machine: Automaton, events: pa.RecordBatch) -> tuple[Counter[Row], int]:
    """The rows of documents that go by columns wherever they can, and the number of those that were walked as trees."""
    trees = 0

    def parsed(text: bytes) -> etree._Element:
        nonlocal trees
        trees += 1
        return parse_stored(text)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(witness, "_FEW", 0)
        patched.setattr(path_moves, "_WORTH", 0)
        patched.setattr(witness, "parse_stored", parsed)
        return rows_of(machine, [events]), trees


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(documents().map(stored), min_size=1, max_size=5), spec_sets(6))
def test_conditions_without_chains(texts: list[str], specs: list[WitnessSpec]) -> None:
    """Rows of single nodes need no tree, whatever the conditions are."""
    found = [spec for spec in specs if spec.definition.steps and not any(map(by_column, spec.functions))]
    machine = Automaton(dict.fromkeys(plain_spec(spec.definition, *spec.functions) for spec in found))
    events = batch_of([("S", text) for text in texts])
    rows, trees = by_columns(machine, events)
    assert rows == one_by_one(machine, events)
    assert trees == sum("<!" in text or "<?" in text for text in texts) * bool(found)


def by_children(specs: Iterable[WitnessSpec]) -> list[WitnessSpec]:
    """Specs whose edges lie on the way, and lead from their upper ends to the node by steps to children alone."""
    found = []
    for spec in specs:
        steps = spec.definition.steps
        last = max((place for place, step in enumerate(steps, 1) if step.axis == "descendant"), default=0)
        edges = [pair for pair in spec.edges if pair not in spec.hanging and len(pair[0].steps) >= last]
        if steps and not any(map(by_column, spec.functions)):
            found.append(WitnessSpec(spec.definition, spec.functions, tuple(edges)))
    return list(dict.fromkeys(found))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(documents().map(stored), min_size=1, max_size=5), spec_sets(6))
def test_conditions_above_children(texts: list[str], specs: list[WitnessSpec]) -> None:
    """Rows whose chains climb from child to parent need no tree, whatever the conditions are."""
    found = by_children(specs)
    machine = Automaton(found)
    events = batch_of([("S", text) for text in texts])
    rows, trees = by_columns(machine, events)
    assert rows == one_by_one(machine, events)
    assert trees == sum("<!" in text or "<?" in text for text in texts) * bool(found)
    law = Law(found)
    for text in texts:
        law.check(Numbered(parse_xml(text)), match_document(machine, "S", parse_xml(text)))


@pytest.mark.parametrize(
    ("word", "tests", "wanted"),
    [
        ("a", [NodeTest("element", "", "t")], [(1, 3), (5, 7), (8, 10)]),
        ("a", [NodeTest("element", "", "t"), NodeTest("attribute", "", "k")], [(1, 15), (5, 19), (8, 22)]),
        ("a", [NodeTest("element", "", "t"), NodeTest("text")], [(1, 16), (5, 20), (8, 23)]),
        ("b", [NodeTest("element", "", "t")], []),
    ],
)
@pytest.mark.parametrize("few", [0, 100])
def test_each_node_has_the_parent_that_conditions_hold_for(
    word: str, tests: list[NodeTest], wanted: list[tuple[int, int]], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conditions speak of several nodes of a document, one inside another, and do not hold for all."""
    monkeypatch.setattr(witness, "_FEW", few)
    monkeypatch.setattr(path_moves, "_WORTH", 0)
    first = '<news><w>a</w><t k="1">one</t><x>no</x></news>'
    inner = '<news><w>a</w><t k="3">three</t></news>'
    text = f'<s>{first}<news><w>a</w><t k="2">two</t>{inner}</news><news><w>c</w><t k="4">four</t></news></s>'
    is_word = Comparison(Here(), "=", Constant(word, False))
    top = Step(
        "descendant",
        NodeTest("element", "", "news"),
        (Exists(Step("child", NodeTest("element", "", "w"), (is_word,))),),
    )
    upper = Definition("S", (top,))
    lower = Definition("S", (top, *(Step("child", test) for test in tests)))
    machine = Automaton([WitnessSpec(lower, ("",), ((upper, lower),))])
    trees = []
    monkeypatch.setattr(witness, "parse_stored", lambda text: trees.append(text) or parse_stored(text))
    rows = [row for found in witness_rows(machine, batch_of([("S", text)])) for row in found.to_pylist()]
    assert len(trees) == bool(few), "columns tell the parent of each node"
    pairs = sorted((entry["node1"], entry["node2"]) for row in rows for entry in row["chain"])
    assert pairs == wanted


def test_conditions_that_change() -> None:
    choose = Dice(8)
    texts = [("S", stored(random_document(choose, depth=4))) for _ in range(40)]
    specs = [plain_spec(definition) for definition in Patterns(choose).definitions(60)]
    machine = Automaton(specs[:30])
    assert check(machine, batch_of(texts)) > 100
    for old, new in zip(specs[:30], specs[30:], strict=False):
        machine.remove(old)
        machine.add(new)
    assert check(machine, batch_of(texts)) > 100
    assert rows_of(machine, [batch_of(texts)]) == rows_of(Automaton(specs[30:]), [batch_of(texts)])


def test_sets_that_come_and_go_are_numbered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_sets, "_WORN", 1)
    monkeypatch.setattr(guard_sets, "_FEW", 10)
    numbered: list[int] = []
    number = guard_sets.GuardSets.number
    monkeypatch.setattr(
        guard_sets.GuardSets, "number", lambda *given: numbered.append(number(*given)) or number(*given)
    )
    choose = Dice(9)
    events = batch_of([("S", stored(random_document(choose, depth=4))) for _ in range(20)])
    specs = [plain_spec(definition) for definition in Patterns(choose).definitions(300)]
    machine = Automaton(specs[:20])
    for first in range(0, 280, 20):
        for old, new in zip(specs[first : first + 20], specs[first + 20 : first + 40], strict=True):
            machine.remove(old)
            machine.add(new)
        check(machine, events)
        assert rows_of(machine, [events]) == rows_of(Automaton(specs[first + 20 : first + 40]), [events])
    assert 10 < max(numbered) < 100


@pytest.mark.parametrize(("cells", "sparse"), [(1_000, 1 << 40), (branch_sets._CELLS, branch_sets._SPARSE), (1, 0)])
def test_random_patterns_select_what_lxml_selects(cells: int, sparse: int) -> None:
    """Quick: 500 patterns; thorough: 10,000."""
    choose = Dice(12)
    wanted: dict[Definition, None] = {}
    while len(wanted) < examples(1_000):
        wanted |= dict.fromkeys(Patterns(choose).definitions(250))
    definitions = list(wanted)[: examples(1_000)]
    texts = [stored(random_document(choose, depth=depth)) for depth in (2, 3, 4, 5, 6, 6) * 3]
    texts = [text for text in texts if "<!" not in text and "<?" not in text]
    found = defaultdict(set)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(witness, "parse_stored", None)
        patched.setattr(branch_sets, "_CELLS", cells)
        patched.setattr(branch_sets, "_SPARSE", sparse)
        machine = Automaton(map(plain_spec, definitions))
        for rows in witness_rows(machine, batch_of([("S", text) for text in texts])):
            docids, variables, nodes = (rows.column(name).to_pylist() for name in ("docid", "var", "node"))
            for docid, variable, node in zip(docids, variables, nodes, strict=True):
                found[docid, variable].add(node)
    for place, text in enumerate(texts):
        root = Numbered(parse_xml(text))
        for definition in definitions:
            assert found[place * 7 + 1, definition.key] == root.nodes(definition), f"{definition} in {text}"
    assert len(texts) > 5
    assert 2 * sum(map(len, found.values())) > len(definitions)


def test_many_paths_alone() -> None:
    choose = Dice(2)
    texts = [("S", stored(random_document(choose, depth=choose.count(2, 6)))) for _ in range(60)]
    elements = [element for _, text in texts for element in parse_xml(text).iter(etree.Element)]
    patterns = Patterns(choose)
    machine = Automaton(plain_specs([*patterns.specs(60), *(patterns.spec(walk(choose, elements)) for _ in range(60))]))
    assert check(machine, batch_of(texts)) > 3_000


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("SSTU"), documents() | documents().map(stored)), max_size=5),
    spec_sets(5),
    st.data(),
)
def test_any_batch_cut_anywhere(texts: list[tuple[str, str]], specs: list[WitnessSpec], data: st.DataObject) -> None:
    choose = Choices(data.draw)
    machine = Automaton([*specs, *Patterns(choose, channel="T").specs(2)])
    events = batch_of(texts)
    check(machine, events)
    cuts = sorted({0, len(texts), *(choose.count(0, len(texts)) for _ in range(2))})
    parts = [events.slice(low, high - low) for low, high in zip(cuts, cuts[1:], strict=False)]
    assert rows_of(machine, parts) == one_by_one(machine, events)


def test_a_long_batch() -> None:
    choose = Dice(1)
    texts = [(choose.one("S", "S", "T", "nobody"), random_document(choose, depth=4)) for _ in range(60)]
    texts = [(name, text if choose.chance(50) else stored(text)) for name, text in texts]
    texts += [("F", family_document(choose, 60)) for _ in range(15)]
    texts = choose.random.sample(texts, len(texts))
    elements = [element for _, text in texts[:20] for element in parse_xml(text).iter(etree.Element)]
    patterns = Patterns(choose)
    specs = patterns.specs(40) + [patterns.spec(walk(choose, elements)) for _ in range(30)]
    specs += Patterns(choose, channel="T").specs(30)
    specs += map(plain_spec, family(choose, 60, channel="F"))
    machine = Automaton(dict.fromkeys(specs))
    events = batch_of(texts)
    assert check(machine, events) > 5_000
    whole = rows_of(machine, [events])
    for size in (1, 7, 100):
        assert rows_of(machine, (events.slice(start, size) for start in range(0, len(texts), size))) == whole


def test_nothing_to_do() -> None:
    machine = Automaton([plain_spec(Definition("S", (Step("child", NodeTest("element", "", "a")),)))])
    assert rows_of(machine, [batch_of([])]) == Counter()
    assert rows_of(machine, [batch_of([("T", "<a/>"), ("U", "<a")])]) == Counter()
    assert rows_of(machine, [batch_of([("S", "<b/>")])]) == Counter()


def test_values_as_they_are() -> None:
    machine = Automaton(
        [plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", "a")),)), "", "number")]
    )
    values = ["", "8.0", " 8 ", "-0", "NaN", "\U0001f600", "é", "x" * 70_000, "&#10;", "9007199254740993", "1e3", "."]
    assert check(machine, batch_of([("S", f"<a>{value}</a>") for value in values])) > len(values)
    declared = '<?xml version="1.0" encoding="latin-1"?><a>é</a>'
    assert check(machine, batch_of([("S", declared), ("S", "\ufeff<a>x</a>")])) == 2


def refused(rows: Counter[Row]) -> list[tuple[object, object]]:
    """docid and reason of the rows that say so."""
    by_name = (
        dict(zip((n for n in WITNESS_SCHEMA.names if n != "chain"), row, strict=False)) for row in rows.elements()
    )
    return sorted((row["docid"], row["strval"]) for row in by_name if row["var"] == REFUSED)  # type: ignore[type-var]


@pytest.mark.parametrize("content", ["<a", "", "<a>&unknown;</a>", "x", "<a/><b/>"])
def test_malformed_content_is_refused_alone(content: str) -> None:
    machine = Automaton([plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", "a")),)))])
    sound = [("S", "<a>1</a>"), ("T", "<a>2</a>"), ("S", "<a><a/></a>")]
    events = batch_of([sound[0], ("S", content), *sound[1:], ("S", content), ("T", content)])
    found = rows_of(machine, [events])
    assert [docid for docid, _ in refused(found)] == [8, 29]
    assert all(reason for _, reason in refused(found))
    kept = one_by_one(machine, events.take(pa.array([0, 2, 3])))
    assert found.total() == kept.total() + 2
    assert kept <= found


def test_a_document_over_the_limit_is_refused_to_the_spec_that_exceeds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 100)
    a, b = (Step("descendant", NodeTest("element", "", name)) for name in "ab")
    upper, lower = Definition("S", (a,)), Definition("S", (a, b))
    # The plain spec's rows alone would be far below the limit.
    first = plain_spec(Definition("S", (b,)))
    machine = Automaton([first, WitnessSpec(lower, ("", "lower"), ((upper, lower),))])
    small = "<a><a><b>x</b></a><b>y</b></a>"
    large = "<a>" * 20 + "<b>x</b>" * 20 + "</a>" * 20
    fits = "<a>" * 10 + "<b>x</b>" * 9 + "</a>" * 10
    events = batch_of([("S", small), ("S", large), ("S", fits), ("S", small), ("S", large)])
    found = rows_of(machine, [events])
    refusals = refused(found)
    assert [docid for docid, _ in refusals] == [8, 29]
    assert all("100" in str(reason) for _, reason in refusals)
    kept = one_by_one(machine, events.take(pa.array([0, 2, 3])))
    assert kept <= found
    # The other spec has its rows; those of the refused one say that it is.
    beside = one_by_one(Automaton([first]), events)
    assert beside <= found
    rows = [dict(zip(WITNESS_SCHEMA.names, row, strict=True)) for row in found - kept - beside]
    marked = [row for row in rows if row["var"] == lower.key]
    assert len(rows) == len(refusals) + len(marked) and len(marked) == 2 * 2 * 20
    assert rows_of(machine, (events.slice(place, 1) for place in range(5))) == found


def above(count: int) -> Automaton:
    """Conditioned definitions, all of which ``<a>`` with a large number satisfies."""
    steps = (
        Step("descendant", NodeTest("element", "", "a"), (Comparison(Here(), ">", Constant(str(number), True)),))
        for number in range(count)
    )
    return Automaton([plain_spec(Definition("S", (step,))) for step in steps])


def test_rows_of_conditioned_definitions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_witnesses, "_MANY_ROWS", 100)
    events = batch_of([("S", "<a>1000</a>")] * 20)
    assert [batch.num_rows for batch in witness_rows(above(50), events)] == [100] * 10


def test_long_values_fill_a_batch_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_witnesses, "_MANY_CHARACTERS", 1_000)
    events = batch_of([("S", f"<a>{'0' * 96}1000</a>")] * 6)
    assert [batch.num_rows for batch in witness_rows(above(5), events)] == [10, 10, 10]
    plain = Automaton([plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", "a")),)))])
    assert [batch.num_rows for batch in witness_rows(plain, batch_of([("S", f"<a>{'x' * 500}</a>")] * 6))] == [2, 2, 2]


def test_specs_that_ask_too_much_together_are_refused_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in values nor in rows: limits are those of one spec."""
    events = batch_of([("S", f"<r>{f'<a>{10 * chr(48)}1000</a>' * 20}</r>")])
    expected = rows_of(above(5), [events])
    monkeypatch.setattr(chains, "MAX_VALUE_CHARACTERS", 14 * 20)
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    assert rows_of(above(5), [events]) == expected and expected.total() == 100


@pytest.mark.parametrize("limit", ["MAX_VALUE_CHARACTERS", "MAX_CHAIN_ENTRIES"])
def test_a_spec_that_asks_too_much_is_found_among_many(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    text = f"<r>{'<a>1000</a>' * 20}<b>1</b></r>"
    b = plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", "b")),)))
    every = plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", None), GUARDED[:1]),)))
    others = [plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", f"c{n}")),))) for n in range(30)]
    monkeypatch.setattr(chains, limit, 20 if limit == "MAX_CHAIN_ENTRIES" else 100)
    machine = Automaton([*others, b])
    alone = [rows_of(Automaton([b]), [batch_of([("S", text)])])] * 3
    assert [rows_of(machine, [batch_of([("S", text)])]) for _ in range(3)] == alone
    machine.add(every)
    walked = []
    before = Automaton.start
    for _ in range(3):
        starts: list[Automaton] = []

        def counted(self: Automaton, channel: str, starts: list[Automaton] = starts) -> object:
            starts.append(self)
            return before(self, channel)

        with monkeypatch.context() as patched:
            patched.setattr(Automaton, "start", counted)
            found = rows_of(machine, [batch_of([("S", text)])])
        walked.append(len(starts))
        assert [reason for _, reason in refused(found)] and alone[0] <= found
    # It is looked for once; then it is walked for by itself, its marks, and the others together.
    assert walked[0] > 6 and max(walked[1:]) <= 4
    machine.remove(every)
    assert rows_of(machine, [batch_of([("S", text)])]) == alone[0]


def test_an_event_without_content_is_refused_alone() -> None:
    events = batch_of([("S", "<a>1000</a>"), ("S", ""), ("S", "<a>1000</a>")])
    content = pa.array(["<a>1000</a>", None, "<a>1000</a>"])
    events = events.set_column(events.schema.names.index("content"), "content", content)
    (rows,) = witness_rows(above(5), events)
    assert Counter(rows.column("docid").to_pylist()) == {1: 5, 8: 1, 15: 5}


A = NodeTest("element", "", "a")
GUARDED = tuple(Comparison(Here(), "!=", Constant(value, is_number=False)) for value in ("", "x", "y"))


@pytest.mark.parametrize("guards", [(), GUARDED])
def test_nested_values_over_the_limit_are_refused_alone(
    monkeypatch: pytest.MonkeyPatch, guards: tuple[Condition, ...]
) -> None:
    """Each of the nested elements repeats the text."""
    monkeypatch.setattr(chains, "MAX_VALUE_CHARACTERS", 1_000)
    machine = Automaton([plain_spec(Definition("S", (Step("descendant", A, guards),)))])
    small = f"<a>{'z' * 1_000}</a>"
    large = "<a>" * 30 + "z" * 40 + "</a>" * 30
    fits = "<a>" * 20 + "z" * 40 + "</a>" * 20
    events = batch_of([("S", text) for text in (small, large, fits, small, large)])
    found = rows_of(machine, [events])
    refusals = refused(found)
    assert [docid for docid, _ in refusals] == [8, 29]
    assert all("1,000 characters" in str(reason) for _, reason in refusals)
    assert found - one_by_one(machine, events.take(pa.array([0, 2, 3]))) == Counter(
        row for row in found if row[WITNESS_SCHEMA.names.index("var")] == REFUSED
    ), "whose values are too long has no marks either"
    assert rows_of(machine, (events.slice(place, 1) for place in range(5))) == found


def test_values_count_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_VALUE_CHARACTERS", 1_000)
    for guards in ((), GUARDED):
        step = Step("descendant", A, guards)
        machine = Automaton([plain_spec(Definition("S", (step,)), "", "lower", "normalize-space")])
        assert len(match_document(machine, "S", parse_xml(f"<r><a>{'z' * 333}</a></r>"))) == 3
        with pytest.raises(DocumentLimitError, match="characters"):
            match_document(machine, "S", parse_xml(f"<r><a>{'z' * 334}</a></r>"))
        # Rows without a value have none.
        machine = Automaton([plain_spec(Definition("S", (step,)), None)])
        assert len(match_document(machine, "S", parse_xml(f"<r><a>{'z' * 5_000}</a></r>"))) == 1


def test_guarded_bindings_over_the_limit_are_refused_while_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 100)
    unequal = (Comparison(Here(), "!=", Constant(str(number), is_number=True)) for number in range(30))
    machine = Automaton(plain_spec(Definition("S", (Step("descendant", A, (each,)),))) for each in unequal)
    assert len(match_document(machine, "S", parse_xml(f"<r>{'<a>x</a>' * 3}</r>"))) == 90
    with pytest.raises(DocumentLimitError, match="100 pairs"):
        match_document(machine, "S", parse_xml(f"<r>{'<a>x</a>' * 4}</r>"))


@pytest.mark.parametrize("limit", ["_MANY_ROWS", "_MANY_ENTRIES", "_MANY_CHARACTERS"])
@pytest.mark.parametrize("guards", [(), GUARDED])
def test_large_results_are_cut_between_documents(
    monkeypatch: pytest.MonkeyPatch, limit: str, guards: tuple[Condition, ...]
) -> None:
    machine = Automaton([plain_spec(Definition("S", (Step("descendant", A, guards),)), "", "lower")])
    events = batch_of([("S", f"<a><a>z{place}</a></a>") for place in range(12)])
    (whole,) = witness_rows(machine, events)
    monkeypatch.setattr(document_witnesses, limit, 8)
    parts = list(witness_rows(machine, events))
    assert {part.num_rows for part in parts[:-1]} == {8} if limit != "_MANY_CHARACTERS" else len(parts) > 5
    assert rows_of(machine, [events]) == Counter(map(comparable, whole.to_pylist()))


def test_the_automaton_may_change_between_batches() -> None:
    choose = Dice(3)
    texts = [("S", random_document(choose, depth=4)) for _ in range(10)]
    specs = Patterns(choose).specs(40)
    machine = Automaton(specs[:20])
    events = batch_of(texts)
    check(machine, events)
    for old, new in zip(specs[:10], specs[20:], strict=False):
        machine.remove(old)
        machine.add(new)
        check(machine, events)
    assert rows_of(machine, [events]) == rows_of(Automaton([*specs[10:20], *specs[20:30]]), [events])
