"""Rows to witness rows without documents: what a row channel's columns alone can answer, as a relation.

A row's document is flat: a root named by the channel and a child for each column that is not NULL.  So which nodes a
definition selects there, and with which chains, is known before any row is seen, but for the columns that are NULL.
``split_specs`` finds the definitions of which this is true and says, for each node that they select, what a row's
witness consists of; ``WITNESSES`` makes witness rows of that in Spark SQL.  The statement is fixed; what queries ask
for are rows of what it reads.  Nothing here needs Spark.

*Positions* are nodes of the document of a row without NULLs: the document node -1, the root 0, columns from 1.  The
node's number in a row is its position without the NULLs before it.

The law, tested: for every row, what ``WITNESSES`` makes of ``Split.asked`` and what ``match_document`` finds with
``Split.walked`` in the row's document are together what it finds there with all specs, each row once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from lxml import etree

from xscl.arrow import CHAIN
from xscl.errors import DocumentLimitError
from xscl.xpath.automaton import Automaton, WitnessSpec
from xscl.xpath.chains import MAX_CHAIN_ENTRIES
from xscl.xpath.condition import matches_name
from xscl.xpath.nodes import DOCUMENT
from xscl.xpath.pattern import Condition, Definition, Exists, Step
from xscl.xpath.witness import ChainEntry, match_document

__all__ = ["ASKED_SCHEMA", "WITNESSES", "Asked", "ChannelSplit", "RowShape", "Split", "asked_table", "split_specs"]

_ROOT = 0
_FUNCTIONS = frozenset((None, "", "number"))
"""Those that Spark SQL has exactly as ``xscl.values`` has them."""

ASKED_SCHEMA = pa.schema(
    [
        ("channel", pa.string()),
        (
            "asked",
            pa.list_(
                pa.struct(
                    [
                        ("position", pa.int32()),
                        ("var", pa.int64()),
                        ("fn", pa.string()),
                        ("needs", pa.list_(pa.int32())),
                        ("chain", CHAIN),  # of positions
                    ]
                )
            ),
        ),
    ]
)
"""What ``WITNESSES`` reads: a row for each channel."""

_NUMERAL = r"regexp_extract(text, r'\A[ \t\r\n]*+(-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++))[ \t\r\n]*+\z', 1)"
"""``xscl.values.to_number``'s part that is a number, '' where there is none."""
# Zero before a leading point; no zeros before the first digit but one, none after the last, no point alone; no -0.
_NUMBER_TEXT = r"""
regexp_replace(regexp_replace(regexp_replace(regexp_replace(
  numeral, r'(?<![0-9])[.]', '0.'), r'\A(-?)0+(?=[0-9])', '$1'), r'[.]0*\z|([.][0-9]*[1-9])0+\z', '$1'), r'\A-0\z', '0')
"""
"""``xscl.values.number_text`` of a numeral."""

# The plan is one row a channel, so pairing each event with it by a plain product costs neither a job nor a shuffle.
# Rows without a value are left out by what is cheap for all others, because Spark moves that test down and repeats it.
WITNESSES = f"""
with seen as (
  select /*+ SHUFFLE_REPLICATE_NL(p) */
         e.docid, e.ts, e.item, concat(e.channel, char(0), e.id) as place, e.late, e.membership, e.cells, p.asked,
         exists(e.cells, cell -> cell is null) as gaps
  from {{events}} e join {{asked}} p on p.channel = e.channel
  where e.cells is not null
),
wanted as (
  select docid, ts, item, place, late, membership, cells, gaps, position, var, fn, chain
  from seen lateral view inline(asked) a as position, var, fn, needs, chain
  where not gaps or forall(needs, column -> get(cells, column - 1) is not null)
),
texts as (
  select *, case when fn is null then null
                 when position > 0 then get(cells, position - 1)
                 else concat_ws('', cells) end as text
  from wanted
),
numerals as (
  select *, {_NUMERAL} as numeral
  from texts
  where fn is null or fn = '' or length({_NUMERAL}) between 1 and 1000
),
valued as (
  select *, if(fn = 'number', {_NUMBER_TEXT}, text) as strval from numerals
),
numbered as (
  select *, if(fn = 'number', strval, numeral) as digits from valued
)
select docid, ts, item, place, late, membership, var,
       if(gaps and position > 0, size(filter(slice(cells, 1, greatest(position, 0)), cell -> cell is not null)),
          position) as node,
       fn, strval,
       if(length(digits) <= 1000 and abs(try_cast(digits as double)) < double('infinity'),
          try_cast(digits as double), null) as num,
       if(fn is null, 0L, xxhash64(strval)) as h,
       if(gaps,
          transform(
            filter(chain, c -> (c.node1 < 1 or get(cells, c.node1 - 1) is not null)
                           and (c.node2 < 1 or get(cells, c.node2 - 1) is not null)),
            c -> named_struct(
              'var1', c.var1,
              'var2', c.var2,
              'node1', if(c.node1 < 1, c.node1,
                          size(filter(slice(cells, 1, greatest(c.node1, 0)), cell -> cell is not null))),
              'node2', if(c.node2 < 1, c.node2,
                          size(filter(slice(cells, 1, greatest(c.node2, 0)), cell -> cell is not null))))),
          chain) as chain
from numbered
"""
"""Spark SQL: {events} (docid, channel, id, item, ts, late, membership, cells) and {asked} (``ASKED_SCHEMA``) to witness
rows.
"""


