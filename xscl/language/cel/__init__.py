"""CEL, the Cayuga Event Language: texts to the trees of XSCL.

* ``cel``: CEL, the Cayuga Event Language, to the tree of XSCL (docs/reference/cel.md)
* ``parser``: A recursive-descent parser for CEL, the Cayuga Event Language (docs/reference/cel.md)
* ``tree``: The syntax tree of CEL, the Cayuga Event Language: frozen nodes with spans, as written
"""
