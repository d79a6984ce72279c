"""Making again what the catalogue derives from the texts of queries, when texts compile to something else than before.

Stored results name groups and instances by number, so numbers stay: a group is what its text compiles to now, and keeps
its number; an instance keeps the number it had in the first of its groups.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import MetaData, Table
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError, QueryError, UnsatisfiableWindowError
from xscl.catalog.catalog import Catalog, channels_json, stored_rt, stored_template, template_values
from xscl.catalog.tables import GROUPS, INSTANCES, NEVER, QUERIES, TEMPLATES, VARIABLES
from xscl.language.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.language.parser import parse_query
from xscl.language.query_rows import names_json, variables_of
from xscl.templates.relations import rt_rows
from xscl.templates.template import Template

__all__ = ["rebuild_derived"]

_CHUNK = 2_000

Row = dict[str, object]


def rebuild_derived(catalog: Catalog, connection: Connection) -> None:
    """Compile every query again, and make templates, instances, groups, variables and ``rt_`` tables anew.

    Groups never merge, because stored results tell them apart: where two are equal now, new queries join the first, and
    the other keeps a key that nothing else has.  A live query for which its group's text no longer speaks gets a group
    of its own; what results say of its old group is then not its own any more.

    Raises:
        CatalogError: a live query cannot be taken any more.
    """
    _Rebuild(catalog, catalog.facts(connection), connection).run()


@dataclass(slots=True)
class _Rebuild:
    catalog: Catalog
    facts: Mapping[str, ChannelFacts]
    connection: Connection
    templates: dict[str, Template] = field(default_factory=dict)
    """Those whose tables are there."""
    instances: dict[str, int] = field(default_factory=dict)
    """Number of each instance by its key."""
    numbers: set[int] = field(default_factory=set)
    """Of the instances that have their rows."""
    groups: dict[str, int] = field(default_factory=dict)
    """Number of the group that new queries join, by its key."""
    names: dict[int, str] = field(default_factory=dict)
    """What the query whose text stands for a group calls its variables, by group."""
    shapes: dict[int, str] = field(default_factory=dict)
    """Template of what a group asks for now, by the number of the instance that it had."""
    variables: set[int] = field(default_factory=set)
    last_instance: int = 0
    last_group: int = 0

    def run(self) -> None:
        connection = self.connection
        old_templates = {row.template: stored_template(row) for row in connection.execute(sa.select(TEMPLATES))}
        old_instances = {row.iid: row.template for row in connection.execute(sa.select(INSTANCES))}
        self.last_instance = max(old_instances, default=0)
        self.last_group = connection.scalar(sa.select(sa.func.max(GROUPS.c.gid))) or 0
        for name in old_templates:
            Table(f"rt_{name}", MetaData()).drop(connection, checkfirst=True)
        for table in (TEMPLATES, INSTANCES, VARIABLES):
            connection.execute(table.delete())
        # Keys are unique at every moment, and an old one may be another group's new one.
        connection.execute(GROUPS.update().values(key=sa.literal("was ") + sa.cast(GROUPS.c.gid, sa.String)))
        # Groups that live queries have come first: what is equal to them now is what nobody asks any more.
        for live in (True, False):
            for rows in self._chunks(GROUPS, self._has_live_query(live)):
                self._put_groups(rows, live)
        for rows in self._chunks(QUERIES, sa.true()):
            self._put_queries(rows)
        self._keep_old(old_templates, old_instances)
        self._go_on_counting()

    def _chunks(self, table: Table, condition: sa.ColumnElement[bool]) -> Iterator[list[sa.Row[tuple[object, ...]]]]:
        (number,) = table.primary_key.columns
        statement = sa.select(table).where(condition).order_by(number).limit(_CHUNK)
        last = 0
        while rows := self.connection.execute(statement.where(number > last)).all():
            last = rows[-1]._mapping[number]
            yield list(rows)

    @staticmethod
    def _has_live_query(live: bool) -> sa.ColumnElement[bool]:
        found = sa.exists().where(QUERIES.c.gid == GROUPS.c.gid, QUERIES.c.docid_until == NEVER)
        return found if live else ~found

    # -- groups ------------------------------------------------------------------------------------------------

    def _put_groups(self, rows: list[sa.Row[tuple[object, ...]]], live: bool) -> None:
        changed: list[Row] = []
        filled: dict[str, list[Row]] = {}
        for row in rows:
            try:
                compiled = self._compiled(row.text, row.namespaces)
            except UnsatisfiableWindowError:
                self._end(QUERIES.c.gid == row.gid)
                continue
            except QueryError as error:
                if live:
                    query = sa.select(QUERIES.c.qid).where(QUERIES.c.gid == row.gid, QUERIES.c.docid_until == NEVER)
                    raise _cannot_take(str(self.connection.scalar(query)), error) from error
                continue  # only its matches are asked for, and they are stored
            key = compiled.group.key
            if self.groups.setdefault(key, row.gid) != row.gid:
                key = f"{key} {row.gid}"
            template = compiled.template
            self.names[row.gid] = names_json(compiled)
            self._put_template(template)
            self.shapes.setdefault(row.iid, template.id)
            changed.append(
                {
                    "b_gid": row.gid,
                    "key": key,
                    "iid": self._instance(compiled, row.iid),
                    "template": template.id,
                    "channels": channels_json(compiled.read),
                }
            )
            rows_of = [{"gid": row.gid, **values} for values in rt_rows(template, compiled.group)]
            filled.setdefault(template.id, []).extend(rows_of)
            self._put_variables(compiled)
        if changed:
            self.connection.execute(GROUPS.update().where(GROUPS.c.gid == sa.bindparam("b_gid")), changed)
        for name, values in filled.items():
            self.connection.execute(stored_rt(self.templates[name]).insert(), values)

    def _end(self, condition: sa.ColumnElement[bool]) -> None:
        """Drop queries whose windows were found to allow nothing: they never had a match, nor could have one."""
        for query in self.connection.scalars(sa.select(QUERIES.c.qid).where(condition, QUERIES.c.docid_until == NEVER)):
            self.catalog.drop_query(self.connection, query, time.time_ns() // 1000)

    def _compiled(self, text: str, namespaces: str) -> CompiledQuery:
        return compile_query(parse_query(text), text, namespaces=json.loads(namespaces), channels=self.facts)

    def _put_template(self, template: Template) -> None:
        if template.id not in self.templates:
            stored_rt(template).create(self.connection, checkfirst=True)
            self.connection.execute(TEMPLATES.insert().values(**template_values(template)))
            self.templates[template.id] = template

    def _instance(self, compiled: CompiledQuery, old: int) -> int:
        key = compiled.group.instance.key
        known = self.instances.get(key)
        if known is not None:
            return known
        number = old
        if old in self.numbers:
            self.last_instance += 1
            number = self.last_instance
        self.instances[key] = number
        self.numbers.add(number)
        self.connection.execute(INSTANCES.insert().values(iid=number, key=key, template=compiled.template.id))
        return number

    def _put_variables(self, compiled: CompiledQuery) -> None:
        new = [row for row in variables_of(compiled) if row["key"] not in self.variables]
        if new:
            self.connection.execute(VARIABLES.insert(), new)
            self.variables.update(int(str(row["key"])) for row in new)

    # -- queries -----------------------------------------------------------------------------------------------

    def _put_queries(self, rows: list[sa.Row[tuple[object, ...]]]) -> None:
        statement = sa.select(GROUPS).where(GROUPS.c.gid.in_({row.gid for row in rows}))
        groups = {group.gid: group for group in self.connection.execute(statement)}
        changed: list[Row] = []
        for row in rows:
            group = groups[row.gid]
            if row.gid in self.names and (row.text, row.namespaces) == (group.text, group.namespaces):
                # Most groups have one query; its text was compiled for its group.
                names = self.names[row.gid]
                changed.append({"b_query": row.query, "gid": row.gid, "template": group.template, "names": names})
                continue
            try:
                compiled = self._compiled(row.text, row.namespaces)
            except UnsatisfiableWindowError:
                self._end(QUERIES.c.query == row.query)
                continue
            except QueryError as error:
                if row.docid_until == NEVER:
                    raise _cannot_take(row.qid, error) from error
                continue
            gid, template = row.gid, group.template
            if row.docid_until == NEVER and group.key.partition(" ")[0] != compiled.group.key:
                gid, template = self._group_of(compiled, row), compiled.template.id
            changed.append({"b_query": row.query, "gid": gid, "template": template, "names": names_json(compiled)})
        if changed:
            self.connection.execute(QUERIES.update().where(QUERIES.c.query == sa.bindparam("b_query")), changed)

    def _group_of(self, compiled: CompiledQuery, row: sa.Row[tuple[object, ...]]) -> int:
        known = self.groups.get(compiled.group.key)
        if known is not None:
            return known
        self.last_group += 1
        gid = self.last_group
        iid = self._instance(compiled, self.last_instance + 1)
        self.last_instance = max(self.last_instance, iid)
        values = {"gid": gid, "key": f"was {gid}", "iid": iid, "template": compiled.template.id}
        self.connection.execute(GROUPS.insert().values(**values, text=row.text, namespaces=row.namespaces))
        (inserted,) = self.connection.execute(sa.select(GROUPS).where(GROUPS.c.gid == gid)).all()
        self._put_groups([inserted], live=True)
        return gid

    # -- what only old results name ----------------------------------------------------------------------------

    def _keep_old(self, old_templates: Mapping[str, Template], old_instances: Mapping[int, str]) -> None:
        # An instance that became equal to another has its template; of one that no text speaks for we know no better.
        unused = {
            iid: self.shapes.get(iid, template) for iid, template in old_instances.items() if iid not in self.numbers
        }
        left = sa.select(QUERIES.c.template).where(QUERIES.c.template.not_in(sa.select(TEMPLATES.c.template)))
        needed = {*unused.values(), *self.connection.scalars(left)} - set(self.templates)
        for name in sorted(needed):
            self._put_template(old_templates[name])
        if unused:
            rows = [{"iid": iid, "key": f"was {iid}", "template": name} for iid, name in unused.items()]
            self.connection.execute(INSTANCES.insert(), rows)

    def _go_on_counting(self) -> None:
        """Sequences of PostgreSQL do not see numbers that are given; SQLite takes the greatest plus one anyway."""
        if self.connection.dialect.name != "postgresql":
            return
        for table in (GROUPS, INSTANCES):
            (number,) = table.primary_key.columns
            sequence = sa.func.pg_get_serial_sequence(table.name, number.name)
            self.connection.execute(sa.select(sa.func.setval(sequence, sa.func.max(number))))


def _cannot_take(name: str, error: QueryError) -> CatalogError:
    return CatalogError(
        "XSCL_CATALOG_VERSION",
        f"the query {name!r} cannot be taken by this version: {error.message} [{error.condition}]",
        hint="nothing was changed; drop the query with the version that registered it",
    )
