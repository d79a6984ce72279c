"""Import of a home from an archive that a stranger may have made.

Only plain files with names of a home are unpacked, as many as the manifest says, into a folder beside the home.  All
is checked there, and the folder becomes the home in one step.

``tarfile`` would read headers of any size into memory (long names, extended headers), so members are read here.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import sqlalchemy as sa

from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.home_folders import HOME_FOLDERS
from xscl.base.locks import try_lock
from xscl.base.parquet_bounds import excess
from xscl.base.sealed import LIST, damaged_files
from xscl.catalog.catalog import Catalog, open_catalog
from xscl.catalog.tables import METADATA
from xscl.store.home import Home, open_home
from xscl.store.inventory import FOLDERS, files_of, is_inside, named_files
from xscl.upkeep.archive_manifest import CATALOG, MANIFEST, Packed, bad_archive, read_manifest
from xscl.upkeep.catalog_copy import copy_to_catalog
from xscl.upkeep.received_catalog import BadCatalogError, copy_received
from xscl.upkeep.state_checks import wrong_state_file, wrong_state_rows

__all__ = ["import_home"]

_MOST_MANIFEST = 1 << 20
_PART = 1 << 20
_BLOCK = 512
_BAD_BYTES = (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError)
"""Errors of reading a damaged archive."""


def import_home(root: str | Path, stream: BinaryIO, catalog_url: str | None = None) -> Packed:
    """Make a home of an archive.

    Args:
        root: the home's folder, which is not there yet or empty.
        stream: the archive.
        catalog_url: SQLAlchemy URL of a database without a catalogue; by default a SQLite file in the home.

    Raises:
        CatalogError: ``XSCL_HOME_NOT_EMPTY``; ``XSCL_BAD_ARCHIVE``: it is damaged, cut off, or none;
            ``XSCL_CATALOG_VERSION``: another version of xscl made it.  Nothing is left behind then.
    """
    path = Path(root).resolve()
    _require_empty(path)
    with _staging(path) as staged:
        packed = _unpack(stream, staged)
        step("import.unpacked")
        _check_catalog(staged)
        opened = _opened(staged)
        try:
            _check_files(opened)
            step("import.checked")
            if catalog_url is None:
                _settle(opened.catalog)
            else:
                _move_catalog(opened.catalog, catalog_url, staged, path)
        finally:
            opened.catalog.close()
        if catalog_url is None:
            step("import.rename")
            staged.rename(path)
            step("import.renamed")
    return packed


def _opened(staged: Path) -> Home:
    """Open the home that was unpacked."""
    try:
        opened = open_home(staged)
        with opened.catalog.read() as connection:
            there = set(sa.inspect(connection).get_table_names())
        if missing := METADATA.tables.keys() - there:
            opened.catalog.close()
            raise bad_archive(f"its catalogue lacks {', '.join(sorted(missing))}")
    except sa.exc.SQLAlchemyError as error:
        raise bad_archive(f"its catalogue is none of this program: {str(error).splitlines()[0]}") from None
    return opened


def _require_empty(path: Path) -> None:
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CatalogError(
                "XSCL_HOME_NOT_EMPTY",
                f"there is something at {path}; an import makes a home of its own",
                hint="give another --home",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError("XSCL_NO_HOME", f"no home can be made at {path}: {error.strerror}") from None


@contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """Make a folder beside the home in which it is put together; folders of imports that were killed are removed."""
    for left in path.parent.glob(".*-import-*"):
        lock = try_lock(left / ".lock") if (left / ".lock").is_file() else None
        if lock is not None:
            shutil.rmtree(left, ignore_errors=True)
            lock.close()
        else:
            # One that was ended before it had a lock has nothing else.
            with suppress(OSError):
                left.rmdir()
    prefix = f".{path.name}-import-"
    outer = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    lock = try_lock(outer / ".lock")
    try:
        staged = outer / "home"
        for folder in HOME_FOLDERS:
            (staged / folder).mkdir(parents=True, mode=0o700)
        staged.chmod(0o700)
        yield staged
    finally:
        shutil.rmtree(outer, ignore_errors=True)
        if lock is not None:
            lock.close()


def _unpack(stream: BinaryIO, staged: Path) -> Packed:
    """Unpack a stream into a folder: the catalogue, and as many files of a home as the manifest says."""
    try:
        with gzip.GzipFile(fileobj=stream) as unzipped:
            members = _Members(unzipped)
            name, size = members.next() or ("", 0)
            if name != MANIFEST or size > _MOST_MANIFEST:
                raise bad_archive(f"it does not begin with {MANIFEST}")
            packed = read_manifest(b"".join(members.content(size)))
            free = shutil.disk_usage(staged).free
            if packed.bytes > free:
                raise bad_archive(
                    f"it unpacks to {packed.bytes:,} bytes, and {free:,} are free at {staged.parent.parent}"
                )
            files = total = 0
            while (found := members.next()) is not None:
                name, size = found
                if name != CATALOG if not files else not is_inside(name):
                    raise bad_archive(f"{name!r} is no file of a home, or not in its place")
                files, total = files + 1, total + size
                if files > packed.files + 1 or total > packed.bytes:
                    raise bad_archive(f"{name} is more than its manifest says")
                _write(staged / name, members.content(size))
                step("import.file")
            if (files, total) != (packed.files + 1, packed.bytes):
                raise bad_archive("it ends before all files of its manifest have come")
    except _BAD_BYTES as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk, not of the archive
        raise bad_archive(str(error) or type(error).__name__) from None
    return packed


def _write(target: Path, content: Iterator[bytes]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    except (FileExistsError, NotADirectoryError):
        raise bad_archive(f"{target.name} comes twice, or below another file") from None
    with file:
        for part in content:
            file.write(part)


class _Members:
    """The members of a tar file, one after the other: plain files only, and nothing is read unasked."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def _read(self, size: int) -> bytes:
        found = self._stream.read(size)
        if len(found) < size:
            raise EOFError("it is cut off")
        return found

    def next(self) -> tuple[str, int] | None:
        """Return the name and size of the next member; None behind the last one, where only zeros may follow."""
        header = self._read(_BLOCK)
        if not header.strip(b"\0"):
            while part := self._stream.read(_PART):
                if part.strip(b"\0"):
                    raise bad_archive("more follows behind its end")
            return None
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        if not info.isreg() or info.size < 0:
            raise bad_archive(f"{info.name!r} is no plain file")
        return info.name, info.size

    def content(self, size: int) -> Iterator[bytes]:
        """Iterate over the bytes of a member; the caller reads all of them before it asks for the next member."""
        remaining = size
        while remaining:
            part = self._read(min(remaining, _PART))
            remaining -= len(part)
            yield part
        self._read(-size % _BLOCK)


