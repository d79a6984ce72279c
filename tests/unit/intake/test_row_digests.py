"""Digests of many rows are those of each row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.ingest.rows import COLUMN_TYPES, cells_digest
from xscl.intake import row_digests as module
from xscl.intake.row_digests import row_digests

_CELLS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.integers(0, 99).map(str)


@given(st.data())
@settings(deadline=None)
def test_digests_are_those_of_each_row(data: st.DataObject) -> None:
    kinds = st.none() | st.sampled_from(COLUMN_TYPES)
    schema = data.draw(st.dictionaries(st.sampled_from(["b", "a", "é", "B"]), kinds, min_size=1))
    rows = data.draw(st.lists(st.lists(_CELLS, min_size=len(schema), max_size=len(schema)), max_size=7))
    cells = [pa.array([row[place] for row in rows], pa.string()) for place in range(len(schema))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PART", 3)
        assert row_digests(schema, cells, len(rows)) == [cells_digest(schema, row) for row in rows]
