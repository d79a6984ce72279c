"""The queries of Juggler in XSCL.

That is A. Silva, *Multiple Continuous Query Processing with Relative Window Predicates*, 2004.  Q1 to Q3 are its
running example (Figure 3.3), and the overlap workloads are those of its experiments; the rows are ours, documents of
two levels.  One tick of the thesis is one second.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations, permutations, product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from both_sides import Side, channel_facts, ids, side
from juggler_data import G3_STATE, TICKS
from local_engine import UnitsEngine, compiled
from oracle.evaluate import Doc

import xscl
from xscl.base.errors import QueryError
from xscl.catalog.tables import LATE
from xscl.language.compiled import CompiledQuery

if TYPE_CHECKING:
    from xscl.engine import Engine

S = 1_000_000
EVERY_SIDE = pytest.mark.parametrize("name", ["oracle", "engine", "driver"])


# -- where the engine keeps what these tests look at ----------------------------------------------------------


def cases(query: CompiledQuery) -> list[dict[tuple[int, int], tuple[int, int]]]:
    """The tightened bounds of each case: blocks (i, j), i < j, to (lo, hi) of ts_j - ts_i in microseconds."""
    pairs = list(combinations(range(len(query.channels)), 2))
    return [dict(zip(pairs, ((b.lo, b.hi) for b in case), strict=True)) for case in query.normal.cases]


def template(query: CompiledQuery) -> str:
    return query.template.id


def group(query: CompiledQuery) -> object:
    """Equal for queries that differ in nothing but their names."""
    return query.group.key


# -- rows -----------------------------------------------------------------------------------------------------


def rows(channel: str, columns: str, *found: tuple[float | str, ...]) -> list[Doc]:
    """Rows (ts, values…) with the letter of their channel and their number as ids."""
    docs = []
    for number, (ts, *values) in enumerate(found, start=1):
        inner = "".join(f"<{n}>{v}</{n}>" for n, v in zip(columns.split(), values, strict=True))
        docs.append(Doc(channel, f"{channel.lower()}{number}", int(ts) * S, f"<{channel}>{inner}</{channel}>"))
    return docs


ICU_2 = [
    *rows("B", "pressure temp", (2, 120, 101), (5, 110, 99), (5, 150, 90), (7, 103, 101), (9, 200, 101)),
    *rows("T", "fluct degree incr", (4, 51.5, 100, 97), (6, 103, 101, 98), (8, 103, 99, 90), (11, 103, 101, 98)),
    *rows("H", "beatrate vib", (3, 52, 98), (5, 50, 98), (6, 60, 98), (8, 52, 90), (11, 70, 95)),
    *rows("K", "fluid", (3, 100), (6, 150), (10, 75)),
]
ICU_NUMERIC = {
    "B": frozenset({"pressure", "temp"}),
    "T": frozenset({"fluct", "degree", "incr"}),
    "H": frozenset({"beatrate", "vib"}),
    "K": frozenset({"fluid"}),
}
ICU_FACTS = channel_facts(ICU_NUMERIC, {})

# T.ts > B.ts is written as "1 s or more", so that bounds come out in whole seconds as in the digest.
Q1 = (
    "B->b[./pressure->p][./temp->e] JOIN {e > v, MAXWINDOW 4 s} H[./beatrate = 52][./vib->v] JOIN {} K "
    "JOIN {p > f, t - b IN [1 s, UNBOUNDED]} T->t[./fluct->f]"
)
Q2 = (
    "B->b[./pressure->p] JOIN {f < 0.5 * p AND f * 2 = 103, MAXWINDOW 6 s, b - t IN [1 s, UNBOUNDED]} T->t[./fluct->f] "
    "JOIN {h - b IN [0 s, UNBOUNDED]} H->h"
)
Q2B = (
    "B->b[./pressure->p][./temp->e] JOIN {f < 0.5 * p AND f * 2 = 103, MAXWINDOW 6 s, b - t IN [1 s, UNBOUNDED]} "
    "T->t[./fluct->f] JOIN {e > v, h - b IN [0 s, UNBOUNDED]} H->h[./vib->v]"
)
Q3 = "T->t[./fluct = 103][./incr->i] JOIN {i = v, MAXWINDOW 5 s, t - h IN [1 s, UNBOUNDED]} H->h[./vib->v]"
FIGURE_5_8 = (
    "B->b[./pressure->p < 90][./temp->e] JOIN {p <= v, MAXWINDOW 20 s, h - b IN [0 s, UNBOUNDED]} "
    "H->h[./beatrate > 115][./vib->v] "
    "JOIN {f < 200 AND e <= d AND v <= f, t - b IN [0 s, UNBOUNDED], t - h IN [0 s, UNBOUNDED]} "
    "T->t[./fluct->f][./degree->d]"
)


def icu(name: str, folder: Path) -> Side:
    return side(name, folder, ICU_NUMERIC)


def members(found: Iterable[str]) -> set[tuple[str, ...]]:
    """``b1h1k1t1`` as ids."""
    return {tuple(re.findall(r"[a-z]\d+", text)) for text in found}


# -- G2, G3: one run, and its batches ---------------------------------------------------------------------------

Q1_ANSWER = members(
    ["b1h1k1t1", "b1h1k1t2", "b1h1k2t1", "b1h1k2t2", "b2h1k1t2", "b2h1k2t2", "b2h4k2t2", "b2h4k2t3", "b5h4k3t4"]
)
Q2_ANSWER = {(b, "t1", h) for b in ("b2", "b3") for h in ("h2", "h3", "h4")}
Q2B_ANSWER = {("b2", "t1", h) for h in ("h2", "h3", "h4")}
Q3_ANSWER = {("t2", "h1"), ("t2", "h2"), ("t4", "h3")}


@EVERY_SIDE
def test_g2_three_queries_with_boundary_cases(name: str, tmp_path: Path) -> None:
    queries = {"Q1": Q1, "Q2": Q2, "Q2b": Q2B, "Q3": Q3}
    (found,) = icu(name, tmp_path).ask(queries, [ICU_2])
    assert ids(found["Q1"]) == Q1_ANSWER
    assert ids(found["Q2"]) == Q2_ANSWER, "103 > 2 * 51.5 is false, so b4 is out"
    assert ids(found["Q2b"]) == Q2B_ANSWER
    assert ids(found["Q3"]) == Q3_ANSWER, "a spread of exactly 5 s is in"


@EVERY_SIDE
@pytest.mark.parametrize(("window", "counts"), [(6, (26, 6, 4)), (100, (48, 9, 5))])
def test_g2_traps_of_a_wider_window(name: str, window: int, counts: tuple[int, ...], tmp_path: Path) -> None:
    wider = {text: re.sub(r"MAXWINDOW \d+", f"MAXWINDOW {window}", text) for text in (Q1, Q2, Q3)}
    own = {f"own {text}": text for text in (Q1, Q2, Q3)}
    (found,) = icu(name, tmp_path).ask(wider | own, [ICU_2])
    assert tuple(len(found[text]) for text in wider) == counts
    assert [len(found[text]) for text in own] == [9, 6, 3], "whatever windows the queries beside them have"


def g3_batches() -> list[list[Doc]]:
    """Five batches, in each of which events come in the order of their times."""
    spans = ((0, 3), (4, 5), (6, 7), (8, 9), (10, 11))
    return [sorted((doc for doc in ICU_2 if low <= doc.ts // S <= high), key=lambda doc: doc.ts) for low, high in spans]


@EVERY_SIDE
def test_g3_micro_batches(name: str, tmp_path: Path) -> None:
    after = icu(name, tmp_path).ask({"Q1": Q1, "Q2": Q2, "Q3": Q3}, g3_batches())
    totals = [{query: len(found) for query, found in answers.items()} for answers in after]
    fresh = [
        tuple(now[query] - before[query] for query in ("Q1", "Q2", "Q3"))
        for before, now in zip([{"Q1": 0, "Q2": 0, "Q3": 0}, *totals], totals, strict=False)
    ]
    assert fresh == [(0, 0, 0), (1, 2, 0), (5, 2, 2), (2, 2, 0), (1, 0, 1)]
    assert ids(after[-1]["Q1"]) == Q1_ANSWER


@EVERY_SIDE
def test_g4_a_tuple_that_comes_after_others(name: str, tmp_path: Path) -> None:
    """Without a limit nothing is late, so that the order of arrival changes no answer."""
    t1 = [doc for doc in ICU_2 if doc.id == "t1"]
    early = [doc for doc in ICU_2 if doc.ts <= 7 * S and doc not in t1]
    *_, found = icu(name, tmp_path).ask(
        {"Q1": Q1, "Q2": Q2, "Q3": Q3}, [early, t1, [doc for doc in ICU_2 if doc.ts > 7 * S]]
    )
    assert [ids(found[query]) for query in ("Q1", "Q2", "Q3")] == [Q1_ANSWER, Q2_ANSWER, Q3_ANSWER]


def test_g3_state_after_each_batch(tmp_path: Path) -> None:
    queries = {name: compiled(text, ICU_FACTS) for name, text in (("Q1", Q1), ("Q2", Q2), ("Q3", Q3))}
    engine = UnitsEngine(tmp_path, queries, lateness=dict.fromkeys("BTHK", 0))
    for expected, batch in zip(G3_STATE, g3_batches(), strict=True):
        engine.run(batch)
        assert sorted(engine.documents_held()) == sorted(expected.split())
    for name, answer in (("Q1", Q1_ANSWER), ("Q2", Q2_ANSWER), ("Q3", Q3_ANSWER)):
        assert ids(engine.answers(name)) == answer


@pytest.mark.parametrize(
    ("lateness", "late", "counts"), [(3, [], (9, 6, 3)), (2, ["t1"], (7, 0, 3))], ids=["3 s", "2 s"]
)
def test_g4_a_late_tuple(lateness: int, late: list[str], counts: tuple[int, ...], tmp_path: Path) -> None:
    """t1 comes alone between the third and the fourth batch; what it may still join is held."""
    queries = {name: compiled(text, ICU_FACTS) for name, text in (("Q1", Q1), ("Q2", Q2), ("Q3", Q3))}
    engine = UnitsEngine(tmp_path, queries, lateness=dict.fromkeys("BTHK", lateness * S))
    t1 = [doc for doc in ICU_2 if doc.id == "t1"]
    batches = [[doc for doc in batch if doc.id != "t1"] for batch in g3_batches()]
    clock = -1
    found = []
    for batch in [*batches[:3], t1, *batches[3:]]:
        judged = []
        for doc in batch:
            judged.append(replace(doc, late=doc.ts < clock - lateness * S))
            clock = max(clock, doc.ts)
        engine.run(judged)
        found += [doc.id for doc in judged if doc.late]
    assert found == late
    assert tuple(len(engine.answers(name)) for name in queries) == counts


@pytest.mark.parametrize(
    ("lateness", "late", "counts"), [(3, [], (9, 6, 3)), (2, ["t1"], (7, 0, 3))], ids=["3 s", "2 s"]
)
def test_g4_in_a_home(lateness: int, late: list[str], counts: tuple[int, ...], tmp_path: Path) -> None:
    """The digest judges by the watermark that the batch before has left, we by the clock at the event's own place; here
    both say the same, because t1 comes alone.
    """
    t1 = [doc for doc in ICU_2 if doc.id == "t1"]
    batches = [[doc for doc in batch if doc.id != "t1"] for batch in g3_batches()]
    with xscl.connect(home=tmp_path / "home") as engine:
        for channel in "BTHK":
            engine.add_channel(channel, kind="rows", lateness=f"{lateness} s", clock="icu")
        for name, text in (("Q1", Q1), ("Q2", Q2), ("Q3", Q3)):
            engine.register(text, name=name)
        left = -1
        by_batch: list[str] = []
        by_place: list[str] = []
        for batch in [*batches[:3], t1, *batches[3:]]:
            by_batch += [doc.id for doc in batch if doc.ts < left - lateness * S]
            left = max(left, *(doc.ts for doc in batch))
            found = engine.ingest([xscl.Event(doc.channel, doc.id, doc.ts / S, row=_row(doc)) for doc in batch])
            by_place += [doc.id for doc in batch] if found.late else []
            engine.run_once()
        assert by_batch == by_place == late
        assert tuple(len(list(engine.matches(name))) for name in ("Q1", "Q2", "Q3")) == counts
        late_rows = engine.home.catalog.rows(LATE)
        assert [(row["channel"], row["id"], row["ts"]) for row in late_rows] == [("T", id_, 4 * S) for id_ in late]


def _row(doc: Doc) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"<(\w+)>([\d.]+)</", doc.xml)}


# -- G5: relative windows of two streams ------------------------------------------------------------------------

G5_DOCS = [
    *(Doc("T", f"t{number}", ts * S, "<T/>") for number, ts in enumerate((10, 13), start=1)),
    *(Doc("H", f"{ts}", ts * S, "<H/>") for ts in (9, 10, 11, 14, 15, 17)),
]
RA = "(t1,11)(t1,14)(t2,14)(t2,15)(t2,17)"
G5 = {
    "Ra": ("T FOLLOWED BY {4 s} H", (1, 4 * S), RA),
    "Rb": ("T FOLLOWED BY {0 s..4 s} H", (0, 4 * S), RA + "(t1,10)"),
    "Rc": ("T FOLLOWED BY {4 s..4 s} H", (4 * S, 4 * S), "(t1,14)(t2,17)"),
    "Rd": ("T->t JOIN {h - t IN [-4 s, -1 s]} H->h", (-4 * S, -S), "(t1,9)(t2,9)(t2,10)(t2,11)"),
    "Re": ("T JOIN {1 s} H", (-S, S), "(t1,9)(t1,10)(t1,11)(t2,14)"),
    "Rf": ("T->t JOIN {h - t IN [2 s, 5 s)} H->h", (2 * S, 5 * S - 1), "(t1,14)(t2,15)(t2,17)"),
}
RA_SPELLINGS = {
    "following": "T FOLLOWED BY {4 s} H",
    "juggler": "T->t JOIN {h - t IN (0 s, UNBOUNDED), h - t IN (-UNBOUNDED, 4 s]} H->h",
    "band": "T->t JOIN {h - t IN [1 us, 4 s]} H->h",
    "mirrored": "T->t JOIN {t - h IN [-4 s, 0 s)} H->h",
    "range": "T FOLLOWED BY {1 us..4 s} H",
}


def pairs(text: str) -> set[tuple[str, ...]]:
    return set(re.findall(r"\((\w+),(\w+)\)", text))


@EVERY_SIDE
def test_g5_relative_windows(name: str, tmp_path: Path) -> None:
    (found,) = side(name, tmp_path).ask({key: text for key, (text, _, _) in G5.items()} | RA_SPELLINGS, [G5_DOCS])
    assert {key: ids(found[key]) for key in G5} == {key: pairs(result) for key, (_, _, result) in G5.items()}
    assert {key: ids(found[key]) for key in RA_SPELLINGS} == dict.fromkeys(RA_SPELLINGS, pairs(RA))


def test_g5_one_template_and_six_rows() -> None:
    queries = {key: compiled(text) for key, (text, _, _) in G5.items()}
    assert {key: cases(query) for key, query in queries.items()} == {
        key: [{(0, 1): bounds}] for key, (_, bounds, _) in G5.items()
    }
    assert len({template(query) for query in queries.values()}) == 1
    assert len({group(query) for query in queries.values()}) == 6


def test_g5_spellings_are_one_group() -> None:
    queries = [compiled(text) for text in RA_SPELLINGS.values()]
    assert [cases(query) for query in queries] == [[{(0, 1): (1, 4 * S)}]] * len(queries)
    assert len({group(query) for query in queries}) == 1


# -- G6, G13: ticks ---------------------------------------------------------------------------------------------

TICKS_NUMERIC = {"ticks": frozenset({"price"})}
TICKS_TEXTS = {"ticks": frozenset({"sym"})}
TICKS_FACTS = channel_facts(TICKS_NUMERIC, TICKS_TEXTS)
A = "ticks->a[./sym = 'IBM'][./price->p]"
B = "ticks->b[./sym = 'MSFT']"
C = "ticks->c[./sym = 'IBM'][./price->q]"
S1 = f"{A} JOIN {{b - a IN [1 s, 5 s]}} {B} JOIN {{q >= 1.02 * p, c - b IN [0 s, 3 s], c - a IN [-UNBOUNDED, 6 s]}} {C}"
S1_FOLLOWING = f"{A} FOLLOWED BY {{1 s..5 s}} {B} FOLLOWED BY {{q >= 1.02 * p, 0 s..3 s, MAXWINDOW 6 s}} {C}"
S2 = f"{A} FOLLOWED BY {{1 s..5 s}} {B} JOIN {{1.02 * p <= q, c - b IN [0 s, UNBOUNDED], c - a IN [0 s, 2 s]}} {C}"
S3 = f"{A} JOIN {{b - a IN [1 s, 5 s]}} {B} JOIN {{q >= 1.02 * p, c - b IN [1 s, 5 s], a - c IN [1 s, 5 s]}} {C}"
S4 = f"{A} JOIN {{2 s}} {B} JOIN {{q >= 1.02 * p, c - a IN [1 s, 4 s], c - b IN [1 s, 4 s]}} {C}"


def ticks(name: str, folder: Path) -> Side:
    return side(name, folder, TICKS_NUMERIC, TICKS_TEXTS)


def triples(*found: tuple[int, ...]) -> set[tuple[str, ...]]:
    return {tuple(map(str, one)) for one in found}


@EVERY_SIDE
def test_g6_three_way_windows_with_a_linear_condition(name: str, tmp_path: Path) -> None:
    queries = {"S1": S1, "S1 following": S1_FOLLOWING, "S2": S2, "S4": S4}
    (found,) = ticks(name, tmp_path).ask(queries, [TICKS])
    assert ids(found["S1"]) == ids(found["S1 following"]) == triples((1, 2, 3), (1, 4, 6), (7, 9, 10))
    assert ids(found["S2"]) == triples((1, 2, 3))
    known = [(int(doc.id), *re.findall(r">(\w+)<", doc.xml)) for doc in TICKS]
    by_hand = {
        (str(a), str(b), str(c))
        for (a, s1, p), (b, s2, _), (c, s3, q) in product(known, repeat=3)
        if (s1, s2, s3) == ("IBM", "MSFT", "IBM")
        and abs(b - a) <= 2
        and 1 <= c - a <= 4
        and 1 <= c - b <= 4
        and 100 * int(q) >= 102 * int(p)
    }
    assert ids(found["S4"]) == by_hand == triples((1, 2, 3), (7, 9, 10), (10, 9, 13))


def seconds(found: list[dict[tuple[int, int], tuple[int, int]]]) -> list[dict[tuple[int, int], tuple[float, float]]]:
    return [{pair: (lo / S, hi / S) for pair, (lo, hi) in case.items()} for case in found]


def test_g6_tightened_windows() -> None:
    tightened = {name: seconds(cases(compiled(text, TICKS_FACTS))) for name, text in (("S1", S1), ("S4", S4))}
    assert tightened == {
        "S1": [{(0, 1): (1, 5), (0, 2): (1, 6), (1, 2): (0, 3)}],
        "S4": [{(0, 1): (-2, 2), (0, 2): (1, 4), (1, 2): (1, 4)}],
    }
    assert seconds(cases(compiled(S2, TICKS_FACTS))) == [{(0, 1): (1, 2), (0, 2): (1, 2), (1, 2): (0, 1)}]
    assert group(compiled(S1, TICKS_FACTS)) == group(compiled(S1_FOLLOWING, TICKS_FACTS))
    assert len({template(compiled(text, TICKS_FACTS)) for text in (S1, S2, S4)}) == 1


def test_g6_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(QueryError) as refused:
        compiled(S3, TICKS_FACTS)
    assert refused.value.condition == "XSCL_UNSATISFIABLE_WINDOW"
    assert re.search(r"\ba\W+b\W+c\W+a\b|\bb\W+c\W+a\W+b\b|\bc\W+a\W+b\W+c\b", str(refused.value)), refused.value


NEWS = Doc("news", "item", 5 * S, "<item><symbol>IBM</symbol></item>")
G13 = (
    "ticks[./sym->s][./price->p] FOLLOWED BY {s = i, 1 s..5 s} news/item[./symbol->i] "
    "FOLLOWED BY {i = s' AND q >= 1.02 * p, 1 s..5 s} ticks[./sym->s'][./price->q]"
)


@EVERY_SIDE
def test_g13_a_document_between_ticks(name: str, tmp_path: Path) -> None:
    batches = [TICKS[:3], [*TICKS[3:5], NEWS], TICKS[5:]]
    after = ticks(name, tmp_path).ask({"Q": G13}, batches)
    expected = {("1", "item", "6"), ("1", "item", "10"), ("3", "item", "10")}
    assert [ids(answers["Q"]) for answers in after] == [set(), {("1", "item", "6")}, expected]


# -- G7: tightened windows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        (Q1, "BHKT", {"T-B": (1, 4), "H-B": (-3, 4), "K-B": (-3, 4), "T-H": (-3, 4), "T-K": (-3, 4), "K-H": (-4, 4)}),
        (Q2, "BTH", {"B-T": (1, 6), "H-T": (1, 6), "H-B": (0, 5)}),
        (Q3, "TH", {"T-H": (1, 5)}),
        (FIGURE_5_8, "BHT", {"H-B": (0, 20), "T-B": (0, 20), "T-H": (0, 20)}),
    ],
    ids=["Q1", "Q2", "Q3", "figure 5.8"],
)
def test_g7_tightened_windows(text: str, order: str, expected: Mapping[str, tuple[int, int]]) -> None:
    (found,) = seconds(cases(compiled(text, ICU_FACTS)))
    named: dict[str, tuple[float, float]] = {}
    for (i, j), (lo, hi) in found.items():
        named[f"{order[j]}-{order[i]}"] = (lo, hi)
        named[f"{order[i]}-{order[j]}"] = (-hi, -lo)
    assert {pair: named[pair] for pair in expected} == expected


# -- G8: one query, many plans ------------------------------------------------------------------------------------

ICU_BLOCKS = {
    "B": "B->b[./pressure->p][./temp->e]",
    "H": "H->h[./beatrate = 52][./vib->v]",
    "K": "K->k",
    "T": "T->t[./fluct->f]",
}
Q1_ATOMS = {"BH": "e > v", "BT": "p > f"}
Q1_WINDOWS = {"BT": "t - b IN [1 s, UNBOUNDED]"}
TIGHTENED = {
    "BT": "t - b IN [1 s, 4 s]",
    "BH": "h - b IN [-3 s, 4 s]",
    "BK": "k - b IN [-3 s, 4 s]",
    "HT": "t - h IN [-3 s, 4 s]",
    "KT": "t - k IN [-3 s, 4 s]",
    "HK": "k - h IN [-4 s, 4 s]",
}
"""What Q1's windows come to for each two of its streams (G7)."""
SIZES = {1: {"B": 5, "H": 2, "K": 3, "T": 4}, 2: {"BH": 5, "BK": 10, "BT": 7, "HK": 4, "HT": 5, "KT": 7}}
SIZES |= {3: {"BHK": 9, "BHT": 6, "BKT": 11, "HKT": 8}, 4: {"BHKT": 9}}
PLANS = {"BH_TK": 12, "BK_TH": 15, "TB_HK": 11, "BHT_K": 6, "BKT_H": 11, "BHK_T": 9, "BHKT": 0}
"""Plans of Q1 to the rows that the last join is fed with; letters beside each other are joined first."""


