"""How long rows of join state are kept: as long as a partner of some live query may still come.

A row of event time ``ts`` whose partner in channel p may be ``reach`` later at most is of use while p's watermark (no
event that is still to come is older) is at most ``ts + reach``.  The reach is that of Juggler's digest (section 6.4),
for each channel that a partner may come from: the greatest tightened bound of any case of any live query.

What shares a reach is the *block variable*, the result node of a block with the conditions on its way: a document's
rows under one block variable go together, and a variable is kept as long as the longest of its block variables.

A row of a link (``links``) is of use while a document of a third block may come, which is bounded by both members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.templates.bounds import UNBOUNDED, Case, pair_index
from xscl.templates.program import Assembly, InstancePlan, LiveGroup, Program

__all__ = ["EVER", "REACH_SCHEMA", "Floors", "ReachBuilder", "floors", "reach_table"]

Numbers = npt.NDArray[np.int64]

REACH_SCHEMA = pa.schema(
    [
        ("link", pa.bool_()),  # whether of rows of a link, or of witness rows
        ("key", pa.int64()),  # the link, or the variable
        ("channel", pa.string()),  # where a partner may come from
        ("left", pa.int64()),  # how much later than the row, or than the link's left member; microseconds
        ("right", pa.int64()),  # than the link's right member; of a variable the same as left
    ]
)
"""A key without a partner has its own channel with a reach of ``-UNBOUNDED``: not kept, unless nothing there is."""

EVER = -(1 << 63)
"""A floor below every time: where no partner is too late."""

_Entries = dict[tuple[int, str], int]


@dataclass(frozen=True, slots=True)
class _OfPlan:
    """What a plan asks for: the reach of its block variables by channel, and the variables under them."""

    last: int
    """The greatest place that a subscriber sees."""
    reach: _Entries
    under: frozenset[tuple[int, int]]
    """(block variable, variable)."""


class ReachBuilder:
    """Remembers what each plan asks for, so that a change of a few queries costs a look at each plan and no more."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, int], tuple[int, _OfPlan]] = {}
        """What plans ask for, and the version in which their groups had changed last."""
        self._last: tuple[int, pa.Table, int] | None = None

    def table(self, program: Program, last: int) -> pa.Table:
        """Rows of ``REACH_SCHEMA``: what queries ask for that see events after the place ``last``."""
        if self._last is not None and self._last[0] == program.version and self._last[2] > last:
            return self._last[1]
        plans: dict[tuple[str, int], InstancePlan | Assembly] = {
            **{("instance", number): plan for number, plan in program.instances.items()},
            **{("assembly", number): plan for number, plan in program.assemblies.items()},
        }
        known, self._plans = self._plans, {}
        for name, plan in plans.items():
            found = known.get(name)
            changed = program.changed[plan.number if isinstance(plan, InstancePlan) else plan.instance]
            if found is None or found[0] != changed or found[1].last <= last:
                live = [group for group in plan.groups.values() if group.last > last]
                if not live:
                    continue
                found = changed, _of_groups(live)
            self._plans[name] = found
        table = reach_table(
            (asked for _, asked in self._plans.values()),
            (plan for name, plan in plans.items() if name in self._plans and isinstance(plan, Assembly)),
        )
        # A query that ends meanwhile makes the table another.
        ends = min((asked.last for _, asked in self._plans.values()), default=1 << 63)
        self._last = program.version, table, ends
        return table


def _of_groups(groups: Iterable[LiveGroup]) -> _OfPlan:
    """What groups of one instance ask for."""
    groups = list(groups)
    instance, channels = groups[0].group.instance, groups[0].channels
    owners = [instance.nodes[place].var for place in instance.results[: len(channels)]]
    reach: _Entries = {}
    for live in groups:
        for case in live.group.cases:
            for block, partner, furthest in _partners(case, len(channels)):
                key = owners[block], channels[partner]
                reach[key] = max(reach.get(key, -UNBOUNDED), furthest)
    if len(channels) == 1:
        reach[owners[0], channels[0]] = -UNBOUNDED
    under = frozenset((owners[node.block], node.var) for node in instance.nodes)
    return _OfPlan(min(live.last for live in groups), reach, under)


def _partners(case: Case, blocks: int) -> Iterator[tuple[int, int, int]]:
    """(block, partner's block, how much later the partner may be)."""
    for (i, j), place in pair_index(blocks).items():
        yield i, j, min(case[place].hi, UNBOUNDED)
        yield j, i, min(-case[place].lo, UNBOUNDED)


