"""What a million names of elements do to a process: ``python tests/bench/many_names.py``.

100,000 documents of ten elements whose names were never seen before, parsed in one thread, parsed with the dictionary
of names thrown away every 1,000 documents, matched likewise, and taken into a home.  Each way has a process of its own;
the figures are its resident memory in MB after the first thousand and after each tenth.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.types import Event
from xscl.intake.intake import Intake
from xscl.store.home import init_home
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.pattern import Definition, NodeTest, Step

DOCUMENTS = 100_000
NAMES = 10
PART = 1_000


def document(number: int) -> str:
    names = (f"name_{number}_{place}" for place in range(NAMES))
    return f"<doc>{''.join(f'<{name}>x</{name}>' for name in names)}</doc>"


def parse(numbers: range) -> None:
    for number in numbers:
        parse_stored(document(number))


def parts() -> Iterator[range]:
    for start in range(0, DOCUMENTS, PART):
        yield range(start, start + PART)


def plain() -> None:
    for number, part in enumerate(parts(), 1):
        parse(part)
        show(number)


def recycled() -> None:
    for number, part in enumerate(parts(), 1):
        in_fresh_dictionary(parse, part)
        show(number)


def matched() -> None:
    title, anything = (Step("descendant", NodeTest("element", "", name)) for name in ("title", None))
    definitions = [Definition("S", steps) for steps in ((title,), (anything, title), (anything,))]
    automaton = Automaton([WitnessSpec(definition, ("",), ((definition, definition),)) for definition in definitions])

    def match(numbers: range) -> int:
        return sum(len(match_document(automaton, "S", parse_stored(document(number)))) for number in numbers)

    for number, part in enumerate(parts(), 1):
        assert in_fresh_dictionary(match, part) == (NAMES + 1) * PART
        show(number)


def intake() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = init_home(Path(folder) / "home")
        for number, part in enumerate(parts(), 1):
            events = [Event("S", str(n), n, xml=document(n)) for n in part]
            assert Intake(home).take(events).taken == len(part)
            show(number)
        home.catalog.close()


def show(part: int) -> None:
    tenth = DOCUMENTS // PART // 10
    if part == 1 or part % tenth == 0:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        print(f"{pages * 4096 / 1e6:5.0f}", end=" ", flush=True)


WAYS: dict[str, Callable[[], None]] = {"one thread": plain, "recycled": recycled, "matched": matched, "intake": intake}


def main() -> None:
    for name, way in WAYS.items():
        print(f"{name:<12}", end="", flush=True)
        process = multiprocessing.get_context("spawn").Process(target=way)
        process.start()
        process.join()
        print()


if __name__ == "__main__":
    main()
