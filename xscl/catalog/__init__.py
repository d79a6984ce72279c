"""The catalogue: tables and their owner modules, records, transactions and clocks.

* ``absences``: Queries as those of absence are read: all once, and then what has changed since
* ``batches``: Batches: the one module that writes table ``batches``
* ``catalog``: The catalogue: channels, queries, templates and what the home has taken in, in a SQL database by
  SQLAlchemy Core
* ``channels``: Channels and their streams: the one module that writes tables ``channels`` and ``streams``
* ``clocks``: Clocks: what counts as the time of a channel, and what is late by it (docs/explanation/time.md, Clocks
  and lateness)
* ``counters``: Counts that outlive the rows that they are of (table ``totals``)
* ``deliveries``: Deliveries of matches and what was given up: the one module that writes tables ``deliveries`` and
  ``dead_letters``
* ``event_counts``: Counting events by what the catalogue says, ids and ranges of ids together; no file is read
* ``event_places``: Places of the events of one channel in the intake order, by what the catalogue says
* ``events``: Events: the one module that writes tables ``intake_files``, ``event_ids`` and ``row_ranges``
* ``feed_clocks``: Clocks of feeds in channels with ``--lateness auto``: the one module that writes table
  ``feed_clocks``
* ``feeds``: Feeds and the hosts they come from: the one module that writes tables ``feeds`` and ``hosts``
* ``groups``: Groups of queries, instances, templates, variables and guards: the one module that writes their tables
* ``home_channels``: Channels that tell of the home itself: their columns, and whether a query reads them
* ``id_ranges``: Ids of rows that are kept as ranges
* ``insertions``: Adding many rows at once, as tuples
* ``intake_order``: The intake order: the one module that writes tables ``home``, ``flushes`` and ``heartbeats``
* ``kept_groups``: Compiled groups, kept in a file from process to process
* ``late``: Late and rejected events: the one module that writes tables ``late`` and ``rejected``
* ``memberships``: Streams of channels: events of one shape that come by several ways, and which of them each event
  came by
* ``parts``: Parts of groups about absence, steps and windows: the one module that writes table ``parts``
* ``prepared``: Statements of SQL that are made once: making a small one takes four times as long as executing it
* ``queries``: Registered queries: the one module that writes table ``queries``
* ``query_state``: State of the queries: while it is the same, what a process remembers of them is what the catalogue
  says
* ``quotas``: Quotas of a home: the one module that writes table ``quotas``
* ``read_only``: Reading a SQLite database that this process may not write
* ``records``: Records of the catalogue: channels, streams and queries as its rows have them
* ``removals``: Removals of events: the one module that writes table ``removals``
* ``retained_from``: The times from which on the events of channels are held and kept, as of the last commit
* ``retractions``: Matches that were taken back: the one module that writes table ``retractions``
* ``source_offsets``: Offsets up to which growing inputs were ingested; written in the transaction of their events
* ``state_files``: Files of the home that batches name and retire
* ``steps``: Groups of queries with steps, and who reads them
* ``stored_json``: JSON in columns of the catalogue: types of its values, and reading it
* ``subscriptions``: Subscriptions in the catalogue: adding, changing, and what a poll leaves behind
* ``suggestions``: Names that a person may have meant
* ``tables``: The tables of the catalogue, declared once (SQLAlchemy Core)
* ``tokens``: Tokens of the service: the one module that writes table ``tokens``
* ``windows``: Groups of queries with windows of matches, and who reads them
"""
