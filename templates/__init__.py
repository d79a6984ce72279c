"""Stage 2: joins shared by shape.

Modules in reading order:

* ``reduce``: a tree → its minor, which is what a join needs to see
* ``graph``: join graphs, of the minors of all blocks and the value joins between them
* ``canonical``: one labelling of all isomorphic graphs
* ``bounds``: windows as bounds on differences of times, and the matrices that tighten them
* ``guards``: conditions of a block on its whole document, apart from the block's pattern
* ``template``: templates, instances and groups
* ``statements``: templates as statements, for people and for tests
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
* ``shapes``: the place of a witness in its document, as one number
* ``pair_spans``: pairs of documents that are told by spans of lists, and never written down
* ``class_columns``: rows of many classes of results that differ in their groups alone, in columns
* ``origins``: the part of a level of a batch that has numbered classes of results
* ``set_apart``: matches that go in memory to the windows over them
* ``results``: results of stage 2, in one relation
* ``runs``: witness rows of some documents in order of their values, never changed
* ``joins``: units of work: new witness rows meet those of the join state, for all plans at once
* ``many_blocks``: queries of three and more blocks: rows of links become matches
* ``run_checks``: checks of files of runs
* ``absence``: wanted bindings, less bindings with a forbidden document
* ``sequences``: bindings along time, which the instances of all patterns take together
* ``rules``: Rules of sharing: which operators of all queries run as one (M. Hong, RUMOR)
"""
