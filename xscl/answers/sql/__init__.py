"""Relations of a home, and statements of SQL over them, on Spark.

* ``channel_views``: Channels as relations: their names in SQL, their columns, and the steps that show their events
* ``combination_steps``: Steps of combinations of documents: their events, and facts of their members for matches
* ``frames``: Event files, and other files of a known shape, as relations of Spark
* ``match_rows``: Rows of ``Engine.matches_df``: Spark's tasks build them from the members' documents
* ``match_steps``: Steps of the relations ``matches`` and ``rout_<template>``
* ``comments``: Comments on relations and their columns, which ``DESCRIBE``, the shell and docs/reference/sql.md show
* ``export``: Export of relations for other databases: Parquet files with a script of views, or one file of DuckDB
* ``relation_steps``: Steps of the relations that statements of SQL read; ``match_steps`` has those of matches and R_out
* ``seen_steps``: Steps that bring combinations of documents and the classes of queries together: the matches that
  queries see
* ``counts``: Statements that only count matches, which counts of classes answer as well as the matches themselves
* ``functions``: The functions of Spark that statements may call
* ``guard``: Statements of SQL that only read a home's relations, told from all others without Spark
* ``relations``: Relations that a statement of SQL reads, each with the steps that the statement needs
* ``scripts``: Scripts of SQL: statements that a semicolon ends, each with its place
* ``sizes``: Sizes that statements of strangers may ask for: functions that make long values have sizes that are written
  out
* ``sources``: Sources that steps of relations read: files and catalogue tables of a home, as DataFrames of Spark
* ``steps``: Steps of SQL: a relation is a list of named steps, in the order in which data flows
* ``times``: Event times that a statement asks channels for, told from its conditions
* ``tokens``: Tokens of SQL statements: each in a form that Spark reads as one token, and calls judged by tokens alone
* ``views``: Read-only SQL over a home's relations, on Spark
"""
