"""Groups of queries, with what they share, and the parts that some of them are made of."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, index_some, needed

__all__ = [
    "GROUPS",
    "GUARDS",
    "INSTANCES",
    "IS_OF_ABSENCE",
    "IS_OF_STEPS",
    "IS_OF_WINDOWS",
    "IS_RETRACTING",
    "NOTHING_FORBIDDEN",
    "OF_STEPS",
    "OF_WINDOWS",
    "PARTS",
    "TEMPLATES",
    "VARIABLES",
]

TEMPLATES = Table(
    "templates",
    METADATA,
    Column("template", String, primary_key=True),
    needed("certificate", Text),
    needed("blocks", Text),
    needed("parents", Text),
    needed("joins", Text),
)
INSTANCES = Table(
    "instances",
    METADATA,
    Column("iid", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    needed("template", String),
)
VARIABLES = Table(
    "variables",
    METADATA,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("var", String, nullable=False, index=True),
    needed("channel", String),
    needed("definition", Text),
    Column("example", String, comment="a name some query gives it"),
)
GUARDS = Table(
    "guards",
    METADATA,
    Column("guard", String, primary_key=True, comment="16 hex digits, as rt_ tables name it"),
    needed("text", Text, "the topmost node of a block, with the conditions of the guard"),
    needed("alternatives", Text, "JSON: alternatives of literals, each a variable, an operator and a constant"),
)
GROUPS = Table(
    "groups",
    METADATA,
    Column("gid", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    needed("iid", Integer),
    needed("template", String),
    needed("text", Text, "a text of a query of the group, from which it is compiled"),
    needed("namespaces", Text),
    needed("channels", Text, "and the streams it names: a JSON list, sorted, each once", "[]"),
    sa.Index("groups_channels", "channels"),
    sa.Index("groups_instance", "iid"),
)
_REMEMBERS = sa.text("memory IS NOT NULL")
PARTS = Table(
    "parts",
    METADATA,
    Column("gid", Integer, primary_key=True, autoincrement=False, comment="a group of queries about absence"),
    Column("number", Integer, primary_key=True, autoincrement=False, comment="0: what is wanted; others: forbidden"),
    needed("part", Integer, "the group that finds it"),
    Column("ends", Text, comment="JSON, of what is wanted: channels, and when the time of what is forbidden ends"),
    Column("shown", Integer, comment="of what is wanted: how many of its nodes make a match"),
    Column("blocking", BigInteger, comment="of what is wanted: clocks are so far beyond answers; NULL: the lateness"),
    Column("memory", BigInteger, comment="how far behind clocks events may come, and correct; NULL: the lateness"),
    needed("retracts", Boolean, "of what is wanted: newer versions and removals take matches back", sa.false()),
    sa.Index("parts_part", "part"),
    sa.Index("parts_memory", "memory", sqlite_where=_REMEMBERS),
)
NOTHING_FORBIDDEN = "[]"
"""``parts.ends`` of queries whose matches only newer versions of items take back."""
OF_WINDOWS = '"windows"'
"""``parts.ends`` of queries whose windows are over what a part finds."""
OF_STEPS = '"steps"'
"""``parts.ends`` of queries whose steps are over what parts find."""
IS_OF_WINDOWS = PARTS.c.ends == sa.literal_column(f"'{OF_WINDOWS}'")
IS_OF_STEPS = PARTS.c.ends == sa.literal_column(f"'{OF_STEPS}'")
IS_RETRACTING = PARTS.c.retracts == sa.true()
"""Condition that newer versions and removals take back what a part finds."""
IS_OF_ABSENCE = sa.or_(
    PARTS.c.ends.is_(None), PARTS.c.ends.not_in([sa.literal_column(f"'{each}'") for each in (OF_WINDOWS, OF_STEPS)])
)
"""Condition that what a part finds is wanted or forbidden, and no windows or steps are over it."""

index_some("parts_retracting", PARTS.c.gid, IS_RETRACTING)
index_some("parts_absence", PARTS.c.part, IS_OF_ABSENCE)
index_some("parts_of_windows", PARTS.c.gid, IS_OF_WINDOWS)
index_some("parts_of_steps", PARTS.c.gid, IS_OF_STEPS)
