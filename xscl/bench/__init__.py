"""Benchmarks: what stage 1, registration and batches cost, with baselines in the same run (docs/benchmarks.md).

In reading order: ``workload`` (the thesis' random queries), ``report`` (figures, tables, plots and the machine),
``apart`` (what is measured in a process of its own); ``load`` (the process that is measured while it loads queries) and
``register``; ``grammar`` (random documents and distinct patterns), ``matching`` (stage 1 and its baselines),
``footprint`` (the process whose memory an automaton takes) and ``stage1``; ``documents`` (documents to join),
``engines`` (engines, homes and timed batches), ``baselines`` (stage 2 as statements, and one query after another),
``levels``, ``views``, ``rss``, ``latency``, ``growth`` and ``retention``; ``benches`` (all there are).
"""
