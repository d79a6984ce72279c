"""Texts to syntax trees, and back to canonical text.

* ``ast``: The syntax tree of XSCL: frozen nodes with spans, as written, before any rewriting
  (docs/reference/language.md, Statements)
* ``atom_nodes``: Nodes of the syntax tree in braces: paths of variables, operands, atoms and windows
* ``atom_parser``: The braces of a join, atoms and windows: one method a rule of docs/reference/language.md
* ``block_nodes``: Nodes of the syntax tree inside a block: paths, brackets, and blocks themselves
* ``constructor``: Element constructors of SELECT
* ``format``: Syntax trees to canonical text
* ``from_nodes``: Nodes of the syntax tree between blocks: joins, steps over them, and what must not be there
* ``from_parser``: FROM: blocks, their joins, steps over them, and what must not be there: one method a rule of
  docs/reference/language.md
* ``parser``: A recursive-descent parser for XSCL: one method a rule of docs/reference/language.md, Statements
* ``path_parser``: Paths, and the conditions in their brackets: one method a rule of docs/reference/language.md
* ``select_nodes``: Nodes of the syntax tree in SELECT: items of a list, and element constructors
* ``statements``: Statements of a text: found one by one, told apart by their tokens, parsed when they are asked for
* ``step_parser``: The braces of steps, NEXT, FOLD and FILTER: one method a rule of docs/reference/language.md
* ``token_reader``: Tokens of one statement, taken one by one, and refusals with their places
* ``tokens``: Text to tokens, with positions, one statement at a time
"""
