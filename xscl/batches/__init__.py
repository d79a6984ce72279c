"""Batches: ranges of the intake order become committed matches.

* ``answered``: Answers about absence that nothing makes final, in files that never change
* ``attempt``: An attempt at a batch: what it has found and written so far, until a transaction names it or it is
  discarded
* ``backfill``: Answers from held events, for queries that see events from before them (docs/how-to/history.md)
* ``batch``: A batch: a range of the intake order becomes committed matches
* ``bindings``: Bindings of queries about absence: what the levels of a batch have found for their parts, by columns
* ``deciding``: Answers that wait until times are settled: of absence, windows and steps
* ``failing_queries``: Queries that make a batch fail as nobody foresaw: they are suspended before it
* ``function_failures``: Functions of one's own that fail on values of matches: who hears of it
* ``history_walk``: Held events walked, and joined among themselves, for some groups
* ``home_told``: Telling the home's own channels of a batch, in the batch's transaction
* ``kernels``: Kernels of both stages for the queries of a batch: in this process, or loaded in a task from files
* ``late_replay``: Late events taken again, as if they had been in time (docs/explanation/time.md)
* ``level``: Levels of a batch: its events, then documents that queries publish, each joined with all that was there
  before
* ``link_work``: Rows of links of a batch, put together with those of before (``templates.many_blocks.matches``)
* ``match_documents``: The output documents of matches, and what else their members' documents say
* ``memory``: Memory of this process from batch to batch
* ``missing_rows``: Rows that a walk of held events has found and the join state lacks
* ``new_rows``: Rows that a batch adds to the join state: runs of witness rows, and files of rows of links
* ``old_arrivals``: Events that come older than their channels keep
* ``publish_levels``: Levels of published channels
* ``publishing``: Publishing in a batch: matches become events of channels, which later levels of the batch read
* ``quotas``: Quotas of queries: how much of a batch each query has had, and the suspension of those that had more than
  allowed
* ``ranges``: The range of the intake order that is the next batch, and all that the catalogue says for it, read at one
  moment
* ``refusals``: Refusals at matching and joining
* ``report``: Report of a batch
* ``row_times``: Least times of the newest events of channels, below which row windows need no join state
* ``run_handle``: A loop that processes batches in a thread of its own
* ``settled``: Frontiers within a batch: how far the times of channels are settled at each of its places
* ``steps``: Rows of steps, and how NEXT, FOLD and FILTER move them on
* ``suspensions``: Suspensions of queries, which see nothing from a place of the intake order on
* ``taking_back``: Matches that a batch takes back, and their rows of table ``retractions``
* ``tasks``: Tasks of a level, which write files under fresh names, and return the names and some figures
* ``walking``: Stage 1: documents of a level become witness rows, a part at a time, in this process or in a task
* ``walls``: Heartbeats by the wall clock: a run says that all events up to some time before now are in
* ``windows``: Windows of matches: their rows, buckets and aggregates
* ``witness_facts``: Figures of new witness rows, taken where the rows are made: what quotas count, and what stage 1
  refused
"""
