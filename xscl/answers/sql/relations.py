"""Relations that a statement of SQL reads, each with the steps that the statement needs.  Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.sql.channel_views import ChannelNames, ChannelView, channel_steps, read_views
from xscl.answers.sql.guard import Judged, judge
from xscl.answers.sql.match_steps import count_steps
from xscl.answers.sql.relation_steps import RELATION_NAMES, relation_steps, template_relations
from xscl.answers.sql.steps import Needs, Step, with_statement
from xscl.base.docids import place_words
from xscl.base.errors import EngineError
from xscl.catalog.groups import read_templates
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.memberships import member_names
from xscl.catalog.retractions import has_retractions
from xscl.catalog.suggestions import nearest
from xscl.catalog.tables import CHANNELS, EVENT_IDS, QUERIES
from xscl.store.event_spans import EVERYTHING
from xscl.store.home import Home
from xscl.store.join_state import held_state
from xscl.templates.template import Template

__all__ = ["HomeRelations", "home_relations", "steps_text"]

_OF_MEMBERS = frozenset(["match", "ts_min", "ts_max", "received_min", "received_max", "replaces"])
"""Columns of ``matches`` for which events are read."""
_OF_MEMBER = frozenset(["channel", "id", "version"])
"""Columns of ``match_members`` for which events are read."""
_OF_STATE = frozenset(["r_bin", "r_doc"])
"""Relations of rows of the join state."""


@contextmanager
def home_relations(home: Home) -> Iterator[HomeRelations]:
    """Open the relations of a home as of one moment; frames that are made meanwhile show that moment."""
    with home.catalog.read() as connection:
        views = read_views(connection)
        names = ChannelNames.of(views)
        yield HomeRelations(home, connection, template_relations(read_templates(connection)), views, names)


@dataclass(frozen=True, slots=True)
class HomeRelations:
    """Relations of a home, as of one moment."""

    home: Home
    connection: Connection
    """Snapshot of the catalogue."""
    templates: Mapping[str, Template]
    """Templates by ``rt_<template>`` and ``rout_<template>``."""
    views: Mapping[str, ChannelView]
    """Channels by their names."""
    channels: ChannelNames

    @property
    def names(self) -> frozenset[str]:
        """Names of all relations."""
        channels = self.channels
        return frozenset((*RELATION_NAMES, *self.templates, *channels.listed, *channels.full, *channels.shared))

    @property
    def listed(self) -> frozenset[str]:
        """Names of all relations, each under one name."""
        return frozenset((*RELATION_NAMES, *self.templates, *self.channels.listed))

    def view(self, relation: str) -> ChannelView | None:
        """Return the channel whose relation has this name.

        Raises:
            EngineError: ``XSCL_SQL``: it is the short name of several.
        """
        if relation in self.channels.shared and relation not in self.channels.full:
            those = self.channels.shared[relation]
            full = {channel: name for name, channel in self.channels.full.items() if channel in those}
            raise EngineError(
                "XSCL_SQL",
                f"{relation} may be the relation of several channels: {', '.join(those)}",
                hint="; ".join(f"{full[channel]} is that of {channel}" for channel in those),
            )
        channel = self.channels.channel(relation)
        return None if channel is None else self.views[channel]

    def steps(self, judged: Judged) -> tuple[str, dict[str, list[Step]]]:
        """Give the text of a statement for Spark, and the steps of each relation that it reads."""
        relations = sorted(judged.relations & (self.listed if judged.kind == "show" else self.names))
        needs = self.needs(judged.columns, relations)
        found = {name: self._steps(name, needs, judged) for name in relations}
        if judged.counts is None or needs.reads_events:
            return judged.text, found
        return judged.counts, {**found, "matches": count_steps()}

    def _steps(self, name: str, needs: Needs, judged: Judged) -> list[Step]:
        view = self.view(name)
        if view is None:
            return relation_steps(name, needs, self.templates)
        return channel_steps(name, view, judged.times.get(name, EVERYTHING), judged.columns)

    def check_columns(self, judged: Judged) -> None:
        """Refuse a column that no relation of a statement has, where the statement's text tells that.

        Raises:
            EngineError: ``XSCL_SQL``.
        """
        needs = Needs()
        known = {
            column.strip("`")
            for name in judged.relations & self.names
            for column in self._steps(name, needs, judged)[-1].columns
        }
        for name in sorted(judged.named - {column.lower() for column in known}):
            found = nearest(name, known)
            meant = "" if found is None else f"; did you mean {found}?"
            read = ", ".join(sorted(judged.relations)) or "this statement"
            hint = "xscl sql 'SHOW COLUMNS IN relation' lists them"
            raise EngineError("XSCL_SQL", f"there is no column {name!r} in {read}{meant}", hint=hint)

    def needs(self, columns: Collection[str] | None = None, relations: Collection[str] = ()) -> Needs:
        """Find out what these columns of ``matches`` need, or with None all of them, and the state of the home."""
        connection = self.connection
        streams = bool(list(member_names(connection)))
        named = None if columns is None else frozenset(columns)
        if named is not None and "match_members" in relations:
            named |= {"docids"}
        newer = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.version > 1).limit(1)
        by_time = sa.or_(QUERIES.c.ts_from.is_not(None), QUERIES.c.held_from.is_not(None))
        timed = sa.select(QUERIES.c.query).where(by_time).limit(1)
        retracted = has_retractions(connection)
        held = sa.select(QUERIES.c.digest).where(QUERIES.c.history.is_not(None)).group_by(QUERIES.c.digest)
        return Needs(
            processed=read_last_places(connection)[0],
            members=named is None or bool(named & (_OF_MEMBERS | {"docids"} if streams else _OF_MEMBERS)),
            # What is replaced costs a join of all matches with themselves.
            replaces=(named is None or "replaces" in named) and connection.scalar(newer) is not None,
            streams=streams,
            kept=bool(connection.scalar(sa.select(sa.func.count(CHANNELS.c.kept_from)))),
            timed=connection.scalar(timed) is not None,
            repeats=retracted or connection.scalar(held.having(sa.func.count() > 1).limit(1)) is not None,
            retracted=retracted,
            facts="match_members" in relations and (named is None or not _OF_MEMBER.isdisjoint(named)),
            floors=not _OF_STATE.isdisjoint(relations) and held_state(self.home, connection).floors is not None,
        )


def steps_text(home: Home, statement: str) -> str:
    """Write the relations that a statement reads as WITH statements, one after another.

    Raises:
        EngineError: ``XSCL_SQL``: the statement does something else than reading, or names a column that no relation
            of it has.
    """
    with home_relations(home) as relations:
        judged = judge(statement, relations.names)
        relations.check_columns(judged)
        _, steps = relations.steps(judged)
    return place_words("\n\n".join(f"{with_statement(each)};" for each in steps.values()))
