"""Stage 2: joins shared by shape.

Modules in reading order:

* ``reduce``: a tree → its minor, which is what a join needs to see
* ``graph``: join graphs, of the minors of all blocks and the value joins between them
* ``canonical``: one labelling of all isomorphic graphs
* ``bounds``: windows as bounds on differences of times, and the matrices that tighten them
* ``template``: templates, instances and groups
* ``relations``: the relations that statements speak of
* ``sql``: the thesis' conjunctive query of a template, for people and for tests
* ``picture``: templates drawn, and their query in Datalog
* ``members``: which streams of its channel a document belongs to, and which blocks see it
* ``links``: the parts of an instance that speak of two of its blocks
* ``program``: what all live queries ask, as edges, instances and groups
* ``retention``: how long rows of join state are kept
* ``columns``: records in columns
* ``shapes``: where a witness stands in its document, as one number
* ``results``: what stage 2 hands out, in one relation
* ``order``: which edges are enumerated, and which are verified on the pairs of others
* ``solve``: matched edges of one pair of documents → what one plan finds there
* ``resolve``: matched edges of document pairs → classes
* ``slices``: join state in the driver, by value
* ``value_counts``: how many pairs each edge has, estimated
* ``probe``: what new witnesses ask for, and what is asked of the pairs they find
* ``verify``: edges looked up on pairs that other edges found
* ``passes``: how the plans of a program are resolved in the driver
* ``find``: the joins of a batch in the driver
* ``partial_matches``: the documents and nodes that rows of links have bound so far
* ``link_rows``: rows of links in the driver, by the events of their members
* ``once``: the same events in all orders, of which ``ONCE`` chooses
* ``assemble``: rows of links → rows of R_out of queries of three and more blocks, or of two orders, in the driver
* ``assembly_tasks``: the same, as Spark's workers do it
* ``worker``: what Spark ships for resolution
* ``join``: the joins of a batch in Spark SQL
"""
