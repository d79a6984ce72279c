"""Taking in tables of databases that grow: what is above the last key, and the key with the rows in one transaction."""

from __future__ import annotations

from xscl.catalog.source_offsets import position_of
from xscl.ingest.row_format import RowFormat
from xscl.ingest.sql_tables import read_sql_table, shown_url, sql_source
from xscl.intake.intake import Intake, IntakeReport

__all__ = ["take_sql_table"]


def take_sql_table(intake: Intake, url: str, table: str, *, key: str, channel: str, how: RowFormat) -> IntakeReport:
    """Take the rows of a table or view that are above the last key taken (``ingest.sql_tables``).

    Raises:
        SourceError: the database, the table or a column is not there.
        DocumentError: the rows do not fit the channel as a whole; what was taken before stays taken.
    """
    with intake.catalog.read() as connection:
        position = position_of(connection, sql_source(shown_url(url), table, channel))
    return intake.take(read_sql_table(url, table, key=key, channel=channel, position=position, how=how))
