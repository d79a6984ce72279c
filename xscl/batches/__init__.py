"""A range of the intake order to committed matches.

* ``backfill``: Answers from what is held, for queries that see what was there before them (docs/how-to/history.md)
* ``batch``: One batch
* ``driver_join``: What a batch does in the driver
* ``driver_match``: Stage 1 in the driver
* ``executors``: What a batch does in Spark's executors
* ``history_walk``: Held events walked, and joined among themselves, for some groups
* ``late_replay``: Late events taken again, as if they had been in time (docs/explanation/time.md)
* ``level``: A batch level by level
* ``match_documents``: The output documents of matches, and what else their members' documents say
* ``missing_rows``: What the join state lacks of what a walk of held events has found
* ``publisher``: What a batch publishes
* ``refusals``: Refusals at matching and joining
* ``run_handle``: A loop that processes batches in a thread of its own
"""
