"""Matches, relations and explanations for people and programs that ask.

* ``channel_listing``: Rows of a listing of channels and their streams
* ``channel_paths``: Paths of elements and attributes that occur in the latest documents of a channel, as queries write
  them
* ``consistency``: Consistency of queries about absence and with steps: what each told, took back and missed, and what
  it still keeps
* ``deliveries``: Deliveries of matches: adding them, sending again, and rows of their listing, without anything secret
* ``document_listing``: Documents of a channel as people see them: the latest ones, or one by its id
* ``explaining``: Queries, templates and plans explained
* ``feed_health``: Words for the health of a feed
* ``feed_listing``: Rows of a listing of feeds, how each of them does, and finding one by its address or a part of it
* ``frontiers``: Frontiers: how far the times of each channel are settled, by what, and what waits for it
* ``headline``: A document, or an element of it, in a few words for a person
* ``item_listing``: Listing the items of feeds: title, feed, date and link of each, newest first; and showing one
* ``lateness``: Lateness that channels would need: how far behind their clocks the events came that are held
* ``marked_document``: A document as text for people, in lines with indents, some of whose nodes are marked
* ``matches``: Listings of matches: which, in what order, with which values and documents
* ``once``: Texts that are answered once, from events that are held
* ``recent_activity``: Latest batches of a home, and the events that they lost, for people who watch it
* ``spark_sources``: Data sources of Spark that read a home
* ``sql``: Relations of a home, and statements of SQL over them, on Spark
* ``status``: Status of batches, of templates and of a home, for listings and messages
* ``try_query``: Dry run of a query on documents
"""
