"""The console: pages for people.

* ``drawing``: Drawings of the console: join graphs of queries and templates
* ``plots``: Plots of the console: figures by time, bars of amounts, and curves of a column over another one
* ``pages``: Pages of the console: their templates, files and headers, forms, and refusals as pages
* ``login``: Pages on which a token is given and taken back
* ``matches``: Pages of matches: cards as they are committed, and one match with its documents side by side
* ``queries``: Pages of queries: the list, and one query with its facts and its matches live
* ``editor``: Pages on which a query is written: it is checked and drawn as one types, and registered
* ``trial``: Trial of a query on a few documents: its witnesses and matches, before it is registered
* ``home``: Pages of the home: the overview, channels, templates and batches
* ``feeds``: Pages of feeds: the list with its OPML, and one feed with its history and its newest items
* ``deliveries``: Pages of deliveries: how far each is, what fails, what was given up; adding, ending, replaying
* ``sql``: The page on which the home's relations are read with SQL
* ``console``: The console: all its pages
"""
