"""Records to events with offsets in the intake order; polling of feeds.

* ``checks``: Checks on single events: id, time and size, and their content against the columns of their channels
* ``data_frames``: Data frames and tables of other libraries as what the intake and the registry take
* ``events``: Taking in events: each gets its place, its identity and its time, and becomes a row
* ``feed_entries``: Feeds at intake: which entries of a feed its channel does not have yet, and what is remembered of
  them
* ``feed_memory``: The rows of feeds in the catalogue as intake reads and writes them, in its transaction
* ``feed_times``: Clocks of feeds in an intake's transaction (``--lateness auto``), and how far their channel is settled
  by them
* ``frame_intake``: DataFrames of Spark, taken in where they lie: executors check and write the partitions, and the
  driver sees no row
* ``heartbeats``: Heartbeats: at a place of the intake order, all events of a channel up to a time are in
* ``host_queue``: One request at a time to each host, spaced, and not before its time
* ``identity``: Identity of events: one ingested before, a version of one, a copy by another stream, or a new one
* ``inputs``: Sources as users name them, into records: paths, tables, data frames, databases
* ``intake``: Intake: events, registrations and drops get their offsets in the home's intake order
  (docs/explanation/time.md)
* ``jdbc``: Tables at JDBC URLs, which Spark reads
* ``new_events``: Rows of events that a transaction is going to write, and their table
* ``part_files``: Files in which tasks keep what they have checked, and the event files that are made of them with
  places
* ``part_intake``: Taking in parts of the input that tasks have read and checked: the driver gives places and settles
  ids
* ``part_pieces``: A part of the input as a task reads it: its records are checked as by the driver, and kept beside the
  home's files
* ``part_waves``: Waves of parts: tasks check some parts of the input while the driver decides on those before them
* ``placed_rows``: Rows with their places as the events of a file; nothing is asked of a home, so tasks do the same
* ``plain_events``: Runs of plain events: documents in a home without streams, with ids of their own
* ``polling``: One pass over the feeds that are due: many hosts at once, one request at a time to each, spaced
* ``pushes``: Events that several senders push at the same time, taken in one transaction
* ``record_runs``: Runs of records that are taken in together
* ``removals``: Removals take events out, at a place of the intake order (docs/explanation/time.md)
* ``report``: Counts of the records that were given to an intake
* ``row_batch``: Tables of rows into ids, times and cells, a column at a time; nothing is stored here
* ``row_changes``: Tables of rows that are changes: a column says of each row whether it comes or goes
  (``--op COLUMN``)
* ``row_columns``: Columns of tables of rows: checks of those that a caller names, and arrays of one piece
* ``row_digests``: Digests of many rows, a column at a time
* ``row_ids``: Ids of rows: read from a table, and compared with those that are there
* ``rows``: Tables of rows into the home, a column at a time: one file and one transaction take a chunk
* ``task_faults``: Failures of Spark while tasks take in inputs, by name and with what to do
* ``transaction``: The transaction of a chunk
* ``where``: The place where inputs are read and checked: this process, or tasks of Spark, by counted work
* ``withdrawals``: Entries that their feeds withdraw: the items that they have become are removed (RFC 6721,
  ``deleted-entry``)
"""
