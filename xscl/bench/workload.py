"""Random queries as the thesis makes them (6.6.1, Figure 6.17), one after another, the same for the same seed.

A document schema is a tree of elements.  A query picks k by Zipf's law, k different leaves for each side, uniformly,
and joins the i-th with the i-th; the root and the inner nodes on the way to the leaves are bound too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, count, islice, permutations, product

import sqlalchemy as sa

from xscl.base.durations import format_duration, parse_duration
from xscl.base.errors import EngineError
from xscl.base.types import QueryOutcome
from xscl.catalog.tables import GROUPS, TEMPLATES

__all__ = [
    "FEED_ITEMS",
    "RSS",
    "SCHEMAS",
    "Schema",
    "Windows",
    "count_queries",
    "require_all",
    "shaped_queries",
    "thesis_queries",
    "three_level",
    "two_level",
]


@dataclass(frozen=True, slots=True)
class Schema:
    """Documents of one channel: the root's name and the paths below it to every leaf, one name a step."""

    channel: str
    root: str
    leaves: tuple[tuple[str, ...], ...]
    most_joins: int
    """Value joins of a query at most, unless told otherwise."""


def two_level(leaves: int = 6) -> Schema:
    """Make a root with so many leaves; at most that many templates."""
    return Schema("S", "item", tuple((f"leaf{i}",) for i in range(1, leaves + 1)), leaves)


def three_level(inner: int = 4, leaves: int = 4, most_joins: int = 4) -> Schema:
    """Make a root with inner nodes, each with leaves."""
    paths = product(range(1, inner + 1), range(1, leaves + 1))
    return Schema("S", "doc", tuple((f"part{i}", f"leaf{i}_{j}") for i, j in paths), most_joins)


RSS = Schema(
    "items",
    "item",
    tuple((name,) for name in ("item_url", "channel_url", "title", "timestamp", "description")),
    5,
)
"""The feed items of the thesis' last experiment; its queries have no window."""
FEED_ITEMS = Schema(
    "items",
    "item",
    tuple((name,) for name in ("item_url", "channel_url", "channel_title", "title", "description")),
    5,
)
"""The same over the items that intake makes of feeds (``xscl.ingest.item``), whose times are no single field."""
SCHEMAS = {"two-level": two_level(), "three-level": three_level(), "rss": RSS}
"""The thesis' schemas with its default sizes."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Window lengths in microseconds, drawn uniformly from a range, both ends included; in whole seconds if longer."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Windows | None:
        """Read ``7 days``; ``1 h..30 days`` for random ones; None for ``unbounded``.

        Raises:
            ValueError: neither, or an empty range.

        >>> Windows.parse("1 min..2 min"), Windows.parse("unbounded")
        (Windows(low=60000000, high=120000000), None)
        """
        if text.strip().lower() == "unbounded":
            return None
        low, _, high = text.partition("..")
        found = cls(parse_duration(low), parse_duration(high or low))
        if found.low > found.high:
            raise ValueError(f"{text!r}: the first length is greater than the second")
        return found

    def draw(self, generator: random.Random) -> str:
        """Draw one of the windows, as XSCL writes it."""
        if self.low == self.high:
            return format_duration(self.low)
        length = generator.randint(self.low, self.high)
        whole = length // 1_000_000 * 1_000_000
        return format_duration(whole if whole >= self.low else length)


def thesis_queries(
    schema: Schema,
    number: int | None = None,
    *,
    seed: int = 1,
    zipf: float = 0.8,
    most_joins: int | None = None,
    windows: Windows | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of so many queries, or without end; without ``windows`` they are unbounded.

    ``zipf`` is the parameter of Zipf's law for the number of joins, 0 for uniform.

    >>> next(thesis_queries(two_level(), seed=4))
    ('q1', 'S//item->v0[./leaf1->v1] FOLLOWED BY {v1 = w1} S//item->w0[./leaf6->w1]')
    """
    generator = random.Random(seed)
    sizes = range(1, (most_joins or schema.most_joins) + 1)
    weights = list(accumulate(k**-zipf for k in sizes))
    for place in islice(count(1), number):
        (joins,) = generator.choices(sizes, cum_weights=weights)
        left, right = (_block(schema, generator.sample(schema.leaves, joins), side) for side in "vw")
        atoms = " AND ".join(f"v{i} = w{i}" for i in range(1, joins + 1))
        window = f", {windows.draw(generator)}" if windows else ""
        yield f"q{place}", f"{left} FOLLOWED BY {{{atoms}{window}}} {right}"


