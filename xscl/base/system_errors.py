"""Errors of the surroundings: disks, the database, Java.  Each gets a name, and a hint what to do.

Transient errors (``PASSES``) are tried again by processes without end, with growing pauses (``Patience``).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from xscl.base.atomic_files import DISK_FULL
from xscl.base.errors import CatalogError, EngineError, XsclError
from xscl.base.version import VERSION

__all__ = [
    "FAULTS",
    "PASSES",
    "Patience",
    "catalog_fault",
    "damage_told",
    "file_fault",
    "named_file_faults",
    "spark_reason",
    "worker_fault",
]

PASSES = frozenset({"XSCL_CATALOG_BUSY", "XSCL_CATALOG_UNREACHABLE", "XSCL_DISK_FULL", "XSCL_SPARK_GONE", "XSCL_BATCH"})
"""Conditions that may be gone after a while."""
FAULTS = PASSES | {
    "XSCL_CATALOG_GONE",
    "XSCL_CATALOG_DAMAGED",
    "XSCL_FILE_DAMAGED",
    "XSCL_FILE_MISSING",
    "XSCL_FILE_NOT_SHARED",
    "XSCL_JAVA_MEMORY",
    "XSCL_WORKER",
}
"""Conditions that no document and no query can be blamed for."""
_UNKNOWN, _TRIES = ("XSCL_BATCH", "XSCL_INTERNAL"), 5
"""Conditions of batches that fail for a reason nobody here knows, and how often such a batch is tried."""
_AGAIN = "nothing was lost or done by halves; 'xscl run' goes on when it is run again"


# -- the catalogue ---------------------------------------------------------------------------------------------


def damage_told(error: sqlite3.DatabaseError | UnicodeDecodeError) -> str:
    """Return what SQLite says of damage, also where Python cannot decode it, because it quotes the damaged bytes."""
    return error.object.decode(errors="backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)


def _damaged(where: str, told: str) -> CatalogError:
    return CatalogError(
        "XSCL_CATALOG_DAMAGED",
        f"the catalogue {where} cannot be read: {told}",
        hint="stop what works on it, and bring it back from a backup; the files of the home are as they were",
    )


def catalog_fault(error: sa.exc.DBAPIError | UnicodeDecodeError, where: str) -> XsclError | None:
    """Make the error to raise for a database's error; None: the statement itself, or another, is at fault.

    ``where`` is the address of the catalogue, without a password.
    """
    if isinstance(error, UnicodeDecodeError):
        told = damage_told(error)
        return _damaged(where, told) if told.startswith("malformed database schema") else None
    told = str(error.orig).strip().partition("\n")[0]
    if "NUL (0x00)" in told:
        return CatalogError("XSCL_BAD_REQUEST", "a text has the character U+0000, which the catalogue cannot hold")
    match _catalog_kind(error, told):
        case "busy":
            return CatalogError(
                "XSCL_CATALOG_BUSY",
                f"the catalogue could not be locked: {told}",
                hint="another process works on this home; try again when it is done",
            )
        case "full":
            return _disk_full(f"the catalogue {where} cannot be written: {told}")
        case "damaged" if (found := _OTHER_TABLES.search(told)) is not None:
            return CatalogError(
                "XSCL_CATALOG_VERSION",
                f"the catalogue {where} has not the tables of this version of xscl: {found[0]}",
                hint="write its events to a file with the version that made it ('xscl export --events FILE'), and "
                "ingest that file into a new home; 'xscl doctor' lists what is missing",
            )
        case "damaged":
            return _damaged(where, told)
        case "unreachable":
            return CatalogError(
                "XSCL_CATALOG_UNREACHABLE",
                f"the catalogue {where} does not answer: {told}",
                hint=f"look after its server, or its disk; {_AGAIN}",
            )
    return None


def _catalog_kind(error: sa.exc.DBAPIError, told: str) -> str | None:
    """Return the kind of a database's error, which tells what is ``told``; None: the statement itself is at fault."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        kind = _SQLITE.get(code & 0xFF)
    else:
        state = str(getattr(error.orig, "sqlstate", None) or "")
        kind = next((kind for start, kind in _SQLSTATES.items() if state.startswith(start)), None)
        # What the driver could not send has no state.
        if kind is None and (error.connection_invalidated or not state and isinstance(error, sa.exc.OperationalError)):
            kind = "unreachable"
    # What SQLite has no code of its own for: tables, columns or texts that are not as they were made.
    if code is not None and kind is None or code is None and isinstance(error.orig, sqlite3.Error):
        kind = "damaged" if _SQLITE_DAMAGED.search(told) else kind
    return kind


