"""Leaves of the import graph: errors, types, values, XML of strangers, files, locks.

* ``arrow_schemas``: Arrow schemas as Spark's DDL, so that a relation's shape is declared once
* ``atomic_files``: Files for others, which appear under their names when they are whole
* ``docids``: Places in the intake order, and the document numbers that stand for them
* ``durations``: Durations of windows
* ``encodings``: The character encodings that documents, feeds and answers of strangers may name
* ``errors``: Every error xscl raises, in one tree
* ``failpoints``: Failpoints
* ``locks``: Locks on files
* ``name_patterns``: Patterns of names and titles, as options take them
* ``namespaces``: Prefixes that are known everywhere a path is written
* ``notebook``: Tables of HTML for notebooks
* ``parquet_bounds``: Bounds on Parquet files of strangers
* ``private``: Folders and files that nobody but the user can read
* ``progress``: Progress of long work
* ``safe_xml``: Parsing XML from strangers
* ``sealed``: Digests of files
* ``settings``: Settings of how a home is worked on
* ``shown``: Texts of strangers as people are shown them
* ``system_errors``: Errors of the surroundings
* ``temporary``: Temporary folders that do not outlive their process for long, however it ends
* ``terminal``: The one place that writes to standard output and error
* ``types``: The public records of the library
* ``values``: Values as queries compare them
* ``version``: The version, where every part may look it up
* ``versioned_files``: Values that other processes keep up to date, as files
"""
