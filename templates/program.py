"""What all live queries ask of stage 2, as data: edges to join, instances to resolve, groups with their windows.

Queries become rows here: distinct value joins become *edges*, each enumerated once however many queries use it, and the
groups of one instance share everything but the final test of their windows.  Instances of many blocks are cut into
links (``links``), which are resolved like instances of two blocks and then put together (``assemble``).  A group that
comes or goes changes what is its own; the program is shipped to Spark's workers as a file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from xscl.base.values import hash64
from xscl.base.versioned_files import VersionFiles, load_version
from xscl.templates.bounds import Bounds, Case, pair_index
from xscl.templates.graph import ValueJoin
from xscl.templates.links import Link, anchor, joins_between, links_of
from xscl.templates.members import Membership
from xscl.templates.template import Group, Instance

__all__ = [
    "Assembly",
    "Constraint",
    "Edge",
    "GroupChange",
    "InstancePlan",
    "LinkPlan",
    "LinkStep",
    "LiveGroup",
    "Program",
    "ProgramFiles",
    "Windows",
    "load_program",
    "ordered",
]


_MOST_KEPT = 2
"""Programs in one process: the second one of another engine, in tests."""
_SHARED = 1 << 16
"""Parts of groups and plans of which one object is kept."""
_WINDOW_TYPES = (np.int64, np.int32, np.int64, np.int64, np.int8, np.int64, np.int64, np.int32, np.int32)
"""Of the columns of ``Windows``."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EdgeKey:
    """What makes a join of two variables distinct.

    ``EQ`` pairs equal values; with functions None it pairs documents by time alone.  ``NE`` and ``BAND`` (``left op
    f * right + add``) are checked on pairs found otherwise.  ``ONE`` is a query of one block: its right side is not
    used.
    """

    kind: Literal["EQ", "NE", "BAND", "ONE"]
    lvar: int
    lfn: str | None
    rvar: int
    rfn: str | None
    op: str = "="
    f: Fraction = Fraction(1)
    add: Fraction = Fraction(0)

    @property
    def finds(self) -> bool:
        """Whether it finds pairs, rather than being checked on them."""
        return self.kind in ("EQ", "ONE")


