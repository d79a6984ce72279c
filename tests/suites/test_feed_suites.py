"""The suites of other feed readers, beside the repository: what each feed becomes, and whether its fields are right.

What a case expects is stated in its own file (feedparser's ``Expect:``).  It is read as a tree of Python's syntax,
never run, and of it is compared what speaks of fields that items have here.  Texts are plain here and hold markup
there, so both sides are compared as text without white space, and the markup is taken off by the standard library.
"""

from __future__ import annotations

import ast
import gzip
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest

from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_xml
from xscl.ingest.expand import feed_events
from xscl.ingest.feed import entry_item
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.records import FeedDocument

SUITES = {
    "feedparser-tests": 1770,
    "feedvalidator-testcases": 1085,
    "fastfeedparser-integration": 28,
    "feedsmith-references": 39,
}
"""Files in each, licences and pages among them."""
OUTCOMES: dict[str, dict[str, int]] = {
    "feedparser-tests": {
        "XSCL_MALFORMED_DOCUMENT": 6,
        "events": 2374,
        "tolerant": 10,
        "feed": 1751,
        "document": 2,
        "XSCL_NOT_A_FEED": 11,
    },
    "feedvalidator-testcases": {
        "events": 1470,
        "tolerant": 3,
        "feed": 891,
        "document": 171,
        "XSCL_MALFORMED_DOCUMENT": 17,
        "XSCL_NOT_A_FEED": 6,
    },
    "fastfeedparser-integration": {
        "XSCL_NOT_A_FEED": 14,
        "events": 317,
        "tolerant": 2,
        "feed": 13,
        "XSCL_MALFORMED_DOCUMENT": 1,
    },
    "feedsmith-references": {
        "XSCL_MALFORMED_DOCUMENT": 1,
        "XSCL_NOT_A_FEED": 19,
        "events": 62,
        "tolerant": 0,
        "feed": 13,
        "document": 6,
    },
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file of a suite became."""

    name: str
    document: FeedDocument | None
    """None: another document, or refused."""
    condition: str | None
    message: str = ""


def files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a suite with their contents."""
    if not archive.exists():
        pytest.skip(f"the suites of other readers are not there: {archive.name}")
    with tarfile.open(archive, "r|xz") as found:
        for member in found:
            opened = found.extractfile(member) if member.isfile() else None
            if opened is not None:
                yield member.name, opened.read()


def outcomes(cases: list[tuple[str, bytes]]) -> list[Outcome]:
    """Every feed is taken, or refused by name; anything else that is raised fails the test."""
    found = []
    for name, data in cases:
        address = re.search(rb"Content-Location:\s*(\S+)", data[:2000])
        # The address that feedparser's own tests serve their cases at.
        source = urljoin(f"http://127.0.0.1:8097/{name}", address[1].decode() if address else "")
        try:
            found.append(Outcome(name, read_feed(data, source=source), None))
        except XsclError as error:
            found.append(Outcome(name, None, error.condition, error.message))
    return found


def checked_events(document: FeedDocument) -> int:
    """How many events a feed gives; all of them are well-formed."""
    events = feed_events(document)
    for event in events:
        assert event.xml is not None and event.id
        parse_xml(event.xml)
    return len(events)


# Expectations: (path, value) such as ("entries[0].title", "Example")

Expected = tuple[str, object]


def expectations(data: bytes) -> list[Expected]:
    """What the comment of a case states as equal, where the feed is expected to be well-formed."""
    text = data.decode("utf-8", "replace")
    found = re.search(r"Expect:\s*(.*?)\s*-->", text, re.DOTALL)
    if found is None or not found[1].startswith("not bozo and"):
        return []
    try:
        tree = ast.parse(found[1].replace("\n", " "), mode="eval").body
    except (SyntaxError, ValueError):
        return []
    return [stated for part in conjuncts(tree) if (stated := equation(part)) is not None]


def conjuncts(tree: ast.expr) -> Iterator[ast.expr]:
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for value in tree.values:
            yield from conjuncts(value)
    else:
        yield tree


def equation(tree: ast.expr) -> Expected | None:
    if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq)):
        return None
    try:
        return path_of(tree.left), ast.literal_eval(tree.comparators[0])
    except ValueError:
        return None


def path_of(tree: ast.expr) -> str:
    match tree:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            return f"{path_of(inner)}.{name}"
        case ast.Subscript(value=inner, slice=ast.Constant(value=int(place))):
            return f"{path_of(inner)}[{place}]"
        case ast.Subscript(value=inner, slice=ast.Constant(value=str(name))):
            return f"{path_of(inner)}.{name}"
    raise ValueError("not a path")


