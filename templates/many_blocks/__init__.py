"""Queries of three and more blocks: rows of links become matches.

Modules in reading order:

* ``exchanges``: matches that have the same events with two of them in each other's place
* ``runs``: runs of rows of links
* ``state``: rows of links that partial matches meet
* ``chains``: partial matches of queries of many blocks, in columns
* ``once``: the same events in all orders, among which ``ONCE`` chooses
* ``plain_matches``: combinations of an assembly among whose orders nothing is chosen
* ``matches``: rows of links → rows of R_out and matches of queries of three and more blocks, or of two orders
"""
