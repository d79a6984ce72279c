"""Leaves of the import graph: errors, types, values, XML of strangers, files, locks.

* ``alike_rows``: Witness rows that differ from others in their event alone: one of each kind is made, and of the rest
  events are told
* ``arrow_bounds``: Bounds on Arrow files of strangers
* ``arrow_schemas``: Arrow schemas as Spark's DDL, so that a relation's shape is declared once
* ``atomic_files``: Files for others, which appear under their names when they are whole
* ``collecting``: Python's collector of cycles, put off while thousands of objects without cycles are made
* ``docids``: Places in the intake order, and the document numbers that stand for them
* ``document_limits``: Limits of documents, and the checks of markup and trees by them
* ``durations``: Durations of windows: ``7 days``, ``90s``, ``'PT5M'``, a bare number of seconds
* ``encodings``: The character encodings that documents, feeds and answers of strangers may name
* ``errors``: Every error xscl raises, in one tree
* ``failpoints``: Failpoints: named steps between writes, so that tests can end a process at any of them
* ``home_folders``: The folders of a home, by which a folder is known for one
* ``local_copies``: Copies of a home's sealed files on this machine's disk, for homes on storage that is far away
* ``locks``: Locks on files: a lock goes with the process that holds it, however that ends, so none is ever left
  behind
* ``mixed``: Comparisons of values of several kinds, as conjunctions of comparisons of texts
* ``name_patterns``: Patterns of names and titles, as options take them
* ``namespaces``: Prefixes that are known everywhere a path is written
* ``notebook``: Tables of HTML for notebooks; every text in them is escaped
* ``number_order``: Many whole numbers in order, by their digits or by a table: comparing them takes several times as
  long
* ``own_functions``: Functions of one's own: what a program gives xscl to compute values with, beside those of the
  language
* ``pandas_later``: Putting off pandas in commands until Spark needs it
* ``parquet_bounds``: Bounds on Parquet files of strangers
* ``pickled``: Records that are pickled by the values of their fields, in a third of the time that data classes with
  slots take
* ``private``: Folders and files that nobody but the user can read
* ``progress``: Progress of long work: whoever does the work tells, and whoever wants to know listens
* ``replacing``: Records that differ from others in a few of many fields
* ``safe_xml``: Parsing XML from strangers
* ``sealed``: Digests of files: a file that is not as it was written is found out by whoever reads it
* ``settings``: Settings of how a home is worked on; no setting changes an answer
* ``shown``: Texts of strangers as people are shown them
* ``system_errors``: Errors of the surroundings: disks, the database, Java
* ``temporary``: Temporary folders that do not outlive their process for long, however it ends
* ``terminal``: The one place that writes to standard output and error
* ``types``: The public records of the library: events going in, matches and outcomes coming out
* ``values``: Values as queries compare them: numbers, canonical URLs, the functions of atoms, and hashes
* ``version``: The version, where every part may look it up
* ``versioned_files``: Values that other processes keep up to date, as files
* ``ways``: Ways to do something, as messages tell them: by a command, and to programs also by a call of the library
* ``words``: Words of texts by Unicode's default word boundaries (UAX 29), with case folded
* ``xml_bounds``: Bounds from above of nodes and names, by the bytes of a document without declarations, which cost less
  than counting
* ``xml_characters``: Characters and names of XML 1.0, as patterns
* ``xml_runs``: Many small documents of strangers checked and written canonically by one parse
"""
