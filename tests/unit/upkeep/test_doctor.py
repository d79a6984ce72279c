"""What the doctor says of packages."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import xscl.upkeep.doctor
from xscl.cli.app import main
from xscl.upkeep.doctor import Check, examine

PROJECT = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def packages(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str] | None = None) -> dict[str, Check]:
    """What is found of packages, some of which have other versions, or ("") are not there."""
    told = versions or {}
    true = xscl.upkeep.doctor.version

    def version(name: str) -> str:
        if told.get(name) == "":
            raise PackageNotFoundError(name)
        return told.get(name) or true(name)

    extra = [f'{name}; extra == "{key}"' for key, names in PROJECT["optional-dependencies"].items() for name in names]
    monkeypatch.setattr(xscl.upkeep.doctor, "requires", lambda _: [*PROJECT["dependencies"], *extra])
    monkeypatch.setattr(xscl.upkeep.doctor, "version", version)
    return {check.what: check for check in xscl.upkeep.doctor._packages()}


def test_all_that_xscl_depends_on_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found = packages(monkeypatch)
    assert len(found) == len(PROJECT["dependencies"])
    assert {"pyspark", "pandas", "numpy", "xxhash", "httpx2"} <= set(found)
    assert not {"pytest", "matplotlib", "psycopg"} & set(found), "extras may be missing"
    assert [check for check in found.values() if not check.ok] == []


def test_bounds_are_all_understood() -> None:
    for requirement in PROJECT["dependencies"]:
        found = xscl.upkeep.doctor._REQUIREMENT.fullmatch(requirement)
        assert found is not None and found[3] is None
        assert all(xscl.upkeep.doctor._BOUND.fullmatch(bound) for bound in found[2].split(",")), requirement


def test_what_is_missing_or_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = packages(monkeypatch, {"xxhash": "", "pandas": "3.0.1", "numpy": "1.26.4", "lxml": "6.99"})
    assert [name for name, check in found.items() if not check.ok] == ["pandas", "numpy", "xxhash"]
    assert (found["xxhash"].found, found["xxhash"].advice) == ("missing", "install xscl again: pip install .")
    assert found["pandas"].advice == "Spark 4.3 needs pandas below 3: pip install 'pandas<3'"
    assert found["numpy"].advice == "xscl needs numpy >=2,<3: pip install 'numpy>=2,<3'"


def test_the_source_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def requires(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(xscl.upkeep.doctor, "requires", requires)
    checks = {check.what: check for check, _ in zip(examine(tmp_path, None), range(2), strict=False)}
    assert checks["packages"].ok and "not installed" in checks["packages"].found


@pytest.mark.parametrize("format_", ["table", "ndjson"])
def test_what_is_found_is_shown_before_spark_starts(
    format_: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def starts() -> Check:
        shown.append(capsys.readouterr().out)
        return Check("Spark", True, "starts")

    monkeypatch.setattr(xscl.upkeep.doctor, "_spark", starts)
    monkeypatch.setattr("sys.argv", ["xscl", "doctor", "--home", str(tmp_path / "none"), "--format", format_])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    (before,) = shown
    assert "FAILS" in before and "none at" in before
    assert "starts" in capsys.readouterr().out
