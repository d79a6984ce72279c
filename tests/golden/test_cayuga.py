"""The examples of Cayuga's algebra: sequences, iterations and their durations over intervals and ties."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from absences import S
from oracle.evaluate import Doc
from step_answers import Row, by_engine, by_oracle, doc

import xscl
from xscl.store.join_state import files_by_kind

SIDES = pytest.mark.parametrize(
    "side", ["oracle", 1, *(pytest.param(size, marks=pytest.mark.thorough) for size in (2, 7)), 100]
)
"""The oracle, or the engine in batches of so many events."""


def answers(side: str | int | int, text: str, docs: list[Doc]) -> list[Row]:
    expected = by_oracle(text, docs)
    if isinstance(side, int):
        assert by_engine(text, docs, side) == [(*row[:-2], row[-1]) for row in expected]
    return expected


def quote(ts: int, name: str, price: object, volume: int = 1) -> Doc:
    return doc("stock", ts, name=name, price=price, volume=volume, id=f"{name}@{ts}:{price}")


def quotes(*told: str) -> list[Doc]:
    """Quotes by texts such as ``IBM 80@1``."""
    split = [each.replace("@", " ").split() for each in told]
    return [quote(int(ts), name, price) for name, price, ts in split]


@SIDES
def test_g_cay_1(side: str | int) -> None:
    """A concatenation has the values of both, and spans both."""
    docs = [
        doc("S", 1, Name="IBM", Price=85, Volume=1000),
        doc("T", 3, 2, company="MSFT", Price=27),
    ]
    text = "SELECT n, q AS price, v, c FROM S[./Name->n][./Price->p][./Volume->v] NEXT T[./company->c][./Price->q]"
    assert answers(side, text, docs) == [("IBM", "27", "1000", "MSFT", "1", "3")]


FIGURE_4_3 = quotes("IBM 90@550", "IBM 85@555", "Dell 40@557", "IBM 81@561", "MSFT 25@563", "IBM 91@564")


@SIDES
def test_g_cay_2(side: str | int) -> None:
    """A condition on what an event lacks does not hold."""
    text = "SELECT p FROM stock[./name = 'IBM' {} ./color > 'blue'][./price->p] FILTER {{DUR = 0}}"
    assert answers(side, text.format("and"), FIGURE_4_3) == []
    assert [row[0] for row in answers(side, text.format("or"), FIGURE_4_3)] == ["81", "85", "90", "91"]


@SIDES
def test_g_cay_3(side: str | int) -> None:
    """Of what begins behind the end, the one that ends first."""
    docs = [
        doc("S", 3, 1, n="e1"),
        *(doc("T", ts, start, n=f"e{n}") for n, (start, ts) in enumerate([(2, 4), (4, 9), (5, 7), (8, 10)], 2)),
    ]
    assert answers(side, "SELECT a, b FROM S[./n->a] NEXT T[./n->b]", docs) == [("e1", "e4", "1", "7")]


FIRST, THEN = "stock[./name->n][./price->p]", "stock[./name->m][./price->q]"
RISES = f"SELECT n AS f, p, m, q FROM {FIRST} FOLD {{{{n = m WHILE q > last(q, p){{0}}}}}} {THEN}"
G_CAY_4 = quotes("IBM 80@1", "Dell 22@2", "IBM 82@3", "Dell 24@4", "IBM 84@5", "Dell 22@6")


@SIDES
def test_g_cay_4(side: str | int) -> None:
    """Every iteration of a rise is a match."""
    assert answers(side, RISES.format(""), G_CAY_4) == [
        ("Dell", "22", "Dell", "24", "2", "4"),
        ("IBM", "80", "IBM", "82", "1", "3"),
        ("IBM", "80", "IBM", "84", "1", "5"),
        ("IBM", "82", "IBM", "84", "3", "5"),
    ]


@SIDES
def test_g_fold_1(side: str | int) -> None:
    """The longest rises alone."""
    assert answers(side, RISES.format(", LONGEST"), G_CAY_4) == [
        ("Dell", "22", "Dell", "24", "2", "4"),
        ("IBM", "80", "IBM", "84", "1", "5"),
    ]


@SIDES
def test_g_fold_2(side: str | int) -> None:
    """Only the first iterations."""
    assert [row[:4] for row in answers(side, RISES.format(", AT MOST 1"), G_CAY_4)] == [
        ("Dell", "22", "Dell", "24"),
        ("IBM", "80", "IBM", "82"),
        ("IBM", "82", "IBM", "84"),
    ]


def named(name: str, variable: str) -> str:
    return f"stock[./name = '{name}'][./price->{variable}]"


@SIDES
def test_g_cay_5(side: str | int) -> None:
    """A sequence is not associative."""
    docs = quotes("IBM 80@1", "MSFT 50@2", "MSFT 49@3", "Dell 24@4")
    one, two, three = named("IBM", "a"), named("MSFT", "b"), named("Dell", "c")
    assert answers(side, f"SELECT b, c FROM {two} NEXT {three}", docs) == [
        ("49", "24", "3", "4"),
        ("50", "24", "2", "4"),
    ]
    assert answers(side, f"SELECT a, b, c FROM {one} NEXT ({two} NEXT {three})", docs) == [
        ("80", "49", "24", "1", "4"),
        ("80", "50", "24", "1", "4"),
    ]
    assert answers(side, f"SELECT a, b, c FROM {one} NEXT {two} NEXT {three}", docs) == [("80", "50", "24", "1", "4")]


@SIDES
@pytest.mark.parametrize(("m", "n"), [(3, 2), (1, 1), (5, 3)])
def test_g_cay_6(side: str | int, m: int, n: int) -> None:
    """The family that no sequence from the left can tell apart."""
    docs = [doc("A", 0, k="s"), *(doc("B", ts, k=ts) for ts in range(m + n + 4))]
    docs += [doc("C", ts, k=ts) for ts in (m + 1, m + n + 2)]
    found = answers(side, "SELECT b, c FROM A NEXT (B[./k->b] NEXT C[./k->c])", docs)
    assert (
        [row for row in found if row[1] == str(m + 1)]
        == [(str(ts), str(m + 1), "0", str(m + 1)) for ts in range(1, m + 1)]
        == found
    )
    assert answers(side, "SELECT b, c FROM A NEXT B[./k->b] NEXT C[./k->c]", docs) == [
        ("1", str(m + 1), "0", str(m + 1))
    ]


REBOUND = """SELECT s AS company, p AS maxp, q AS minp, r AS finalp
FROM stock[./volume > 10000][./name->s][./price->p]
  FOLD {s = t WHILE q < last(q, p)} stock[./name->t][./price->q]
  FILTER {DUR >= 10}
  NEXT {s = u} stock[./name->u][./price->r]
  FILTER {r > 1.05 * q}"""
EXAMPLE_10 = [
    quote(550, "IBM", 90, 15000),
    quote(555, "IBM", 85, 7000),
    quote(557, "Dell", 40, 11000),
    quote(561, "IBM", 81, 8000),
    quote(563, "MSFT", 25, 6000),
    quote(564, "IBM", 91, 9000),
]
FALLS = f"SELECT n, p, q FROM stock[./volume > 10000]{FIRST[5:]} FOLD {{n = m WHILE q < last(q, p)}} {THEN}"


@SIDES
def test_g_cay_7(side: str | int) -> None:
    """A price that falls for ten minutes and rebounds."""
    assert answers(side, FALLS, EXAMPLE_10) == [("IBM", "90", "81", "550", "561"), ("IBM", "90", "85", "550", "555")]
    assert answers(side, REBOUND, EXAMPLE_10) == [("IBM", "90", "81", "91", "550", "564")]


@SIDES
def test_g_cay_7_a(side: str | int) -> None:
    """One of two quotes of a time is enough to rebound, whichever comes first."""
    extra = quote(564, "IBM", 80, 8000)
    for order in permutations([EXAMPLE_10[-1], extra]):
        docs = [*EXAMPLE_10[:-1], *order]
        assert answers(side, REBOUND, docs) == [("IBM", "90", "81", "91", "550", "564")]
        assert ("IBM", "90", "80", "550", "564") in answers(side, FALLS, docs)


@SIDES
def test_g_cay_7_b(side: str | int) -> None:
    """A quote that ends the fall is not skipped."""
    extra = quote(557, "IBM", 99, 8000)
    for order in permutations([EXAMPLE_10[2], extra]):
        assert answers(side, REBOUND, [*EXAMPLE_10[:2], *order, *EXAMPLE_10[3:]]) == []


@SIDES
def test_g_cay_8(side: str | int) -> None:
    """What is skipped is told before the sequence, and cannot be told behind it."""
    docs = quotes("IBM 98@1", "Dell 50@2", "IBM 99@3", "Dell 51@4", "IBM 101@5", "IBM 103@6", "IBM 97@7", "IBM 102@8")
    low, high = "stock[./name = 'IBM'][./price < 100][./price->p]", "stock[./name->n][./price->q]"
    before = f"SELECT p, q FROM {named('IBM', 'p')} NEXT {named('IBM', 'q')} FILTER {{p < 100 AND q > 100}}"
    assert answers(side, before, docs) == [("97", "102", "7", "8"), ("99", "101", "3", "5")]
    behind = f"SELECT p, q FROM {low} NEXT {high} FILTER {{n = 'IBM' AND q > 100}}"
    assert answers(side, behind, docs) == [("97", "102", "7", "8")]


def item(ts: int, site: str, link: str, *cites: str) -> Doc:
    return doc("items", ts, site=site, link=link, cites=list(cites))


@SIDES
def test_g_cay_9(side: str | int) -> None:
    """Postings that cite a site's, and chains of citations."""
    docs = [
        item(1, "apple", "L1"),
        item(2, "site1", "L2"),
        item(3, "site2", "L3", "L1"),
        item(4, "site1", "L4", "L1", "L3"),
        item(5, "apple", "L5"),
        item(6, "other", "L6", "L5"),
        item(7, "site1", "L7", "L5"),
    ]
    subscribed = "items[./site = 'site1' or ./site = 'site2'][./link->m][./cites->c]"
    text = f"SELECT l, m FROM items[./site = 'apple'][./link->l] NEXT {{c = l}} {subscribed}"
    assert answers(side, text, docs) == [("L1", "L3", "1", "3"), ("L5", "L7", "5", "7")]
    docs = [
        item(1, "site1", "R"),
        item(2, "site2", "P1", "R"),
        item(3, "site1", "P2", "R"),
        item(4, "site2", "P3", "P1"),
        item(5, "site1", "P4", "P2"),
        item(6, "other", "P5", "P3"),
        item(7, "site1", "P6", "P3"),
    ]
    text = f"SELECT l, m FROM items[./link = 'R'][./link->l] FOLD {{c = last(m, l)}} {subscribed}"
    assert answers(side, text, docs) == [("R", "P1", "1", "2"), ("R", "P3", "1", "4"), ("R", "P6", "1", "7")]


