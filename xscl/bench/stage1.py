"""``xscl bench stage1``: what it costs to match documents with many patterns, against no more than parsing them."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from xscl.bench.apart import run_apart
from xscl.bench.footprint import Footprint, FootprintSettings
from xscl.bench.grammar import CHANNEL, block_spec, documents, patterns, random_grammar
from xscl.bench.matching import (
    event_batches,
    feed_items,
    matched,
    parse_all,
    run_stage1,
    selected,
    xpath_of,
    xpath_per_query,
)
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.workload import FEED_ITEMS, thesis_queries
from xscl.compile import ChannelFacts
from xscl.prepared import Preparer
from xscl.xpath.automaton import Automaton, WitnessSpec
from xscl.xpath.pattern import Definition
from xscl.xpath.spec_files import SpecChange, SpecFiles, apply_change

__all__ = ["Sizes", "measure"]

_STEPS = (10, 1_000, 10_000, 100_000)
_MANY = 10_000
"""Queries at which one XPath after another is compared."""
_ADDED, _ROUNDS = 1_000, 3
_ALLOWED_PARSES, _ALLOWED_US = 30, 1.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    patterns: int
    items: int
    """Feed items."""
    documents: int
    """Documents of the grammar."""
    item_batch: int
    """Feed items in an Arrow batch."""
    document_batch: int
    """Documents of the grammar in an Arrow batch: a thousandth part of the patterns gives a row in each and more."""
    repetitions: int
    xpath_items: int
    """Feed items on which one XPath is evaluated after another."""
    xpath_documents: int
    """Documents of the grammar of which every pattern is checked with lxml."""


_FULL = Sizes(100_000, 100_000, 5_000, 1_000, 1_000, 100, 9, 20, 3)
_QUICK = Sizes(100_000, 3_000, 1_000, 100, 500, 50, 5, 2, 3)


@dataclass(frozen=True, slots=True)
class _Documents:
    """Documents of one channel, as parsers and as stage 1 take them."""

    channel: str
    texts: Sequence[str]
    raw: Sequence[bytes]
    batches: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, channel: str, texts: Sequence[str], size: int) -> _Documents:
        return cls(channel, texts, [text.encode() for text in texts], event_batches(channel, texts, size))

    def parts(self) -> Iterator[tuple[Sequence[bytes], pa.RecordBatch]]:
        """Every batch and its documents."""
        start = 0
        for batch in self.batches:
            yield self.raw[start : start + batch.num_rows], batch
            start += batch.num_rows

    @property
    def mean_bytes(self) -> float:
        return sum(map(len, self.raw)) / len(self.raw)


@dataclass(frozen=True, slots=True)
class _Level:
    """What so many queries or patterns cost; times in microseconds a document."""

    count: int
    definitions: int
    parse_us: float
    stage1_us: float
    first_us: float
    unseen_us: float
    matched: float
    """Definitions with a row, a document."""
    rows: float
    visits: float

    def allowed_us(self) -> float:
        return _ALLOWED_PARSES * self.parse_us + _ALLOWED_US * self.rows

    def row(self, workload: str) -> dict[str, Value]:
        """A row of the table."""
        return {
            "workload": workload,
            "queries": self.count,
            "definitions": self.definitions,
            "parse_us": rounded(self.parse_us),
            "stage1_us": rounded(self.stage1_us),
            "ratio_to_parse": rounded(self.stage1_us / self.parse_us),
            "first_batch_us": rounded(self.first_us),
            "unseen_us": rounded(self.unseen_us),
            "documents_per_s": rounded(1e6 / self.stage1_us),
            "matched": rounded(self.matched),
            "witness_rows": rounded(self.rows),
            "node_visits": rounded(self.visits),
        }


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Match feed items with the thesis' queries, and documents of a random grammar with distinct patterns.

    ``queries`` is the greatest number of queries and of patterns, ``items`` the number of documents of either kind.

    Raises:
        EngineError: a document was refused, or the process whose memory is measured failed.
    """
    default = _QUICK if quick else _FULL
    sizes = Sizes(
        queries=queries or default.queries,
        patterns=queries or default.patterns,
        items=items or default.items,
        documents=items or default.documents,
        item_batch=batch_docs or default.item_batch,
        document_batch=batch_docs or default.document_batch,
        repetitions=default.repetitions,
        xpath_items=default.xpath_items,
        xpath_documents=default.xpath_documents,
    )
    feed_levels, feed_figures, feed_equal = _feed_items(sizes, seed, say)
    walk_levels, walk_figures, walks_equal = _distinct_patterns(sizes, seed, say)
    return Report(
        bench="stage1",
        settings={**asdict(sizes), "seed": seed},
        figures={**feed_figures, **walk_figures, "digest_equal": feed_equal and walks_equal},
        table=tuple(
            [level.row("feed items") for level in feed_levels] + [level.row("distinct") for level in walk_levels]
        ),
        plot=_plot(feed_levels, walk_levels),
        notes=(
            f"One XPath after another is evaluated on {sizes.xpath_items:,} of the feed items, and every pattern is "
            f"checked with lxml on {sizes.xpath_documents:,} of the grammar's documents; nothing is extrapolated.",
        ),
        spark=False,
    )


