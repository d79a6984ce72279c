"""Queries and documents of which tests know what quotas count."""

from __future__ import annotations

from xscl import Event

GREEDY = "S/d[./a->x] JOIN {x = y, 1 h} S/d[./a->y]"
MODEST = "S/d[./b->x] FOLLOWED BY {x = y, 1 h} S/d[./b->y]"
TEXTS = [
    GREEDY,
    MODEST,
    "S//b",
    "S/d[./a->x][./b->z] JOIN {x = y AND z = w, 1 h} S/d[./a->y][./b->w]",
    f"{MODEST} STARTING ALL",
    "S/d->p[./b->x] JOIN {x = y, 1 h} S/d->q[./b->y] JOIN {y = z, 1 h} S/d->r[./b->z]",
]


def document(number: int, *, a: int = 3) -> Event:
    """A document with values 0, 1, … of a, and a value of b that two documents share."""
    values = "".join(f"<a>{value}</a>" for value in range(a))
    return Event("S", f"d{number}", number, xml=f"<d>{values}<b>{number // 2}</b></d>")
