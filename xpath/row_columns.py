"""The cells of many rows as columns: each column's distinct texts, and which of them each row has.

Whatever is computed of a text is computed once for each distinct one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.xpath.runs import Int64s

__all__ = ["RowColumns"]


class RowColumns:
    """Columns of some rows, from 1; column 0 is the text of the whole row."""

    def __init__(self, cells: pa.ListArray, width: int) -> None:
        """``cells`` has the texts of ``width`` columns for each row; of columns that came later perhaps not yet."""
        self.count = len(cells)
        self.width = width
        self._cells = cells
        self._columns: dict[int, tuple[pa.StringArray, npt.NDArray[np.int64]]] = {}
        self._missing: npt.NDArray[np.int32] | None = None
        lengths = cells.value_lengths()
        whole = self.count > 0 and pc.min_max(lengths).equals(
            pa.scalar({"min": width, "max": width}, pc.min_max(lengths).type)
        )
        self._flat = cells.flatten() if whole else None

    @property
    def gaps(self) -> bool:
        """Whether a cell is NULL."""
        return self._flat is None or self._flat.null_count > 0

    def size(self, column: int) -> int:
        """Count the distinct texts of a column."""
        return len(self._column(column)[0])

    def texts(self, column: int) -> pa.StringArray:
        """Return the distinct texts of a column."""
        return self._column(column)[0]

    def codes(self, column: int) -> npt.NDArray[np.int64]:
        """Return the number of each row's text, and the number behind the last one for rows without a text."""
        return self._column(column)[1]

    def pairs(self, column: int) -> None:
        """Return the rows and texts of a column of several texts; a cell is one."""

    def told(self, column: int) -> tuple[Int64s, Int64s]:
        """Return what a column tells of its texts by itself: nothing."""
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing

    def whole(self) -> npt.NDArray[np.bool_]:
        """Tell which rows have no NULL."""
        return self.missing()[:, -1] == 0 if self.gaps else np.ones(self.count, dtype=np.bool_)

    def having(self, columns: Iterable[int]) -> Int64s:
        """Return the rows in which none of some columns is NULL."""
        if not self.gaps:
            return np.arange(self.count)
        found = np.ones(self.count, dtype=np.bool_)
        for column in columns:
            found &= self._raw(column).is_valid().to_numpy(zero_copy_only=False)
        return np.flatnonzero(found)

    def missing(self) -> npt.NDArray[np.int32]:
        """Return a table by row and column: how many of the columns up to this one are NULL."""
        if self._missing is None:
            null = np.zeros((self.count, self.width + 1), dtype=np.int32)
            for column in range(1, self.width + 1):
                null[:, column] = self._raw(column).is_null().to_numpy(zero_copy_only=False)
            self._missing = np.cumsum(null, axis=1, dtype=np.int32)
        return self._missing

    def _column(self, column: int) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
        if column not in self._columns:
            encoded = self._raw(column).dictionary_encode()
            texts = encoded.dictionary
            codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
            self._columns[column] = texts, codes
        return self._columns[column]

    def _raw(self, column: int) -> pa.StringArray:
        if column == 0:
            parts = [self._raw(number) for number in range(1, self.width + 1)]
            return pc.binary_join_element_wise(*(part.fill_null("") for part in parts), "")
        if self._flat is not None:
            return self._flat.take(pa.array(np.arange(column - 1, self.count * self.width, self.width)))
        starts = self._cells.offsets.to_numpy()[:-1] - self._cells.offsets[0].as_py()
        short = self._cells.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) < column
        at = pa.array(np.where(short, 0, starts + column - 1), mask=short)
        return self._cells.flatten().take(at)
