"""Feeds and webhooks as clients see them: who may read what, what is told, and what a reader has already."""

from __future__ import annotations

import base64

import httpx2
import pytest
from hook_server import hook_server
from http_service import XML, Running
from waiting import wait_for

from xscl.answers.deliveries import add_webhook


@pytest.fixture(scope="module", autouse=True)
def query(served: Running) -> None:
    served.service.engine.register("S->s[./title]", name="all")


def push(served: Running, title: str) -> None:
    """Push a document, and wait for its match."""
    with served.client("write") as client, served.client("read") as reader:
        pushed = client.post("/v1/channels/S/events", content=f"<d><title>{title}</title></d>", headers=XML)
        assert pushed.status_code == 202
        wait_for(lambda: title in reader.get("/queries/all/feed.json").text)


@pytest.mark.parametrize("kind", ["atom", "json"])
def test_a_reader_asks_for_what_it_does_not_have(served: Running, kind: str) -> None:
    push(served, f"first-{kind}")
    path = f"/queries/all/feed.{kind}"
    with served.client("read") as client:
        first = client.get(path)
        assert first.status_code == 200
        assert first.headers["content-type"].startswith(
            {"atom": "application/atom+xml", "json": "application/feed+json"}[kind]
        )
        tag, changed = first.headers["etag"], first.headers["last-modified"]
        for headers in ({"if-none-match": tag}, {"if-none-match": f'"x", W/{tag}'}, {"if-modified-since": changed}):
            again = client.get(path, headers=headers)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
        assert client.get(path, headers={"if-none-match": '"x"', "if-modified-since": changed}).status_code == 200
        push(served, f"second-{kind}")
        second = client.get(path, headers={"if-none-match": tag})
        assert second.status_code == 200
        assert second.text.index(f"second-{kind}") < second.text.index(f"first-{kind}")
        assert f"first-{kind}" not in client.get(path, params={"limit": 1}).text
        assert client.get(path, params={"limit": 101}).status_code == 422
        assert client.get(f"/queries/unknown/feed.{kind}").json()["type"] == "urn:xscl:problem:XSCL_QUERY_NOT_FOUND"


def test_readers_of_feeds_give_the_token_as_a_password(served: Running) -> None:
    def basic(text: str) -> dict[str, str]:
        return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}

    with httpx2.Client(base_url=served.address, timeout=120) as client:
        path = "/queries/all/feed.atom"
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert client.get(path, headers=basic(f"me:{served.tokens['read']}")).status_code == 200
        assert client.get(path, headers=basic(f"me:{served.tokens['write']}")).status_code == 403
        for text in ("me:", "me", f"{served.tokens['read']}:me", "me:xscl_no"):
            assert client.get(path, headers=basic(text)).status_code == 401
        assert client.get(path, headers={"authorization": "Basic ?"}).status_code == 401
        # Nowhere else: a browser sends passwords by itself.
        other = client.get("/v1/queries", headers=basic(f"me:{served.tokens['read']}"))
        assert (other.status_code, other.headers["www-authenticate"]) == (401, "Bearer")


def test_webhooks_are_for_administrators(served: Running) -> None:
    new = {"name": "shop", "query": "all", "url": "https://ann.example/hook?token=abc"}
    with served.client("write") as client:
        calls = [("get", ""), ("post", ""), ("delete", "/shop"), ("post", "/shop/replay")]
        for method, path in calls:
            content = {"json": new} if method == "post" else {}
            assert client.request(method, f"/v1/deliveries{path}", **content).status_code == 403  # type: ignore[arg-type]
    with served.client("admin") as client:
        added = client.post("/v1/deliveries", json=new)
        assert added.status_code == 201
        secret = added.json()["secret"]
        listed = client.get("/v1/deliveries")
        assert secret not in listed.text and "abc" not in listed.text
        assert listed.json()["deliveries"][0]["target"] == "https://ann.example/hook?token=***"
        assert client.post("/v1/deliveries", json=new).status_code == 409
        for url, status in (("http://127.0.0.1/x", 403), ("http://169.254.169.254/", 403), ("file:///etc/passwd", 400)):
            assert client.post("/v1/deliveries", json={**new, "name": "other", "url": url}).status_code == status
        assert client.post("/v1/deliveries/shop/replay", json={}).json() == {"matches": 0}
        assert client.post("/v1/deliveries/shop/replay", json={"after": "start"}).json() == {"after": "c0"}
        assert client.delete("/v1/deliveries/shop").status_code == 204
        assert client.delete("/v1/deliveries/shop").status_code == 404
        assert client.post("/v1/deliveries/shop/replay", json={}).status_code == 404


def test_a_match_is_sent_and_counted(served: Running) -> None:
    with hook_server() as hooks:
        add_webhook(served.service.engine.home, "near", "all", hooks.url, after=None, private=True)
        served.service.deliverer.wake()
        push(served, "sent")
        wait_for(lambda: hooks.taken)
        assert b"sent" in hooks.got[0].body
        with served.client("read") as client:
            counted = 'xscl_delivered_matches_total{outcome="delivered"} 1.0'
            # A page is counted when its answer is there.
            wait_for(lambda: counted in client.get("/metrics").text)
        with served.client("admin") as client:
            client.delete("/v1/deliveries/near")
