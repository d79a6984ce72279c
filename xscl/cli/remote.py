"""Commands that go to a running service: the same rows and texts as of a home."""

from __future__ import annotations

import itertools
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from xscl.base.errors import QueryError, XsclError
from xscl.base.terminal import give, show
from xscl.base.types import (
    Match,
    MatchCounts,
    MatchEvent,
    MatchSource,
    QueryName,
    QueryOutcome,
    Retraction,
    format_time,
)
from xscl.cli.client import Client, error_of, quoted
from xscl.cli.options import one_line, say
from xscl.cli.printing import Format, distinct_names, print_rows

if TYPE_CHECKING:
    from xscl.answers.matches.listing import Listing
    from xscl.registry.channels import ChannelOptions

__all__ = [
    "MOST_ROWS",
    "NO_TIME",
    "Answer",
    "RemoteMatches",
    "add_channel",
    "add_query",
    "ask_sql",
    "channel_list",
    "drop_channel",
    "drop_query",
    "explain_query",
    "load_queries",
    "match_of",
    "query_rows",
    "remote_counts",
    "remote_match",
    "set_channel",
    "show_query",
    "stats",
]

_PAGE = 1_000
"""Entries of a page of the service."""
MOST_ROWS = 10_000
"""Rows of an answer in SQL that a service gives at most."""
NO_TIME = frozenset({"XSCL_BUSY", "XSCL_NO_ANSWER", "XSCL_SQL_TIME"})
"""Conditions of answers that a home can still give."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a statement of SQL."""

    columns: list[str]
    rows: list[dict[str, object]]
    more: bool
    """Whether a limit has cut rows off."""


def ask_sql(client: Client, statement: str, limit: int) -> Answer:
    """Have a service answer a statement; 0 rows stand for as many as it gives."""
    asked = min(limit or MOST_ROWS, MOST_ROWS)
    found = client.call("POST", "/v1/sql", json={"sql": statement, "limit": asked})
    names = distinct_names(column["name"] for column in found["columns"])
    read = [_reader(column["type"]) for column in found["columns"]]
    rows = [
        {name: None if value is None else of(value) for name, of, value in zip(names, read, row, strict=True)}
        for row in found["rows"]
    ]
    return Answer(names, rows, found["more"])


def _reader(kind: str) -> Callable[[Any], object]:
    """Return what makes a value of Python of a value of an answer, by its type of Spark."""
    if kind.startswith("decimal"):
        return Decimal
    return _READERS.get(kind, lambda value: value)


_READERS: dict[str, Callable[[Any], object]] = {
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "date": date.fromisoformat,
    "binary": b64decode,
    "double": float,
    "float": float,
}


def stats(client: Client, columns: Sequence[str], short: Sequence[str], printed: Format) -> None:
    """Print a row for each batch, and what the home holds."""

    def rows() -> Iterator[dict[str, object]]:
        after = 0
        while part := client.call("GET", "/v1/batches", params={"after": after, "limit": _PAGE})["batches"]:
            yield from part
            after = part[-1]["batch"]

    if not print_rows(rows(), columns, printed, short=short):
        say("no batch yet")
    for note in client.call("GET", "/v1/stats")["notes"]:
        say(note)


# -- matches ---------------------------------------------------------------------------------------------------


class RemoteMatches(Iterator[Match]):
    """Matches of a service one by one, and the cursor to go on from."""

    def __init__(self, client: Client, listing: Listing) -> None:
        params = _params(listing, ("query", "window", "after", "limit"))
        params |= {"current": True, "by": [*listing.by]} if listing.current else {}
        self._in_order = listing.after is not None
        self._lines = client.lines("/v1/matches.ndjson", params)
        # What the service refuses is told before anything is printed.
        self._first = next(self._lines, None)
        self.cursor = listing.after or "start"
        self.notes: tuple[str, ...] = ()
        """Sentences on what the listing may lack, once it has ended."""

    def __next__(self) -> Match:
        line, self._first = self._first or next(self._lines), None
        if "end" in line:
            self.cursor = line["end"] or self.cursor
            self.notes = tuple(line.get("notes", ()))
            raise StopIteration
        match = match_of(line)
        if self._in_order:
            self.cursor = match.cursor
        return match


