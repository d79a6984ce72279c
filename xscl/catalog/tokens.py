"""Tokens of the service: the one module that writes table ``tokens``.

A token is shown once, when it is made.  The catalogue has its digest, so whoever reads the catalogue cannot use it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import require_name
from xscl.catalog.tables import TOKENS

__all__ = [
    "SCOPES",
    "Token",
    "add_token",
    "forget_tokens",
    "list_tokens",
    "read_limits",
    "read_token",
    "revoke_token",
    "set_limits",
]

SCOPES = ("read", "write", "admin")
"""Scopes of tokens: ``read`` lists, ``write`` pushes events and registers queries, ``admin`` does everything."""
_PREFIX = "xscl_"
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the catalogue has it."""

    name: str
    """Name of its holder, who owns the queries that are registered with it."""
    scopes: frozenset[str]
    created: int
    """Time of its making, microseconds since the epoch."""
    queries: int | None = None
    """Live queries of its name at most; None: any number."""
    cost: int | None = None
    """Cost of all of them at most; None: any."""

    def admits(self, scope: str) -> bool:
        """Return whether the holder may do what a scope stands for."""
        return scope in self.scopes or "admin" in self.scopes


def add_token(
    connection: Connection,
    name: str,
    scopes: Collection[str],
    now: int,
    *,
    queries: int | None = None,
    cost: int | None = None,
) -> str:
    """Make a token and return its text, which nothing keeps.

    Args:
        connection: of a transaction.
        name: its holder.
        scopes: some of ``SCOPES``.
        now: microseconds since the epoch.
        queries: live queries of its name at most; None: any number.
        cost: cost of all of them at most; None: any.

    Raises:
        CatalogError: ``XSCL_BAD_OPTION``: there is no such scope, or none; a limit is below 0.  ``XSCL_TOKEN_EXISTS``:
            the name is taken.
    """
    require_name(name)
    for limit, most in (("queries", queries), ("cost", cost)):
        if most is not None and not 0 <= most < _MOST:
            raise CatalogError("XSCL_BAD_OPTION", f"{limit} is {most}; it is a whole number, 0 at least")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise CatalogError("XSCL_BAD_OPTION", f"there is no scope {unknown[0]!r}", hint=", ".join(SCOPES))
    if not scopes:
        raise CatalogError("XSCL_BAD_OPTION", "a token has one scope at least", hint=", ".join(SCOPES))
    if connection.scalar(sa.select(TOKENS.c.name).where(TOKENS.c.name == name)) is not None:
        raise CatalogError(
            "XSCL_TOKEN_EXISTS", f"there is a token {name}", hint=f"'xscl token revoke {name}' ends it; or another name"
        )
    text = _PREFIX + secrets.token_urlsafe(32)
    connection.execute(
        TOKENS.insert().values(
            name=name,
            digest=_digest(text),
            scopes=" ".join(sorted(set(scopes))),
            created=now,
            queries=queries,
            cost=cost,
        )
    )
    return text


def read_token(connection: Connection, text: str) -> Token | None:
    """Return the token of a text; None if there is none."""
    if not text.startswith(_PREFIX):
        return None
    digest = _digest(text)
    row = connection.execute(sa.select(TOKENS).where(TOKENS.c.digest == digest)).one_or_none()
    return None if row is None or not hmac.compare_digest(row.digest, digest) else _token(row)


def read_limits(connection: Connection, name: str) -> tuple[int | None, int | None]:
    """Return how many live queries a name may have by its token, and what they may cost; None: any number."""
    row = connection.execute(sa.select(TOKENS.c.queries, TOKENS.c.cost).where(TOKENS.c.name == name)).one_or_none()
    return (None, None) if row is None else (row.queries, row.cost)


def list_tokens(connection: Connection) -> list[Token]:
    """List the tokens by name."""
    return [_token(row) for row in connection.execute(sa.select(TOKENS).order_by(TOKENS.c.name))]


def set_limits(connection: Connection, name: str, changed: Mapping[str, int | None]) -> None:
    """Change limits of a token: ``queries``, ``cost``.

    Raises:
        CatalogError: ``XSCL_TOKEN_NOT_FOUND``.
    """
    named = TOKENS.update().where(TOKENS.c.name == name)
    if not connection.execute(named.values(name=name, **changed)).rowcount:
        raise _unknown(name)


def revoke_token(connection: Connection, name: str) -> None:
    """End a token; requests with it are refused from now on.

    Raises:
        CatalogError: ``XSCL_TOKEN_NOT_FOUND``.
    """
    if not connection.execute(TOKENS.delete().where(TOKENS.c.name == name)).rowcount:
        raise _unknown(name)


def forget_tokens(connection: Connection) -> None:
    """Remove all tokens."""
    connection.execute(TOKENS.delete())


def _unknown(name: str) -> CatalogError:
    return CatalogError("XSCL_TOKEN_NOT_FOUND", f"there is no token {name}", hint="'xscl token list' has them")


def _digest(text: str) -> str:
    # A token has 256 bits of chance: a slow hash would make guessing no harder.
    return hashlib.sha256(text.encode()).hexdigest()


def _token(row: sa.Row[tuple[object, ...]]) -> Token:
    return Token(row.name, frozenset(row.scopes.split()), row.created, row.queries, row.cost)
