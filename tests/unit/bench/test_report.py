"""What benches write."""

from __future__ import annotations

import csv
import getpass
import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from xscl.bench.plot import Plot, can_draw
from xscl.bench.report import Report, machine, write_report

REPORT = Report(
    bench="sizes",
    settings={"seed": 1, "workload": "rss"},
    figures={"queries_per_s": 1234567.0, "ratio": 0.12345, "digest_equal": True, "growth": None},
    table=({"queries": 10, "seconds": 0.25, "kind": "a|b"}, {"queries": 10_000, "seconds": 2.5, "kind": "c"}),
    plots=(Plot("sizes", "queries", "seconds", {"one": ((10, 0.25), (10_000, 2.5))}, log_x=True, log_y=True),),
    notes=("Nothing is extrapolated.",),
    spark=False,
)


def test_files(tmp_path: Path) -> None:
    written = write_report(REPORT, tmp_path / "new" / "folder")
    names = ["sizes.csv", "sizes.md", "sizes.json"] + (["sizes.png", "sizes.svg"] if can_draw() else [])
    assert [path.name for path in written] == names
    assert list(csv.DictReader(written[0].read_text().splitlines())) == [
        {"queries": "10", "seconds": "0.25", "kind": "a|b"},
        {"queries": "10000", "seconds": "2.5", "kind": "c"},
    ]
    record = json.loads(written[2].read_text())
    assert record["figures"] == dict(REPORT.figures)
    assert record["settings"] == {"seed": 1, "workload": "rss"}
    assert record["plots"][0]["lines"] == {"one": [[10, 0.25], [10_000, 2.5]]}


def test_markdown(tmp_path: Path) -> None:
    text = write_report(REPORT, tmp_path)[1].read_text()
    assert text.startswith("# sizes\n\nWith seed 1, workload rss.\n\n| queries | seconds | kind |\n| --: |")
    for line in (
        "| 10,000 | 2.5 | c |",
        "| 10 | 0.25 | a\\|b |",
        "| `queries_per_s` | 1,234,567 |",
        "| `ratio` | 0.1235 |",
        "| `digest_equal` | yes |",
        "| `growth` |  |",
        "Nothing is extrapolated.",
    ):
        assert line in text.splitlines()


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib (pip install 'xscl[bench]')")
    *_, png, svg = write_report(REPORT, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    first = svg.read_text()
    assert "<svg" in first
    write_report(REPORT, tmp_path)
    assert svg.read_text() == first


def test_plots_side_by_side_with_lines_that_others_tell_of(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib (pip install 'xscl[bench]')")
    (one,) = REPORT.plots
    other = replace(one, title="other", told={"somewhere else": ((10, 0.5), (10_000, 5.0))})
    *_, svg = write_report(replace(REPORT, plots=(one, other)), tmp_path)
    text = svg.read_text()
    assert all(f"<!-- {name} -->" in text for name in ("sizes", "other", "somewhere else"))


def test_without_matplotlib_the_rest_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.bench.plot.find_spec", lambda name: None)
    assert [path.suffix for path in write_report(REPORT, tmp_path)] == [".csv", ".md", ".json"]


def test_the_machine_has_no_name() -> None:
    found = machine(java=False)
    assert found["cores"] and found["python"] and found["sqlalchemy"]
    assert "java" not in found
    text = " ".join(map(str, found.values()))
    assert str(Path.home()) not in text.split()
    assert platform.node() not in text.split() or platform.node() == platform.system()
    assert getpass.getuser() not in text.split()
