"""Steps of a query, by places instead of names.

* ``parts``: The queries whose matches NEXT, FOLD and FILTER are over, and the names that steps mention
* ``refusals``: Refusals of what queries with steps say of what must not be there
* ``shapes``: Shapes of steps: what queries have in common that differ only in the numbers of their conditions,
  and in windows
* ``steps``: Steps in queries, by places: what a query with NEXT, FOLD and FILTER asks of the matches of its parts
* ``terms``: Steps of a query by places instead of names: what NEXT, FOLD and FILTER ask of the matches of parts
* ``values``: Values that steps speak of: variables, functions over iterations, and accumulators, by places instead of
  names
"""
