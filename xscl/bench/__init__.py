"""Benchmarks: what stage 1, registration and batches cost, with baselines in the same run (docs/benchmarks.md).

Modules in reading order:

* ``workload``: the thesis' random queries
* ``report``, ``plot``: figures, tables and the machine; line plots
* ``apart``: what is measured in a process of its own
* ``load``, ``register``: the process that loads queries, and what is measured of it
* ``grammar``: random documents and distinct patterns
* ``matching``, ``footprint``, ``stage1``: stage 1 and its baselines; the memory of an automaton
* ``documents``: documents to join
* ``engines``: engines, homes and timed batches
* ``baselines``: stage 2 as statements, and one query after another
* ``levels``, ``views``, ``rss``, ``latency``, ``growth``, ``retention``: batches
* ``sensors``, ``rows``: rows of sensors, and what standing conditions on them cost
* ``backfill``, ``recovery``: queries answered from what is held; a process after a killed one
* ``benches``: all there are
"""
