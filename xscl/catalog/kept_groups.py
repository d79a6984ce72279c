"""Compiled groups, kept in a file from process to process; the texts of queries stay what counts.

A line of the file has the groups that one transaction made, or that one start compiled, as JSON, behind its digest.
Names of groups are digests of their texts and of what is known of their channels.  The digest of a line covers the
program that wrote it.  So a line of another version, or one that was cut off or changed, is as if it were not there,
and so is a group whose text or channels have changed: these are compiled again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from xscl.base.values import digest_text
from xscl.base.version import VERSION
from xscl.language.facts import ChannelFacts, asks_kind, deciding
from xscl.language.group_data import GroupForm, GroupReader, groups_text

__all__ = ["FEW", "FILE", "KeptGroups", "group_name"]

FILE = "compiled.jsonl"
"""Name of the file in a home's folder ``programs``."""
FEW = 100
"""Groups that are sooner compiled than looked for in the file, or written to it."""
_DIGEST = 32
"""Hexadecimal digits of a line's digest."""
_PARTS = ("xpath", "templates", "language")
"""Rooms whose code decides what texts are compiled to."""


def group_name(text: str, namespaces: str, known: Sequence[tuple[str, ChannelFacts | None]]) -> str:
    """Return the name of what a text is compiled to; ``known`` are its channels and streams, with their facts."""
    is_asked = asks_kind(text, [channel for channel, _ in known])
    deciders = (f"{channel}\0{_facts_text(deciding(facts, is_asked))}" for channel, facts in known)
    return digest_text(text, namespaces, *deciders)


@lru_cache(maxsize=1024)
def _facts_text(facts: ChannelFacts) -> str:
    sets = (sorted(each) for each in (facts.numeric, facts.texts, facts.times, facts.truths))
    return repr((facts.kind, *sets, facts.channel, facts.stream))


class KeptGroups:
    """The file of one home."""

    def __init__(self, folder: Path) -> None:
        """``folder`` holds the file, which need not be there."""
        self._path = folder / FILE

    def read(self, wanted: Collection[str]) -> tuple[dict[str, GroupForm], int]:
        """Return the groups with wanted names that the file has, and the number of all entries it has, sound or not."""
        found: dict[str, GroupForm] = {}
        entries, reader = 0, GroupReader()
        for data in self._lines():
            if data is None:
                entries += len(wanted) + 1
                continue
            with suppress(ValueError, TypeError, LookupError, RecursionError):
                entries += len(data["groups"])
                found.update(reader.read(data, wanted))
        return found, entries

    def _lines(self) -> Iterator[Mapping[str, list[object]] | None]:
        """Yield what the lines have; None for one that is not sound."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return
        for line in content.split(b"\n"):
            if line:
                with suppress(ValueError, RecursionError):
                    text = line[_DIGEST:].decode()
                    if line[:_DIGEST] == _digest(text).encode():
                        found = json.loads(text)
                        if isinstance(found, dict):
                            yield found
                            continue
                yield None

    def add(self, forms: Collection[tuple[str, GroupForm]]) -> None:
        """Add groups to the file; where nothing can be written, they are not kept."""
        if not forms:
            return
        with suppress(OSError, RecursionError):
            # By one call: a line is whole, or it is none.  The line before may lack its end.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(file, b"\n" + _line(forms))
            finally:
                os.close(file)

    def replace(self, forms: Collection[tuple[str, GroupForm]]) -> None:
        """Have the file hold these groups and no others."""
        unfinished = self._path.with_name(f".{FILE}.{os.getpid()}")
        with suppress(OSError, RecursionError):
            try:
                content = _line(forms)
                file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(file, "wb") as stream:
                    stream.write(content)
                unfinished.replace(self._path)
            finally:
                unfinished.unlink(missing_ok=True)


def _line(forms: Iterable[tuple[str, GroupForm]]) -> bytes:
    text = groups_text(forms)
    return f"{_digest(text)}{text}\n".encode()


def _digest(text: str) -> str:
    return digest_text(_program(), text)


@lru_cache(maxsize=1)
def _program() -> str:
    """Return a digest of the code that compiles, so that a changed program never takes what another one compiled."""
    rooms = Path(__file__).parents[1]
    files = sorted(file for part in _PARTS for file in (rooms / part).rglob("*.py"))
    return digest_text(VERSION, *(f"{file.relative_to(rooms)}\0{file.read_text(encoding='utf-8')}" for file in files))
