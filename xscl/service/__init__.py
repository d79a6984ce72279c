"""The service: one process that takes events over HTTP, runs batches, asks feeds, and gives matches as they come.

* ``access``: The gate in front of all calls: who asks, from where, how often, and with how large a body
* ``access_log``: Lines of the access log on their way out: a thread writes what has come, so that no answer waits for a
  terminal
* ``api``: Calls of the HTTP API
* ``app``: The application: all calls of the API and the console, behind the gate
* ``arrivals``: Pushed events on their way into the home: whatever came meanwhile is taken in one transaction
* ``connections``: Connections of the service: so many at once, and none that holds its place without a request
* ``console``: The console: pages for people
* ``delivering``: Deliveries of matches: to webhooks and files
* ``feed_pages``: The last matches of queries as entries of feeds, kept so that a reader that asks often costs little
* ``head_answers``: HEAD: whatever answers GET answers HEAD by the same headers, without the content
* ``live_pages``: Pages of matches for live streams: streams that wait behind the same cursor share one reading of what
  comes
* ``match_lines``: Lines of matches with the documents of their members, as the command line reads them
* ``metrics``: Counters and times of the service for Prometheus; every label has a bounded number of values
* ``once_worker``: A process that answers one query from held events, for the service: whoever asked may end the process
* ``problems``: Refusals as problems of RFC 9457: the condition, what is wrong and where, and what to do
* ``runtime``: The running service: one engine, the pushes that come in, the loop of batches, and the poller of feeds
* ``server``: The server: the application on a port, until it is told to end
* ``settings``: Settings of the service: its address, its pauses, and the limits of requests
* ``turns``: Turns of calls that read for long: few at a time, and few of one holder; others are told to come again
"""
