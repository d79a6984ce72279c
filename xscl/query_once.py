"""Asking once: a text is answered from what is held, and nothing is registered or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from xscl.backfill import answer_held
from xscl.catalog import QueryInfo
from xscl.event_files import EVENT_SCHEMA, event_document
from xscl.home import Home
from xscl.matches import StoredMatch, events_of, match_id, selection_of
from xscl.queries import reads
from xscl.registry import Registry
from xscl.safexml import in_fresh_dictionary, parse_stored
from xscl.settings import Settings
from xscl.tables import NEVER, QUERIES
from xscl.types import Match, MatchEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.output import Selection

__all__ = ["query_once", "waiting_note"]

_PART = 500
"""Matches whose documents are read together."""