@dataclass(frozen=True, slots=True)
class Edge:
    """A distinct join of two variables and its number in the program.

    ``lo`` and ``hi`` enclose the windows of every group that uses it; ``checked`` says that some instance needs others
    checked on this edge's pairs.
    """

    number: int
    key: EdgeKey
    lo: int
    hi: int
    checked: bool


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group with a subscriber, and the span of the intake order that its subscribers see."""

    gid: int
    iid: int
    """The number of its instance; equal instances have one number."""
    group: Group
    first: int
    """The least docid that a subscriber sees."""
    last: int
    """The greatest docid that a subscriber sees."""
    channels: tuple[str, ...] = ()
    """The channel of each block."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Groups that leave a program, and then others that come."""

    removed: tuple[int, ...] = ()
    added: tuple[LiveGroup, ...] = ()
    spans: tuple[tuple[int, int, int], ...] = ()
    """(group, first, last) of groups of which only that changes."""
    memberships: tuple[tuple[int, Membership], ...] = ()
    """Numbers and what they stand for, of documents that come from now on."""

    def __len__(self) -> int:
        return len(self.removed) + len(self.added) + len(self.spans) + len(self.memberships)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A binary condition on two nodes of a pair: ``relation`` names the pairs of nodes that satisfy it.

    ``relation`` is (edge number,) for a value join, (side, var1, var2) for rows of R_bin of the left (0) or right (1)
    document.
    """

    left: int
    right: int
    relation: tuple[int, ...]
    way: Literal["scan", "forward", "backward", "check"]
    """How the resolver uses it: enumerate it, go from left to right, from right to left, or test it."""


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """An instance of one or two blocks, the order in which its nodes are bound, and its groups."""

    number: int
    width: int
    """Number of meta-variables."""
    binding: tuple[Constraint, ...]
    """Binds the meta-variables: a row of R_out."""
    output: tuple[Constraint, ...]
    """Extends a row of R_out to the output variables."""
    results: tuple[int, ...]
    found_by: int
    """The edge by which its pairs are found."""
    needs: frozenset[int]
    """Edges that must all be matched."""
    inner: frozenset[int]
    """Meta-variables whose nodes only one value join, and nodes above them, ask for: that there is one will do."""
    specs: frozenset[tuple[int, int]]
    """(block, digest) of what stage 1 may refuse it in a document, which it then does not get."""
    groups: dict[int, LiveGroup] = field(compare=False, repr=False)
    """By number; the program changes it."""

    @property
    def name(self) -> tuple[bool, int]:
        """Tells it from all other plans of the program: whether it is a link, and its number."""
        return False, self.number


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """A link and the order in which its nodes are bound; ``bounds`` enclose the windows of all that use it."""

    key: int
    width: int
    binding: tuple[Constraint, ...]
    found_by: int
    """The edge by which its pairs are found."""
    needs: frozenset[int]
    bounds: Bounds
    specs: frozenset[tuple[int, int]]
    """As in ``InstancePlan``, by side of the link."""

    @property
    def name(self) -> tuple[bool, int]:
        """Tells it from all other plans of the program: whether it is a link, and its key."""
        return True, self.key


@dataclass(frozen=True, slots=True)
class LinkStep:
    """One link more for what is bound: ``known`` (0 or 1) is the side of the link whose document is bound already."""

    use: int
    known: int


@dataclass(frozen=True, slots=True)
class Assembly:
    """An instance whose matches are put together from rows of its links, how that is done, and its groups.

    It has three or more blocks, or two whose members may be exchanged (``Bounds.exchange``).

    Cases that link different blocks have assemblies of their own.
    """

    number: int
    instance: int
    pairs: tuple[tuple[int, int], ...]
    """The blocks that are linked."""
    blocks: int
    nodes: int
    """Number of its nodes, output variables included."""
    width: int
    """Number of meta-variables, which come first."""
    links: tuple[Link, ...]
    steps: tuple[tuple[LinkStep, ...], ...]
    """``steps[m]`` is the order in which the others follow link m."""
    bounds: Case
    """Enclose the cases of all groups that link these blocks."""
    crossings: frozenset[tuple[int, int]]
    """Pairs of blocks that ``ONCE`` joins and that read different streams, in any group."""
    results: tuple[int, ...]
    groups: dict[int, LiveGroup] = field(compare=False, repr=False)
    """By number; the program changes it."""


class Windows(NamedTuple):
    """The windows of an instance's groups, a row for each group and case, in no order."""

    gid: npt.NDArray[np.int64]
    case: npt.NDArray[np.int32]
    """Number of the case in its group, from 1."""
    lo: npt.NDArray[np.int64]
    """Least ``ts(right) - ts(left)``, microseconds."""
    hi: npt.NDArray[np.int64]
    order: npt.NDArray[np.int8]
    """As in ``Bounds``."""
    first: npt.NDArray[np.int64]
    """Places of the intake order, as in ``LiveGroup``."""
    last: npt.NDArray[np.int64]
    left: npt.NDArray[np.int32]
    """The stream that the first block names, 0 for its channel."""
    right: npt.NDArray[np.int32]
    """That of the second block; 0 without one."""


