"""Dry run of a query on documents: the witnesses of each block, without registering or storing anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from xscl.answers.matches.nodes import node_place
from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.types import Event
from xscl.catalog.channels import all_facts
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import ChannelInfo, QueryInfo, StreamInfo
from xscl.ingest.columns import column_type, column_value, text_type
from xscl.ingest.expand import feed_events
from xscl.ingest.records import FeedDocument, Noted, Record, Rejected, RowTable, rejected
from xscl.intake.checks import CheckedEvent, KeptDocument, check_events, event_content, require_kind
from xscl.intake.row_columns import no_column, unknown_column
from xscl.language.block_patterns import BlockPattern, assignments, block_pattern
from xscl.registry.channel_names import DocumentNames, add_names, row_names
from xscl.registry.notes import name_notes
from xscl.registry.recompile import compile_info
from xscl.store.event_files import event_document
from xscl.xpath.conditions.condition import Memo
from xscl.xpath.nodes import DocumentNode, Node, string_value

__all__ = ["Binding", "BlockWitness", "DryRun"]

_ROWS_AT_ONCE = 1_000
RESULT = "(result)"
"""Name of a result node without a variable."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The node of a variable."""

    node: int | str
    """An element by its number, another node as ``3/@href`` or ``3/text()[2]``."""
    value: str
    """Its string value."""


@dataclass(frozen=True, slots=True)
class BlockWitness:
    """One assignment of nodes to all variables of a block, and to its result node."""

    document: str
    """The event's id; without one, where it came from."""
    channel: str
    block: int
    """Number of the block, from 1."""
    name: str
    """Name of the block in the query."""
    bindings: Mapping[str, Binding]
    """Bindings by variable, in the order of the block's pattern."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of the query."""

    number: int
    name: str
    channel: str
    pattern: BlockPattern
    names: Mapping[int, str]
    """The variables of its nodes."""


