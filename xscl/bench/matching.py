"""Stage 1 and what it is compared with, on the same documents: bare parsing, and one XPath after another.

Times are of the processor: all of this is one thread that waits for nothing, and so they leave out what else runs.
"""

from __future__ import annotations

import gc
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from xscl.base.arrow_schemas import REFUSED, WITNESS_SCHEMA
from xscl.base.errors import EngineError
from xscl.bench.apart import peak_memory, resident_memory
from xscl.bench.grammar import CHANNEL, block_spec, documents, patterns, random_grammar
from xscl.ingest.expand import feed_events
from xscl.ingest.records import FeedDocument
from xscl.ingest.sources import read_paths
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.pattern import Definition
from xscl.xpath.spec_files import load_automaton
from xscl.xpath.witness import witness_rows

__all__ = [
    "Matched",
    "block_paths",
    "event_batches",
    "feed_items",
    "footprint",
    "matched",
    "parse_all",
    "run_stage1",
    "selected",
    "xpath_of",
    "xpath_per_query",
]

_SELECTED = ["docid", "var", "node"]
_BINDING = re.compile(r"->\w+")

Selected = frozenset[tuple[int, int, int]]
"""(docid, key of the definition, number of the node)."""


@dataclass(frozen=True, slots=True)
class Matched:
    """Counts of what stage 1 found."""

    patterns: int
    """(document, definition) with at least one row."""
    rows: int


def feed_items(number: int, *, seed: int) -> list[str]:
    """Return so many of the items that intake makes of the demonstration's feeds, in random order; over again if need
    be.
    """
    items = list(_demo_items())
    random.Random(seed).shuffle(items)
    return [items[place % len(items)] for place in range(number)]


@cache
def _demo_items() -> tuple[str, ...]:
    """Read the items of the demonstration's feeds."""
    with as_file(files("xscl.demo")) as here:
        paths = sorted(path for path in (here / "corpus").iterdir() if not path.name.endswith(".ndjson.gz"))
        feeds = [record for record in read_paths(paths) if isinstance(record, FeedDocument)]
    return tuple(str(event.xml) for feed in feeds for event in feed_events(feed) if event.channel == "items")


def event_batches(channel: str, documents: Iterable[str], size: int) -> list[pa.RecordBatch]:
    """Return the documents as the events that stage 1 takes, so many in a batch; docids from 1."""
    texts = list(documents)
    docids = range(1, len(texts) + 1)
    columns = {
        "docid": docids,
        "channel": [channel] * len(texts),
        "id": [f"d{docid}" for docid in docids],
        "item": docids,
        "ts": [docid * 1_000_000 for docid in docids],
        "late": [False] * len(texts),
        "content": texts,
    }
    events: pa.Table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return list(events.to_batches(max_chunksize=size))


# -- timed -----------------------------------------------------------------------------------------------------


def parse_all(documents: Sequence[bytes]) -> float:
    """Measure the seconds that lxml takes to parse them, with one parser of its default settings and nothing done to
    the trees.
    """
    parser = etree.XMLParser()
    began = time.process_time()
    for document in documents:
        etree.fromstring(document, parser)
    return time.process_time() - began


def run_stage1(automaton: Automaton, batches: Iterable[pa.RecordBatch]) -> float:
    """Measure the seconds from events in Arrow to witness rows in Arrow; the rows are dropped."""
    began = time.process_time()
    for batch in batches:
        for _ in witness_rows(automaton, batch):
            pass
    return time.process_time() - began


def xpath_per_query(queries: Iterable[str], documents: Sequence[bytes]) -> float:
    """Measure the seconds to parse the documents and evaluate one compiled XPath for each block of each query."""
    # Compiled for each query, as nothing is shared; compiling is not counted.
    paths = [etree.XPath(path) for query in queries for path in block_paths(query)]
    parser = etree.XMLParser()
    began = time.process_time()
    for document in documents:
        root = etree.fromstring(document, parser)
        for path in paths:
            path(root)
    return time.process_time() - began


