"""One question to the oracle or to the engine's twin, so that a test's expectations are checked on both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import NO_COLUMNS, Answer, Columns, Doc, answers
from strategies import NAMESPACES

from xscl.language.facts import ChannelFacts
from xscl.language.syntax import parser

parse_query = lru_cache(maxsize=500)(parser.parse_query)


def channel_facts(numeric: Columns, texts: Columns, times: Columns = NO_COLUMNS) -> dict[str, ChannelFacts]:
    """What registration knows of channels of rows with these columns."""
    none: frozenset[str] = frozenset()
    return {
        channel: ChannelFacts("rows", numeric.get(channel, none), texts.get(channel, none), times.get(channel, none))
        for channel in {*numeric, *texts, *times}
    }


@dataclass(frozen=True)
class Oracle:
    """Answers by trying everything."""

    numeric: Columns = field(default_factory=dict)
    texts: Columns = field(default_factory=dict)

    def ask(self, queries: Mapping[str, str], batches: Sequence[Sequence[Doc]]) -> list[dict[str, set[Answer]]]:
        """All answers of each query after each batch."""
        found = []
        for count in range(1, len(batches) + 1):
            docs = [doc for batch in batches[:count] for doc in batch]
            found.append(
                {
                    name: answers(
                        parse_query(text), docs, numeric=self.numeric, texts=self.texts, namespaces=NAMESPACES
                    )
                    for name, text in queries.items()
                }
            )
        return found


@dataclass(frozen=True)
class Engine:
    """Answers by the engine's kernels, all queries at once."""

    folder: Path
    numeric: Columns = field(default_factory=dict)
    texts: Columns = field(default_factory=dict)
    seed: int = 0
    driver: Mapping[str, int] | None = None
    """Sizes of the driver's engine, if it is to answer."""

    def ask(self, queries: Mapping[str, str], batches: Sequence[Sequence[Doc]]) -> list[dict[str, set[Answer]]]:
        """All answers of each query after each batch."""
        facts = channel_facts(self.numeric, self.texts)
        program = {name: compiled(text, facts) for name, text in queries.items()}
        engine = UnitsEngine(self.folder, program, seed=self.seed)
        if self.driver is not None:
            engine = LocalEngine(self.folder, program, **self.driver)
        found = []
        for batch in batches:
            engine.run(batch)
            found.append({name: engine.answers(name) for name in queries})
        return found


Side = Oracle | Engine


def side(name: str, folder: Path, numeric: Columns = NO_COLUMNS, texts: Columns = NO_COLUMNS) -> Side:
    """``oracle``, ``engine`` (each pair of runs by itself) or ``driver``, for rows with these columns."""
    if name == "oracle":
        return Oracle(numeric, texts)
    return Engine(folder, numeric, texts, driver={} if name == "driver" else None)


def ids(found: Iterable[Answer]) -> set[tuple[str, ...]]:
    """The documents' ids of each match."""
    return {tuple(name for _, name in docs) for docs, _ in found}
