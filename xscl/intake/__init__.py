"""Records to events with offsets in the intake order; polling of feeds.

* ``checks``: What can be said of an event by itself, and of its content by what its channel takes
* ``data_frames``: Data frames and tables of other libraries as what the intake and the registry take
* ``events``: Taking in events one by one
* ``feed_entries``: Feeds at intake
* ``feed_memory``: The rows of feeds in the catalogue as intake reads and writes them, in its transaction
* ``host_queue``: One request at a time to each host, spaced, and not before its time
* ``identity``: Which event an event is
* ``inputs``: Sources as users name them, into records
* ``intake``: Taking in
* ``polling``: One pass over the feeds that are due
* ``report``: What became of the records that were given to an intake
* ``row_batch``: Tables of rows into ids, times and cells, a column at a time
* ``row_columns``: Columns of tables of rows
* ``row_ids``: Ids of rows
* ``rows``: Tables of rows into the home
* ``transaction``: The transaction of a chunk
"""
