"""The description of the API: calls keep to it, whatever they are sent."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import schemathesis
from budget import examples
from http_service import CSV, LINES, SAME, Running
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = r"/stream$|/v1/sql$|/v1/feeds/fetch$"
"""Calls that do not end, start Spark, or go out into the network."""


@pytest.fixture(scope="module")
def described(served: Running) -> schemathesis.BaseSchema:
    headers = {"authorization": f"Bearer {served.tokens['admin']}"}
    with served.client() as client:
        client.post("/v1/queries", json={"name": "same", "text": SAME})
        lines = [
            {"id": "b1", "ts": 1, "xml": "<book><author>Danny Ayers</author></book>"},
            {"id": "g1", "ts": 2, "xml": "<blog><author>Danny Ayers</author></blog>"},
        ]
        client.post("/v1/channels/S/events", content="\n".join(map(json.dumps, lines)), headers=LINES)
        client.post("/v1/channels/ticks/events", content="sym,price\nIBM,101.5\n", headers=CSV)
        client.post("/v1/feeds", json={"url": "https://example.org/news.xml"})
    served.settled()
    found = httpx2.get(f"{served.address}/openapi.json", headers=headers).json()
    del found["security"]  # who guesses tokens is soon answered with 429 (``test_access``)
    schema = schemathesis.openapi.from_dict(found)
    schema.config.update(base_url=served.address)
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
    "url": ["https://example.org/news.xml"],
    "source": ["https://example.org/news.xml"],
}
"""Values that a home with events has something to answer to."""


def with_known(case: schemathesis.Case) -> None:
    """Have about half of the cases ask for what is there: guessed names alone are answered with 404."""
    chance = random.Random(repr((case.path_parameters, case.query, case.body)))
    if case.method == "DELETE" or case.meta is not None and case.meta.generation.mode.is_negative:
        return
    for part in (case.path_parameters, case.query, case.body):
        for name in KNOWN.keys() & part.keys() if isinstance(part, dict) else ():
            if chance.random() < 0.5:
                part[name] = chance.choice(KNOWN[name])


@schema.parametrize()
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
def test_calls_answer_as_they_are_described(case: schemathesis.Case, served: Running) -> None:
    headers = {"authorization": f"Bearer {served.tokens['admin']}"}
    with_known(case)
    # Texts of queries, names and times have grammars of their own, which no schema describes; nor has it those of XML.
    unfit = [positive_data_acceptance, *([negative_data_rejection] if case.path.endswith("/events") else [])]
    case.call_and_validate(headers=headers, excluded_checks=unfit)


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
