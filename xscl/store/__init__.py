"""The files of a home: events, join state, results, and which of them are in use.

* ``event_content``: The content of events as files keep it
* ``event_files``: The Parquet files of events
* ``event_lines``: Events of a home as lines of an event file
* ``event_retention``: How long a channel's events are held, and from which time on they are kept
* ``home``: A home
* ``inventory``: The files that a home's catalogue names, one by one, and what it says of them
* ``join_state``: The join state of a home
* ``late_events``: Late events
* ``orphans``: Files that no row names
* ``parquet``: Parquet files, read without ``pyarrow.dataset`` and without ``to_numpy``
* ``results``: Stored matches
* ``retired_files``: Files and folders that went out of use
* ``tiers``: Tiers of log-structured files
"""