def block_paths(query: str) -> list[str]:
    """Write the blocks of one of the thesis' queries as XPath.

    >>> block_paths("S//a->v0[./b->v1] FOLLOWED BY {v1 = w1} S//a->w0[./c->w1]")
    ['//a[./b]', '//a[./c]']
    """
    return [_BINDING.sub("", block[block.index("/") :]) for block in re.split(r" FOLLOWED BY \{.*?\} ", query)]


# -- what was found --------------------------------------------------------------------------------------------


def matched(automaton: Automaton, batches: Iterable[pa.RecordBatch]) -> Matched:
    """Count what stage 1 finds.

    Raises:
        EngineError: a document was refused, so that figures would say nothing.
    """
    patterns = rows = 0
    for found in _found(automaton, batches):
        patterns += found.group_by(["docid", "var"]).aggregate([]).num_rows
        rows += found.num_rows
    return Matched(patterns, rows)


def selected(automaton: Automaton, batches: Iterable[pa.RecordBatch]) -> Selected:
    """Return the nodes that stage 1 selects for each definition.

    Raises:
        EngineError: a document was refused.
    """
    return frozenset(
        row
        for found in _found(automaton, batches)
        for row in zip(*(column.to_pylist() for column in found.columns), strict=True)
    )


def _found(automaton: Automaton, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows (docid, var, node) of each batch."""
    for batch in batches:
        rows = [found.select(_SELECTED) for found in witness_rows(automaton, batch)]
        found = pa.Table.from_batches(rows, pa.schema([WITNESS_SCHEMA.field(name) for name in _SELECTED]))
        if pc.any(pc.equal(found["var"], REFUSED)).as_py():
            raise EngineError("XSCL_BENCH", "stage 1 refused a document of the workload")
        yield found


def xpath_of(definitions: Sequence[Definition], documents: Sequence[str]) -> tuple[Selected, float]:
    """Evaluate one definition after another with lxml's XPath: the nodes, and the seconds that evaluation took.

    Definitions with names in namespaces, or conditions on document nodes, are not XPath as they are written.
    """
    compiled = [(definition.key, etree.XPath("".join(map(str, definition.steps)))) for definition in definitions]
    found: set[tuple[int, int, int]] = set()
    seconds = 0.0
    for docid, document in enumerate(documents, start=1):
        root = etree.fromstring(document)
        number = {element: place for place, element in enumerate(root.iter(etree.Element))}
        began = time.process_time()
        nodes = [(key, node) for key, path in compiled for node in path(root)]
        seconds += time.process_time() - began
        found.update((docid, key, number[node]) for key, node in nodes)
    return frozenset(found), seconds


# -- memory ----------------------------------------------------------------------------------------------------


def footprint(say: Callable[[str], None], *, specs: str, number: int, batch_docs: int, seed: int) -> dict[str, float]:
    """Load an automaton as a worker does and match documents of the grammar, in a process of its own.

    ``specs`` is a file as ``SpecFiles`` writes it.  Bytes are growth of resident memory: by loading the patterns,
    which are dropped once the automaton is built, and then by matching, with what allocators keep.  ``peak`` is of the
    whole process, ``automaton_bytes`` as the automaton itself counts.
    """
    grammar = random_grammar(seed)
    batches = event_batches(CHANNEL, islice(documents(grammar, seed=seed), number), batch_docs)
    # What is imported or allocated at the first call of anything is no part of the growth.
    run_stage1(Automaton(map(block_spec, islice(patterns(grammar, seed=seed), 10))), batches[:1])
    before = _settled_memory()
    began = time.process_time()
    automaton = load_automaton(specs)
    load_s = time.process_time() - began
    loaded = _settled_memory()
    say(f"loaded in {load_s:.2f} s")
    run_stage1(automaton, batches)
    warm = _settled_memory()
    size = automaton.size()
    return {
        "load_s": load_s,
        "automaton_rss_bytes": loaded - before,
        "warm_rss_bytes": warm - loaded,
        "peak_rss_bytes": peak_memory(),
        "automaton_bytes": size.bytes,
        "automaton_states": size.states,
        "automaton_moves": size.moves,
    }


def _settled_memory() -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    return resident_memory()
