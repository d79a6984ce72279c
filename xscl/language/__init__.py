"""A text to a tree, to value-join normal form, to the group that its template, instance and windows make.

* ``absence``: Absence in queries: a query about it is taken apart into queries that are joined as all others
* ``aggregates``: Aggregates in queries: a query with windows of matches is a part, and what is said of its matches
  together
* ``ast``: The syntax tree of XSCL: frozen nodes with spans, as written, before any rewriting
  (docs/reference/language.md, Statements)
* ``atom_parser``: The braces of a join, atoms and windows: one method a rule of docs/reference/language.md
* ``block_patterns``: Blocks of a query as trees of steps that are walked in one document
* ``block_plans``: Blocks of a query, reduced to what joins and results need, and their guards
* ``column_types``: Columns by type: the nodes of a block that are columns of a type, and conditions that compare
  their values
* ``compile``: Normal form to what the engine registers
* ``conditions``: Brackets to conditions of steps, with names by URI
* ``constructor``: Element constructors of SELECT
* ``facts``: Facts of channels from which queries are compiled
* ``form_reader``: Forms of texts, read off their tokens: texts of one form differ in names, windows and the order of
  conditions
* ``format``: Syntax trees to canonical text
* ``forms``: Compiling many queries: texts that differ only in the names of variables, or in windows, are compiled
  once
* ``group_data``: The part of a compiled query that plans need, as data for JSON, and back
* ``guards``: Conditions of a block on its whole document that compare with constants, lifted out of the pattern as a
  guard
* ``normalize``: Value-join normal form of syntax trees (thesis 6.2)
* ``outlines``: Texts that differ in constants of brackets alone
* ``parser``: A recursive-descent parser for XSCL: one method a rule of docs/reference/language.md, Statements
* ``path_parser``: Paths, and the conditions in their brackets: one method a rule of docs/reference/language.md
* ``query_rows``: Rows of the catalogue that follow from a compiled query alone
* ``selection``: Output documents: what a match shows of its members (docs/reference/language.md, Output)
* ``statements``: Statements of a text: found one by one, told apart by their tokens, parsed when they are asked for
* ``text_notes``: Notes on a text that says something else than it seems to
* ``token_reader``: Tokens of one statement, taken one by one, and refusals with their places
* ``tokens``: Text to tokens, with positions, one statement at a time
* ``unsatisfiable``: Comparisons that can never hold, alone or together, told from a normal form and from what is
  known of channels
* ``value_joins``: Value joins by the types of columns: how values are compared, and which functions stage 1 applies
  to them
* ``windows``: Windows of a query to its cases
"""