def joined(left: str, right: str, left_text: str, right_text: str, windows: Mapping[str, str], last: str = "") -> str:
    """A join of two sets of streams by what Q1 asks between them."""
    between = ["".join(sorted(x + y)) for x, y in product(left, right)]
    atoms = [Q1_ATOMS[pair] for pair in between if pair in Q1_ATOMS]
    times = [windows[pair] for pair in between if pair in windows]
    inner = ", ".join(filter(None, [" AND ".join(atoms), *times, last]))
    return f"{left_text} JOIN {{{inner}}} {right_text}"


def chain(streams: str, windows: Mapping[str, str], last: str = "") -> str:
    """The streams of Q1 joined one after another."""
    text = ICU_BLOCKS[streams[0]]
    for number, stream in enumerate(streams[1:], start=1):
        text = joined(streams[:number], stream, text, ICU_BLOCKS[stream], windows, last)
    return text


def plan(key: str) -> str:
    """Q1 as a plan."""
    left, _, right = key.partition("_")
    window = "MAXWINDOW 4 s"
    if not right:
        return chain(left, Q1_WINDOWS, window)
    sides = [f"({chain(side_, Q1_WINDOWS, window)})" if len(side_) > 1 else chain(side_, {}) for side_ in (left, right)]
    return joined(left, right, sides[0], sides[1], Q1_WINDOWS, window)


