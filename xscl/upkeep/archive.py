"""A home as one file: ``manifest.json``, ``catalog.db`` (SQLite, whatever the home has), and the files it names.

The catalogue is copied first.  What it names stays on disk for ten minutes after it goes out of use, so processes that
take in and run meanwhile disturb nobody; files that go soonest are packed first.

What is unpacked is a stranger's: only files that the manifest lists, in its order and sizes, are taken, and all of it
is checked in a folder beside the home, which becomes the home in one step.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import sqlalchemy as sa

from xscl.base.errors import CatalogError
from xscl.base.failpoints import step
from xscl.base.locks import try_lock
from xscl.base.parquet_bounds import excess
from xscl.base.sealed import damaged_files
from xscl.base.temporary import temporary_folder
from xscl.base.types import format_time, now_micros
from xscl.base.version import VERSION
from xscl.catalog.catalog import Catalog, open_catalog, require_version
from xscl.catalog.event_counts import event_count
from xscl.catalog.tables import BATCHES, METADATA, NEVER, QUERIES, SCHEMA_VERSION
from xscl.store.home import HOME_FOLDERS, Home, open_home
from xscl.store.inventory import FOLDERS, files_of, is_inside, named_files
from xscl.upkeep.catalog_copy import copy_to_catalog, copy_to_file, file_catalog
from xscl.upkeep.received_catalog import BadCatalogError, copy_received

__all__ = ["Packed", "export_home", "import_home"]

_FORMAT = 1
_MANIFEST = "manifest.json"
_CATALOG = "catalog.db"
_MOST_MANIFEST = 256 * 1024 * 1024
_PART = 1 << 20
_BLOCK = 512
_USTAR_MOST = 8**11
"""Bytes of a file from which on its size is not written in octal digits."""
_TRIES = 3
_BAD_BYTES = (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError)
"""What reading a damaged archive fails with."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What an archive holds."""

    events: int
    queries: int
    """Live ones."""
    batches: int
    files: int
    bytes: int
    """Of the files and the catalogue, unpacked."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    size: int
    sha256: str


# -- export ----------------------------------------------------------------------------------------------------


def export_home(home: Home, stream: BinaryIO) -> Packed:
    """Write a home to a stream as a tar file, compressed with gzip.

    Raises:
        CatalogError: ``XSCL_FILE_MISSING``: a file that the catalogue names is not there.
    """
    with temporary_folder("xscl-export") as folder:
        catalog = folder / _CATALOG
        for tried in range(1, _TRIES + 1):
            catalog.unlink(missing_ok=True)
            copy_to_file(home.catalog, catalog)
            step("export.catalog")
            try:
                entries, packed = _listed(home.root, catalog)
                break
            except _GoneError as gone:
                # Retention may remove files with their rows; then a new copy names others.
                if tried == _TRIES:
                    raise _missing(gone.path) from None
        manifest = {
            "format": _FORMAT,
            "xscl": VERSION,
            "schema": SCHEMA_VERSION,
            "made": format_time(now_micros()),
            "counts": {name: getattr(packed, name) for name in Packed.__slots__},
            "files": [{name: getattr(entry, name) for name in _Entry.__slots__} for entry in entries],
        }
        with (
            gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1, filename="") as zipped,
            tarfile.open(fileobj=zipped, mode="w|") as tar,
        ):
            text = json.dumps(manifest, indent=1).encode()
            _add(tar, _MANIFEST, len(text), io.BytesIO(text))
            for entry in entries:
                try:
                    with (catalog if entry.path == _CATALOG else home.root / entry.path).open("rb") as file:
                        _add(tar, entry.path, entry.size, file)
                except FileNotFoundError:
                    raise _missing(entry.path) from None
    return packed


class _GoneError(Exception):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def _missing(path: str) -> CatalogError:
    return CatalogError(
        "XSCL_FILE_MISSING",
        f"{path}, which the catalogue names, is not there",
        hint="export again; if it is missing then too, 'xscl doctor' says what is lost",
    )


def _listed(root: Path, path: Path) -> tuple[list[_Entry], Packed]:
    """The catalogue's copy, and the files that it names, in the order of packing."""
    with file_catalog(path) as catalog, catalog.read() as connection:
        named = list(named_files(connection))
        events = event_count(connection)
        queries = connection.scalar(sa.select(sa.func.count()).where(QUERIES.c.docid_until == NEVER)) or 0
        batches = connection.scalar(sa.select(sa.func.count()).select_from(BATCHES)) or 0
    entries = [_entry(path, _CATALOG)]
    for folder in FOLDERS:
        for file in named:
            if file.path.startswith(f"{folder}/"):
                found = files_of(root, file.path)
                # A batch that found nothing may have no folder.
                if not found and (file.rows or file.kind != "results"):
                    raise _GoneError(file.path)
                entries += [_entry(root / name, name) for name in found]
    size = sum(entry.size for entry in entries)
    return entries, Packed(events, queries, batches, len(entries) - 1, size)


def _entry(full: Path, path: str) -> _Entry:
    digest, size = hashlib.sha256(), 0
    try:
        with full.open("rb") as file:
            while part := file.read(_PART):
                digest.update(part)
                size += len(part)
    except FileNotFoundError:
        raise _GoneError(path) from None
    return _Entry(path, size, digest.hexdigest())


def _add(tar: tarfile.TarFile, name: str, size: int, content: BinaryIO) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    tar.format = tarfile.USTAR_FORMAT if size < _USTAR_MOST else tarfile.GNU_FORMAT
    tar.addfile(info, content)


