"""The demonstration, as a person runs it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl.demo
from xscl.base.errors import EngineError
from xscl.cli.app import main
from xscl.demo.show import run_demo
from xscl.language.syntax.statements import parse_script
from xscl.registry.registry import Registry
from xscl.store.home import init_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(str(xscl.demo.__file__)).parent
QUERIES = [item.name for item in parse_script((HERE / "queries.xscl").read_text(encoding="utf-8"))]


def test_every_query_has_matches(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_demo(tmp_path / "home")
    out = capsys.readouterr().out
    counts = {name: int(count) for name, count in re.findall(r"^(\w+): .* — (\d+) matches$", out, re.MULTILINE)}
    assert set(counts) == set(QUERIES)
    assert all(count > 0 for count in counts.values()), counts
    for part in out.split("\n\n"):
        if part.partition(":")[0] in counts:
            assert re.search(r"^  • \d{4}-\d\d-\d\dT", part, re.MULTILINE), part
    assert "Traceback" not in out
    assert "0 rejected" not in out
    asked = re.search(r"^  SELECT qid, count.*\n    measured_again  (\d+)$", out, re.MULTILINE)
    assert asked is not None and int(asked[1]) >= counts["measured_again"]
    timed = re.findall(r"^(?:registered|ingested|processed|the last|answered).* in \d+\.\d s$", out, re.MULTILINE)
    assert len(timed) == 5
    # One job is for the joins, and one for the absence.
    assert re.findall(r"^batch \d+: .*; (.*), (\d) Spark jobs?;", out, re.MULTILINE)[-1] == ("in Spark", "2")
    told, *commands = out.rpartition("\n\n")[2].splitlines()
    assert str(tmp_path / "home") in told and len(commands) == 3
    for command in commands:
        # In this process, which has a session.
        words = shlex.split(command)
        monkeypatch.setattr("sys.argv", words[words.index("xscl") :])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code and capsys.readouterr().out.count("\n") >= 5, command
    assert spark.range(1).count() == 1, "the session is the caller's and goes on"


def test_a_home_in_use_is_left_alone(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    Registry(home.catalog).register("S//a", name="mine")
    home.catalog.close()
    with pytest.raises(EngineError) as caught:
        run_demo(tmp_path / "home")
    assert caught.value.condition == "XSCL_HOME_IN_USE"


def test_the_corpus_is_small() -> None:
    files = [path for path in (HERE / "corpus").rglob("*") if path.is_file()]
    assert files
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_the_corpus_has_a_notice() -> None:
    assert (HERE / "NOTICE").read_text(encoding="utf-8").strip()


def test_the_queries_are_good() -> None:
    assert len(QUERIES) >= 5
    assert None not in QUERIES
