"""Words for the health of a feed."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Health"]


class Health(StrEnum):
    """State of a feed."""

    ok = "ok"
    """A feed whose last poll brought an answer that was taken."""
    new = "new"
    """A subscribed feed that was not asked yet."""
    failing = "failing"
    """A feed whose last poll, or several in a row, brought nothing."""
    paused = "paused"
    """A feed that is not asked, as its owner wants."""
    stopped = "stopped"
    """A feed that is gone, or has moved to another feed's address, and is not asked."""
    file = "file"
    """A feed that was read from files, or whose subscription ended."""
