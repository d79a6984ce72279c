"""Records to events with offsets in the intake order; polling of feeds.

* ``checks``: Checks on a single event
* ``data_frames``: Data frames and tables of other libraries as records and texts
* ``events``: Events into the home, one by one
* ``feed_entries``: Feeds at intake
* ``feed_memory``: The rows of feeds in the catalogue as intake reads and writes them, in its transaction
* ``host_queue``: One request at a time to each host, spaced, and not before its time
* ``identity``: Identity of events
* ``inputs``: Sources as users name them, into records
* ``intake``: Intake of records of all kinds, in chunks
* ``jdbc``: Tables at JDBC URLs, which Spark reads
* ``polling``: One pass over the feeds that are due
* ``report``: Counts of the records that were given to an intake
* ``row_batch``: Tables of rows into ids, times and cells, a column at a time
* ``row_columns``: Columns of tables of rows
* ``row_ids``: Ids of rows
* ``rows``: Tables of rows into the home
* ``transaction``: The transaction of a chunk
"""