@EVERY_SIDE
def test_g8_every_plan_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    orders = {"".join(order): plan("".join(order)) for order in permutations("BHKT")}
    (found,) = icu(name, tmp_path).ask({"Q1": Q1, **orders, **{key: plan(key) for key in PLANS}}, [ICU_2])
    expected = {frozenset(row) for row in Q1_ANSWER}
    assert len(expected) == 9
    for key, answer in found.items():
        assert {frozenset(row) for row in ids(answer)} == expected, key
        assert len(answer) == 9, key


@EVERY_SIDE
def test_g8_rows_of_every_part_of_the_query(name: str, tmp_path: Path) -> None:
    sizes = {streams: size for of_length in SIZES.values() for streams, size in of_length.items()}
    (found,) = icu(name, tmp_path).ask({streams: chain(streams, TIGHTENED) for streams in sizes}, [ICU_2])
    counts = {streams: len(answer) for streams, answer in found.items()}
    assert counts == sizes
    parts = {key: [side_ for side_ in key.split("_") if 1 < len(side_) < 4] for key in PLANS}
    assert {key: sum(counts["".join(sorted(side_))] for side_ in of_plan) for key, of_plan in parts.items()} == PLANS


# -- G9: the overlap workloads ------------------------------------------------------------------------------------

OVERLAP = {
    "25 %": """
B.ts>H.ts | B.pressure<90, B.pressure>H.vib
B.ts<=H.ts | B.pressure<115, H.beatrate>115, B.pressure<=H.vib*2, B.pressure<H.beatrate
B.ts<=H.ts | B.pressure<116, H.beatrate>=115, H.vib>80, B.pressure<=H.vib*3, B.pressure>H.beatrate, B.temp>H.beatrate
B.ts>H.ts | B.pressure<117, H.beatrate<115, H.vib<80, B.temp>90, B.pressure<=H.vib*4, B.pressure=H.beatrate, \
B.temp>=H.beatrate, B.temp>H.vib
B.ts>=H.ts | B.pressure<118, H.beatrate=115, H.vib=100, B.temp=98, B.pressure>H.vib, B.pressure>=H.beatrate, \
B.temp<H.beatrate, B.temp>=H.vib
""",
    "50 %": """
B.ts>=H.ts | B.pressure<110, B.pressure<=H.vib
B.ts>=H.ts | B.pressure>113, H.beatrate>110, B.pressure>=H.vib, B.pressure>H.beatrate
B.ts>=H.ts | B.pressure>115, H.beatrate>=110, H.vib>80, B.pressure>=H.vib*2, B.pressure<H.beatrate, B.temp>H.beatrate
B.ts>=H.ts | B.pressure>117, H.beatrate<110, H.vib<80, B.temp>90, B.pressure>=H.vib*3, B.pressure=H.beatrate, \
B.temp>=H.beatrate, B.temp>=H.vib
B.ts>=H.ts | B.pressure>120, H.beatrate=115, H.vib=100, B.temp=98, B.pressure>=H.vib*4, B.pressure>=H.beatrate, \
B.temp<H.beatrate, B.temp<=H.vib
""",
    "75 %": """
B.ts<=H.ts | B.pressure<110, B.pressure<=H.vib
B.ts<=H.ts | B.pressure<113, H.beatrate>115, B.pressure<=H.vib, B.temp>H.beatrate
B.ts<=H.ts | B.pressure<115, H.beatrate>117, H.vib>80, B.pressure<=H.vib*2, B.temp>H.beatrate*2, B.pressure<H.beatrate
B.ts<=H.ts | B.pressure<117, H.beatrate>120, H.vib<80, B.temp>90, B.pressure<=H.vib*3, B.temp>H.beatrate*3, \
B.pressure=H.beatrate, B.temp>=H.vib
B.ts<=H.ts | B.pressure<120, H.beatrate>125, H.vib=100, B.temp=98, B.pressure<=H.vib*4, B.temp>H.beatrate*4, \
B.pressure>=H.beatrate, B.temp=H.vib
""",
}
TIMES = {
    "B.ts>H.ts": "(0 s, UNBOUNDED)",
    "B.ts>=H.ts": "[0 s, UNBOUNDED)",
    "B.ts<=H.ts": "(-UNBOUNDED, 0 s]",
}


