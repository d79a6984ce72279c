"""The console: pages for people.

* ``console``: The console: all its pages
* ``deliveries``: Pages of deliveries: how far each is, what fails, what was given up; adding, ending, replaying
* ``drawing``: Drawings of the console: join graphs of queries and templates
* ``editor``: Pages on which a query is written: it is checked and drawn as one types, and registered
* ``feeds``: Pages of feeds: the list with its OPML, and one feed with its history and its newest items
* ``home``: Pages of the home: the overview, channels, templates and batches
* ``login``: Pages on which a token is given and taken back
* ``matches``: Pages of matches: cards as they are committed, and one match with its documents side by side
* ``pages``: Pages of the console: their templates, files and headers, forms, and refusals as pages
* ``plots``: Plots of the console: figures by time, bars of amounts, and curves of a column over another one
* ``queries``: Pages of queries: the list, and one query with its facts and its matches live
* ``sql``: The page on which the home's relations are read with SQL
* ``trial``: Trial of a query on a few documents: its witnesses and matches, before it is registered
"""
