"""Examples of absence: payments that did not come, alarms that are the first, trips without a warm sensor.

Heartbeats settle the times of channels that have no lateness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from oracle.absence import FOR_EVER, Beat, Forbidden, Intake, Question, Terms, decided
from oracle.evaluate import Doc

from xscl.language import ast
from xscl.language.parser import parse_query

S = 1_000_000
MIN = 60 * S


def question(wanted: str, *forbidden: str, between: bool = False) -> Question:
    """A question: the text of what is wanted, and that of it joined with each document that must not be there."""
    joins = [parse_query(text).source for text in forbidden]
    assert all(isinstance(join, ast.Join) for join in joins)
    found = tuple(Forbidden(join, between) for join in joins if isinstance(join, ast.Join))
    return Question(parse_query(wanted), found)


def doc(channel: str, ts: int, xml: str = "<e><k>1</k></e>", id: str | None = None) -> Doc:
    return Doc(channel, f"{channel}@{ts // S}" if id is None else id, ts, xml)


def answers(
    asked: Question, taken: Sequence[Doc | Beat], terms: Mapping[str, Terms] | None = None, *, ends: bool = False
) -> list[tuple[list[str], int, int]]:
    """(ids, ts, place of the decision) of each answer, in the order of places."""
    events = {item: place for place, item in enumerate(taken) if isinstance(item, Doc)}
    beats = {place: item for place, item in enumerate(taken) if isinstance(item, Beat)}
    found = decided(asked, Intake(events, beats, terms or {}, ends))
    rows = [([id_ for _, id_ in each.answer[0]], each.ts, each.place) for each in found]
    return sorted(rows, key=lambda row: (row[2], row[1], row[0]))


UNPAID = question(
    "orders/order/no->x", "orders/order/no->x JOIN {x = y, y - x IN [-30 min, 30 min]} payments/payment/no->y"
)
SHOP = {name: Terms(10 * MIN, "shop") for name in ("orders", "payments")}


def test_g_abs_1() -> None:
    def order(id_: str, ts: int, number: int) -> Doc:
        return doc("orders", ts * MIN, f"<order><no>{number}</no></order>", id_)

    def payment(id_: str, ts: int, number: int) -> Doc:
        return doc("payments", ts * MIN, f"<payment><no>{number}</no></payment>", id_)

    taken = [order("o1", 600, 7), order("o2", 630, 8), payment("p2", 621, 8), payment("p1", 615, 7)]
    assert answers(UNPAID, taken, SHOP) == []
    assert answers(UNPAID, [*taken, Beat("payments", 640 * MIN)], SHOP) == [(["o1"], 630 * MIN, 4)]


def test_g_abs_2() -> None:
    asked = question("A->x[./k->a]", "A->x[./k->a] FOLLOWED BY {a = b, 10} B->y[./k->b]")
    taken = [doc(name, ts * S) for name, ts in [("A", 0), ("B", 10), ("A", 20), ("B", 31), ("A", 40), ("B", 40)]]
    beats = [Beat("B", 49 * S), Beat("B", 50 * S)]
    assert answers(asked, [*taken, *beats]) == [(["A@20"], 30 * S, 6), (["A@40"], 50 * S, 7)]


@pytest.mark.parametrize("times", [(5,), (5, 10, 15)])
def test_g_abs_3(times: tuple[int, ...]) -> None:
    trip = "A->x[./k->a] FOLLOWED BY {a = c, 20} C[./k->c]"
    asked = question(trip, f"({trip}) JOIN {{a = b}} B[./k->b]", between=True)
    taken = [doc("A", 0), doc("B", 5 * S), doc("C", 8 * S), doc("A", 10 * S), doc("C", 15 * S)]
    taken += [doc("B", ts * S) for ts in times if ts != 5]
    assert answers(asked, taken, ends=True) == [(["A@10", "C@15"], 15 * S, FOR_EVER)]


def test_g_abs_4() -> None:
    asked = question(
        "alarms->x[./host->a]", "alarms->x[./host->a] JOIN {a = b, x - y IN (0 s, 1 h]} alarms->y[./host->b]"
    )
    taken = [doc("alarms", ts * MIN, "<alarm><host>h</host></alarm>", str(ts)) for ts in (0, 30, 80, 200)]
    assert [ids for ids, *_ in answers(asked, taken, ends=True)] == [["0"], ["200"]]
