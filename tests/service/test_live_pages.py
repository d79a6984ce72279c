"""Pages that live streams share, and lines of the access log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xscl.base.errors import CatalogError
from xscl.engine import Engine
from xscl.service.access_log import AccessLog
from xscl.service.live_pages import LivePages
from xscl.service.runtime import Service
from xscl.service.settings import ServiceSettings
from xscl.store.home import init_home

Lines = tuple[list[dict[str, Any]], str]


def reader(answers: list[Lines | CatalogError], asked: list[int]) -> Callable[[], Lines]:
    """Give one answer after another, and note how often it was asked."""

    def read() -> Lines:
        asked.append(len(asked))
        found = answers[min(len(asked), len(answers)) - 1]
        if isinstance(found, CatalogError):
            raise found
        return found

    return read


def test_streams_behind_one_cursor_read_once() -> None:
    asked: list[int] = []
    read = reader([([{"match": "m", "cursor": "c1"}], "c1"), ([], "c1")], asked)

    async def run() -> None:
        pages = LivePages()
        found = await asyncio.gather(*(pages.page(("q", "c0", 7), read) for _ in range(5)))
        assert len(asked) == 1
        assert {page.text for page in found} == {
            b'id: c1\nevent: match\ndata: {"match": "m", "cursor": "c1"}\n\n',
        }
        assert {(page.matches, page.cursor) for page in found} == {(1, "c1")}
        assert (await pages.page(("q", "c1", 7), read)).matches == 0
        assert len(asked) == 2
        for number in range(20):
            await pages.page(("q", "c1", 8 + number), read)
        assert (await pages.page(("q", "c0", 7), read)).matches == 0, "old pages are forgotten"

    asyncio.run(run())


def test_what_is_taken_back_is_named_so() -> None:
    read = reader([([{"retract": "m", "cursor": "c2"}], "c2")], [])
    page = asyncio.run(LivePages().page(("q",), read))
    assert page.text == b'id: c2\nevent: retract\ndata: {"retract": "m", "cursor": "c2"}\n\n'


def test_a_page_that_could_not_be_read_is_read_again() -> None:
    asked: list[int] = []
    read = reader([CatalogError("XSCL_CATALOG_BUSY", "later"), ([], "c")], asked)

    async def run() -> None:
        pages = LivePages()
        found = await asyncio.gather(*(pages.page(("q",), read) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [CatalogError] * 3
        assert (await pages.page(("q",), read)).cursor == "c"

    asyncio.run(run())
    assert len(asked) == 2


def test_a_log_that_nobody_reads_holds_up_nobody() -> None:
    is_read, written = threading.Event(), []

    def write(text: str) -> None:
        is_read.wait()
        written.append(text)

    log = AccessLog(write)
    for number in range(30_000):
        log.put(str(number))
    is_read.set()
    log.close()
    lines = "\n".join(written).split("\n")
    assert lines[:2] == ["0", "1"]
    kept = [line for line in lines if line.isdigit()]
    left_out = sum(int(line.split()[0]) for line in lines if not line.isdigit())
    assert len(kept) >= 10_000
    assert len(kept) + left_out == 30_000


def test_a_client_that_hangs_up_leaves_other_streams_their_news(tmp_path: Path) -> None:
    async def hang_up(service: Service) -> None:
        waiting = [asyncio.create_task(service.committed(service.commits, 60)) for _ in range(5)]
        await asyncio.sleep(0.01)
        telling = asyncio.create_task(service.end_streams())
        # The server cancels a request in every turn of the loop until it ends.
        for _ in range(100):
            for task in waiting:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait_for(telling, 0.5)
        assert all(task.done() and (task.cancelled() or task.exception() is None) for task in waiting)
        other = asyncio.create_task(service.committed(service.commits, 60))
        await asyncio.sleep(0.01)
        await asyncio.wait_for(service.end_streams(), 0.5)
        await asyncio.wait_for(other, 0.5)

    with Engine(init_home(tmp_path)) as engine:
        asyncio.run(hang_up(Service(engine, ServiceSettings())))
