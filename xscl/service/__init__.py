"""The service: one process that takes events over HTTP, runs batches, asks feeds, and gives matches as they come.

* ``settings``: Settings of the service: its address, its pauses, and the limits of requests
* ``problems``: Refusals as problems of RFC 9457: the condition, what is wrong and where, and what to do
* ``arrivals``: Pushed events on their way into the home: whatever came meanwhile is taken in one transaction
* ``metrics``: Counters and times of the service for Prometheus; every label has a bounded number of values
* ``feed_pages``: The last matches of queries as entries of feeds, kept so that a reader that asks often costs little
* ``live_pages``: Pages of matches for live streams: streams that wait behind the same cursor share one reading of what
  comes
* ``delivery_pages``: Pages of a delivery: the next matches behind a cursor, as lines of JSON
* ``delivery_files``: Files of deliveries: lines at the end of a file that another one follows by day and by size
* ``webhooks``: Webhooks: requests that bring matches to an address, signed, and what their answers mean
* ``delivery_sending``: Sending of one delivery: page after page to its target, each noted behind it, or put off
* ``deliverer``: The deliverer: a thread that has deliveries go on as matches are committed
* ``turns``: Turns of calls that read for long: few at a time, and few of one holder; others are told to come again
* ``runtime``: The running service: one engine, the pushes that come in, the loop of batches, and the poller of feeds
* ``access_log``: Lines of the access log on their way out: a thread writes what has come, so that no answer waits for a
  terminal
* ``access``: The gate in front of all calls: who asks, from where, how often, and with how large a body
* ``calls``: Parts that all calls share: the service, the scopes, and the problems that their descriptions name
* ``request_checks``: Checks of requests against the description of their call: parameters that it knows, and types of
  its body
* ``events_api``: Calls that push events
* ``queries_api``: Calls that register, list, explain and drop queries
* ``match_lines``: Lines of matches with the documents of their members, as the command line reads them
* ``once_worker``: A process that answers one query from held events, for the service: whoever asked may end the
  process
* ``once_api``: The call that answers a query once from held events: a process of its own does it, in bounded time and
  memory
* ``matches_api``: Calls that list matches, and streams of them as they are committed
* ``listing_api``: Calls for the command line: matches with all options of a listing and with documents, and texts about
  queries
* ``subscriptions_api``: Calls about feeds: subscriptions, asking feeds, and feeds pushed as they were published
* ``items_api``: Calls about the items of feeds: listing them, and showing one
* ``home_api``: Calls about what the home holds: channels, templates, batches and figures
* ``sql_api``: The call that reads the home's relations with SQL
* ``feeds_api``: Calls that give a query's matches as feeds that others subscribe to
* ``deliveries_api``: Calls about webhooks: listing, adding and ending deliveries, and sending again
* ``head_answers``: HEAD: whatever answers GET answers HEAD by the same headers, without the content
* ``health_api``: Calls for those who watch the service: whether it lives, whether it works, and its figures
* ``console_drawing``: Drawings of the console: join graphs of queries and templates
* ``console_plots``: Plots of the console: figures by time, bars of amounts, and curves of a column over another one
* ``console_pages``: Pages of the console: their templates, files and headers, forms, and refusals as pages
* ``console_login``: Pages on which a token is given and taken back
* ``console_matches``: Pages of matches: cards as they are committed, and one match with its documents side by side
* ``console_queries``: Pages of queries: the list, and one query with its facts and its matches live
* ``console_editor``: Pages on which a query is written: it is checked and drawn as one types, and registered
* ``console_trial``: Trial of a query on a few documents: its witnesses and matches, before it is registered
* ``console_home``: Pages of the home: the overview, channels, templates and batches
* ``console_feeds``: Pages of feeds: the list with its OPML, and one feed with its history and its newest items
* ``console_deliveries``: Pages of deliveries: how far each is, what fails, what was given up; adding, ending, replaying
* ``console_sql``: The page on which the home's relations are read with SQL
* ``console``: The console: all its pages
* ``app``: The application: all calls of the API and the console, behind the gate
* ``server``: The server: the application on a port, until it is told to end
"""
