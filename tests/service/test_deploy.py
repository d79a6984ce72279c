"""Files of deployment name commands and options that exist."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import typer.main
import yaml

from xscl.cli.app import app
from xscl.service.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def options(command: str) -> set[str]:
    group = typer.main.get_command(app)
    found = group.get_command(typer.Context(group), command)  # type: ignore[attr-defined]
    return {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}


def used(text: str) -> list[tuple[str, list[str]]]:
    found = re.findall(r"xscl (init|serve|token)([^&\n\]]*)", text)
    return [(command, re.findall(r"--[a-z-]+", rest)) for command, rest in found]


def test_commands() -> None:
    for name in ("Dockerfile", "xscl.service"):
        commands = used((DEPLOY / name).read_text(encoding="utf-8"))
        assert {command for command, _ in commands} == {"init", "serve"}
        for command, given in commands:
            assert set(given) <= options(command), (name, command)


def test_the_composition() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert set(found["services"]) == {"catalogue", "service"}
    assert (DEPLOY.parent / found["services"]["service"]["build"]["dockerfile"]).is_file()
    assert all(port.startswith("127.0.0.1:") for port in found["services"]["service"]["ports"])


def test_the_unit() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((DEPLOY / "xscl.service").read_text(encoding="utf-8"))
    assert set(unit) == {"DEFAULT", "Unit", "Service", "Install"}
    assert unit["Service"]["NoNewPrivileges"] == "yes"


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if (checker := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / "xscl.service"
    text = (DEPLOY / "xscl.service").read_text(encoding="utf-8")
    copy.write_text(text.replace("/usr/local/bin/xscl", sys.executable), encoding="utf-8")
    told = subprocess.run([checker, "verify", str(copy)], capture_output=True, text=True)
    assert "xscl.service" not in told.stderr, told.stderr


def test_the_image_has_no_more_than_it_needs() -> None:
    ignored = (DEPLOY.parent / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".*", "build", "tests"} <= set(ignored)


def figures() -> set[str]:
    """Names of all figures that a service gives."""
    return set(re.findall(r"^# TYPE (\w+)", Metrics(lambda: 0.0, lambda: 0.0).text().decode(), re.MULTILINE))


def test_alerts_ask_for_figures_that_there_are() -> None:
    found = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))
    rules = [rule for group in found["groups"] for rule in group["rules"]]
    asked = {name for rule in rules for name in re.findall(r"xscl_\w+", rule["expr"])}
    assert len(asked) >= 5 and {name.removesuffix("_bucket") for name in asked} <= figures()
    assert all(rule["annotations"]["summary"] for rule in rules)


def test_the_page_for_operators_has_all_figures() -> None:
    page = (DEPLOY.parent / "docs" / "how-to" / "service.md").read_text(encoding="utf-8")
    assert {name for name in figures() if f"`{name}`" not in page} == set()
