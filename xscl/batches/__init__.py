"""Batches: ranges of the intake order become committed matches.

* ``attempt``: An attempt at a batch: what it has found and written so far, until a transaction names it or it is
  discarded
* ``backfill``: Answers from held events, for queries that see events from before them (docs/how-to/history.md)
* ``batch``: A batch: a range of the intake order becomes committed matches
* ``driver_join``: What a batch does in the driver: the joins of batches that fit into one process, on state that it
  remembers
* ``driver_match``: Stage 1 in the driver: documents to witness rows, in this process while executors would not end
  sooner
* ``executors``: What a batch does in Spark's executors: documents to witnesses, witnesses to results, rows of links
  to results
* ``history_walk``: Held events walked, and joined among themselves, for some groups
* ``late_replay``: Late events taken again, as if they had been in time (docs/explanation/time.md)
* ``level``: A batch level by level: its events, then what its queries publish, each joined with all that was there
  before
* ``match_documents``: The output documents of matches, and what else their members' documents say
* ``missing_rows``: What the join state lacks of what a walk of held events has found
* ``publish_lateness``: Lateness of published documents
* ``publish_levels``: Levels of published channels: channels of a level are fed by queries over channels of levels
  before it
* ``published_documents``: Published documents: output documents of matches, as events of their channels
* ``publisher``: Publishing: matches of publishing queries become events of their channels
* ``ranges``: The range of the intake order that is the next batch, and all that the catalogue says for it, read at
  one moment
* ``refusals``: Refusals at matching and joining: each names the query and the document, and whoever runs the batch is
  told
* ``report``: Report of a batch
* ``run_handle``: A loop that processes batches in a thread of its own
"""
