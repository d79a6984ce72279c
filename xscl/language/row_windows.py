"""Row windows of a query: ``LAST 2 OF x`` asks that x is among the two newest events of its channel.

The newest ones are those at the place of the last member of a match, counted in the intake order before all conditions
(STREAM's windows of rows, and those of CACQ's SteMs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xscl.base.errors import UnsupportedFeatureError
from xscl.language.syntax import ast
from xscl.language.windows import bound_block, placed_joins

__all__ = ["refuse_rows", "refuse_stream_rows", "row_windows", "rows_of"]


def row_windows(source: ast.Source) -> Iterator[ast.Window]:
    """Yield the row windows of a FROM clause."""
    for placed in placed_joins(source):
        for window in placed.join.windows:
            if isinstance(window, ast.Window) and window.kind == "rows":
                yield window


def rows_of(source: ast.Source, text: str, block_of: Mapping[str, int], blocks: int) -> tuple[int, ...]:
    """Return how many newest events the event of each block is among, 0 for any; empty where all blocks have any.

    Raises:
        QueryError: a variable is not bound in a block that is joined so far, or ONCE chooses among orders, too.
    """
    found = [0] * blocks
    for placed in placed_joins(source):
        for window in placed.join.windows:
            if isinstance(window, ast.Window) and window.kind == "rows":
                assert window.of is not None and window.high is not None
                block = bound_block(window.of, window.of_span, text, block_of, placed.blocks)
                found[block] = min(window.high, found[block] or window.high)
    if not any(found):
        return ()
    for placed in placed_joins(source):
        for window in placed.join.windows:
            if isinstance(window, ast.Window) and window.kind == "once":
                raise UnsupportedFeatureError(
                    "XSCL_ROW_WINDOW",
                    "ONCE and LAST do not stand in one query: what is among the newest differs with the order",
                    text=text,
                    span=window.span,
                    hint="order the blocks with FOLLOWED BY, which needs no ONCE",
                )
    return tuple(found)


def refuse_stream_rows(rows: Sequence[int], streams: Sequence[int], names: Sequence[str]) -> None:
    """Refuse row windows of blocks that name a stream: a stream may get an event later that its channel has.

    Raises:
        UnsupportedFeatureError: ``XSCL_ROW_WINDOW``.
    """
    for count, stream, name in zip(rows, streams, names, strict=False):
        if count and stream:
            raise UnsupportedFeatureError(
                "XSCL_ROW_WINDOW",
                f"LAST {count} OF counts the events of a channel, and {name} is a stream of one",
                hint="name the channel, with a condition that tells the stream's events",
            )


def refuse_rows(query: ast.Query, text: str, kind: str) -> None:
    """Refuse row windows in a query of some kind.

    Raises:
        UnsupportedFeatureError: ``XSCL_ROW_WINDOW``.
    """
    for window in row_windows(query.source):
        raise UnsupportedFeatureError(
            "XSCL_ROW_WINDOW",
            f"{kind} has no row windows",
            text=text,
            span=window.span,
            hint="write a time window, or have a query with the row window PUBLISH, and read that channel",
        )
