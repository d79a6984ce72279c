"""Conditions in brackets, and the sets of them, among many, that a node satisfies.

Modules in reading order:

* ``condition``: brackets on one node, with the meaning of XPath 1.0
* ``shared``: equal conditions made of the same objects
* ``intervals``: intervals of values, and the intervals, among many, that hold a value
* ``word_index``: the words, among many, that a text has
* ``accesses``: the comparison under which a set of conditions is filed
* ``predicates``: the sets of conditions, among many, that one node satisfies
"""
