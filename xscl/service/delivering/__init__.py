"""Deliveries of matches: to webhooks and files.

* ``deliverer``: The deliverer: a thread that has deliveries go on as matches are committed
* ``files``: Files of deliveries: lines at the end of a file that another one follows by day and by size
* ``pages``: Pages of a delivery: the next matches behind a cursor, as lines of JSON
* ``sending``: Sending of one delivery: page after page to its target, each noted behind it, or put off
* ``webhooks``: Webhooks: requests that bring matches to an address, signed, and what their answers mean
"""
