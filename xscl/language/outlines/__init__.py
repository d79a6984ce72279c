"""Texts that differ in constants and names alone: one is compiled, and the others are filled in.

* ``filled_conditions``: Conditions with marks, and with the constants of a text in their places
* ``form_reader``: Forms of texts, read off their tokens: texts of one form differ in names, windows and the order of
  conditions
* ``join_marks``: Constants in braces of a join of two blocks that texts may differ in, and their places in what is
  compiled
* ``marked_queries``: Normal forms of queries with marks, and with the constants of a text in their places
* ``marks``: Marks that stand for constants of texts that may differ, and texts without the pieces that do
* ``outlines``: Texts that differ in constants alone
* ``skeletons``: Skeletons of texts: all that is left of one without its constants
* ``step_marks``: Constants and windows in braces of steps that texts may differ in
* ``steps``: Texts with steps that differ in numbers and windows alone: the shape of one, with the numbers of others
* ``texts``: Outlines of registered texts: what the first text of each says, with the constants of others
* ``window_marks``: Constants that texts with windows of matches may differ in
* ``windows``: Texts with windows of matches that differ in constants alone: the definition of one, with the constants
  of others
"""