def overlap_query(line: str) -> str:
    """A line of the digest's table as XSCL: conditions on one column in brackets, on two as atoms."""
    window, _, where = line.partition(" | ")
    brackets: dict[str, list[str]] = {"B": [], "H": []}
    atoms = []
    bound: dict[str, None] = {}
    for conjunct in where.split(", "):
        columns = re.findall(r"[BH]\.([a-z]+)", conjunct)
        if len(columns) == 1:
            brackets[conjunct[0]].append(f"[./{conjunct[2:]}]")
        else:
            bound |= dict.fromkeys(re.findall(r"[BH]\.[a-z]+", conjunct))
            atoms.append(re.sub(r"[BH]\.([a-z]+)", r"\1", conjunct).replace("*", " * "))
    for column in bound:
        brackets[column[0]].append(f"[./{column[2:]}->{column[2:]}]")
    blocks = {name: f"{name}->{name.lower()}{''.join(found)}" for name, found in brackets.items()}
    return f"{blocks['B']} JOIN {{{' AND '.join(atoms)}, MAXWINDOW 20 s, b - h IN {TIMES[window]}}} {blocks['H']}"


def test_g9_overlap_workloads_have_six_templates() -> None:
    found = {
        name: [template(compiled(overlap_query(line), ICU_FACTS)) for line in lines.strip().split("\n")]
        for name, lines in OVERLAP.items()
    }
    assert {name: (len(ids), len(set(ids))) for name, ids in found.items()} == {
        "25 %": (5, 5),
        "50 %": (5, 5),
        "75 %": (5, 4),
    }
    assert len({one for of_workload in found.values() for one in of_workload}) == 6


