"""The catalogue: tables, the module that writes each group of them, records, transactions and clocks.

* ``batches``: Batches
* ``catalog``: The catalogue
* ``channels``: Channels and their streams
* ``clocks``: Clocks
* ``counters``: What is to be known of rows that are there no more (table ``totals``)
* ``event_counts``: Counting events by what the catalogue says, ids and ranges of ids together
* ``events``: Events
* ``feeds``: Feeds and the hosts they come from
* ``groups``: Groups of queries, instances, templates and variables
* ``id_ranges``: Ids of rows that are kept as ranges
* ``intake_order``: The intake order
* ``late``: Late and rejected events
* ``memberships``: Streams of channels
* ``queries``: Registered queries
* ``read_only``: Reading a SQLite database that this process may not write
* ``records``: Records of the catalogue
* ``retained_from``: From which time on the events of channels are held and kept, as of the last commit
* ``source_offsets``: How far inputs that grow were taken in
* ``state_files``: Files of the home that batches name and retire
* ``subscriptions``: Subscriptions in the catalogue
* ``suggestions``: Names that a person may have meant
* ``tables``: The tables of the catalogue, declared once (SQLAlchemy Core)
"""
