"""Windows over buckets are those over matches: made anew and later, by whoever sees which, and read from files."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from xscl.batches.failing_queries import Failing
from xscl.batches.windows import buckets as aggregate_buckets
from xscl.batches.windows.answers import Answer, Frontier, answers
from xscl.batches.windows.buckets import Buckets, pays, shape_of
from xscl.batches.windows.families import Family, Member, families
from xscl.batches.windows.groups import Matches
from xscl.batches.windows.rows import ROW_SCHEMA
from xscl.batches.windows.stores import Stores, stores_of
from xscl.language.aggregates import definition_of
from xscl.language.syntax.parser import parse_query

VALUES = ("1", "2", "2.5", "-0.1", "x", "", "7" * 30, "-0." + "0" * 25 + "3", "0x10", "9" * 990)
FUNCTIONS = (
    "count()",
    "count(v)",
    "count(DISTINCT v)",
    "count(DISTINCT 2 * v)",
    "sum(v)",
    "avg(2 * v + 1)",
    "min(v)",
    "max(v)",
    "avg(v)",
)
WINDOWS = ((12, 4), (8, 4), (4, 4), (6, 2), (20, 10), (9, 3))
_Answer = tuple[int, int, int, int, object, object]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets are made however few matches there are, and are as long as windows allow."""
    for name, figure in (("LEAST_ROWS", 0), ("FEWER", 0), ("OLDER", 0), ("PER_WINDOW", 1)):
        monkeypatch.setattr(aggregate_buckets, name, figure)


def matches(values: list[str], groups: list[str], firsts: list[int], step: int = 1) -> Matches:
    """Matches of an element without a text, a group and a value each, one after another."""
    count = len(values)
    columns = {
        "ts": [step * number for number in range(count)],
        "key": [b"%08d" % number for number in range(count)],
        "first": firsts,
        "came": range(1, count + 1),
        "received": [(7 * number) % 13 for number in range(count)],
        "name": [str(number) for number in range(count)],
        "texts": [["", *texts] for texts in zip(groups, values, strict=True)],
    }
    return Matches(pa.table({name: list(column) for name, column in columns.items()}, schema=ROW_SCHEMA))


def random_families(choose: random.Random, count: int) -> list[Family]:
    """Families of queries over one grouping that were registered at some places."""
    group = choose.choice(["GROUP BY k", "GROUP BY lower(k)", ""])
    members = []
    for gid in range(count):
        length, step = choose.choice(WINDOWS)
        some = choose.sample(FUNCTIONS, 3)
        end = choose.choice(["", f"HAVING {some[0]} > 1", f"TOP 1 BY {some[0]}"])
        names = ", ".join(f"{each} AS n{place}" for place, each in enumerate(some))
        text = f"SELECT {names} FROM a->x[./k->k][./v->v] WINDOW {length} us EVERY {step} us {group} {end}"
        sees = tuple(sorted(choose.sample([0, 9, 17], choose.choice([1, 1, 2]))))
        # The part selects all variables, in the order of FROM.
        members.append(Member(gid, definition_of(parse_query(text), text, of_all=True), sees))
    return families(members)


def shown(member: Member, answer: Answer) -> _Answer:
    return member.gid, answer.ts, answer.place, answer.received, answer.values, answer.sees


def told(
    each: list[Family], every: Matches, times: list[int], buckets: dict[tuple[int, str], Buckets] | None
) -> list[_Answer]:
    """Answers of batches that settle times one after another, over matches or over buckets."""
    found, before = [], -(1 << 62)
    for now in times:
        settled = every.some(np.flatnonzero(every.ts < now))
        frontier = Frontier(before, np.array([now]), np.array([now]))
        stores = Stores(5, stores_of(each), {} if buckets is None else buckets)
        if buckets is not None:
            stores.take(settled, frontier)
        for family in each:
            mine = stores.of(family)
            over = settled if mine is None else mine.matches
            found += [shown(*one) for one in answers(family, over, frontier, {}, Failing())]
        if buckets is not None:
            stores.leave(now)
        before = now
    return sorted(found, key=repr)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(30))