@SIDES
@pytest.mark.parametrize("average", ["avg(q, p)", "a"])
def test_g_cay_10(side: str | int, average: str) -> None:
    """A running average of what lasts four ticks, by a function and by accumulators."""
    docs = quotes("IBM 80@1", "IBM 82@3", "IBM 84@5", "IBM 90@7", "IBM 70@9")
    kept = "" if average != "a" else ", last(c, 1) + 1 AS c, (last(c, 1) * last(a, p) + q) / (last(c, 1) + 1) AS a"
    count = "count(q, p)" if average != "a" else "c"
    fold = f"stock[./name->n][./price->p] FOLD {{n = m{kept}}} stock[./name->m][./price->q] FILTER {{DUR = 4}}"
    found = answers(side, f"SELECT {average} AS a, {count} AS c FROM {fold}", docs)
    assert found == [("81.33333333333333", "3", "5", "9"), ("82", "3", "1", "5"), ("85.33333333333333", "3", "3", "7")]
    rebound = (
        f"SELECT {average} AS a, r FROM {fold} NEXT {{n = o}} stock[./name->o][./price->r] FILTER {{r > {average}}}"
    )
    assert answers(side, rebound, docs) == [("82", "90", "1", "7")]


@SIDES
def test_g_cay_11(side: str | int) -> None:
    """What the first anchor has taken, no later one has: the averages before the 401 quote are gone."""
    averages = [("Dell", 22, 0, 52), ("IBM", 82, 1, 53), ("MSFT", 50, 2, 54), ("IBM", 83, 5, 57)]
    docs = [doc("average", ts, start, name=name, mean=mean) for name, mean, start, ts in averages]
    docs += [doc("google", ts, price=price) for price, ts in [(399, 55), (401, 56), (405, 60)]]
    text = "SELECT n, m, g FROM average[./name->n][./mean->m] NEXT google[./price->g] FILTER {g > 400}"
    assert answers(side, text, docs) == [("IBM", "83", "405", "5", "60")]


