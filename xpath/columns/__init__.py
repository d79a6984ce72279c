"""Documents as columns: their nodes, texts and conditions, many documents at once.

Modules in reading order:

* ``names``: names and paths of many documents as numbers
* ``chunk``: documents as columns
* ``shredding``: the stored texts of many documents become such columns
* ``stored_form``: documents that are in the stored form already
* ``texts``: string values of nodes in columns
* ``steps``: steps of paths over documents in columns
* ``formulas``: formulas over columns
* ``conditions``: formulas over columns as spans of values
* ``nodes``: values that nodes of a chunk have, as columns
"""
