"""Files of join state that went out of use stand with all others that did."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Move them to table ``old_files``; a row of ``state_files`` is in use."""
    gone = "select path, replaced from state_files where replaced is not null"
    op.execute(f"insert into old_files (path, replaced) {gone}")
    op.execute("delete from state_files where replaced is not null")
    op.drop_column("state_files", "replaced")
