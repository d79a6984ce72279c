"""Commands by noun, options, printing.

* ``app``: The command line
* ``channels``: ``xscl channel``
* ``commands``: Commands made of functions
* ``feeds``: ``xscl feed``
* ``home``: ``xscl init``, ``doctor``, ``export`` and ``import``
* ``ingest``: ``xscl ingest`` and ``xscl eval``
* ``items``: ``xscl item``
* ``late``: ``xscl late``
* ``make_class_archive``: Making the archive of classes from which Spark starts
* ``match_print``: Printing of matches
* ``matches``: ``xscl match``
* ``next_steps``: Telling what to do next where a listing is empty
* ``options``: Options and messages that commands of several nouns share
* ``printing``: Printing rows
* ``progress``: Progress bars
* ``queries``: ``xscl query``
* ``quotas``: ``xscl quota``
* ``reading_options``: Options of reading
* ``run``: ``xscl run``, ``stats``, ``sql``, ``demo`` and ``bench``
* ``signals``: SIGTERM and Ctrl-C
* ``templates``: ``xscl template``
"""
