"""Columns in mapped files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from xscl.templates.runs.mapped_columns import open_columns, save_columns

COLUMNS = {
    "numbers": np.arange(100_000, dtype=np.int64),
    "texts": pa.array(["a", None, "", "längere"], pa.large_string()),
    "none": np.empty(0, np.int32),
    "coded": pa.array(["x", "y", "x"]).dictionary_encode(),
    "part": pa.array([1, 2, 3, 4], pa.uint64()).slice(1, 2),
    "nested": pa.array([[{"a": 1}], None, []], pa.list_(pa.struct([("a", pa.int32())]))),
}


def test_arrays_of_any_length_come_back(tmp_path: Path) -> None:
    path = tmp_path / "some.arrow"
    save_columns(path, COLUMNS, {"rows": 3, "of": {"1": [-5, 1 << 62]}})
    found, facts = open_columns(path)
    assert facts == {"rows": 3, "of": {"1": [-5, 1 << 62]}}
    assert list(found) == list(COLUMNS)
    for name, column in COLUMNS.items():
        assert found[name].equals(column if isinstance(column, pa.Array) else pa.array(column)), name


def test_values_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "some.arrow"
    save_columns(path, COLUMNS, {})
    before = pa.total_allocated_bytes()
    found, _ = open_columns(path)
    numbers = found["numbers"].to_numpy(zero_copy_only=True)
    assert pa.total_allocated_bytes() - before < 10_000
    assert not numbers.flags.writeable
    path.unlink()
    assert int(numbers.sum()) == sum(range(100_000)), "a file that is removed stays for those who opened it"


def test_a_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.arrow"
    save_columns(path, COLUMNS, {})
    whole = path.read_bytes()
    for length in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises((pa.ArrowInvalid, OSError)):
            open_columns(path)
