"""Moves of the automaton over documents in columns, past the conditions on its way.

Modules in reading order:

* ``conditions``: conditions of nodes in columns
* ``guard_sets``: the sets of conditions that guarded states ask for, in columns
* ``branch_sets``: the sets that branches ask for, joined with the sets that hold at nodes
* ``guarded_states``: states with conditions on their way, followed over many documents at once
* ``paths``: paths of documents in columns to the moves of an automaton
* ``visits``: visits of the nodes of a chunk
"""
