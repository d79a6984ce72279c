"""A thousand queries over half a year of real news: ``python tests/bench/news.py NEWS.parquet [TRUTH.tsv.gz]``.

The queries are what people would ask of 168 feeds, drawn from a recipe (equal seeds, equal queries): stories in two
feeds, texts taken over word by word, stories that a feed brings again, stories that go from one feed to another,
threads of two words in one feed, links, and a few stories in three feeds, in windows from an hour to a week.  The
corpus has no authors and no categories, so nobody asks for them.

With the truth (columns ``published_a channel_a item_a published_b channel_b item_b``) the pairs of equal titles in
different feeds within a day are held against it, as far as their items were taken in; it exits with 1 if they differ.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import gzip
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
from lxml import etree

import xscl
from xscl.answers.status import state_notes
from xscl.catalog.groups import read_template_use
from xscl.engine import Engine

FIELDS = ("channel_url", "channel_title", "item_url", "title", "description", "language")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # what XML cannot hold
WINDOWS = ("1 h", "2 h", "3 h", "6 h", "12 h", "1 day", "2 days", "3 days", "7 days")
WORDS = (
    "Apple",
    "Google",
    "Microsoft",
    "Amazon",
    "Samsung",
    "Windows",
    "iPhone",
    "Android",
    "Tesla",
    "Netflix",
    "Israel",
    "Gaza",
    "Hamas",
    "Ukraine",
    "Russia",
    "China",
    "Trump",
    "Biden",
    "Putin",
    "England",
    "London",
    "World",
    "Black",
    "Friday",
    "Review",
    "Trailer",
    "Official",
    "Watch",
    "Best",
    "deal",
    "game",
    "police",
    "court",
    "Polska",
    "Polski",
    "Polsce",
    "PiS",
    "Tusk",
    "Warszawa",
    "pogoda",
    "wojna",
    "Ukrainie",
    "Rosja",
    "policja",
    "wypadek",
)
"""Frequent in titles, English and Polish."""
LANGUAGES = ("en-US", "pl-PL", "en-UK")
TRUTH = (
    "news->a[./title->t1][./channel_url->c1] JOIN {t1 = t2 AND c1 != c2, 1 day, ONCE} "
    "news->b[./title->t2][./channel_url->c2]"
)


def block(name: str, side: int, fields: Sequence[str], conditions: Sequence[str] = ()) -> str:
    """A block of news items that binds some fields, each to its first letter and the block's number."""
    bound = "".join(f"[./{field}->{field[0]}{side}]" for field in fields)
    return f"news->{name}{''.join(f'[{condition}]' for condition in conditions)}{bound}"


def restriction(generator: random.Random, feeds: Sequence[str]) -> list[str]:
    """What an item must be besides, or nothing."""
    kind = generator.choice(["", "", "word", "feed", "language", "site"])
    match kind:
        case "word":
            return [f"contains(./title, '{generator.choice(WORDS)}')"]
        case "feed":
            return [f"./channel_url = '{generator.choice(feeds)}'"]
        case "language":
            return [f"./language = '{generator.choice(LANGUAGES)}'"]
        case "site":
            return ["starts-with(./item_url, 'https://www.')"]
    return []


def story(generator: random.Random, feeds: Sequence[str]) -> str:
    """One story in two feeds."""
    window = generator.choice(WINDOWS)
    equal = generator.choice(
        ["t1 = t2", "t1 = t2", "lower(t1) = lower(t2)", "normalize-space(t1) = normalize-space(t2)"]
    )
    left = block("a", 1, ("title", "channel_url"), restriction(generator, feeds))
    right = block("b", 2, ("title", "channel_url"))
    return f"{left} JOIN {{{equal} AND c1 != c2, {window}, ONCE}} {right}"


def text(generator: random.Random, feeds: Sequence[str]) -> str:
    """One text in two feeds, whatever its title."""
    longer = [f"string-length(./description) > {generator.choice([20, 50, 100])}"]
    left = block("a", 1, ("description", "channel_url"), longer + restriction(generator, feeds))
    right = block("b", 2, ("description", "channel_url"))
    return f"{left} JOIN {{d1 = d2 AND c1 != c2, {generator.choice(WINDOWS)}, ONCE}} {right}"


