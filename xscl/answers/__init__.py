"""Matches, relations and explanations for people and programs that ask.

* ``ask_once``: A text is answered once from held events
* ``cards``: A match as a card
* ``channel_listing``: Rows of a listing of channels and their streams
* ``combination_steps``: Steps of combinations of documents
* ``explain``: Facts about one query
* ``explain_text``: An explanation of a query as a text for people
* ``feed_health``: Words for the health of a feed
* ``feed_listing``: Rows of a listing of feeds, how each of them does, and finding one by its address or a part of it
* ``headline``: A document, or an element of it, in a few words for a person
* ``item_listing``: Listing the items of feeds
* ``match_cursors``: Places in the order in which matches were committed, and their texts
* ``match_listing``: Listings of matches, by time or in the order of commits, with values and documents
* ``match_reader``: Reading matches
* ``match_rows``: Rows of ``Engine.matches_df``
* ``match_steps``: Steps of the relations ``matches`` and ``rout_<template>``
* ``match_window``: Windows of an invocation (PSoup)
* ``relation_steps``: Steps of the relations that statements of SQL read
* ``replacements``: Replacements
* ``sql_counts``: Statements that only count matches, which counts of classes answer as well as the matches themselves
* ``sql_functions``: The functions of Spark that statements may call
* ``sql_guard``: Statements of SQL that only read a home's relations, told from all others without Spark
* ``sql_relations``: Relations that a statement of SQL reads, each with the steps that the statement needs
* ``sql_sources``: Sources that steps of relations read
* ``sql_steps``: Steps of SQL
* ``sql_tokens``: Tokens of SQL statements
* ``sql_views``: Read-only SQL over a home's relations, on Spark
* ``status``: Status of batches and of a home, for listings and messages
* ``template_text``: Facts about one template
* ``try_query``: Dry run of a query on documents
"""