@SIDES
def test_g_cay_12(side: str | int) -> None:
    """Example 3: a quote that is five per cent above the one before of its name."""
    text = "SELECT n, p, q FROM stock[./name->n][./price->p] NEXT {n = m} stock[./name->m][./price->q]"
    assert [row[1:3] for row in answers(side, text, FIGURE_4_3)] == [("81", "91"), ("85", "81"), ("90", "85")]
    assert answers(side, text + " FILTER {1.05 * p <= q}", FIGURE_4_3) == [("IBM", "81", "91", "561", "564")]


PRICES = [12, 10, 11, 13, 12, 10.5, 12, 12.8, 11, 9, 9.5]


@SIDES
def test_g_sys_6(side: str | int) -> None:
    """A double top by five folds: down, up, down, up and down below where it began."""
    docs = [quote(ts, "X", price) for ts, price in enumerate(PRICES, 1)]

    def then(number: int, op: str, condition: str) -> str:
        before, name = "pabcde"[number - 1 : number + 1]
        block = f"stock[./name->n{number}][./price->{name}]"
        return f" FOLD {{n = n{number} WHILE {name} {op} last({name}, {before})}} {block}{condition}"

    text = "SELECT a, b, c, d, e FROM stock[./name->n][./price->p]"
    text += then(1, "<", "") + then(2, ">", " FILTER {b >= 1.2 * a}")
    text += then(3, "<", " FILTER {c >= 0.9 * a AND c <= 1.1 * a}")
    text += then(4, ">", " FILTER {d >= 0.9 * b AND d <= 1.1 * b}") + then(5, "<", " FILTER {e < a}")
    assert answers(side, text, docs) == [("10", "13", "10.5", "12.8", "9", "1", "10")]


