"""Stage 1: documents to witnesses, with one walk per document for all patterns.

In reading order: ``pattern`` (steps, conditions and their one text), ``nodes`` (node numbers and string values),
``condition`` (XPath 1.0 brackets on one node), ``automaton`` (all definitions in one machine), ``witness`` (document
and automaton to rows), ``worker`` (what Spark ships).
"""
