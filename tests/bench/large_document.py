"""What one document of 50 MB with a million nodes costs: ``python tests/bench/large_document.py``.

The limits refuse it.  With limits that allow it: checked while it is parsed, parsed as stored, and matched with five
patterns.  Then the costliest documents known within the limits, one that is taken and one that is refused.  Each step
has a process of its own; its figure of memory is how much its peak lies over what document and interpreter took before.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from xscl.base.document_limits import DEFAULT_LIMITS, Limits
from xscl.base.errors import DocumentLimitError
from xscl.base.safe_xml import parse_stored, parse_xml, serialize
from xscl.base.types import Event
from xscl.intake.intake import Intake
from xscl.store.home import init_home
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.pattern import Definition, NodeTest, Step

RAISED = Limits(max_bytes=64 * 1024 * 1024, max_nodes=2_000_000)


def document() -> str:
    """50 MB; 200,000 items of five nodes each, one item in 1,000 with a title."""
    words = "some words that fill the text of an item until it has its share of the whole; " * 2
    words += "and a few more of them here"
    names = ("title" if n % 1000 == 0 else "name" for n in range(200_000))
    items = (
        f'<item id="{n}" day="{n % 365}"><{name}>{n}</{name}><text>{words}</text></item>'
        for n, name in enumerate(names)
    )
    return f"<items>{''.join(items)}</items>"


def pattern(*steps: tuple[str, str]) -> WitnessSpec:
    definition = Definition("S", tuple(Step("descendant", NodeTest(kind, "", name)) for kind, name in steps))
    return WitnessSpec(definition, ("",), ((definition, definition),))


PATTERNS = [
    pattern(("element", "title")),
    pattern(("element", "item"), ("element", "title")),
    pattern(("element", "items")),
    pattern(("element", "absent")),
    pattern(("element", "item"), ("element", "absent")),
]


def refused(text: str) -> str:
    try:
        parse_xml(text)
    except DocumentLimitError as error:
        return error.message
    raise AssertionError("the limits allow it")


def through_intake(text: str) -> str:
    return taken(text, DEFAULT_LIMITS)


def through_raised_intake(text: str) -> str:
    return taken(text, RAISED)


def taken(text: str, limits: Limits) -> str:
    with tempfile.TemporaryDirectory() as folder:
        home = init_home(Path(folder) / "home")
        report = Intake(home, limits=limits).take(
            [Event("S", "large", 1, xml=text), Event("S", "small", 1, xml="<a/>")]
        )
        home.catalog.close()
    return f"{report.taken} taken, {report.rejected} rejected"


def checked(text: str) -> str:
    return f"{len(parse_xml(text, limits=RAISED)):,} items"


def checked_and_written(text: str) -> str:
    return f"{len(serialize(parse_xml(text, limits=RAISED))):,} characters"


def stored(text: str) -> str:
    return f"{len(parse_stored(text)):,} items"


def matched(text: str) -> str:
    return f"{len(match_document(Automaton(PATTERNS), 'S', parse_stored(text))):,} witnesses"


def costliest_taken(_: str) -> str:
    text = f"<a>{'<a>xxxxxxxxxxxxxxxx</a>xxxxxxxx' * 499_999}</a>"
    return f"{len(parse_xml(text)):,} elements with a text inside and one behind"


def costliest_refused(_: str) -> str:
    entities = f"<!ENTITY e '{'<a>x</a>x' * 1000}'><!ENTITY f '{'&e;' * 5}'>"
    return refused(f"<!DOCTYPE a [{entities}]><a><!--{'x' * 1_030_000}-->{'&f;' * 115}</a>")


STEPS: tuple[Callable[[str], str], ...] = (
    refused,
    through_intake,
    through_raised_intake,
    checked,
    checked_and_written,
    stored,
    matched,
    costliest_taken,
    costliest_refused,
)


def measure(path: str, step: Callable[[str], str]) -> None:
    text = Path(path).read_text(encoding="utf-8")
    # Forget the peak so far.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    start = time.perf_counter()
    result = step(text)
    seconds = time.perf_counter() - start
    print(f"{step.__name__:<22} {seconds:6.2f} s  {before:5.0f} +{status('VmHWM') - before:4.0f} MB  {result}")


def status(name: str) -> float:
    """A figure of the process's memory in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.xml"
        text = document()
        path.write_text(text, encoding="utf-8")
        print(f"{len(text) / 1e6:.1f} MB")
        for step in STEPS:
            process = multiprocessing.get_context("spawn").Process(target=measure, args=(str(path), step))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
