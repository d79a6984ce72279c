"""Allowances of owners: how many live queries one may have, and what they may cost together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.shown import counted
from xscl.base.ways import way
from xscl.catalog.groups import owner_use
from xscl.catalog.quotas import read_quotas
from xscl.catalog.tokens import read_limits

__all__ = ["Allowances"]


@dataclass(slots=True)
class _Use:
    """Live queries of an owner, those that wait to be written included, and their limits; None: any number."""

    queries: int
    cost: int
    most_queries: int | None
    """Limit of the token of the owner's name."""
    most_cost: int | None


class Allowances:
    """Counts of what owners have and may have, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._most = read_quotas(connection).queries
        """Live queries of any owner at most; None: any number."""
        self._used: dict[str, _Use | None] = {}
        """Use by owner; None for those without a limit."""

    def forget(self) -> None:
        """Have everything counted again."""
        self._used.clear()

    def take(self, owner: str, cost: int, waiting: Iterable[tuple[str, int]]) -> None:
        """Count one more live query of an owner.

        Args:
            owner: '' for nobody.
            cost: of the query.
            waiting: owners and costs of the queries that are counted and not written yet.

        Raises:
            CatalogError: ``XSCL_TOO_MANY_QUERIES``, ``XSCL_QUERY_COST``.
        """
        if owner not in self._used:
            self._used[owner] = self._count(owner, waiting)
        used = self._used[owner]
        if used is None:
            return
        self._check(owner, used, cost)
        used.queries += 1
        used.cost += cost

    def _count(self, owner: str, waiting: Iterable[tuple[str, int]]) -> _Use | None:
        limits = read_limits(self._connection, owner) if owner else (None, None)
        if self._most is None and limits == (None, None):
            return None
        mine = [cost for name, cost in waiting if name == owner]
        queries, cost = owner_use(self._connection, owner)
        return _Use(queries + len(mine), cost + sum(mine), *limits)

    def _check(self, owner: str, used: _Use, cost: int) -> None:
        if self._most is not None and used.queries >= self._most:
            who = f"owner {owner!r} has" if owner else "there are without an owner"
            raise CatalogError(
                "XSCL_TOO_MANY_QUERIES",
                f"{who} {counted(used.queries, 'live query')}, and this home allows {self._most:,} of one owner",
                hint=f"drop one with {way('xscl query drop', 'engine.drop(NAME)')}, or have the quota raised with "
                f"{way('xscl quota set queries', 'engine.set_quotas(queries=…)')}",
            )
        if used.most_queries is not None and used.queries >= used.most_queries:
            raise CatalogError(
                "XSCL_TOO_MANY_QUERIES",
                f"owner {owner!r} has {counted(used.queries, 'live query')}, and the token allows "
                f"{used.most_queries:,}",
                hint="drop one, or ask an administrator for 'xscl token set --queries'",
            )
        if used.most_cost is not None and used.cost + cost > used.most_cost:
            raise CatalogError(
                "XSCL_QUERY_COST",
                f"the query costs {cost:,} and the live ones of owner {owner!r} {used.cost:,}; the token allows "
                f"{used.most_cost:,} together",
                hint="join fewer values, drop a query, or ask an administrator for 'xscl token set --cost'",
            )
