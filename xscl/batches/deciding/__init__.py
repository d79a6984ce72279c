"""Answers that wait until times are settled: of absence, windows and steps.

* ``absence``: Absence in a batch: wanted matches, less forbidden ones, as far as it is certain
* ``absence_changes``: Changes of answers about absence in a batch: matches that come, and matches that are taken back
* ``absence_found``: Matches of parts as the levels of a batch have found them: pending rows, and bindings with what
  forbids them
* ``corrected``: Answers about absence that newer versions and removals change (``ON CHANGE RETRACT``)
* ``edited``: Matches of queries that a newer version of an item, or its removal, takes back (``ON CHANGE RETRACT``)
* ``made_answers``: Answers that are documents of their own, of windows and of steps: the documents, and a match of each
* ``replayed``: Answers about absence that replayed late events take back (``late replay``)
* ``step_answers``: Answers of steps: what is decided becomes matches of the events, or of documents of their own
* ``step_corrections``: Answers of steps that are told before they are final, and their corrections
* ``step_parts``: Matches of parts that batches have found, as rows of the steps over them, with the queries that have
  each
* ``step_refusals``: Events over which steps refuse answers: runs that are cut off, and values that functions lack
* ``step_replay``: Steps whose answers a replay of late events changes
* ``steps``: Steps in a batch: matches of parts become rows, which NEXT and FOLD move on as far as times are settled
* ``too_late``: Events that came too late for queries with a memory of their own, and in time for others: they are
  counted
* ``windows``: Windows in a batch: matches of parts become rows, and windows whose time has passed become documents and
  matches
"""
