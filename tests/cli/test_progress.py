"""Progress: told by long work, shown to a person at a terminal, on stderr alone."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from xscl.base.progress import listened, told
from xscl.base.types import Event
from xscl.catalog.subscriptions import import_outlines
from xscl.cli.options import Output
from xscl.cli.progress import shown_progress
from xscl.engine import Engine
from xscl.ingest.opml import Outline
from xscl.store.home import init_home


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("quiet", "at_terminal", "shown"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_bars_are_for_a_person(
    quiet: bool, at_terminal: bool, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stderr = Terminal() if at_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(Output, "quiet", quiet)
    monkeypatch.setenv("TERM", "xterm")
    with shown_progress():
        told("feeds", 3, 7)
    assert ("3/7" in stderr.getvalue()) is shown
    assert stderr.getvalue() == "" or shown
    assert capsys.readouterr().out == ""


def test_batches_tell_how_many_documents_are_walked(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("S//a->x", name="q")
        engine.ingest([Event("S", f"d{n}", n, xml="<a/>") for n in range(3_000)])
        with listened(lambda *call: heard.append(call)):
            engine.run_once(batch_docs=1_800)
        before = len(heard)
        told("documents", 1, 1)
        assert len(heard) == before, "nobody listens any more"
    walked = [(done, total) for things, done, total in heard if things == "documents"]
    assert len(walked) >= 3 and all(0 < done <= total for done, total in walked)
    assert sum(total for done, total in walked if done == total) == 3_000
    places = [done for things, done, _ in heard if things == "events"]
    assert len(places) == 2 and places == sorted(places)


def test_an_imported_list_tells_how_far_it_is(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    heard: list[tuple[str, int, int]] = []
    with listened(lambda *call: heard.append(call)):
        list(import_outlines(home.catalog, [Outline(f"https://{n}.example/") for n in "abc"], now=1))
    home.catalog.close()
    assert heard == [("feeds", 1, 3), ("feeds", 2, 3), ("feeds", 3, 3)]
