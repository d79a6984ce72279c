"""Rows that follow from the texts of queries: groups, instances, templates, variables, guards, ``rt_`` tables.

One walk over the texts finds every row that is missing or differs, and the statements that mend it.  Numbers stay,
because stored results name groups by them.  No row is removed: dropped queries may need rows that no text explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import XsclError
from xscl.catalog.channels import read_facts
from xscl.catalog.groups import channels_json, create_rt, put_derived, replace_rt_rows, stored_rt, template_values
from xscl.catalog.queries import mend_query
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS, GUARDS, INSTANCES, NEVER, QUERIES, TEMPLATES, VARIABLES
from xscl.language.compiled import CompiledQuery
from xscl.language.forms import Preparer
from xscl.language.query_rows import guards_of, variables_of
from xscl.registry.levels import level_of, levelled
from xscl.registry.loading import query_digest
from xscl.registry.unshared import rules_of_key, set_apart
from xscl.templates.statements.relations import rt_rows

__all__ = ["Difference", "derived_differences"]

_CHUNK = 2_000

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not what the texts of queries say."""

    text: str
    """The fault, the same for all rows that have it."""
    mend: Callable[[Connection], None] | None = None
    """Function that mends it; None: the catalogue does not tell what was right."""


def derived_differences(connection: Connection, *, mends: bool = False) -> Iterator[Difference]:
    """Iterate over the rows that differ from what the texts of queries compile to; with ``mends``, mend each."""
    walk = _Walk(connection)
    alive = QUERIES.c.docid_until == NEVER
    # Live queries come first: what they say of a group holds.
    for live in (True, False):
        statement = sa.select(QUERIES).where(alive if live else ~alive).order_by(QUERIES.c.query).limit(_CHUNK)
        last = 0
        while rows := connection.execute(statement.where(QUERIES.c.query > last)).all():
            last = rows[-1].query
            for row in rows:
                for found in walk.query(row, live):
                    if mends and found.mend is not None:
                        found.mend(connection)
                    yield found


