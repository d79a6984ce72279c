"""The description of the API: calls keep to it, whatever they are sent."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import schemathesis
from budget import examples
from http_service import Running
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = r"/stream$|/v1/sql$|/v1/feeds/fetch$"
"""Calls that do not end, start Spark, or go out into the network."""


@pytest.fixture(scope="module")
def described(served: Running) -> schemathesis.BaseSchema:
    headers = {"authorization": f"Bearer {served.tokens['admin']}"}
    found = httpx2.get(f"{served.address}/openapi.json", headers=headers).json()
    del found["security"]  # who guesses tokens is soon answered with 429 (``test_access``)
    schema = schemathesis.openapi.from_dict(found)
    schema.config.update(base_url=served.address)
    return schema


@schemathesis.serializer("application/x-ndjson", "text/csv", "text/x-opml")
def as_it_is(context: object, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


schema = schemathesis.pytest.from_fixture("described").exclude(path_regex=LEFT_OUT)


@schema.parametrize()
@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
def test_calls_answer_as_they_are_described(case: schemathesis.Case, served: Running) -> None:
    headers = {"authorization": f"Bearer {served.tokens['admin']}"}
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