_OTHER_TABLES = re.compile(r"no such (table|column): ?\S*|table \S+ has no column named \S+")
_SQLITE_DAMAGED = re.compile(
    r"no such (table|column)|has no column named|malformed|Could not decode to UTF-8|file is not a database"
    r"|unsupported file format"
)
# Result codes of SQLite.
_SQLITE = {
    5: "busy",  # BUSY
    6: "busy",  # LOCKED
    8: "unreachable",  # READONLY
    10: "unreachable",  # IOERR
    11: "damaged",  # CORRUPT
    13: "full",  # FULL
    14: "unreachable",  # CANTOPEN
    26: "damaged",  # NOTADB
}
# Classes of SQL states, and single ones before their class.
_SQLSTATES = {
    "53100": "full",
    "53": "busy",
    "55P03": "busy",
    "40": "busy",
    "08": "unreachable",
    "57P": "unreachable",
    "58": "unreachable",
    "XX001": "damaged",
    "XX002": "damaged",
}


def _disk_full(what: str) -> EngineError:
    return EngineError("XSCL_DISK_FULL", what, hint=f"make room on the disk; {_AGAIN}")


# -- files -----------------------------------------------------------------------------------------------------


def file_fault(error: BaseException, root: Path) -> EngineError | None:
    """Make the error to raise for an error of a file in the home ``root``, or of a full disk; None: it is another."""
    text = str(error)
    if isinstance(error, OSError) and (error.errno in DISK_FULL or "No space left" in text):
        where = getattr(error, "filename", None) or root
        return _disk_full(f"{where} cannot be written: {error.strerror or text}")
    if "No space left on device" in text:
        return _disk_full(f"Spark cannot write: {text.strip().partition(chr(10))[0]}")
    if isinstance(error, FileNotFoundError) or _MISSING.search(text):
        found = re.search(re.escape(str(root)) + r"/[^\s'\"]+", text)
        path = found[0].rstrip(".,:;]") if found else getattr(error, "filename", None)
        if path is not None and Path(path).is_relative_to(root):
            if not isinstance(error, OSError) and Path(path).exists():
                return EngineError(
                    "XSCL_FILE_NOT_SHARED",
                    f"{path} is there for this process, and Spark's executors do not see it{_on_node(text)}",
                    hint="have every executor mount the home under the same path, or run Spark on this machine; the "
                    "home is sound, and 'xscl doctor' with --master or --remote looks at each node",
                )
            return EngineError(
                "XSCL_FILE_MISSING",
                f"{path} is missing, which the catalogue names",
                hint="bring it back from a backup, or 'xscl doctor --repair' goes on without what was in it",
            )
    of_arrow = type(error).__module__.startswith("pyarrow") or isinstance(error, OSError) and error.errno is None
    if of_arrow and _DAMAGED.search(text):
        return EngineError(
            "XSCL_FILE_DAMAGED",
            f"a file of the home {root} cannot be read: {text.strip().partition(chr(10))[0]}",
            hint="'xscl doctor --deep' says which; bring it back from a backup, or 'xscl doctor --repair --deep' "
            "goes on without what was in it",
        )
    return None


_MISSING = re.compile(
    r"PATH_NOT_FOUND|FileNotFoundException|FileNotFoundError|XSCL_FILE_MISSING|NoSuchFileException|does not exist"
)

