"""Upkeep of homes: compaction, retention, integrity checks, repair, backup.

* ``archive_export``: Export of a home as one tar file
* ``archive_import``: Import of a home from an archive that a stranger may have made
* ``archive_manifest``: Manifest of an archive: the versions that made it, and counts of what is in it
* ``catalog_copy``: A catalogue's rows in another database
* ``catalog_rows``: Upkeep of the catalogue: rows that nothing needs any longer go, and their counts are kept in table
  ``totals``
* ``derived_rows``: Rows that follow from the texts of queries
* ``doctor``: ``xscl doctor``: checks of everything that xscl needs, with advice
* ``event_export``: Export of a home's intake as an event file: events, registrations, drops, flushes, heartbeats and
  removals in intake order
* ``events``: Upkeep of the files of events: old events leave, and small files become large ones
* ``file_rows``: Rows of the catalogue that repeat what files hold
* ``health``: Integrity check of a home: its files, its tables, and the rows that follow from texts
* ``received_catalog``: A catalogue that a stranger sent
* ``repair``: ``xscl doctor --repair``: a home is brought back to the state that its catalogue tells
* ``results``: Upkeep of results: folders of many batches become one, and matches with an event that is gone leave
* ``row_checks``: Checks of single values of the catalogue: types, bounds, JSON, paths, as this program writes them
* ``state_checks``: Checks of files of join state, for each kind in its own way
* ``state_rebuild``: Join state that was lost, made again: the events that are there are walked for all live queries
* ``upkeep``: Upkeep of a home beside batches, so that its size levels off over years
"""