# -- import ----------------------------------------------------------------------------------------------------


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
            raise _bad(f"its catalogue lacks {', '.join(sorted(missing))}")
    except sa.exc.SQLAlchemyError as error:
        raise _bad(f"its catalogue is none of this program: {str(error).splitlines()[0]}") from None
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
    """A folder beside the home in which it is put together; those of imports that were ended are removed."""
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


def _bad(what: str) -> CatalogError:
    return CatalogError(
        "XSCL_BAD_ARCHIVE",
        f"the archive cannot be taken: {what}",
        hint="nothing was made of it; take one that 'xscl export' wrote, whole",
    )


def _unpack(stream: BinaryIO, staged: Path) -> Packed:
    try:
        with gzip.GzipFile(fileobj=stream) as unzipped:
            members = _Members(unzipped)
            name, size = members.next()
            if name != _MANIFEST or size > _MOST_MANIFEST:
                raise _bad(f"it does not begin with {_MANIFEST}")
            entries, packed = _manifest(b"".join(members.content(size)))
            free = shutil.disk_usage(staged).free
            if packed.bytes > free:
                raise _bad(f"it unpacks to {packed.bytes:,} bytes, and {free:,} are free at {staged.parent.parent}")
            for entry in entries:
                found = members.next()
                if found != (entry.path, entry.size):
                    raise _bad(f"{entry.path} of {entry.size:,} bytes should follow, found {found[0]}, {found[1]:,}")
                _write(entry, members, staged)
                step("import.file")
            members.end()
    except _BAD_BYTES as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk, not of the archive
        raise _bad(str(error) or type(error).__name__) from None
    return packed


def _write(entry: _Entry, members: _Members, staged: Path) -> None:
    target = staged / entry.path
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("xb") as file:
        for part in members.content(entry.size):
            digest.update(part)
            file.write(part)
    if digest.hexdigest() != entry.sha256:
        raise _bad(f"{entry.path} is not as the manifest says (SHA-256)")


class _Members:
    """The members of a tar file, one after the other: plain files only, and nothing is read unasked."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def _read(self, size: int) -> bytes:
        found = self._stream.read(size)
        if len(found) < size:
            raise EOFError("it is cut off")
        return found

    def next(self) -> tuple[str, int]:
        """Name and size of the next one."""
        header = self._read(_BLOCK)
        if not header.strip(b"\0"):
            raise _bad("it ends before all files of its manifest have come")
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        if not info.isreg() or info.size < 0:
            raise _bad(f"{info.name!r} is no plain file")
        return info.name, info.size

    def content(self, size: int) -> Iterator[bytes]:
        """The next one's bytes, to be read before the one after it is asked for."""
        left = size
        while left:
            part = self._read(min(left, _PART))
            left -= len(part)
            yield part
        self._read(-size % _BLOCK)

    def end(self) -> None:
        """Nothing but zeros may follow; the checksum of the compression is checked."""
        if self._read(_BLOCK).strip(b"\0"):
            raise _bad("more follows than its manifest lists")
        while part := self._stream.read(_PART):
            if part.strip(b"\0"):
                raise _bad("more follows than its manifest lists")


def _manifest(text: bytes) -> tuple[list[_Entry], Packed]:
    try:
        found = json.loads(text)
        schema = int(found["schema"])
        entries = [_Entry(str(file["path"]), int(file["size"]), str(file["sha256"])) for file in found["files"]]
        counts = found["counts"]
        packed = Packed(**{name: int(counts[name]) for name in Packed.__slots__})
        version = int(found["format"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _bad(f"{_MANIFEST} is none: {type(error).__name__} {error}") from None
    if version > _FORMAT:
        raise CatalogError(
            "XSCL_CATALOG_VERSION",
            f"the archive has format {version}, this program knows {_FORMAT}",
            hint="another version of xscl made it; use that one",
        )
    require_version(schema)
    paths = [entry.path for entry in entries]
    if not paths or paths[0] != _CATALOG or len(set(paths)) < len(paths):
        raise _bad(f"{_MANIFEST} does not list {_CATALOG} and then files, each once")
    for entry in entries[1:]:
        if not is_inside(entry.path) or entry.size < 0:
            raise _bad(f"{entry.path!r} is no file of a home")
    if entries[0].size < 0 or sum(entry.size for entry in entries) != packed.bytes:
        raise _bad(f"sizes in {_MANIFEST} do not add up")
    return entries, packed


def _check_catalog(staged: Path) -> None:
    """Put a catalogue of our making, with its checked rows, in the place of the received one."""
    received = staged.with_name("received.db")
    (staged / _CATALOG).rename(received)
    try:
        copy_received(received, staged / _CATALOG)
    except BadCatalogError as error:
        raise _bad(str(error)) from None
    received.unlink()


def _check_files(opened: Home) -> None:
    """Refuse files that are missing, were changed, or would unpack hugely."""
    with opened.catalog.read() as connection:
        for file in named_files(connection):
            full = opened.root / file.path
            if not full.exists():
                raise _bad(f"{file.path}, which its catalogue names, is not in it")
            for path, why in damaged_files(full, deep=True):
                raise _bad(f"{path.relative_to(opened.root)} is {why}")
            for name in files_of(opened.root, file.path):
                if name.endswith(".parquet") and (why_not := excess(opened.root / name)) is not None:
                    raise _bad(f"{name}: {why_not}")


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
            for file in staged.glob(f"{_CATALOG}*"):
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
