"""Calls of the HTTP API.

* ``calls``: Parts that all calls share: the service, the scopes, and the problems that their descriptions name
* ``deliveries``: Calls about webhooks: listing, adding and ending deliveries, and sending again
* ``events``: Calls that push events
* ``feeds``: Calls that give a query's matches as feeds that others subscribe to
* ``health``: Calls for those who watch the service: whether it lives, whether it works, and its figures
* ``home``: Calls about what the home holds: channels, templates, batches and figures
* ``items``: Calls about the items of feeds: listing them, and showing one
* ``listing``: Calls for the command line: matches with all options of a listing and with documents, and texts about
  queries
* ``matches``: Calls that list matches, and streams of them as they are committed
* ``once``: The call that answers a query once from held events: a process of its own does it, in bounded time and
  memory
* ``queries``: Calls that register, list, explain and drop queries
* ``request_checks``: Checks of requests against the description of their call: parameters that it knows, and types of
  its body
* ``sql``: The call that reads the home's relations with SQL
* ``subscriptions``: Calls about feeds: subscriptions, asking feeds, and feeds pushed as they were published
"""