@SIDES
def test_g_sys_6_by_extrema(side: str | int) -> None:
    """The same of extrema that others have published, which are points: spans that overlap are no sequence."""
    spans = [(1, 3, 10), (3, 5, 13), (5, 7, 10.5), (7, 9, 12.8), (9, 11, 9)]
    text = "SELECT a, b, c, d, e FROM x[./v->a] NEXT {b >= 1.2 * a} x[./v->b]"
    text += " NEXT {c >= 0.9 * a AND c <= 1.1 * a} x[./v->c] NEXT {d >= 0.9 * b AND d <= 1.1 * b} x[./v->d]"
    text += " NEXT {e < a} x[./v->e]"
    assert answers(side, text, [doc("x", ts, start, v=v) for start, ts, v in spans]) == []
    points = answers(side, text, [doc("x", ts, v=v) for _, ts, v in spans])
    assert points == [("10", "13", "10.5", "12.8", "9", "3", "11")]


@SIDES
def test_g_cedr_4(side: str | int) -> None:
    """Points of time do not make two sequences equal that differ."""
    docs = [doc(f"S{n}", n, k=n) for n in (1, 2, 3)]
    assert answers(side, "SELECT a FROM S1[./k->a] NEXT (S2 NEXT S3)", docs) == [("1", "1", "3")]
    assert answers(side, "SELECT a FROM S2[./k->a] NEXT (S1 NEXT S3)", docs) == []