@EVERY_SIDE
def test_g9_overlap_queries_answer_on_a_few_rows(name: str, tmp_path: Path) -> None:
    """Rows by the formula of G10, only fewer; the answers are worked out by Python's own arithmetic."""
    b = [(i, [80, 89, 100, 105, 110, 112, 114, 116, 119, 150, 165, 240, 400, 450][5 * i % 14]) for i in range(24)]
    b_rows = [(ts, pressure, [80, 98, 101, 111, 116, 120, 125, 260, 400][2 * ts % 9]) for ts, pressure in b]
    h_rows = [
        (i, [100, 110, 115, 116, 118, 121, 170, 20][3 * i % 8], [60, 70, 79, 81, 98, 100, 120][5 * i % 7])
        for i in range(24)
    ]
    docs = [*rows("B", "pressure temp", *b_rows), *rows("H", "beatrate vib", *h_rows)]
    lines = [line for lines in OVERLAP.values() for line in lines.strip().split("\n")]
    (found,) = icu(name, tmp_path).ask({line: overlap_query(line) for line in lines}, [docs])

    def truth(line: str, left: tuple[int, ...], right: tuple[int, ...]) -> bool:
        values = dict(zip(("B.ts", "B.pressure", "B.temp"), left, strict=True))
        values |= dict(zip(("H.ts", "H.beatrate", "H.vib"), right, strict=True))
        condition = re.sub(r"[BH]\.[a-z]+", lambda name: str(values[name[0]]), line.replace(" | ", ", "))
        condition = re.sub(r"(?<![<>])=", "==", condition)
        return abs(left[0] - right[0]) <= 20 and all(eval(part) for part in condition.split(", "))

    counts = []
    for line in lines:
        expected = {
            (f"b{i}", f"h{j}")
            for (i, left), (j, right) in product(enumerate(b_rows, start=1), enumerate(h_rows, start=1))
            if truth(line, left, right)
        }
        assert ids(found[line]) == expected, line
        counts.append(len(expected))
    assert sum(count > 0 for count in counts) >= 7


