"""Witness rows of some documents in order of their values, never changed.

Modules in reading order:

* ``mapped_columns``: columns in a file that is mapped into memory, and never read as a whole
* ``run``: witness rows of some documents in order of their values, never changed
* ``making``: runs of witness rows in any order, or of columns in order
* ``files``: files of runs, memory-mapped and shared by processes
* ``merging``: runs that become one, slice by slice
* ``rows``: rows of runs as witness rows again, in part, or with further ones
* ``view``: a run as one finder sees it
"""
