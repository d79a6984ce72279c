"""Files of deployment name commands and options that exist."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import typer
import typer.main
import yaml

from xscl.cli.app import app

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
