"""``xscl bench constants``: queries that differ in constants only, a number and a word each, above one shared join.

The shape is that of CACQ's Figure 11(a): a threshold for each query on rows of stocks, joined with articles.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from xscl.base.types import Event
from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_case, size
from xscl.bench.engines import open_engine, register, run
from xscl.bench.news_joins import Found
from xscl.bench.people import engine_pairs, pairs_digest
from xscl.bench.plot import Axes
from xscl.bench.report import Row

__all__ = ["BENCH"]

_TEXT = 30
"""Words of an article."""


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((1, 100, 10_000, 100_000), (1, 100))
    items: int = size(2_000, 200)
    """Articles of the state, each of a symbol of its own."""
    words: int = size(100_000, 300)
    """Words of all articles, equally frequent; a query asks for one of them."""
    batch: int = size(1_000, 100)
    """Events of a batch, each of a random symbol: half of them rows of stocks, then articles."""
    rounds: int = size(4, 2)
    """Batches; the first one is not counted."""


@dataclass(frozen=True, slots=True)
class _Query:
    """The constants of one query."""

    price: float
    word: int

    @property
    def text(self) -> str:
        """The query in XSCL."""
        return (
            f"stocks[./price > {self.price}][./symbol->s] JOIN {{s = t, 1 h}} "
            f"articles/article[contains-word(./text, 'w{self.word}')][./symbol->t]"
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    stocks: Sequence[tuple[int, float]]
    """Symbol and price of each row."""
    articles: Sequence[tuple[int, frozenset[int]]]
    """Symbol and words of each article."""


@dataclass(frozen=True, slots=True)
class _Data:
    asked: Sequence[_Query]
    articles: Sequence[frozenset[int]]
    """Words of the first article of each symbol."""
    batches: Sequence[_Batch]


def _queries(seed: int, words: int) -> Iterator[_Query]:
    chance = random.Random(seed)
    while True:
        yield _Query(round(chance.uniform(0, 100), 4), chance.randrange(words))


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Data]]:
    sizes, chance = lab.sizes, random.Random(lab.seed + 1)
    half = sizes.batch // 2
    articles = [_words(chance, sizes) for _ in range(sizes.items)]
    batches = [
        _Batch(
            [(chance.randrange(sizes.items), round(chance.uniform(0, 100), 2)) for _ in range(half)],
            [(chance.randrange(sizes.items), _words(chance, sizes)) for _ in range(sizes.batch - half)],
        )
        for _ in range(sizes.rounds)
    ]
    for count in sizes.queries:
        asked = list(islice(_queries(lab.seed, sizes.words), count))
        yield Case(f"{count:,} queries", _Data(asked, articles, batches), {"queries": count})


def _words(chance: random.Random, sizes: _Sizes) -> frozenset[int]:
    return frozenset(chance.choices(range(sizes.words), k=_TEXT))


def _measure(lab: Lab[_Sizes], case: Case[_Data]) -> Outcome:
    sizes, data = lab.sizes, case.data
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        engine.add_channel("stocks", kind="rows", schema="symbol string, price double")
        register_s = register(engine, ((f"q{number}", asked.text) for number, asked in enumerate(data.asked)))
        engine.ingest(
            Event("articles", f"a{symbol}", symbol / 1e3, xml=_article(symbol, words))
            for symbol, words in enumerate(data.articles)
        )
        run(engine)
        spent, witnesses = [], []
        for number, batch in enumerate(data.batches):
            lab.say(f"batch {number + 1}")
            events = _events(batch, sizes.items + number * sizes.batch)
            with watched() as watch:
                engine.ingest(events)
                ran = run(engine)
            spent.append(watch.cpu_s)
            witnesses.append(ran.total("witnesses") / sizes.batch)
        found = engine_pairs(engine)
    expected = _expected(data)
    figures = {
        "us_per_event": 1e6 * statistics.median(spent[1:] or spent) / sizes.batch,
        "witness_rows_per_event": max(witnesses),
        "state_rows": ran.reports[-1].state_rows,
        "pairs": len(found),
        "register_s": register_s,
    }
    return Outcome(figures, digest=pairs_digest(found), agrees=found == expected)


def _events(batch: _Batch, first: int) -> list[Event]:
    """Make the events of a batch, numbered from this number on."""
    rows = [
        Event("stocks", f"s{at}", at / 1e3, row={"symbol": f"S{symbol}", "price": price})
        for at, (symbol, price) in enumerate(batch.stocks, start=first)
    ]
    articles = (
        Event("articles", f"a{at}", at / 1e3, xml=_article(symbol, words))
        for at, (symbol, words) in enumerate(batch.articles, start=first + len(rows))
    )
    return [*rows, *articles]


def _article(symbol: int, words: frozenset[int]) -> str:
    text = " ".join(f"w{word}" for word in sorted(words))
    return f"<article><symbol>S{symbol}</symbol><text>{text}</text></article>"


def _expected(data: _Data) -> Found:
    """Answer all queries by hand; events are numbered from 1 on, the articles of the state first."""
    of_word: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for number, asked in enumerate(data.asked):
        of_word[asked.word].append((number, asked.price))
    rows: dict[int, list[tuple[int, float]]] = defaultdict(list)
    articles = [(at, symbol, words) for at, (symbol, words) in enumerate(enumerate(data.articles), start=1)]
    behind = len(articles) + 1
    for batch in data.batches:
        for at, (symbol, price) in enumerate(batch.stocks, start=behind):
            rows[symbol].append((at, price))
        behind += len(batch.stocks)
        articles += ((at, symbol, words) for at, (symbol, words) in enumerate(batch.articles, start=behind))
        behind += len(batch.articles)
    return {
        (number, min(at, row), max(at, row))
        for at, symbol, words in articles
        for word in words
        for number, least in of_word.get(word, ())
        for row, price in rows[symbol]
        if price > least
    }


def _figures(_: _Sizes, results: Sequence[Result[_Data]]) -> Row:
    """Divide costs by those of the fewest queries, and say whether the state depends on their number."""
    first = results[0].figures
    figures = dict(results[-1].figures)
    for each in results[1:]:
        count = each.figures["queries"]
        figures[f"growth_{first['queries']}_to_{count}"] = each.figures["us_per_event"] / first["us_per_event"]
    figures["state_rows_equal"] = len({each.figures["state_rows"] for each in results}) == 1
    return figures


BENCH = Bench(
    name="constants",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_case,
    figures=_figures,
    axes=Axes(
        "Queries with a number and a word of their own, batches of {s.batch:,} events",
        x="queries",
        y="microseconds of processor time an event",
        over="queries",
        lines={"driver": "us_per_event"},
        log_x=True,
        log_y=True,
    ),
    notes=("Costs are those of the median batch without the first, intake included.",),
)
