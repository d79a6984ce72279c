"""Benchmarks: what registration and batches cost, with their baselines in the same run (docs/benchmarks.md).

In reading order: ``workload`` (the thesis' random queries), ``report`` (figures, tables, plots and the machine),
``load`` (the process that is measured while it loads queries), ``register``, ``benches`` (all there are).
"""
