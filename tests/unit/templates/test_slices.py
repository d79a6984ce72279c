"""Join state by value against lists of rows: what runs find, what the cache holds, leaves to files and brings back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.values import value_hashes
from xscl.templates.results import Member
from xscl.templates.runs import Run
from xscl.templates.slices import SliceCache
from xscl.xpath.witness_columns import WITNESS_SCHEMA

Row = dict[str, object]
VALUES = (None, "a", "b", "c", "dd", "1", "02")
CHAINS: tuple[list[Row], ...] = ([], [{"var1": 1, "var2": 2, "node1": 0, "node2": 3}])
LARGE = 1 << 30
relaxed = settings(deadline=None, max_examples=examples(24))


@st.composite
def witnesses(draw: st.DrawFn, first: int = 0, *, least: int = 0) -> list[Row]:
    """Rows of documents numbered from ``first``, each with a time, an item and an id of its own."""
    found: list[Row] = []
    for docid in range(first, first + draw(st.integers(least, 5))):
        of_document = {
            "docid": docid,
            "ts": draw(st.integers(-2, 3)),
            "item": draw(st.sampled_from([docid, first])),
            "place": f"S\0{docid}",
            "late": False,
            "membership": 0,
        }
        for node in range(draw(st.integers(1, 4))):
            text = draw(st.sampled_from(VALUES))
            named = {"var": draw(st.integers(7, 8)), "fn": draw(st.sampled_from([None, "", "number"])), "node": node}
            value = {"strval": text, "num": float(text) if (text or "").isdigit() else None}
            found.append({**of_document, **named, **value, "chain": draw(st.sampled_from(CHAINS))})
    return found


def table(rows: list[Row], hashes: int) -> pa.Table:
    """The rows; ``hashes`` is how many different hashes there are, 0 for real ones."""
    h = value_hashes([row["strval"] for row in rows])  # type: ignore[misc]
    filled = [{**row, "h": int(at % hashes if hashes else at)} for row, at in zip(rows, h, strict=True)]
    return pa.Table.from_pylist(filled, schema=WITNESS_SCHEMA)


def told(run: Run, cache: SliceCache, rows: np.ndarray | None = None) -> list[tuple[object, ...]]:
    """Some rows of a run, as ``plain`` tells them."""
    at = np.arange(len(run.rows.h)) if rows is None else rows
    names = {number: key for key, number in cache.keys.items()}
    columns = [column[at].tolist() for column in run.rows]
    texts, places = run.text(at).to_pylist(), run.place(run.rows.doc[at]).to_pylist()
    return [
        (doc, ts, item, place, *names[key], node, text, repr(number), shape.chain_of(node, names[key][0]))
        for (_, key, ts, doc, item, bundle, number, _), text, place in zip(
            zip(*columns, strict=True), texts, places, strict=True
        )
        for shape in cache.shapes[bundle]
        for node in shape.nodes
    ]


def plain(row: Row) -> tuple[object, ...]:
    chain = tuple(tuple(entry.values()) for entry in row["chain"])  # type: ignore[attr-defined]
    number = repr(float("nan") if row["num"] is None else row["num"])
    names = ("docid", "ts", "item", "place", "var", "fn", "node", "strval")
    return (*(row[name] for name in names), number, chain)


def held(cache: SliceCache) -> Counter[tuple[object, ...]]:
    return Counter(row for run in cache.runs for row in told(run, cache))


def check_order(run: Run) -> None:
    rows = run.rows
    order = list(zip(rows.h.tolist(), rows.key.tolist(), rows.ts.tolist(), strict=True))
    assert order == sorted(order)
    # A hash is that of one value, and a value has one hash.
    both = set(zip(rows.h.tolist(), run.text(np.arange(len(rows.h))).to_pylist(), strict=True))
    assert len(both) == len({h for h, _ in both}) == len({text for _, text in both})
    assert len(run.used) == len(run.values) == len(run.texts)
    assert run.docs.tolist() == sorted({*rows.doc.tolist()})


# -- runs ------------------------------------------------------------------------------------------------------


@relaxed
@given(rows=witnesses(), hashes=st.sampled_from([0, 1, 3]), draw=st.data())
def test_a_run(rows: list[Row], hashes: int, draw: st.DataObject) -> None:
    cache = SliceCache(LARGE)
    run = cache.run_of(table(rows, hashes), 3)
    assert cache.rows == 0, "it is not part of the cache yet"
    check_order(run)
    assert Counter(told(run, cache)) == Counter(map(plain, rows))
    assert set(run.used.tolist()) <= {3}
    documents = {row["docid"]: row for row in rows}
    for docid in range(7):
        row = documents.get(docid)
        expected = None if row is None else Member(docid, row["item"], row["ts"], row["place"])  # type: ignore[arg-type]
        assert run.member(docid) == expected
    same = {(row["docid"], row["var"], row["fn"], row["strval"]) for row in rows}
    assert len(run.rows.h) == len(same), "a document has one row for each value of a variable and function"
    docs = draw.draw(st.lists(st.integers(-1, 7), max_size=4))
    for (var, fn), key in list(cache.keys.items()):
        at, found = run.of_documents(np.array(docs, dtype=np.int64), np.full(len(docs), key))
        expected_rows = Counter(
            (place, plain(row))
            for place, docid in enumerate(docs)
            for row in rows
            if (row["docid"], row["var"], row["fn"]) == (docid, var, fn)
        )
        assert at.tolist() == sorted(at.tolist())
        rows_found = [
            (place, row) for place, one in zip(at.tolist(), found, strict=True) for row in told(run, cache, one[None])
        ]
        assert Counter(rows_found) == expected_rows


@relaxed
@given(rows=witnesses(least=1), hashes=st.sampled_from([0, 2]), draw=st.data())
def test_rows_of_slices_within_times(rows: list[Row], hashes: int, draw: st.DataObject) -> None:
    run = SliceCache(LARGE).run_of(table(rows, hashes), 0)
    number = len(run.slice_starts) - 1
    bounds = st.tuples(st.integers(0, number - 1), st.integers(-4, 5), st.integers(-4, 5))
    asked = draw.draw(st.lists(bounds, min_size=1, max_size=6))
    slices, least, greatest = (np.array(column, dtype=np.int64) for column in zip(*asked, strict=True))
    begin, end = run.within(slices, least, greatest)
    for (of, low, high), first, last in zip(asked, begin.tolist(), end.tolist(), strict=True):
        inside = range(run.slice_starts[of], run.slice_starts[of + 1])
        assert [*range(first, last)] == [at for at in inside if low <= run.rows.ts[at] <= high]


def test_a_run_without_rows() -> None:
    cache = SliceCache(LARGE)
    run = cache.run_of(table([], 0), 0)
    cache.add(run)
    assert cache.runs == [] and cache.rows == 0 and len(run.values) == 0
    assert run.member(1) is None and run.rows.again.tolist() == []
    assert [column.tolist() for column in run.of_documents(np.array([1]), np.array([0]))] == [[], []]


@relaxed
@given(parts=st.lists(st.integers(0, 3), min_size=1, max_size=6), hashes=st.sampled_from([0, 2]), draw=st.data())
def test_runs_are_merged(parts: list[int], hashes: int, draw: st.DataObject) -> None:
    cache = SliceCache(LARGE)
    rows: list[Row] = []
    for batch, _ in enumerate(parts):
        new = draw.draw(witnesses(10 * batch))
        cache.add(cache.run_of(table(new, hashes), batch))
        rows += new
        assert held(cache) == Counter(map(plain, rows))
        sizes = [len(run.rows.h) for run in cache.runs]
        assert all(before >= 2 * after for before, after in zip(sizes, sizes[1:], strict=False))
        for run in cache.runs:
            check_order(run)
    assert sum(held(cache).values()) == len(rows)
    # The hash of a value is the same in all runs.
    hashes_of = {
        (text, h) for run in cache.runs for text, h in zip(run.texts.to_pylist(), run.values.tolist(), strict=True)
    }
    assert len(hashes_of) == len({text for text, _ in hashes_of}) == len({h for _, h in hashes_of})


# -- a bounded cache -------------------------------------------------------------------------------------------


class Files:
    """All rows, as files have them."""

    def __init__(self, hashes: int) -> None:
        self.hashes = hashes
        self.rows: list[Row] = []

    def of(self, wanted: np.ndarray) -> pa.Table:
        found = table(self.rows, self.hashes)
        return found.filter(pc.is_in(found.column("h"), pa.array(wanted, pa.int64())))


def check_cache(cache: SliceCache, files: Files, asked: set[object]) -> None:
    """A slice is here whole or not at all; what is neither is known not to be anywhere."""
    here, there = held(cache), Counter(map(plain, files.rows))
    assert here <= there
    present = {row[7] for row in here}
    for text in {row["strval"] for row in files.rows}:
        if text in present and not cache.blind:
            assert Counter({k: n for k, n in here.items() if k[7] == text}) == Counter(
                {k: n for k, n in there.items() if k[7] == text}
            )
    assert {text for text in asked if any(row["strval"] == text for row in files.rows)} <= present
    complete = {row["docid"] for row in files.rows} - {*cache.incomplete(documents(files)).tolist()}
    for docid in complete:
        assert {k for k in here if k[0] == docid} == {k for k in there if k[0] == docid}


def documents(files: Files) -> np.ndarray:
    return np.unique(np.array([row["docid"] for row in files.rows], dtype=np.int64))


@settings(deadline=None, max_examples=examples(48))
@given(
    most=st.sampled_from([0, 700, 2_500, 5_000, LARGE]),
    hashes=st.sampled_from([0, 1, 3]),
    steps=st.lists(st.sampled_from(["batch", "batch", "purge", "load"]), min_size=2, max_size=7),
    draw=st.data(),
)
def test_the_cache_has_what_is_asked_for(most: int, hashes: int, steps: list[str], draw: st.DataObject) -> None:
    cache, files = SliceCache(most), Files(hashes)
    for batch, step in enumerate(steps):
        if step == "purge":
            floor = draw.draw(st.integers(-2, 3))
            files.rows = [row for row in files.rows if row["var"] == 8 or row["ts"] >= floor]  # type: ignore[operator]
            cache.purge(lambda var, ts, floor=floor: (var == 8) | (ts >= floor))  # type: ignore[misc]
        elif step == "load":
            cache = SliceCache(most)
            parts = [table(files.rows[at : at + 4], hashes) for at in range(0, len(files.rows), 4)]
            cache.load(iter(parts), batch)
        else:
            new = draw.draw(witnesses(10 * batch))
            fresh = table(new, hashes)
            missing = cache.missing(np.unique(fresh.column("h").to_numpy()))
            if len(missing):
                cache.bring(files.of(missing), batch)
            run = cache.run_of(fresh, batch)
            check_cache(cache, files, {row["strval"] for row in new})
            cache.add(run)
            files.rows += new
            check_cache(cache, files, {row["strval"] for row in new})
            cache.shrink()
            assert sum(run.size for run in cache.runs) <= 2 * most, "what slices take is estimated"
        check_cache(cache, files, set())
        assert 0 <= cache.hits <= cache.asked
        if most == LARGE:
            assert cache.hits == cache.asked and held(cache) == Counter(map(plain, files.rows))


def filled(cache: SliceCache, texts: str, batch: int, first: int) -> None:
    rows = [
        {
            "docid": first + at,
            "ts": 0,
            "item": first + at,
            "place": "",
            "late": False,
            "var": 1,
            "node": 0,
            "fn": "",
            "membership": 0,
        }
        | {"strval": text, "num": None, "chain": []}
        for at, text in enumerate(texts)
    ]
    cache.add(cache.run_of(table(rows, 0), batch))


def hashes_of(texts: str) -> np.ndarray:
    return np.unique(value_hashes(list(texts)))


def test_what_was_asked_for_last_stays() -> None:
    cache = SliceCache(1_000)
    filled(cache, "abc", 1, 0)
    filled(cache, "defg", 2, 10)
    assert cache.size > 1_000
    cache.shrink()
    assert cache.size <= 1_000 and not cache.blind
    here = {text for run in cache.runs for text in run.texts.to_pylist()}
    assert set("defg") <= here < set("abcdefg")
    missing = set("abcdefg") - here
    assert cache.missing(hashes_of("abcdefgz")).tolist() == hashes_of("".join(missing)).tolist()
    assert (cache.asked, cache.hits) == (8, 8 - len(missing)), "z is nowhere, which is known"
    assert set(cache.incomplete(np.arange(20)).tolist()) == {
        first + texts.index(text) for first, texts in ((0, "abc"), (10, "defg")) for text in missing & set(texts)
    }


def test_a_cache_without_room_for_lists_is_blind() -> None:
    cache = SliceCache(40)
    filled(cache, "abc", 1, 0)
    while not cache.blind:
        cache.shrink()
        filled(cache, "defg", 2, 10)
    cache.shrink()
    assert cache.blind and cache.rows == 0
    assert cache.missing(hashes_of("az")).tolist() == hashes_of("az").tolist()
    assert cache.incomplete(np.array([3, 4])).tolist() == [3, 4]
    filled(cache, "ab", 3, 30)
    cache.shrink()
    assert cache.rows == 0
    assert cache.has_room_to_list(0) and not cache.has_room_to_list(1)


def test_a_blind_cache_remembers_no_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.templates.slices._MANY_SHAPES", 0)
    cache = SliceCache(0)
    for batch in range(4):
        filled(cache, "ab", batch, 10 * batch)
        cache.shrink()
    assert cache.blind and len(cache.shapes) == 0


def test_shapes_that_no_row_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.templates.slices._MANY_SHAPES", 0)
    cache = SliceCache(LARGE)
    filled(cache, "ab", 1, 0)
    assert len(cache.shapes) == 1
    cache.purge(lambda var, ts: ts > 0)
    assert len(cache.shapes) == 0 and cache.runs == []


def colliding() -> Iterator[int]:
    """Each number twice, so that a value's own hash is another value's too."""
    return (number // 2 for number in count())


def test_hashes_of_their_own_may_collide_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = colliding()
    monkeypatch.setattr("xscl.templates.slices.value_hash", lambda text: 1_000 + next(numbers))
    cache = SliceCache(LARGE)
    shape: Row = {
        "ts": 0,
        "item": 0,
        "place": "",
        "late": False,
        "var": 1,
        "node": 0,
        "fn": "",
        "num": None,
        "chain": [],
    }
    for batch, texts in enumerate(("aabb", "ccab", "dca")):
        rows = [{**shape, "docid": 10 * batch + at, "strval": text} for at, text in enumerate(texts)]
        cache.add(cache.run_of(table(rows, 1), batch))
    both = {(text, h) for run in cache.runs for text, h in zip(run.texts.to_pylist(), run.values.tolist(), strict=True)}
    assert {text for text, _ in both} == set("abcd")
    assert len(both) == len({h for _, h in both}) == 4


@given(st.data(), witnesses(least=1))
@relaxed
def test_rows_of_a_document_in_several_parts_know_of_each_other(data: st.DataObject, rows: list[Row]) -> None:
    part_of = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    # One node may come with several chains, in different parts.
    rows = [*rows, *({**row, "chain": CHAINS[1]} for row in rows if row["chain"] == [])]
    part_of += [(part + 1) % 3 for part, row in zip(part_of, rows, strict=False) if row["chain"] == []]
    part_of = part_of[: len(rows)]
    parts = [[row for row, of in zip(rows, part_of, strict=True) if of == part] for part in range(3)]
    cache = SliceCache(LARGE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xscl.templates.slices._TOGETHER", data.draw(st.sampled_from([1, 4, 1_000])))
        cache.load((table(part, 0) for part in parts if part), 1)
    assert sum(held(cache).values()) == len(rows)
    bundles = [
        (bool(again), (doc, key, text))
        for run in cache.runs
        for again, doc, key, text in zip(
            run.rows.again, run.rows.doc, run.rows.key, run.text(np.arange(len(run.rows.h))).to_pylist(), strict=True
        )
    ]
    alike = Counter(of for _, of in bundles)
    assert all(again == (alike[of] > 1) for again, of in bundles)
