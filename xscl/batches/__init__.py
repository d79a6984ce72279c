"""Batches: ranges of the intake order become committed matches.

* ``bindings``: Bindings of queries about absence: what the levels of a batch have found for their parts, by columns
* ``absence``: Absence in a batch: wanted matches, less forbidden ones, as far as it is certain
* ``absence_found``: Matches of parts as the levels of a batch have found them: pending rows, and bindings with what
  forbids them
* ``absence_memory``: Queries about absence as this process remembers them from batch to batch: their parts, and who
  reads answers
* ``absence_changes``: Changes of answers about absence in a batch: matches that come, and matches that are taken back
* ``aggregate_answers``: Answers of windows: matches that were found, put together by windows and groups, as far as
  times are settled
* ``aggregate_buckets``: Buckets of matches: what aggregates need of the matches of a group in a short time, in place of
  the matches
* ``aggregate_documents``: Documents of what is told of matches together
* ``aggregate_families``: Families of definitions with the same windows of the same groups, which differ in conditions
  and in what they tell
* ``aggregate_groups``: Matches of a part as queries with windows ask of them: each column and each grouping is made
  once
* ``aggregate_parts``: Aggregates over the last matches of each part of a group (``LAST n PER x``)
* ``aggregate_rows``: Matches that windows are over, as they are kept from batch to batch: one file of the state for all
  of them
* ``aggregate_spans``: Aggregates over spans of matches: windows of groups, all of them at once
* ``aggregate_stores``: Stores of buckets in a batch: matches whose time is settled go into buckets, and families of
  windows read these
* ``aggregate_streams``: Rows of matches that several parts share: a match is stored once, with the numbers of the parts
  that have it
* ``aggregate_tops``: Groups of a window that ``TOP`` tells of: those of the greatest values, and of equal ones in their
  order
* ``aggregate_values``: Values of matches by columns, as texts and as exact numbers
* ``aggregates``: Windows in a batch: matches of parts become rows, and windows whose time has passed become documents
  and matches
* ``answered``: Answers about absence that nothing makes final, in files that never change
* ``attempt``: An attempt at a batch: what it has found and written so far, until a transaction names it or it is
  discarded
* ``backfill``: Answers from held events, for queries that see events from before them (docs/how-to/history.md)
* ``batch``: A batch: a range of the intake order becomes committed matches
* ``corrected``: Answers about absence that newer versions and removals change (``ON CHANGE RETRACT``)
* ``driver``: Memory of this process from batch to batch: solved signatures, the price of work, windows, and queries
  about absence
* ``edited``: Matches of queries that a newer version of an item, or its removal, takes back
  (``ON CHANGE RETRACT``)
* ``function_failures``: Functions of one's own that fail on values of matches: who hears of it
* ``history_walk``: Held events walked, and joined among themselves, for some groups
* ``home_told``: Telling the home's own channels of a batch, in the batch's transaction
* ``kernels``: Kernels of both stages for the queries of a batch: in this process, or loaded in a task from files
* ``late_replay``: Late events taken again, as if they had been in time (docs/explanation/time.md)
* ``level``: Levels of a batch: its events, then documents that queries publish, each joined with all that was there
  before
* ``link_work``: Rows of links of a batch, put together with those of before (``templates.link_matches``)
* ``made_answers``: Answers that are documents of their own, of windows and of steps: the documents, and a match of each
* ``match_documents``: The output documents of matches, and what else their members' documents say
* ``missing_rows``: Rows that a walk of held events has found and the join state lacks
* ``new_rows``: Rows that a batch adds to the join state: runs of witness rows, and files of rows of links
* ``publish_lateness``: Lateness of published documents
* ``publish_levels``: Levels of published channels
* ``published_documents``: Published documents: output documents of matches, as events of their channels
* ``published_rows``: Published rows: what SELECT shows of matches, as cells of the columns of a channel
* ``published_removals``: Removals of published documents: the matches that they were made of hold no longer
* ``publisher``: Publishing: matches of publishing queries become events of their channels
* ``quotas``: Quotas of queries: how much of a batch each query has had, and the suspension of those that had more
  than allowed
* ``row_times``: Least times of the newest events of channels, below which row windows need no join state
* ``ranges``: The range of the intake order that is the next batch, and all that the catalogue says for it, read at
  one moment
* ``refusals``: Refusals at matching and joining
* ``replayed``: Answers about absence that replayed late events take back (``late replay``)
* ``report``: Report of a batch
* ``run_handle``: A loop that processes batches in a thread of its own
* ``settled``: Frontiers within a batch: how far the times of channels are settled at each of its places
* ``step_absence``: Absence above steps: rows of a left side that a document accompanies, and how long such documents
  are kept
* ``step_memory``: Steps as this process remembers them from batch to batch: who asks for them, and which queries share
  them
* ``step_rows``: Rows of steps: matches of parts, and what NEXT and FOLD have made of them so far, as arrays
* ``step_files``: The file of the rows that steps keep from batch to batch, with the queries that have each of them
* ``step_values``: Values of rows of steps, and conditions over pairs of a row on the left and a row on the right
* ``step_sharing``: Queries that share steps and differ in numbers: which of them have a row, and which still do behind
  a condition
* ``step_meeting``: Rows of both sides of NEXT or FOLD: the keys by which they meet, what left rows ask for, and what
  pairs make
* ``step_tree``: Steps of a query over the matches of its parts, as far as times are settled
* ``step_parts``: Matches of parts that batches have found, as rows of the steps over them, with the queries that have
  each
* ``step_matches``: Matches of parts as rows of steps, and rows that are decided as matches of queries
* ``step_answers``: Answers of steps: what is decided becomes matches of the events, or of documents of their own
* ``step_corrections``: Answers of steps that are told before they are final, and their corrections
* ``step_refusals``: Events over which steps refuse answers: runs that are cut off, and values that functions lack
* ``step_replay``: Steps whose answers a replay of late events changes
* ``step_documents``: Documents of answers that tell what FOLDs keep
* ``steps``: Steps in a batch: matches of parts become rows, which NEXT and FOLD move on as far as times are settled
* ``taking_back``: Matches that a batch takes back, and their rows of table ``retractions``
* ``tasks``: Tasks of a level, which write files under fresh names, and return the names and some figures
* ``too_late``: Events that came too late for queries with a memory of their own, and in time for others: they are
  counted
* ``walking``: Stage 1: documents of a level become witness rows, a part at a time, in this process or in a task
* ``walls``: Heartbeats by the wall clock: a run says that all events up to some time before now are in
* ``window_memory``: Windows as this process remembers them from batch to batch: who asks for them, and the rows that
  are kept
* ``witness_facts``: Figures of new witness rows, taken where the rows are made: what quotas count, and what stage 1
  refused
"""
