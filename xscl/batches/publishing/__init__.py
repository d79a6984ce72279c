"""Publishing in a batch: matches become events of channels, which later levels of the batch read.

* ``documents``: Published documents: output documents of matches, as events of their channels
* ``lateness``: Lateness of published documents
* ``publisher``: Publishing: matches of publishing queries become events of their channels
* ``removals``: Removals of published documents: the matches that they were made of hold no longer
* ``rows``: Published rows: what SELECT shows of matches, as cells of the columns of a channel
"""
