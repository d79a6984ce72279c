"""Rows of steps, and how NEXT, FOLD and FILTER move them on.

* ``absence``: Absence above steps: rows of a left side that a document accompanies, and how long such documents are
  kept
* ``documents``: Documents of answers that tell what FOLDs keep
* ``files``: The file of the rows that steps keep from batch to batch, with the queries that have each of them
* ``half_made``: Right sides that are half made: with them, what a FOLD with LONGEST has on its left may come to a
  longer match
* ``matches``: Matches of parts as rows of steps, and rows that are decided as matches of queries
* ``meeting``: Rows of both sides of NEXT or FOLD: the keys by which they meet, what left rows ask for, and what pairs
  make
* ``members``: Documents of rows of steps, those of all iterations of a FOLD, and the items that they are versions of
* ``own_values``: Values of rows on the right that queries compare with numbers or texts of their own
* ``rows``: Rows of steps: matches of parts, and what NEXT and FOLD have made of them so far, as arrays
* ``sharing``: Queries that share steps and differ in numbers: which of them have a row, and which still do behind a
  condition
* ``tree``: Steps of a query over the matches of its parts, as far as times are settled
* ``values``: Values of rows of steps, and conditions over pairs of a row on the left and a row on the right
"""