def _block(schema: Schema, leaves: Sequence[tuple[str, ...]], side: str) -> str:
    """Write the pattern of one side: ``v0`` is the root, ``v1``… the leaves in their order, ``vp``… the inner nodes."""
    variables = {leaf: f"{side}{place}" for place, leaf in enumerate(leaves, start=1)}
    return f"{schema.channel}//{schema.root}->{side}0{_below(variables, (), side)}"


def _below(variables: dict[tuple[str, ...], str], above: tuple[str, ...], side: str) -> str:
    depth = len(above)
    text = ""
    for step in dict.fromkeys(path[depth] for path in variables if len(path) > depth and path[:depth] == above):
        path = (*above, step)
        name = variables.get(path) or f"{side}{'_'.join(path)}"
        text += f"[./{step}->{name}{_below(variables, path, side)}]"
    return text


# -- queries of many shapes -----------------------------------------------------------------------------------------


def shaped_queries(number: int, seed: int, templates: int = 20) -> Iterator[tuple[str, str]]:
    """Yield queries over feed items whose value joins have at most ``templates`` shapes; none has a window.

    A query draws one to four joins by Zipf's law with parameter 0.8, each a different pair of fields, uniformly from
    all 25; a field may be joined more than once.  A query of a shape beyond the first ``templates`` is drawn again.
    """
    generator = random.Random(seed)
    sizes = range(1, 5)
    weights = [k**-0.8 for k in sizes]
    fields = [path[0] for path in RSS.leaves]
    pairs = [(left, right) for left in range(len(fields)) for right in range(len(fields))]
    shapes: set[tuple[tuple[int, int], ...]] = set()
    made = 0
    while made < number:
        (joins,) = generator.choices(sizes, weights)
        drawn = tuple(generator.sample(pairs, joins))
        shape = _shape(tuple(sorted(drawn)))
        if shape not in shapes and len(shapes) >= templates:
            continue
        shapes.add(shape)
        made += 1
        lefts, rights = (sorted({pair[side] for pair in drawn}) for side in (0, 1))
        left = "".join(f"[./{fields[place]}->v{place + 1}]" for place in lefts)
        right = "".join(f"[./{fields[place]}->w{place + 1}]" for place in rights)
        atoms = " AND ".join(f"v{one + 1} = w{other + 1}" for one, other in drawn)
        block = f"{RSS.channel}//{RSS.root}"
        yield f"q{made}", f"{block}->v0{left} FOLLOWED BY {{{atoms}}} {block}->w0{right}"


@cache
def _shape(pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return the least set of joins among all ways to number the left and the right fields from 0."""
    lefts, rights = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    return min(
        tuple(sorted((left.index(one), right.index(other)) for one, other in pairs))
        for left in permutations(lefts)
        for right in permutations(rights)
    )


def count_queries(connection: sa.Connection) -> dict[str, int]:
    """Count the ``templates`` and ``groups`` of a home."""
    counts = {t.name: sa.select(sa.func.count()).select_from(t) for t in (TEMPLATES, GROUPS)}
    return {name: connection.scalar(statement) or 0 for name, statement in counts.items()}


def require_all(outcomes: Iterable[QueryOutcome]) -> None:
    """See that no query was refused.

    Raises:
        EngineError: one was, and a rate of refusals would say nothing.
    """
    for outcome in outcomes:
        if outcome.error is not None:
            raise EngineError("XSCL_BENCH", f"query {outcome.name} of the workload was refused: {outcome.error}")
