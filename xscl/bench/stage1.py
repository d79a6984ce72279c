"""``xscl bench stage1``: what it costs to match documents with many patterns, against no more than parsing them."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from xscl.bench.apart import run_apart
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.grammar import CHANNEL, block_spec, documents, patterns, random_grammar
from xscl.bench.matching import (
    event_batches,
    feed_items,
    footprint,
    matched,
    parse_all,
    run_stage1,
    selected,
    xpath_of,
    xpath_per_query,
)
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.workload import FEED_ITEMS, thesis_queries
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Preparer
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.pattern import Definition
from xscl.xpath.spec_files import SpecChange, SpecFiles, apply_change

__all__ = ["BENCH"]

_STEPS = (10, 1_000, 10_000, 100_000)
_MANY = 10_000
"""Queries at which one XPath after another is compared."""
_ADDED, _ROUNDS = 1_000, 3
_ALLOWED_PARSES, _ALLOWED_US = 30, 1.0


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(100_000)
    patterns: int = size(100_000, 3_000, option="queries")
    items: int = size(5_000, 1_000)
    """Feed items."""
    documents: int = size(1_000, 100, option="items")
    """Documents of the grammar."""
    item_batch: int = size(1_000, 500, option="batch")
    """Feed items in an Arrow batch."""
    document_batch: int = size(100, 50, option="batch")
    """Documents of the grammar in an Arrow batch: a thousandth part of the patterns gives a row in each and more."""
    repetitions: int = size(9, 5)
    xpath_items: int = size(20, 2)
    """Feed items on which one XPath is evaluated after another."""
    xpath_documents: int = size(3)
    """Documents of the grammar in which every pattern is checked with lxml."""


@dataclass(frozen=True, slots=True)
class _Workload:
    """Growing numbers of queries or patterns, and documents to match; the last number is the greatest."""

    automata: Mapping[int, Automaton]
    definitions: Mapping[int, Sequence[Definition]]
    known: Sequence[pa.RecordBatch]
    """Events, as stage 1 takes them."""
    unseen: pa.RecordBatch
    figures: Callable[[Lab[_Sizes], _Workload, Sequence[Row]], tuple[dict[str, Any], bool]]
    """Function of the rows of ``_rows``: figures of the most queries, and whether lxml selects the same nodes."""

    @property
    def mean_bytes(self) -> float:
        return statistics.fmean(len(document) for batch in self.known for document in _raw(batch))


def _raw(batch: pa.RecordBatch) -> list[bytes]:
    """Return the documents of a batch, as parsers take them."""
    return [text.encode() for text in batch.column("content").to_pylist()]


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Workload]]:
    yield _feed_items(lab)
    yield _distinct_patterns(lab)


def _measure(lab: Lab[_Sizes], case: Case[_Workload]) -> Outcome:
    rows = [{"workload": case.name, **row} for row in _rows(case.data, lab.sizes.repetitions)]
    figures, agrees = case.data.figures(lab, case.data, rows)
    return Outcome(figures, rows, agrees=agrees)


# -- feed items ------------------------------------------------------------------------------------------------


def _feed_items(lab: Lab[_Sizes]) -> Case[_Workload]:
    sizes, channel = lab.sizes, FEED_ITEMS.channel
    lab.say(f"compiling {sizes.queries:,} queries over feed items")
    texts = [text for _, text in thesis_queries(FEED_ITEMS, sizes.queries, seed=lab.seed)]
    preparer = Preparer(channels={channel: ChannelFacts("xml")})
    compiled = {text: preparer.prepare_text(text).compiled for text in dict.fromkeys(texts)}
    counts = _counts(sizes.queries)
    specs = {
        count: list({spec: None for text in dict.fromkeys(texts[:count]) for spec in compiled[text].specs})
        for count in counts
    }
    documents = feed_items(sizes.items + sizes.item_batch, seed=lab.seed)
    workload = _Workload(
        automata={count: _automaton(specs[count]) for count in counts},
        definitions={count: list(dict.fromkeys(spec.definition for spec in specs[count])) for count in counts},
        known=event_batches(channel, documents[: sizes.items], sizes.item_batch),
        unseen=event_batches(channel, documents[sizes.items :], sizes.item_batch)[0],
        figures=partial(_feed_figures, texts=texts[:_MANY]),
    )
    return Case("feed items", workload, {"distinct_queries": len({query.group.key for query in compiled.values()})})


def _feed_figures(
    lab: Lab[_Sizes], workload: _Workload, rows: Sequence[Row], texts: Sequence[str]
) -> tuple[dict[str, Any], bool]:
    most, by_count = rows[-1], {row["queries"]: row for row in rows}
    lab.say(f"evaluating one XPath after another for {len(texts):,} queries")
    sample = _raw(workload.known[0])[: lab.sizes.xpath_items]
    naive_us = xpath_per_query(texts, sample) / len(sample) * 1e6

    def growth(few: int, many: int) -> float | None:
        """Divide the times; None where one of them was not measured."""
        return by_count[many]["stage1_us"] / by_count[few]["stage1_us"] if {few, many} <= set(by_count) else None

    figures = {
        "parse_us_per_doc": most["parse_us"],
        "stage1_us_per_doc": most["stage1_us"],
        "ratio_to_parse": most["ratio_to_parse"],
        "ratio_to_parse_1k_queries": by_count[1_000]["ratio_to_parse"] if 1_000 in by_count else None,
        "growth_1k_to_100k_queries": growth(1_000, 100_000),
        "growth_10_to_100k_queries": growth(10, 100_000),
        "xpath_us_per_doc": naive_us,
        "speedup_over_xpath_per_query": naive_us / by_count[len(texts)]["stage1_us"],
        "mean_item_bytes": workload.mean_bytes,
        "witnesses_per_item": most["witness_rows"],
        "first_batch_us_per_item": most["first_batch_us"],
    }
    return figures, _equal(workload, lab.sizes.xpath_items)[0]


# -- distinct patterns -----------------------------------------------------------------------------------------


def _distinct_patterns(lab: Lab[_Sizes]) -> Case[_Workload]:
    sizes = lab.sizes
    lab.say(f"making {sizes.patterns:,} distinct patterns")
    grammar = random_grammar(lab.seed)
    walks = list(islice(patterns(grammar, seed=lab.seed), sizes.patterns + _ROUNDS * _ADDED))
    texts = list(islice(documents(grammar, seed=lab.seed), sizes.documents + sizes.document_batch))
    counts = [count for count in _counts(sizes.patterns) if count >= min(1_000, sizes.patterns)]
    automata: dict[int, Automaton] = {}
    for count in counts:
        began = time.process_time()
        automata[count] = _automaton(map(block_spec, walks[:count]))
        build_s = time.process_time() - began
    workload = _Workload(
        automata=automata,
        definitions={count: walks[:count] for count in counts},
        known=event_batches(CHANNEL, texts[: sizes.documents], sizes.document_batch),
        unseen=event_batches(CHANNEL, texts[sizes.documents :], sizes.document_batch)[0],
        figures=partial(_pattern_figures, more=walks[sizes.patterns :]),
    )
    return Case("distinct", workload, {"distinct_patterns": sizes.patterns, "build_s": build_s})


def _pattern_figures(
    lab: Lab[_Sizes], workload: _Workload, rows: Sequence[Row], more: Sequence[Definition]
) -> tuple[dict[str, Any], bool]:
    sizes, most = lab.sizes, rows[-1]
    lab.say(f"adding and removing {_ADDED:,} patterns")
    changes = _changes(workload.automata[sizes.patterns], more, workload.known[0])
    equal, xpath_s = _equal(workload, sizes.xpath_documents)
    lab.say("measuring memory in a process of its own")
    path = SpecFiles("specs").version(map(block_spec, workload.definitions[sizes.patterns]), lab.folder)
    memory = run_apart(
        footprint,
        {"specs": str(path), "number": sizes.documents, "batch_docs": sizes.document_batch, "seed": lab.seed},
        lab.say,
    )
    figures = {
        "mean_matched_patterns": most["matched"],
        "witnesses_per_doc": most["witness_rows"],
        "us_per_witness": (most["stage1_us"] - most["parse_us"]) / most["witness_rows"] if most["matched"] else None,
        "patterns_parse_us_per_doc": most["parse_us"],
        "patterns_stage1_us_per_doc": most["stage1_us"],
        "patterns_allowed_us_per_doc": most["allowed_us"],
        "patterns_ratio_to_allowed": most["stage1_us"] / most["allowed_us"],
        "patterns_documents_per_s": most["documents_per_s"],
        "patterns_first_batch_us_per_doc": most["first_batch_us"],
        "patterns_unseen_us_per_doc": most["unseen_us"],
        "patterns_unseen_ratio_to_allowed": most["unseen_us"] / most["allowed_us"],
        "patterns_speedup_over_xpath": xpath_s / min(sizes.xpath_documents, sizes.documents) * 1e6 / most["stage1_us"],
        "mean_document_bytes": workload.mean_bytes,
        "node_visits_per_doc": most["node_visits"],
        "growth_of_node_visits": most["node_visits"] / rows[0]["node_visits"],
        **changes,
        **memory,
    }
    return figures, equal


def _changes(automaton: Automaton, walks: Sequence[Definition], batch: pa.RecordBatch) -> dict[str, float]:
    """Add patterns, match a batch, remove them, match it again; medians, and the batch as times the warm batch."""
    times: dict[str, list[float]] = defaultdict(list)
    for start in range(0, len(walks), _ADDED):
        specs = tuple(map(block_spec, walks[start : start + _ADDED]))
        run_stage1(automaton, [batch])
        times["warm"].append(run_stage1(automaton, [batch]))
        for name, change in (("add", SpecChange(None, specs)), ("remove", SpecChange(None, (), specs))):
            began = time.process_time()
            apply_change(automaton, change)
            times[name].append(time.process_time() - began)
            times[f"after_{name}"].append(run_stage1(automaton, [batch]))
    median = {name: statistics.median(seconds) for name, seconds in times.items()}
    return {
        "add_1000_ms": median["add"] * 1e3,
        "remove_1000_ms": median["remove"] * 1e3,
        "batch_after_add": median["after_add"] / median["warm"],
        "batch_after_remove": median["after_remove"] / median["warm"],
    }


# -- both ------------------------------------------------------------------------------------------------------


def _counts(most: int) -> list[int]:
    return [*(count for count in _STEPS if count < most), most]


def _automaton(specs: Iterable[WitnessSpec]) -> Automaton:
    """Make an automaton as a worker has it."""
    automaton = Automaton()
    apply_change(automaton, SpecChange(None, tuple(specs)))
    return automaton


def _rows(workload: _Workload, repetitions: int) -> Iterator[Row]:
    """Time every automaton cold, on documents it has not seen, and warm in turns with bare parsing.

    Times are in microseconds a document; ``matched`` counts the definitions with a row, a document.
    """
    known, unseen = workload.known, workload.unseen
    number = sum(batch.num_rows for batch in known)
    first, later = {}, {}
    for count, automaton in workload.automata.items():
        first[count] = run_stage1(automaton, known[:1]) / known[0].num_rows
        run_stage1(automaton, known[1:])
        later[count] = run_stage1(automaton, [unseen]) / unseen.num_rows
    parse_s, stage1_s = _in_turns(workload.automata, known, repetitions)
    parse_us = parse_s / number * 1e6
    for count, automaton in workload.automata.items():
        before = automaton.visits
        found = matched(automaton, known)
        stage1_us = stage1_s[count] / number * 1e6
        yield {
            "queries": count,
            "definitions": len(workload.definitions[count]),
            "parse_us": parse_us,
            "stage1_us": stage1_us,
            "ratio_to_parse": stage1_us / parse_us,
            "allowed_us": _ALLOWED_PARSES * parse_us + _ALLOWED_US * found.rows / number,
            "first_batch_us": first[count] * 1e6,
            "unseen_us": later[count] * 1e6,
            "documents_per_s": 1e6 / stage1_us,
            "matched": found.patterns / number,
            "witness_rows": found.rows / number,
            "node_visits": (automaton.visits - before) / number,
        }


def _in_turns(
    automata: Mapping[int, Automaton], known: Sequence[pa.RecordBatch], repetitions: int
) -> tuple[float, dict[int, float]]:
    """Sum the median seconds of each batch, for bare parsing and for each automaton.

    All take turns with every batch, in another order each time, so that whatever else the machine does is everybody's.
    """
    parse_s = 0.0
    stage1_s = dict.fromkeys(automata, 0.0)
    for batch in known:
        raw = _raw(batch)
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


def _equal(workload: _Workload, number: int) -> tuple[bool, float]:
    """Return whether lxml's XPath selects the same nodes of the first documents, and the seconds of its evaluation."""
    count, automaton = list(workload.automata.items())[-1]
    documents = pa.Table.from_batches(workload.known).slice(0, number)
    expected, seconds = xpath_of(workload.definitions[count], documents["content"].to_pylist())
    return selected(automaton, documents.to_batches()) == expected, seconds


def _figures(_: _Sizes, results: Sequence[Result[_Workload]]) -> Row:
    return {name: value for result in results for name, value in result.figures.items()}


BENCH = Bench(
    name="stage1",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("", _measure),),
    table=by_step,
    figures=_figures,
    axes=Axes(
        "Stage 1 against bare parsing",
        x="queries or distinct patterns",
        y="microseconds a document",
        over="queries",
        lines={"bare parsing": "parse_us", "stage 1": "stage1_us", "allowed": "allowed_us"},
        by="workload",
        log_x=True,
        log_y=True,
    ),
    notes=(
        "One XPath after another is evaluated on {s.xpath_items:,} of the feed items, and every pattern is checked "
        "with lxml on {s.xpath_documents:,} of the grammar's documents; nothing is extrapolated.",
    ),
    spark=False,
)