class _Walk:
    """Compares queries, one after the other, with the rows that the catalogue has for them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._facts = read_facts(connection)
        self._preparers: dict[str, Preparer] = {}
        self._rows = {
            table.name: {tuple(row)[0]: dict(row._mapping) for row in connection.execute(sa.select(table))}
            for table in (GROUPS, GUARDS, INSTANCES, TEMPLATES, VARIABLES)
        }
        self._gids = {row["key"]: gid for gid, row in self._rows["groups"].items()}
        self._iids = {row["key"]: iid for iid, row in self._rows["instances"].items()}
        self._tables = set(sa.inspect(connection).get_table_names())
        self._cases: dict[str, dict[int, list[Values]]] = {}
        """Rows of ``rt_`` tables by template and group."""
        self._compared: set[int] = set()
        """Numbers of groups."""
        self._rules: set[frozenset[str]] = set()
        """Rules that queries were registered with, where these were not all."""

    def query(self, row: sa.Row[Any], live: bool) -> Iterator[Difference]:
        """Iterate over the differences of a query, and of its group if no query before it had the same."""
        if row.digest != query_digest(row.qid, row.text):
            yield Difference("queries have another name or text than they were registered with")
            return
        try:
            if row.namespaces not in self._preparers:
                declared = read_stored(QUERIES.c.namespaces, row.namespaces)
                self._preparers[row.namespaces] = Preparer(declared, self._facts)
            prepared = self._preparers[row.namespaces].prepare_text(row.text)
        except (XsclError, ValueError, AttributeError) as error:
            if live:
                yield Difference(f"queries do not compile ({row.qid}: {str(error).partition(chr(10))[0][:120]})")
            return
        group = self._rows["groups"].get(row.gid)
        compiled = self._as_shared(levelled(prepared, row.level).compiled, row.qid, group)
        key = compiled.group.key
        if not live and group is not None and group["key"] != key:
            return  # columns of its channels have become known since it was dropped
        gid = self._gids.get(key, row.gid) if live else row.gid
        wanted = {"gid": gid, "template": compiled.template.id, "names": prepared.names}
        if wrong := {name: value for name, value in wanted.items() if row._mapping[name] != value}:
            mend = partial(mend_query, query=row.query, values=wrong)
            yield Difference("queries have another group, template or names than their texts", mend)
        if gid not in self._compared:
            self._compared.add(gid)
            yield from self._group(gid, row, compiled)
        for part in compiled.parts if live else ():
            of = self._gids.get(part.compiled.group.key)
            if of is None:
                yield Difference("parts of queries about absence have no group")
            elif of not in self._compared:
                self._compared.add(of)
                yield from self._group(of, SimpleNamespace(text=part.text, namespaces=row.namespaces), part.compiled)

    def _as_shared(self, compiled: CompiledQuery, name: str, group: Values | None) -> CompiledQuery:
        """Return a query with the keys that it was registered with, which rules of sharing may have set apart."""
        if group is None or group["key"] == compiled.group.key:
            return compiled
        rules = rules_of_key(compiled, name, group["key"])
        if rules is None:
            return compiled
        self._rules.add(rules)
        return set_apart(compiled, name, rules)

    def _group(self, gid: int, query: Any, compiled: CompiledQuery) -> Iterator[Difference]:
        group, instance, template = compiled.group, compiled.group.instance, compiled.template
        level = level_of(compiled)
        old = self._rows["groups"].get(gid, {})
        last = max(self._rows["instances"], default=0)
        iid = self._iids.setdefault(instance.key, old.get("iid", last + 1))
        # Two groups have one key only where a dropped query's group was lost.
        key = group.key if self._gids.setdefault(group.key, gid) == gid else f"lost {gid}"
        values = {"key": key, "iid": iid, "template": template.id, "channels": channels_json(compiled.read)}
        said = old.get("text"), old.get("namespaces")
        if said != (query.text, query.namespaces) and not self._speaks(old, key, level):
            values |= {"text": query.text, "namespaces": query.namespaces}
        yield from self._row(GROUPS, gid, values)
        yield from self._row(INSTANCES, iid, {"key": instance.key, "template": template.id})
        stored = template_values(template)
        yield from self._row(TEMPLATES, template.id, stored)
        for variable in variables_of(compiled):
            known = self._rows["variables"].get(variable["key"])
            # Each group has an example of its own, and the first one's is kept.
            kept = variable if known is None else {**variable, "example": known["example"]}
            yield from self._row(VARIABLES, variable["key"], kept)
        for guard in guards_of(compiled):
            yield from self._row(GUARDS, guard["guard"], guard)
        yield from self._filled(gid, compiled)

    def _speaks(self, group: Values, key: str, level: str | None) -> bool:
        """Tell whether the text of a group, that of another query, compiles to it at a level."""
        try:
            preparer = self._preparers.setdefault(
                group["namespaces"], Preparer(read_stored(GROUPS.c.namespaces, group["namespaces"]), self._facts)
            )
            compiled = levelled(preparer.prepare_text(group["text"]), level).compiled
            # Queries that are together in spite of rules have their keys whatever their names.
            apart = (set_apart(compiled, "", rules) for rules in self._rules)
            return any(each.group.key == key for each in (compiled, *apart))
        except (XsclError, ValueError, AttributeError, KeyError):
            return False

    def _row(self, table: sa.Table, number: Any, wanted: Values) -> Iterator[Difference]:
        """Compare a row with the values that some of its columns should have."""
        (primary,) = table.primary_key.columns
        rows = self._rows[table.name]
        found = rows.get(number)
        if found is None:
            rows[number] = {primary.name: number, **wanted}
            yield Difference(f"{table.name} are missing", partial(put_derived, table=table, values=rows[number]))
        elif wrong := {name: value for name, value in wanted.items() if found[name] != value}:
            found |= wrong
            mend = partial(put_derived, table=table, values=found)
            yield Difference(f"{table.name} differ from the texts of queries", mend)

    def _filled(self, gid: int, compiled: CompiledQuery) -> Iterator[Difference]:
        """Compare the rows of a group in its ``rt_`` table."""
        table = stored_rt(compiled.template)
        if table.name not in self._tables:
            self._tables.add(table.name)
            self._cases[table.name] = {}
            yield Difference(f"table {table.name} is missing", partial(create_rt, template=compiled.template))
        if table.name not in self._cases:
            cases = self._cases[table.name] = {}
            for row in self._connection.execute(sa.select(table).order_by(table.c.gid, table.c.case)):
                cases.setdefault(row.gid, []).append(dict(row._mapping))
        wanted = [{"gid": gid, **row} for row in rt_rows(compiled.template, compiled.group)]
        found = self._cases[table.name].get(gid, [])
        if found != wanted:
            mend = partial(replace_rt_rows, template=compiled.template, gid=gid, rows=wanted)
            fault = f"rows of groups in {table.name} are wrong" if found else f"groups have no rows in {table.name}"
            yield Difference(fault, mend)