# -- G10: the overlap workloads on generated rows -----------------------------------------------------------------

G10_COUNTS = {"25 %": [398, 1532, 0, 34, 0], "50 %": [619, 1426, 4, 0, 1], "75 %": [632, 132, 123, 0, 0]}
G10_TOGETHER = {
    "25 %": {(1,): 398, (2,): 1532, (4,): 34},
    "50 %": {(1,): 619, (2,): 1425, (3,): 4, (2, 5): 1},
    "75 %": {(1,): 521, (3,): 70, (1, 2): 68, (1, 2, 3): 43, (2,): 11, (2, 3): 10},
}
"""Which queries a pair satisfies, to the number of pairs."""


def g10_events() -> Iterable[xscl.Event]:
    pressures = [80, 89, 100, 105, 110, 112, 114, 116, 119, 150, 165, 240, 400, 450]
    temps = [80, 98, 101, 111, 116, 120, 125, 260, 400]
    beatrates = [100, 110, 115, 116, 118, 121, 170, 20]
    vibs = [60, 70, 79, 81, 98, 100, 120]
    for i in range(300):
        yield xscl.Event("B", f"b{i}", i, row={"pressure": pressures[5 * i % 14], "temp": temps[2 * i % 9]})
        yield xscl.Event("H", f"h{i}", i, row={"beatrate": beatrates[3 * i % 8], "vib": vibs[5 * i % 7]})


