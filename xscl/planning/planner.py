"""The requests of the live queries, compiled once, kept up to date as queries come and go, and written for workers on
demand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.collecting import collecting_later, spare_collector
from xscl.base.errors import XsclError
from xscl.base.own_functions import loaded_functions, require_functions
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import all_facts, read_channels, read_streams
from xscl.catalog.memberships import stored_memberships
from xscl.catalog.tables import QUERIES
from xscl.language.declared import own_functions
from xscl.language.facts import ChannelFacts, asks_kind, deciding
from xscl.language.group_data import GroupForm
from xscl.planning.group_forms import GroupForms
from xscl.planning.kinds_of_queries import KindsOfQueries
from xscl.planning.planned import Facts, Plan, PlannedGroup, PlannedSpec, SpecBundle, Way, row_shapes
from xscl.planning.row_places import RowPlaces
from xscl.planning.subscribers import Chosen, GroupText, Subscribers
from xscl.planning.worker_files import WorkerFiles
from xscl.templates.members import Membership
from xscl.templates.plans import GroupChange, LiveGroup
from xscl.templates.program import Program
from xscl.templates.retention import ReachBuilder
from xscl.templates.template import Group
from xscl.xpath.automaton.states import SpecKey, WitnessSpec, own_digests, spec_digests, spec_key
from xscl.xpath.relational import ChannelSplit, RowShape
from xscl.xpath.row_witness import RowMatcher

__all__ = ["Planner"]

_MANY = 1_000
"""Groups after which the collector is spared what is planned."""


def _required_functions(connection: Connection, texts: Sequence[GroupText]) -> set[str]:
    """Return the functions of one's own that groups need; refuse to plan these without them.

    Raises:
        EngineError: ``XSCL_UNKNOWN_FUNCTION``.
    """
    found: set[str] = set()
    for row in texts:
        needed = own_functions(row.namespaces)
        if needed and not set(needed) <= {each.full for each in loaded_functions()}:
            name = connection.scalar(sa.select(QUERIES.c.qid).where(QUERIES.c.gid == row.number).limit(1))
            require_functions(needed, name)
        found.update(needed)
    return found


class Planner:
    """Compiler of the queries of a range, once per group; it keeps groups for the next range.

    A call reads the queries that any process has registered and dropped since the last call, and changes the plan
    accordingly.  This process writes the files that its workers load, into a folder of its own that goes with it, so
    no file of another process or version is ever loaded.
    """

    def __init__(self, catalog: Catalog, folder: Path, chosen: Chosen | None = None) -> None:
        """Begin without a plan.

        Args:
            catalog: names the live queries.
            folder: gets the files that workers load.
            chosen: groups to plan for, in place of those that queries of a range subscribe to.
        """
        self._catalog = catalog
        self._folder = folder
        self._chosen = chosen
        self._forms = GroupForms(folder)
        self.kinds = KindsOfQueries()
        self._start()

    def _start(self) -> None:
        self._subscribers: Subscribers | Chosen = self._chosen or Subscribers()
        self.reach = ReachBuilder()
        """Reach of the state that the groups of the program need."""
        self._facts: dict[str, ChannelFacts] = {}
        self._functions: set[str] = set()
        self._memberships: dict[int, Membership] = {}
        self._shapes: dict[str, RowShape] = {}
        self._groups: dict[int, PlannedGroup] = {}
        """Groups that are in the program."""
        self._waiting: set[int] = set()
        """Groups that may have changed since the program was changed last."""
        self._program = Program()
        self._files = WorkerFiles(self._folder, self._program)
        self._specs: defaultdict[str, dict[int, dict[SpecKey, PlannedSpec]]] = defaultdict(dict)
        """Specs by channel and definition."""
        self._bundles: dict[int, SpecBundle] = {}
        """Bundles by the identity of the tuple that groups share."""
        self._keys: dict[int, SpecKey] = {}
        """Keys of specs by their identity, while groups are added that have them."""
        self._splits: dict[str, ChannelSplit] = {}
        """Splits by row channel."""
        self._changed: defaultdict[str, set[PlannedSpec]] = defaultdict(set)
        """Specs that have come or gone since they were split, by channel."""
        self._matchers: dict[str, RowMatcher] = {}
        self._counts: dict[Way, Counter[str]] = {"walk": Counter(), "columns": Counter()}
        """Number of the specs that are answered in each way, by channel."""
        self._rows = RowPlaces(whole=self._chosen is not None)
        self._plan: Plan | None = None
        self._is_planned = False

    def close(self) -> None:
        """Remove what was written for workers, and forget everything."""
        self._files.remove()
        self._start()

    def plan(self, first: int, last: int, connection: Connection | None = None) -> Plan | None:
        """Bring the plan up to date for the queries that see events of a range; return None without any.

        The cost follows the changes since the last range, unless this range begins or ends before that one.
        """
        if connection is None:
            with self._catalog.read() as connection:
                return self.plan(first, last, connection)
        try:
            return self._moved(first, last, connection)
        except BaseException as error:
            # What was stopped half way, as by Ctrl-C, begins anew.  Where something is refused, nothing has changed.
            if not isinstance(error, XsclError):
                self.close()
            raise

    def _moved(self, first: int, last: int, connection: Connection) -> Plan | None:
        channels = read_channels(connection)
        facts = all_facts(channels, read_streams(connection))
        memberships = stored_memberships(connection, max(self._memberships, default=0))
        if _columns(facts) != _columns(self._facts):
            # Queries over channels of which more is known now may have gone to other groups.
            self._subscribers.forget()
        changed = self._subscribers.move(connection, first, last)
        if changed is None or facts != self._facts:
            changed = {*self._groups, *self._subscribers}
        self._waiting |= changed
        self._facts = facts
        stale = self._stale()
        missing = self._missing(set(stale))
        whole = self._chosen is None and not self._groups
        with collecting_later():
            texts = self._subscribers.texts(connection, missing)
            self._functions |= _required_functions(connection, texts)
            compiled = self._forms.of(texts, facts, whole=whole)
            self._memberships |= memberships
            self._change(stale, compiled, memberships)
            counts = self._program.ordinals.counts
            self._program.ordinals.take(self._rows.move(connection, counts, first, last) if counts else {})
            self._split(row_shapes(channels))
            if len(compiled) > _MANY:
                spare_collector()
        self._is_planned = True
        return self._plan if self._groups else None

    def variables(self) -> tuple[set[int], int]:
        """Return the variables of the last plan, and the number of the last query that was read for it."""
        found: set[int] = set()
        for known in self._groups.values():
            for spec in known.specs:
                parts = (*spec.spec.edges, *spec.spec.hanging)
                found.update(d.key for d in (spec.spec.definition, *(d for edge in parts for d in edge)))
        return found, self._subscribers.newest if isinstance(self._subscribers, Subscribers) else 0

    def counted(self) -> Mapping[str, int] | None:
        """Return how many of its newest events row windows count at most, by channel; None before the first plan."""
        return self._program.ordinals.counts if self._is_planned else None

    def _asking(self, digests: Collection[int]) -> dict[int, list[int]]:
        """Return the groups of some digests of specs."""
        found: dict[int, list[int]] = {}
        for gid, known in self._groups.items() if digests else ():
            specs = [spec.spec for spec in (*known.specs, *known.read.specs)]
            asked = {digest for spec in specs for digest in (*spec_digests(spec), *own_digests(spec))}
            for digest in asked.intersection(digests):
                found.setdefault(digest, []).append(gid)
        return found

    # -- groups ------------------------------------------------------------------------------------------------

    def _stale(self) -> list[int]:
        """Return the groups of the program that leave it, some of them to be compiled again."""
        return [gid for gid in self._waiting if gid in self._groups and not self._keeps_channels(gid)]

    def _missing(self, stale: Collection[int]) -> list[int]:
        """Return the groups that are to be compiled: subscribed ones that are not in the program, or stale there."""
        subscribed = (gid for gid in self._waiting if gid in self._subscribers)
        return sorted(gid for gid in subscribed if gid in stale or gid not in self._groups)

    def _facts_of(self, is_asked: bool, channels: Iterable[str]) -> Facts:
        return tuple(deciding(self._facts.get(channel), is_asked) for channel in channels)

    def _keeps_channels(self, gid: int) -> bool:
        """Whether a group of the program may stay there: a group is compiled again only if its own channels change."""
        known = self._groups[gid]
        return gid in self._subscribers and known.facts == self._facts_of(known.asks_kind, known.channels)

    def _change(
        self, stale: list[int], compiled: list[tuple[GroupText, GroupForm]], memberships: Mapping[int, Membership]
    ) -> None:
        """Bring the program up to date with the groups that wait."""

        def span(gid: int, group: Group) -> tuple[int, int, int]:
            # A program changes with each registration only for groups that need the newest.
            first, last, newest = self._subscribers.span(gid)
            return first, last, newest if group.crosses else -1

        new = {row.number for row, _ in compiled}
        spans = []
        for gid in self._waiting.difference(stale, new):
            if gid in self._groups:
                live = self._program.groups[gid]
                if (live.first, live.last, live.newest) != span(gid, live.group):
                    spans.append((gid, *span(gid, live.group)))
        added = []
        for row, made in compiled:
            first, last, newest = span(row.number, made.group)
            added.append(LiveGroup(row.number, row.iid, made.group, first, last, made.channels, newest))
        change = GroupChange(tuple(sorted(stale)), tuple(added), tuple(sorted(spans)), tuple(memberships.items()))
        if len(change):
            self._files.program.change(change)
        # Groups that come are added before others go, so that specs of both stay.
        gone = [self._groups.pop(gid) for gid in stale]
        facts: dict[tuple[bool, tuple[str, ...]], Facts] = {}
        for row, made in compiled:
            asked, read = self._bundle(made.specs), self._bundle(made.facts)
            reads = asks_kind(row.text, made.channels), made.channels
            if reads not in facts:
                facts[reads] = self._facts_of(*reads)
            group = self._program.groups[row.number].group
            self._groups[row.number] = PlannedGroup(*reads, facts[reads], asked, read, group)
        self._keys.clear()
        for known in gone:
            self._let_go(known.asked)
            self._let_go(known.read)
        self._waiting.clear()

    # -- specs -------------------------------------------------------------------------------------------------

    def _bundle(self, given: tuple[WitnessSpec, ...]) -> SpecBundle:
        """Return the bundle of some specs, for one more group."""
        found = self._bundles.get(id(given))
        if found is None:
            keys = self._keys
            used = {keys.get(id(spec)) or keys.setdefault(id(spec), spec_key(spec)): spec for spec in given}
            found = SpecBundle(given, tuple([self._use(key, spec) for key, spec in used.items()]))
            self._bundles[id(given)] = found
        found.groups += 1
        return found

    def _let_go(self, bundle: SpecBundle) -> None:
        """Note that a group has gone that asked for a bundle."""
        bundle.groups -= 1
        if not bundle.groups:
            del self._bundles[id(bundle.given)]
            for spec in bundle.specs:
                self._release(spec)

    def _use(self, key: SpecKey, spec: WitnessSpec) -> PlannedSpec:
        known = self._specs[spec.definition.channel].setdefault(spec.definition.key, {})
        if key not in known:
            known[key] = PlannedSpec(key, spec)
            self._changed[spec.definition.channel].add(known[key])
        known[key].uses += 1
        return known[key]

    def _release(self, spec: PlannedSpec) -> None:
        spec.uses -= 1
        if not spec.uses:
            channel, definition = spec.spec.definition.channel, spec.key[0]
            asking = self._specs[channel][definition]
            del asking[spec.key]
            if not asking:
                del self._specs[channel][definition]
            self._changed[channel].add(spec)

    def _split(self, shapes: dict[str, RowShape]) -> None:
        """Divide the specs of changed channels between columns and walks."""
        reshaped = {name for name in {*shapes, *self._shapes} if shapes.get(name) != self._shapes.get(name)}
        if self._plan is not None and not self._changed and not reshaped:
            return
        matchers = dict(self._matchers)
        for channel in {*self._changed, *reshaped}:
            changed = self._changed[channel]
            if channel in reshaped:
                changed = changed.union(*(specs.values() for specs in self._specs[channel].values()))
                self._splits.pop(channel, None)
                matchers.pop(channel, None)
            split = self._splits.get(channel)
            if channel in shapes:
                if split is None:
                    split = self._splits[channel] = ChannelSplit(shapes[channel])
                    matchers[channel] = RowMatcher(len(shapes[channel].columns))
                asking = {spec.key[0]: self._specs[channel].get(spec.key[0], {}).values() for spec in changed}
                split.put({definition: [spec.spec for spec in specs] for definition, specs in asking.items()})
                changed = changed.union(*asking.values())
                for definition in asking:
                    matchers[channel].put(definition, split.rows(definition))
            # Specs that have gone come first, because a spec that came back has the same key.
            for spec in sorted(changed, key=lambda spec: spec.uses):
                by_columns = split is not None and split.answers(spec.key[0])
                self._answer(spec, None if not spec.uses else "columns" if by_columns else "walk")
        self._matchers, self._shapes = matchers, shapes
        self._files.rows.changed()
        walked, answered = frozenset(+self._counts["walk"]), frozenset(+self._counts["columns"])
        functions = frozenset(self._functions)
        self._plan = Plan(
            self._program, matchers, walked, answered, shapes, self._asking, self._groups, functions, self._files
        )
        self._changed.clear()

    def _answer(self, spec: PlannedSpec, way: Way | None) -> None:
        """Have a spec answered in one way, in place of another; None: nobody asks for it any longer."""
        if spec.way == way:
            return
        channel = spec.spec.definition.channel
        if spec.way is not None:
            self._counts[spec.way][channel] -= 1
        if way is not None:
            self._counts[way][channel] += 1
        if spec.way == "walk":
            self._files.walked.remove(spec.key)
        if way == "walk":
            self._files.walked.add(spec.key, spec.spec)
        spec.way = way


def _columns(facts: Mapping[str, ChannelFacts]) -> dict[str, tuple[frozenset[str], ...]]:
    """Return the facts of channels on which groups depend."""
    found = {name: (of.numeric, of.texts, of.times) for name, of in facts.items()}
    return {name: columns for name, columns in found.items() if any(columns)}
