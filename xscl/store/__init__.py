"""The files of a home: events, join state, results, and which of them are in use.

* ``compaction``: Compaction: files in use as a value, and which of them are to be written as one
* ``event_content``: The content of events as files keep it
* ``event_files``: The Parquet files of events
* ``event_lines``: Events of a home as lines of an event file
* ``event_parts``: Events of a channel that come after a place of the intake order, or were published after one
* ``event_retention``: Retention of events: bounds from which on a channel's events are held, and kept
* ``event_spans``: Spans of event files: between which numbers and times the events of a file lie
* ``home``: A home: the folder with the catalogue and the files that it names
* ``home_rows``: Rows about the home itself, as events of its own channels
* ``inventory``: The files that a home's catalogue names, one by one, and what it says of them
* ``join_state``: The join state of a home: the files of witness rows and rows of links that later events may still
  join
* ``kept_rows``: Rows of join state that are kept: counted by row groups, or read one by one
* ``late_events``: Late events: which there are, and asking for them to be taken again (docs/explanation/time.md)
* ``orphans``: Files that no row names: what processes left that ended while they wrote, removed before the first
  batch
* ``parquet``: Parquet files, read without ``pyarrow.dataset`` and without ``to_numpy``
* ``results``: Stored matches: combinations of documents by columns, and what the class of each means for queries
* ``retired_files``: Files and folders that went out of use: they stay for a while, because someone may be reading
  them
* ``served``: The file in a home that tells of the service that has it open
* ``state_files``: Files of join state: witness rows, and rows of links, as Parquet
* ``state_merges``: Merges of join state: small files become large ones, in a thread beside the batch that goes on from
  them
* ``taken_events``: Events of a batch in memory: rows that many ask about are read once
* ``watermarks``: Clocks and watermarks of channels after a batch
"""