@dataclass(frozen=True, slots=True)
class RowShape:
    """What the documents of a row channel look like."""

    element: str
    """The root's name."""
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """One node of a wanted variable in every row that has the columns it needs, with one of its values."""

    position: int
    var: int
    function: str | None
    needs: tuple[int, ...]
    """Columns (from 1) that must not be NULL: the node's own and those that conditions ask for."""
    chain: tuple[ChainEntry, ...]
    """R_bin by positions; entries of NULLs are not there."""


@dataclass(frozen=True, slots=True)
class Split:
    """Specs by how they are answered; all specs of one definition in the same way."""

    walked: tuple[WitnessSpec, ...]
    """By walking documents."""
    answered: tuple[WitnessSpec, ...]
    """By columns alone, where events have columns."""
    asked: Mapping[str, tuple[Asked, ...]]
    """What ``answered`` comes to, by channel."""


class _NeedsWalk(Exception):
    """A definition that columns alone do not answer."""


def split_specs(specs: Iterable[WitnessSpec], shapes: Mapping[str, RowShape]) -> Split:
    """Tell the specs that columns alone can answer from the others; ``shapes`` are those of the row channels.

    Answered are paths of elements whose brackets, if any, ask for columns to be there, with functions that Spark has.
    """
    by_channel: defaultdict[str, defaultdict[int, list[WitnessSpec]]] = defaultdict(lambda: defaultdict(list))
    for spec in specs:
        by_channel[spec.definition.channel][spec.definition.key].append(spec)
    walked: list[WitnessSpec] = []
    answered: list[WitnessSpec] = []
    asked: dict[str, tuple[Asked, ...]] = {}
    for channel, by_definition in by_channel.items():
        split = ChannelSplit(shapes[channel]) if channel in shapes else None
        if split is not None:
            split.put(by_definition)
            if not split.refused:
                asked[channel] = split.asked()
        for key, asking in by_definition.items():
            (walked if split is None or not split.answers(key) else answered).extend(asking)
    return Split(tuple(walked), tuple(answered), asked)


class ChannelSplit:
    """What columns answer of one row channel, as definitions come and go; each costs what it asks itself."""

    def __init__(self, shape: RowShape) -> None:
        self._selections = _Selections(shape)
        self._row = _whole_row(shape)
        self._rows: dict[int, list[Asked]] = {}
        """By the keys of the definitions that columns answer."""
        self._entries: dict[int, int] = {}
        """Chain entries in a row without NULLs, by key."""
        self._all_entries = 0

    @property
    def refused(self) -> bool:
        """Whether a row without NULLs is refused for the chains that are asked for; the walk does that."""
        return self._all_entries > MAX_CHAIN_ENTRIES

    def put(self, asked: Mapping[int, list[WitnessSpec]]) -> None:
        """Take in all that is asked of some definitions, by their keys; no spec of one that is asked for no more."""
        candidates: dict[int, _Candidate] = {}
        for key, specs in asked.items():
            self._all_entries -= self._entries.pop(key, 0)
            self._rows.pop(key, None)
            candidate = _candidate(specs, self._selections) if specs else None
            if candidate is not None:
                candidates[key] = candidate
        try:
            found = _asked(candidates, self._row)
        except DocumentLimitError:
            # Together they are too many; what each asks does not depend on the others.
            found = {}
            for key, candidate in candidates.items():
                with suppress(DocumentLimitError):
                    found |= _asked({key: candidate}, self._row)
        for key, candidate in candidates.items():
            rows = found.get(key)
            if rows is None:
                self._entries[key] = MAX_CHAIN_ENTRIES + 1
            else:
                self._entries[key] = sum(len(row.chain) for row in rows if row.function == rows[0].function)
                if _clear(candidate, rows):
                    self._rows[key] = rows
            self._all_entries += self._entries[key]

    def answers(self, key: int) -> bool:
        """Whether columns answer what is asked of a definition."""
        return key in self._rows and not self.refused

    def asked(self) -> tuple[Asked, ...]:
        """What rows are asked for."""
        return () if self.refused else tuple(row for rows in self._rows.values() for row in rows)


def asked_table(asked: Mapping[str, Sequence[Asked]]) -> pa.Table:
    """What ``WITNESSES`` reads."""
    rows = [
        {
            "channel": channel,
            "asked": [
                {
                    "position": row.position,
                    "var": row.var,
                    "fn": row.function,
                    "needs": row.needs,
                    "chain": [dict(zip(CHAIN.value_type.names, entry, strict=True)) for entry in row.chain],
                }
                for row in of_channel
            ],
        }
        for channel, of_channel in asked.items()
        if of_channel
    ]
    return pa.Table.from_pylist(rows, schema=ASKED_SCHEMA)


