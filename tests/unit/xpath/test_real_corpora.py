"""Hundreds of patterns in one automaton on real documents, against lxml.

The patterns are walks of the documents themselves: real ways with steps skipped and names loosened, under conditions
whose constants are real values, and some drawn at random from the documents' names and values.
"""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from chunk_oracle import check
from lxml import etree
from patterns import Patterns, plain_spec, vocabulary, walk
from strategies import Dice
from xpath_oracle import Law, Numbered, count_by_elementpath, is_undisputed

from xscl.base.errors import XsclError
from xscl.base.safe_xml import parse_xml, serialize
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.pattern import Definition

ENTITY = re.compile(rb"&(?!amp;|lt;|gt;|quot;|apos;|#)\w+;")
ATOM = "{http://www.w3.org/2005/Atom}"


def zipped(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def files(folder: Path, pattern: str, *, most_bytes: int = 200_000) -> Iterator[bytes]:
    """The contents of files in a folder that are small enough to be compared with every pattern."""
    for path in sorted(folder.glob(pattern)):
        content = zipped(path)
        if len(content) <= most_bytes:
            yield content


def parts(path: Path, tag: str) -> Iterator[bytes]:
    """The elements of one name in a file, each as a document of its own; entities of its DTD are left out."""
    for element in parse_xml(ENTITY.sub(b"", zipped(path))).iter(tag):
        yield etree.tostring(element, with_tail=False)


def archive(path: Path, suffix: str = "", *, every: int = 1, most_bytes: int = 60_000) -> Iterator[bytes]:
    with tarfile.open(path, "r|xz") as members:
        seen = 0
        for member in members:
            if member.isfile() and member.name.endswith(suffix) and member.size <= most_bytes:
                seen += 1
                if seen % every == 0:
                    found = members.extractfile(member)
                    assert found is not None
                    yield found.read()


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents of one kind; there are at least so many ``documents`` and ``rows``."""

    contents: Callable[[Path], Iterator[bytes]]
    documents: int
    patterns: int
    """Walks drawn, some of them alike."""
    rows: int


CORPORA = {
    "feeds": Corpus(lambda data: files(data / "raw" / "smallweb", "*.xml.gz", most_bytes=40_000), 15, 150, 4_000),
    "feed items": Corpus(
        lambda data: (
            part
            for content in files(data / "raw" / "smallweb", "*.xml.gz")
            if (root := sound(content)) is not None
            for element in islice(root.iter("item", f"{ATOM}entry"), 2)
            for part in [etree.tostring(element, with_tail=False)]
        ),
        18,
        400,
        2_400,
    ),
    "Reuters": Corpus(lambda data: parts(data / "xml/reuters21578/reut2-000.xml.gz", "REUTERS"), 18, 500, 4_800),
    "SIGMOD": Corpus(lambda data: parts(data / "xml/sigmod/SigmodRecord.xml.gz", "articlesTuple"), 18, 300, 1_800),
    "auction": Corpus(lambda data: files(data / "xml/basex", "*.xml"), 2, 500, 3_000),
    "auction items": Corpus(lambda data: parts(data / "xml/basex/auction.xml.gz", "item"), 18, 120, 900),
    "earthquakes": Corpus(lambda data: parts(data / "xml/usgs/all_day.atom.gz", f"{ATOM}entry"), 18, 400, 3_600),
    "alerts": Corpus(lambda data: files(data / "xml/cap", "*.cap"), 6, 500, 1_000),
    "newsml": Corpus(lambda data: files(data / "xml/newsml", "*.xml"), 18, 500, 4_000),
    "gpx": Corpus(lambda data: files(data / "xml/gpx", "*.gpx.gz", most_bytes=8_000), 9, 400, 4_000),
    "articles": Corpus(lambda data: files(data / "xml/jats", "*.gz", most_bytes=90_000), 2, 300, 3_000),
    "feedparser's cases": Corpus(
        lambda data: archive(data / "suites/feedparser-tests.tar.xz", ".xml", every=4), 18, 400, 1_800
    ),
    "feed validator's cases": Corpus(
        lambda data: archive(data / "suites/feedvalidator-testcases.tar.xz", ".xml", every=4), 18, 400, 1_800
    ),
}
MOST_DOCUMENTS = 18


def sound(content: bytes) -> etree._Element | None:
    """None for documents that are not well-formed, or refer to entities of a DTD beside them.

    Empty CDATA sections are left out: libxml2 keeps empty text nodes of them, which XPath's data model does not have.
    """
    try:
        return parse_xml(content.replace(b"<![CDATA[]]>", b""))
    except XsclError:
        return None


def documents_of(corpus: Corpus, data: Path) -> list[etree._Element]:
    found = (sound(content) for content in corpus.contents(data))
    return list(islice((root for root in found if root is not None), MOST_DOCUMENTS))


def definitions_of(roots: Sequence[etree._Element], choose: Dice, count: int) -> list[Definition]:
    elements = [element for root in roots for element in root.iter(etree.Element)]
    found = {walk(choose, elements): None for _ in range(count)}
    patterns = Patterns(choose, vocabulary(choose.random.sample(roots, min(len(roots), 5))))
    found.update(dict.fromkeys(patterns.definitions(count // 6, depth=2)))
    return [definition for definition in found if definition.steps]


@pytest.mark.parametrize("name", CORPORA)
def test_real_documents(name: str, shared_data: Path) -> None:
    corpus, choose = CORPORA[name], Dice(len(name))
    roots = documents_of(corpus, shared_data)
    definitions = definitions_of(roots, choose, corpus.patterns)
    patterns = Patterns(choose)
    # A tenth are asked for with what is around them; long chains would take lxml minutes.
    specs = [
        patterns.spec(d) if place % 10 == 0 and len(roots) > 12 else plain_spec(d, "", "number")
        for place, d in enumerate(definitions)
    ]
    law, machine = Law(specs), Automaton(specs)
    wanted = {spec.definition: spec.functions for spec in specs if spec.functions[0] in ("", None)}
    undisputed = [definition for definition in wanted if is_undisputed(definition)][:40]
    rows = found_by = asked = 0
    seen: set[int] = set()
    for root in roots:
        found = match_document(machine, "S", root)
        document = Numbered(root)
        law.check(document, found)
        if asked < 2 and len(document.kept) == document.count < 2_000:
            asked += 1
            for definition in undisputed:
                count = sum(row.var == definition.key and row.function in wanted[definition][:1] for row in found)
                assert count_by_elementpath(document, definition) == count, definition
        rows += len(found)
        seen.update(row.var for row in found)
        found_by += bool(found)
    print(f"{name}: {len(roots)} documents, {len(specs)} patterns, {len(seen)} of them found, {rows} rows")
    print(f"{len(undisputed)} patterns by elementpath on {asked} documents")
    assert len(roots) >= corpus.documents
    assert len(specs) >= corpus.patterns * 3 // 4
    assert len(seen) > len(specs) // 2
    assert rows >= corpus.rows
    assert found_by == len(roots)
    assert asked


@pytest.mark.parametrize("name", CORPORA)
def test_real_documents_as_columns(name: str, shared_data: Path) -> None:
    texts = [serialize(root) for root in documents_of(CORPORA[name], shared_data)]
    odd = sum("<!" in text or "<?" in text for text in texts)
    assert check(texts) == len(texts) - odd