class Program:
    """Everything stage 2 knows of the queries; groups come and go at a price that does not depend on the others.

    Edges, plans and assemblies are values: a changed one is another object under the same number.  Numbers are given
    out once.  What encloses windows (``Edge.lo`` and ``hi``, the ``bounds`` of links and assemblies) may stay too wide
    when a group leaves, as long as others use the same edge, link or assembly.
    """

    def __init__(self) -> None:
        self.edges: dict[int, Edge] = {}
        """By number."""
        self.instances: dict[int, InstancePlan] = {}
        self.links: dict[int, LinkPlan] = {}
        self.assemblies: dict[int, Assembly] = {}
        self.by_edge: dict[int, list[InstancePlan | LinkPlan]] = {}
        """Edge number to what is looked for when it is matched: everything is listed once."""
        self.checks: dict[int, tuple[int, ...]] = {}
        """Edge number to the NE and BAND edges that are to be checked on the pairs it matches."""
        self.starts: dict[int, list[tuple[int, int]]] = {}
        """Link key to the (assembly, place among its links) that a new row of it may be part of."""
        self.memberships: dict[int, Membership] = {}
        """What the numbers of memberships stand for."""
        self.version = 0
        """Grows with every change."""
        self.structure = 0
        """Grows with every change but those of the groups, and of the windows that are enclosed already."""
        self._live: dict[int, LiveGroup] = {}
        self._numbers: dict[EdgeKey, int] = {}
        self._uses: Counter[int] = Counter()
        """Edge number to the number of plans that need it."""
        self._checking: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """Edge number to the edges that are checked on its pairs, and for how many plans."""
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
        self._windows: dict[int, Windows] = {}
        self._stale: defaultdict[int, set[int]] = defaultdict(set)
        """Instance number to the groups that have changed since its ``_windows`` were made."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_windows": {}, "_stale": defaultdict(set)}

    @property
    def rounds(self) -> int:
        """How often rows of links are joined with others.

        To complete a match: one less than the most links of an instance.  To look for its exchange: the most links.
        """
        most = max(self._link_counts, default=1)
        return most - 1 + (most if self._crossed else 0)

    def assemblies_of(self, instance: int) -> list[Assembly]:
        """The assemblies of an instance."""
        return [self.assemblies[number] for number in self._assemblies[instance].values()]

    @property
    def groups(self) -> Mapping[int, LiveGroup]:
        """All groups by number."""
        return self._live

    def add(self, live: LiveGroup) -> None:
        """Take in a group that is not there."""
        assert live.gid not in self._live, f"group {live.gid} is there already"
        self.version += 1
        live = self._live[live.gid] = _sharing(live)
        if _is_assembled(live.group):
            self._add_to_assemblies(live)
            return
        plan = self.instances.get(live.iid)
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
        for gid, first, last in change.spans:
            self.change_span(gid, first, last)
        self.memberships.update(change.memberships)

    def change_span(self, gid: int, first: int, last: int) -> None:
        """Change what the subscribers of a group see of the intake order."""
        self.version += 1
        live = self._live[gid] = replace(self._live[gid], first=first, last=last)
        if not _is_assembled(live.group):
            self.instances[live.iid].groups[gid] = live
            self._touch(live)
            return
        for pairs in set(live.group.links):
            self.assemblies[self._assemblies[live.iid][pairs]].groups[gid] = live

    def windows(self, number: int) -> Windows:
        """The windows of an instance of one or two blocks; those of one block admit everything."""
        known, stale = self._windows.get(number), self._stale.pop(number, set())
        if known is not None and not stale:
            return known
        groups = self.instances[number].groups
        if known is None or 2 * len(stale) > len(groups):
            made = _window_rows(groups.values())
        else:
            kept = ~np.isin(known.gid, list(stale))
            old: tuple[npt.NDArray[np.signedinteger], ...] = known
            new: tuple[npt.NDArray[np.signedinteger], ...] = _window_rows(groups[g] for g in stale if g in groups)
            made = Windows(*(np.concatenate((a[kept], b)) for a, b in zip(old, new, strict=True)))
        self._windows[number] = made
        return made

    # -- edges and plans ---------------------------------------------------------------------------------------

    def _touch(self, live: LiveGroup) -> None:
        if live.iid in self._windows:
            self._stale[live.iid].add(live.gid)

    def _add_instance(self, live: LiveGroup, bounds: Bounds) -> None:
        instance = live.group.instance
        found = _edges_between(instance, (0, 1)) if live.group.cases[0] else _edge_of_one(instance)
        numbers = self._edge_numbers([key for _, key in found], bounds)
        plan = _instance_plan(live.iid, instance, found, numbers, {live.gid: live})
        self.instances[live.iid] = plan
        self._look_for(plan)

    def _edge_numbers(self, keys: Sequence[EdgeKey], bounds: Bounds) -> list[int]:
        """The numbers of the edges of a plan, new ones made."""
        numbers = []
        for key in keys:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = self._next_edge
                self._next_edge += 1
                self.edges[number] = Edge(number, key, bounds.lo, bounds.hi, False)
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
        checked = [number for number in plan.needs if not self.edges[number].key.finds]
        if checked:
            self._checking[plan.found_by].update(checked)
            self._set_checks(plan.found_by)

    def _forget(self, plan: InstancePlan | LinkPlan) -> None:
        """Look for a plan no more; edges that nothing else needs go with it."""
        found = self.by_edge[plan.found_by]
        place, last = self._place.pop(plan.name), found.pop()
        if place < len(found):
            found[place] = last
            self._place[last.name] = place
        checked = [number for number in plan.needs if not self.edges[number].key.finds]
        if checked:
            self._checking[plan.found_by].subtract(checked)
            self._set_checks(plan.found_by)
        self._uses.subtract(plan.needs)
        for number in plan.needs:
            if not self._uses[number]:
                del self._uses[number], self._numbers[self.edges[number].key], self.edges[number]
        if not found:
            del self.by_edge[plan.found_by]

    def _set_checks(self, number: int) -> None:
        checking = self._checking[number] = +self._checking[number]
        if checking:
            self.checks[number] = tuple(sorted(checking))
        else:
            del self._checking[number], self.checks[number]
        edge = self.edges[number]
        if edge.checked != bool(checking):
            self.edges[number] = replace(edge, checked=bool(checking))

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
            assembly = _assembly(self._next_assembly, live, pairs, bounds, crossings)
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
            found = _edges_between(group.instance, link.blocks)
            numbers = self._edge_numbers([key for _, key in found], bounds)
            plan = self.links[link.key] = _link_plan(group, link, found, numbers, bounds)
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
    """Whether its matches are put together from rows of links: they have three members, or are chosen among."""
    return len(group.cases[0]) > 1 or group.exchanges


def _envelope(cases: Iterable[Case]) -> Case:
    return tuple(reduce(or_, parts) for parts in zip(*cases, strict=True))


def _sharing(live: LiveGroup) -> LiveGroup:
    """The same group, of parts that it shares with others."""
    group, instance = live.group, live.group.instance
    instance = replace(
        instance,
        template=_one(instance.template),
        variables=tuple(map(_one, instance.variables)),
        tree_edges=_one(instance.tree_edges),
        joins=tuple(map(_one, instance.joins)),
        nodes=tuple(map(_one, instance.nodes)),
        output_edges=_one(instance.output_edges),
        results=_one(instance.results),
        links=_one(instance.links),
    )
    parts = (group.cases, group.links, group.streams, group.specs)
    return replace(live, group=Group(instance, *map(_one, parts)))


@lru_cache(maxsize=_SHARED)
def _one(value: T) -> T:
    """One object for equal ones: a hundred thousand groups consist of the same few thousand parts."""
    return value


def _window_rows(groups: Iterable[LiveGroup]) -> Windows:
    rows = [
        (live.gid, number, bounds.lo, bounds.hi, bounds.order, live.first, live.last, *_streams(live.group))
        for live in groups
        for number, case in enumerate(live.group.cases, start=1)
        for bounds in (case[0] if case else Bounds(),)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(_WINDOW_TYPES)
    return Windows(*(np.array(column, kind) for column, kind in zip(columns, _WINDOW_TYPES, strict=True)))


def _streams(group: Group) -> tuple[int, int]:
    first, second, *_ = (*group.streams, 0, 0)
    return first, second


_Ends = tuple[tuple[int, int], EdgeKey]
"""An edge of a plan and the nodes it joins, as places of the instance."""

# -- one or two blocks -----------------------------------------------------------------------------------------


def _instance_plan(
    number: int,
    instance: Instance,
    found: Sequence[_Ends],
    numbers: Sequence[int],
    groups: dict[int, LiveGroup],
) -> InstancePlan:
    """The plan of an instance whose edges, with their ends, have these numbers."""
    width = len(instance.variables)
    joins = _joined(found, numbers)
    tree = [_structural(instance, edge, instance.nodes[edge[0]].block) for edge in instance.tree_edges]
    output = [_structural(instance, edge, instance.nodes[edge[0]].block) for edge in instance.output_edges]
    return InstancePlan(
        number=number,
        width=width,
        binding=ordered(joins, tree, bound=set()),
        output=ordered([], output, bound=set(range(width))),
        results=instance.results,
        found_by=numbers[0],
        needs=frozenset(numbers),
        inner=_inner(width, joins, (*tree, *output), instance.results),
        specs=frozenset((block, digest) for each in groups.values() for block, _, digest in each.group.specs),
        groups=groups,
    )


def _joined(found: Sequence[_Ends], numbers: Sequence[int]) -> list[Constraint]:
    """A constraint for each edge of a plan.

    Where two blocks are paired by time and the same nodes' values are compared, the edge by time only finds the pairs:
    it says nothing of the nodes.
    """
    valued = {ends for ends, key in found if key.kind == "ONE" or key.lfn is not None}
    return [
        Constraint(*ends, (number,), "check")
        for (ends, key), number in zip(found, numbers, strict=True)
        if key.kind == "ONE" or key.lfn is not None or ends not in valued
    ]


def _inner(
    width: int, joins: Sequence[Constraint], structure: Sequence[Constraint], results: Sequence[int]
) -> frozenset[int]:
    """The places of nodes that stand in one value join only, are no result and above nothing."""
    ends = Counter(end for join in joins for end in (join.left, join.right))
    above = {edge.left for edge in structure}
    return frozenset(place for place in range(width) if ends[place] == 1 and place not in {*above, *results})


def _edge_of_one(instance: Instance) -> list[_Ends]:
    return [((0, 0), EdgeKey("ONE", instance.variables[0], None, instance.variables[0], None))]


def _edges_between(instance: Instance, blocks: tuple[int, int]) -> list[_Ends]:
    """((left, right) node of the instance, edge) of two of its blocks, those that find pairs first."""
    found = [((j.left, j.right), _edge_key(instance, j)) for j in joins_between(instance, blocks)]
    by_time = anchor(instance, blocks)
    if by_time is not None:
        left, right = (instance.variables[place] for place in by_time)
        found.append((by_time, EdgeKey("EQ", left, None, right, None)))
    return sorted(found, key=lambda item: not item[1].finds)


def _edge_key(instance: Instance, join: ValueJoin) -> EdgeKey:
    left, right = instance.variables[join.left], instance.variables[join.right]
    return EdgeKey(join.kind, left, join.fn_l, right, join.fn_r, join.op, join.f, join.add)


def _structural(instance: Instance, edge: tuple[int, int], side: int) -> Constraint:
    upper, lower = edge
    return Constraint(upper, lower, (side, instance.nodes[upper].var, instance.nodes[lower].var), "check")


# -- many blocks -----------------------------------------------------------------------------------------------


def _link_plan(group: Group, link: Link, found: Sequence[_Ends], numbers: Sequence[int], bounds: Bounds) -> LinkPlan:
    """The plan, over the link's own places, of a link whose edges, with their ends, have these numbers."""
    instance = group.instance
    joins = _joined(found, numbers)
    tree = [_structural(instance, edge, link.blocks.index(instance.nodes[edge[0]].block)) for edge in link.edges]
    local = {place: number for number, place in enumerate(link.places)}
    binding = tuple(
        _one(Constraint(local[c.left], local[c.right], c.relation, c.way)) for c in ordered(joins, tree, bound=set())
    )
    specs = _link_specs(instance, link, group)
    return LinkPlan(link.key, len(link.places), binding, numbers[0], frozenset(numbers), bounds, specs)