def reach_table(asked: Iterable[_OfPlan], assemblies: Iterable[Assembly]) -> pa.Table:
    """Rows of ``REACH_SCHEMA``, one for each key and channel (and, of a link, what the other member allows)."""
    reach: _Entries = {}
    under: set[tuple[int, int]] = set()
    for one in asked:
        for key, furthest in one.reach.items():
            reach[key] = max(reach.get(key, -UNBOUNDED), furthest)
        under |= one.under
    by_owner: dict[int, list[tuple[str, int]]] = {}
    for (owner, channel), furthest in reach.items():
        by_owner.setdefault(owner, []).append((channel, furthest))
    variables: _Entries = {}
    for owner, variable in under:
        for channel, furthest in by_owner[owner]:
            variables[variable, channel] = max(variables.get((variable, channel), -UNBOUNDED), furthest)
    links: dict[tuple[int, str], tuple[int, int]] = {}
    for assembly in assemblies:
        for link, channel, left, right in _third_members(assembly):
            known = links.get((link, channel), (-UNBOUNDED, -UNBOUNDED))
            links[link, channel] = max(known[0], left), max(known[1], right)
    rows = [
        *((False, key, channel, furthest, furthest) for (key, channel), furthest in variables.items()),
        *((True, key, channel, *both) for (key, channel), both in links.items()),
    ]
    columns = list(zip(*sorted(rows), strict=True)) or [()] * len(REACH_SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, REACH_SCHEMA, strict=True)], schema=REACH_SCHEMA)


def _third_members(assembly: Assembly) -> Iterator[tuple[int, str, int, int]]:
    """(link, channel, how much later than its left and its right member) of documents that rows of links wait for."""
    channels = next(iter(assembly.groups.values())).channels
    later = {(block, partner): reach for block, partner, reach in _partners(assembly.bounds, assembly.blocks)}
    for link in assembly.links:
        for block in set(range(assembly.blocks)) - set(link.blocks):
            yield link.key, channels[block], later[link.blocks[0], block], later[link.blocks[1], block]


# -- what is kept ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Floors:
    """The least event times that are kept, for some watermarks.

    ``variables`` and ``links`` are ascending; a link has a row for each channel that a third document may come from.
    """

    variables: Numbers
    least: Numbers
    links: Numbers
    left: Numbers
    right: Numbers

    def keep(self, variables: Numbers, ts: Numbers) -> npt.NDArray[np.bool_]:
        """Which witness rows, told by variable and event time, are kept; late ones never are, which is not told here.

        >>> some = Floors(*(np.array(values) for values in ([3, 5], [10, EVER], [], [], [])))
        >>> some.keep(np.array([3, 3, 5, 4]), np.array([9, 10, 0, 99])).tolist()
        [False, True, True, False]
        """
        if len(self.variables) == 0:
            return np.zeros(len(ts), np.bool_)
        place = np.minimum(np.searchsorted(self.variables, variables), len(self.variables) - 1)
        kept: npt.NDArray[np.bool_] = (self.variables[place] == variables) & (ts >= self.least[place])
        return kept

    def keep_links(self, links: Numbers, left: Numbers, right: Numbers) -> npt.NDArray[np.bool_]:
        """Which rows of links, told by link and the event times of both members, are kept."""
        kept = np.zeros(len(links), np.bool_)
        place = np.searchsorted(self.links, links)
        for _ in range(self._most):
            inside = np.minimum(place, len(self.links) - 1)
            there = (place < len(self.links)) & (self.links[inside] == links)
            kept |= there & (left >= self.left[inside]) & (right >= self.right[inside])
            place = place + 1
        return kept

    @cached_property
    def _most(self) -> int:
        """The most rows of a link."""
        return int(np.unique(self.links, return_counts=True)[1].max(initial=0))

    def table(self) -> pa.Table:
        """(var, floor): a witness row is kept if it is not late and its time is at least its variable's floor."""
        return pa.table({"var": pa.array(self.variables), "floor": pa.array(self.least)})


def floors(reach: pa.Table, watermarks: Mapping[str, int | None]) -> Floors:
    """Floors from rows of ``REACH_SCHEMA`` and each channel's watermark, in microseconds.

    A channel without one (None, or not named) may still bring events of any age.
    """
    channels = reach.column("channel").combine_chunks().dictionary_encode()
    names = channels.dictionary.to_pylist()
    known = np.array([watermarks.get(name) is not None for name in names], np.bool_)
    marks = np.array([watermarks.get(name) or 0 for name in names], np.int64)
    which = channels.indices.to_numpy(zero_copy_only=False)
    key, left, right = (reach.column(name).to_numpy() for name in ("key", "left", "right"))
    left = np.where(known[which], marks[which] - left, EVER) if len(which) else left
    right = np.where(known[which], marks[which] - right, EVER) if len(which) else right
    is_link = reach.column("link").to_numpy()
    of_variables, of_links = np.flatnonzero(~is_link), np.flatnonzero(is_link)
    of_variables = of_variables[np.argsort(key[of_variables], kind="stable")]
    of_links = of_links[np.argsort(key[of_links], kind="stable")]
    variables, starts = np.unique(key[of_variables], return_index=True)
    least = np.minimum.reduceat(left[of_variables], starts) if len(starts) else np.empty(0, np.int64)
    return Floors(variables, least, key[of_links], left[of_links], right[of_links])
