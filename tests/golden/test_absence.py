"""Examples of absence: payments that did not come, alarms that are the first, trips without a warm sensor.

Heartbeats settle the times of channels that have no lateness.  Each example runs with one batch for all, and with a
batch for each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa
from absences import FAR, Found, S, Taken, add_channels, by_engine, by_oracle, question, record
from absences import answers as by_list
from oracle.absence import Beat, Question, Terms
from oracle.evaluate import Doc

import xscl
from xscl.base.errors import QueryError
from xscl.base.types import Retraction
from xscl.catalog.tables import LATE
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query

MIN = 60 * S
SIDES = pytest.mark.parametrize("side", ["oracle", "one batch", "many batches"])


def doc(channel: str, ts: int, xml: str = "<e><k>1</k></e>", id: str | None = None) -> Doc:
    return Doc(channel, f"{channel}@{ts // S}" if id is None else id, ts, xml)


def answers(
    side: str, folder: Path, asked: Question, text: str, taken: Taken, terms: Mapping[str, Terms] | None = None
) -> Found:
    if side == "oracle":
        return by_oracle(asked, taken, terms)
    cut = range(len(taken)) if side == "many batches" else ()
    return by_engine(folder / f"home{len(taken)}", text, taken, terms, cut=cut)


UNPAID = "orders/order/no->x WITHOUT {x = y, y - x IN [-30 min, 30 min]} payments/payment/no->y"
ASKED = question(
    "orders/order/no->x", "orders/order/no->x JOIN {x = y, y - x IN [-30 min, 30 min]} payments/payment/no->y"
)
SHOP = {name: Terms(10 * MIN, "shop") for name in ("orders", "payments")}


@SIDES
def test_g_abs_1(side: str, tmp_path: Path) -> None:
    """A payment that came too late pays nothing; the other one is nine minutes before its order."""

    def order(id_: str, ts: int, number: int) -> Doc:
        return doc("orders", ts * MIN, f"<order><no>{number}</no></order>", id_)

    def payment(id_: str, ts: int, number: int) -> Doc:
        return doc("payments", ts * MIN, f"<payment><no>{number}</no></payment>", id_)

    taken = [order("o1", 600, 7), order("o2", 630, 8), payment("p2", 621, 8), payment("p1", 615, 7)]
    beat = Beat("payments", 640 * MIN)
    assert answers(side, tmp_path, ASKED, UNPAID, taken, SHOP) == []
    assert answers(side, tmp_path, ASKED, UNPAID, [*taken, beat], SHOP) == [(["o1"], 630 * MIN)]


def test_g_abs_1_replayed(tmp_path: Path) -> None:
    """The late payment is taken again: the order is paid after all."""
    with xscl.connect(home=tmp_path / "home") as engine:
        add_channels(engine, SHOP)
        engine.register(UNPAID, name="q")
        for kind, id_, ts, number in [
            ("order", "o1", 600, 7),
            ("order", "o2", 630, 8),
            ("payment", "p2", 621, 8),
            ("payment", "p1", 615, 7),
        ]:
            xml = f"<{kind}><no>{number}</no></{kind}>"
            engine.ingest([xscl.Event(f"{kind}s", id_, ts * 60, xml=xml)])
        engine.heartbeat("payments", 640 * MIN)
        engine.run_once()
        assert by_list(engine, "q") == [(["o1"], 630 * MIN)]
        for _ in range(2):
            engine.replay_late()
            engine.run_once()
        assert by_list(engine, "q") == []
        assert [match.retracted for match in engine.changes("q")] == [None, Retraction("replayed", ("payments", "p1"))]


@SIDES
def test_g_abs_2(side: str, tmp_path: Path) -> None:
    """Ten seconds later is inside; nothing is certain before a heartbeat says so."""
    text = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]"
    asked = question("A->x[./k->a]", "A->x[./k->a] FOLLOWED BY {a = b, 10} B->y[./k->b]")
    taken = [doc(name, ts * S) for name, ts in [("A", 0), ("B", 10), ("A", 20), ("B", 31), ("A", 40), ("B", 40)]]
    first = [*taken, Beat("B", 49 * S)]
    assert answers(side, tmp_path, asked, text, first) == [(["A@20"], 30 * S)]
    both = [*first, Beat("B", 50 * S)]
    assert answers(side, tmp_path, asked, text, both) == [(["A@20"], 30 * S), (["A@40"], 50 * S)]


@SIDES
@pytest.mark.parametrize("times", [(5,), (5, 10, 15)])
def test_g_abs_3(side: str, times: tuple[int, ...], tmp_path: Path) -> None:
    """Between is strictly between."""
    trip = "A->x[./k->a] FOLLOWED BY {a = c, 20} C[./k->c]"
    asked = question(trip, f"({trip}) JOIN {{a = b}} B[./k->b]", between=True)
    text = f"{trip} WITHOUT {{a = b, BETWEEN}} B[./k->b]"
    taken: list[Doc | Beat] = [doc("A", 0), doc("B", 5 * S), doc("C", 8 * S), doc("A", 10 * S), doc("C", 15 * S)]
    taken += [doc("B", ts * S) for ts in times if ts != 5]
    taken.append(Beat("B", FAR))
    assert answers(side, tmp_path, asked, text, taken) == [(["A@10", "C@15"], 15 * S)]


@SIDES
def test_g_abs_4(side: str, tmp_path: Path) -> None:
    """The first alarm of a host in an hour."""
    text = "alarms->x[./host->a] WITHOUT {a = b, x - y IN (0 s, 1 h]} alarms->y[./host->b]"
    asked = question(
        "alarms->x[./host->a]", "alarms->x[./host->a] JOIN {a = b, x - y IN (0 s, 1 h]} alarms->y[./host->b]"
    )
    taken: list[Doc | Beat] = [
        doc("alarms", ts * MIN, "<alarm><host>h</host></alarm>", str(ts)) for ts in (0, 30, 80, 200)
    ]
    found = answers(side, tmp_path, asked, text, [*taken, Beat("alarms", FAR)])
    assert [ids for ids, _ in found] == [["0"], ["200"]]


@pytest.mark.parametrize("size", [1, 4, 100])
def test_g_pub_1(size: int, tmp_path: Path) -> None:
    """Answers that waited until times were settled are late nowhere, and join with what came before them."""
    terms = {"A": Terms(10 * S, "one"), "B": Terms(10 * S, "one"), "M": Terms(0, "one")}
    with xscl.connect(home=tmp_path / "home") as engine:
        add_channels(engine, terms)
        engine.register("A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b] PUBLISH M", name="unmet")
        engine.register("M->m[./k->a] JOIN {a = b, 1 h} A->x[./k->b]", name="q")
        taken = [doc(name, ts * S) for name, ts in [("A", 0), ("B", 11), ("A", 20), ("B", 25), ("A", 30), ("B", 50)]]
        for number, item in enumerate(taken, start=1):
            engine.ingest([record(item)])
            if number % size == 0:
                engine.run_once()
        engine.run_once()
        assert by_list(engine, "unmet") == [(["A@0"], 10 * S)]
        assert [(ids[1], ts // S) for ids, ts in by_list(engine, "q")] == [("A@0", 10), ("A@20", 20), ("A@30", 30)]
        with engine.home.catalog.read() as connection:
            assert not connection.execute(sa.select(LATE)).all()


def test_g_abs_5() -> None:
    """An absence that nothing ends is refused, with its place."""
    text = "A->x[./k->a] WITHOUT {a = b} B->y[./k->b]"
    with pytest.raises(QueryError, match="XSCL_UNBOUNDED_ABSENCE") as refused:
        compile_query(parse_query(text), text)
    span = refused.value.span
    assert span is not None and text[span.start : span.end] == "WITHOUT {a = b}"
    assert refused.value.hint is not None and "y - x IN" in refused.value.hint
