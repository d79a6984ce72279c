"""The registration bench, at a size that takes no time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code

from xscl.base.errors import EngineError
from xscl.bench import register
from xscl.bench.bench import Options, run_bench
from xscl.bench.benches import BENCHES
from xscl.bench.register import catalog_digest
from xscl.registry.registry import Registry
from xscl.store.home import init_home

FIGURES = {
    "queries_per_s", "one_more_ms", "one_more_first_ms", "rss_bytes", "one_at_a_time_per_s", "bulk_sample_per_s",
    "speedup", "digest_equal", "templates", "groups", "list_page_ms", "filter_page_ms", "spark_jobs", "parse_us",
    "compile_us", "canonicalize_us", "catalogue_us", "load_s", "cpu_s", "catalog_bytes", "results_digest",
    "start_cpu_s", "start_us_a_group", "start_rss_bytes",
}  # fmt: skip


def test_figures() -> None:
    said: list[str] = []
    asked = Options(quick=True, queries=30, seed=2, workload="rss", windows="1 h..2 h")
    report = run_bench(BENCHES["register"], asked, said.append)
    figures = report.figures
    assert set(figures) == FIGURES
    assert figures["digest_equal"] is True
    assert figures["spark_jobs"] == 0
    assert figures["templates"] == 5
    assert 40 < figures["groups"] <= 50  # windows differ
    assert 10_000_000 < figures["rss_bytes"] < 1_000_000_000
    for name in ("queries_per_s", "one_more_ms", "one_at_a_time_per_s", "parse_us", "compile_us", "canonicalize_us"):
        assert figures[name] > 0
    assert report.table[-1]["queries"] == 30
    assert [report.settings[name] for name in ("queries", "seed", "windows")] == [30, 2, "1 h..2 h"]
    assert any("30 queries" in line for line in said)


def digest(folder: Path, *texts: str) -> str:
    home = init_home(folder)
    registry = Registry(home.catalog)
    for place, text in enumerate(texts):
        registry.register(text, name=f"q{place}")
    found = catalog_digest(home.catalog)
    home.catalog.close()
    return found


def test_the_digest_tells_catalogues_apart(tmp_path: Path) -> None:
    one, two = "S//a->x JOIN {x = y, 1 h} T//p->y", "S//a->x JOIN {x = y, 2 h} T//p->y"
    assert digest(tmp_path / "1", one, two) == digest(tmp_path / "2", one, two)
    assert len({digest(tmp_path / "3", two, one), digest(tmp_path / "4", one), digest(tmp_path / "5", one, two)}) == 3


def test_a_refused_query_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "thesis_queries", lambda *_, **__: iter([("q", "S//a"), ("q", "S//b")]))
    with pytest.raises(EngineError) as caught:
        register.load(print, queries=2, seed=1, workload="two-level", windows="unbounded", one_more=0)
    assert caught.value.condition == "XSCL_BENCH"
    assert "XSCL_NAME_TAKEN" in str(caught.value)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure in this process, where other tests may have imported Spark (``test_figures`` starts processes)."""

    def here(function: Callable[..., object], settings: dict[str, Any], say: Callable[[str], None]) -> Any:
        measured = json.loads(json.dumps(function(say, **settings)))
        return measured | {"spark_imported": False} if "spark_imported" in measured else measured

    monkeypatch.setattr("xscl.bench.register.run_apart", here)
    monkeypatch.setattr("xscl.bench.stage1.run_apart", here)


@pytest.mark.usefixtures("in_process", "items_of_one_feed_only")
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    without_spark = {name: BENCHES[name] for name in ("register", "stage1")}
    monkeypatch.setattr("xscl.bench.benches.BENCHES", without_spark)
    sizes = ("--quick", "--queries", "8", "--items", "4")
    assert exit_code(monkeypatch, "bench", "all", *sizes, "--json", "--out", str(out)) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert set(told) == {"register", "stage1"}
    assert set(told["register"]) == FIGURES | {"table"}
    assert told["register"]["table"][-1]["queries"] == 8
    assert "written: " in printed.err
    assert {"register.csv", "register.md", "register.json"} <= {path.name for path in out.iterdir()}


@pytest.mark.usefixtures("in_process")
def test_variants_that_differ_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = iter("abcdefgh")
    monkeypatch.setattr("xscl.bench.register.catalog_digest", lambda catalog: next(digests))
    assert exit_code(monkeypatch, "-q", "bench", "register", "--quick", "--queries", "10", "--json") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["digest_equal"] is False
    assert "different results" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "retention"),
        (["register", "--workload", "four-level"], "two-level"),
        (["register", "--windows", "2 h..1 h"], "greater"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "bench", *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
