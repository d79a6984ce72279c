"""The folder of a home that nobody names."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.base.home_folders import default_home


@pytest.mark.parametrize(("named", "folder"), [("", "xscl-home"), (None, "xscl-home"), ("/srv/home", "/srv/home")])
def test_an_empty_variable_names_no_home(monkeypatch: pytest.MonkeyPatch, named: str | None, folder: str) -> None:
    if named is None:
        monkeypatch.delenv("XSCL_HOME", raising=False)
    else:
        monkeypatch.setenv("XSCL_HOME", named)
    assert default_home() == Path(folder)
