"""Listings of matches: which, in what order, with which values and documents.

* ``cards``: A match as a card: a few lines that a person reads
* ``counts``: Counts and aggregates of matches as they are read: of all, or of those that share values (PSoup's
  aggregates)
* ``current``: Current matches: the newest of each group of a query, and of windows with EVERY the answers of the last
  window
* ``cursors``: Places in the order in which matches were committed, and their texts
* ``feeds``: Matches of a query as feeds that others subscribe to: Atom (RFC 4287) and JSON Feed 1.1
* ``growing_parts``: Parts of what a listing finds: a short one first, because many readers look at the first page only
* ``kept_notes``: Notes on listings of matches that begin before the events that are kept (PSoup's retention)
* ``listing``: Listings of matches, by time or in the order of commits, with values and documents
* ``newest``: The last matches behind a cursor that hold, for feeds and for pages that show the newest first
* ``nodes``: Nodes that a query joins in the documents of a match, for people who look at both
* ``reader``: Reading matches: stored once for all groups that share them, told apart by subscriber here
* ``replacements``: Replacements: a match over a newer version of an item takes the place of an older match
* ``times``: Bounds of the times of matches that a listing has
* ``variables``: Variables that the matches of a query have values of, for who groups and counts matches by them
* ``window``: Windows of an invocation (PSoup): which times a listing of matches speaks of, as of a moment NOW
"""
