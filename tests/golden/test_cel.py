"""The examples of CEL: what its texts say in XSCL, what that answers, and which texts are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle.evaluate import Doc, answers
from oracle.nodes import parse
from step_answers import Row, by_engine, by_oracle, doc

import xscl
from xscl.base.errors import QueryError, QuerySyntaxError, UnsupportedFeatureError
from xscl.language.cel.cel import query_of_cel
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.format import format_query
from xscl.language.syntax.statements import in_cel

SCHEMAS = {
    "Stock": ("Name", "Price", "Volume"),
    "IBMStock": ("IBMPrice",),
    "Odd": ("Name", "Name_1"),
    "Less": ("Name",),
}


def quote(ts: int, name: str, price: object, volume: int = 1) -> Doc:
    return doc("Stock", ts, Name=name, Price=price, Volume=volume, id=f"{name}@{ts}:{price}")


STOCK = [
    quote(550, "IBM", 90, 15000),
    quote(555, "IBM", 85, 7000),
    quote(557, "Dell", 40, 11000),
    quote(561, "IBM", 81, 8000),
    quote(563, "MSFT", 25, 6000),
    quote(564, "IBM", 91, 9000),
]
IBM_STOCK = [doc("IBMStock", ts, IBMPrice=price) for ts, price in [(550, 90), (555, 85), (564, 91)]]


def rows(text: str, docs: list[Doc]) -> list[Row]:
    """What a text of CEL answers, by the oracle and by the engine over its text in XSCL."""
    query = query_of_cel(text, SCHEMAS)
    if query.steps is not None:
        expected = by_oracle(format_query(query), docs)
        assert by_engine(format_query(query), docs, 7) == sorted((*row[:-2], row[-1]) for row in expected)
        return expected
    at = {f"{each.channel}:{each.id}": each for each in docs}
    found = []
    for (member,), nodes in answers(query, docs):
        event = at[":".join(member)]
        texts = {node.id: node.string() for node in parse(event.xml).branch()}
        found.append((*(texts[node] for node in nodes[1:]), f"{event.ts // 1_000_000}"))
    return sorted(found)


def test_g_cel_1() -> None:
    query = query_of_cel("SELECT * FROM Stock PUBLISH MyStock", SCHEMAS)
    assert format_query(query) == (
        "SELECT Name, Price, Volume FROM Stock[./Name->Name][./Price->Price][./Volume->Volume]\n"
        "PUBLISH MyStock SPANNING AS ROWS"
    )
    assert len(answers(query, STOCK)) == 6


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Price AS IBMPrice FROM FILTER{Name='IBM' AND Price > 83}(Stock) PUBLISH IBMStock",
        "SELECT Price AS IBMPrice FROM FILTER{Name='IBM'} (SELECT * FROM FILTER{Price > 83}(Stock)) PUBLISH X",
    ],
)
def test_g_cel_2(text: str) -> None:
    assert rows(text, STOCK) == [("85", "555"), ("90", "550"), ("91", "564")]


def test_g_cel_2_in_xscl() -> None:
    text = "SELECT Price AS IBMPrice FROM FILTER{Name='IBM' AND Price > 83}(Stock) PUBLISH IBMStock"
    assert format_query(query_of_cel(text, SCHEMAS)) == (
        "SELECT Price AS IBMPrice FROM Stock[./Name = 'IBM'][./Price > 83][./Price->Price]\n"
        "PUBLISH IBMStock SPANNING AS ROWS"
    )


def test_g_cel_3() -> None:
    text = "SELECT IBMPrice, Price AS MSFTPrice FROM IBMStock NEXT{Name='MSFT'} (Stock)"
    found = [("85", "25", "555", "563"), ("90", "25", "550", "563")]
    assert rows(text, [*STOCK, *IBM_STOCK]) == found


def test_g_cel_4() -> None:
    text = "SELECT IBMPrice, Price, Name FROM IBMStock NEXT{IBMPrice < Price} (Stock)"
    found = [("85", "91", "IBM", "555", "564"), ("90", "91", "IBM", "550", "564")]
    assert rows(text, [*STOCK, *IBM_STOCK]) == found


def test_g_cel_5() -> None:
    text = "SELECT Name FROM (SELECT Price FROM Stock) NEXT{$1.Price = $2.Price} (Stock)"
    docs = [
        quote(ts, name, price) for ts, (name, price) in enumerate(zip("ABCDE", [10, 12, 10, 12, 10], strict=True), 1)
    ]
    assert rows(text, docs) == [("C", "1", "3"), ("D", "2", "4"), ("E", "3", "5")]


EXAMPLE_17 = """SELECT *
FROM FILTER{cnt > %s} (
  (SELECT *, 1 AS cnt FROM
    FILTER{Volume > 10000}(Stock))
  FOLD{$2.Name = $.Name, $2.Price > $.Price,
    $.cnt+1 AS cnt}
  Stock)"""


def test_g_cel_6() -> None:
    told = ["X10 20000", "Y5 20000", "X11 100", "Y4 100", "X12 100", "X13 100", "X12 30000", "X14 10"]
    docs = [quote(ts, each[0], each[1:].split()[0], int(each.split()[1])) for ts, each in enumerate(told, 1)]
    query = query_of_cel(EXAMPLE_17 % 2, SCHEMAS)
    columns = ["Name_1", "Price_1", "Volume_1", "cnt_1", "Name", "Price", "Volume", "cnt"]
    assert isinstance(query.select, tuple)
    assert [item.name or item.path.name for item in query.select] == columns
    assert [name for name, _ in steps_of(query, format_query(query)).columns] == columns

    def chosen(threshold: int) -> list[tuple[str, ...]]:
        return [(row[0], row[1], row[5], row[7], *row[8:]) for row in rows(EXAMPLE_17 % threshold, docs)]

    assert chosen(2) == [("X", "10", "12", "3", "1", "5"), ("X", "10", "13", "4", "1", "6")]
    assert chosen(1) == [("X", "10", "11", "2", "1", "3"), *chosen(2), ("X", "12", "14", "2", "7", "8")]
    assert all(row[3] == "1" for row in rows(EXAMPLE_17 % 1, docs))


def test_g_cel_7() -> None:
    text = """SELECT Price_1 AS IBMPrice1, Price AS IBMPrice2
    FROM (FILTER{Name='IBM' AND Price > 83}(Stock))
      NEXT{$2.Price > $1.Price}
    (FILTER{Name='IBM'}(Stock))"""
    assert rows(text, STOCK) == [("85", "91", "555", "564"), ("90", "91", "550", "564")]


FALLS = """(SELECT Name, Price_1 AS MaxPrice, Price AS MinPrice
  FROM FILTER{Volume > 10000}(Stock)
    FOLD{$2.Name = $.Name, $2.Price < $.Price, }
  Stock%s"""
CLOSED_BEFORE_NEXT = f"""SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
FROM FILTER{{DUR ≥ 10s}} ({FALLS % "))"}
  NEXT{{$2.Name = $1.Name AND $2.Price > 1.05*$1.MinPrice}} Stock"""
CLOSED_AT_THE_END = f"""SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
FROM FILTER{{DUR ≥ 10s}} ({FALLS % ")"}
  NEXT{{$2.Name = $1.Name AND $2.Price > 1.05*$1.MinPrice}} Stock)"""
FAITHFUL = f"""SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
FROM FILTER{{Price > 1.05*MinPrice_1}} (FILTER{{DUR >= 10s}} ({FALLS % "))"}
  NEXT{{$2.Name = $1.Name}} Stock)"""


def test_g_cel_8_closed_before_next() -> None:
    """Ten minutes are ten seconds here, as in the other examples."""
    assert rows(CLOSED_BEFORE_NEXT, STOCK) == [("IBM", "90", "81", "91", "550", "564")]
    assert rows(FAITHFUL, STOCK) == [("IBM", "90", "81", "91", "550", "564")]


def test_g_cel_8_closed_at_the_end() -> None:
    """The duration is that of all; also the first fall has it then."""
    assert rows(CLOSED_AT_THE_END, STOCK) == [
        ("IBM", "90", "81", "91", "550", "564"),
        ("IBM", "90", "85", "91", "550", "564"),
    ]


def test_g_cel_8_as_printed() -> None:
    """The example as it is printed lacks a parenthesis; the message shows which one is open."""
    with pytest.raises(QuerySyntaxError, match="expected '\\)'") as caught:
        query_of_cel(CLOSED_AT_THE_END[:-1], SCHEMAS)
    assert (caught.value.line, caught.value.column) == (2, 24)


def test_g_cel_9() -> None:
    """A quote in between: the next one has to rebound, or the next one that rebounds is taken."""
    docs = [*STOCK, quote(562, "IBM", 82, 100)]
    assert rows(FAITHFUL, docs) == []
    assert rows(CLOSED_BEFORE_NEXT, docs) == [("IBM", "90", "81", "91", "550", "564")]


BAD = [
    ("SELECT * FROM ¦Less FOLD{$2.Name = $.Name, } Stock¦", "CEL", "the left side of FOLD lacks Price"),
    ("¦Less NEXT Odd¦", "CEL", "two attributes would have the name Name_1"),
    ("Stock NEXT{¦$1.$1¦.Price > 3} Stock", "SYNTAX", "decorators do not nest"),
    ("SELECT ¦$1¦.Price FROM Stock", "SYNTAX", "SELECT reads one stream"),
    ("SELECT ¦Prise¦ FROM Stock", "CEL", "there is no attribute Prise"),
    ("Stock NEXT{¦Price¦ > 3} Stock", "CEL", "an attribute of both sides"),
    ("FILTER{¦$2.Price¦ > Volume}(Stock)", "CEL", "stands for nothing here"),
    ("¦Nothing¦", "CEL", "the attributes of Nothing are not known"),
    ("Stock NEXT{¦$1.Price = 3 OR $2.Price = 4¦} Stock", "CEL_LIMIT", "OR does not stand here"),
    ("Stock NEXT{¦DUR > 3¦} Stock", "CEL_LIMIT", "an upper bound only"),
    ("Stock NEXT (¦SELECT Name AS N FROM Stock PUBLISH x¦)", "CEL_LIMIT", "does not publish"),
    ("SELECT ¦Price + Price¦ FROM Stock", "CEL", "this value has no name"),
    ("Stock ¦UNION¦ Stock", "SYNTAX", "unexpected 'UNION'"),
    ("Stock NEXT{¦§¦} Stock", "SYNTAX", "no place in CEL"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "condition", "message"), BAD)
def test_g_cel_10(marked: str, condition: str, message: str) -> None:
    start = marked.index("¦")
    with pytest.raises(QueryError) as caught:
        query_of_cel(marked.replace("¦", ""), SCHEMAS)
    error = caught.value
    assert error.condition == f"XSCL_{condition}" and message in error.message
    assert error.column == start + 1
    assert isinstance(error, UnsupportedFeatureError) == condition.endswith("LIMIT")


def test_conditions_on_streams_stand_in_brackets() -> None:
    """A comparison with what an event lacks does not hold (G-CAY-2)."""
    one = "FILTER{(Name = 'IBM' OR 83 < Price) AND NOT Volume = 7 AND DUR <= 3 AND color > 'blue'}(Stock)"
    assert format_query(query_of_cel(one, SCHEMAS)) == (
        "Stock[./Name = 'IBM' or ./Price > 83][not(./Volume = 7)][not(.)]\n  FILTER {DUR <= 3 s}"
    )


def test_statements_and_scripts_in_cel(tmp_path: Path) -> None:
    """Streams are channels of rows and what queries publish; what is kept is the text in XSCL."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("Stock", kind="rows", schema="Name string, Price double, Volume long")
        one = (
            "CREATE QUERY ibm LANGUAGE CEL AS SELECT Price AS IBMPrice FROM FILTER{Name='IBM'}(Stock) PUBLISH IBMStock"
        )
        assert engine.register(one) == "ibm"
        (info,) = engine.queries()
        assert info.text == (
            "SELECT Price AS IBMPrice FROM Stock[./Name = 'IBM'][./Price->Price]\nPUBLISH IBMStock SPANNING AS ROWS"
        )
        script = (
            "CREATE QUERY high AS FILTER{IBMPrice > 90}(IBMStock);\n(IBMStock);\nDROP QUERY ibm;\nSELECT x FROM Stock"
        )
        outcomes = engine.load(in_cel(script))
        assert [outcome.action for outcome in outcomes] == ["registered", "registered", "dropped", "refused"]
        assert outcomes[0].name == "high" and "no attribute x here" in str(outcomes[3].error)
