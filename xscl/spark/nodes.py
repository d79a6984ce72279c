"""Nodes: what the executors of a session have and see, told by a function that needs nothing of xscl there."""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscl.base.errors import EngineError
from xscl.base.private import private_folder
from xscl.base.version import VERSION
from xscl.spark.places import slots_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NEEDED", "Node", "look_at_nodes"]

NEEDED = ("pyarrow", "numpy", "lxml", "elementpath", "xxhash", "feedparser")
"""Packages that tasks import, beside xscl."""
_PAUSE_S = 0.5
"""Time that each task takes at least, so that all cores of all nodes get one."""
_QUIET_S = 10.0
"""The search ends when no new node was found for so long: executors start one after the other."""
_PATIENCE_S = 120.0
"""Time in which an executor takes a task."""


@dataclass(frozen=True, slots=True)
class Node:
    """An executor, as it tells of itself."""

    host: str
    folder: str
    """Folder in which it works, which tells executors of one host apart."""
    python: str
    """Path of its Python."""
    python_version: str
    packages: dict[str, str]
    """Versions of xscl and of what it needs; "" where one is missing."""
    home: str
    """Why it does not see the home; "" if it does."""
    writing: str
    """Why it cannot write there; "" if it can."""

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.host} ({self.folder})"

    def problems(self) -> list[tuple[str, str, str]]:
        """Return what keeps tasks from working there, each as condition, sentence and advice."""
        found = []
        lacking = [name for name, there in self.packages.items() if not there]
        if lacking:
            package = f"xscl {VERSION}" if "xscl" in lacking else ", ".join(lacking)
            found.append(
                (
                    "XSCL_WORKER",
                    f"its Python, {self.python}, lacks {', '.join(lacking)}",
                    f"install {package} for that Python, or send packages along with --conf spark.submit.pyFiles=… or "
                    "spark.archives=…",
                )
            )
        elif self.packages["xscl"] != VERSION:
            found.append(
                (
                    "XSCL_WORKER",
                    f"its Python, {self.python}, has xscl {self.packages['xscl']}, and this process {VERSION}",
                    f"install xscl {VERSION} there",
                )
            )
        if self.home:
            found.append(
                (
                    "XSCL_FILE_NOT_SHARED",
                    f"it does not see the home that this process sees: {self.home}",
                    "mount the home there under the same path; the home is sound",
                )
            )
        elif self.writing:
            found.append(
                (
                    "XSCL_READ_ONLY",
                    f"it cannot write in the home: {self.writing}",
                    "have executors run as the user whom the home belongs to, on a mount that takes writes",
                )
            )
        return found

    def differences(self) -> list[str]:
        """Return the packages that have another version than here."""
        there = ((name, found) for name, found in self.packages.items() if name in NEEDED and found)
        return [f"{name} {found}, here {version(name)}" for name, found in there if found != version(name)]


def look_at_nodes(session: SparkSession, home: Path | None) -> list[Node]:
    """Ask all executors of a session, sorted by their names.

    Args:
        session: classic or of Spark Connect.
        home: a home that they should see and write in.

    Raises:
        EngineError: ``XSCL_NO_SPARK``: no executor takes a task.
        PySparkException: an executor cannot run Python.
    """
    folder = None if home is None else home / f".doctor-{uuid.uuid4().hex}"
    token = uuid.uuid4().hex
    if folder is not None:
        private_folder(folder)
        (folder / "token").write_text(token, encoding="ascii")
    try:
        told = _in_time(lambda: _ask_nodes(session, _probe("" if folder is None else str(folder), token)))
        written = set() if folder is None else {path.name for path in folder.iterdir()}
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    nodes = [_node(each, written) for each in told.values()]
    return sorted(nodes, key=lambda node: node.name)


def _node(told: dict[str, Any], written: set[str]) -> Node:
    mark = told.pop("mark")
    if mark and mark not in written:
        told["home"] = "what it writes there does not come here"
    return Node(**told)


def _ask_nodes(session: SparkSession, probe: Callable[[int], str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Ask in rounds, each of a task for every core, until no new node is found for a while."""
    from pyspark.sql.functions import udf

    ask = udf(probe, "string", useArrow=False)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    newest = time.monotonic()
    while not found or time.monotonic() - newest < _QUIET_S:
        slots = slots_of(session)
        rows: Sequence[Any] = session.range(0, slots, 1, slots).select(ask("id").alias("told")).collect()
        for row in rows:
            told = json.loads(row["told"])
            name = (told["host"], told["folder"])
            newest = newest if name in found else time.monotonic()
            found.setdefault(name, told)
    return found


def _in_time(work: Callable[[], dict[tuple[str, str], dict[str, Any]]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what work gives, unless that takes too long: Spark waits for executors without end."""
    found: list[dict[tuple[str, str], dict[str, Any]]] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name="xscl-nodes")
    thread.start()
    thread.join(_PATIENCE_S)
    if failed:
        raise failed[0]
    if not found:
        raise EngineError(
            "XSCL_NO_SPARK",
            f"no executor took a task within {_PATIENCE_S:.0f} s",
            hint="look whether the master has workers with free cores, and with the memory of an executor "
            "(--conf spark.executor.memory=…)",
        )
    return found[0]


def _probe(folder: str, token: str) -> Callable[[int], str]:
    """Return the function that executors run; its code travels along, and needs nothing of xscl."""
    wanted, pause = NEEDED, _PAUSE_S

    def probe(number: int) -> str:
        import importlib
        import importlib.metadata
        import json
        import os
        import platform
        import socket
        import sys
        import time
        import uuid

        def has(name: str) -> str:
            try:
                module = importlib.import_module(name)
                return str(getattr(module, "__version__", "") or importlib.metadata.version(name))
            except Exception:  # whatever keeps a package from being used
                return ""

        def sees() -> str:
            try:
                with open(os.path.join(folder, "token"), encoding="ascii") as file:  # noqa: PTH118, PTH123
                    return "" if file.read() == token else f"{folder} has another content"
            except OSError as error:
                return f"{error.strerror}: {folder}"

        def writes() -> tuple[str, str]:
            name = uuid.uuid4().hex
            try:
                with open(os.path.join(folder, name), "x", encoding="ascii"):  # noqa: PTH118, PTH123
                    return name, ""
            except OSError as error:
                return "", str(error.strerror)

        began = time.monotonic()
        home = sees() if folder else ""
        mark, writing = writes() if folder and not home else ("", "")
        told = {
            "host": socket.gethostname(),
            "folder": os.getcwd(),  # noqa: PTH109
            "python": sys.executable,
            "python_version": platform.python_version(),
            "packages": {name: has(name) for name in ("xscl", *wanted)},
            "home": home,
            "mark": mark,
            "writing": writing,
        }
        time.sleep(max(0.0, pause - (time.monotonic() - began)))
        return json.dumps(told)

    return probe
