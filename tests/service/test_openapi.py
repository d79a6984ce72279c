"""The description of the API: calls keep to it, whatever they are sent."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import requests
import schemathesis
from budget import examples
from http_service import CSV, LINES, SAME, SETTINGS, Running, running
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = r"/stream$|/v1/sql$|/v1/feeds/fetch$|/v1/queries/run$"
"""Calls that do not end, start Spark or another process, or go out into the network."""
FEED = '<rss version="2.0"><channel><item><guid>i1</guid><title>One</title></item></channel></rss>'


ALONE = r"/stream$|/v1/feeds/fetch$|/v1/queries/run$"
"""Those of them that a service of their own answers."""


@pytest.fixture(scope="module")
def described(served: Running) -> schemathesis.BaseSchema:
    return described_by(served, "https://example.org/news.xml")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = replace(SETTINGS, streams=100_000)
    with running(tmp_path_factory.mktemp("alone") / "home", settings) as found:
        yield found


@pytest.fixture(scope="module")
def described_alone(alone: Running) -> schemathesis.BaseSchema:
    # The address is private, so nobody is asked.
    return described_by(alone, "http://127.0.0.1:9/news.xml")


def described_by(served: Running, feed: str) -> schemathesis.BaseSchema:
    headers = {"authorization": f"Bearer {served.tokens['admin']}"}
    with served.client() as client:
        client.post("/v1/queries", json={"name": "same", "text": SAME})
        lines = [
            {"id": "b1", "ts": 1, "xml": "<book><author>Danny Ayers</author></book>"},
            {"id": "g1", "ts": 2, "xml": "<blog><author>Danny Ayers</author></blog>"},
        ]
        client.post("/v1/channels/S/events", content="\n".join(map(json.dumps, lines)), headers=LINES)
        client.post("/v1/channels/ticks/events", content="sym,price\nIBM,101.5\n", headers=CSV)
        client.post("/v1/feeds", json={"url": feed})
        client.post("/v1/channels/items/feed?source=news", content=FEED, headers={"content-type": "text/xml"})
    served.settled()
    found = httpx2.get(f"{served.address}/openapi.json", headers=headers, timeout=120).json()
    del found["security"]  # who guesses tokens is soon answered with 429 (``test_access``)
    schema = schemathesis.openapi.from_dict(found)
    schema.config.update(base_url=served.address, request_timeout=120)
    return schema


@schemathesis.serializer(
    "application/x-ndjson",
    "text/csv",
    "text/x-opml",
    "application/rss+xml",
    "application/atom+xml",
    "application/feed+json",
)
def as_it_is(context: object, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


schema = schemathesis.pytest.from_fixture("described").exclude(path_regex=LEFT_OUT)
others = schemathesis.pytest.from_fixture("described_alone").include(path_regex=ALONE)


KNOWN = {
    "channel": ["S", "ticks"],
    "name": ["same"],
    "query": ["same"],
    "template": ["t2_09bc611bb4aa3c95"],
    "match": ["56a4"],
    "after": ["start", "c1"],
    "by": [["a"]],
    "agg": [["count(DISTINCT c)"]],
    "ts": ["2026-06-01T09:30:00Z", "12"],
    "text": ["S//book->b[./author->a]"],
    "item": ["i1"],
    "feed": ["news"],
    "since": ["NOW-7d", "1970-01-01T00:00:01Z"],
    "url": ["https://example.org/news.xml"],
    "urls": [["http://127.0.0.1:9/news.xml"]],
    "source": ["https://example.org/news.xml"],
}
"""Values that a home with events has something to answer to."""


def with_known(case: schemathesis.Case, part_of: float = 0.5) -> None:
    """Have about half of the cases ask for what is there: guessed names alone are answered with 404."""
    chance = random.Random(repr((case.path_parameters, case.query, case.body)))
    if case.method == "DELETE" or case.meta is not None and case.meta.generation.mode.is_negative:
        return
    for part in (case.path_parameters, case.query, case.body):
        for name in KNOWN.keys() & part.keys() if isinstance(part, dict) else ():
            if chance.random() < part_of:
                part[name] = chance.choice(KNOWN[name])


@schema.parametrize()
@settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
def test_calls_answer_as_they_are_described(case: schemathesis.Case, served: Running) -> None:
    headers = {"authorization": f"Bearer {served.tokens['admin']}"}
    with_known(case)
    # Texts of queries, names and times have grammars of their own, which no schema describes; nor has it those of XML.
    unfit = [positive_data_acceptance, *([negative_data_rejection] if case.path.endswith("/events") else [])]
    case.call_and_validate(headers=headers, excluded_checks=unfit)


@others.parametrize()
@settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
def test_streams_and_feeds_answer_as_they_are_described(case: schemathesis.Case, alone: Running) -> None:
    headers = {"authorization": f"Bearer {alone.tokens['admin']}"}
    # Each text that is a query starts a process.
    with_known(case, 0.1 if case.path.endswith("/run") else 0.5)
    if not case.path.endswith("/stream"):
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])
        return
    with requests.request(**case.as_transport_kwargs(headers=headers), stream=True, timeout=120) as response:
        if response.status_code != 200:
            case.validate_response(response, excluded_checks=[positive_data_acceptance])
            return
        assert response.headers["content-type"].startswith("text/event-stream")
        assert next(response.iter_content(14)).startswith(b"retry: 1000\n\n")


def test_every_call_is_described(client: httpx2.Client) -> None:
    found = client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    for path, calls in found["paths"].items():
        for method, call in calls.items():
            assert call.get("description"), f"{method} {path}"
            statuses = set(call["responses"])
            assert (call.get("security") == []) == (path in ("/healthz", "/readyz")), "these ask for no token"
            assert {"401", "403", "429"} <= statuses or path in ("/healthz", "/readyz"), f"{method} {path}"
            for status, answer in call["responses"].items():
                kinds = set(answer.get("content", {}))
                if int(status) >= 400 and path != "/readyz":
                    assert kinds == {"application/problem+json"}, f"{method} {path} {status}"
    assert (
        found["security"] == [{"token": []}] and found["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    )
    assert "HTTPValidationError" not in found["components"]["schemas"]


def test_every_call_of_the_contract_is_there(client: httpx2.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    named = {re.sub(r"\{\w+\}", "{}", path) for path in paths}
    for call in (
        "/v1/channels/{}/events",
        "/v1/channels",
        "/v1/feeds",
        "/v1/feeds/import",
        "/v1/feeds/fetch",
        "/v1/queries",
        "/v1/queries/validate",
        "/v1/queries/bulk",
        "/v1/queries/{}",
        "/v1/queries/{}/explain",
        "/v1/queries/{}/matches",
        "/v1/queries/{}/matches/stream",
        "/v1/matches",
        "/v1/matches/{}",
        "/v1/matches/stream",
        "/v1/templates",
        "/v1/templates/{}",
        "/v1/plan",
        "/v1/plan/graph",
        "/v1/sql",
        "/v1/batches",
        "/v1/stats",
        "/healthz",
        "/readyz",
        "/metrics",
    ):
        assert call in named, call


def asked_calls(page: str) -> Iterator[tuple[str, str]]:
    """Methods and paths of the calls of curl that a page shows with what they answer."""
    for block in re.findall(r"```(?:console|sh)\n(.*?)```", page, re.DOTALL):
        for line in re.findall(r"^(?:\$ )?(curl .*)$", block, re.MULTILINE):
            words = shlex.split(line.partition(" | ")[0].replace("$'", "'"))
            method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in line else "GET"
            [address] = [word for word in words if word.startswith("localhost:8080/")]
            yield (
                method if "--data-binary" not in words else "POST",
                address.removeprefix("localhost:8080").split("?")[0],
            )


def test_every_call_is_on_the_page_of_calls(client: httpx2.Client) -> None:
    """``test_docs.py`` runs the lines of the page, ``test_calls.py`` the one of SQL."""
    page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    paths = client.get("/openapi.json").json()["paths"]
    # Paths without names in them go first: /v1/matches/stream is no match.
    known = [
        (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in sorted(paths, key=lambda path: "{" in path)
    ]
    shown = set()
    for method, asked in asked_calls(page):
        path = next((path for pattern, path in known if pattern.fullmatch(asked)), None)
        assert path is not None, f"the page asks for {asked}, which is no call"
        shown.add((method, path))
    missing = {(method.upper(), path) for path, calls in paths.items() for method in calls} - shown
    assert not missing
