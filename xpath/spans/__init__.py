"""Sets of conditions as spans of values, found for many rows in one pass over columns.

Modules in reading order:

* ``words``: words that sets of conditions seek in columns, and the values that have them
* ``tables``: sets of spans in arrays
* ``column_rows``: the rows of each column by the texts that they have there
* ``crossings``: rows that satisfy two entries of an alternative at once
* ``search``: the search for the sets of spans that many rows satisfy, over columns
* ``index``: sets of conditions that many rows satisfy, found in one pass over columns
"""