class DryRun:
    """Tries one query; ``witnesses`` may be asked for several inputs.

    Attributes:
        documents: how many were sound, by channel.
        found: how many witnesses were given, by block (from 1).
        problems: what could not be taken.
    """

    def __init__(
        self,
        query: QueryInfo,
        channels: Mapping[str, ChannelInfo],
        streams: Mapping[str, StreamInfo] = MappingProxyType({}),
    ) -> None:
        self.query = query
        self._streams = streams
        self.documents: Counter[str] = Counter()
        self.found: Counter[int] = Counter()
        self.problems: list[Rejected] = []
        self._noted: list[str] = []
        self._channels = dict(channels)
        self._names: dict[str, DocumentNames] = {}
        self.blocks: tuple[tuple[str, str], ...] = ()
        """Name of each block, and of the channel or stream that it reads."""
        self._blocks = self._compile()

    def witnesses(self, records: Iterable[Record]) -> Iterator[BlockWitness]:
        """Find the witnesses of the events among some records, document by document and block by block."""
        for record in records:
            if isinstance(record, Rejected):
                self.problems.append(record)
            elif isinstance(record, Noted):
                if not record.of_times:
                    self._noted.append(f"{record.source}: {record.text}")
            elif isinstance(record, FeedDocument):
                for event in in_fresh_dictionary(feed_events, record):
                    yield from self._of_event(event)
            elif isinstance(record, RowTable):
                yield from self._of_rows(record)
            elif isinstance(record, Event):
                yield from self._of_event(record)

    def notes(self) -> list[str]:
        """Give notes on inputs, and on elements, attributes and columns of the query that no document so far had."""

        def names(channel: str) -> DocumentNames | None:
            info = self._channels.get(channel)
            return (None if info is None else row_names(info)) or self._names.get(channel)

        return self._noted + list(name_notes(self._compiled, self.query.namespaces, names))

    def _of_rows(self, table: RowTable) -> Iterator[BlockWitness]:
        self.problems.extend(table.problems)
        try:
            columns = self._columns(table)
        except XsclError as error:
            self.problems.append(rejected(table.source, error, table.channel))
            return
        numbers = range(1, len(table.rows) + 1) if table.numbers is None else table.numbers.tolist()
        places = iter(numbers)
        for batch in table.rows.select(list(columns)).to_batches(max_chunksize=_ROWS_AT_ONCE):
            for values in batch.to_pylist():
                number = next(places)
                values |= {name: value for name, value in table.exact.get(number, {}).items() if name in values}
                row = {
                    name: column_value(value, columns[name] or "", texts=table.texts) for name, value in values.items()
                }
                yield from self._of_event(Event(table.channel, row=row, source=f"{table.source}:{number}"))

    def _columns(self, table: RowTable) -> dict[str, str | None]:
        """Give the wanted columns of the table with their types; a channel without columns gets these."""
        wanted = table.rows.column_names if table.options.columns is None else table.options.columns
        if missing := [name for name in wanted if name not in table.rows.column_names]:
            raise no_column(missing[0], table.rows.column_names)
        name = resolve_stream(self._streams, table.channel)[0]
        known = self._channels.get(name)
        declared = table.schema if known is None or known.schema is None else known.schema
        types = dict(declared or {})
        if types and (unknown := [column for column in wanted if column not in types]):
            raise unknown_column(unknown[0], wanted, list(types), chosen=table.options.columns is not None)
        for column in wanted:
            if types.get(column) is None and (declared is None or column in declared):
                values = table.rows.column(column).combine_chunks()
                types[column] = text_type(values) if table.texts else column_type(values.type)
        known = known or ChannelInfo.new(name, "rows")
        if known.kind == "rows" and known.schema is None:
            self._channels[name] = replace(known, schema=types)
            self._blocks = self._compile()
        return {column: types.get(column) for column in wanted}

    def _of_event(self, event: Event) -> Iterator[BlockWitness]:
        checked = in_fresh_dictionary(check_events, [event])[0]
        if isinstance(checked, Rejected):
            self.problems.append(checked)
            return
        try:
            content = self._content(checked)
        except XsclError as error:
            self.problems.append(rejected(event.source or "", error, event.channel))
            return
        self.documents[event.channel] += 1
        names = {event.channel, resolve_stream(self._streams, event.channel)[0]}
        blocks = [block for block in self._blocks if block.channel in names]
        if not blocks:
            return
        # A document is parsed as it would have been stored.
        document = DocumentNode(in_fresh_dictionary(parse_stored, content))
        add_names(self._names.setdefault(resolve_stream(self._streams, event.channel)[0], DocumentNames()), document)
        number: dict[Node, int] = {element: place for place, element in enumerate(document.root.iter("*"))}
        memo = Memo()
        for block in blocks:
            for nodes in assignments(block.pattern, document, memo):
                bindings = {
                    block.names[place]: Binding(node_place(node, number), string_value(node))
                    for place, node in nodes.items()
                }
                self.found[block.number] += 1
                label = event.id or event.source or checked.id
                yield BlockWitness(label, event.channel, block.number, block.name, bindings)

    def _content(self, checked: CheckedEvent) -> str:
        """Build the event's document; a first row tells the columns of its channel."""
        event = checked.event
        name, kind = resolve_stream(self._streams, event.channel)[0], "xml" if event.row is None else "rows"
        known = self._channels.get(name) or ChannelInfo.new(name, kind)
        require_kind(known, event)
        content, cells, channel = event_content(known, checked)
        assert not isinstance(content, KeptDocument)
        if channel != self._channels.get(name):
            self._channels[name] = channel
            self._blocks = self._compile()
        return event_document(None if content is None else content.decode(), cells, channel)

    def _compile(self) -> list[_Block]:
        facts = all_facts(self._channels, self._streams)
        compiled = self._compiled = compile_info(self.query, facts)
        read = [block.channel for block in compiled.normal.blocks]
        self.blocks = tuple(zip(compiled.block_names, read, strict=True))
        blocks = []
        for number, block in enumerate(compiled.normal.blocks):
            names = {place: node.variable for place, node in enumerate(block.nodes) if node.variable is not None}
            names.setdefault(block.result, RESULT)
            pattern = block_pattern(compiled.normal, number, facts, names)
            blocks.append(_Block(number + 1, compiled.block_names[number], block.channel, pattern, names))
        return blocks
