"""Queries, templates and plans explained.

* ``explain``: Explanation of a registered query: facts of it by itself, and of the queries that share work with it
* ``facts``: Facts of a compiled query by itself: blocks in normal form, joins, windows, links, guards and variables
* ``operators``: Operators of registered queries: conditions, windows, joins, steps and absence, as rules of sharing
  speak of them
* ``plan``: Plan of the registered queries: which m-ops run for them, and which rules have made them, as rows, text and
  graph
* ``shared_steps``: Steps that queries share, as ``query explain`` tells of them: with whom, and what is asked for each
  number
* ``step_sql``: Steps as one statement of SQL, for people and for tests: NEXT by NOT EXISTS, FOLD by recursion
* ``step_templates``: Steps that queries share, as templates: which there are, how many queries have them, and their
  statements
* ``templates``: Facts about one template: as a record, as a text for people, and as a statement of SQL
* ``text``: An explanation of a query as a text for people
"""
