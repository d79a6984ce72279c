"""The Spark session: how it starts, and how its jobs are counted.

* ``class_archive``: An archive of the classes Spark loads, made once on a machine, with which later sessions start in
  half the time
* ``java_output``: Errors that Java writes while it starts
* ``job_counter``: Counts of Spark jobs, by Spark's own status tracker
* ``places``: Places of work: the same function maps over items in this process, or in tasks of a Spark session
* ``session``: The Spark session: the caller's own, or one of ours with settings that fit small batches
* ``start_cost``: The processor time that Spark costs before its executors begin, as measured when a session was
  started last
* ``start_times``: Start times of Spark: a session as Spark makes one by itself and one of ours, from process to first
  join
"""
