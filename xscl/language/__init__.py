"""A text to a tree, to value-join normal form, to the group that its template, instance and windows make.

* ``absence``: Absence in queries: a query about it is taken apart into queries that are joined as all others
* ``aggregates``: Aggregates in queries: a query with windows of matches is a part, and what is said of its matches
  together
* ``block_patterns``: Blocks of a query as trees of steps that are walked in one document
* ``block_plans``: Blocks of a query, reduced to what joins and results need, and their guards
* ``cel``: CEL, the Cayuga Event Language: texts to the trees of XSCL
* ``column_types``: Columns by type: the nodes of a block that are columns of a type, and conditions that compare their
  values
* ``compile``: Syntax tree to what registration needs: joins, and queries that are made of joins
* ``compile_joins``: Normal form to what the engine joins
* ``compiled``: Queries as they are compiled, with the queries that they are made of
* ``conditions``: Brackets to conditions of steps, with names by URI
* ``declared``: Declarations for a text: prefixes of namespaces, and the functions of one's own that the text calls
* ``facts``: Facts of channels from which queries are compiled
* ``forms``: Compiling many queries: texts that differ only in the names of variables, or in windows, are compiled once
* ``group_data``: The part of a compiled query that plans need, as data for JSON, and back
* ``guards``: Conditions of a block on its whole document that compare with constants, lifted out of the pattern as a
  guard
* ``normalize``: Value-join normal form of syntax trees (thesis 6.2)
* ``outlines``: Texts that differ in constants and names alone: one is compiled, and the others are filled in
* ``published_columns``: Columns of the rows that a query publishes: the items of its SELECT, with the types of their
  values
* ``query_rows``: Rows of the catalogue that follow from a compiled query alone
* ``row_windows``: Row windows of a query: ``LAST 2 OF x``
* ``selection``: Output documents: what a match shows of its members (docs/reference/language.md, Output)
* ``shown``: Queries by which answers are shown, where these are not the matches of blocks and joins
* ``steps``: Steps of a query, by places instead of names
* ``syntax``: Texts to syntax trees, and back to canonical text
* ``terms``: Values that conditions over matches compare: variables, what is counted of them, and constants
* ``text_notes``: Notes on a text that says something else than it seems to
* ``unsatisfiable``: Comparisons that can never hold, alone or together, told from a normal form and from what is known
  of channels
* ``value_joins``: Value joins by the types of columns: how values are compared, and which functions stage 1 applies to
  them
* ``variable_paths``: Paths of variables below the documents of their blocks: by which matches of queries with other
  names are alike
* ``windows``: Windows of a query to its cases
"""
