"""Orders and payments that a query has seen so far, and what it has to answer of them.

The answers are told from all events in order of their times, by loops in Python that know nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xscl.bench.orders import ORDERS, PAYMENTS, WINDOW_S, Part, unpaid_text

__all__ = ["QUESTIONS", "Answers", "Question", "Seen"]

_SECOND = 1_000_000
_APART = 10
"""Numbers by which orders of a run are apart at least; other shops have those between."""

Answers = dict[tuple[int, ...], int]
"""Times of answers, by the numbers of their orders."""


@dataclass(slots=True)
class Seen:
    """Events that are at most ``memory`` seconds behind the clock of their channel when they come."""

    memory: int
    times: dict[str, dict[int, int]] = field(default_factory=lambda: {ORDERS: {}, PAYMENTS: {}})
    """Times of the events of each channel, by their numbers."""
    shops: dict[int, str] = field(default_factory=dict)
    """Shop of each order."""
    clocks: dict[str, int] = field(default_factory=lambda: {ORDERS: 0, PAYMENTS: 0})
    forgotten: dict[str, int] = field(default_factory=lambda: {ORDERS: 0, PAYMENTS: 0})
    """Number of the events of each channel that came too late."""

    def take(self, part: Part) -> None:
        """Take events in, those of a channel as they come."""
        self.shops.update(zip(*(part.orders.column(name).to_pylist() for name in ("no", "shop")), strict=True))
        for channel, table in ((ORDERS, part.orders), (PAYMENTS, part.payments)):
            for number, ts in zip(table.column("no").to_pylist(), table.column("ts").to_pylist(), strict=True):
                if ts < self.clocks[channel] - self.memory * _SECOND:
                    self.forgotten[channel] += 1
                else:
                    self.times[channel][number] = ts
                self.clocks[channel] = max(self.clocks[channel], ts)

    def of_shops(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the orders of each shop with their times, in the order of these."""
        found: dict[str, list[tuple[int, int]]] = {}
        for number, ts in sorted(self.times[ORDERS].items(), key=lambda each: each[1]):
            found.setdefault(self.shops[number], []).append((number, ts))
        yield from found.values()


def _unpaid(seen: Seen) -> Answers:
    """Return the orders that nobody pays within the window, at the end of it."""
    window, paid = WINDOW_S * _SECOND, seen.times[PAYMENTS]
    orders = seen.times[ORDERS].items()
    return {(number,): ts + window for number, ts in orders if not 0 < paid.get(number, -1) - ts <= window}


def _next(seen: Seen) -> Answers:
    """Return each order with the next one of its shop."""
    return {(a, b): ts for orders in seen.of_shops() for (a, _), (b, ts) in zip(orders, orders[1:], strict=False)}


def _runs(seen: Seen) -> Answers:
    """Return the ends of runs of orders of a shop that do not follow each other closely."""
    found: Answers = {}
    for orders in seen.of_shops():
        for at, (first, _) in enumerate(orders):
            before = first
            for number, ts in orders[at + 1 :]:
                if number <= before + _APART:
                    break
                found[first, number] = ts
                before = number
    return found


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and a loop that answers it."""

    name: str
    text: str
    answers: Callable[[Seen], Answers]
    clock: str
    """Channel whose clock shows that an answer is there."""
    reads: tuple[str, ...]
    """Channels that are read."""


QUESTIONS = (
    Question("absence", unpaid_text(), _unpaid, PAYMENTS, (ORDERS, PAYMENTS)),
    Question("NEXT", f"{ORDERS}[./shop->s] NEXT {{s = t}} {ORDERS}[./shop->t]", _next, ORDERS, (ORDERS,)),
    Question(
        "FOLD",
        f"{ORDERS}[./shop->s][./no->m] FOLD {{s = t WHILE n > last(n, m) + {_APART}}} {ORDERS}[./shop->t][./no->n]",
        _runs,
        ORDERS,
        (ORDERS,),
    ),
)
"""Orders that nobody pays, each order with the next one of its shop, and runs of orders of a shop."""
