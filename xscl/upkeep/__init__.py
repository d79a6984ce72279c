"""Upkeep of homes: compaction, retention, integrity checks, repair, backup.

* ``archive_export``: Export of a home as one tar file
* ``archive_import``: Import of a home from an archive that a stranger may have made
* ``archive_manifest``: Manifest of an archive
* ``catalog_copy``: A catalogue's rows in another database
* ``catalog_rows``: Upkeep of the catalogue
* ``derived_rows``: Rows that follow from the texts of queries
* ``doctor``: ``xscl doctor``
* ``event_export``: Export of a home's intake as an event file
* ``events``: Upkeep of the files of events
* ``file_rows``: Rows of the catalogue that repeat what files hold
* ``health``: Integrity check of a home
* ``received_catalog``: A catalogue that a stranger sent
* ``repair``: ``xscl doctor --repair``
* ``results``: Upkeep of results
* ``row_checks``: Checks of single values of the catalogue
* ``state_rebuild``: Join state that was lost, made again
* ``upkeep``: Upkeep of a home between batches, so that its size levels off over years
"""
