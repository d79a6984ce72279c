"""Quotas of a home: the one module that writes table ``quotas``.

A quota bounds what one owner, or one query in one batch, may have.  Quotas count work, never time.  They are off until
somebody sets them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import QUOTAS

__all__ = ["Quotas", "read_quotas", "set_quotas"]

_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of a home; None: any number."""

    queries: int | None = None
    """Live queries of one owner at most."""
    bindings: int | None = None
    """Witness rows of one query's variables in one batch at most."""
    pairs: int | None = None
    """Combinations of documents of one query in one batch at most."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (type(value) is not int or not 0 <= value < _MOST):
                raise CatalogError("XSCL_BAD_OPTION", f"quota {name} is {value!r}; it is a whole number, 0 at least")


def read_quotas(connection: Connection) -> Quotas:
    """Read the quotas of a home."""
    return Quotas(**{row.quota: row.most for row in connection.execute(*_quotas())})


@prepared
def _quotas() -> sa.Select[Any]:
    return sa.select(QUOTAS)


def set_quotas(connection: Connection, **changed: int | None) -> Quotas:
    """Set the quotas that are named, and return all of them.

    Raises:
        CatalogError: ``XSCL_BAD_OPTION``: a quota is no whole number.
    """
    quotas = replace(read_quotas(connection), **changed)
    connection.execute(QUOTAS.delete())
    rows = [{"quota": name, "most": most} for name, most in asdict(quotas).items() if most is not None]
    if rows:
        connection.execute(QUOTAS.insert(), rows)
    return quotas
