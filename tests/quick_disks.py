"""Files and catalogues of tests need not outlive a power cut, so that nothing waits for the disk."""

from __future__ import annotations

import os
from typing import Any

from xscl.catalog import catalog


def wait_for_no_disk() -> None:
    """Spare this process every wait until a file is on the disk; what it has written is there for all others."""
    setattr(os, "fsync", lambda file: None)  # noqa: B010
    settings = catalog._sqlite_settings

    def unsynchronised(connection: Any, record: object) -> None:
        # Before the settings, too, of which the first waits for a new file.
        connection.execute("pragma synchronous = off").close()
        settings(connection, record)
        connection.execute("pragma synchronous = off").close()

    setattr(catalog, "_sqlite_settings", unsynchronised)  # noqa: B010