# -- feed items ------------------------------------------------------------------------------------------------


def _feed_items(sizes: Sizes, seed: int, say: Callable[[str], None]) -> tuple[list[_Level], dict[str, Value], bool]:
    say(f"compiling {sizes.queries:,} queries over feed items")
    texts = [text for _, text in thesis_queries(FEED_ITEMS, sizes.queries, seed=seed)]
    compiled = Preparer(channels={FEED_ITEMS.channel: ChannelFacts("xml")})
    found = {text: compiled.prepare_text(text).compiled for text in dict.fromkeys(texts)}
    counts = _counts(sizes.queries)
    specs = {
        count: list({spec: None for text in dict.fromkeys(texts[:count]) for spec in found[text].specs})
        for count in counts
    }
    everything = feed_items(sizes.items + sizes.item_batch, seed=seed)
    known = _Documents.of(FEED_ITEMS.channel, everything[: sizes.items], sizes.item_batch)
    unseen = _Documents.of(FEED_ITEMS.channel, everything[sizes.items :], sizes.item_batch)
    automata = {count: _automaton(specs[count]) for count in counts}
    say(f"matching {sizes.items:,} feed items")
    levels = _levels(automata, {count: _definitions(specs[count]) for count in counts}, known, unseen, sizes)
    most, by_count = levels[-1], {level.count: level for level in levels}
    many = min(_MANY, sizes.queries)
    say(f"evaluating one XPath after another for {many:,} queries")
    sample = known.raw[: sizes.xpath_items]
    naive_us = xpath_per_query(texts[:many], sample) / len(sample) * 1e6
    equal = _equal(automata[most.count], _definitions(specs[most.count]), known, sizes.xpath_items)[0]
    figures: dict[str, Value] = {
        "parse_us_per_doc": rounded(most.parse_us),
        "stage1_us_per_doc": rounded(most.stage1_us),
        "ratio_to_parse": rounded(most.stage1_us / most.parse_us),
        "ratio_to_parse_1k_queries": _ratio(by_count, 1_000),
        "growth_1k_to_100k_queries": _growth(by_count, 1_000, 100_000),
        "growth_10_to_100k_queries": _growth(by_count, 10, 100_000),
        "xpath_us_per_doc": rounded(naive_us),
        "speedup_over_xpath_per_query": rounded(naive_us / by_count[many].stage1_us),
        "distinct_queries": len({query.group.key for query in found.values()}),
        "mean_item_bytes": rounded(known.mean_bytes),
        "witnesses_per_item": rounded(most.rows),
        "first_batch_us_per_item": rounded(most.first_us),
    }
    return levels, figures, equal


def _ratio(levels: Mapping[int, _Level], count: int) -> float | None:
    return rounded(levels[count].stage1_us / levels[count].parse_us) if count in levels else None


def _growth(levels: Mapping[int, _Level], few: int, many: int) -> float | None:
    """None where one of them was not measured."""
    return rounded(levels[many].stage1_us / levels[few].stage1_us) if {few, many} <= set(levels) else None


# -- distinct patterns -----------------------------------------------------------------------------------------


