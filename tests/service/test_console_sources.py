"""Pages of feeds and of deliveries: what administrators do there, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from console_pages import browser_client, checked, opened, page, text_of
from hook_server import hook_server
from http_service import Running
from waiting import wait_for

from xscl.answers.deliveries import add_webhook
from xscl.base.types import Event, now_micros
from xscl.catalog.deliveries import DeadLetter, give_up, read_delivery
from xscl.catalog.subscriptions import add_feed

RSS = b"<rss><channel><title>Local</title><link>http://a.example/</link><item><guid>1</guid><title>One</title></item></channel></rss>"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with opened(tmp_path_factory.mktemp("sources") / "home") as found:
        found.service.engine.register("S->s[./title]", name="all")
        yield found


@pytest.fixture
def client(service: Running) -> Iterator[httpx2.Client]:
    with browser_client(service) as found:
        yield found


def cells(tree: Any, group: str) -> dict[str, list[str]]:
    """Rows of a table by the first text of their heads."""
    rows = tree.xpath("//div[@aria-label = $group]//tbody/tr[th]", group=group)
    return {
        row.xpath("(./th//text()[normalize-space()])[1]")[0].strip(): [text_of(each) for each in row[1:]]
        for row in rows
    }


# -- deliveries ------------------------------------------------------------------------------------------------


def test_a_webhook_is_added_and_its_key_told_once(client: httpx2.Client) -> None:
    form = {"name": "shop", "query": "all", "url": "https://shop.example/hook?token=abc", "after": ""}
    answer = client.post("/deliveries", data=form)
    assert answer.status_code == 201
    key = text_of(checked(answer).xpath("//code[@class = 'secret']")[0])
    shown = page(client, "/deliveries")
    assert key.startswith("xsclw_") and key not in text_of(shown) and "abc" not in text_of(shown)
    assert cells(shown, "Deliveries")["shop"][0] == "active"
    again = client.post("/deliveries", data=form)
    assert again.status_code == 409 and "XSCL_DELIVERY_EXISTS" in again.text
    assert checked(again).xpath("//input[@name = 'url']/@value") == [form["url"]], "the form keeps what was typed"
    private = client.post("/deliveries", data={**form, "name": "inner", "url": "http://127.0.0.1/"})
    assert "XSCL_PRIVATE_ADDRESS" in text_of(checked(private))


def test_what_fails_and_what_was_given_up_is_shown(service: Running, client: httpx2.Client) -> None:
    home = service.service.home
    with hook_server() as hook:
        hook.answer = lambda number: 500
        add_webhook(home, "failing", "all", hook.url, after="start", private=True)
        service.service.engine.ingest([Event("S", "d1", 1, xml="<d><title>one</title></d>")])
        service.settled()
        service.service.deliverer.wake()
        wait_for(lambda: cells(page(client, "/deliveries"), "Deliveries")["failing"][0].startswith("retrying"))
        row = cells(page(client, "/deliveries"), "Deliveries")["failing"]
        assert "500" in row[1] and row[2] == "0" and row[3].startswith("1 batch")
        [listed] = [
            each for each in client.get("/v1/deliveries").json()["deliveries"] if each["delivery"] == "failing"
        ]  # fmt: skip
        assert listed["lag"] == 1
        with home.catalog.begin() as connection:
            letter = DeadLetter("c1", "c2", 1, "<b>answered 500</b>", now_micros())
            give_up(connection, read_delivery(connection, "failing"), letter)
        told = page(client, "/deliveries")
        assert text_of(told.xpath("//div[@aria-label = 'Dead letters of failing']")[0]).count("<b>answered") == 1
        hook.answer = lambda number: 200
        assert client.post("/deliveries/failing/replay", data={}).status_code == 303
        wait_for(lambda: hook.taken)
        taken = len(hook.taken)
        assert client.post("/deliveries/failing/replay", data={"after": "start"}).status_code == 303
        wait_for(lambda: len(hook.taken) > taken)
        assert len(set(hook.taken)) == 1
    assert client.post("/deliveries/failing/replay", data={"after": "nonsense"}).status_code == 400
    assert client.post("/deliveries/failing/drop").status_code == 303
    assert "failing" not in cells(page(client, "/deliveries"), "Deliveries")
    assert client.post("/deliveries/failing/drop").status_code == 404


def test_only_administrators_see_deliveries(tmp_path: Path) -> None:
    with opened(tmp_path / "home", auth=True) as found:
        for scope, status in (("read", 403), ("admin", 200)):
            with browser_client(found, Cookie=f"xscl_token={found.tokens[scope]}") as client:
                assert client.get("/deliveries").status_code == status
                linked = page(client, "/feeds").xpath("//nav/a[@href = '/deliveries']")
                assert bool(linked) == (status == 200)
                forms = page(client, "/feeds").xpath("//form[@action = '/feeds/import']")
                assert bool(forms) == (status == 200)
                sent = client.post("/feeds/import", data={"opml": "<opml version='2.0'><body/></opml>"})
                assert sent.status_code == status


# -- feeds -------------------------------------------------------------------------------------------------------

OPML = (
    '<?xml version="1.0" encoding="ISO-8859-1"?><opml version="2.0"><body>'
    '<outline type="rss" text="Zürich" xmlUrl="https://example.org/a.xml"/>'
    '<outline type="rss" text="inner" xmlUrl="http://127.0.0.1/b.xml"/></body></opml>'
)


def test_a_list_is_imported_from_a_file_and_exported(client: httpx2.Client) -> None:
    files = {"file": ("list.opml", OPML.encode("latin-1"), "text/x-opml")}
    told = checked(client.post("/feeds/import", data={"into": "news"}, files=files))
    assert "1 added, 0 known already, 1 refused." in text_of(told) and "XSCL_PRIVATE_ADDRESS" in text_of(told)
    assert cells(told, "Feeds")["Zürich"][1] == "news"
    again = checked(client.post("/feeds/import", data={"opml": OPML, "into": "news"}))
    assert "0 added, 1 known already" in text_of(again)
    exported = client.get("/feeds/subscriptions.opml")
    assert exported.headers["content-disposition"].startswith("attachment")
    assert "https://example.org/a.xml" in exported.text
    for wrong in ({"opml": ""}, {"opml": "<opml>"}):
        assert "XSCL_" in text_of(checked(client.post("/feeds/import", data=wrong)))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--"),
        ("application/x-www-form-urlencoded", b"\xff"),
    ],
)
def test_forms_that_cannot_be_read_are_refused(client: httpx2.Client, kind: str, body: bytes) -> None:
    answer = client.post("/feeds/import", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400 and "XSCL_BAD_REQUEST" in answer.text


def test_a_feed_is_fetched_and_shown_with_its_history(service: Running, client: httpx2.Client, tmp_path: Path) -> None:
    service.service.engine.ingest(_feed_file(tmp_path), channel="items")
    service.settled()
    tree = page(client, "/feeds/feed?feed=Local")
    assert "1 items and new versions" in text_of(tree) and "One" in text_of(tree.xpath("//ul[@class = 'cards']")[0])
    assert client.get("/feeds/feed?feed=none-of-them").status_code == 404
    # Nobody answers there: the fault is told on the page.
    url = add_feed(
        service.service.home.catalog, "https://nobody.invalid/f.xml", now=now_micros(), channel="items", interval=None,
        folder=None,
    )  # fmt: skip
    told = checked(client.post("/feeds/fetch", data={"feed": url}))
    assert "Asked 1: 0 events came" in text_of(told) and "nobody.invalid" in text_of(
        told.xpath("//*[@role='alert']")[0]
    )
    for action, health in (("pause", "paused"), ("resume", "failing")):
        assert client.post("/feeds/set", data={"feed": url, "action": action}).status_code == 303
        assert cells(page(client, "/feeds"), "Feeds")[url][0] in (health, "new")
    assert client.post("/feeds/set", data={"feed": url, "action": "drop"}).status_code == 303
    assert cells(page(client, "/feeds"), "Feeds")[url][0] == "file"
    assert client.post("/feeds/set", data={"feed": url, "action": "burn"}).status_code == 422


def _feed_file(folder: Path) -> Path:
    path = folder / "local.xml"
    path.write_bytes(RSS)
    return path
