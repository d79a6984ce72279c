"""The tables of the catalogue, declared once (SQLAlchemy Core).

Modules in reading order: the home and what is registered, then what is taken in, joined and delivered.  The tables of
one owner are in one file.
``rt_<template>`` tables, one for each template, come beside these: ``groups.stored_rt``.

* ``columns``: The metadata of all tables, and columns and indexes of kinds that many of them have
* ``statements``: Statements that name many values, and statements whose many rows are taken as they are
* ``home``: The home itself: its place in the intake order, its quotas, and who may ask it
* ``channels``: Channels, their streams, and the sets of streams that events belong to
* ``feeds``: Inputs: feeds with their hosts and clocks, and other inputs that grow
* ``groups``: Groups of queries, with what they share, and the parts that some of them are made of
* ``queries``: Registered queries
* ``events``: Events that were taken in: their files, their ids, and their removals
* ``late``: Late and rejected events
* ``batches``: Batches, and the matches that they took back
* ``state_files``: Files of the join state, and files that went out of use
* ``deliveries``: Deliveries of matches, and what was given up
"""

from __future__ import annotations

from xscl.catalog.tables.batches import BATCHES, HAS_CHANGES, RETRACTIONS
from xscl.catalog.tables.channels import CHANNELS, MEMBERSHIPS, STREAMS
from xscl.catalog.tables.columns import METADATA
from xscl.catalog.tables.deliveries import DEAD_LETTERS, DELIVERIES
from xscl.catalog.tables.events import EVENT_IDS, HAS_OTHER_BASE, INTAKE_FILES, REMOVALS, ROW_RANGES
from xscl.catalog.tables.feeds import FEED_CLOCKS, FEEDS, HOSTS, SOURCES
from xscl.catalog.tables.groups import (
    GROUPS,
    GUARDS,
    INSTANCES,
    IS_OF_ABSENCE,
    IS_OF_STEPS,
    IS_OF_WINDOWS,
    IS_RETRACTING,
    NOTHING_FORBIDDEN,
    OF_STEPS,
    OF_WINDOWS,
    PARTS,
    TEMPLATES,
    VARIABLES,
)
from xscl.catalog.tables.home import FLUSHES, HEARTBEATS, HOME, QUOTAS, SCHEMA_VERSION, TOKENS, TOTALS
from xscl.catalog.tables.late import LATE, REJECTED
from xscl.catalog.tables.queries import (
    HAS_SPARE,
    IS_DROPPED,
    IS_LISTED,
    IS_PUBLISHING,
    IS_SUSPENDED,
    IS_WAITING,
    NEVER,
    QUERIES,
)
from xscl.catalog.tables.state_files import OLD_FILES, STATE_FILES
from xscl.catalog.tables.statements import among, in_parts, raw_rows

__all__ = [
    "BATCHES",
    "CHANNELS",
    "DEAD_LETTERS",
    "DELIVERIES",
    "EVENT_IDS",
    "FEEDS",
    "FEED_CLOCKS",
    "FLUSHES",
    "GROUPS",
    "GUARDS",
    "HAS_CHANGES",
    "HAS_OTHER_BASE",
    "HAS_SPARE",
    "HEARTBEATS",
    "HOME",
    "HOSTS",
    "INSTANCES",
    "INTAKE_FILES",
    "IS_DROPPED",
    "IS_LISTED",
    "IS_OF_ABSENCE",
    "IS_OF_STEPS",
    "IS_OF_WINDOWS",
    "IS_PUBLISHING",
    "IS_RETRACTING",
    "IS_SUSPENDED",
    "IS_WAITING",
    "LATE",
    "MEMBERSHIPS",
    "METADATA",
    "NEVER",
    "NOTHING_FORBIDDEN",
    "OF_STEPS",
    "OF_WINDOWS",
    "OLD_FILES",
    "PARTS",
    "QUERIES",
    "QUOTAS",
    "REJECTED",
    "REMOVALS",
    "RETRACTIONS",
    "ROW_RANGES",
    "SCHEMA_VERSION",
    "SOURCES",
    "STATE_FILES",
    "STREAMS",
    "TEMPLATES",
    "TOKENS",
    "TOTALS",
    "VARIABLES",
    "among",
    "in_parts",
    "raw_rows",
]
