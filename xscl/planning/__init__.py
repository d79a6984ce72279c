"""The live queries as one program, kept up to date as queries come and go.

* ``planner``: What the live queries ask, compiled once, kept up to date as queries come and go, and written if
  workers need it
* ``subscribers``: Which groups have subscribers that see events of a range, kept up to date by reading what has
  changed
"""