def _link_specs(instance: Instance, link: Link, group: Group) -> frozenset[tuple[int, int]]:
    """(side, digest) of what stage 1 is asked for the nodes of a link."""
    nodes = {(instance.nodes[place].block, instance.nodes[place].var) for place in link.places}
    return frozenset(
        (link.blocks.index(block), digest) for block, variable, digest in group.specs if (block, variable) in nodes
    )


def _told_apart(instance: Instance, link: Link, group: Group) -> Link:
    """A link with a key that says what stage 1 is asked for it: who is refused a document has no rows of it."""
    specs = sorted(_link_specs(instance, link, group))
    return replace(link, key=hash64(repr((link.key, specs)))) if specs else link


def _assembly(
    number: int,
    live: LiveGroup,
    pairs: tuple[tuple[int, int], ...],
    bounds: Case,
    crossings: frozenset[tuple[int, int]],
) -> Assembly:
    """How rows of links between these pairs of blocks are put together; of the group's instance."""
    instance = live.group.instance
    links = tuple(_told_apart(instance, link, live.group) for link in links_of(instance, pairs))
    return Assembly(
        number=number,
        instance=live.iid,
        pairs=pairs,
        blocks=max(node.block for node in instance.nodes) + 1,
        nodes=len(instance.nodes),
        width=len(instance.variables),
        links=links,
        steps=tuple(_steps(links, start) for start in range(len(links))),
        bounds=bounds,
        crossings=crossings,
        results=instance.results,
        groups={live.gid: live},
    )