# -- what definitions select -----------------------------------------------------------------------------------


class _Selections:
    """What definitions select in the flat document of a channel."""

    def __init__(self, shape: RowShape) -> None:
        self.shape = shape
        self._known: dict[int, dict[int, frozenset[int]] | None] = {}
        """By the keys of definitions, which are sooner hashed."""

    def of(self, definition: Definition) -> dict[int, frozenset[int]]:
        """Positions that a definition selects, each with the columns it needs.

        Every step goes down, and there are two levels below the document node, so there is one way to each position.
        """
        if definition.key not in self._known:
            try:
                self._known[definition.key] = self._select(definition)
            except _NeedsWalk:
                self._known[definition.key] = None
        found = self._known[definition.key]
        if found is None:
            raise _NeedsWalk
        return found

    def _select(self, definition: Definition) -> dict[int, frozenset[int]]:
        at_document = self._all(definition.conditions, DOCUMENT)
        found = {} if at_document is None else {DOCUMENT: at_document}
        for step in definition.steps:
            found = {
                below: needs | more
                for position, needs in found.items()
                for below, more in self._reached(step, position).items()
            }
        return found

    def _reached(self, step: Step, position: int) -> dict[int, frozenset[int]]:
        if step.test.kind != "element":
            raise _NeedsWalk
        below: list[int] = []
        if position == DOCUMENT:
            below.append(_ROOT)
        if position == _ROOT or (position == DOCUMENT and step.axis == "descendant"):
            below += range(1, len(self.shape.columns) + 1)
        found = {}
        for place in below:
            name = self.shape.columns[place - 1] if place else self.shape.element
            if matches_name(step.test, name):
                needs = self._all(step.conditions, place)
                if needs is not None:
                    found[place] = needs | {place} if place else needs
        return found

    def _all(self, conditions: Iterable[Condition], position: int) -> frozenset[int] | None:
        """Columns by which conditions hold at a node; None: they never do."""
        found: frozenset[int] = frozenset()
        for condition in conditions:
            if not isinstance(condition, Exists):
                raise _NeedsWalk
            ways = self._reached(condition.step, position).values()
            if not ways:
                return None
            least = min(ways, key=len)
            if not all(least <= way for way in ways):
                raise _NeedsWalk
            found |= least
        return found


@dataclass(frozen=True, slots=True)
class _Candidate:
    definition: Definition
    specs: list[WitnessSpec]
    selected: dict[int, frozenset[int]]
    """Positions and the columns they need."""
    ends: dict[int, dict[int, frozenset[int]]]
    """The same of the ends of all edges, by key."""


def _candidate(specs: list[WitnessSpec], selections: _Selections) -> _Candidate | None:
    definition = specs[0].definition
    if not all(_FUNCTIONS.issuperset(spec.functions) for spec in specs):
        return None
    ends = {end.key: end for spec in specs for edge in (*spec.edges, *spec.hanging) for end in edge}
    try:
        selected = {key: selections.of(end) for key, end in ends.items()}
        return _Candidate(definition, specs, selections.of(definition), selected)
    except _NeedsWalk:
        return None


def _asked(candidates: Mapping[int, _Candidate], row: etree._Element) -> dict[int, list[Asked]]:
    """What rows are asked for by each of these definitions.

    Raises:
        DocumentLimitError: more than a row may be asked for.
    """
    # The walk itself says what the chains are: those of a row without NULLs.
    bare = [
        WitnessSpec(
            candidate.definition,
            (None,),
            _distinct(edge for spec in candidate.specs for edge in spec.edges),
            _distinct(edge for spec in candidate.specs for edge in spec.hanging),
        )
        for candidate in candidates.values()
    ]
    found: dict[int, list[Asked]] = {key: [] for key in candidates}
    if not bare:
        return found
    for witness in match_document(Automaton(bare), bare[0].definition.channel, row):
        candidate = candidates[witness.var]
        needs = tuple(sorted(candidate.selected[witness.node]))
        functions = {function for spec in candidate.specs for function in spec.functions}
        found[witness.var] += (
            Asked(witness.node, witness.var, function, needs, witness.chain)
            for function in sorted(functions, key=lambda name: (name is not None, name))
        )
    return found


def _clear(candidate: _Candidate, rows: Iterable[Asked]) -> bool:
    """Whether chains have no conditions of their own."""
    return all(
        candidate.ends[upper][high] <= {*row.needs, high} and candidate.ends[lower][low] <= {*row.needs, high, low}
        for row in rows
        for upper, lower, high, low in row.chain
    )


def _distinct(edges: Iterable[tuple[Definition, Definition]]) -> tuple[tuple[Definition, Definition], ...]:
    return tuple({(upper.key, lower.key): (upper, lower) for upper, lower in edges}.values())


def _whole_row(shape: RowShape) -> etree._Element:
    """The document of a row without NULLs, whose nodes are numbered as positions are."""
    root = etree.Element(shape.element)
    for column in shape.columns:
        etree.SubElement(root, column)
    return root
