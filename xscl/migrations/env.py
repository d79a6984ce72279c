"""What alembic runs to get at the database: the connection that ``xscl.upgrade`` gives it, inside its transaction."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
