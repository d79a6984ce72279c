"""Commands by noun, options, printing.

* ``app``: The command line: ``xscl noun verb``
* ``channels``: ``xscl channel``: channels and their streams
* ``client``: A client of a running service, which ``--url`` or ``XSCL_URL`` names, or a home that it has open
* ``commands``: Commands made of functions: groups of options are records, and a command's help ends with examples
* ``deliver``: ``xscl deliver``: webhooks and files that matches go to
* ``dry_runs``: Dry runs of queries over documents: their witnesses as rows, and what was found
* ``feeds``: ``xscl feed``: subscriptions, and polling them
* ``following``: Following files for a service: additions are pushed, and this machine keeps how far each file went
* ``heartbeats``: ``xscl heartbeat``: all events of a channel up to a time are in
* ``home``: ``xscl init``, ``doctor``, ``export`` and ``import``: the home as a whole
* ``ingest``: ``xscl ingest`` and ``xscl eval``: what comes in
* ``items``: ``xscl item``: the items of feeds
* ``late``: ``xscl late``: events that came too late, and taking them as if they had been in time
* ``make_class_archive``: Making the archive of classes from which Spark starts: ``python -m
  xscl.cli.make_class_archive``
* ``match_print``: Printing of matches: as cards for a person, as rows for a program, or their output documents alone
* ``matches``: ``xscl match``: matches of standing queries
* ``next_steps``: Telling what to do next where a listing is empty
* ``options``: Options and messages that commands of several nouns share
* ``plan``: ``xscl plan``: what runs for the registered queries
* ``polls``: Asking feeds: its settings, and telling what a pass did
* ``printing``: Printing rows: a table for people, JSON and CSV for programs
* ``progress``: Progress bars: for a person at a terminal, on stderr alone
* ``pushed_changes``: Tables of rows that are changes, as CSV for a service: it reads the words, ids and times as a home
  does
* ``pushing``: Records pushed to a service: as event lines, in requests of bounded size, in their order
* ``queries``: ``xscl query``: standing queries
* ``quotas``: ``xscl quota``: how much an owner, or a query in a batch, may have
* ``reading_options``: Options of reading, which ``ingest``, ``eval`` and ``query test`` share
* ``remote``: Commands that go to a running service: the same rows and texts as of a home
* ``remote_answers``: Answers of a running service about items, templates, plans, lateness, queries: rows and texts as
  of a home
* ``remote_feeds``: Subscriptions of a running service: the same rows and texts as of a home
* ``run``: ``xscl run``, ``stats``, ``demo`` and ``bench``: what works on a home, and what it cost
* ``service``: ``xscl serve`` and ``xscl token``: the service, and who may use it
* ``shell``: ``xscl shell``: statements of XSCL and SQL in one warm session
* ``shell_input``: Input of the shell: where a statement ends, and whether it is SQL or XSCL
* ``shell_session``: A session of the shell: statements and commands, one after another
* ``shell_terminal``: The terminal of the shell: line editing with history and completion, and a pager for long answers
* ``shell_words``: Words that the shell completes: relations, columns, names of queries, keywords and its own commands
* ``signals``: SIGTERM and Ctrl-C: what runs without end, ends behind what it is doing
* ``sql``: ``xscl sql``: statements of SQL over the relations of a home
* ``templates``: ``xscl template``: queries grouped by the shape of their joins
* ``wire``: Requests of the command line to a service, by Python's own client of HTTP
"""
