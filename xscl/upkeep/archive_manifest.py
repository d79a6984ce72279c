"""Manifest of an archive: the versions that made it, and counts of what is in it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from xscl.base.errors import CatalogError
from xscl.base.types import format_time, now_micros
from xscl.base.version import VERSION
from xscl.catalog.catalog import require_version
from xscl.catalog.tables import SCHEMA_VERSION

__all__ = ["CATALOG", "MANIFEST", "Packed", "bad_archive", "manifest_text", "read_manifest"]

_FORMAT = 1
MANIFEST = "manifest.json"
"""First member of an archive."""
CATALOG = "catalog.db"
"""Second member of an archive."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Contents of an archive."""

    events: int
    queries: int
    """Live queries."""
    batches: int
    files: int
    """Files without the manifest and the catalogue."""
    bytes: int
    """Size of the files and the catalogue, unpacked."""


def bad_archive(fault: str) -> CatalogError:
    """Make the error of an archive that is damaged, cut off, or none."""
    return CatalogError(
        "XSCL_BAD_ARCHIVE",
        f"the archive cannot be taken: {fault}",
        hint="nothing was made of it; take one that 'xscl export' wrote, whole",
    )


def manifest_text(packed: Packed) -> bytes:
    """Return the manifest as JSON."""
    made = format_time(now_micros())
    manifest = {"format": _FORMAT, "xscl": VERSION, "schema": SCHEMA_VERSION, "made": made, "counts": asdict(packed)}
    return json.dumps(manifest, indent=1).encode()


def read_manifest(text: bytes) -> Packed:
    """Return the counts of a manifest.

    Raises:
        CatalogError: ``XSCL_BAD_ARCHIVE``; ``XSCL_CATALOG_VERSION``: another version of xscl made it.
    """
    try:
        found = json.loads(text)
        version, schema = int(found["format"]), int(found["schema"])
        packed = Packed(**{name: int(found["counts"][name]) for name in Packed.__slots__})
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise bad_archive(f"{MANIFEST} is none: {type(error).__name__} {error}") from None
    if version > _FORMAT:
        raise CatalogError(
            "XSCL_CATALOG_VERSION",
            f"the archive has format {version}, this program knows {_FORMAT}",
            hint="another version of xscl made it; use that one",
        )
    require_version(schema)
    return packed
