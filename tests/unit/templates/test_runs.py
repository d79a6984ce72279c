"""Runs: witness rows in order of their values, in memory and in mapped files, merged and completed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.templates.run_checks import wrong_run
from xscl.templates.runs.files import open_run, run_facts, save_run
from xscl.templates.runs.making import empty_run, run_of
from xscl.templates.runs.merging import merged_run, part_of
from xscl.templates.runs.rows import rows_of_run, with_more_rows
from xscl.templates.runs.run import Run, equal_values

Row = dict[str, object]
FUNCTIONS = (None, "string", "number")


@st.composite
def tables(draw: st.DrawFn, docs: range) -> pa.Table:
    """Witness rows of documents; several values have one hash, and a value may be that of several nodes."""
    rows: dict[tuple[object, ...], Row] = {}
    for doc in docs:
        ts = draw(st.integers(0, 99))
        for _ in range(draw(st.integers(0, 6))):
            var, node = draw(st.integers(0, 2)), draw(st.integers(0, 5))
            fn, value = draw(st.sampled_from(FUNCTIONS)), draw(st.sampled_from("abcdef"))
            entry = {"var1": var, "var2": 9, "node1": node, "node2": draw(st.integers(0, 1))}
            rows[doc, var, node, fn] = {
                "docid": doc,
                "ts": ts,
                "item": doc // 2 * 2,
                "place": f"c\0{doc}",
                "late": False,
                "membership": doc % 3,
                "var": var,
                "node": node,
                "fn": fn,
                "strval": None if fn is None else value,
                "num": float(ord(value)) if fn == "number" else None,
                "h": 0 if fn is None else ord(value) // 2,
                "chain": [entry] * draw(st.integers(0, 1)),
            }
    return pa.Table.from_pylist(list(rows.values()), schema=WITNESS_SCHEMA)


def contents(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def new_run(table: pa.Table) -> Run:
    return run_of(table)


def same(one: Run, other: Run) -> bool:
    return contents(rows_of_run(one)) == contents(rows_of_run(other))


@settings(max_examples=examples(40))
@given(one=tables(range(0, 12, 2)), other=tables(range(1, 12, 2)), data=st.data())
def test_runs_have_the_rows_that_they_are_made_of(one: pa.Table, other: pa.Table, data: st.DataObject) -> None:
    first, second = new_run(one), new_run(other)
    assert contents(rows_of_run(first)) == contents(one)
    kept = np.array([data.draw(st.booleans()) for _ in range(first.size)], dtype=np.bool_)
    merged = merged_run([first, second], [kept, None])
    assert contents(rows_of_run(merged)) == contents(pa.concat_tables([rows_of_run(first, kept), other]))
    # As if it had been made at once.
    whole = new_run(rows_of_run(merged))
    for name in ("docs", "items", "times", "hashes", "doc", "ts", "slice_starts"):
        found, expected = getattr(merged, name), getattr(whole, name)
        if name in ("docs", "items", "times", "hashes"):
            assert found.tolist() == expected.tolist()
        else:
            assert len(found) == len(expected)
    assert merged.texts.to_pylist() == whole.texts.to_pylist() or sorted(map(str, merged.texts.to_pylist())) == sorted(
        map(str, whole.texts.to_pylist())
    )


@settings(max_examples=examples(40))
@given(parts=st.tuples(*(tables(range(first, 15, 3)) for first in range(3))), data=st.data())
def test_merged_runs_are_in_their_order(
    parts: tuple[pa.Table, ...], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever comes first: documents stand between those of other runs, and a value is that of several."""
    path = tmp_path_factory.mktemp("run") / "a.run"
    runs = data.draw(st.permutations([new_run(part) for part in parts]))
    masks = [
        data.draw(
            st.none()
            | st.lists(st.booleans(), min_size=run.size, max_size=run.size).map(
                lambda some: np.array(some, dtype=np.bool_)
            )
        )
        for run in runs
    ]
    merged = merged_run(runs, masks)
    kept = [rows_of_run(run, mask) for run, mask in zip(runs, masks, strict=True)]
    assert contents(rows_of_run(merged)) == contents(pa.concat_tables(kept))
    for run in (merged, *(part_of(run, mask) for run, mask in zip(runs, masks, strict=True) if mask is not None)):
        save_run(run, path)
        assert wrong_run(path) is None
    assert merged.ts.tolist() == merged.times[merged.doc].tolist()


@settings(max_examples=examples(40))
@given(one=tables(range(0, 12, 2)), other=tables(range(1, 12, 2)))
def test_values_that_runs_share_are_told_by_their_texts(one: pa.Table, other: pa.Table) -> None:
    first, second = new_run(one), new_run(other)
    mine, others = equal_values(first, second)
    assert first.texts.take(mine).to_pylist() == second.texts.take(others).to_pylist()
    assert set(first.texts.take(mine).to_pylist()) == set(first.texts.to_pylist()) & set(second.texts.to_pylist())
    assert len(set(mine.tolist())) == len(mine)


@settings(max_examples=examples(30))
@given(table=tables(range(8)), least=st.integers(0, 99), length=st.integers(0, 50))
def test_rows_within_times(table: pa.Table, least: int, length: int) -> None:
    run = new_run(table)
    slices = np.arange(len(run.slice_codes))
    bounds = np.full(len(slices), least), np.full(len(slices), least + length)
    for at, (begin, end) in enumerate(zip(*run.within(slices, *bounds), strict=True)):
        times = run.ts[run.slice_starts[at] : run.slice_starts[at + 1]].tolist()
        assert run.ts[begin:end].tolist() == [time for time in times if least <= time <= least + length]


@settings(max_examples=examples(30))
@given(table=tables(range(8)), data=st.data())
def test_rows_that_come_later_join_those_of_their_documents(table: pa.Table, data: st.DataObject) -> None:
    earlier = np.array([data.draw(st.booleans()) for _ in range(table.num_rows)], dtype=np.bool_)
    before = new_run(table.filter(pa.array(earlier)))
    more = table.filter(pa.array(~earlier & np.isin(table.column("docid").to_numpy(), before.docs)))
    run = with_more_rows(before, None, more)
    assert contents(rows_of_run(run)) == contents(pa.concat_tables([rows_of_run(before), more]))
    keys = list(zip(run.doc.tolist(), np.repeat(run.slice_codes, np.diff(run.slice_starts)).tolist(), strict=True))
    assert len(keys) == len(set(keys)), "a document has one row for a value and a key"


@settings(max_examples=examples(20))
@given(table=tables(range(6)))
def test_files_say_what_they_hold(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> None:
    run, path = new_run(table), tmp_path_factory.mktemp("run") / "a.run"
    save_run(run, path)
    opened, facts = open_run(str(path)), run_facts(str(path))
    assert same(run, opened)
    assert opened.keys == run.keys and facts.rows == run.size
    assert facts.docs == ((int(run.docs[0]), int(run.docs[-1])) if len(run.docs) else None)
    assert facts.times == ((int(run.ts.min()), int(run.ts.max())) if run.size else None)
    of_key = run.row_keys()
    for number in range(len(run.keys)):
        times = run.ts[of_key == number]
        told = [column[number] for column in (facts.keys.rows, facts.keys.least, facts.keys.greatest)]
        assert told == [len(times), times.min(), times.max()]


def test_the_empty_run(tmp_path: Path) -> None:
    save_run(empty_run(), tmp_path / "a.run")
    run = open_run(str(tmp_path / "a.run"))
    assert run.size == 0 and rows_of_run(run).num_rows == 0
    assert same(merged_run([run, run], [None, None]), run)
