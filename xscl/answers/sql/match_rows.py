"""Rows of ``Engine.matches_df``: Spark's tasks build them from the members' documents.  Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from xscl.base.safe_xml import in_fresh_dictionary
from xscl.batches.match_documents import Shown, Wanted, match_outputs, shown_of
from xscl.catalog.queries import query_info
from xscl.language.facts import ChannelFacts
from xscl.store.results import StoredMatch

__all__ = ["MATCH_ROWS_AT_ONCE", "MATCH_ROW_SCHEMA", "match_rows"]

MATCH_ROWS_AT_ONCE = 500
"""Matches whose documents one task holds together."""
_TEXTS = pa.map_(pa.string(), pa.string())
_ROW = pa.schema(
    [
        ("match", pa.string()),
        ("query", pa.string()),
        ("ts_min", pa.int64()),
        ("ts_max", pa.int64()),
        ("channels", pa.list_(pa.string())),
        ("ids", pa.list_(pa.string())),
        ("times", pa.list_(pa.int64())),
        ("nodes", _TEXTS),
        ("values", _TEXTS),
        ("document", pa.string()),
        ("replaces", pa.string()),
    ]
)
MATCH_ROW_SCHEMA = (
    "match string, query string, ts_min bigint, ts_max bigint, channels array<string>, ids array<string>, "
    "times array<bigint>, nodes map<string, string>, values map<string, string>, document string, replaces string"
)
"""Columns of the rows; times are microseconds since the epoch."""


def match_rows(batches: Iterator[pa.RecordBatch], facts: Mapping[str, ChannelFacts]) -> Iterator[pa.RecordBatch]:
    """Turn matches with their members' documents (``match_steps.output_steps``) into rows of ``MATCH_ROW_SCHEMA``.

    Args:
        batches: the matches.
        facts: of all channels and streams, by name.
    """
    shown: dict[int, Shown] = {}
    for batch in batches:
        rows = batch.to_pylist()
        wanted: list[Wanted] = []
        documents: dict[int, str] = {}
        for row in rows:
            query = query_info(row["subscriber"])
            if query.query not in shown:
                shown[query.query] = shown_of(query, facts)
            docids = tuple(member["docid"] for member in row["members"])
            stored = StoredMatch(docids, tuple(row["nodes"]), tuple(row["witness"]), frozenset(), None, 0, row["batch"])
            wanted.append(Wanted(query, shown[query.query], stored))
            documents |= {member["docid"]: member["content"] for member in row["members"]}
        outputs = in_fresh_dictionary(match_outputs, wanted, documents)
        made = []
        for row, output in zip(rows, outputs, strict=True):
            members = row["members"]
            made.append(
                {
                    "match": row["match"],
                    "query": row["subscriber"]["qid"],
                    "ts_min": row["ts_min"],
                    "ts_max": row["ts_max"],
                    "channels": [member["channel"] for member in members],
                    "ids": [member["id"] for member in members],
                    "times": [member["ts"] for member in members],
                    "nodes": [(name, str(node)) for name, node in output.nodes.items()],
                    "values": list(output.values.items()),
                    "document": output.document,
                    "replaces": row["replaces"],
                }
            )
        yield pa.RecordBatch.from_pylist(made, schema=_ROW)
