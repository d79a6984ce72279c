"""Homes that earlier versions made, kept to test that this version takes them.

``0.1`` has queries of every kind; in ``0.1-moved`` are joins whose meta-variables that version put in another order.
``schema-7`` has what ``home_of_schema_7`` says; versions of that schema did not answer queries from what was held.
``schema-8`` has what ``home_of_schema_8`` says; that schema told files of join state that went out of use from others.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).parent / "data"


def unpacked(version: str, folder: Path) -> Path:
    """The home of a version, unpacked into a folder."""
    with tarfile.open(DATA / f"home-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "home"


def matches_of(version: str) -> list[str]:
    """What ``match list --format ndjson`` printed with the version that made the home."""
    return (DATA / f"home-{version}-matches.ndjson").read_text(encoding="utf-8").splitlines()


def as_told_then(lines: Iterable[str]) -> list[str]:
    """Matches in JSON as versions printed them that did not know which ones they replace."""
    found = map(json.loads, lines)
    kept = ({name: value for name, value in match.items() if name != "replaces"} for match in found)
    return [json.dumps(match, ensure_ascii=False) for match in kept]
