"""From outside inputs to records: files, lines, feeds and rows become events.  Nothing is stored here.

Modules in reading order:

* ``records``: what readers yield besides ``xscl.types.Event``
* ``event_file``: lines of an event file → records
* ``dates``: the dates of feeds, read strictly
* ``markup``: HTML and XHTML of strangers → plain text and links
* ``item``: one normalised feed item and its document
* ``feed``: a feed's tree → two events for each entry
* ``broken_feed``: the same for feeds that are not well-formed XML, without the published entry
* ``rows``: a row's schema, and a row as a flat two-level document
* ``columns``: a table's columns as columns of such cells
* ``row_times``: the event times of a table's rows
* ``row_files``: CSV, JSON lines and Parquet → tables of rows
* ``sql_tables``: tables of databases with a growing key → tables of rows
* ``sources``: paths and standard input → records, by looking at the content
"""
