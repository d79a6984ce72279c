"""Row templates: what is the same for all nodes of one kind, in arrays that are copied for each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ChainEntry", "RowTemplate", "alone", "along_way", "template_columns"]

ChainEntry = tuple[int, int, int, int]
"""(var1, var2, node1, node2): a row of R_bin."""


@dataclass(frozen=True, slots=True, eq=False)
class RowTemplate:
    """The witness rows that every node of one kind gives: of one path, or of one state with conditions.

    Arrays of equal length for rows, and for chain entries.
    """

    variables: npt.NDArray[np.int64]
    functions: npt.NDArray[np.int32]
    """Place in ``asked``; -1 for a row without a value."""
    asked: tuple[str, ...]
    entries: npt.NDArray[np.int32]
    """Chain entries of each row."""
    keys: npt.NDArray[np.int64]
    """Two columns: var1 and var2 of the chain entries, row by row."""
    places: npt.NDArray[np.int32]
    """Two columns: the places on the way that stand for node1 and node2; the node itself has the last one, ``way``."""
    way: int
    """Number of open nodes that the chains may speak of: 0 if they speak of the node itself only."""
    rows: int
    chain: int
    """Chain entries of all rows."""
    pairs: int
    """Bindings of edges: chain entries, without those that further rows of a node repeat."""

    @property
    def bare(self) -> bool:
        """Whether a node gives one row, without a value or a chain."""
        return self.rows == 1 and not self.chain and not self.asked


def alone(leaves: Sequence[tuple[int, Collection[str | None], bool]]) -> RowTemplate:
    """Return the template of (variable, functions, whether it has a chain); its chains speak of the node only."""
    rows = [(variable, function, entry) for variable, functions, entry in leaves for function in functions]
    entries = np.array([entry for _, _, entry in rows], dtype=np.int32)
    variables = np.array([variable for variable, _, _ in rows], dtype=np.int64)
    keys = np.repeat(variables[entries > 0], 2).reshape(-1, 2)
    asked, functions = _functions([function for _, function, _ in rows])
    return RowTemplate(
        variables=variables,
        functions=functions,
        asked=asked,
        entries=entries,
        keys=keys,
        places=np.zeros(keys.shape, dtype=np.int32),
        way=0,
        rows=len(rows),
        chain=len(keys),
        pairs=sum(entry for _, _, entry in leaves),
    )


def along_way(leaves: Sequence[tuple[int, Collection[str | None], list[ChainEntry]]], way: int) -> RowTemplate:
    """Return the template of (variable, functions, chain by places) for nodes with so many open nodes on their way."""
    rows = [(variable, function, chain) for variable, functions, chain in leaves for function in functions]
    flat = np.array([entry for _, _, chain in rows for entry in chain], dtype=np.int64).reshape(-1, 4)
    asked, functions = _functions([function for _, function, _ in rows])
    return RowTemplate(
        variables=np.array([variable for variable, _, _ in rows], dtype=np.int64),
        functions=functions,
        asked=asked,
        entries=np.array([len(chain) for _, _, chain in rows], dtype=np.int32),
        keys=flat[:, :2].copy(),
        places=flat[:, 2:].astype(np.int32),
        way=way,
        rows=len(rows),
        chain=len(flat),
        pairs=sum(len(chain) for _, _, chain in leaves),
    )


def template_columns(templates: Sequence[RowTemplate]) -> npt.NDArray[np.int64]:
    """Return rows, chain entries, pairs, open nodes and functions of templates, each in a row."""
    columns = [(each.rows, each.chain, each.pairs, each.way, len(each.asked)) for each in templates]
    return np.array(columns, dtype=np.int64).reshape(-1, 5).T


def _functions(names: Sequence[str | None]) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    asked = tuple(sorted({name for name in names if name is not None}))
    number: dict[str | None, int] = {None: -1, **{name: place for place, name in enumerate(asked)}}
    return asked, np.array([number[name] for name in names], dtype=np.int32)
