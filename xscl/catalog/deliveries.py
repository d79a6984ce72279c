"""Deliveries of matches and what was given up: the one module that writes tables ``deliveries`` and ``dead_letters``.

A delivery keeps the cursor behind all that is at its target.  The cursor moves after the target has taken the matches,
so a process that ends in between sends them again, with the same ids.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import require_name
from xscl.catalog.tables import DEAD_LETTERS, DELIVERIES

__all__ = [
    "DeadLetter",
    "Delivery",
    "add_delivery",
    "count_dead_letters",
    "deliveries_to_repeat",
    "drop_delivery",
    "forget_deliveries",
    "give_up",
    "list_deliveries",
    "new_secret",
    "note_failure",
    "note_file",
    "note_sent",
    "read_dead_letters",
    "read_delivery",
    "replay",
    "replay_from",
    "settle_dead_letter",
]

_PREFIX = "xsclw_"
_MOST_PROBLEM = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as the catalogue has it; times are microseconds since the epoch."""

    name: str
    query: str
    kind: str
    """``web`` or ``files``."""
    target: str
    """Address of the web, or folder."""
    cursor: str
    """Place behind all that was delivered or given up."""
    created: int
    secret: str | None = field(default=None, repr=False)
    """Key of the signatures; None of files."""
    private: bool = False
    """Whether the target may be on a private network."""
    most_bytes: int | None = None
    """Size at which a file ends; None of addresses."""
    file: str | None = None
    """File that is written; None: none yet."""
    size: int = 0
    """Bytes of it that are delivered."""
    sent: int = 0
    """Matches delivered."""
    failures: int = 0
    """Attempts that failed, one after the other."""
    failing: int | None = None
    """Time of the first of them."""
    due: int = 0
    """Time before which nothing is sent."""
    problem: str | None = None
    """Reason of the last failure; None after a success."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Matches that were given up, as the part of the order of commits in which they stand."""

    after: str
    """Cursor before the first match."""
    until: str
    """Cursor behind the last match."""
    matches: int
    problem: str
    """Reason why they were given up."""
    given_up: int
    """Time of that, microseconds since the epoch."""
    again: bool = False
    """Whether they are sent again."""
    number: int = 0


def new_secret() -> str:
    """Make a key of signatures."""
    return _PREFIX + secrets.token_urlsafe(32)


def add_delivery(connection: Connection, delivery: Delivery) -> None:
    """Add a delivery.

    Raises:
        CatalogError: ``XSCL_DELIVERY_EXISTS``: the name is taken.
    """
    require_name(delivery.name)
    if connection.scalar(sa.select(DELIVERIES.c.name).where(DELIVERIES.c.name == delivery.name)) is not None:
        raise CatalogError(
            "XSCL_DELIVERY_EXISTS",
            f"there is a delivery {delivery.name}",
            hint=f"'xscl deliver drop {delivery.name}' ends it; or another name",
        )
    connection.execute(DELIVERIES.insert().values(asdict(delivery)))


def list_deliveries(connection: Connection) -> list[Delivery]:
    """List the deliveries by name."""
    return [_delivery(row) for row in connection.execute(sa.select(DELIVERIES).order_by(DELIVERIES.c.name))]


def read_delivery(connection: Connection, name: str) -> Delivery:
    """Return a delivery.

    Raises:
        CatalogError: ``XSCL_DELIVERY_NOT_FOUND``.
    """
    row = connection.execute(sa.select(DELIVERIES).where(DELIVERIES.c.name == name)).one_or_none()
    if row is None:
        raise _unknown(name)
    return _delivery(row)


def drop_delivery(connection: Connection, name: str) -> None:
    """End a delivery; what is at its target stays there, and what was given up is forgotten.

    Raises:
        CatalogError: ``XSCL_DELIVERY_NOT_FOUND``.
    """
    if not connection.execute(DELIVERIES.delete().where(DELIVERIES.c.name == name)).rowcount:
        raise _unknown(name)
    connection.execute(DEAD_LETTERS.delete().where(DEAD_LETTERS.c.delivery == name))


def forget_deliveries(connection: Connection) -> None:
    """Remove all deliveries."""
    connection.execute(DELIVERIES.delete())
    connection.execute(DEAD_LETTERS.delete())


def note_sent(connection: Connection, delivery: Delivery, cursor: str, sent: int, size: int = 0) -> None:
    """Note that a delivery has reached a cursor with so many matches more, and so many bytes of its file."""
    _change(
        connection,
        delivery,
        cursor=cursor,
        sent=DELIVERIES.c.sent + sent,
        size=size,
        failures=0,
        failing=None,
        due=0,
        problem=None,
    )


def note_file(connection: Connection, delivery: Delivery, file: str) -> None:
    """Note that a delivery goes on in a file, before anything is written to it."""
    _change(connection, delivery, file=file, size=0)


