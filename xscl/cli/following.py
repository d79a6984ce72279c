"""Following files for a service: additions are pushed, and this machine keeps how far each file went.

A position is written once the service has answered for everything before it.  Events that were sent and not yet noted
are sent again under the same ids, and are known then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from xscl.base.atomic_files import written_whole
from xscl.base.document_limits import Limits
from xscl.base.errors import EngineError
from xscl.base.system_errors import PASSES
from xscl.base.values import digest_text
from xscl.cli.client import Client
from xscl.cli.options import complain
from xscl.cli.pushing import Pusher
from xscl.ingest.following import FilePosition
from xscl.ingest.records import Position, Record
from xscl.intake.report import IntakeReport

__all__ = ["AWAY", "FollowedService"]

AWAY = PASSES | {"XSCL_BUSY", "XSCL_NO_ANSWER", "XSCL_TOO_MANY_REQUESTS"}
"""Conditions of a service that may be there again after a while."""


class FollowedService:
    """A service as the taker of what is followed, and the folder of its positions."""

    def __init__(self, client: Client, limits: Limits) -> None:
        """Make the folder.

        Raises:
            EngineError: ``XSCL_CANNOT_WRITE``.
        """
        self._client = client
        self._limits = limits
        self._folder = _state_folder() / digest_text(client.url)[:32]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                "XSCL_CANNOT_WRITE",
                f"{self._folder}: {error.strerror}",
                hint="XDG_STATE_HOME names another folder for notes on how far files were sent",
            ) from None

    def take(self, records: Iterable[Record], /) -> IntakeReport:
        """Push records in their order, and keep the positions among them."""
        pusher = Pusher(self._client, self._limits, self._put)
        for record in records:
            if not pusher.take(record):
                pusher.refuse(record)
        pusher.send()
        return pusher.report

    def positions(self, start: str, /) -> dict[str, str]:
        """Return the positions that are kept of inputs whose names start with a text."""
        kept: dict[str, str] = {}
        for file in sorted(self._folder.glob("*.json")):
            try:
                found = json.loads(file.read_bytes())
                FilePosition.of(found["position"])
                source, position = str(found["source"]), str(found["position"])
            except (ValueError, KeyError, TypeError) as error:
                complain(f"{file}: it cannot be read ({error}); its file is sent from the start, and known by its ids")
                continue
            if source.startswith(start):
                kept[source] = position
        return kept

    def _put(self, position: Position) -> None:
        text = json.dumps({"source": position.source, "position": position.position})
        with written_whole(self._folder / f"{digest_text(position.source)[:32]}.json") as file:
            file.write(f"{text}\n".encode())


def _state_folder() -> Path:
    """Return the folder of notes on what was sent."""
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given else Path.home() / ".local" / "state") / "xscl" / "follow"
