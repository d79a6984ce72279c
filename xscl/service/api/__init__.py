"""Calls of the HTTP API.

* ``calls``: Parts that all calls share: the service, the scopes, and the problems that their descriptions name
* ``request_checks``: Checks of requests against the description of their call: parameters that it knows, and types of
  its body
* ``events``: Calls that push events
* ``queries``: Calls that register, list, explain and drop queries
* ``once``: The call that answers a query once from held events: a process of its own does it, in bounded time and
  memory
* ``matches``: Calls that list matches, and streams of them as they are committed
* ``listing``: Calls for the command line: matches with all options of a listing and with documents, and texts about
  queries
* ``subscriptions``: Calls about feeds: subscriptions, asking feeds, and feeds pushed as they were published
* ``items``: Calls about the items of feeds: listing them, and showing one
* ``home``: Calls about what the home holds: channels, templates, batches and figures
* ``sql``: The call that reads the home's relations with SQL
* ``feeds``: Calls that give a query's matches as feeds that others subscribe to
* ``deliveries``: Calls about webhooks: listing, adding and ending deliveries, and sending again
* ``health``: Calls for those who watch the service: whether it lives, whether it works, and its figures
"""
