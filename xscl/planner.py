"""What the live queries ask, compiled once and written where the workers of a batch find it."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog import ChannelInfo, channel_facts
from xscl.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.home import Home
from xscl.parser import parse_query
from xscl.tables import GROUPS, QUERIES
from xscl.templates.program import LiveGroup, build_program, save_program
from xscl.templates.retention import ReachBuilder
from xscl.values import digest_text
from xscl.xpath.relational import RowShape, Split, asked_table, split_specs
from xscl.xpath.spec_files import SpecFiles, SpecKey, spec_key
from xscl.xpath.states import WitnessSpec

__all__ = ["Plan", "Planner", "row_shapes"]

_IN = 500
"""Groups whose texts are read together."""

_Facts = tuple[ChannelFacts | None, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the live queries need, compiled and written where workers find it."""

    specs_path: Path
    """What documents are walked for, and rows where columns do not answer."""
    answered_path: Path
    """What columns answer; rows of earlier versions, which are documents, are walked for that too."""
    asked_path: Path
    """The same as the relation that columns are joined with."""
    program_path: Path
    walked: frozenset[str]
    """Channels with something to walk for."""
    answered: frozenset[str]
    """Row channels with something that columns answer."""
    shapes: Mapping[str, RowShape]


def row_shapes(channels: Mapping[str, ChannelInfo]) -> dict[str, RowShape]:
    """What documents of rows look like, of each channel whose columns are known."""
    return {
        name: RowShape(channel.element, tuple(channel.schema))
        for name, channel in channels.items()
        if channel.schema is not None
    }


def _alive(first: int, last: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Queries that see some event of a range.

    A registration is no batch boundary: who sees which event is told apart by the places of the intake order.
    """
    return QUERIES.c.docid_from < last, QUERIES.c.docid_until > first


class Planner:
    """Compiles what the live queries ask, once per group and process, and writes it where workers find it.

    What workers load is written by this process for this process, into a folder of its own that goes with it: nothing
    that was left by another process, or version, is ever loaded.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self._folder: Path | None = None
        self._compiled: dict[int, tuple[_Facts, CompiledQuery]] = {}
        """What the groups of the last plan were compiled to, with what was known then of their channels."""
        self.reach = ReachBuilder()
        self._last: tuple[object, Plan] | None = None
        self._walked = self._answered = SpecFiles("")

    def close(self) -> None:
        """Remove what was written for workers."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._last = None

    def plan(self, first: int, last: int) -> Plan | None:
        """What the queries need that see some event of a range; None if there is none."""
        catalog = self.home.catalog
        with catalog.read() as connection:
            channels = catalog.channels(connection)
            facts = {name: channel_facts(channel) for name, channel in channels.items()}
            shapes = row_shapes(channels)
            statement = (
                sa.select(
                    QUERIES.c.gid,
                    GROUPS.c.iid,
                    sa.func.min(QUERIES.c.docid_from).label("first"),
                    sa.func.max(QUERIES.c.docid_until).label("last"),
                )
                .join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
                .where(*_alive(first, last))
                .group_by(QUERIES.c.gid, GROUPS.c.iid)
                .order_by(QUERIES.c.gid)
            )
            rows = connection.execute(statement).all()
            if not rows:
                return None
            asked = (facts, shapes, rows)
            if self._last is not None and self._last[0] == asked:
                return self._last[1]
            self._compile(connection, [row.gid for row in rows], facts)
        live: list[LiveGroup] = []
        specs: dict[SpecKey, WitnessSpec] = {}
        for row in rows:
            compiled = self._compiled[row.gid][1]
            live.append(LiveGroup(row.gid, row.iid, compiled.group, row.first, row.last, compiled.channels))
            specs.update((spec_key(spec), spec) for spec in compiled.specs)
        plan = self._written(live, split_specs(specs.values(), shapes), shapes)
        self._last = asked, plan
        return plan

    def _compile(self, connection: Connection, gids: list[int], facts: dict[str, ChannelFacts]) -> None:
        """Have these groups compiled, and no other."""

        def of(compiled: CompiledQuery) -> _Facts:
            return tuple(facts.get(channel) for channel in compiled.channels)

        # A group is compiled again only if its own channels have changed.
        there = ((gid, self._compiled[gid]) for gid in gids if gid in self._compiled)
        self._compiled = {gid: known for gid, known in there if known[0] == of(known[1])}
        missing = [gid for gid in gids if gid not in self._compiled]
        for start in range(0, len(missing), _IN):
            statement = sa.select(GROUPS.c.gid, GROUPS.c.text, GROUPS.c.namespaces)
            for row in connection.execute(statement.where(GROUPS.c.gid.in_(missing[start : start + _IN]))):
                # Forms would not pay here: no two groups ask the same, so most have a form of their own.
                namespaces = json.loads(row.namespaces)
                compiled = compile_query(parse_query(row.text), row.text, namespaces=namespaces, channels=facts)
                self._compiled[row.gid] = of(compiled), compiled

    def _written(self, live: list[LiveGroup], split: Split, shapes: Mapping[str, RowShape]) -> Plan:
        if self._folder is None:
            self._folder = self.home.folder("programs") / uuid.uuid4().hex
            self._folder.mkdir()
            self._walked, self._answered = SpecFiles("walked"), SpecFiles("answered")
        asked = digest_text(
            *sorted(repr(spec_key(spec)) for spec in split.answered),
            *(repr((name, shapes[name])) for name in sorted(split.asked)),
            size=10,
        )
        plan = Plan(
            specs_path=self._walked.version(split.walked, self._folder),
            answered_path=self._answered.version(split.answered, self._folder),
            asked_path=self._folder / f"asked-{asked}.parquet",
            program_path=self._folder / f"program-{digest_text(*map(repr, live), size=10)}.pickle",
            walked=frozenset(spec.definition.channel for spec in split.walked),
            answered=frozenset(spec.definition.channel for spec in split.answered),
            shapes=shapes,
        )
        for path in (*self._folder.glob("asked-*"), *self._folder.glob("program-*")):
            if path not in (plan.asked_path, plan.program_path):
                path.unlink()
        if not plan.asked_path.exists():
            pq.write_table(asked_table(split.asked), plan.asked_path)
        if not plan.program_path.exists():
            save_program(build_program(live), plan.program_path)
        return plan
