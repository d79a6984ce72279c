"""Retention of join state: a row is kept as long as a partner of some live query may still come.

A row of event time ``ts`` whose partner in channel p may be ``reach`` later at most is of use while p's watermark (no
event that is still to come is older) is at most ``ts + reach``: for each channel that a partner may come from, the
greatest tightened bound of any case of any live query.  (A. Silva, *Multiple Continuous Query Processing with Relative
Window Predicates*, 2004, keeps what an operator holds for the greatest window of its queries.)

What shares a reach is the *block variable*, the result node of a block with the conditions on its way: a document's
rows under one block variable go together, and a variable is kept as long as the longest of its block variables.

A row of a link (``links``) is of use while a document of a third block may come, which is bounded by both members; and
while a stream may bring a copy of a member that completes an exchange (``once``), which is no later than the member.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.templates.bounds import UNBOUNDED, Case, pair_index
from xscl.templates.guards import Guard
from xscl.templates.plans import Assembly, LiveGroup
from xscl.templates.program import Program
from xscl.templates.template import Group

__all__ = ["BY_ROWS", "EVER", "REACH_SCHEMA", "Floors", "ReachBuilder", "floors"]

Numbers = npt.NDArray[np.int64]

BY_ROWS = ""
"""Stands for a channel where row windows tell how long rows are kept: ``left`` is the least time below 0."""
REACH_SCHEMA = pa.schema(
    [
        ("link", pa.bool_()),  # whether of rows of a link, or of witness rows
        ("key", pa.int64()),  # the link, or the variable
        ("channel", pa.string()),  # where a partner may come from, or BY_ROWS
        ("left", pa.int64()),  # how much later than the row, or than the link's left member; microseconds
        ("right", pa.int64()),  # than the link's right member; of a variable the same as left
    ]
)
"""A key without a partner has no row: nothing of it is kept."""

_NO_TIMES: Mapping[tuple[str, int], int] = MappingProxyType({})
_BEHIND = (1 << 63) - 1
"""A time behind those of all rows."""
EVER = -(1 << 63)
"""A floor below every time: where no partner is too late."""
_Thing = TypeVar("_Thing")
_OfLink = tuple[int, str, int, int]
"""Link, channel of a third document, how much later that may be than the left and than the right member."""


class ReachBuilder:
    """The reach of rows for the groups of a program, brought up to date at the price of the groups that changed.

    Only groups with a subscriber that sees events after the place asked about count.
    """

    def __init__(self) -> None:
        self._seen: tuple[Program, int, int] | None = None
        """The program and its version, and the place before which none of its groups ends."""
        self._table = REACH_SCHEMA.empty_table()
        self._groups: dict[int, LiveGroup] = {}
        self._reach: defaultdict[tuple[int, str, int], Counter[int]] = defaultdict(Counter)
        """Block variable, channel and row window to how far partners may be away, and for how many cases."""
        self._newest: Mapping[tuple[str, int], int] = {}
        """Least times of newest events, as of the last table."""
        self._under: Counter[tuple[int, int]] = Counter()
        """(block variable, variable), and for how many instances and groups."""
        self._instances: Counter[int] = Counter()
        """Groups by the number of their instance."""
        self._owners: dict[int, list[int]] = {}
        """Block variables by the number of the instance."""
        self._alike: Counter[tuple[int, tuple[Case, ...], tuple[int, ...]]] = Counter()
        """Groups by the number of their instance and their windows."""
        self._guards: Counter[tuple[int, Guard]] = Counter()
        """Blocks of groups by their variable and guard."""
        self._own: dict[int, str] = {}
        """The channel of each block variable."""
        self.channels: dict[tuple[str, str], int] = {}
        """(channel, channel of a partner) to how much later a partner may be at most, as of the last table."""
        self._assemblies: dict[int, tuple[Assembly, tuple[_OfLink, ...]]] = {}

    def table(self, program: Program, last: int, newest: Mapping[tuple[str, int], int] = _NO_TIMES) -> pa.Table:
        """Return rows of ``REACH_SCHEMA`` for what queries ask that see events after the place ``last``.

        Args:
            program: has the groups of the queries.
            last: a place.
            newest: least time of the newest events of a channel, by channel and how many they are; without one all rows
                are kept that a row window asks for.
        """
        same = self._seen is not None and self._seen[:2] == (program, program.version) and last < self._seen[2]
        if same and newest == self._newest:
            return self._table
        self._newest = newest
        live = {gid: group for gid, group in program.groups.items() if group.last > last}
        for gid, known in list(self._groups.items()):
            if live.get(gid) is not known:
                self._count(self._groups.pop(gid), -1)
        for gid, group in live.items():
            if gid not in self._groups:
                self._groups[gid] = group
                self._count(group, 1)
        self._follow(program, last)
        self._table = self._made()
        self._seen = program, program.version, min((group.last for group in live.values()), default=1 << 63)
        return self._table

    def _count(self, live: LiveGroup, sign: int) -> None:
        """Count a group in, or out; groups of one instance have the same variables."""
        group = live.group
        if _counted(self._instances, live.iid, sign):
            self._owners[live.iid] = self._count_variables(group, live.channels, sign)
        owners = self._owners[live.iid]
        if _counted(self._alike, (live.iid, group.cases, group.rows), sign):
            for case in group.cases:
                for block, partner, reach in _partners(case, len(owners)):
                    key = owners[block], live.channels[partner], group.newest_rows(block)
                    _counted(self._reach[key], reach, sign)
                    if not self._reach[key]:
                        del self._reach[key]
        for block, guard in enumerate(group.guards):
            if guard is not None and _counted(self._guards, (owners[block], guard), sign):
                for variable in {guard.facts, *guard.numbers_read}:
                    _counted(self._under, (owners[block], variable), sign)
        if live.iid not in self._instances:
            del self._owners[live.iid]

    def _count_variables(self, group: Group, channels: Sequence[str], sign: int) -> list[int]:
        """Count the variables of an instance; return those of its blocks."""
        instance = group.instance
        owners = [instance.nodes[place].var for place in instance.results[: len(channels)]]
        self._own.update(zip(owners, channels, strict=True))
        for pair in {(owners[node.block], node.var) for node in instance.nodes}:
            _counted(self._under, pair, sign)
        return owners

    def _follow(self, program: Program, last: int) -> None:
        """Look again at assemblies that changed."""
        known, self._assemblies = self._assemblies, {}
        for number, assembly in program.assemblies.items():
            if any(group.last > last for group in assembly.groups.values()):
                found = known.get(number)
                same = found is not None and found[0] is assembly
                self._assemblies[number] = found if found and same else (assembly, tuple(_third_members(assembly)))

    def _made(self) -> pa.Table:
        by_owner: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        self.channels = {}
        for (owner, channel, rows), counts in self._reach.items():
            most = max(counts)
            least = self._newest.get((self._own[owner], rows))
            by_rows = BY_ROWS, UNBOUNDED if least is None else -least
            by_owner[owner].append(by_rows if rows else (channel, most))
            pair = self._own[owner], channel
            self.channels[pair] = max(most, self.channels.get(pair, -UNBOUNDED))
        self._own = {owner: self._own[owner] for owner in by_owner}
        variables: dict[tuple[int, str], int] = {}
        for owner, variable in self._under:
            for channel, reach in by_owner[owner]:
                key = variable, channel
                if reach >= variables.get(key, -UNBOUNDED):
                    variables[key] = reach
        links: dict[tuple[int, str], tuple[int, int]] = {}
        for _, of_links in self._assemblies.values():
            for link, channel, left, right in of_links:
                so_far = links.get((link, channel), (-UNBOUNDED, -UNBOUNDED))
                links[link, channel] = max(so_far[0], left), max(so_far[1], right)
        columns: tuple[Sequence[object], ...] = (
            [False] * len(variables) + [True] * len(links),
            [key for key, _ in variables] + [key for key, _ in links],
            [channel for _, channel in variables] + [channel for _, channel in links],
            [*variables.values(), *(left for left, _ in links.values())],
            [*variables.values(), *(right for _, right in links.values())],
        )
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, REACH_SCHEMA, strict=True)], schema=REACH_SCHEMA)


def _counted(counts: Counter[_Thing], thing: _Thing, sign: int) -> bool:
    """Count a thing in, or out; tell whether it is the first one that came, or the last one that went."""
    count = counts.get(thing, 0) + sign
    if count:
        counts[thing] = count
    else:
        del counts[thing]
    return count == max(sign, 0)


def _partners(case: Case, blocks: int) -> Iterator[tuple[int, int, int]]:
    """Yield (block, partner's block, how much later the partner may be)."""
    for (i, j), place in pair_index(blocks).items():
        yield i, j, min(case[place].hi, UNBOUNDED)
        yield j, i, min(-case[place].lo, UNBOUNDED)


def _third_members(assembly: Assembly) -> Iterator[_OfLink]:
    """Iterate over what the rows of an assembly's links wait for."""
    channels = next(iter(assembly.groups.values())).channels
    later = {(block, partner): reach for block, partner, reach in _partners(assembly.bounds, assembly.blocks)}
    crossed = {block for pair in assembly.crossings for block in pair}
    for link in assembly.links:
        left, right = link.blocks
        for block in {*range(assembly.blocks)} - {left, right}:
            yield link.key, channels[block], later[left, block], later[right, block]
        for block in crossed & {left, right}:
            yield link.key, channels[block], later.get((left, block), 0), later.get((right, block), 0)


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
        """Tell which witness rows, told by variable and event time, are kept; late ones never are, which is not told
        here.

        >>> some = Floors(*(np.array(values) for values in ([3, 5], [10, EVER], [], [], [])))
        >>> some.keep(np.array([3, 3, 5, 4]), np.array([9, 10, 0, 99])).tolist()
        [False, True, True, False]
        """
        kept: npt.NDArray[np.bool_] = ts >= self.of(variables)
        return kept

    def of(self, variables: Numbers) -> Numbers:
        """Return the least event time that is kept of each of some variables; a time behind all others: none is."""
        if len(self.variables) == 0:
            return np.full(len(variables), _BEHIND)
        place = np.minimum(np.searchsorted(self.variables, variables), len(self.variables) - 1)
        found: Numbers = np.where(self.variables[place] == variables, self.least[place], _BEHIND)
        return found

    def keep_links(self, links: Numbers, left: Numbers, right: Numbers) -> npt.NDArray[np.bool_]:
        """Tell which rows of links, told by link and the event times of both members, are kept."""
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
        """Return rows (var, floor): a witness row is kept if it is not late and its time is at least its variable's
        floor.
        """
        return pa.table({"var": pa.array(self.variables), "floor": pa.array(self.least)})


def floors(reach: pa.Table, watermarks: Mapping[str, int | None]) -> Floors:
    """Return the floors that rows of ``REACH_SCHEMA`` and the channels' watermarks, in microseconds, give.

    A channel without a watermark (None, or not named) may still bring events of any age.
    """
    channels = reach.column("channel").combine_chunks().dictionary_encode()
    names = channels.dictionary.to_pylist()
    known = np.array([name == BY_ROWS or watermarks.get(name) is not None for name in names], np.bool_)
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
