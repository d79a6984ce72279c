"""Stage 1: documents and rows to witnesses, with one look at a document for all patterns.

Modules in reading order:

* ``pattern``: node tests, steps and conditions, each with one canonical text
* ``nodes``: nodes of one document, their numbers and string values
* ``condition``: brackets on one node, with the meaning of XPath 1.0
* ``shared_conditions``: equal conditions made of the same objects
* ``intervals``: intervals of values, and the intervals, among many, that hold a value
* ``runs``: runs of places in arrays
* ``word_index``: the words, among many, that a text has
* ``accesses``: the comparison under which a set of conditions is filed
* ``predicates``: the sets of conditions, among many, that one node satisfies
* ``guards``: the conditions that nodes are asked for, apart from the states that ask
* ``names``: the node tests that a name passes
* ``row_template``: arrays that all nodes of one kind share
* ``states``: states of the automaton, and the requests for the nodes that reach a state
* ``trie``: all states, by channel, as specs come and go
* ``chains``: the rows of R_bin around one binding of a leaf
* ``automaton``: all definitions of all queries in one machine, over paths of names
* ``walk``: the one pass over a document
* ``parts``: specs that together ask too much of a document, cut up
* ``key_numbers``: numbers of keys
* ``chunk_names``: names and paths of many documents as numbers
* ``column_chunk``: documents as columns
* ``shredding``: the stored texts of many documents become such columns
* ``chunk_texts``: string values of nodes in columns
* ``ranks``: texts ranked among the constants of one reading
* ``witness_columns``: visits of a walk to witness rows, in columns
* ``fact_rows``: all facts of a document together in the chain of one witness row
* ``chunk_steps``: steps of paths over documents in columns
* ``formulas``: formulas over columns
* ``column_conditions``: formulas over columns as spans of values
* ``span_words``: words that sets of conditions seek in columns, and the values that have them
* ``span_tables``: sets of spans in arrays
* ``span_crossings``: rows that satisfy two entries of an alternative at once
* ``span_search``: the search for the sets of spans that many rows satisfy, over columns
* ``span_index``: sets of conditions that many rows satisfy, found in one pass over columns
* ``node_columns``: values that nodes of a chunk have, as columns
* ``node_conditions``: conditions of nodes in columns
* ``guard_sets``: the sets of conditions that guarded states ask for, in columns
* ``branch_sets``: the sets that branches ask for, joined with the sets that hold at nodes
* ``guarded_states``: states with conditions on their way, followed over many documents at once
* ``path_moves``: paths of documents in columns to the moves of an automaton
* ``chunk_visits``: visits of the nodes of a chunk
* ``document_witnesses``: witness rows of documents, collected one document after another
* ``witness``: documents and the automaton → witness rows
* ``row_columns``: the cells of many rows as columns
* ``relational``: definitions that columns answer, without documents
* ``row_witness``: rows → witness rows by columns alone
* ``row_files``, ``spec_files``: specs, as files for other processes
"""
