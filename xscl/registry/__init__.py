"""Texts of queries and definitions of channels to rows of the catalogue.

* ``allowances``: Allowances of owners: how many live queries one may have, and what they may cost together
* ``canonical_text``: Canonical text of a query: the statements that register it in any home
* ``cel_schemas``: Attributes of streams that texts in CEL name: columns of rows, and what queries publish
* ``channel_names``: Names of elements and attributes that a channel's documents have, from its schema or from some
  documents held
* ``channels``: Creating, changing and dropping channels and their streams
* ``counted``: Row windows and published channels, which cannot be counted
* ``feed_lateness``: Declaring the lateness of single feeds, in channels with ``--lateness auto``
* ``levels``: Levels of consistency of queries about absence and with steps, as the catalogue keeps them
* ``loading``: Writing registered queries to the catalogue, many at a time
* ``memory``: Memory of what transactions have compiled and written
* ``notes``: Notes on queries that are taken
* ``publish_graph``: Checks of ``PUBLISH`` at registration
* ``publishing``: Queries of one transaction that publish: their channels, the rows that they publish, and refusals
* ``query_list``: Listing queries by name, in pages, with filters: made for catalogues of a million queries
* ``recompile``: Compiling registered queries again, as columns of their channels become known
* ``registrations``: Registrations of one transaction: texts checked, with notes on them, and names, channels and
  cycles refused
* ``registry``: Registration: texts to rows of the catalogue
* ``retracting``: Checks of channels whose documents may be removed again: who reads them takes matches back, too
* ``row_channels``: Channels that queries publish rows to: the first of these queries gives a channel its columns
* ``seen_channels``: Channels as the queries of one transaction see them, with those that these queries publish to
* ``settled_times``: A change of a channel's lateness, clock or idle time has a place of the intake order: that of a
  heartbeat
* ``sub_queries``: Sub-queries: queries in parentheses are registered as queries of their own, which publish to a
  channel of theirs
* ``unshared``: Queries set apart from others, where rules of sharing are left out: for benchmarks and tests
"""