def _distinct_patterns(
    sizes: Sizes, seed: int, say: Callable[[str], None]
) -> tuple[list[_Level], dict[str, Value], bool]:
    say(f"making {sizes.patterns:,} distinct patterns")
    grammar = random_grammar(seed)
    walks = list(islice(patterns(grammar, seed=seed), sizes.patterns + _ROUNDS * _ADDED))
    texts = list(islice(documents(grammar, seed=seed), sizes.documents + sizes.document_batch))
    known = _Documents.of(CHANNEL, texts[: sizes.documents], sizes.document_batch)
    unseen = _Documents.of(CHANNEL, texts[sizes.documents :], sizes.document_batch)
    counts = [count for count in _counts(sizes.patterns) if count >= min(1_000, sizes.patterns)]
    automata: dict[int, Automaton] = {}
    for count in counts:
        began = time.process_time()
        automata[count] = _automaton(map(block_spec, walks[:count]))
        build_s = time.process_time() - began
    say(f"matching {sizes.documents:,} documents of the grammar")
    levels = _levels(automata, {count: walks[:count] for count in counts}, known, unseen, sizes)
    most = levels[-1]
    say(f"adding and removing {_ADDED:,} patterns")
    automaton = automata[most.count]
    starts = range(most.count, len(walks), _ADDED)
    added = [[block_spec(walk) for walk in walks[start : start + _ADDED]] for start in starts]
    changes = _changes(automaton, added, known.batches[0])
    equal, xpath_s = _equal(automaton, walks[: most.count], known, sizes.xpath_documents)
    memory = _footprint(walks[: most.count], sizes, seed, say)
    xpath_us = xpath_s / min(sizes.xpath_documents, sizes.documents) * 1e6
    figures: dict[str, Value] = {
        "distinct_patterns": most.count,
        "mean_matched_patterns": rounded(most.matched),
        "witnesses_per_doc": rounded(most.rows),
        "us_per_witness": rounded((most.stage1_us - most.parse_us) / most.rows) if most.rows else None,
        "patterns_parse_us_per_doc": rounded(most.parse_us),
        "patterns_stage1_us_per_doc": rounded(most.stage1_us),
        "patterns_allowed_us_per_doc": rounded(most.allowed_us()),
        "patterns_ratio_to_allowed": rounded(most.stage1_us / most.allowed_us()),
        "patterns_documents_per_s": rounded(1e6 / most.stage1_us),
        "patterns_first_batch_us_per_doc": rounded(most.first_us),
        "patterns_unseen_us_per_doc": rounded(most.unseen_us),
        "patterns_unseen_ratio_to_allowed": rounded(most.unseen_us / most.allowed_us()),
        "patterns_speedup_over_xpath": rounded(xpath_us / most.stage1_us),
        "mean_document_bytes": rounded(known.mean_bytes),
        "node_visits_per_doc": rounded(most.visits),
        "growth_of_node_visits": rounded(most.visits / levels[0].visits),
        "build_s": rounded(build_s),
        **{name: rounded(value) for name, value in changes.items()},
        "load_s": rounded(memory.load_s),
        "automaton_rss_bytes": memory.loaded_bytes,
        "warm_rss_bytes": memory.warm_bytes,
        "peak_rss_bytes": memory.peak_bytes,
        "automaton_bytes": memory.automaton_bytes,
        "automaton_states": memory.states,
        "automaton_moves": memory.moves,
    }
    return levels, figures, equal


def _changes(automaton: Automaton, added: Sequence[Sequence[WitnessSpec]], batch: pa.RecordBatch) -> dict[str, float]:
    """Add patterns, match a batch, remove them, match it again; medians, and the batch as times the warm batch."""
    times: dict[str, list[float]] = {"warm": [], "add": [], "after_add": [], "remove": [], "after_remove": []}
    for specs in added:
        run_stage1(automaton, [batch])
        times["warm"].append(run_stage1(automaton, [batch]))
        changes = {"add": SpecChange(None, tuple(specs)), "remove": SpecChange(None, (), tuple(specs))}
        for name, change in changes.items():
            began = time.process_time()
            apply_change(automaton, change)
            times[name].append(time.process_time() - began)
            times[f"after_{name}"].append(run_stage1(automaton, [batch]))
    median = {name: statistics.median(found) for name, found in times.items()}
    return {
        "add_1000_ms": median["add"] * 1e3,
        "remove_1000_ms": median["remove"] * 1e3,
        "batch_after_add": median["after_add"] / median["warm"],
        "batch_after_remove": median["after_remove"] / median["warm"],
    }


