"""Templates as statements, for people and for tests.

Modules in reading order:

* ``relations``: the relations that statements speak of
* ``constants``: rows of R_T as columns or as the constants of one query
* ``sql``: the thesis' conjunctive query of a template, for people and for tests
* ``dialect``: dialects of SQL, by their names
* ``layout``: layout of statements, a line for every relation and every condition
* ``dialects``: statements of templates as texts of Spark SQL, SQLite and DuckDB
* ``picture``: templates drawn, and their query in Datalog
"""
