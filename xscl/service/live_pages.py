"""Pages of matches for live streams: streams that wait behind the same cursor share one reading of what comes."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

__all__ = ["LivePage", "LivePages"]

Lines = tuple[list[dict[str, Any]], str]
"""Matches, each with the cursor behind it, and the cursor behind all of them."""
_KEPT = 16
"""Pages that are kept; a stream that is farther behind than others has its pages for itself."""


@dataclass(frozen=True, slots=True)
class LivePage:
    """Matches as Server-Sent Events."""

    text: bytes
    matches: int
    cursor: str
    """Cursor behind them."""


class LivePages:
    """Pages that were read last, for streams of one event loop."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[object, ...], asyncio.Task[LivePage]] = OrderedDict()

    async def page(self, key: tuple[object, ...], read: Callable[[], Lines]) -> LivePage:
        """Return the page of a key, which names all that ``read`` depends on; streams with one key have it read once.

        Raises:
            XsclError: the reading failed; the next call reads again.
        """
        task = self._pages.get(key)
        if task is None:
            task = self._pages[key] = asyncio.create_task(_read(read))
            # All streams may have ended by the time it fails.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            if len(self._pages) > _KEPT:
                self._pages.popitem(last=False)
        try:
            # A stream that ends meanwhile does not take the page away from the others.
            return await asyncio.shield(task)
        except Exception:
            if self._pages.get(key) is task:
                del self._pages[key]
            raise


async def _read(read: Callable[[], Lines]) -> LivePage:
    return await run_in_threadpool(_page, read)


def _page(read: Callable[[], Lines]) -> LivePage:
    lines, cursor = read()
    return LivePage("".join(map(_event, lines)).encode(), len(lines), cursor)


def _event(line: dict[str, Any]) -> str:
    kind = "retract" if "retract" in line else "match"
    return f"id: {line['cursor']}\nevent: {kind}\ndata: {json.dumps(line, ensure_ascii=False)}\n\n"