ENTRY = {
    r"title|title_detail\.value": "title",
    r"description|summary|summary_detail\.value": "description",
    r"content\[0\]\.value": "content",
    r"link": "item_url",
    r"id|guid": "guid",
    r"author|author_detail\.name|authors\[0\]\.name": "author",
    r"(?:published|created|issued)_parsed": "published",
    r"(?:updated|modified)_parsed": "updated",
    r"category|tags\[\d\]\.term": "category",
    r"comments": "comments",
    r"enclosures\[\d\]\.(?:href|url)": "enclosure",
    r"enclosures\[\d\]\.(?:type|length)": "enclosure attribute",
    r"media_(?:content|thumbnail)\[\d\]\.url": "media",
    r"media_(?:content|thumbnail)\[\d\]\.(?:type|medium|width|height)": "media attribute",
}
FEED = {
    r"title|title_detail\.value": "channel_title",
    r"link": "home",
    r"language": "language",
    r"(?:updated|modified|published)_parsed": "feed date",
}


def kind_of(path: str) -> tuple[str, int] | None:
    """Which field a path speaks of, and of which entry (-1: of the feed); None if it is none of ours."""
    if entry := re.fullmatch(r"entries\[(\d)\]\.(.*)", path):
        table, number, rest = ENTRY, int(entry[1]), entry[2]
    elif path.startswith("feed."):
        table, number, rest = FEED, -1, path.removeprefix("feed.")
    else:
        return None
    return next(((kind, number) for pattern, kind in table.items() if re.fullmatch(pattern, rest)), None)


def values(document: FeedDocument, kind: str, number: int) -> list[str | datetime | None]:
    """What is found of a field, more than one value where it repeats."""
    feed = document.feed
    if number < 0:
        return [
            {"channel_title": feed.title, "home": feed.home, "language": feed.language, "feed date": feed.date}[kind]
        ]
    if number >= len(document.entries):
        return []
    item = entry_item(document.entries[number], feed)
    resources = item.enclosures if kind.startswith("enclosure") else item.media
    match kind:
        case "content":
            return [item.content, item.description]
        case "author":
            return [*item.authors]
        case "category":
            return [*item.categories]
        case "enclosure" | "media":
            return [resource.url for resource in resources]
        case "enclosure attribute" | "media attribute":
            return [text for resource in resources for _, text in resource.attributes]
    return [getattr(item, kind)]


class Plain(HTMLParser):
    """The text of markup."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.silent += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        self.text += "" if self.silent else data


def same(expected: object, found: str | datetime | None) -> bool:
    if isinstance(expected, tuple):
        return isinstance(found, datetime) and found.timetuple()[:6] == expected[:6]
    if not isinstance(expected, str):
        return False
    plain = Plain()
    plain.feed(expected)
    plain.close()
    wanted = {"".join(expected.split()), "".join(plain.text.split())}
    return "".join((found or "").split()) in wanted if isinstance(found, str) or found is None else False


# The tests


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_every_file_is_taken_or_refused_with_a_reason(shared_data: Path, suite: str) -> None:
    cases = list(files(shared_data / "suites" / f"{suite}.tar.xz"))
    assert len(cases) == SUITES[suite]

    def run() -> Counter[str]:
        found: Counter[str] = Counter()
        for outcome in outcomes(cases):
            if outcome.condition is not None:
                assert re.search(r"line \d+|without a channel|JSON", outcome.message), outcome
            elif outcome.document is not None:
                found["events"] += checked_events(outcome.document)
                found["tolerant"] += outcome.document.flaw is not None
            found[outcome.condition or ("document" if outcome.document is None else "feed")] += 1
        return found

    assert in_fresh_dictionary(run) == OUTCOMES[suite]


def test_real_feeds_of_february_2026(shared_data: Path) -> None:
    cases = [(path.name, gzip.decompress(path.read_bytes())) for path in sorted((shared_data / "raw").glob("*/*.gz"))]
    found = in_fresh_dictionary(lambda: [(o.condition, o.document and o.document.flaw) for o in outcomes(cases)])
    assert len(found) == 103
    assert [condition for condition, _ in found if condition] == ["XSCL_MALFORMED_DOCUMENT"]
    assert sum(flaw is not None for _, flaw in found) == 2


def test_fields_agree_with_what_feedparser_states(shared_data: Path) -> None:
    cases = [case for case in files(shared_data / "suites" / "feedparser-tests.tar.xz") if "/wellformed/" in case[0]]

    def run() -> tuple[Counter[str], Counter[str], list[str]]:
        stated: Counter[str] = Counter()
        agreeing: Counter[str] = Counter()
        differences = []
        for (name, data), outcome in zip(cases, outcomes(cases), strict=True):
            for path, value in expectations(data):
                if (kind := kind_of(path)) is None:
                    continue
                stated[kind[0]] += 1
                found = [] if outcome.document is None else values(outcome.document, *kind)
                if any(same(value, one) for one in found):
                    agreeing[kind[0]] += 1
                else:
                    differences.append(f"{name}: {path} is {found}, stated {value!r}")
        return stated, agreeing, differences

    stated, agreeing, differences = in_fresh_dictionary(run)
    # What differs, by kind, is in docs/reference/feeds.md.
    shown = "\n".join(differences)
    assert stated.total() == 977, shown
    assert agreeing.total() >= 941, shown
    for kind in ("item_url", "enclosure", "enclosure attribute", "comments", "feed date"):
        assert agreeing[kind] == stated[kind], shown
