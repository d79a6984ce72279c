"""Plans as data: edges, groups, instances, links and assemblies."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.templates.bounds import Bounds, Case
from xscl.templates.links import Link
from xscl.templates.members import Membership
from xscl.templates.template import Group

__all__ = [
    "Assembly",
    "Constraint",
    "Edge",
    "EdgeKey",
    "GroupChange",
    "InstancePlan",
    "LinkPlan",
    "LinkStep",
    "LiveGroup",
    "Windows",
]


@dataclass(frozen=True, slots=True)
class EdgeKey:
    """The key by which joins of two variables are told apart.

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

    def __hash__(self) -> int:
        # Fractions take longer to hash than all the rest.
        f, add = self.f, self.add
        numbers = f.numerator, f.denominator, add.numerator, add.denominator
        return hash((self.kind, self.lvar, self.lfn, self.rvar, self.rfn, self.op, numbers))

    @property
    def finds(self) -> bool:
        """Whether it finds pairs, rather than being checked on them."""
        return self.kind in ("EQ", "ONE")


@dataclass(frozen=True, slots=True)
class Edge:
    """A distinct join of two variables and its number in the program.

    ``lo`` and ``hi`` enclose the windows of every group that uses it.
    """

    number: int
    key: EdgeKey
    lo: int
    hi: int


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
    newest: int = -1
    """The greatest place after which a subscriber sees members; -1 where ``Group.crosses`` is False."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Groups that leave a program, and then others that come."""

    removed: tuple[int, ...] = ()
    added: tuple[LiveGroup, ...] = ()
    spans: tuple[tuple[int, int, int, int], ...] = ()
    """(group, first, last, newest) of groups that change in nothing else."""
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
    """Use of the relation: enumerate it, go from left to right, from right to left, or test it."""


@dataclass(frozen=True)
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
    """Groups by number; the program changes it."""

    @cached_property
    def name(self) -> tuple[bool, int]:
        """Tells it from all other plans of the program: whether it is a link, and its number."""
        return False, self.number


@dataclass(frozen=True)
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
    """Digests of specs as in ``InstancePlan``, by side of the link."""

    @cached_property
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

    Its instance has three or more blocks, or two whose members may be exchanged (``Bounds.exchange``).

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
    """Groups by number; the program changes it."""


class Windows(NamedTuple):
    """The windows of an instance's groups, a row for each group and case, in no order."""

    gid: npt.NDArray[np.int64]
    case: npt.NDArray[np.int32]
    """Number of the case in its group, from 1."""
    lo: npt.NDArray[np.int64]
    """Least ``ts(right) - ts(left)``, microseconds."""
    hi: npt.NDArray[np.int64]
    order: npt.NDArray[np.int8]
    """The order, as in ``Bounds``."""
    first: npt.NDArray[np.int64]
    """Places of the intake order, as in ``LiveGroup``."""
    last: npt.NDArray[np.int64]
    left: npt.NDArray[np.int32]
    """The stream that the first block names, 0 for its channel."""
    right: npt.NDArray[np.int32]
    """The stream that the second block names; 0 without one."""
    guard_l: npt.NDArray[np.int32]
    """The number of the first block's guard in the program; 0: it has none."""
    guard_r: npt.NDArray[np.int32]
    rows_l: npt.NDArray[np.int64]
    """Number of newest events of its channel that the first block's event is among; 0: any."""
    rows_r: npt.NDArray[np.int64]
    counted_l: npt.NDArray[np.int32]
    """The number of the channel that ``rows_l`` counts (``Ordinals``), or 0."""
    counted_r: npt.NDArray[np.int32]