def _params(listing: Listing, names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a call: some fields of a listing, and its times."""
    given = {name: getattr(listing, name) for name in names}
    times = {name: getattr(listing, name) for name in ("since", "until", "now")}
    given.update((name, format_time(time)) for name, time in times.items() if time is not None)
    return {name: value for name, value in given.items() if value is not None}


def remote_counts(client: Client, listing: Listing, by: Sequence[str], aggregates: Sequence[str]) -> MatchCounts:
    """Count the matches of a listing."""
    params = {**_params(listing, ("query", "window")), "by": [*by], "agg": [*aggregates], "limit": MOST_ROWS}
    found = client.call("GET", "/v1/matches/count", params=params)
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    cut = [f"the service gives the first {MOST_ROWS:,} rows"] if found["more"] else []
    return MatchCounts(tuple(found["columns"]), rows, (*found["notes"], *cut))


def remote_match(client: Client, match: str) -> Match:
    """Return the match whose id begins so."""
    return match_of(next(client.lines("/v1/matches.ndjson", {"match": match})))


def match_of(line: Mapping[str, Any]) -> Match:
    """Return the match of a line with the documents of its members."""
    source = line["source"]
    times = zip(line["events"], line["times_us"], strict=True)
    events = tuple(MatchEvent(event["channel"], event["id"], ts) for event, ts in times)
    if "retract" in line:
        told = {"cursor": line["cursor"], "retracted": _reason(line)}
        return Match(line["retract"], line["query"], line["ts_us"], events, {}, {}, "", **told)
    return Match(
        line["match"],
        line["query"],
        line["ts_us"],
        events,
        line["nodes"],
        line["values"],
        line["document"],
        line.get("replaces"),
        line["cursor"],
        MatchSource(tuple(source["documents"]), tuple(source["results"]), source["selected"]),
        None if "retracted" not in line else _reason(line["retracted"]),
    )


def _reason(told: Mapping[str, Any]) -> Retraction:
    by = told.get("by")
    return Retraction(told["because"], None if by is None else (by["channel"], by["id"]))


# -- channels --------------------------------------------------------------------------------------------------


def channel_list(client: Client) -> list[dict[str, object]]:
    """List channels and their streams, as ``channel_rows`` does."""
    return list(client.call("GET", "/v1/channels")["channels"])


def add_channel(client: Client, name: str, options: ChannelOptions) -> list[str]:
    """Create a channel, or a stream of one; return notes on it."""
    told = client.call("POST", "/v1/channels", json={"name": name, "of": options.of, **_settings(options)})
    return list(told["notes"])


def set_channel(client: Client, name: str, options: ChannelOptions) -> list[str]:
    """Change a channel; return notes on it."""
    return list(client.call("PATCH", f"/v1/channels/{quoted(name)}", json=_settings(options))["notes"])


def drop_channel(client: Client, name: str) -> None:
    """Remove a channel or a stream."""
    client.call("DELETE", f"/v1/channels/{quoted(name)}")


def _settings(options: ChannelOptions) -> dict[str, object]:
    given = {name: value for name, value in asdict(options).items() if name != "of" and value is not None}
    return {"columns" if name == "schema" else name: value for name, value in given.items()}


# -- queries ---------------------------------------------------------------------------------------------------


def add_query(client: Client, name: str | None, text: str, owner: str | None, *, strict: bool) -> QueryName:
    """Register a query; return its name, with notes on it."""
    _refuse_local(owner, strict)
    taken = client.call("POST", "/v1/queries", json={"name": name, "text": text})
    return QueryName(taken["name"], tuple(taken["notes"]))


def load_queries(client: Client, text: str, owner: str | None, *, strict: bool, atomic: bool) -> list[QueryOutcome]:
    """Register the queries of a script; return the outcome of each statement."""
    _refuse_local(owner, strict)
    found = client.call("POST", "/v1/queries/bulk", json={"script": text, "atomic": atomic})
    return [
        QueryOutcome(
            each["name"],
            None if each["problem"] is None else _refusal(each["problem"]),
            each["line"],
            each["action"],
            tuple(each["notes"]),
        )
        for each in found["outcomes"]
    ]


class _ToldError(QueryError):
    """A refusal of a text that a service tells: the place is in the script, and the caret that of the service."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        told = error_of({**problem, "caret": None})
        super().__init__(told.condition, told.message, hint=told.hint)
        self.line, self.column = problem["line"], problem["column"]
        self.shown = tuple(str(problem["caret"]).split("\n")) if problem.get("caret") else ()

    def caret(self) -> tuple[str, ...]:
        """Return the line of the text that is meant, and one with a caret."""
        return self.shown


def _refusal(problem: Mapping[str, Any]) -> XsclError:
    return error_of(problem) if problem.get("line") is None else _ToldError(problem)


def query_rows(client: Client, wanted: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """List queries by name; ``wanted`` has the fields of ``QueryFilter``."""
    names = ("like", "template", "group", "channel", "owner", "suspended")
    params = {name: wanted[name] for name in names if wanted[name] is not None}
    limit, offset = wanted["limit"], wanted["offset"]

    def rows() -> Iterator[dict[str, object]]:
        after = wanted["after"]
        while True:
            place = {} if after is None else {"after": after}
            page = client.call("GET", "/v1/queries", params={**params, **place, "limit": _PAGE})
            for each in page["queries"]:
                yield {"query": each.pop("name"), **each, "text": one_line(each["text"])}
            after = page["after"]
            if after is None:
                return

    return itertools.islice(rows(), offset, None if limit is None else offset + limit)


def show_query(client: Client, name: str, printed: Format | None) -> None:
    """Print a query in canonical text, or as a row of facts."""
    path = f"/v1/queries/{quoted(name)}"
    if printed is None:
        give(client.call("GET", f"{path}/text"))
        return
    facts = client.call("GET", path)
    print_rows([facts], [*facts], printed)


def explain_query(client: Client, name: str, *, json: bool) -> None:
    """Explain a query."""
    path = f"/v1/queries/{quoted(name)}"
    if json:
        print_rows([client.call("GET", f"{path}/explain")], [], Format.json)
        return
    show(client.call("GET", f"{path}/explanation"))


def drop_query(client: Client, name: str) -> None:
    """End a query."""
    client.call("DELETE", f"/v1/queries/{quoted(name)}")


def _refuse_local(owner: str | None, strict: bool) -> None:
    """Refuse options that a service decides by itself: by the token, and by its own settings."""
    if owner is not None or strict:
        raise typer.BadParameter("a service goes by the token and by its own settings", param_hint="--owner, --strict")