def _check_catalog(staged: Path) -> None:
    """Put a catalogue of our making, with its checked rows, in the place of the received one."""
    received = staged.with_name("received.db")
    (staged / CATALOG).rename(received)
    try:
        copy_received(received, staged / CATALOG)
    except BadCatalogError as error:
        raise bad_archive(str(error)) from None
    received.unlink()


def _check_files(opened: Home) -> None:
    """Refuse files that are missing, were changed, would unpack hugely, or are not named."""
    root = opened.root
    unnamed = {file for folder in FOLDERS for file in (root / folder).rglob("*") if file.is_file()}
    with opened.catalog.read() as connection:
        for file in named_files(connection):
            full = root / file.path
            if not full.exists():
                raise bad_archive(f"{file.path}, which its catalogue names, is not in it")
            for path, why in damaged_files(full, deep=True):
                raise bad_archive(f"{path.relative_to(root)} is {why}")
            for name in files_of(root, file.path):
                unnamed.discard(root / name)
                if name.endswith(f"/{LIST}"):
                    continue
                of_state = file.kind not in ("events", "results")
                why_not = wrong_state_file(root / name, file.kind) if of_state else excess(root / name)
                if why_not is not None:
                    raise bad_archive(f"{name}: {why_not}")
        for wrong in wrong_state_rows(connection, root):
            raise bad_archive(wrong)
    for path in sorted(unnamed):
        raise bad_archive(f"its catalogue does not name {path.relative_to(root)}")


def _settle(catalog: Catalog) -> None:
    """Have all of the catalogue in its one file."""
    with catalog.engine.connect() as connection:
        connection.exec_driver_sql("pragma wal_checkpoint(truncate)")


def _move_catalog(source: Catalog, url: str, staged: Path, path: Path) -> None:
    """Put the catalogue into a database that has none, and the home in its place."""
    target = _empty_database(url)
    try:
        with target.exclusive() as connection:
            if target.version(connection) is not None:
                raise _has_catalog(target)
            copy_to_catalog(source, connection)
            source.close()
            for file in staged.glob(f"{CATALOG}*"):
                file.unlink()
            step("import.rename")
            staged.rename(path)
            try:
                step("import.renamed")
                connection.commit()
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
    finally:
        target.close()
    open_catalog(url, folder=path).close()


def _empty_database(url: str) -> Catalog:
    try:
        target = Catalog(sa.create_engine(url))
        with target.read() as connection:
            if target.version(connection) is not None:
                raise _has_catalog(target)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise CatalogError(
            "XSCL_NO_CATALOG",
            f"no catalogue can be made there: {getattr(error, 'orig', None) or error}",
            hint="for example postgresql+psycopg://user@host/database",
        ) from None
    return target


def _has_catalog(target: Catalog) -> CatalogError:
    url = target.engine.url
    target.close()
    return CatalogError(
        "XSCL_HOME_NOT_EMPTY", f"there is a catalogue in {url} already", hint="give another database in --catalog"
    )