def _steps(links: tuple[Link, ...], start: int) -> tuple[LinkStep, ...]:
    """Links that only test come first, then those by value, then those by time."""
    bound = set(links[start].blocks)
    waiting = [place for place in range(len(links)) if place != start]
    found = []

    def cost(place: int) -> tuple[bool, bool, bool, int]:
        known = bound & set(links[place].blocks)
        return not known, len(known) == 1, links[place].anchor is not None, place

    while waiting:
        place = min(waiting, key=cost)
        waiting.remove(place)
        found.append(LinkStep(place, 0 if links[place].blocks[0] in bound else 1))
        bound |= set(links[place].blocks)
    return tuple(found)


# -- order of binding ------------------------------------------------------------------------------------------


def ordered(joins: list[Constraint], tree: list[Constraint], *, bound: set[int]) -> tuple[Constraint, ...]:
    """An order in which every constraint but the first starts from something bound.

    Tests come first, then steps to an ancestor (at most a few nodes), then steps down, then value joins.
    """
    left = [*tree, *joins]
    if joins and not bound:
        first = joins[0]
        left.remove(first)
        ordered = [Constraint(first.left, first.right, first.relation, "scan")]
        bound = {first.left, first.right}
    else:
        ordered = []

    def cost(constraint: Constraint) -> tuple[int, int]:
        known_l, known_r = constraint.left in bound, constraint.right in bound
        is_tree = len(constraint.relation) == 3
        if known_l and known_r:
            return 0, not is_tree
        if known_r:
            return (1 if is_tree else 3), 0
        return (2 if is_tree else 3) if known_l else 9, 0

    while left:
        constraint = min(left, key=cost)
        left.remove(constraint)
        known_l, known_r = constraint.left in bound, constraint.right in bound
        way: Literal["forward", "backward", "check"] = (
            "check" if known_l and known_r else "forward" if known_l else "backward"
        )
        ordered.append(Constraint(constraint.left, constraint.right, constraint.relation, way))
        bound |= {constraint.left, constraint.right}
    return tuple(map(_one, ordered))


