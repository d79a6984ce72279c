"""One program of all live queries, changed as queries come and go.

* ``group_forms``: Compiled forms of groups
* ``kinds_of_queries``: Kinds of queries that a home has, remembered until its queries change
* ``planned``: Products of a planner: the plan of a range, its groups, and the specs that these ask for
* ``planner``: The requests of the live queries, compiled once, kept up to date as queries come and go, and written
  for workers on demand
* ``row_places``: Places of the events that row windows count, brought up to date batch by batch
* ``subscribers``: The groups whose subscribers see events of a range, kept up to date by reading changes
* ``worker_files``: Files of a plan for workers, in a folder that goes with the process
"""
