"""Units of work: new witness rows meet those of the join state, for all plans at once.

Modules in reading order:

* ``families``: families of inequalities: edges that compare the same two values, and differ in one constant
* ``line_search``: inequalities of many plans, looked up together
* ``order``: which edges are enumerated, and which are verified on the pairs of others
* ``matched_edges``: matched edges of one pair of documents, as relations between nodes
* ``solve``: matched edges of one pair of documents → what one plan finds there
* ``document_facts``: facts of documents, and numbers in them, as guards read them
* ``window_cells``: windows of many groups over many pairs of documents
* ``guarded``: guards over many pairs of documents
* ``guarded_windows``: windows of groups with guards: which of them admit which pairs of documents
* ``asked_edges``: matched edges of pairs of documents, without those that no query may ask for
* ``edge_sets``: sets of matched edges: what a program asks of the pairs of documents that have one
* ``signatures``: the matched edges of pairs that are alike, and what plans find there
* ``link_rows``: rows of links that pairs of documents come to, and links that are refused
* ``resolve``: matched edges of document pairs → classes
* ``bounds_of_values``: bounds of values, by which pairs of rows are left out before they are written down
* ``verify``: edges looked up on pairs that other edges found
* ``passes``: how the plans of a program are resolved in a unit of work
* ``edge_table``: edges that find pairs, by the keys of their sides
* ``pair_documents``: documents of pairs, looked up among witness rows or runs
* ``told_spans``: spans of rows that are handed out as they are
* ``verified_edges``: edges that a pass looks up on the pairs that its other edges have found
* ``meet``: units of work: a run of new rows meets other runs
* ``find``: the joins of a batch, from new witnesses and the join state to results
"""
