"""Standing queries that join XML documents, feeds and rows by value inside time windows, on Spark.

    import xscl

    with xscl.connect(home="xscl-home") as engine:
        engine.register("S//book->x1[./author->x2] FOLLOWED BY {x2=x5, 7 days} S//blog->x4[./author->x5]", name="Q1")
        engine.ingest([xscl.Event("S", "d1", 1, xml="<book><author>A</author></book>")])
        engine.run_once()
        for match in engine.matches("Q1"):
            print(match.document)

Names are loaded when they are first used, because every Spark worker that runs a part of xscl imports this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from xscl.base.version import VERSION

if TYPE_CHECKING:
    from xscl.answers.once.once import Answer
    from xscl.answers.spark_sources.sessions import register_sources
    from xscl.base.errors import (
        CatalogError,
        DocumentError,
        EngineError,
        QueryError,
        SourceError,
        XsclError,
    )
    from xscl.base.own_functions import OwnFunction, function
    from xscl.base.settings import Settings
    from xscl.base.types import Event, Match, MatchEvent, QueryOutcome
    from xscl.engine import Engine, RunHandle, connect
    from xscl.ingest.reading import Reading
    from xscl.registry.channels import ChannelOptions

__all__ = [
    "Answer",
    "CatalogError",
    "ChannelOptions",
    "DocumentError",
    "Engine",
    "EngineError",
    "Event",
    "Match",
    "MatchEvent",
    "OwnFunction",
    "QueryError",
    "QueryOutcome",
    "Reading",
    "RunHandle",
    "Settings",
    "SourceError",
    "XsclError",
    "connect",
    "function",
    "register_sources",
]
__version__ = VERSION

_HOME_OF = {
    "xscl.engine": ("Engine", "RunHandle", "connect"),
    "xscl.base.errors": ("CatalogError", "DocumentError", "EngineError", "QueryError", "SourceError", "XsclError"),
    "xscl.answers.once.once": ("Answer",),
    "xscl.ingest.reading": ("Reading",),
    "xscl.registry.channels": ("ChannelOptions",),
    "xscl.answers.spark_sources.sessions": ("register_sources",),
    "xscl.base.own_functions": ("OwnFunction", "function"),
    "xscl.base.settings": ("Settings",),
    "xscl.base.types": ("Event", "Match", "MatchEvent", "QueryOutcome"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOME_OF.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'xscl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
