"""Settings of how a home is worked on; no setting changes an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xscl.base.errors import EngineError

__all__ = [
    "DEFAULT_BATCH_DOCS",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_NODES",
    "DEFAULT_SETTINGS",
    "Settings",
    "parse_size",
]

# Of limits of documents (``safexml.Limits``) and of batches; the command line shows them, and loads neither.
DEFAULT_BATCH_DOCS = 10_000
DEFAULT_MAX_BYTES = 16 << 20
DEFAULT_MAX_NODES = 500_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds of the work that the driver does itself."""

    driver_rows: int = 20_000_000
    """The driver joins a batch if neither its witness rows nor the pairs of rows that it looks at are more; Spark's
    executors do the others.  With 0 they do every step of all batches."""
    cache_bytes: int = 512 << 20
    """Memory for join state in the driver; what does not fit is read from the files when it is needed."""

    def __post_init__(self) -> None:
        for name in ("driver_rows", "cache_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise EngineError("XSCL_BAD_OPTION", f"{name} is {value!r}; it is a whole number, 0 at least")


DEFAULT_SETTINGS = Settings()

_SIZE = re.compile(r"(\d{1,15})([kmg]?)", re.ASCII | re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


def parse_size(text: str) -> int:
    """Parse a number of bytes, with ``k``, ``m`` or ``g`` behind it for powers of 1,024.

    Raises:
        ValueError: the text is no size.

    >>> parse_size("300"), parse_size("64k"), parse_size("2G")
    (300, 65536, 2147483648)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size; write bytes, or a whole number with k, m or g, as in 512m")
    return int(found[1]) << _UNITS[found[2].lower()]
