"""What a worker's memory grows by for many patterns: ``python -m xscl.bench.footprint SETTINGS``.

A process of its own, which loads the automaton as a worker does and then matches documents.  ``SETTINGS`` is a JSON
object of ``FootprintSettings``; what was measured goes to stdout as a JSON object of ``Footprint``.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass
from itertools import islice

import pyarrow as pa

from xscl.bench.apart import peak_memory, resident_memory
from xscl.bench.grammar import CHANNEL, block_spec, documents, patterns, random_grammar
from xscl.bench.matching import event_batches, run_stage1
from xscl.xpath.automaton import Automaton
from xscl.xpath.spec_files import load_automaton

__all__ = ["Footprint", "FootprintSettings", "footprint"]


@dataclass(frozen=True, slots=True)
class FootprintSettings:
    """Where the patterns are, and which documents they are matched with."""

    specs: str
    """A file as ``SpecFiles`` writes it."""
    documents: int
    batch_docs: int
    seed: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of resident memory that were added, seconds, and sizes of the automaton when warm."""

    load_s: float
    loaded_bytes: int
    """By loading the patterns and building the automaton; the patterns themselves are dropped."""
    warm_bytes: int
    """By matching the documents afterwards: what the automaton remembers, and what the allocators keep."""
    peak_bytes: int
    """The whole process, at its greatest."""
    states: int
    moves: int
    automaton_bytes: int
    """As the automaton itself counts."""


def footprint(settings: FootprintSettings) -> Footprint:
    """Load the automaton and warm it with the documents."""
    grammar = random_grammar(settings.seed)
    made = list(islice(documents(grammar, seed=settings.seed), settings.documents))
    batches = event_batches(CHANNEL, made, settings.batch_docs)
    # What is imported or allocated at the first call of anything is no part of the growth.
    run_stage1(Automaton(map(block_spec, islice(patterns(grammar, seed=settings.seed), 10))), batches[:1])
    before = _settled_memory()
    began = time.process_time()
    automaton = load_automaton(settings.specs)
    load_s = time.process_time() - began
    loaded = _settled_memory()
    run_stage1(automaton, batches)
    warm = _settled_memory()
    size = automaton.size()
    return Footprint(load_s, loaded - before, warm - loaded, peak_memory(), size.states, size.moves, size.bytes)


def _settled_memory() -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    return resident_memory()


def _main() -> None:
    settings = FootprintSettings(**json.loads(sys.argv[1]))
    sys.stdout.write(json.dumps(asdict(footprint(settings))))


if __name__ == "__main__":
    _main()
