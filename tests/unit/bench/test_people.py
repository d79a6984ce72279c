"""News and questions of the bench ``people``: baselines against loops over pairs, and the engine against both."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest
from lxml import etree

import xscl
from xscl.base.values import digest_text
from xscl.bench.bench import Lab, Options
from xscl.bench.constants import BENCH as CONSTANTS
from xscl.bench.constants import _expected
from xscl.bench.news import CHANNEL, Item, News, Question, questions
from xscl.bench.news_joins import Found, ways

SEED = 3


@pytest.fixture(scope="module")
def case() -> tuple[list[Question], list[Item], Found]:
    news = News(SEED)
    items = news.take(300)
    # Most questions name a feed; of so few items more is found with the frequent ones.
    asked = list(islice(questions(SEED, news.feeds()[:6]), 40))
    return asked, items, by_pairs(asked, items)


def by_pairs(asked: list[Question], items: list[Item]) -> Found:
    """Try every question on every pair of documents, by XPath."""
    documents = [etree.fromstring(item.xml()) for item in items]
    found = set()
    for number, question in enumerate(asked):
        sides = [
            re.findall(r"news->[ab]((?:\[[^]]*\])*)", part)[0]
            for part in re.split(r" (?:JOIN|FOLLOWED BY) \{.*\} ", question.text)
        ]
        chosen = [
            [bool(document.xpath(f"self::*{re.sub(r'->.', '', side)}")) for document in documents] for side in sides
        ]
        for newer, other in enumerate(items):
            for older, one in enumerate(items[:newer]):
                either = question.shape.once and chosen[0][newer] and chosen[1][older]
                if (
                    (chosen[0][older] and chosen[1][newer] or either)
                    and other.at - one.at <= question.window_s
                    and question.shape.key(one) == question.shape.key(other)
                    and (not question.shape.feeds or (question.shape.feeds == "=") == (one.feed == other.feed))
                ):
                    found.add((number, one.number, other.number))
    return found


def test_items_and_questions_come_again(case: tuple[list[Question], list[Item], Found]) -> None:
    asked, items, _ = case
    again = News(SEED)
    assert again.take(150) + again.take(150) == items
    assert len(set(asked)) == len({question.text for question in asked}) == len(asked)
    kinds = Counter(question.shape.name for question in asked)
    assert len(kinds) == 6
    assert 0.7 < sum("string-length" in q.text or "contains" in q.text or "= '" in q.text for q in asked) / 40 < 0.95


def test_all_ways_find_what_pairs_show(case: tuple[list[Question], list[Item], Found], tmp_path: Path) -> None:
    asked, items, expected = case
    assert len(expected) > 60 and len({number for number, _, _ in expected}) > 15
    texts = [(item.number, item.at, item.xml()) for item in items]
    tried = ways(asked, len(asked), _new_folder(tmp_path, "all"))
    assert len(tried) == (3 if find_spec("duckdb") else 1)
    for name, way in tried.items():
        for start in range(0, len(texts), 150):
            way.take(texts[start : start + 150])
        assert way.found() == expected, name
    assert set(ways(asked, len(asked) - 1, _new_folder(tmp_path, "fewer"))) == set(tried) - {"duckdb_each"}


def test_duckdb_keeps_what_it_took_and_takes_an_id_once(
    case: tuple[list[Question], list[Item], Found], tmp_path: Path
) -> None:
    duckdb = pytest.importorskip("duckdb")
    asked, items, _ = case
    texts = [(item.number, item.at, item.xml()) for item in items[:20]]
    way = ways(asked, 0, tmp_path)["duckdb"]
    way.take(texts[:15])
    way.take(texts)
    # A copy of the files is what another process finds.
    copied = shutil.copytree(tmp_path, tmp_path / "copy")
    with duckdb.connect(copied / "templates.duckdb") as database:
        kept = database.execute("select id, digest, text from items order by number").fetchall()
    assert kept == [(f"d{number}", digest_text(text), text) for number, _, text in texts]


def _new_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def test_the_engine_finds_the_same(case: tuple[list[Question], list[Item], Found], tmp_path: Path) -> None:
    asked, items, expected = case
    with xscl.connect(home=tmp_path / "home") as engine:
        assert all(done.ok for done in engine.register_many((f"q{n}", q.text) for n, q in enumerate(asked)))
        for start in range(0, len(items), 250):
            engine.ingest(
                xscl.Event(CHANNEL, str(item.number), item.at, xml=item.xml()) for item in items[start : start + 250]
            )
            engine.run_once()
        found = {(int(m.query[1:]), *sorted(int(event.id) for event in m.events)) for m in engine.matches()}
    assert found == expected


def test_constants_by_hand(tmp_path: Path) -> None:
    (case,) = CONSTANTS.prepare(Lab(CONSTANTS.sizes.asked(Options(quick=True, queries=1)), Options(), tmp_path, print))
    (asked,) = case.data.asked
    number, expected = len(case.data.articles), set()
    articles = [(at, symbol, words) for at, (symbol, words) in enumerate(enumerate(case.data.articles), start=1)]
    rows = []
    for batch in case.data.batches:
        for symbol, price in batch.stocks:
            number += 1
            rows.append((number, symbol, price))
        for symbol, words in batch.articles:
            number += 1
            articles.append((number, symbol, words))
    for at, symbol, words in articles:
        for row, other, price in rows:
            if symbol == other and price > asked.price and asked.word in words:
                expected.add((0, *sorted((at, row))))
    assert _expected(case.data) == expected != set()