def again(generator: random.Random, feeds: Sequence[str]) -> str:
    """A feed brings a story again, an hour later or more."""
    left = block("a", 1, ("title", "channel_url"), restriction(generator, feeds))
    right = block("b", 2, ("title", "channel_url"))
    return f"{left} FOLLOWED BY {{t1 = t2 AND c1 = c2, 1 h..{generator.choice(WINDOWS[1:])}}} {right}"


def passed_on(generator: random.Random, feeds: Sequence[str]) -> str:
    """A feed's story comes in another feed later."""
    one, other = generator.sample(feeds, 2)
    left = block("a", 1, ("title",), [f"./channel_url = '{one}'"])
    right = block("b", 2, ("title",), [f"./channel_url = '{other}'"])
    return f"{left} FOLLOWED BY {{t1 = t2, {generator.choice(WINDOWS)}}} {right}"


def thread(generator: random.Random, feeds: Sequence[str]) -> str:
    """A feed writes of one thing, then of another: every item of a feed has the value that is joined."""
    one, other = generator.sample(WORDS, 2)
    left = block("a", 1, ("channel_url",), [f"contains(./title, '{one}')"])
    right = block("b", 2, ("channel_url",), [f"contains(./title, '{other}')"])
    return f"{left} FOLLOWED BY {{c1 = c2, {generator.choice(WINDOWS)}}} {right}"


def link(generator: random.Random, feeds: Sequence[str]) -> str:
    """One link twice, up to what does not matter in it."""
    left = block("a", 1, ("item_url", "title"), restriction(generator, feeds))
    right = block("b", 2, ("item_url", "title"))
    different = generator.choice(["", " AND t1 != t2"])
    return f"{left} JOIN {{url(i1) = url(i2){different}, {generator.choice(WINDOWS)}, ONCE}} {right}"


def site(generator: random.Random, feeds: Sequence[str]) -> str:
    """Two feeds of one site on one subject."""
    word = [f"contains(./title, '{generator.choice(WORDS)}')"]
    left, right = (block(name, n, ("item_url", "channel_url"), word) for n, name in enumerate("ab", start=1))
    return f"{left} JOIN {{host(i1) = host(i2) AND c1 != c2, {generator.choice(WINDOWS[:6])}, ONCE}} {right}"


def three(generator: random.Random, feeds: Sequence[str]) -> str:
    """One story in three feeds, one after another."""
    blocks = [block(name, n, ("title", "channel_url")) for n, name in enumerate("abc", start=1)]
    first, second = generator.choice(WINDOWS), generator.choice(WINDOWS)
    return (
        f"{blocks[0]} FOLLOWED BY {{t1 = t2 AND c1 != c2, {first}}} {blocks[1]} "
        f"FOLLOWED BY {{t2 = t3 AND c2 != c3 AND c1 != c3, {second}}} {blocks[2]}"
    )


RECIPE: Mapping[Callable[[random.Random, Sequence[str]], str], int] = {
    story: 40,
    text: 12,
    again: 14,
    passed_on: 14,
    thread: 10,
    link: 4,
    site: 4,
    three: 2,
}
"""Kinds of queries, each with how often it is drawn, in hundredths."""


def queries(count: int, seed: int, feeds: Sequence[str]) -> list[tuple[str, str]]:
    """(name, text) of random queries; the name says the kind."""
    generator = random.Random(seed)
    kinds = generator.choices(list(RECIPE), list(RECIPE.values()), k=count)
    return [(f"{kind.__name__}_{number}", kind(generator, feeds)) for number, kind in enumerate(kinds)]


Item = dict[str, str]


def read_items(path: Path, count: int | None) -> list[Item]:
    """The first items of the corpus, which is sorted by time."""
    table = pq.read_table(path, columns=[*FIELDS, "published"])
    found: list[Item] = table.slice(0, count).to_pylist()
    return found


def events(items: Sequence[Item]) -> Iterator[xscl.Event]:
    """Items as documents; their numbers are the ids."""
    for number, item in enumerate(items):
        root = etree.Element("item")
        for field in FIELDS:
            if item[field]:
                etree.SubElement(root, field).text = CONTROLS.sub("", item[field])
        when = datetime.fromisoformat(item["published"])
        yield xscl.Event("news", str(number), when, xml=etree.tostring(root))


Side = tuple[str, str, str]
Pairs = Counter[frozenset[tuple[Side, int]]]


def unordered(one: Side, other: Side) -> frozenset[tuple[Side, int]]:
    """Two items as one key, also where they are equal."""
    return frozenset(Counter([one, other]).items())