def test_windows_over_buckets_are_those_over_matches(seed: int) -> None:
    choose = random.Random(seed)
    count = 40
    values = choose.choices(choose.choice([VALUES[:4], VALUES]), k=count)
    every = matches(
        values, choose.choices("aAb", k=count), [max(1, n - choose.choice([0, 0, 3])) for n in range(count)]
    )
    each = random_families(choose, 6)
    times = sorted(choose.sample(range(1, 60), choose.choice([1, 3, 8])))
    buckets: dict[tuple[int, str], Buckets] = {}
    found = told(each, every, times, buckets)
    assert found == told(each, every, times, None)
    assert len(buckets) == len(stores_of(each)) or times[-1] <= 12
    kept = [of for of in buckets.values() if len(of)]
    assert all(of.rows.column("ts").to_numpy()[0] >= times[-1] - 20 for of in kept), "old ones go"


def test_windows_share_buckets_of_one_shape() -> None:
    made = "SELECT k, {} AS n FROM a->x[./k->k][./v->v] WINDOW {} GROUP BY {}"
    texts = [
        made.format("sum(v)", "1 h EVERY 10 min", "k"),
        made.format("max(v)", "6 h EVERY 1 h", "k") + " HAVING max(v) > 7",
        made.format("avg(v)", "30 min EVERY 30 min", "k") + " TOP 3 BY avg(v)",
        made.format("count(DISTINCT k)", "1 h EVERY 1 h", "k"),
    ]
    definitions = [definition_of(parse_query(text), text) for text in texts]
    assert len({shape_of(each) for each in definitions}) == 1
    (store,) = stores_of(families(Member(n, each, (0,)) for n, each in enumerate(definitions))).values()
    assert store.width == 10 * 60 * 10**6, "64 in the longest window, about"
    assert len(store.kinds) == 4
    assert [each.function for each in store.partials] == ["count", "sum", "max", "numbers"]
    for other in ("first(v)", "last(v)"):
        text = made.format(other, "1 h EVERY 10 min", "k")
        assert shape_of(definition_of(parse_query(text), text)) is None
    for end in ("WINDOW 1 h", "WINDOW LAST 3"):
        text = f"SELECT k, count() AS n FROM a->x[./k->k] {end} GROUP BY k"
        assert shape_of(definition_of(parse_query(text), text)) is None


def test_buckets_pay_where_they_are_few_and_stay() -> None:
    text = "SELECT k, sum(v) AS n FROM a->x[./k->k][./v->v] WINDOW 6400 us EVERY 100 us GROUP BY k"
    definition = definition_of(parse_query(text), text, of_all=True)
    ((shape, store),) = stores_of(families([Member(1, definition, (0,))])).items()
    assert store.width == 100
    few = matches(["1"] * 4_000, ["a", "b"] * 2_000, [1] * 4_000)
    many = matches(["1"] * 4_000, [str(number) for number in range(4_000)], [1] * 4_000)
    assert pays(few, shape, 100, 4_000, 3_000)
    assert not pays(few, shape, 100, 4_000, 1_000), "most came with the batch"
    assert not pays(few, shape, 100, 900, 900), "they are few"
    assert not pays(many, shape, 100, 4_000, 3_000), "a group has one match"


def test_sums_of_buckets_have_all_digits() -> None:
    numbers = ["0.1", "9" * 999, "-0.0000001", "9" * 999]
    text = "SELECT sum(v) AS s, avg(v) AS a FROM a->x[./k->k][./v->v] WINDOW 4 us EVERY 4 us"
    (family,) = families([Member(0, definition_of(parse_query(text), text, of_all=True), (0,))])
    ((shape, store),) = stores_of([family]).items()
    every = matches(numbers, ["a"] * 4, [1] * 4)
    buckets = aggregate_buckets.folded(every, shape, store.partials, 1, 4, store.sees)
    ((_, answer),) = answers(family, buckets.matches, Frontier(-1, np.array([4]), np.array([4])), {}, Failing())
    total = sum(map(Fraction, numbers), Fraction(0))
    assert len(buckets) == 4 and answer.values.aggregates == (total, total / 4)
