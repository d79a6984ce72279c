"""A text to a tree, to value-join normal form, to the group that its template, instance and windows make.

* ``ast``: The syntax tree of XSCL
* ``atom_parser``: The braces of a join, atoms and windows
* ``block_patterns``: Blocks of a query as trees of steps that are walked in one document
* ``compile``: Normal form to what the engine registers
* ``constructor``: Element constructors of SELECT
* ``facts``: Facts of channels from which queries are compiled
* ``format``: Syntax trees to canonical text
* ``forms``: Compiling many queries
* ``normalize``: Syntax trees to value-join normal form (thesis 6.2)
* ``parser``: A recursive-descent parser for XSCL
* ``path_parser``: Paths, and the conditions in their brackets
* ``query_rows``: Rows of the catalogue that follow from a compiled query alone
* ``selection``: Output documents
* ``statements``: Statements of a text
* ``text_notes``: Notes on a text that says something else than it seems to
* ``token_reader``: Tokens of one statement, taken one by one, and refusals with their places
* ``tokens``: Text to tokens, with positions, one statement at a time
* ``unsatisfiable``: Comparisons that can never hold, alone or together, told from a normal form and from what is
  known of channels
* ``windows``: Windows of a query to its cases
"""
