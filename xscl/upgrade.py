"""Bringing a home of an earlier version up to this one: schema, files, and what is derived from texts.

Everything happens in one transaction under the write lock, so that a home is of one version or the other.  It runs when
a catalogue is opened whose three numbers in table ``home`` are not this program's:

    schema_version    ``SCHEMA_VERSION``      migrations by alembic (``xscl/migrations``)
    files_version     ``FILES_VERSION``       ``xscl.file_upgrades``, one after another
    derived_version   ``DERIVED_VERSION``     ``xscl.rebuild``
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import Connection

from xscl.catalog import Catalog, Versions
from xscl.errors import CatalogError
from xscl.file_upgrades import FILE_UPGRADES
from xscl.rebuild import rebuild_derived
from xscl.tables import DERIVED_VERSION, FILES_VERSION, HOME, SCHEMA_VERSION

__all__ = ["upgrade"]


def upgrade(catalog: Catalog, folder: Path | None) -> None:
    """Bring a catalogue, and the files in the home's folder, up to this version.

    Raises:
        CatalogError: it is of a later version, a query of it cannot be taken by this one, or its files have to change
            and no folder is given.
    """
    with catalog.exclusive() as connection:
        versions = catalog.versions(connection)
        # Another process may have done it while this one waited for the lock.
        if versions is None or versions == Versions.here():
            return
        versions.refuse_later()
        if versions.schema < SCHEMA_VERSION:
            _migrate(connection, versions.schema)
        for number in range(versions.files, FILES_VERSION):
            if folder is None:
                raise CatalogError(
                    "XSCL_CATALOG_VERSION",
                    "the files of this catalogue's home are of an earlier version",
                    hint="open the home, with --home and --catalog",
                )
            FILE_UPGRADES[number](folder, connection, catalog.facts(connection))
        if versions.derived < DERIVED_VERSION:
            rebuild_derived(catalog, connection)
        connection.execute(
            HOME.update().values(
                schema_version=SCHEMA_VERSION, files_version=FILES_VERSION, derived_version=DERIVED_VERSION
            )
        )


def _migrate(connection: Connection, schema: int) -> None:
    # Imported here, because it takes longer than all else that opening a catalogue does.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "xscl:migrations")
    config.attributes["connection"] = connection
    # The catalogue's own number counts: catalogues are made without alembic.
    command.stamp(config, f"{schema:04d}", purge=True)
    command.upgrade(config, "head")
