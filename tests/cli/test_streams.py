"""Standard streams that are closed, full, or in another encoding than UTF-8, and readers who have seen enough."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

XSCL = f"{shlex.quote(sys.executable)} -m xscl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.xml").write_text("<a><b>é</b></a>", encoding="utf-8")
    assert shell(tmp_path, f"{XSCL} init").returncode == 0
    return tmp_path


def shell(folder: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XSCL_HOME": str(folder / "home"), **environment}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=folder, env=environment
    )


def test_closed_streams_are_no_failure(folder: Path) -> None:
    assert shell(folder, f"{XSCL} query list >&-").returncode == 0
    # There is a note that cannot be told.
    assert shell(folder, f"{XSCL} query add q S//a 2>&-").returncode == 0
    done = shell(folder, f"{XSCL} query load - <&-")
    assert (done.returncode, done.stderr) == (0, "nothing registered, 0 refused\n")


def test_an_output_that_is_full_is_named(folder: Path) -> None:
    done = shell(folder, f"{XSCL} query list > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "error: a file, or the output, cannot be used: No space left on device\n"


def test_an_encoding_without_a_character_is_named(folder: Path) -> None:
    command = f"{XSCL} eval -q a//b a.xml --channel a --documents"
    done = shell(folder, command, PYTHONIOENCODING="ascii")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "the encoding ascii of the output has no '\\xe9'" in done.stderr
    assert "PYTHONIOENCODING=utf-8" in done.stderr
    assert shell(folder, command, PYTHONIOENCODING="utf-8").returncode == 0
    done = shell(folder, rf"{XSCL} match list $'\xff'")
    assert (done.returncode, done.stderr) == (1, "error: [XSCL_BAD_OPTION] '\\udcff' has bytes that are no UTF-8\n")


def test_readers_who_have_seen_enough_are_no_failure(folder: Path) -> None:
    rows = "for number in $(seq 3000); do echo $number,x; done"
    command = f"(echo a,b; {rows}) > t.csv; {XSCL} eval -q t//b t.csv --format table | head -n 1"
    assert shell(folder, command).returncode == 0
    code = "from xscl.base.terminal import console\nfor number in range(9_000): console().print(number)"
    done = shell(folder, f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} | head -n 1")
    # The command line takes it; rich would have ended the process by itself.
    assert "BrokenPipeError" in done.stderr


@pytest.mark.parametrize("words", ["--help", "", "--version", "query --help", "match list --help"])
def test_a_help_that_is_not_read_to_its_end_is_no_failure(words: str, tmp_path: Path) -> None:
    # The reader is gone before the first line comes.
    done = shell(tmp_path, f"mkfifo gone; {{ sleep 0; }} < gone & exec 3> gone; wait $!; {XSCL} {words} >&3")
    assert (done.returncode, done.stderr) == (0, "")
