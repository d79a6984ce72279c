"""Stage 2: joins shared by shape.

In reading order: ``reduce`` (graph minors of patterns), ``graph`` (join graphs), ``canonical`` (one labelling of all
isomorphic graphs), ``template`` (templates, their meta-variables and instances), ``bounds`` (windows), ``relations``
and
``sql`` (the thesis' conjunctive query of each template), ``program`` (what all live queries ask, as edges, instances
and groups), ``join`` (the value joins of a batch in Spark SQL), ``resolve`` (matched edges to rows of R_out).
"""