def test_g10_overlap_workloads_on_generated_rows(engine: Engine) -> None:
    engine.add_channel("B", kind="rows", schema="pressure long, temp long")
    engine.add_channel("H", kind="rows", schema="beatrate long, vib long")
    for workload, lines in OVERLAP.items():
        for number, line in enumerate(lines.strip().split("\n"), start=1):
            engine.register(overlap_query(line), name=f"W{workload[:2]}-{number}")
    assert engine.ingest(g10_events()).taken == 600
    engine.run_once()
    pairs: dict[str, dict[tuple[str, ...], list[int]]] = {workload: {} for workload in OVERLAP}
    for match in engine.matches():
        workload, number = match.query[1:].split("-")
        both = tuple(event.id for event in match.events)
        pairs[f"{workload} %"].setdefault(both, []).append(int(number))
    for workload, of_pair in pairs.items():
        counted = Counter(number for numbers in of_pair.values() for number in numbers)
        assert [counted[number] for number in range(1, 6)] == G10_COUNTS[workload]
        assert all(len(numbers) == len(set(numbers)) for numbers in of_pair.values())
        assert Counter(tuple(sorted(numbers)) for numbers in of_pair.values()) == G10_TOGETHER[workload]
    assert {workload: len(of_pair) for workload, of_pair in pairs.items()} == {"25 %": 1964, "50 %": 2049, "75 %": 723}
