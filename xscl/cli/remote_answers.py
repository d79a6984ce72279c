"""Answers of a running service about items, templates, plans, lateness, queries: rows and texts as of a home."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xscl.base.types import format_time
from xscl.catalog.channels import put_channel, read_channels, read_streams
from xscl.cli.client import Client, quoted
from xscl.cli.pushing import listed_channel
from xscl.cli.remote import match_of
from xscl.registry.channels import ChannelOptions, add_channel
from xscl.registry.registrations import Resumed
from xscl.registry.registry import Registry
from xscl.store.home import init_home

if TYPE_CHECKING:
    from pathlib import Path

    from xscl.answers.item_listing import ItemFilter
    from xscl.answers.try_query import DryRun
    from xscl.base.types import Match
    from xscl.templates.statements.dialect import Dialect
    from xscl.templates.statements.picture import GraphFormat

__all__ = [
    "declare_remote_lateness",
    "remote_consistency",
    "remote_datalog",
    "remote_dry_run",
    "remote_graph",
    "remote_item",
    "remote_items",
    "remote_lateness",
    "remote_plan",
    "remote_template",
    "remote_template_sql",
    "resume_query",
    "run_query",
]

_PAGE = 1_000
"""Entries of a page of the service."""


# -- items -----------------------------------------------------------------------------------------------------


def remote_items(client: Client, wanted: ItemFilter, limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of items; pages are as long as ``limit`` needs."""
    times = {name: getattr(wanted, name) for name in ("since", "until")}
    given = {"feed": wanted.feed, "channel": wanted.channel, "like": wanted.like}
    given |= {name: None if time is None else format_time(time) for name, time in times.items()}
    params: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    params["limit"] = _PAGE if limit is None else max(1, min(limit + 1, _PAGE))
    while True:
        page = client.call("GET", "/v1/items", params=params)
        yield from page["items"]
        if page["after"] is None:
            return
        params["after"] = page["after"]


def remote_item(client: Client, item: str, feed: str | None) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return an item, and the fields of its document."""
    params = {"item": item} if feed is None else {"item": item, "feed": feed}
    found = client.call("GET", "/v1/items/one", params=params)
    return found["item"], [(field["name"], field["text"]) for field in found["fields"]]


# -- templates -------------------------------------------------------------------------------------------------


def remote_template(client: Client, template: str, *, json: bool) -> Any:
    """Return a template as a text for people, or as a record of JSON."""
    path = f"/v1/templates/{quoted(template)}"
    return client.call("GET", path if json else f"{path}/text")


def remote_graph(client: Client, template: str, language: GraphFormat) -> str:
    """Return the join graph of a template."""
    path = f"/v1/templates/{quoted(template)}/graph"
    return str(client.call("GET", path, params={"language": language.value}))


def remote_template_sql(client: Client, template: str, query: str | None, dialect: Dialect) -> str:
    """Return the conjunctive query of a template as a statement of SQL."""
    params = {"dialect": dialect.value} | ({} if query is None else {"query": query})
    return str(client.call("GET", f"/v1/templates/{quoted(template)}/sql", params=params))


def remote_datalog(client: Client, template: str) -> str:
    """Return the conjunctive query of a template as a rule of Datalog."""
    return str(client.call("GET", f"/v1/templates/{quoted(template)}/datalog"))


# -- plans ----------------------------------------------------------------------------------------------------


def remote_plan(client: Client, like: str | None, rules: str, language: GraphFormat | None) -> Any:
    """Return the plan of queries as a text or graph; None: as a record of JSON."""
    params = {"rules": rules} | ({} if like is None else {"like": like})
    if language is None:
        return client.call("GET", "/v1/plan", params=params)
    return client.call("GET", "/v1/plan/graph", params=params | {"language": language.value})


# -- channels and figures --------------------------------------------------------------------------------------


def remote_lateness(client: Client, channel: str | None) -> list[dict[str, Any]]:
    """Return rows of suggestions."""
    params = {} if channel is None else {"channel": channel}
    return list(client.call("GET", "/v1/lateness", params=params)["suggestions"])


def declare_remote_lateness(client: Client, channel: str | None) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """Have the lateness declared that is suggested; return rows of suggestions, and what was done."""
    told = client.call("POST", "/v1/lateness", json={"channel": channel})
    return told["suggestions"], told["notes"]


def remote_consistency(client: Client) -> list[dict[str, Any]]:
    """Return a row for each query about absence or with steps."""
    return list(client.call("GET", "/v1/consistency")["queries"])


# -- queries ---------------------------------------------------------------------------------------------------


def resume_query(client: Client, name: str) -> Resumed:
    """Have a suspended query go on."""
    return Resumed(**client.call("POST", f"/v1/queries/{quoted(name)}/resume"))


def run_query(
    client: Client, text: str, since: int | None, name: str | None, limit: int | None
) -> tuple[list[Match], Sequence[str]]:
    """Have a query answered once; return its matches, and notes on them."""
    time = None if since is None else format_time(since)
    asked = {"text": text, "name": name, "since": time, "limit": limit}
    *lines, end = client.lines("/v1/queries/run", {}, asked)
    return [match_of(line) for line in lines], end["notes"]


def remote_dry_run(client: Client, name: str, folder: Path) -> DryRun:
    """Return a dry run of a query of a service: documents are read here, in a home of an empty folder."""
    from xscl.answers.try_query import DryRun

    text = str(client.call("GET", f"/v1/queries/{quoted(name)}/text"))
    rows = client.call("GET", "/v1/channels")["channels"]
    home = init_home(folder)
    try:
        with home.catalog.begin() as connection:
            for row in (row for row in rows if row["of"] is None):
                found = listed_channel(row)
                put_channel(connection, replace(found, clock=found.name, element=row["element"] or found.element))
        for row in (row for row in rows if row["of"] is not None):
            add_channel(home.catalog, row["channel"], ChannelOptions(of=row["of"], source=row["source"]))
        info = Registry(home.catalog).unregistered(text)[0]
        return DryRun(info, home.catalog.ask(read_channels), home.catalog.ask(read_streams))
    finally:
        home.catalog.close()
