"""The words for how a feed does."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Health"]


class Health(StrEnum):
    """State of a feed."""

    ok = "ok"
    """Its last poll brought an answer that was taken."""
    new = "new"
    """It is subscribed and was not asked yet."""
    failing = "failing"
    """Its last poll, or several in a row, brought nothing."""
    paused = "paused"
    """It is not asked, as its owner wants."""
    stopped = "stopped"
    """It is not asked, because it is gone, or has moved to another feed's address."""
    file = "file"
    """It is not subscribed: it was read from files, or its subscription ended."""
