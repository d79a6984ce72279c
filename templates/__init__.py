"""Stage 2: joins shared by shape.

Modules in reading order:

* ``reduce``: a tree → its minor, which is what a join needs to see
* ``graph``: join graphs, of the minors of all blocks and the value joins between them
* ``canonical``: one labelling of all isomorphic graphs
* ``bounds``: windows as bounds on differences of times, and the matrices that tighten them
* ``guards``: conditions of a block on its whole document, apart from the block's pattern
* ``template``: templates, instances and groups
* ``relations``: the relations that statements speak of
* ``sql``: the thesis' conjunctive query of a template, for people and for tests
* ``sql_dialects``: statements of templates as texts of Spark SQL, SQLite and DuckDB
* ``picture``: templates drawn, and their query in Datalog
* ``members``: the streams of its channel that a document belongs to, and the blocks that see it
* ``links``: the parts of an instance that speak of two of its blocks
* ``plans``: plans as data: edges, groups, instances, links and assemblies
* ``plan_making``: plans from groups, and the order in which nodes are bound
* ``columns``: records in columns
* ``ordinals``: the age of events among those of their channel, as row windows count them
* ``program_guards``: guards of a program's groups: their numbers, what they read, and the variables that they guard
* ``program``: the requests of all live queries, as edges, instances and groups
* ``retention``: retention of join state
* ``program_files``: programs as files, in versions, for processes that load them
* ``mapped_columns``: columns in a file that is mapped into memory, and never read as a whole
* ``shapes``: the place of a witness in its document, as one number
* ``pair_spans``: pairs of documents that are told by spans of lists, and never written down
* ``class_columns``: rows of many classes of results that differ in their groups alone, in columns
* ``origins``: the part of a level of a batch that has numbered classes of results
* ``set_apart``: matches that go in memory to the windows over them
* ``results``: results of stage 2, in one relation
* ``order``: which edges are enumerated, and which are verified on the pairs of others
* ``matched_edges``: matched edges of one pair of documents, as relations between nodes
* ``solve``: matched edges of one pair of documents → what one plan finds there
* ``runs``: witness rows of some documents in order of their values, never changed
* ``run_making``: runs of witness rows in any order, or of columns in order
* ``document_facts``: facts of documents, and numbers in them, as guards read them
* ``window_cells``: windows of many groups over many pairs of documents
* ``guarded``: guards over many pairs of documents
* ``guarded_windows``: windows of groups with guards: which of them admit which pairs of documents
* ``signatures``: the matched edges of pairs that are alike, and what plans find there
* ``resolve``: matched edges of document pairs → classes
* ``run_files``: files of runs, memory-mapped and shared by processes
* ``run_rows``: rows of runs as witness rows again, in part, or with the rows of other runs
* ``run_view``: a run as one finder sees it
* ``verify``: edges looked up on pairs that other edges found
* ``passes``: how the plans of a program are resolved in a unit of work
* ``edge_table``: edges that find pairs, by the keys of their sides
* ``pair_documents``: documents of pairs, looked up among witness rows or runs
* ``told_spans``: spans of rows that are handed out as they are
* ``verified_edges``: edges that a pass looks up on the pairs that its other edges have found
* ``meet``: units of work: a run of new rows meets other runs
* ``find``: the joins of a batch, from new witnesses and the join state to results
* ``exchanges``: matches that have the same events with two of them in each other's place
* ``link_runs``: runs of rows of links
* ``link_state``: rows of links that partial matches meet
* ``run_checks``: checks of files of runs
* ``link_chains``: partial matches of queries of many blocks, in columns
* ``once``: the same events in all orders, among which ``ONCE`` chooses
* ``plain_matches``: combinations of an assembly among whose orders nothing is chosen
* ``absence``: wanted bindings, less bindings with a forbidden document
* ``lanes``: bindings of a part by key and time, along which all instances of all patterns move at once
* ``fold_rounds``: rounds of a FOLD, in which open instances take their next rows together
* ``member_sets``: sets of the queries that share a row: numbered sets, cut by ranges of the constants in which queries
  differ
* ``longest``: the longest matches of a FOLD: those whose events are no proper part of the events of another one
* ``thresholds``: NEXT for many constants at once: one walk along record values answers each constant
* ``link_matches``: rows of links → rows of R_out and matches of queries of three and more blocks, or of two orders
* ``rules``: Rules of sharing: which operators of all queries run as one (M. Hong, RUMOR)
"""
