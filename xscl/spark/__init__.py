"""The Spark session: how it starts, and how its jobs are counted.

* ``class_archive``: An archive of the classes Spark loads, made once on a machine, with which later sessions start in
  half the time
* ``connect_session``: Sessions with a server of Spark Connect: how one starts, that requests end in time, and how one
  is given back
* ``java``: The Java that Spark would start, and its version
* ``java_output``: Errors that Java writes while it starts
* ``job_counter``: Counts of Spark jobs, by Spark's own status tracker
* ``nodes``: Nodes: what the executors of a session have and see, told by a function that needs nothing of xscl there
* ``own_functions``: Functions of one's own on their way to tasks of Spark
* ``places``: Places of work: the same function maps over items in this process, or in tasks of a Spark session
* ``session``: The Spark session: the caller's own, or one of ours with settings that fit small batches
* ``session_options``: Options of the session that a process starts: on this machine, on a cluster, or with a server of
  Spark Connect
* ``start_cost``: The processor time that Spark costs before its tasks begin, as measured when a session was started
  last
* ``start_times``: Start times of Spark: a session as Spark makes one by itself and one of ours, from process to first
  join
* ``worker_daemon``: Daemon of Spark's Python workers: imports what tasks need before workers are forked from it
"""
