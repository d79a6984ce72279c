"""A home: the folder with the catalogue and the files that it names.

    catalog.db      the catalogue (unless another database is given)
    events/         what was taken in, in intake order: one Parquet file an intake, or merged of several
    witness/        join state: witness rows, rows of links, and how long they are kept
    results/        rows of R_out and matches, one folder a batch, or merged for several
    programs/       what workers load, automata and programs by version; and compiled.jsonl, what groups were
                    compiled to, which may go at any time
    run.lock        held by the process that runs batches
    polling.lock    held by the process that polls the feeds
    service.json    address of the service that has the home open, which holds it meanwhile

A file counts only if the catalogue names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.home_folders import CATALOG_FILE, HOME_FOLDERS
from xscl.base.private import private_folder
from xscl.base.sealed import check_file, listed_files
from xscl.catalog.catalog import Catalog, address_of, open_catalog

__all__ = ["Home", "init_home", "open_home", "require_readable"]


@dataclass(frozen=True, slots=True)
class Home:
    """An open home."""

    root: Path
    catalog: Catalog

    def folder(self, name: str) -> Path:
        """Return one of the home's folders."""
        return self.root / name

    def paths(self, names: Sequence[str]) -> list[str]:
        """Return the absolute paths of files that the catalogue names, which are as they were written.

        Raises:
            EngineError: ``XSCL_FILE_MISSING``; ``XSCL_FILE_DAMAGED``.
        """
        return [str(check_file(self.root / name)) for name in names]

    def results(self, names: Iterable[str]) -> list[str]:
        """Return the absolute paths of the files in folders of results, which are as they were written.

        Raises:
            EngineError: ``XSCL_FILE_MISSING``; ``XSCL_FILE_DAMAGED``.
        """
        return [str(file) for name in names for file in listed_files(self.root / name)]


def _catalog_url(root: Path) -> str:
    return f"sqlite:///{root / CATALOG_FILE}"


def init_home(root: str | Path, catalog_url: str | None = None) -> Home:
    """Create a home, or complete one; what is there stays.  Nobody but the user can look into a new one.

    Raises:
        CatalogError: ``XSCL_NO_HOME``; ``XSCL_NO_CATALOG``: nothing is made where the catalogue's address is none.
    """
    path = Path(root).resolve()
    if catalog_url is not None:
        address_of(catalog_url)
    try:
        if not path.exists() or not any(path.iterdir()):
            private_folder(path)
        for folder in HOME_FOLDERS:
            private_folder(path / folder)
    except OSError as error:
        raise CatalogError("XSCL_NO_HOME", f"no home can be made at {root}: {error.strerror}") from None
    step("home.folders")
    catalog = open_catalog(catalog_url or _catalog_url(path), create=True, folder=path)
    if catalog_url is None:
        # SQLite gives the files beside it the modes that it has.
        for suffix in ("", "-wal", "-shm"):
            if (file := path / f"{CATALOG_FILE}{suffix}").exists():
                file.chmod(0o600)
    return Home(path, catalog)


def open_home(root: str | Path, catalog_url: str | None = None) -> Home:
    """Open a home that exists.

    Raises:
        CatalogError: ``XSCL_NO_HOME``; ``XSCL_HOME_CLOSED``: this user may not look into it; ``XSCL_CATALOG_VERSION``:
            another version of xscl made it.
    """
    path = Path(root).resolve()
    require_readable(path, catalog_url)
    missing = [folder for folder in HOME_FOLDERS if not (path / folder).is_dir()]
    if len(missing) == 1 or (missing and (path / CATALOG_FILE).exists()):
        raise CatalogError(
            "XSCL_NO_HOME",
            f"the home {root} lacks {' and '.join(f'its folder {folder}' for folder in missing)}",
            hint="bring it back from a backup; or 'xscl init' makes it, empty, and 'xscl doctor --repair' says what "
            "is lost",
        )
    if missing:
        raise CatalogError(
            "XSCL_NO_HOME",
            f"there is no xscl home at {root}",
            hint="create it with 'xscl init', or give --home",
        )
    return Home(path, open_catalog(catalog_url or _catalog_url(path), folder=path))


def require_readable(root: Path, catalog_url: str | None = None) -> None:
    """Refuse a home that this user may not read; nothing is said of one that is not there, and could be.

    Raises:
        CatalogError: ``XSCL_HOME_CLOSED``; ``XSCL_NO_HOME``: no folder can have such a name.
    """
    looked_at = (root, *(root / folder for folder in HOME_FOLDERS))
    try:
        closed = [folder for folder in looked_at if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)]
        catalog = root / CATALOG_FILE
        if catalog_url is None and catalog.is_file() and not os.access(catalog, os.R_OK):
            closed.append(catalog)
    except PermissionError:
        closed = [root]
    except OSError as error:
        # A name that is too long, or links in a circle.
        raise CatalogError("XSCL_NO_HOME", f"there can be no home at {root}: {error.strerror}") from None
    if closed:
        raise CatalogError(
            "XSCL_HOME_CLOSED",
            f"this user may not look into {closed[0]}",
            hint="work as its owner, or ask a service of the owner's: 'xscl serve', then --url",
        )