@SIDES
def test_two_durations(side: str | int) -> None:
    """The duration of a right side is its own, that of the whole is the composite's (CAY-16)."""
    docs = [
        doc("A", 0, k="a"),
        doc("B", 5, 2, k="long"),
        doc("B", 12, k="b"),
        doc("A", 13, k="a2"),
        doc("B", 15, k="c"),
    ]
    text = "SELECT a, b FROM A[./k->a] NEXT (B[./k->b] FILTER {DUR = 0}) FILTER {DUR >= 10}"
    assert answers(side, text, docs) == [("a", "b", "0", "12")]


def taken(engine: xscl.Engine, *docs: Doc) -> int:
    """Take events in, and run a batch; return how many of them came late."""
    report = engine.ingest([xscl.Event(each.channel, each.id, each.ts // S, xml=each.xml) for each in docs])
    engine.run_once()
    return report.late


def ends(engine: xscl.Engine, name: str) -> list[int]:
    return sorted(match.ts // S for match in engine.matches(name))


def test_sys_2(tmp_path: Path) -> None:
    """Events wait until the clock is more than three beyond them; one that is older than what was let go is ignored."""
    with xscl.connect(home=tmp_path / "home") as engine:
        for channel in ("tick", "A", "E"):
            engine.add_channel(channel, lateness="3 s", clock="one")
        engine.register("A NEXT E", name="any")
        engine.register("A NEXT E[./k = '5']", name="five")
        seen = []
        taken(engine, doc("A", 0, k=0))
        for clock, events in [(6, [5]), (7, [4]), (8, []), (9, [1]), (10, [])]:
            late = taken(engine, doc("tick", clock, k=0), *(doc("E", ts, k=ts) for ts in events))
            seen.append((clock, ends(engine, "any"), ends(engine, "five"), late))
        assert seen == [(6, [], [], 0), (7, [], [], 0), (8, [4], [], 0), (9, [4], [5], 1), (10, [4], [5], 0)]


def test_sys_11_and_12(tmp_path: Path) -> None:
    """Who comes later sees later events alone, equal queries answer alike, and one that goes takes nothing along."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("stock", lateness="0 s")
        text = "SELECT p, q FROM stock[./price->p] NEXT {q > p} stock[./price->q]"
        for name in ("one", "two"):
            engine.register(text, name=name)
        engine.register(text.replace("q > p", "q > 100 * p"), name="none")
        taken(engine, *quotes("X 1@1", "X 2@2", "X 3@3"))
        engine.register(text, name="later")
        engine.drop("one")
        taken(engine, *quotes("X 4@4", "X 5@5", "X 0@9"))
        assert ends(engine, "one") == [2]
        assert ends(engine, "two") == [2, 3, 4, 5]
        assert ends(engine, "later") == [5]
        assert ends(engine, "none") == []


def test_sys_13(tmp_path: Path) -> None:
    """What NEXT keeps within ten seconds does not grow with the stream."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("stock", lateness="0 s")
        engine.register("stock[./name->n] NEXT {m = n, 10 s} stock[./name->m]", name="q")
        sizes = []
        for window in range(30):
            taken(engine, *(quote(10 * window + ts, f"X{ts}", 1) for ts in range(0, 10, 3)))
            with engine.home.catalog.read() as connection:
                sizes.append(sum(file.rows for file in files_by_kind(connection).get("steps", ())))
        assert max(sizes[-10:]) <= 1.2 * max(sizes[5:15])