def _footprint(walks: Sequence[Definition], sizes: Sizes, seed: int, say: Callable[[str], None]) -> Footprint:
    say("measuring memory in a process of its own")
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        path = SpecFiles("specs").version(map(block_spec, walks), Path(folder))
        settings = FootprintSettings(str(path), sizes.documents, sizes.document_batch, seed)
        return Footprint(**run_apart("xscl.bench.footprint", asdict(settings), say))


# -- both ------------------------------------------------------------------------------------------------------


def _counts(most: int) -> list[int]:
    return [*(count for count in _STEPS if count < most), most]


def _automaton(specs: Iterable[WitnessSpec]) -> Automaton:
    """As a worker has it."""
    automaton = Automaton()
    apply_change(automaton, SpecChange(None, tuple(specs)))
    return automaton


def _definitions(specs: Sequence[WitnessSpec]) -> list[Definition]:
    return list(dict.fromkeys(spec.definition for spec in specs))


def _levels(
    automata: Mapping[int, Automaton],
    definitions: Mapping[int, Sequence[Definition]],
    known: _Documents,
    unseen: _Documents,
    sizes: Sizes,
) -> list[_Level]:
    """Time every automaton cold, on documents it has not seen, and warm in turns with bare parsing."""
    first, later = {}, {}
    for count, automaton in automata.items():
        first[count] = run_stage1(automaton, known.batches[:1]) / known.batches[0].num_rows
        run_stage1(automaton, known.batches[1:])
        later[count] = run_stage1(automaton, unseen.batches) / len(unseen.raw)
    parse_s, stage1_s = _in_turns(automata, known, sizes.repetitions)
    number = len(known.raw)
    levels = []
    for count, automaton in automata.items():
        before = automaton.visits
        found = matched(automaton, known.batches)
        levels.append(
            _Level(
                count=count,
                definitions=len(definitions[count]),
                parse_us=parse_s / number * 1e6,
                stage1_us=stage1_s[count] / number * 1e6,
                first_us=first[count] * 1e6,
                unseen_us=later[count] * 1e6,
                matched=found.patterns / number,
                rows=found.rows / number,
                visits=(automaton.visits - before) / number,
            )
        )
    return levels


def _in_turns(automata: Mapping[int, Automaton], known: _Documents, repetitions: int) -> tuple[float, dict[int, float]]:
    """Seconds of bare parsing and of each automaton for all documents: the sum of each batch's median.

    All take turns with every batch, in another order each time, so that whatever else the machine does is everybody's.
    """
    parse_s = 0.0
    stage1_s = dict.fromkeys(automata, 0.0)
    for raw, batch in known.parts():
        parsed: list[float] = []
        taken: dict[int, list[float]] = {count: [] for count in automata}
        for repetition in range(repetitions):
            order = list(automata)
            start = repetition % len(order)
            for count in order[start:] + order[:start]:
                # The second time, when parsing is as fast as it can be.
                parse_all(raw)
                parsed.append(parse_all(raw))
                taken[count].append(run_stage1(automata[count], [batch]))
        parse_s += statistics.median(parsed)
        for count, times in taken.items():
            stage1_s[count] += statistics.median(times)
    return parse_s, stage1_s


def _equal(
    automaton: Automaton, definitions: Sequence[Definition], known: _Documents, number: int
) -> tuple[bool, float]:
    """Whether lxml's XPath selects the same nodes of the first documents, and the seconds that its evaluation takes."""
    texts = known.texts[:number]
    expected, seconds = xpath_of(definitions, texts)
    return selected(automaton, event_batches(known.channel, texts, len(texts))) == expected, seconds


def _plot(feed: Sequence[_Level], walks: Sequence[_Level]) -> Plot:
    def line(levels: Sequence[_Level], value: Callable[[_Level], float]) -> tuple[tuple[float, float], ...]:
        return tuple((level.count, value(level)) for level in levels)

    return Plot(
        title="Stage 1 against bare parsing",
        x="queries or distinct patterns",
        y="microseconds a document",
        lines={
            "feed items: bare parsing": line(feed, lambda level: level.parse_us),
            "feed items: stage 1": line(feed, lambda level: level.stage1_us),
            "distinct patterns: bare parsing": line(walks, lambda level: level.parse_us),
            "distinct patterns: stage 1": line(walks, lambda level: level.stage1_us),
            "distinct patterns: allowed": line(walks, _Level.allowed_us),
        },
        log_x=True,
        log_y=True,
    )
