"""Files of runs that strangers made: whatever is changed in them is told, and leads nowhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from budget import examples

import xscl.templates.run_checks
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.templates.many_blocks.runs import LINK_SCHEMA, LinkRun, merged_links
from xscl.templates.run_checks import wrong_links, wrong_run
from xscl.templates.runs.files import save_run
from xscl.templates.runs.making import empty_run, run_of
from xscl.templates.runs.mapped_columns import open_columns, save_columns
from xscl.templates.runs.merging import merged_run

Check = Callable[[Path], str | None]


def witness_rows(seed: int, first: int) -> pa.Table:
    dice, rows = Random(seed), []
    for docid in range(first, first + 12):
        for _ in range(dice.randint(1, 5)):
            text, var, node = dice.choice(["1", "2", None, "x"]), dice.choice([-3, 7]), dice.randint(0, 3)
            rows.append(
                {"docid": docid, "ts": docid % 5, "item": docid, "place": f"S\0{docid}", "late": False, "membership": 0,
                 "var": var, "node": node, "fn": dice.choice(["", None]), "strval": text,
                 "num": float(text) if text in ("1", "2") else None, "h": 0 if text is None else 4,
                 "chain": [{"var1": var, "var2": 2, "node1": node, "node2": dice.randint(4, 5)}]}
            )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA)


def link_rows(first: int) -> pa.Table:
    members = [
        {"docid": docid, "item": docid, "ts": docid % 3, "place": f"S\0{docid}", "membership": 0}
        for docid in range(first, first + 9)
    ]
    rows = [
        {"link": number % 2, "ts1": left["ts"], "ts2": right["ts"], "members": [left, right],
         "nodes": [number] * (number % 2)}
        for number, (left, right) in enumerate(zip(members, members[1:], strict=False))
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=LINK_SCHEMA)


def sound_files(folder: Path) -> list[tuple[Path, Check]]:
    runs = [run_of(witness_rows(seed, seed * 100)) for seed in range(3)]
    links = [LinkRun.of(link_rows(first)) for first in (0, 100)]
    made = [*runs, merged_run(runs, [None, runs[1].ts > 2, None]), empty_run()]
    every = [*links, merged_links(links, [None, np.arange(len(links[1])) > 3]), LinkRun.of(LINK_SCHEMA.empty_table())]
    for number, run in enumerate(made):
        save_run(run, folder / f"{number}.run")
    for number, link in enumerate(every):
        link.save(folder / f"{number}-links.run")
    return [(path, wrong_links if "links" in path.name else wrong_run) for path in sorted(folder.iterdir())]


def changes(columns: Mapping[str, pa.Array], facts: dict[str, Any], dice: Random) -> tuple[dict[str, pa.Array], Any]:
    """Change one thing of a file: a value, a length, a type, or what it says of itself."""
    name = dice.choice(list(columns))
    column = columns[name]
    match dice.randrange(6):
        case 0 if len(column):
            other = column.slice(0, len(column) - 1)
        case 1:
            other = pa.concat_arrays([column, pa.nulls(1, column.type)])
        case 2:
            other = pa.nulls(len(column), pa.float32()).fill_null(0)
        case 3:
            return {each: columns[each] for each in columns if each != name}, facts
        case 4 if "keys" in facts:
            wrong = dice.choice([None, 7, [], [[]], [["x", 1]], [[1 << 70, None]], {"a": 1}])
            return dict(columns), facts | {dice.choice(list(facts)): wrong}
        case _ if len(column) and pa.types.is_integer(column.type):
            values = column.to_numpy().copy()
            limits = np.iinfo(values.dtype)
            at = dice.randrange(len(values))
            told = dice.choice([limits.min, limits.max, -1, int(values[at]) ^ 1, 1 << 30])
            values[at] = told if told != values[at] else 5
            other = pa.array(values)
        case _ if len(column):
            other = column.take(pa.array([*range(1, len(column)), 0]))
            other = other if not other.equals(column) else column.slice(1)
        case _:
            other = pa.nulls(3, column.type)
    return {**columns, name: other}, facts


STRUCTURE = {
    *("slice_starts", "ts", "doc", "shape", "by_document", "document_codes", "shape_starts"),
    *("starts", "widths", "node_starts", "lefts", "left_starts", "by_right", "rights", "right_starts", "by_hash"),
}
"""Columns of which no other value is right; one of the others may mean another file that is as sound."""


def test_what_this_program_writes_is_sound(tmp_path: Path) -> None:
    for path, check in sound_files(tmp_path):
        assert check(path) is None, path


def row(docid: int, var: int, chain: list[dict[str, int]]) -> dict[str, object]:
    """A witness row at the first node of a document, with the value 4."""
    document = {"docid": docid, "ts": docid, "item": docid, "place": f"S\0{docid}", "late": False, "membership": 0}
    return {**document, "var": var, "node": 1, "fn": "", "strval": "4", "num": 4.0, "h": 9, "chain": chain}


def test_variables_without_chains_share_a_shape(tmp_path: Path) -> None:
    """Numbers that guards compare have no chains, so those of several variables may stand alike in their documents."""
    chain = [{"var1": 7, "var2": 2, "node1": 1, "node2": 4}]
    rows = [row(1, -3, []), row(2, 7, []), row(2, 8, []), row(3, 7, chain)]
    runs = [run_of(pa.Table.from_pylist(some, schema=WITNESS_SCHEMA)) for some in (rows, [{**rows[0], "docid": 9}])]
    for number, run in enumerate([*runs, merged_run(runs, [None, None])]):
        save_run(run, tmp_path / f"{number}.run")
        assert wrong_run(tmp_path / f"{number}.run") is None
    columns, told = open_columns(tmp_path / "0.run")
    chained = columns["shape_variables"].to_pylist().index(7)
    assert len(columns["shape_variables"]) == 2
    others = [-3 if at == chained else var for at, var in enumerate(columns["shape_variables"].to_pylist())]
    save_columns(tmp_path / "other", {**columns, "shape_variables": pa.array(others)}, told)
    assert wrong_run(tmp_path / "other") == "its rows are not in their order"


@pytest.mark.parametrize("seed", range(examples(3)))
def test_what_strangers_change_is_told(seed: int, tmp_path: Path) -> None:
    dice, told = Random(seed), 0
    for path, check in sound_files(tmp_path):
        columns, facts = open_columns(path)
        for _ in range(60):
            changed, other = changes(columns, facts, dice)
            save_columns(tmp_path / "other", changed, other)
            why_not = check(tmp_path / "other")
            told += why_not is not None
            differs = {name for name in columns if name not in changed or not changed[name].equals(columns[name])}
            assert why_not or not differs & STRUCTURE, (path.name, differs)
    assert told > 400


def test_bytes_that_strangers_change_end_no_process(tmp_path: Path) -> None:
    dice = Random(1)
    for path, check in sound_files(tmp_path):
        whole = path.read_bytes()
        for _ in range(examples(60)):
            content = bytearray(whole)
            for _ in range(dice.randint(1, 3)):
                content[dice.randrange(len(content))] = dice.choice([0, 1, 127, 128, 255])
            (tmp_path / "other").write_bytes(content)
            check(tmp_path / "other")
        (tmp_path / "other").write_bytes(whole[: dice.randrange(len(whole))])
        assert check(tmp_path / "other") is not None
    (tmp_path / "other").write_bytes(b"")
    assert wrong_run(tmp_path / "other") is not None


def test_columns_that_unpack_hugely_are_refused_before_they_are_read(tmp_path: Path) -> None:
    column = pa.LargeListArray.from_arrays(pa.array([0, 4 << 20], pa.int64()), pa.array(np.zeros(4 << 20, np.int64)))
    batch = pa.record_batch({"docs": column})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    path = str(tmp_path / "bomb.run")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    assert (tmp_path / "bomb.run").stat().st_size < 100_000
    assert wrong_run(tmp_path / "bomb.run") == "its columns are compressed"


def test_places_have_a_channel_and_an_id(tmp_path: Path) -> None:
    table = witness_rows(0, 0)
    at = table.schema.get_field_index("place")
    save_run(run_of(table.set_column(at, "place", pa.array(["S"] * len(table)))), tmp_path / "a.run")
    assert wrong_run(tmp_path / "a.run") == "its rows lead out of it"


def test_many_rows_of_one_shape_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file says a shape once, and each of its rows may have all of its nodes."""
    rows = [
        {"docid": docid, "ts": 0, "item": docid, "place": f"S\0{docid}", "late": False, "membership": 0, "var": 1,
         "node": node, "fn": "", "strval": "v", "num": None, "h": 1, "chain": []}
        for docid in range(100) for node in range(100)
    ]  # fmt: skip
    run = run_of(pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA))
    save_run(run, tmp_path / "a.run")
    assert (run.size, len(run.shapes.nodes)) == (100, 100) and wrong_run(tmp_path / "a.run") is None
    monkeypatch.setattr(xscl.templates.run_checks, "_ROWS", 0.5)
    assert "10,000 rows" in (wrong_run(tmp_path / "a.run") or "")
