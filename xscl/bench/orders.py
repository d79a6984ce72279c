"""Orders and payments of the bench ``absence``: most orders are paid in time, some too late, some never.

Event times of both channels are disordered, and nothing is more than ``LATENESS_S`` behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.bench.report import Row

__all__ = ["LATENESS_S", "ORDERS", "PAYMENTS", "SCHEMAS", "WINDOW_S", "Part", "Trade", "joined_text", "unpaid_text"]

ORDERS, PAYMENTS = "orders", "payments"
SCHEMAS: Row = {ORDERS: "no long, shop string", PAYMENTS: "no long"}
WINDOW_S, LATENESS_S = 30 * 60, 10 * 60
_START_US = 1_700_000_000_000_000
_IN_TIME, _TOO_LATE = 0.95, 0.01
"""Parts of the orders that are paid within the window, and after it."""
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """Events that come together: tables of orders (``no``, ``shop``, ``ts``) and of payments (``no``, ``ts``)."""

    orders: pa.Table
    payments: pa.Table


@dataclass(frozen=True, slots=True)
class Trade:
    """So many orders, each of one of some shops."""

    orders: int
    shops: int
    seed: int
    gap_us: int = 50_000
    """Microseconds from one order to the next."""
    disordered: float = 0.2
    """Part of the events that come after newer ones."""

    def parts(self, size: int) -> Iterator[Part]:
        """Yield the events as they come, in parts of about so many."""
        chance = np.random.default_rng([self.seed, 1])
        ordered, paid = self._times()
        shops = np.char.add("S", self.shop_of().astype(str))
        own = np.flatnonzero(paid >= 0)
        kinds = [(np.arange(self.orders), ordered), (own, paid[own])]
        came = [self._came(chance, times) for _, times in kinds]
        order = [np.argsort(times, kind="stable") for times in came]
        together = np.sort(np.concatenate(came))
        begins = [0, 0]
        for end in [*together[size::size], together[-1] + 1]:
            tables = []
            for kind, (numbers, times) in enumerate(kinds):
                until = int(np.searchsorted(came[kind][order[kind]], end))
                some = order[kind][begins[kind] : until]
                begins[kind] = until
                columns = {"no": numbers[some], "ts": times[some]}
                tables.append(pa.table(columns if kind else {**columns, "shop": shops[numbers[some]]}))
            yield Part(*tables)

    def shop_of(self) -> _Int64s:
        """Return the shop of each order."""
        return np.random.default_rng([self.seed, 2]).integers(0, self.shops, self.orders)

    def unpaid(self) -> _Int64s:
        """Return the orders that nobody paid within the window."""
        ordered, paid = self._times()
        return np.flatnonzero((paid < 0) | (paid > ordered + WINDOW_S * 1_000_000))

    def _times(self) -> tuple[_Int64s, _Int64s]:
        """Return the event times of orders, and of their payments; -1: there is none."""
        chance = np.random.default_rng([self.seed, 0])
        ordered = _START_US + np.arange(self.orders, dtype=np.int64) * self.gap_us
        kind, within = chance.random(self.orders), chance.integers(1, WINDOW_S * 1_000_000 + 1, self.orders)
        later = within + WINDOW_S * 1_000_000
        paid = np.where(kind < _IN_TIME, ordered + within, np.where(kind < _IN_TIME + _TOO_LATE, ordered + later, -1))
        return ordered, paid

    def _came(self, chance: np.random.Generator, times: _Int64s) -> _Int64s:
        """Return when events come that happened at some times."""
        behind = chance.integers(0, LATENESS_S * 1_000_000, len(times))
        return np.where(chance.random(len(times)) < self.disordered, times + behind, times)


def unpaid_text(shop: int | None = None) -> str:
    """Return the query for orders that nobody pays, of one shop or of all."""
    return f"{_ordered(shop)} NOT FOLLOWED BY {{x = y, {WINDOW_S} s}} {PAYMENTS}[./no->y]"


def joined_text(shop: int | None = None) -> str:
    """Return the query for orders with their payments."""
    return f"{_ordered(shop)} FOLLOWED BY {{x = y, {WINDOW_S} s}} {PAYMENTS}[./no->y]"


def _ordered(shop: int | None) -> str:
    of_shop = "" if shop is None else f"[./shop = 'S{shop}']"
    return f"{ORDERS}{of_shop}[./no->x]"
