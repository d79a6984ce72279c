"""The requests of all live queries to stage 2, as data: edges to join, instances to resolve, groups with their windows.

Queries become rows here: distinct value joins become *edges*, each enumerated once however many queries use it, and the
groups of one instance share everything but the final test of their windows.  Instances of many blocks are cut into
links (``links``), which are resolved like instances of two blocks and then put together (``assemble``).  A group that
comes or goes changes what is its own; the program is shipped to Spark's workers as a file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from xscl.templates.bounds import Bounds, Case, pair_index
from xscl.templates.links import Link
from xscl.templates.members import Membership
from xscl.templates.ordinals import Ordinals
from xscl.templates.plan_making import assembly_of, edge_of_one, edges_between, instance_plan, link_plan
from xscl.templates.plans import Assembly, Edge, EdgeKey, GroupChange, InstancePlan, LinkPlan, LiveGroup, Windows
from xscl.templates.program_guards import ProgramGuards
from xscl.templates.template import Group

__all__ = ["Program"]

_WINDOW_TYPES = (
    *(np.int64, np.int32, np.int64, np.int64, np.int8),
    *(np.int64, np.int64, np.int32, np.int32, np.int32, np.int32),
    *(np.int64, np.int64, np.int32, np.int32),
)
"""Types of the columns of ``Windows``."""


class Program:
    """Everything stage 2 knows of the queries; groups come and go at a price that does not depend on the others.

    Edges, plans and assemblies are values: a changed one is another object under the same number.  Numbers are given
    out once.  Enclosing windows (``Edge.lo`` and ``hi``, the ``bounds`` of links and assemblies) may stay too wide
    when a group leaves, as long as others use the same edge, link or assembly.
    """

    def __init__(self) -> None:
        self.edges: dict[int, Edge] = {}
        """Edges by number."""
        self.instances: dict[int, InstancePlan] = {}
        self.links: dict[int, LinkPlan] = {}
        self.assemblies: dict[int, Assembly] = {}
        self.by_edge: dict[int, list[InstancePlan | LinkPlan]] = {}
        """Edge number to what is looked for when it is matched: everything is listed once."""
        self.starts: dict[int, list[tuple[int, int]]] = {}
        """Link key to the (assembly, place among its links) that a new row of it may be part of."""
        self.memberships: dict[int, Membership] = {}
        """Memberships by number."""
        self.version = 0
        """Grows with every change."""
        self.structure = 0
        """Grows with every change but those of the groups, and of the windows that are enclosed already."""
        self._live: dict[int, LiveGroup] = {}
        self._numbers: dict[EdgeKey, int] = {}
        self._uses: Counter[int] = Counter()
        """Edge number to the number of plans that need it."""
        self._next_edge = self._next_assembly = 0
        self._place: dict[tuple[bool, int], int] = {}
        """Name of a plan to its place in ``by_edge``."""
        self._linked: Counter[int] = Counter()
        """Link key to the number of its places in assemblies."""
        self._assemblies: defaultdict[int, dict[tuple[tuple[int, int], ...], int]] = defaultdict(dict)
        """Number of an instance to its assemblies by the blocks that they link."""
        self._link_counts: Counter[int] = Counter()
        """Number of links to the number of assemblies with so many."""
        self._crossed: set[int] = set()
        """Numbers of assemblies with crossings."""
        self.guards = ProgramGuards()
        """Guards of groups."""
        self.ordinals = Ordinals()
        """Places of events that row windows count, of the batch that is joined."""
        self._windows: dict[int, Windows] = {}
        self._stale: defaultdict[int, set[int]] = defaultdict(set)
        """Instance number to the groups that have changed since its ``_windows`` were made."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_windows": {}, "_stale": defaultdict(set)}

    @property
    def rounds(self) -> int:
        """The number of times that rows of links are joined with others.

        To complete a match: one less than the most links of an instance.  To look for its exchange: the most links.
        """
        most = max(self._link_counts, default=1)
        return most - 1 + (most if self._crossed else 0)

    def assemblies_of(self, instance: int) -> list[Assembly]:
        """Return the assemblies of an instance."""
        return [self.assemblies[number] for number in self._assemblies[instance].values()]

    @property
    def groups(self) -> Mapping[int, LiveGroup]:
        """All groups by number."""
        return self._live

    def add(self, live: LiveGroup) -> None:
        """Take in a group that is not there."""
        assert live.gid not in self._live, f"group {live.gid} is there already"
        self.version += 1
        plan = self.instances.get(live.iid)
        if plan is not None:
            known = next(iter(plan.groups.values())).group.instance
            if live.group.instance is not known:
                live = replace(live, group=replace(live.group, instance=known))
        self._live[live.gid] = live
        self.guards.add(live.iid, live.group)
        self.ordinals.count(live.group.rows, live.channels, 1)
        if _is_assembled(live.group):
            self._add_to_assemblies(live)
            return
        bounds = _envelope(live.group.cases)[0] if live.group.cases[0] else Bounds()
        if plan is None:
            self._add_instance(live, bounds)
        else:
            plan.groups[live.gid] = live
            self._widen(plan.needs, bounds)
        self._touch(live)

    def remove(self, gid: int) -> None:
        """Forget a group."""
        self.version += 1
        live = self._live.pop(gid)
        self.guards.remove(live.iid, live.group)
        self.ordinals.count(live.group.rows, live.channels, -1)
        if _is_assembled(live.group):
            self._remove_from_assemblies(live)
            return
        plan = self.instances[live.iid]
        del plan.groups[gid]
        self._touch(live)
        if not plan.groups:
            self.structure += 1
            del self.instances[live.iid]
            self._windows.pop(live.iid, None)
            self._stale.pop(live.iid, None)
            self._forget(plan)

    def change(self, change: GroupChange) -> None:
        """Remove, add and change some groups."""
        for gid in change.removed:
            self.remove(gid)
        for live in change.added:
            self.add(live)
        for gid, first, last, newest in change.spans:
            self.change_span(gid, first, last, newest)
        self.memberships.update(change.memberships)

    def change_span(self, gid: int, first: int, last: int, newest: int = -1) -> None:
        """Change what the subscribers of a group see of the intake order."""
        self.version += 1
        live = self._live[gid] = replace(self._live[gid], first=first, last=last, newest=newest)
        if not _is_assembled(live.group):
            self.instances[live.iid].groups[gid] = live
            self._touch(live)
            return
        for pairs in set(live.group.links):
            self.assemblies[self._assemblies[live.iid][pairs]].groups[gid] = live

    def windows(self, number: int) -> Windows:
        """Return the windows of an instance of one or two blocks; those of one block admit everything."""
        known, stale = self._windows.get(number), self._stale.pop(number, set())
        if known is not None and not stale:
            return known
        groups = self.instances[number].groups
        if known is None or 2 * len(stale) > len(groups):
            made = self._window_rows(groups.values())
        else:
            kept = ~np.isin(known.gid, list(stale))
            old: tuple[npt.NDArray[np.signedinteger], ...] = known
            new: tuple[npt.NDArray[np.signedinteger], ...] = self._window_rows(groups[g] for g in stale if g in groups)
            made = Windows(*(np.concatenate((a[kept], b)) for a, b in zip(old, new, strict=True)))
        self._windows[number] = made
        return made

    def _window_rows(self, groups: Iterable[LiveGroup]) -> Windows:
        rows = [
            (
                *(live.gid, number, bounds.lo, bounds.hi, bounds.order, live.first, live.last),
                *_streams(live.group),
                *self.guards.numbers(live.group),
                *self._rows(live),
            )
            for live in groups
            for number, case in enumerate(live.group.cases, start=1)
            for bounds in (case[0] if case else Bounds(),)
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(_WINDOW_TYPES)
        return Windows(*(np.array(column, kind) for column, kind in zip(columns, _WINDOW_TYPES, strict=True)))

    def _rows(self, live: LiveGroup) -> tuple[int, int, int, int]:
        """Return the newest rows that both blocks of a group count, and the numbers of the channels."""
        if not live.group.rows:
            return 0, 0, 0, 0
        left, right = live.group.rows
        first, second = (
            self.ordinals.number(name) if of else 0 for of, name in zip((left, right), live.channels, strict=True)
        )
        return left, right, first, second

    # -- edges and plans ---------------------------------------------------------------------------------------

    def _touch(self, live: LiveGroup) -> None:
        if live.iid in self._windows:
            self._stale[live.iid].add(live.gid)

    def _add_instance(self, live: LiveGroup, bounds: Bounds) -> None:
        instance = live.group.instance
        found = edges_between(instance, (0, 1)) if live.group.cases[0] else edge_of_one(instance)
        numbers = self._edge_numbers([key for _, key in found], bounds)
        plan = instance_plan(live.iid, instance, found, numbers, {live.gid: live})
        self.instances[live.iid] = plan
        self._look_for(plan)

    def _edge_numbers(self, keys: Sequence[EdgeKey], bounds: Bounds) -> list[int]:
        """Return the numbers of the edges of a plan, new ones made."""
        numbers = []
        for key in keys:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = self._next_edge
                self._next_edge += 1
                self.edges[number] = Edge(number, key, bounds.lo, bounds.hi)
            numbers.append(number)
        self._widen(numbers, bounds)
        return numbers

    def _widen(self, numbers: Iterable[int], bounds: Bounds) -> None:
        for number in numbers:
            edge = self.edges[number]
            if bounds.lo < edge.lo or bounds.hi > edge.hi:
                self.structure += 1
                self.edges[number] = replace(edge, lo=min(edge.lo, bounds.lo), hi=max(edge.hi, bounds.hi))

    def _look_for(self, plan: InstancePlan | LinkPlan) -> None:
        """Count a new plan's uses of edges, and look for it when they are matched."""
        self.structure += 1
        self._uses.update(plan.needs)
        found = self.by_edge.setdefault(plan.found_by, [])
        self._place[plan.name] = len(found)
        found.append(plan)

    def _forget(self, plan: InstancePlan | LinkPlan) -> None:
        """Stop looking for a plan; edges that nothing else needs go with it."""
        found = self.by_edge[plan.found_by]
        place, last = self._place.pop(plan.name), found.pop()
        if place < len(found):
            found[place] = last
            self._place[last.name] = place
        self._uses.subtract(plan.needs)
        for number in plan.needs:
            if not self._uses[number]:
                del self._uses[number], self._numbers[self.edges[number].key], self.edges[number]
        if not found:
            del self.by_edge[plan.found_by]

    # -- many blocks -------------------------------------------------------------------------------------------

    def _add_to_assemblies(self, live: LiveGroup) -> None:
        cases: defaultdict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
        for number, pairs in enumerate(live.group.links):
            cases[pairs].append(number)
        known = self._assemblies[live.iid]
        for pairs in sorted(cases):
            bounds = _envelope(live.group.cases[number] for number in cases[pairs])
            crossings = frozenset[tuple[int, int]]().union(*map(live.group.crossings, cases[pairs]))
            if pairs in known:
                assembly = self.assemblies[known[pairs]]
                assembly.groups[live.gid] = live
                self._widen_assembly(assembly, bounds, crossings)
                continue
            assembly = assembly_of(self._next_assembly, live, pairs, bounds, crossings)
            self._next_assembly += 1
            self.structure += 1
            known[pairs] = assembly.number
            self.assemblies[assembly.number] = assembly
            if crossings:
                self._crossed.add(assembly.number)
            self._link_counts[len(assembly.links)] += 1
            for place, link in enumerate(assembly.links):
                self.starts.setdefault(link.key, []).append((assembly.number, place))
                self._linked[link.key] += 1
                self._link(live.group, assembly, link)

    def _widen_assembly(self, assembly: Assembly, bounds: Case, crossings: frozenset[tuple[int, int]]) -> None:
        wider, more = _envelope((assembly.bounds, bounds)), assembly.crossings | crossings
        if (wider, more) == (assembly.bounds, assembly.crossings):
            return
        self.structure += 1
        assembly = self.assemblies[assembly.number] = replace(assembly, bounds=wider, crossings=more)
        if more:
            self._crossed.add(assembly.number)
        group = next(iter(assembly.groups.values())).group
        for link in assembly.links:
            self._link(group, assembly, link)

    def _link(self, group: Group, assembly: Assembly, link: Link) -> None:
        """Have a plan of a link whose bounds enclose an assembly's."""
        bounds = assembly.bounds[pair_index(assembly.blocks)[link.blocks]]
        known = self.links.get(link.key)
        if known is None:
            found = edges_between(group.instance, link.blocks)
            numbers = self._edge_numbers([key for _, key in found], bounds)
            plan = self.links[link.key] = link_plan(group, link, found, numbers, bounds)
            self._look_for(plan)
        elif known.bounds | bounds != known.bounds:
            # Equal links have equal plans, but for what encloses the windows of their users.
            self.structure += 1
            plan = self.links[link.key] = replace(known, bounds=known.bounds | bounds)
            self.by_edge[plan.found_by][self._place[plan.name]] = plan
            self._widen(plan.needs, bounds)

    def _remove_from_assemblies(self, live: LiveGroup) -> None:
        known = self._assemblies[live.iid]
        for pairs in set(live.group.links):
            assembly = self.assemblies[known[pairs]]
            del assembly.groups[live.gid]
            if assembly.groups:
                continue
            self.structure += 1
            del self.assemblies[known.pop(pairs)]
            self._crossed.discard(assembly.number)
            self._link_counts[len(assembly.links)] -= 1
            self._link_counts = +self._link_counts
            for place, link in enumerate(assembly.links):
                self.starts[link.key].remove((assembly.number, place))
                self._linked[link.key] -= 1
                if not self._linked[link.key]:
                    del self._linked[link.key], self.starts[link.key]
                    self._forget(self.links.pop(link.key))
        if not known:
            del self._assemblies[live.iid]


def _is_assembled(group: Group) -> bool:
    """Tell whether its matches are put together from rows of links: they have three members, or are chosen among."""
    return len(group.cases[0]) > 1 or group.exchanges


def _envelope(cases: Iterable[Case]) -> Case:
    return tuple(reduce(or_, parts) for parts in zip(*cases, strict=True))


def _streams(group: Group) -> tuple[int, int]:
    first, second, *_ = (*group.streams, 0, 0)
    return first, second
