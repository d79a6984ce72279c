"""Memory of this process from batch to batch.

* ``absence``: Queries about absence as this process remembers them from batch to batch: their parts, and who reads
  answers
* ``driver``: Memory of this process from batch to batch: solved signatures, the price of work, and who asks for
  windows, steps and absence
* ``steps``: Steps as this process remembers them from batch to batch: who asks for them, and which queries share them
* ``windows``: Windows as this process remembers them from batch to batch: who asks for them, and the rows that are kept
"""
