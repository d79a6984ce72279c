"""The process that is measured while it loads queries: ``python -m xscl.bench.load SETTINGS``.

It is a process of its own, so that its greatest memory is that of the load and of nothing before it.  ``SETTINGS`` is a
JSON object of ``LoadSettings``; what was measured goes to stdout as a JSON object of ``Loaded``, progress to stderr.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from xscl.bench.apart import peak_memory
from xscl.bench.workload import SCHEMAS, Windows, thesis_queries
from xscl.errors import EngineError
from xscl.home import Home, init_home, open_home
from xscl.queries import QueryFilter, list_queries
from xscl.registry import Registry
from xscl.tables import GROUPS, TEMPLATES
from xscl.types import QueryOutcome

__all__ = ["LoadSettings", "Loaded", "load", "require_all"]

_PAGE = 100
_MARKS = 20


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Which queries, and how many."""

    queries: int
    seed: int
    workload: str
    """A name in ``workload.SCHEMAS``."""
    windows: str
    """As ``Windows.parse`` takes them."""
    one_more: int
    """How many are added one by one to all the others."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """(name, text) without end."""
        return thesis_queries(SCHEMAS[self.workload], seed=self.seed, windows=Windows.parse(self.windows))


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was measured; seconds without the making of the texts."""

    load_s: float
    cpu_s: float
    rss_bytes: int
    marks: tuple[tuple[int, float], ...]
    """(queries taken, seconds since the start) on the way."""
    one_more_s: tuple[float, ...]
    list_page_s: tuple[float, ...]
    filter_page_s: tuple[float, ...]
    templates: int
    groups: int
    catalog_bytes: int
    spark_imported: bool

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Loaded:
        """What another process measured, as it comes from JSON: lists for tuples."""
        marks = tuple((count, seconds) for count, seconds in found["marks"])
        lists = {name: tuple(found[name]) for name in ("one_more_s", "list_page_s", "filter_page_s")}
        return cls(**{**found, **lists, "marks": marks})


def load(settings: LoadSettings, say: Callable[[str], None]) -> Loaded:
    """Load the queries into a fresh home and look at what came of it."""
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        home = init_home(Path(folder) / "home")
        registry = Registry(home.catalog)
        source = settings.texts()
        # Made beforehand: what is measured is registration, not the generator.
        made = list(islice(source, settings.queries))
        texts = _Watched(iter(made), settings.queries, say)
        cpu = time.process_time()
        outcomes = registry.register_many(texts)
        cpu = time.process_time() - cpu
        load_s = texts.since_start()
        rss = peak_memory()
        require_all(outcomes)
        # Opened again, so that a query is added as by somebody who comes later: nothing is known of the others.
        home.catalog.close()
        home = open_home(home.root)
        registry = Registry(home.catalog)
        one_more = []
        for name, text in islice(source, settings.one_more):
            began = time.perf_counter()
            registry.register(text, name=name)
            one_more.append(time.perf_counter() - began)
        loaded = Loaded(
            load_s=load_s,
            cpu_s=cpu - texts.making_s,
            rss_bytes=rss,
            marks=(*texts.marks, (settings.queries, load_s)),
            one_more_s=tuple(one_more),
            list_page_s=tuple(_page(home, after=f"q{settings.queries // 2}") for _ in range(5)),
            filter_page_s=tuple(_page(home, like="q*7", channel=SCHEMAS[settings.workload].channel) for _ in range(5)),
            templates=_count(home, TEMPLATES),
            groups=_count(home, GROUPS),
            catalog_bytes=sum(path.stat().st_size for path in home.root.glob("catalog.db*")),
            spark_imported="pyspark" in sys.modules,
        )
        home.catalog.close()
    return loaded


def require_all(outcomes: list[QueryOutcome]) -> None:
    """See that no query was refused.

    Raises:
        EngineError: one was, and a rate of refusals would say nothing.
    """
    for outcome in outcomes:
        if outcome.error is not None:
            raise EngineError("XSCL_BENCH", f"query {outcome.name} of the workload was refused: {outcome.error}")


class _Watched:
    """Hands texts out and keeps the time that making them takes apart from the rest."""

    def __init__(self, texts: Iterator[tuple[str, str]], expected: int, say: Callable[[str], None]) -> None:
        self.texts = texts
        self.expected = expected
        self.say = say
        self.making_s = 0.0
        self.marks: list[tuple[int, float]] = []
        self.began = time.perf_counter()

    def since_start(self) -> float:
        return time.perf_counter() - self.began - self.making_s

    def __iter__(self) -> Iterator[tuple[str, str]]:
        step = max(1, self.expected // _MARKS)
        for taken in range(1, self.expected + 1):
            began = time.perf_counter()
            text = next(self.texts)
            self.making_s += time.perf_counter() - began
            yield text
            if taken % step == 0 and taken < self.expected:
                self.marks.append((taken, self.since_start()))
                self.say(f"{taken:,} of {self.expected:,} queries in {self.marks[-1][1]:.1f} s")


def _page(home: Home, *, after: str | None = None, like: str | None = None, channel: str | None = None) -> float:
    began = time.perf_counter()
    page = list(list_queries(home.catalog, QueryFilter(after=after, like=like, channel=channel, limit=_PAGE)))
    assert page
    return time.perf_counter() - began


def _count(home: Home, table: sa.Table) -> int:
    with home.catalog.read() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def _main() -> None:
    settings = LoadSettings(**json.loads(sys.argv[1]))
    loaded = load(settings, lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201
    sys.stdout.write(json.dumps(asdict(loaded)))


if __name__ == "__main__":
    _main()
