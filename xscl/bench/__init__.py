"""Benchmarks: what stage 1, registration and batches cost, with baselines in the same run
(docs/reference/benchmarks.md).

Modules in reading order:

* ``report``, ``plot``: figures, tables and the machine; line plots
* ``bench``: the description of a bench, and the runner of all of them
* ``apart``: time, memory and processor time; functions in a process of their own
* ``workload``, ``documents``, ``grammar``, ``sensors``: random queries, documents, patterns and rows
* ``matching``, ``stage1``: stage 1 and its baselines
* ``register``: registration
* ``engines``: engines, homes and timed batches
* ``relations``: the relations of a home as files, and digests of answers
* ``baselines``: stage 2 as statements, and one query after another
* ``levels``, ``views``, ``rss``, ``latency``, ``spark``, ``growth``, ``retention``: batches
* ``rises``: prices that rise by a factor, a factor for each query
* ``rows``: rows of sensors under standing conditions
* ``news``, ``news_joins``: items like news and queries of people, and their baselines
* ``people``, ``constants``: queries with selections above joins
* ``orders``, ``unpaid``: orders and payments; baselines that look for orders nobody paid
* ``absence``: orders that nobody pays, beside orders with their payments
* ``aggregates``: windows of rows by three groupings, and thresholds that differ in a constant alone
* ``seen_orders``: orders and payments that a query has seen, and what it has to answer of them
* ``consistency``: three questions at each level of consistency, over more and more disorder
* ``patterns``: the kernels of NEXT and FOLD, for as many queries as differ in a constant
* ``subscriptions``: the Filter workload of Cayuga: many subscriptions to three events in a row
* ``copies``: a thousand copies of one pattern beside one, in a home
* ``ablation``: these subscriptions without the index of conditions, and without lanes
* ``sharing``: workloads of RUMOR with and without rules
* ``rss_patterns``: subscriptions to feed items, alone and in series
* ``double_top``: one pattern of prices in four formulations, and by a loop
* ``backfill``, ``recovery``: queries answered from what is held; a process after a killed one
* ``memory``: a process that starts, over more and more state
* ``benches``: all benches
"""
