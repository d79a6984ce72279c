"""Stage 1: documents and rows to witnesses, with one look at a document for all patterns.

Modules in reading order:

* ``pattern``: node tests, steps and conditions, each with one canonical text
* ``nodes``: nodes of one document, their numbers and string values
* ``runs``: runs of places in arrays
* ``conditions``: conditions in brackets, and the sets of them, among many, that a node satisfies
* ``guards``: the conditions that nodes are asked for, apart from the states that ask
* ``automaton``: the automaton of all patterns: states, their steps, and the walk over a document
* ``key_numbers``: numbers of keys
* ``columns``: documents as columns: their nodes, texts and conditions, many documents at once
* ``ranks``: texts ranked among the constants of one reading
* ``witness_columns``: visits of a walk to witness rows, in columns
* ``fact_rows``: all facts of a document together in the chain of one witness row
* ``spans``: sets of conditions as spans of values, found for many rows in one pass over columns
* ``moves``: moves of the automaton over documents in columns, past the conditions on its way
* ``document_witnesses``: witness rows of documents, collected one document after another
* ``witness``: documents and the automaton → witness rows
* ``row_columns``: the cells of many rows as columns
* ``relational``: definitions that columns answer, without documents
* ``row_witness``: rows → witness rows by columns alone
* ``row_files``, ``spec_files``: specs, as files for other processes
"""
