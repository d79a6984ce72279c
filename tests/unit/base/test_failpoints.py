"""Named steps: each is somewhere in the code and listed, and costs nothing while nobody asks for it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import xscl
from xscl.base.failpoints import STEPS, VARIABLE, crash_at, hooked, step
from xscl.catalog.intake_order import read_last_places
from xscl.store.home import init_home

_SOURCES = Path(xscl.__file__).resolve().parent


def _called(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if "from xscl.base.failpoints import" not in text:
        return []  # another function has the name there
    tree = ast.parse(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "step"]
    return [str(ast.literal_eval(name)) for name in found]


def test_every_step_is_listed_and_in_the_code() -> None:
    called = Counter(name for path in _SOURCES.rglob("*.py") for name in _called(path))
    assert set(called) == set(STEPS)


def test_a_hook_is_called_at_each_step_and_taken_out() -> None:
    seen: list[str] = []
    with hooked(seen.append):
        step("batch.commit")
    step("batch.commit")
    assert seen == ["batch.commit"]


def test_a_place_is_a_step_and_how_often_it_was_reached() -> None:
    ended: list[str] = []
    hook = crash_at("batch.commit:2", lambda: ended.append("now"))
    for name in ("batch.commit", "batch.begin", "batch.commit", "batch.commit"):
        hook(name)
        ended.append(name)
    assert ended == ["batch.commit", "batch.begin", "now", "batch.commit", "batch.commit"]
    with pytest.raises(ValueError, match="no step 'batch.comit'"):
        crash_at("batch.comit")


def test_the_environment_names_the_step_at_which_a_process_is_killed(tmp_path: Path) -> None:
    make = f"from xscl.store.home import init_home; init_home({str(tmp_path / 'home')!r}); print('made')"
    crashing = {**os.environ, VARIABLE: "home.folders"}
    killed = subprocess.run([sys.executable, "-c", make], env=crashing, capture_output=True, text=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    home = init_home(tmp_path / "home")
    assert home.catalog.ask(read_last_places) == (0, 0)
    home.catalog.close()
