"""A process that answers one query from held events, for the service: whoever asked may end the process.

The question comes as JSON; lines of matches and a line of notes go out, or one line with a problem.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from xscl.answers.once.once import query_once
from xscl.base.errors import XsclError
from xscl.base.own_functions import load_named
from xscl.base.settings import Settings
from xscl.base.terminal import give_bytes
from xscl.service.match_lines import match_lines
from xscl.store.home import open_home

__all__ = ["NO_MEMORY", "Question"]

NO_MEMORY = 3
"""Exit code of a process that lacks memory."""

_BEHIND = 5
"""Priority behind that of the service."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query to answer."""

    root: str
    """Folder of the home."""
    catalog: str
    """Address of its catalogue."""
    text: str
    name: str | None
    since: int | None
    """Members are of this event time or later, microseconds."""
    limit: int | None
    most_bytes: int
    """Memory that the answer may take."""
    functions: tuple[str, ...] = ()
    """Modules of functions, which the service was given."""

    def written(self) -> bytes:
        """Return the question as the process reads it."""
        return json.dumps(asdict(self)).encode()


def _answers(asked: Question) -> Iterator[str]:
    """Yield the lines of the answer, without their ends."""
    load_named(asked.functions)
    home = open_home(Path(asked.root), asked.catalog)
    answer = query_once(home, Settings(where="driver"), _no_session, asked.text, since=asked.since, name=asked.name)
    yield from (line.removesuffix("\n") for line in match_lines(islice(answer, asked.limit)))
    yield json.dumps({"end": None, "notes": list(answer.notes)}, ensure_ascii=False)


def _no_session() -> NoReturn:
    raise AssertionError("the process joins by itself")


def _main() -> None:
    asked = Question(**json.load(sys.stdin))
    os.nice(_BEHIND)
    resource.setrlimit(resource.RLIMIT_DATA, (asked.most_bytes, asked.most_bytes))
    try:
        for line in _answers(asked):
            give_bytes(line.encode())
    except XsclError as error:
        # Few answers need it.
        from xscl.service.problems import problem_of

        give_bytes(json.dumps({"problem": problem_of(error)}).encode())
    except (MemoryError, pa.ArrowMemoryError):
        sys.exit(NO_MEMORY)
    except RuntimeError as error:
        # Python raises no MemoryError where there is none for the stack of a thread.
        if "start new thread" not in str(error):
            raise
        sys.exit(NO_MEMORY)


if __name__ == "__main__":
    _main()
