"""The service: one process that takes events over HTTP, runs batches, asks feeds, and gives matches as they come.

* ``settings``: Settings of the service: its address, its pauses, and the limits of requests
* ``problems``: Refusals as problems of RFC 9457: the condition, what is wrong and where, and what to do
* ``arrivals``: Pushed events on their way into the home: whatever came meanwhile is taken in one transaction
* ``metrics``: Counters and times of the service for Prometheus; every label has a bounded number of values
* ``runtime``: The running service: one engine, the pushes that come in, the loop of batches, and the poller of feeds
* ``access``: The gate in front of all calls: who asks, from where, how often, and with how large a body
* ``calls``: Parts that all calls share: the service, the scopes, and the problems that their descriptions name
* ``events_api``: Calls that push events
* ``queries_api``: Calls that register, list, explain and drop queries
* ``matches_api``: Calls that list matches, and streams of them as they are committed
* ``home_api``: Calls about what the home holds: channels, feeds, templates, batches and figures
* ``sql_api``: The call that reads the home's relations with SQL
* ``health_api``: Calls for those who watch the service: whether it lives, whether it works, and its figures
* ``app``: The application: all calls of the API, behind the gate
* ``server``: The server: the application on a port, until it is told to end
"""
