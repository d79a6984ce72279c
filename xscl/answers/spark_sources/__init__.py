"""Data sources of Spark that read a home.

* ``channels``: The Spark data source ``xscl-channel``: events of a channel, for batches and streams
* ``common``: Common part of the Spark data sources that read a home
* ``matches``: The Spark data source ``xscl-matches``: matches in the order of commits, for batches and streams
* ``sessions``: The Spark data sources of xscl, and the sessions that know them
"""
