"""Writing registered queries to the catalogue, many at a time.

A transaction's queries wait here and are written together: one statement a table for some thousand of them, whatever
they ask.  Names are checked when a query is added, so that whoever adds it hears of it at once; what waits counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import now_micros, to_micros
from xscl.base.ways import way
from xscl.catalog.groups import (
    add_groups,
    add_guards,
    add_instances,
    add_rt_rows,
    add_template,
    add_variables,
    channels_json,
)
from xscl.catalog.intake_order import take_places
from xscl.catalog.parts import add_parts
from xscl.catalog.queries import add_queries, tell_apart
from xscl.catalog.tables import (
    GROUPS,
    INSTANCES,
    IS_LISTED,
    NEVER,
    OF_STEPS,
    OF_WINDOWS,
    QUERIES,
    TEMPLATES,
    VARIABLES,
    in_parts,
)
from xscl.language.absence import cut_offset
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import unnumbered
from xscl.language.forms import Prepared
from xscl.language.query_rows import guards_of, variables_of
from xscl.language.syntax import ast
from xscl.registry.allowances import Allowances
from xscl.registry.levels import level_of
from xscl.registry.memory import Known
from xscl.registry.unshared import set_apart
from xscl.templates.statements.relations import rt_rows
from xscl.templates.template import Template

__all__ = ["Loading", "query_digest"]

_FREE = 200
"""Names that are looked up together for queries without one."""

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Waiting:
    name: str
    text: str
    namespaces: str
    prepared: Prepared
    owner: str = ""
    resumes: bool = False
    """Whether it goes on after a suspension, from now on, whatever its STARTING says."""
    written: str | None = None
    """Text with queries in parentheses; None: it has none."""


class Loading:
    """The queries that one transaction registers; ``flush`` before the transaction reads queries or ends."""

    def __init__(self, connection: Connection, known: Known, rules: Collection[str] | None = None) -> None:
        self.connection = connection
        self.known = known
        self.rules = rules
        """Names of the rules by which queries share work; None: all of them."""
        self.new = Known()
        """Rows that this transaction has found or made; to be learnt when it is committed."""
        self.made: list[tuple[str, str, CompiledQuery]] = []
        """(text, namespaces as JSON, what they are compiled to) of the groups that it has made."""
        self._waiting: list[_Waiting] = []
        self._taken: dict[str, bool] = {}
        """Whether a name is taken, of the names that were looked up."""
        self._last: int | None = None
        """Number of the last query that is written."""
        self._allowances = Allowances(connection)

    # -- names -------------------------------------------------------------------------------------------------

    def look_up(self, names: Iterable[str]) -> None:
        """Find out together whether names are taken, before they are asked for one by one."""
        wanted = [name for name in names if name not in self._taken]
        for part in in_parts(wanted):
            statement = sa.select(QUERIES.c.qid).where(QUERIES.c.qid.in_(part), IS_LISTED)
            taken = set(self.connection.scalars(statement))
            self._taken.update((name, name in taken) for name in part)

    def is_taken(self, name: str) -> bool:
        """Whether a query that is live, suspended or waits has the name."""
        if name not in self._taken:
            self.look_up([name])
        return self._taken[name]

    def free_name(self) -> str:
        """Return the next ``q<number>`` that nothing has."""
        if self._last is None:
            self._last = self.connection.scalar(sa.select(sa.func.max(QUERIES.c.query))) or 0
        number = self._last + len(self._waiting) + 1
        while True:
            if f"q{number}" not in self._taken:
                self.look_up(f"q{n}" for n in range(number, number + _FREE))
            if not self.is_taken(f"q{number}"):
                return f"q{number}"
            number += 1

    def forget(self, name: str) -> None:
        """Note that the query of that name was dropped, or is about to be resumed."""
        self._taken[name] = False
        self._allowances.forget()

    # -- adding ------------------------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        text: str,
        namespaces: str,
        prepared: Prepared,
        owner: str = "",
        *,
        resumes: bool = False,
        written: str | None = None,
    ) -> None:
        """Let a query wait to be written; ``namespaces`` is JSON.

        Raises:
            CatalogError: the name is taken, or the owner has as many queries as the home or its token allows.
        """
        if self.is_taken(name):
            dropping = way(f"xscl query drop {name}", f"engine.drop({name!r})")
            raise CatalogError(
                "XSCL_NAME_TAKEN",
                f"there is a query {name!r} already",
                hint=f"drop it first with {dropping}, or take another name",
            )
        self._allowances.take(
            owner, prepared.compiled.cost, ((one.owner, one.prepared.compiled.cost) for one in self._waiting)
        )
        self._taken[name] = True
        if self.rules is not None:
            prepared = replace(prepared, compiled=set_apart(prepared.compiled, name, self.rules))
        self._waiting.append(_Waiting(name, text, namespaces, prepared, owner, resumes, written))

    def flush(self) -> None:
        """Write what waits, in the order in which it came."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        groups = self._put_groups(waiting)
        place, received = take_places(self.connection, len(waiting), now_micros())
        rows = [
            {
                "qid": one.name,
                "text": one.text,
                "written": one.written,
                "namespaces": one.namespaces,
                "gid": groups[one.prepared.compiled.group.key],
                "template": one.prepared.compiled.template.id,
                "digest": query_digest(one.name, one.text),
                "names": one.prepared.names,
                "docid_from": place + number,
                "docid_until": NEVER,
                "received": received + number,
                "publish": one.prepared.publish,
                "owner": one.owner,
                "level": level_of(one.prepared.compiled),
                **_sees(one.prepared.starting, place + number, resumes=one.resumes),
            }
            for number, one in enumerate(waiting)
        ]
        add_queries(self.connection, rows)
        made = {one.prepared.compiled.group.key for one in waiting if one.prepared.compiled.parts}
        tell_apart(self.connection, {groups[key] for key in made})
        self._last = None

    def put_groups(self, asked: Iterable[tuple[str, str, Prepared]]) -> dict[str, int]:
        """Return numbers of groups by their keys, new ones made; ``asked`` is (text, namespaces as JSON, prepared)."""
        return self._put_groups([_Waiting("", *one) for one in asked])

    # -- groups ------------------------------------------------------------------------------------------------

    def _put_groups(self, waiting: Collection[_Waiting]) -> dict[str, int]:
        """Return the number of every group that is asked for, new ones written with all that belongs to them."""
        if not waiting:
            return {}
        self.known.check(self.connection)
        firsts: dict[str, _Waiting] = {}
        for one in waiting:
            firsts.setdefault(one.prepared.compiled.group.key, one)
        numbers = self._group_numbers(firsts)
        # Parts stand before what is made of them, as if each were registered alone.
        asked: dict[str, _Waiting] = {}
        for one in (one for key, one in firsts.items() if key not in numbers):
            for each in _with_parts(one):
                asked.setdefault(each.prepared.compiled.group.key, each)
        numbers |= self._group_numbers(key for key in asked if key not in firsts)
        if self.known.swept:
            # Groups may have stood without a query, and sweeps remove variables that no query has.
            found = [one for key, one in (firsts | asked).items() if key in numbers and not self._remembers(key)]
            self._put_variables(each.prepared.compiled for one in found for each in _with_parts(one))
        made = [one for key, one in asked.items() if key not in numbers]
        self.made += [
            (one.text, one.namespaces, one.prepared.compiled) for one in made if not one.prepared.compiled.parts
        ]
        if made:
            self._write_groups(made, numbers)
        self.new.groups |= numbers
        return numbers

    def _write_groups(self, made: Sequence[_Waiting], numbers: dict[str, int]) -> None:
        """Write groups that nothing has asked for before, and put their numbers into ``numbers``."""
        compiled = [one.prepared.compiled for one in made]
        instances = self._put_instances(compiled)
        last = self.connection.scalar(sa.select(sa.func.max(GROUPS.c.gid))) or 0
        numbers |= {one.group.key: gid for gid, one in enumerate(compiled, start=last + 1)}
        add_groups(
            self.connection,
            [
                {
                    "gid": numbers[each.group.key],
                    "key": each.group.key,
                    "iid": instances[each.group.instance.key],
                    "template": each.template.id,
                    "text": one.text,
                    "namespaces": one.namespaces,
                    "channels": channels_json(each.read),
                }
                for one, each in zip(made, compiled, strict=True)
            ],
        )
        add_parts(self.connection, [row for one in made for row in _part_rows(one, numbers)])
        filled: dict[str, list[Row]] = {}
        for each in compiled:
            values = ({"gid": numbers[each.group.key], **row} for row in rt_rows(each.template, each.group))
            filled.setdefault(each.template.id, []).extend(values)
        templates = {each.template.id: each.template for each in compiled}
        for name, values_of in filled.items():
            add_rt_rows(self.connection, templates[name], values_of)
        # Queries that differ in guards or windows share their definitions.
        self._put_variables({id(each.definitions): each for each in compiled}.values())
        guards = {row["guard"]: row for each in compiled for row in guards_of(each)}
        add_guards(self.connection, list(guards.values()))

    def _group_numbers(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the numbers of those groups that have one."""
        return self._numbers(GROUPS.c.key, GROUPS.c.gid, keys, self.known.groups, self.new.groups)

    def _remembers(self, key: str) -> bool:
        """Tell whether this process knows a group, and so that its variables are there."""
        return key in self.known.groups or key in self.new.groups

    def _put_instances(self, compiled: Collection[CompiledQuery]) -> dict[str, int]:
        firsts: dict[str, CompiledQuery] = {}
        for one in compiled:
            firsts.setdefault(one.group.instance.key, one)
        self._put_templates({one.template.id: one.template for one in firsts.values()})
        numbers = self._numbers(INSTANCES.c.key, INSTANCES.c.iid, firsts, self.known.instances, self.new.instances)
        last = self.connection.scalar(sa.select(sa.func.max(INSTANCES.c.iid))) or 0
        made = [one for key, one in firsts.items() if key not in numbers]
        rows: list[Row] = []
        for iid, one in enumerate(made, start=last + 1):
            key = one.group.instance.key
            numbers[key] = iid
            rows.append({"iid": iid, "key": key, "template": one.template.id})
        add_instances(self.connection, rows)
        self.new.instances |= numbers
        return numbers

    def _put_templates(self, templates: Mapping[str, Template]) -> None:
        wanted = {n: t for n, t in templates.items() if n not in self.known.templates and n not in self.new.templates}
        if not wanted:
            return
        statement = sa.select(TEMPLATES.c.template, TEMPLATES.c.certificate)
        there = {row.template: row.certificate for row in self.connection.execute(statement)}
        for name, template in wanted.items():
            if name not in there:
                add_template(self.connection, template)
            elif there[name] != template.certificate:
                raise _collision("templates", there[name], template.certificate)
        self.new.templates |= {*wanted, *there}

    def _put_variables(self, compiled: Iterable[CompiledQuery]) -> None:
        wanted: dict[int, Row] = {}
        for one in compiled:
            for row in variables_of(one):
                key, definition = row["key"], row["definition"]
                assert isinstance(key, int) and isinstance(definition, str)
                first = wanted.setdefault(key, row)["definition"]
                known = self.new.variables.get(key) or self.known.variables.get(key) or first
                if known != definition:
                    raise _collision("definitions", known, definition)
        missing = [key for key in wanted if key not in self.known.variables and key not in self.new.variables]
        there: dict[int, str] = {}
        for part in in_parts(missing):
            statement = sa.select(VARIABLES.c.key, VARIABLES.c.definition).where(VARIABLES.c.key.in_(part))
            there.update((row.key, row.definition) for row in self.connection.execute(statement))
        for key, definition in there.items():
            if wanted[key]["definition"] != definition:
                raise _collision("definitions", definition, wanted[key]["definition"])
        rows = [wanted[key] for key in missing if key not in there]
        add_variables(self.connection, rows)
        self.new.variables |= {key: str(wanted[key]["definition"]) for key in missing}

    def _numbers(
        self,
        key: sa.Column[str],
        number: sa.Column[int],
        wanted: Iterable[str],
        known: Mapping[str, int],
        new: Mapping[str, int],
    ) -> dict[str, int]:
        """Return the numbers of those keys that have one."""
        found: dict[str, int] = {}
        missing = []
        for name in wanted:
            value = known.get(name) or new.get(name)
            if value is None:
                missing.append(name)
            else:
                found[name] = value
        for part in in_parts(missing):
            found.update(
                (row[0], row[1]) for row in self.connection.execute(sa.select(key, number).where(key.in_(part)))
            )
        return found


def _with_parts(one: _Waiting) -> Iterator[_Waiting]:
    """Yield the queries that a query about absence, or one with windows, is made of, and then that query."""
    for part in one.prepared.compiled.parts:
        yield from _with_parts(_Waiting("", part.text, one.namespaces, Prepared(part.compiled, "")))
    yield one


def _part_rows(one: _Waiting, numbers: Mapping[str, int]) -> Iterator[Row]:
    """Yield the rows of ``parts`` of a group; ``numbers`` are those of groups by key."""
    absence = one.prepared.compiled.absence
    level = one.prepared.compiled.level or ast.STRONG
    for number, part in enumerate(one.prepared.compiled.parts):
        facts: Row = {"ends": None, "shown": None, "blocking": None, "memory": _stored(level.memory), "retracts": False}
        if number == 0 and absence is not None:
            ends = [[channel, [[end.block, end.offset] for end in found]] for channel, found in absence.ends]
            facts |= {"ends": json.dumps(ends), "shown": absence.shown, "blocking": _stored(level.behind)}
            facts["retracts"] = absence.retracts
        if absence is None:
            facts |= {"ends": OF_STEPS if one.prepared.compiled.stepped else OF_WINDOWS, "shown": 0}
            facts["blocking"] = _stored(level.behind)
        gid = numbers[one.prepared.compiled.group.key]
        yield {"gid": gid, "number": number, "part": numbers[part.compiled.group.key], **facts}


def _stored(distance: int | None) -> int | None:
    """Return a distance behind clocks as it is kept."""
    return None if distance is None else cut_offset(distance)


def _collision(what: str, first: object, second: object) -> CatalogError:
    return CatalogError(
        "XSCL_DIGEST_COLLISION",
        f"two {what} have one digest: {first} and {second}",
        hint="write one of the paths differently",
    )


def query_digest(name: str, text: str) -> str:
    """Return the part of a match's id that is the query's."""
    return hashlib.sha256(unnumbered(f"{name}\0{text}").encode()).hexdigest()


def _sees(starting: str, place: int, *, resumes: bool) -> dict[str, object]:
    """Return the part of the intake order that a query registered at a place sees, as columns of ``queries``
    (docs/how-to/history.md).
    """
    since = None if starting in ("NOW", "ALL") else to_micros(starting)
    starting = "NOW" if resumes else starting
    return {"starting": starting, "sees_from": place if starting == "NOW" else 0, "ts_from": since}
