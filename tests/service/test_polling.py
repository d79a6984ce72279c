"""Feeds are asked on and on, whatever comes between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from http_service import SETTINGS, running
from waiting import wait_for

from xscl.engine import Engine
from xscl.intake.polling import PollReport
from xscl.service import runtime


def test_feeds_are_asked_behind_a_fault_that_nobody_foresaw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fetch(self: Engine, **given: Any) -> PollReport:
        asked.append(given)
        if len(asked) == 1:
            raise RuntimeError("no such luck")
        return PollReport()

    asked: list[object] = []
    monkeypatch.setattr(runtime, "_POLL_S", 0.01)
    monkeypatch.setattr(Engine, "fetch_feeds", fetch)
    with running(tmp_path / "home", replace(SETTINGS, fetch=True)):
        wait_for(lambda: len(asked) > 2)
    assert "feeds: RuntimeError('no such luck')" in capfd.readouterr().err
