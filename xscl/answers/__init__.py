"""Matches, relations and explanations for people and programs that ask.

* ``ask_absence``: Answers about absence among matches that were found once in held events
* ``ask_once``: A text is answered once from held events; the home registers nothing and is only read
* ``ask_sub_queries``: A text with queries in parentheses, answered once: in a home of its own, which takes in what is
  held and is removed
* ``ask_steps``: Answers of steps over matches of parts that were found once in held events
* ``ask_windows``: Answers of windows over matches that were found once in held events
* ``cards``: A match as a card: a few lines that a person reads
* ``channel_listing``: Rows of a listing of channels and their streams
* ``channel_paths``: Paths of elements and attributes that occur in the latest documents of a channel, as queries write
  them
* ``channel_source``: The Spark data source ``xscl-channel``: events of a channel, for batches and streams
* ``channel_views``: Channels as relations: their names in SQL, their columns, and the steps that show their events
* ``combination_steps``: Steps of combinations of documents: their events, and facts of their members for matches
* ``consistency``: Consistency of queries about absence: what each has told and taken back, what it missed, and what it
  still keeps
* ``current_matches``: Current matches: the newest of each group of a query, and of windows with EVERY the answers of
  the last window
* ``data_sources``: The Spark data sources of xscl, and the sessions that know them
* ``deliveries``: Deliveries of matches: adding them, sending again, and rows of their listing, without anything secret
* ``document_listing``: Documents of a channel as people see them: the latest ones, or one by its id
* ``explain``: Explanation of a registered query: facts of it by itself, and of the queries that share work with it
* ``explain_text``: An explanation of a query as a text for people
* ``feed_health``: Words for the health of a feed
* ``feed_listing``: Rows of a listing of feeds, how each of them does, and finding one by its address or a part of it
* ``frames``: Event files, and other files of a known shape, as relations of Spark
* ``kept_notes``: Notes on listings of matches that begin before the events that are kept (PSoup's retention)
* ``lateness``: Lateness that channels would need: how far behind their clocks the events came that are held
* ``frontiers``: Frontiers: how far the times of each channel are settled, by what, and what waits for it
* ``growing_parts``: Parts of what a listing finds: a short one first, because many readers look at the first page only
* ``headline``: A document, or an element of it, in a few words for a person
* ``home_sources``: Common part of the Spark data sources that read a home
* ``item_listing``: Listing the items of feeds: title, feed, date and link of each, newest first; and showing one
* ``marked_document``: A document as text for people, in lines with indents, some of whose nodes are marked
* ``match_counts``: Counts and aggregates of matches as they are read: of all, or of those that share values (PSoup's
  aggregates)
* ``match_cursors``: Places in the order in which matches were committed, and their texts
* ``match_feeds``: Matches of a query as feeds that others subscribe to: Atom (RFC 4287) and JSON Feed 1.1
* ``match_listing``: Listings of matches, by time or in the order of commits, with values and documents
* ``match_nodes``: Nodes that a query joins in the documents of a match, for people who look at both
* ``match_reader``: Reading matches: stored once for all groups that share them, told apart by subscriber here
* ``match_rows``: Rows of ``Engine.matches_df``: Spark's tasks build them from the members' documents
* ``match_source``: The Spark data source ``xscl-matches``: matches in the order of commits, for batches and streams
* ``match_steps``: Steps of the relations ``matches`` and ``rout_<template>``
* ``match_times``: Bounds of the times of matches that a listing has
* ``match_variables``: Variables that the matches of a query have values of, for who groups and counts matches by them
* ``match_window``: Windows of an invocation (PSoup): which times a listing of matches speaks of, as of a moment NOW
* ``plan_operators``: Operators of registered queries: conditions, windows, joins, steps and absence, as rules of
  sharing speak of them
* ``query_facts``: Facts of a compiled query by itself: blocks in normal form, joins, windows, links, guards and
  variables
* ``query_plan``: Plan of the registered queries: which m-ops run for them, and which rules have made them, as rows,
  text and graph
* ``recent_activity``: Latest batches of a home, and the events that they lost, for people who watch it
* ``relation_comments``: Comments on relations and their columns, which ``DESCRIBE``, the shell and
  docs/reference/sql.md show
* ``relation_export``: Export of relations for other databases: Parquet files with a script of views, or one file of
  DuckDB
* ``relation_steps``: Steps of the relations that statements of SQL read; ``match_steps`` has those of matches and
  R_out
* ``replacements``: Replacements: a match over a newer version of an item takes the place of an older match
* ``seen_steps``: Steps that bring combinations of documents and the classes of queries together: the matches that
  queries see
* ``sql_counts``: Statements that only count matches, which counts of classes answer as well as the matches themselves
* ``sql_functions``: The functions of Spark that statements may call
* ``sql_guard``: Statements of SQL that only read a home's relations, told from all others without Spark
* ``sql_relations``: Relations that a statement of SQL reads, each with the steps that the statement needs
* ``sql_scripts``: Scripts of SQL: statements that a semicolon ends, each with its place
* ``sql_sizes``: Sizes that statements of strangers may ask for: functions that make long values have sizes that are
  written out
* ``sql_sources``: Sources that steps of relations read: files and catalogue tables of a home, as DataFrames of Spark
* ``sql_steps``: Steps of SQL: a relation is a list of named steps, in the order in which data flows
* ``sql_times``: Event times that a statement asks channels for, told from its conditions
* ``sql_tokens``: Tokens of SQL statements: each in a form that Spark reads as one token, and calls judged by tokens
  alone
* ``sql_views``: Read-only SQL over a home's relations, on Spark
* ``status``: Status of batches, of templates and of a home, for listings and messages
* ``step_shared``: Steps that queries share, as ``query explain`` tells of them: with whom, and what is asked for each
  number
* ``step_sql``: Steps as one statement of SQL, for people and for tests: NEXT by NOT EXISTS, FOLD by recursion
* ``step_templates``: Steps that queries share, as templates: which there are, how many queries have them, and their
  statements
* ``template_text``: Facts about one template: as a record, as a text for people, and as a statement of SQL
* ``try_query``: Dry run of a query on documents
"""