# Arrow's words for Parquet files that are cut off or changed; it has no class of error for them.
_DAMAGED = re.compile(
    r"parquet|thrift|corrupt|decompress|end of stream|base64|\bpage\b|metadata|flatbuffer|magic", re.IGNORECASE
)


@contextmanager
def named_file_faults(root: Path) -> Iterator[None]:
    """Give errors of files of the home ``root`` their names."""
    try:
        yield
    except XsclError:
        raise
    except Exception as error:
        named = file_fault(error, root)
        if named is None:
            raise
        raise named from error


# -- Python workers of Spark -----------------------------------------------------------------------------------


def worker_fault(text: str) -> EngineError | None:
    """Make the error of a Python that executors cannot run, from Spark's message; None: that is not what failed."""
    if (found := _MODULE.search(text)) is not None:
        module = found[1].partition(".")[0]
        package = f"xscl {VERSION}" if module == "xscl" else f"{module}, which xscl {VERSION} needs,"
        return EngineError(
            "XSCL_WORKER",
            f"the Python of Spark's executors lacks a package: {found[0]}{_on_node(text)}",
            hint=f"install {package} for that Python on every machine (PYSPARK_PYTHON or spark.pyspark.python says "
            "which one it is), or send an environment along with spark.archives",
        )
    if (found := _PYTHON.search(text)) is not None:
        return EngineError(
            "XSCL_WORKER",
            f"Spark's executors cannot run the Python that they should: {found[0].strip()}",
            hint="install the Python version of this process on every machine, and name it in PYSPARK_PYTHON or "
            "spark.pyspark.python",
        )
    return None


def spark_reason(text: str) -> str:
    """Tell in one line why a job failed: the error that ends a worker's trace, or Spark's last cause or first line."""
    _, trace, rest = text.rpartition("Traceback (most recent call last):")
    found = _RAISED.search(rest) if trace else None
    if found:
        return found[0]
    causes = _CAUSE.findall(text)
    return causes[-1].strip() if causes else _CALLED.sub("", text.strip()).partition("\n")[0].strip()


def _on_node(text: str) -> str:
    """Return the node that a task told with its failure, for the end of a message."""
    found = _NODE.search(text)
    return f" ({found[0]})" if found else ""


_NODE = re.compile(r"^on node .+$", re.MULTILINE)
_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_PYTHON = re.compile(
    r"(?:\[?PYTHON_VERSION_MISMATCH|Python in worker has different version|Cannot run program \S*python)[^\n]*",
    re.IGNORECASE,
)
_CALLED = re.compile(r"\AAn error occurred while calling [^\n]*\n: ")
"""Begins what py4j says."""
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b[^\n]*", re.MULTILINE)


# -- going on --------------------------------------------------------------------------------------------------


class Patience:
    """Says how long to wait after a fault, and tells of it once.

    Args:
        say: shows a message.
        most_s: seconds between two tries at most.
        passes: conditions of faults that may be gone after a while.
    """

    def __init__(
        self,
        say: Callable[[str], None] = lambda text: None,
        *,
        most_s: float = 60.0,
        passes: frozenset[str] = PASSES,
    ) -> None:
        self._say = say
        self._passes = passes
        self._most_s = most_s
        self._failed = 0
        self._told: str | None = None

    def wait_s(self, error: BaseException) -> float | None:
        """Return the seconds until the next try after an error; None if another try would be in vain."""
        if not isinstance(error, XsclError) or error.condition not in self._passes:
            return None
        self._failed += 1
        if error.condition in _UNKNOWN and self._failed >= _TRIES:
            return None
        if error.condition != self._told:
            self._told = error.condition
            self._say(f"warning: {error}\n  it is tried again, with growing pauses")
        return min(self._most_s, 2.0 ** (self._failed - 1))

    def went_well(self) -> None:
        """Note that a try went well, and say so if tries before it failed."""
        if self._failed:
            self._say(f"it goes on after {self._failed} {'try' if self._failed == 1 else 'tries'}")
        self._failed, self._told = 0, None
