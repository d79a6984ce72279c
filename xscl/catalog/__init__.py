"""The catalogue: tables, records, transactions, clocks, what is known of ids and feeds.

* ``catalog``: The catalogue
* ``clocks``: Clocks
* ``counters``: What is to be known of rows that are there no more (table ``totals``)
* ``event_counts``: Counting events by what the catalogue says, ids and ranges of ids together
* ``id_ranges``: Ids of rows that are kept as ranges
* ``memberships``: Streams of channels
* ``read_only``: Reading a SQLite database that this process may not write
* ``retained_from``: From which time on the events of channels are held and kept, as of the last commit
* ``source_offsets``: How far inputs that grow were taken in
* ``subscriptions``: Subscriptions in the catalogue
* ``suggestions``: Names that a person may have meant
* ``tables``: The tables of the catalogue, declared once (SQLAlchemy Core)
"""