# -- files -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Version:
    previous: str | None
    program: Program | None
    """The whole, if there is none before."""
    changes: tuple[GroupChange, ...] = ()
    """Since the version before."""


class ProgramFiles:
    """Writes a program as it changes for processes that load it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._changes: list[GroupChange] = []
        """Since the last version."""
        self._count = 0
        """Groups in them."""
        self._files = VersionFiles("program")

    def change(self, change: GroupChange) -> None:
        """Change the program."""
        self._program.change(change)
        self._count += len(change)
        if self._files.last is not None and self._count < len(self._program.groups):
            self._changes.append(change)
        else:
            self._changes.clear()  # the whole will be written

    def written(self, folder: Path) -> Path:
        """The file of the program as it is now."""
        if self._files.last is not None and not self._count:
            return self._files.last

        def make(previous: str | None) -> _Version:
            return _Version(previous, None if previous else self._program, tuple(self._changes) if previous else ())

        path = self._files.write(folder, make, changes=self._count, size=len(self._program.groups))
        self._changes, self._count = [], 0
        return path


_programs: dict[str, Program] = {}
"""The programs of this process by the file of their version."""


def load_program(path: str) -> Program:
    """The program of a version; that of an earlier one is brought up to date, and is no longer the earlier one's."""

    def changed(program: Program, version: _Version) -> Program:
        if version.program is not None:
            return version.program
        # Numbers are given out in the order of changes, so they are those of the program that was written.
        for change in version.changes:
            program.change(change)
        return program

    return load_version(path, _programs, _MOST_KEPT, Program, changed)
