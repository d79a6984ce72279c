"""Publishing in a batch: matches become events of channels, which later levels of the batch read.

* ``lateness``: Lateness of published documents
* ``documents``: Published documents: output documents of matches, as events of their channels
* ``rows``: Published rows: what SELECT shows of matches, as cells of the columns of a channel
* ``removals``: Removals of published documents: the matches that they were made of hold no longer
* ``publisher``: Publishing: matches of publishing queries become events of their channels
"""
