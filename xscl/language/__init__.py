"""A text to a tree, to value-join normal form, to the group that its template, instance and windows make.

* ``absence``: Absence in queries: a query about it is taken apart into queries that are joined as all others
* ``aggregates``: Aggregates in queries: a query with windows of matches is a part, and what is said of its matches
  together
* ``ast``: The syntax tree of XSCL: frozen nodes with spans, as written, before any rewriting
  (docs/reference/language.md, Statements)
* ``atom_parser``: The braces of a join, atoms and windows: one method a rule of docs/reference/language.md
* ``block_nodes``: Nodes of the syntax tree inside a block: paths, brackets, and blocks themselves
* ``block_patterns``: Blocks of a query as trees of steps that are walked in one document
* ``block_plans``: Blocks of a query, reduced to what joins and results need, and their guards
* ``cel``: CEL, the Cayuga Event Language, to the tree of XSCL (docs/reference/cel.md)
* ``cel_parser``: A recursive-descent parser for CEL, the Cayuga Event Language (docs/reference/cel.md)
* ``cel_tree``: The syntax tree of CEL, the Cayuga Event Language: frozen nodes with spans, as written
* ``column_types``: Columns by type: the nodes of a block that are columns of a type, and conditions that compare
  their values
* ``compile``: Syntax tree to what registration needs: joins, and queries that are made of joins
* ``compile_joins``: Normal form to what the engine joins
* ``compiled``: Queries as they are compiled, with the queries that they are made of
* ``conditions``: Brackets to conditions of steps, with names by URI
* ``constructor``: Element constructors of SELECT
* ``declared``: Declarations for a text: prefixes of namespaces, and the functions of one's own that the text calls
* ``facts``: Facts of channels from which queries are compiled
* ``filled_conditions``: Conditions with marks, and with the constants of a text in their places
* ``form_reader``: Forms of texts, read off their tokens: texts of one form differ in names, windows and the order of
  conditions
* ``format``: Syntax trees to canonical text
* ``forms``: Compiling many queries: texts that differ only in the names of variables, or in windows, are compiled
  once
* ``from_parser``: FROM: blocks, their joins, steps over them, and what must not be there: one method a rule of
  docs/reference/language.md
* ``group_data``: The part of a compiled query that plans need, as data for JSON, and back
* ``guards``: Conditions of a block on its whole document that compare with constants, lifted out of the pattern as a
  guard
* ``marked_queries``: Normal forms of queries with marks, and with the constants of a text in their places
* ``marks``: Marks that stand for constants of texts that may differ, and texts without the pieces that do
* ``normalize``: Value-join normal form of syntax trees (thesis 6.2)
* ``outlines``: Texts that differ in constants alone
* ``parser``: A recursive-descent parser for XSCL: one method a rule of docs/reference/language.md, Statements
* ``path_parser``: Paths, and the conditions in their brackets: one method a rule of docs/reference/language.md
* ``published_columns``: Columns of the rows that a query publishes: the items of its SELECT, with the types of their
  values
* ``query_rows``: Rows of the catalogue that follow from a compiled query alone
* ``row_windows``: Row windows of a query: ``LAST 2 OF x``
* ``selection``: Output documents: what a match shows of its members (docs/reference/language.md, Output)
* ``shown``: Queries by which answers are shown, where these are not the matches of blocks and joins
* ``skeletons``: Skeletons of texts: all that is left of one without its constants
* ``statements``: Statements of a text: found one by one, told apart by their tokens, parsed when they are asked for
* ``step_marks``: Numbers and windows in braces of steps that texts may differ in
* ``step_outlines``: Texts with steps that differ in numbers and windows alone: the shape of one, with the
  numbers of others
* ``step_parser``: The braces of steps, NEXT, FOLD and FILTER: one method a rule of docs/reference/language.md
* ``step_parts``: The queries whose matches NEXT, FOLD and FILTER are over, and the names that steps mention
* ``step_refusals``: Refusals of what queries with steps say of what must not be there
* ``step_shapes``: Shapes of steps: what queries have in common that differ only in the numbers of their conditions
* ``step_terms``: Steps of a query by places instead of names: what NEXT, FOLD and FILTER ask of the matches of parts
* ``step_values``: Values that steps speak of: variables, functions over iterations, and accumulators, by places instead
  of names
* ``steps``: Steps in queries, by places: what a query with NEXT, FOLD and FILTER asks of the matches of its parts
* ``terms``: Values that conditions over matches compare: variables, what is counted of them, and constants
* ``text_outlines``: Outlines of registered texts: what the first text of each says, with the numbers of others
* ``text_notes``: Notes on a text that says something else than it seems to
* ``token_reader``: Tokens of one statement, taken one by one, and refusals with their places
* ``tokens``: Text to tokens, with positions, one statement at a time
* ``unsatisfiable``: Comparisons that can never hold, alone or together, told from a normal form and from what is
  known of channels
* ``value_joins``: Value joins by the types of columns: how values are compared, and which functions stage 1 applies
  to them
* ``variable_paths``: Paths of variables below the documents of their blocks: by which matches of queries with other
  names are alike
* ``window_marks``: Numbers that texts with windows of matches may differ in
* ``window_outlines``: Texts with windows of matches that differ in numbers alone: the definition of one, with the
  numbers of others
* ``windows``: Windows of a query to its cases
"""
