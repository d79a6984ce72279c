"""Migrations of the catalogue's schema, run by alembic when a catalogue of an earlier version is opened.

Revisions are numbered; the last number is ``xscl.tables.SCHEMA_VERSION``, which the catalogue keeps in table ``home``.
To add one: change ``xscl/tables.py``, raise ``SCHEMA_VERSION``, write ``versions/NNNN_what.py`` in the manner of those
that are there (``script.py.mako`` is its frame), and let ``tests/unit/xscl/test_migrations.py`` say whether tables and
revisions agree.  A revision never changes again once a version with it was published, so it spells its tables out.
"""