def true_pairs(path: Path, items: Sequence[Item]) -> Pairs:
    """The pairs of the truth whose items are among these."""
    known = {(item["published"], item["channel_url"], item["item_url"]) for item in items}
    found: Pairs = Counter()
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            one, other = ((row[f"published_{s}"], row[f"channel_{s}"], row[f"item_{s}"]) for s in "ab")
            if one in known and other in known:
                found[unordered(one, other)] += 1
    return found


def found_pairs(engine: Engine, items: Sequence[Item]) -> Pairs:
    """What the query of the truth found."""
    found: Pairs = Counter()
    for match in engine.matches("truth"):
        one, other = (items[int(event.id)] for event in match.events)
        sides = [(item["published"], item["channel_url"], item["item_url"]) for item in (one, other)]
        found[unordered(sides[0], sides[1])] += 1
    return found


def measure(arguments: argparse.Namespace, home: Path) -> dict[str, object]:
    """Everything that is printed, by name."""
    items = read_items(arguments.news, arguments.items)
    feeds = [feed for feed, _ in Counter(item["channel_url"] for item in items).most_common(40)]
    texts = [("truth", TRUTH), *queries(arguments.queries, arguments.seed, feeds)]
    seconds: dict[str, float] = {}
    with xscl.connect(home=home) as engine:
        began = time.perf_counter()
        refused = [outcome for outcome in engine.register_many(texts) if not outcome.ok]
        seconds["register"] = time.perf_counter() - began
        assert not refused, refused[:3]
        began = time.perf_counter()
        report = engine.ingest(events(items))
        seconds["intake"] = time.perf_counter() - began
        assert report.taken == len(items), report
        engine.spark.range(1).collect()  # so that no batch pays for the start
        began = time.perf_counter()
        batches = engine.run_once(batch_docs=arguments.batch_docs)
        seconds["batches"] = time.perf_counter() - began
        stages = [field.name for field in dataclasses.fields(batches[0]) if field.name.endswith("_s")]
        seconds |= {name: sum(getattr(batch, name) for batch in batches) for name in stages}
        began = time.perf_counter()
        rows = engine.sql("SELECT qid, count(*) AS n FROM matches GROUP BY qid").collect()
        seconds["count matches"] = time.perf_counter() - began
        counts = {row.qid: row.n for row in rows}
        of_kind: Counter[str] = Counter()
        for name, count in counts.items():
            of_kind[name.rpartition("_")[0] or name] += count
        templates = list(engine.home.catalog.ask(read_template_use))
        result: dict[str, object] = {
            "items": len(items),
            "queries": len(texts),
            "groups": sum(groups for _, _, groups in templates),
            "templates": len(templates),
            "batches": len(batches),
            "items_per_s": {name: round(len(items) / spent) for name, spent in seconds.items() if spent},
            "seconds": {name: round(spent, 2) for name, spent in seconds.items()},
            "seconds_per_batch": [round(sum(getattr(b, name) for name in stages), 2) for b in batches],
            "median_seconds_per_batch": round(
                statistics.median(sum(getattr(b, name) for name in stages) for b in batches), 2
            ),
            "jobs_per_batch": sorted({b.jobs for b in batches if b.jobs is not None}),
            "candidate_pairs": sum(b.pairs for b in batches),
            "matches_stored": sum(b.matches for b in batches),
            "matches_of_queries": sum(counts.values()),
            "matches_of_kinds": dict(of_kind.most_common()),
            "queries_with_a_match": len(counts),
            "witness_rows": sum(b.witnesses for b in batches),
            "state": list(state_notes(engine.home)),
        }
        if arguments.truth is not None:
            expected, found = true_pairs(arguments.truth, items), found_pairs(engine, items)
            result["truth"] = {
                "expected": expected.total(),
                "found": found.total(),
                "missing": (expected - found).total(),
                "too_many": (found - expected).total(),
            }
            result["truth_equal"] = expected == found
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("news", type=Path, help="the items, as Parquet")
    parser.add_argument("truth", type=Path, nargs="?", help="the pairs of equal titles within a day")
    parser.add_argument("--items", type=int, help="only the first so many")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--batch-docs", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xscl-news-") as home:
        result = measure(arguments, Path(home))
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:26}  {value}")
    sys.exit(result.get("truth_equal") is False)


if __name__ == "__main__":
    main()
