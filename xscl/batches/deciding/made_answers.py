"""Answers that are documents of their own, of windows and of steps: the documents, and a match of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from xscl.batches.publishing.documents import Made
from xscl.batches.publishing.publisher import Publisher
from xscl.store.parquet import data_files
from xscl.store.results import NO_DOC, stored_matches
from xscl.templates.results import Admitted, ClassRow, ResultColumns

__all__ = ["MEMBER_COLUMNS", "always_admitted", "member_names", "shown_name", "write_made"]

MEMBER_COLUMNS = ["docid", "channel", "id", "received"]
"""Columns of events that answers say of their members."""


def member_names(events: pa.Table) -> dict[int, tuple[str, int]]:
    """Return channel and id of events, as ids of answers have them, and when each came, by its number."""
    rows = zip(*(events.column(name).to_pylist() for name in MEMBER_COLUMNS), strict=True)
    return {docid: (f"{channel}\0{id_}", received) for docid, channel, id_, received in rows}


def shown_name(name: str) -> str:
    r"""Return what tells an answer from others as refusals show it: its members, or the end of its window.

    >>> shown_name("orders\0o1\0payments\0p1")
    'orders:o1, payments:p1'
    """
    parts = name.split("\0")
    return ", ".join(map(":".join, zip(parts[::2], parts[1::2], strict=False))) or name


def write_made(
    publisher: Publisher,
    out: ResultColumns,
    found: Sequence[tuple[Made, tuple[int, ...]]],
    known: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Counter[str], dict[str, int]]:
    """Write documents and their matches; return the rows of the results, and numbers of documents by their ids.

    Args:
        publisher: takes the documents.
        out: takes the matches.
        found: each document, with the groups that have it, and numbers of single queries below 0.
        known: numbers of those that are there already, by their ids.
    """
    ordered = sorted(found, key=lambda each: (each[0].place, each[0].ts, each[0].id))
    fresh = [made for made, _ in ordered if made.id not in known]
    number_of = {**known, **dict(zip((made.id for made in fresh), publisher.make(fresh), strict=True))}
    numbers = [number_of[made.id] for made, _ in ordered]
    classes: dict[tuple[int, ...], int] = {}
    for _, groups in found:
        if groups not in classes:
            classes[groups] = out.add_class([ClassRow("match", 0, (0,), (), always_admitted(groups))])
    which = np.array([classes[groups] for _, groups in ordered], dtype=np.int32)
    out.add_pairs(np.array(numbers, dtype=np.int64), np.full(len(numbers), NO_DOC), which)
    folder = out.write()
    assert folder is not None
    publisher.found(stored_matches(data_files(folder), publisher.groups))
    return out.counts, number_of


def always_admitted(groups: tuple[int, ...]) -> Admitted:
    """Return groups that have a match whatever its windows say."""
    return Admitted(groups, (1,) * len(groups))
