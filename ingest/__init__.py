"""Readers of outside inputs: files, lines, feeds and rows become events.  Nothing is stored here.

Modules in reading order:

* ``records``: what readers yield besides ``xscl.base.types.Event``
* ``lines``: lines of byte streams, bounded in length
* ``plain_rows``: JSON lines in which nothing can be wrong → rows, many at once
* ``event_file``: lines of an event file → records
* ``dates``: the dates of feeds, read strictly
* ``plain_html``: HTML of paragraphs, lists and links, read without a tree
* ``markup``: HTML and XHTML of strangers → plain text and links
* ``item``: one normalised feed item and its document
* ``entry_fields``: the children of an element → what each says, in any dialect
* ``feed_fields``: elements of a feed → what the feed and its entries say
* ``feed``: a feed's tree → its entries, and an entry → its item
* ``json_feed``: the same for JSON Feed
* ``broken_feed``: the same for feeds that are not well-formed XML, without the published entries
* ``feed_bytes``: the bytes of a feed of any format → the feed
* ``identity``: which item an entry is, by what is remembered of earlier polls
* ``expand``: a feed's new entries → two events each
* ``rows``: a row's schema, and a row as a flat two-level document
* ``columns``: a table's columns as columns of such cells
* ``row_times``: the event times of a table's rows
* ``row_format``: formats of files of rows, told by name and content
* ``paths``: which elements are records, and where a document has its id or time
* ``reading``: options of reading, as users name them
* ``csv_files``: CSV → tables of rows
* ``json_rows``: JSON lines and rows of Python → tables of rows
* ``row_files``: files of rows of any format → tables of rows
* ``sql_tables``: tables of databases with a growing key → tables of rows
* ``archives``: compressed and archived input as streams
* ``archive_parts``: large archives in ranges of members, for tasks
* ``splitting``: a document of many records → its records, as a stream
* ``sources``: paths and standard input → records, by looking at the content
* ``file_parts``: files in parts that tasks read each by itself
* ``following``: directories and event files that grow → records and positions
* ``file_offsets``: a folder as a stream with offsets
* ``channel_columns``: stored events of a channel → its columns
* ``frames``: records as rows of Spark's data sources, and the reverse
* ``http_times``, ``poll_hints``: what answers and feeds say of how often to ask
* ``fetch_policy``: when a feed and a host may be asked next, and what an answer changes
* ``addresses``: which addresses may be asked
* ``fetch``: one request, and the redirects after it
* ``fetched``: the body of an answer → a feed
* ``opml``: lists of subscriptions, read and written
* ``spool``: feeds polled into a folder
* ``spark_sources``: the Spark data sources ``xscl-xml`` and ``xscl-feed``
"""
