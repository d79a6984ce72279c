"""The library's face: ``connect`` gives an engine on a home.

* ``answering``: Matches, events and relations of a home
* ``engine``: The engine on a home, and connecting to one
* ``ingesting``: Records into a home: events, heartbeats, removals, feeds, and late events once more
* ``opened``: A home that is open, with its registry and its Spark session
* ``registering``: Channels, queries and quotas of a home
* ``running``: Batches of a home, now or in a thread of their own

Modules that load Spark, Spark's SQL or the network are imported by what needs them.
"""

from __future__ import annotations

from xscl.batches.run_handle import RunHandle
from xscl.engine.engine import Engine, connect

__all__ = ["Engine", "RunHandle", "connect"]
