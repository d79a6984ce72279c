"""Ten thousand patterns over news wires: what matching costs a document, and whether lxml selects the same nodes.

    python tests/bench/wires.py [--patterns 10000] [--documents 2000] [--compared 50]

Documents are Reuters' wires of 1987.  *People's* patterns ask for topics, places, lengths and words of a wire, with
``and``, ``or`` and ``not``.  They meet the documents in batches of 500, in one process.  *Walks* are ways to random
nodes with names loosened and random conditions.  The script ends with 1 if lxml selects other nodes on the compared
documents, for patterns of either kind.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from lxml import etree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from patterns import Patterns, vocabulary, walk
from strategies import Dice
from xpath_oracle import Numbered

from xscl.base.safe_xml import parse_xml, serialize
from xscl.bench.grammar import block_spec
from xscl.bench.matching import event_batches, parse_all, run_stage1, selected
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.pattern import Definition
from xscl.xpath.spec_files import SpecChange, apply_change

CHANNEL = "S"
BATCH = 500
_SAMPLE = 200
"""Wires whose values and names patterns have."""
_TOGETHER = 500
"""Walks of one automaton; nearly each of them has columns of its own."""
ENTITY = re.compile(rb"&(?!amp;|lt;|gt;|quot;|apos;|#)\w+;")


def wires(folder: Path, count: int) -> list[etree._Element]:
    """Read the first wires, each as a document of its own; entities of their DTD are left out."""
    found: list[etree._Element] = []
    for path in sorted(folder.glob("*.xml.gz")):
        elements = parse_xml(ENTITY.sub(b"", gzip.decompress(path.read_bytes()))).iter("REUTERS")
        found += [
            parse_xml(etree.tostring(element, with_tail=False)) for element in islice(elements, count - len(found))
        ]
        if len(found) >= count:
            break
    return found


def peoples(roots: Sequence[etree._Element], count: int, seed: int) -> list[Definition]:
    """Make distinct patterns as people write them, with values of the documents."""
    chance = random.Random(seed)
    topics, places = (
        [d.text for root in roots for d in root.iterfind(f"{name}/D") if d.text] for name in ("TOPICS", "PLACES")
    )
    words = [word for root in roots for word in re.findall("[a-z]{4,}", root.findtext("TEXT/BODY") or "")]
    heads = [word for root in roots for word in re.findall("[A-Z]{4,}", root.findtext("TEXT/TITLE") or "")]

    def rare() -> str:
        """Write a condition that few wires meet."""
        word, head = chance.choice(words), chance.choice(heads)
        return chance.choice(
            (
                f"./TOPICS/D = '{chance.choice(topics)}'",
                f"contains(./TEXT/BODY, '{word}')",
                f"contains(./TEXT/TITLE, '{head}')",
                f"starts-with(./TEXT/TITLE, '{head}')",
            )
        )

    def common() -> str:
        """Write a condition that many wires meet."""
        return chance.choice(
            (
                f"./PLACES/D = '{chance.choice(places)}'",
                f"string-length(./TEXT/BODY) > {chance.randrange(200, 4_000)}",
                f"count(./PLACES/D) >= {chance.randrange(1, 5)}",
                f"./@NEWID < {chance.randrange(1, 3_000)}",
            )
        )

    ends = ("", "/TEXT/TITLE->a", "/TOPICS/D->a", "/TEXT[./DATELINE]/BODY->a", "//D->a", "/@ISODATE->a")
    found: dict[Definition, None] = {}
    while len(found) < count:
        first, second, third = rare(), rare(), common()
        guard = chance.choice(
            (
                f"[{first} and {second}]",
                f"[{first}][{second}][{third}]",
                f"[{first} and {second} and not({third})]",
                f"[({second} or {third}) and {first}]",
            )
        )
        end = chance.choice(ends)
        text = f"{CHANNEL}//REUTERS{guard}{end}" if end else f"{CHANNEL}//REUTERS->a{guard}"
        query = compile_query(parse_query(text), text)
        found.update((spec.definition, None) for spec in query.specs)
    return list(found)[:count]


def walks(roots: Sequence[etree._Element], count: int, seed: int) -> list[Definition]:
    """Make distinct ways to random nodes of the documents."""
    choose = Dice(seed)
    elements = [element for root in roots for element in root.iter(etree.Element)]
    found: dict[Definition, None] = dict.fromkeys(
        Patterns(choose, vocabulary(roots[:5])).definitions(count // 50, depth=2), None
    )
    while len(found) < count:
        found[walk(choose, elements)] = None
    return [definition for definition in found if definition.steps][:count]


def automaton_of(patterns: Sequence[Definition]) -> tuple[Automaton, float]:
    """Make the automaton of patterns; return it with the seconds that this took."""
    began = time.process_time()
    automaton = Automaton()
    apply_change(automaton, SpecChange(None, tuple(map(block_spec, patterns))))
    return automaton, time.process_time() - began


def differences(automaton: Automaton, patterns: Sequence[Definition], documents: Sequence[Numbered]) -> tuple[int, int]:
    """Count the nodes that lxml selects, and those that only one of both selects."""
    texts = [serialize(document.root) for document in documents]
    found = selected(automaton, event_batches(CHANNEL, texts, BATCH))
    wanted = {
        (docid, pattern.key, node)
        for pattern in patterns
        for docid, document in enumerate(documents, start=1)
        for node in document.nodes(pattern)
    }
    return len(wanted), len(found ^ wanted)


def measure(patterns: Sequence[Definition], roots: Sequence[etree._Element], documents: Sequence[Numbered]) -> bool:
    """Print what people's patterns cost; return whether lxml selects the same nodes."""
    texts = [serialize(root) for root in roots]
    batches = event_batches(CHANNEL, texts, BATCH)
    automaton, ready = automaton_of(patterns)
    first = run_stage1(automaton, batches)
    warm = min(run_stage1(automaton, batches) for _ in range(3))
    bare = min(parse_all([text.encode() for text in texts]) for _ in range(3))
    nodes, different = differences(automaton, patterns, documents)
    us = 1e6 / len(texts)
    print(
        f"people's: {len(patterns):,} patterns over {len(texts):,} documents; ready in {ready:.2f} s; "
        f"first {first * us:.0f}, warm {warm * us:.0f} us a document (bare parsing {bare * us:.0f}); "
        f"{nodes / len(documents):.0f} nodes a document, {different} different",
        flush=True,
    )
    return not different


def compare(patterns: Sequence[Definition], documents: Sequence[Numbered]) -> bool:
    """Print whether lxml selects the same nodes for walks; return it."""
    nodes = different = 0
    for begin in range(0, len(patterns), _TOGETHER):
        some = patterns[begin : begin + _TOGETHER]
        more, other = differences(automaton_of(some)[0], some, documents)
        nodes, different = nodes + more, different + other
    print(
        f"walks: {len(patterns):,} patterns, {_TOGETHER} together, over {len(documents):,} documents; "
        f"{nodes / len(documents):.0f} nodes a document, {different} different",
        flush=True,
    )
    return not different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--compared", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    roots = wires(Path(os.environ.get("XSCL_TEST_DATA", beside)) / "xml" / "reuters21578", given.documents)
    documents = [Numbered(root) for root in roots[: given.compared]]
    same = measure(peoples(roots[:_SAMPLE], given.patterns, given.seed), roots, documents)
    same &= compare(walks(roots[:_SAMPLE], given.patterns, given.seed), documents)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
