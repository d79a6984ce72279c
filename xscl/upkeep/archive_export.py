"""Export of a home as one tar file: ``manifest.json``, ``catalog.db`` (SQLite, whatever the home has), named files.

The catalogue is copied first.  Files that it names stay on disk for ten minutes after they go out of use, so
processes that ingest and run meanwhile disturb nobody.  Files that go soonest are packed first.
"""

from __future__ import annotations

import errno
import gzip
import io
import tarfile
from pathlib import Path
from typing import BinaryIO

import sqlalchemy as sa

from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.temporary import temporary_folder
from xscl.catalog.event_counts import event_count
from xscl.catalog.tables import BATCHES, NEVER, QUERIES
from xscl.store.home import Home
from xscl.store.inventory import FOLDERS, files_of, named_files
from xscl.upkeep.archive_manifest import CATALOG, MANIFEST, Packed, manifest_text
from xscl.upkeep.catalog_copy import copy_to_file, file_catalog

__all__ = ["export_home"]

_USTAR_MOST = 8**11
"""Size in bytes from which on a tar header has no octal digits for it."""
_TRIES = 3

Sizes = dict[str, int]
"""Sizes of files by their paths in the archive."""


def export_home(home: Home, stream: BinaryIO) -> Packed:
    """Write a home to a stream as a tar file, compressed with gzip.

    Raises:
        CatalogError: ``XSCL_FILE_MISSING``: a file that the catalogue names is not there.
    """
    with temporary_folder("xscl-export") as folder:
        try:
            sizes, packed = _packing_list(home, folder / CATALOG)
            with (
                gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1, filename="") as zipped,
                tarfile.open(fileobj=zipped, mode="w|") as tar,
            ):
                text = manifest_text(packed)
                _add(tar, MANIFEST, len(text), io.BytesIO(text))
                for path, size in sizes.items():
                    with ((folder if path == CATALOG else home.root) / path).open("rb") as file:
                        _add(tar, path, size, file)
        except FileNotFoundError as error:
            raise CatalogError(
                "XSCL_FILE_MISSING",
                f"{error.filename}, which the catalogue names, is not there",
                hint="export again; if it is missing then too, 'xscl doctor' says what is lost",
            ) from None
    return packed


def _packing_list(home: Home, catalog: Path) -> tuple[Sizes, Packed]:
    """Copy the catalogue, and return its size and those of the files that it names, in the order of packing."""
    for tried in range(1, _TRIES + 1):
        catalog.unlink(missing_ok=True)
        copy_to_file(home.catalog, catalog)
        step("export.catalog")
        try:
            return _named_sizes(home.root, catalog)
        except FileNotFoundError:
            # Retention may remove files with their rows; then a new copy names others.
            if tried == _TRIES:
                raise
    raise AssertionError


def _named_sizes(root: Path, path: Path) -> tuple[Sizes, Packed]:
    with file_catalog(path) as catalog, catalog.read() as connection:
        named = list(named_files(connection))
        events = event_count(connection)
        queries = connection.scalar(sa.select(sa.func.count()).where(QUERIES.c.docid_until == NEVER)) or 0
        batches = connection.scalar(sa.select(sa.func.count()).select_from(BATCHES)) or 0
    sizes = {CATALOG: path.stat().st_size}
    for file in sorted(named, key=lambda file: FOLDERS.index(file.path.partition("/")[0])):
        found = files_of(root, file.path)
        # A batch that found nothing may have no folder.
        if not found and (file.rows or file.kind != "results"):
            raise FileNotFoundError(errno.ENOENT, "missing", str(root / file.path))
        sizes |= {name: (root / name).stat().st_size for name in found}
    return sizes, Packed(events, queries, batches, len(sizes) - 1, sum(sizes.values()))


def _add(tar: tarfile.TarFile, name: str, size: int, content: BinaryIO) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    tar.format = tarfile.USTAR_FORMAT if size < _USTAR_MOST else tarfile.GNU_FORMAT
    tar.addfile(info, content)
