"""What stage 1 is asked reaches other processes as changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patterns import Patterns
from tests.strategies import Dice
from xscl.base import versioned_files as version_files
from xscl.base.safe_xml import parse_xml
from xscl.xpath import spec_files
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.automaton.states import WitnessSpec, spec_key
from xscl.xpath.document_witnesses import Witness, match_document
from xscl.xpath.spec_files import SpecFiles, load_automaton

DOCUMENT = parse_xml("<a k='1'><b>x</b><a><c>2</c><b k='x'/></a></a>")


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_files, "_automata", {})


def specs(number: int) -> list[WitnessSpec]:
    return list({spec_key(spec): spec for spec in Patterns(Dice(5)).specs(3 * number)}.values())[:number]


def found(automaton: Automaton) -> set[Witness]:
    return set(match_document(automaton, "S", DOCUMENT))


def test_versions_are_read_as_changes_and_as_a_whole(tmp_path: Path) -> None:
    asked = specs(60)
    files = SpecFiles("specs")
    writes = [asked[:40], asked[:41], asked[1:42], asked[1:30], asked[:60]]
    paths = []
    for version in writes:
        paths.append(files.version(version, tmp_path))
        automaton = load_automaton(str(paths[-1]))
        assert found(automaton) == found(Automaton(version))
        assert automaton.size().states == Automaton(version).size().states
        # A process that comes later reads what is there.
        spec_files._automata.clear()
        assert found(load_automaton(str(paths[-1]))) == found(Automaton(version))
    assert len(set(paths)) == len(writes)


def test_a_process_keeps_its_automaton(tmp_path: Path) -> None:
    asked = specs(20)
    files = SpecFiles("specs")
    first = load_automaton(str(files.version(asked[:18], tmp_path)))
    second = load_automaton(str(files.version(asked[:19], tmp_path)))
    assert second is first
    assert load_automaton(str(files.version(asked[:19][::-1], tmp_path))) is first


def test_an_earlier_version_may_be_asked_for_again(tmp_path: Path) -> None:
    asked = specs(20)
    files = SpecFiles("specs")
    early, late = (files.version(asked[:count], tmp_path) for count in (18, 20))
    assert found(load_automaton(str(late))) == found(Automaton(asked))
    assert found(load_automaton(str(early))) == found(Automaton(asked[:18]))
    assert found(load_automaton(str(late))) == found(Automaton(asked))


def test_files_go_when_the_whole_is_written_again(tmp_path: Path) -> None:
    asked = specs(30)
    files = SpecFiles("specs")
    for start in range(20):
        files.version(asked[start : start + 10], tmp_path)
    # Each version adds one spec and takes one away.
    assert 1 <= len(list(tmp_path.iterdir())) <= 5


def test_few_automata_are_kept(tmp_path: Path) -> None:
    for number, spec in enumerate(specs(8)):
        load_automaton(str(SpecFiles(f"of{number}").version([spec], tmp_path)))
    assert len(spec_files._automata) == spec_files._MOST_KEPT


@pytest.mark.parametrize("count", [5, 19])
def test_a_version_that_could_not_be_written_is_written_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    asked = specs(20)
    files = SpecFiles("specs")
    files.version(asked[:18], tmp_path)

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(version_files, "write_version", full)
        with pytest.raises(OSError, match="no space"):
            files.version(asked[:count], tmp_path)
    written = load_automaton(str(files.version(asked[:count], tmp_path)))
    assert written.size().states == Automaton(asked[:count]).size().states
    assert found(written) == found(Automaton(asked[:count]))


_LEFT = """
import gc, sys
from pathlib import Path
from tests.patterns import plain_spec
from xscl.xpath import spec_files
from xscl.xpath.pattern import Definition, NodeTest, Step
from xscl.xpath.automaton.states import State

spec_files._MANY = 100
count = spec_files._MANY + 1
for number in range(6):
    steps = ((Step("child", NodeTest("element", f"urn:{number}", f"e{place}")),) for place in range(count))
    asked = [plain_spec(Definition("S", each)) for each in steps]
    path = spec_files.SpecFiles(f"of{number}").version(asked, Path(sys.argv[1]))
    spec_files.load_automaton(str(path))
gc.collect()
gc.unfreeze()
left = sum(isinstance(thing, State) for thing in gc.get_objects())
# One more than are kept may wait for the next large change.
print(left <= (spec_files._MOST_KEPT + 1) * (count + 1), left)
"""


def test_automata_that_are_not_kept_leave_nothing_behind(tmp_path: Path) -> None:
    """In a process that has nothing else for the collector to look at."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _LEFT, str(tmp_path)]
    assert subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout.startswith("True")


def test_an_automaton_here_changes_with_what_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = specs(60)
    files = SpecFiles("specs")
    for version in (asked[:40], asked[1:42], asked[5:30], asked[:60]):
        path = files.version(version, tmp_path)
        here = files.automaton()
        assert files.automaton() is here
        assert found(here) == found(load_automaton(str(path))) == found(Automaton(version))
        assert here.size().states == Automaton(version).size().states
    # One that could not be brought up to date is made anew.
    files.version(asked[:10], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(spec_files, "apply_change", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            files.automaton()
    assert found(files.automaton()) == found(Automaton(asked[:10]))
