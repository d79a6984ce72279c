"""Settings of how a home is worked on; no setting changes an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from xscl.base.errors import EngineError

__all__ = [
    "DEFAULT_BATCH_DOCS",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_NODES",
    "DEFAULT_SETTINGS",
    "WHERE",
    "Settings",
    "Where",
]

# Of limits of documents (``safexml.Limits``) and of batches; the command line shows them, and loads neither.
DEFAULT_BATCH_DOCS = 10_000
DEFAULT_MAX_BYTES = 16 << 20
DEFAULT_MAX_NODES = 500_000


Where = Literal["auto", "driver", "spark"]
WHERE: tuple[str, ...] = get_args(Where)
"""Places of work by name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices of where work is done, and what queries share."""

    where: Where = "auto"
    """``driver``: in this process; ``spark``: in tasks of Spark; ``auto``: in tasks what these end sooner, by counted
    work and measured prices."""
    rules: str = "all"
    """Rules by which queries that are registered share work with others, as ``xscl plan --rules`` names them; less
    than all of them is for benchmarks, and for tests that compare answers."""

    def __post_init__(self) -> None:
        if self.where not in WHERE:
            raise EngineError("XSCL_BAD_OPTION", f"where is {self.where!r}; it is one of {', '.join(WHERE)}")


DEFAULT_SETTINGS = Settings()
