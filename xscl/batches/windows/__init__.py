"""Windows of matches: their rows, buckets and aggregates.

* ``answers``: Answers of windows: matches that were found, put together by windows and groups, as far as times are
  settled
* ``bounds``: Bounds of conditions: what a condition of HAVING compares, and between which doubles that has to be
* ``buckets``: Buckets of matches: what aggregates need of the matches of a group in a short time, in place of the
  matches
* ``documents``: Documents of what is told of matches together
* ``families``: Families of definitions with the same windows of the same groups, which differ in conditions and in what
  they tell
* ``groups``: Matches of a part as queries with windows ask of them: each column and each grouping is made once
* ``parts``: Aggregates over the last matches of each part of a group (``LAST n PER x``)
* ``rows``: Matches that windows are over, as they are kept from batch to batch: one file of the state for all of them
* ``spans``: Aggregates over spans of matches: windows of groups, all of them at once
* ``stores``: Stores of buckets in a batch: matches whose time is settled go into buckets, and families of windows read
  these
* ``streams``: Rows of matches that several parts share: a match is stored once, with the numbers of the parts that have
  it
* ``tops``: Groups of a window that ``TOP`` tells of: those of the greatest values, and of equal ones in their order
* ``values``: Values of matches by columns, as texts and as exact numbers
"""