def note_failure(connection: Connection, delivery: Delivery, problem: str, *, now: int, due: int) -> None:
    """Note that an attempt failed, and when the next one is due."""
    failing = now if delivery.failing is None else delivery.failing
    failures = delivery.failures + 1
    _change(connection, delivery, problem=problem[:_MOST_PROBLEM], failures=failures, failing=failing, due=due)


def give_up(connection: Connection, delivery: Delivery, letter: DeadLetter) -> None:
    """Have a delivery go on behind matches that its target did not take, and keep their place."""
    moved = _change(connection, delivery, cursor=letter.until, failures=0, failing=None, due=0, problem=letter.problem)
    if moved:
        values = {**asdict(letter), "delivery": delivery.name, "problem": letter.problem[:_MOST_PROBLEM]}
        del values["number"]
        connection.execute(DEAD_LETTERS.insert().values(values))


def read_dead_letters(connection: Connection, name: str, *, again: bool | None = None) -> list[DeadLetter]:
    """List what a delivery gave up, in that order; if said only what is sent again, or only what is not."""
    wanted = sa.select(DEAD_LETTERS).where(DEAD_LETTERS.c.delivery == name)
    if again is not None:
        wanted = wanted.where(DEAD_LETTERS.c.again.is_(again))
    return [_letter(row) for row in connection.execute(wanted.order_by(DEAD_LETTERS.c.number))]


def count_dead_letters(connection: Connection) -> dict[str, tuple[int, int]]:
    """Count what deliveries gave up, by delivery: letters and matches."""
    counted = sa.select(DEAD_LETTERS.c.delivery, sa.func.count(), sa.func.sum(DEAD_LETTERS.c.matches))
    rows = connection.execute(counted.group_by(DEAD_LETTERS.c.delivery)).all()
    return {name: (int(letters), int(matches)) for name, letters, matches in rows}


def deliveries_to_repeat(connection: Connection) -> frozenset[str]:
    """Name the deliveries that send again what they gave up."""
    wanted = sa.select(DEAD_LETTERS.c.delivery).where(DEAD_LETTERS.c.again.is_(True)).distinct()
    return frozenset(connection.scalars(wanted))


def settle_dead_letter(connection: Connection, name: str, letter: DeadLetter, problem: str | None) -> None:
    """Remove a letter of a delivery that its target took, or note why it did not."""
    # A letter that is gone by now may have left its number to another one.
    mine = sa.and_(
        DEAD_LETTERS.c.number == letter.number,
        DEAD_LETTERS.c.delivery == name,
        DEAD_LETTERS.c.given_up == letter.given_up,
        DEAD_LETTERS.c.after == letter.after,
    )
    if problem is None:
        connection.execute(DEAD_LETTERS.delete().where(mine))
        return
    connection.execute(DEAD_LETTERS.update().where(mine).values(again=False, problem=problem[:_MOST_PROBLEM]))


def replay(connection: Connection, name: str) -> int:
    """Have everything that a delivery gave up sent again, and try at once; return the number of matches.

    Raises:
        CatalogError: ``XSCL_DELIVERY_NOT_FOUND``.
    """
    read_delivery(connection, name)
    connection.execute(DEAD_LETTERS.update().where(DEAD_LETTERS.c.delivery == name).values(again=True))
    connection.execute(DELIVERIES.update().where(DELIVERIES.c.name == name).values(due=0))
    return count_dead_letters(connection).get(name, (0, 0))[1]


def replay_from(connection: Connection, name: str, cursor: str) -> None:
    """Have a delivery send again all matches behind a cursor; what it gave up is among them, or is forgotten.

    Raises:
        CatalogError: ``XSCL_DELIVERY_NOT_FOUND``.
    """
    delivery = read_delivery(connection, name)
    connection.execute(DEAD_LETTERS.delete().where(DEAD_LETTERS.c.delivery == name))
    _change(connection, delivery, cursor=cursor, failures=0, failing=None, due=0, problem=None)


def _change(connection: Connection, delivery: Delivery, **values: object) -> bool:
    """Change a delivery, unless it was dropped or set back since it was read; return whether it was changed."""
    mine = sa.and_(
        DELIVERIES.c.name == delivery.name,
        DELIVERIES.c.created == delivery.created,
        DELIVERIES.c.cursor == delivery.cursor,
    )
    return connection.execute(DELIVERIES.update().where(mine).values(**values)).rowcount > 0


def _delivery(row: sa.Row[tuple[object, ...]]) -> Delivery:
    return Delivery(**row._mapping)


def _letter(row: sa.Row[tuple[object, ...]]) -> DeadLetter:
    return DeadLetter(**{name: value for name, value in row._mapping.items() if name != "delivery"})


def _unknown(name: str) -> CatalogError:
    return CatalogError("XSCL_DELIVERY_NOT_FOUND", f"there is no delivery {name}", hint="'xscl deliver list' has them")
