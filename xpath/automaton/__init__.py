"""The automaton of all patterns: states, their steps, and the walk over a document.

Modules in reading order:

* ``names``: the node tests that a name passes
* ``row_template``: arrays that all nodes of one kind share
* ``states``: states of the automaton, and the requests for the nodes that reach a state
* ``trie``: all states, by channel, as specs come and go
* ``chains``: the rows of R_bin around one binding of a leaf
* ``automaton``: all definitions of all queries in one machine, over paths of names
* ``walk``: the one pass over a document
* ``parts``: specs that together ask too much of a document, cut up
"""
