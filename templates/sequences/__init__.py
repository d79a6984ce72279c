"""Bindings along time, which the instances of all patterns take together.

Modules in reading order:

* ``lanes``: bindings of a part by key and time, along which all instances of all patterns move at once
* ``fold_rounds``: rounds of a FOLD, in which open instances take their next rows together
* ``member_sets``: sets of the queries that share a row: numbered sets, cut by ranges of the constants in which queries
  differ
* ``longest``: the longest matches of a FOLD: those whose events are no proper part of the events of another one
* ``thresholds``: NEXT for many constants at once: one walk along record values answers each constant
"""
