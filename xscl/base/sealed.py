"""Digests of files: a file that is not as it was written is found out by whoever reads it.

A file that the catalogue names has its digest in its name, so that whoever knows the name can tell.  A folder of
results has a list of its files with their digests, and the list has its own.  Small files for workers end with theirs.

Digests tell what was damaged, not what somebody forged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import xxhash

from xscl.base.errors import EngineError

__all__ = [
    "CHECKED_PAGES",
    "LIST",
    "PAGE_CHECKSUMS",
    "check_file",
    "damaged_file",
    "damaged_files",
    "listed_files",
    "missing_file",
    "read_whole",
    "seal",
    "seal_folder",
    "write_sealed",
    "write_whole",
]

LIST = "_files"
"""The list of a folder's files; readers of Parquet pass over names that begin so."""
PAGE_CHECKSUMS = {"write_page_checksum": True}
"""Option of pyarrow's writers: readers on other machines, which do not see whole files, check each page."""
CHECKED_PAGES = {"page_checksum_verification": True}
"""Option of pyarrow's readers: a disk may flip a bit in a file that this process has found as it was written."""
_PART = 1 << 20
_CHANGED = "is not as it was written: its checksum differs"
_DIGEST = 16
"""Hexadecimal digits of a digest."""
_SEALED = re.compile(rf"\.([0-9a-f]{{{_DIGEST}}})\.[a-z]+\Z")


# -- files that have their digest in their names -----------------------------------------------------------------


def seal(path: Path) -> Path:
    """Give a file that is written the name that it keeps: ``a.parquet`` becomes ``a.0123456789abcdef.parquet``."""
    digest = _digest(path)
    target = path.with_name(f"{path.stem}.{digest}{path.suffix}")
    path.replace(target)
    # Spark's own checksum is found by the name that the file had.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    _verified[target] = (digest, _state(target))
    return target


def write_sealed(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a file by ``write``, which gets ``path``, and seal it; a file that cannot be finished is removed."""
    try:
        write(path)
        return seal(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def check_file(path: Path) -> Path:
    """Return the path of a sealed file that is as it was written.

    Raises:
        EngineError: ``XSCL_FILE_MISSING``; ``XSCL_FILE_DAMAGED``.
    """
    found = _SEALED.search(path.name)
    _require(path, None if found is None else found[1])
    return path


# -- folders that have a list ------------------------------------------------------------------------------------


def seal_folder(folder: Path) -> None:
    """List the Parquet files of a folder and its folders, with their digests; a folder that is not there is made."""
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(file for file in folder.rglob("*.parquet") if not _is_hidden(file.relative_to(folder)))
    text = json.dumps({str(file.relative_to(folder)): _digest(file) for file in files}, indent=0)
    write_whole(folder / LIST, text.encode())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def listed_files(folder: Path) -> list[Path]:
    """Return the files of a sealed folder, all of them as they were written.

    Raises:
        EngineError: ``XSCL_FILE_MISSING``; ``XSCL_FILE_DAMAGED``.
    """
    files = _listed_digests(folder)
    for file, digest in files.items():
        _require(file, digest)
    return list(files)


def _listed_digests(folder: Path) -> dict[Path, str]:
    return {folder / name: digest for name, digest in json.loads(read_whole(folder / LIST)).items()}


def damaged_files(path: Path, *, deep: bool) -> Iterator[tuple[Path, str]]:
    """Iterate over what is wrong with a sealed file or folder: the file, and ``missing`` or what it is.

    Args:
        path: a file that has its digest in its name, or a folder that has a list.
        deep: read every byte; else only tell whether the files are there.
    """
    if path.is_dir():
        try:
            files = _listed_digests(path)
        except EngineError as error:
            yield path / LIST, "missing" if error.condition == "XSCL_FILE_MISSING" else _CHANGED
            return
    else:
        found = _SEALED.search(path.name)
        files = {path: "" if found is None else found[1]}
    for file, digest in files.items():
        try:
            if not file.is_file():
                yield file, "missing"
            elif deep and _digest(file) != digest:
                yield file, _CHANGED
        except OSError as error:
            yield file, f"cannot be read ({error.strerror})"


# -- small files, read and written whole -------------------------------------------------------------------------


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file that ends with its digest; it appears under its name when it is whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content + _digest_of(content))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_whole(path: Path) -> bytes:
    """Return the content of a file of ``write_whole``.

    Raises:
        EngineError: ``XSCL_FILE_MISSING``; ``XSCL_FILE_DAMAGED``.
    """
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        raise missing_file(path) from None
    content, digest = found[:-_DIGEST], found[-_DIGEST:]
    if digest != _digest_of(content):
        raise damaged_file(path)
    return content


# -- inside ------------------------------------------------------------------------------------------------------


def missing_file(path: Path) -> EngineError:
    """Make the error of a file that the catalogue names and that is not there."""
    return EngineError(
        "XSCL_FILE_MISSING",
        f"{path} is missing, which the catalogue names",
        hint="bring it back from a backup, or 'xscl doctor --repair' goes on without what was in it",
    )


def damaged_file(path: Path, why: str = _CHANGED) -> EngineError:
    """Make the error of a file of a home that was changed or cut off."""
    return EngineError(
        "XSCL_FILE_DAMAGED",
        f"{path} {why}",
        hint="bring it back from a backup, or 'xscl doctor --repair --deep' goes on without what was in it",
    )


def _require(path: Path, digest: str | None) -> None:
    """Refuse a file without this digest; one that was not touched since is not read again."""
    try:
        known = (digest, _state(path))
        if _verified.get(path) == known:
            return
        right = _digest(path) == digest
    except (FileNotFoundError, NotADirectoryError):
        raise missing_file(path) from None
    if not right:
        raise damaged_file(path)
    if len(_verified) >= _MOST_VERIFIED:
        _verified.clear()
    _verified[path] = known


_verified: dict[Path, tuple[str | None, tuple[int, ...]]] = {}
"""Digest and state of the files that this process has found as they were written."""
_MOST_VERIFIED = 65_536


def _state(path: Path) -> tuple[int, ...]:
    state = path.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while part := file.read(_PART):
            digest.update(part)
    return digest.hexdigest()


def _digest_of(content: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(content).encode()
