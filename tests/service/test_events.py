"""Pushing events over HTTP."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from http_service import CSV, LINES, XML, Running

from xscl.base.errors import EngineError
from xscl.base.types import Event
from xscl.ingest.records import Rejected
from xscl.intake import pushes
from xscl.intake.intake import Intake
from xscl.service import arrivals
from xscl.service.arrivals import Arrivals
from xscl.service.problems import Refused
from xscl.store.home import init_home


def push(
    client: httpx2.Client, channel: str, body: str | bytes, headers: dict[str, str], **params: str
) -> httpx2.Response:
    return client.post(f"/v1/channels/{channel}/events", content=body, headers=headers, params=params)


def test_a_document_is_taken_once(client: httpx2.Client) -> None:
    first = push(client, "docs", "<a>1</a>", XML, id="d1", ts="1")
    assert first.status_code == 202
    assert first.json()["taken"] == 1
    again = push(client, "docs", "<a>1</a>", XML, id="d1", ts="1")
    assert (again.json()["taken"], again.json()["known"]) == (0, 1)
    other = push(client, "docs", "<a>2</a>", XML, id="d1", ts="1")
    assert (other.status_code, other.json()["type"]) == (422, "urn:xscl:problem:XSCL_EVENT_ID_REUSED")


def test_a_document_in_another_encoding(client: httpx2.Client) -> None:
    body = "<?xml version='1.0' encoding='iso-8859-1'?><a>é</a>".encode("latin-1")
    assert push(client, "latin", body, XML).json()["taken"] == 1


@pytest.mark.parametrize("ts", ["2026-06-01T09:30:00Z", "1.5", "-3"])
def test_times_of_documents(client: httpx2.Client, ts: str) -> None:
    assert push(client, "times", f"<a>{ts}</a>", XML, ts=ts).status_code == 202


@pytest.mark.parametrize("ts", ["yesterday", "nan", "1e999999"])
def test_times_that_are_none(client: httpx2.Client, ts: str) -> None:
    refused = push(client, "times", "<a/>", XML, ts=ts)
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:xscl:problem:XSCL_BAD_EVENT_TIME")


def test_what_is_not_well_formed_is_refused_with_its_place(client: httpx2.Client) -> None:
    refused = push(client, "docs", "<a>\n<b></a>", XML)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["detail"].startswith("line 2, column 8: ")


def test_external_entities_are_not_read(client: httpx2.Client) -> None:
    body = '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>'
    refused = push(client, "docs", body, XML)
    assert refused.status_code == 422
    assert "root:" not in refused.text


def test_event_lines(client: httpx2.Client) -> None:
    body = (
        '{"id": "l1", "ts": 1, "xml": "<a/>"}\n\n{"id": "l2", "channel": "lines", "ts": 2, "xml": "<b/>"}\n{"id": 3}\n'
    )
    found = push(client, "lines", body, LINES).json()
    assert (found["taken"], found["known"], found["refused"]) == (2, 0, 1)
    assert [(each["line"], each["condition"]) for each in found["rejected"]] == [(4, "XSCL_BAD_EVENT_LINE")]


def test_event_lines_of_another_channel_are_refused(client: httpx2.Client) -> None:
    found = push(client, "lines", '{"channel": "other", "xml": "<a/>"}', LINES).json()
    assert (found["taken"], found["rejected"][0]["condition"]) == (0, "XSCL_BAD_EVENT_LINE")
    assert "'other'" in found["rejected"][0]["message"] or '"other"' in found["rejected"][0]["message"]


@pytest.mark.parametrize("line", ['{"drop": "q"}', '{"flush": true}', '{"register": {"text": "x"}}'])
def test_a_push_has_events_only(client: httpx2.Client, line: str) -> None:
    found = push(client, "lines", line, LINES).json()
    assert (found["taken"], found["rejected"][0]["line"]) == (0, 1)
    assert "POST /v1/queries" in found["rejected"][0]["message"]


def test_rows_of_csv(client: httpx2.Client) -> None:
    found = push(client, "ticks", "seq,sym,price\n1,IBM,101.5\n2,HP\n3,HP,7\n", CSV, id="seq").json()
    assert (found["taken"], found["refused"], found["rejected"][0]["line"]) == (2, 1, 3)
    again = push(client, "ticks", "seq,sym,price\n1,IBM,101.5\n4,HP,8\n", CSV, id="seq").json()
    assert (again["taken"], again["known"]) == (1, 1)


def test_csv_that_is_none(client: httpx2.Client) -> None:
    for lacking in ({"id": "seq", "op": "change"}, {"ts": ""}, {"ts": " "}):
        found = push(client, "ticks", "seq,sym,price\n5,IBM,1\n", CSV, **lacking)
        assert (found.status_code, found.json()["rejected"][0]["condition"]) == (202, "XSCL_NO_COLUMN"), lacking
    refused = push(client, "ticks", "\n\n", CSV)
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:xscl:problem:XSCL_BAD_CSV"


def test_a_repeated_push_with_its_key_adds_nothing(client: httpx2.Client) -> None:
    body = '{"row": {"room": "a", "temp": 1.5}}\n{"row": {"room": "a", "temp": 1.5}}\n'
    key = {**LINES, "idempotency-key": "k1"}
    assert push(client, "rooms", body, key).json()["taken"] == 2
    again = push(client, "rooms", body, key).json()
    assert (again["taken"], again["known"]) == (0, 2)
    assert push(client, "rooms", body, LINES).json()["taken"] == 2
    assert push(client, "rooms", body, {**LINES, "idempotency-key": "k2"}).json()["taken"] == 2


def test_a_key_with_another_body_is_refused(client: httpx2.Client) -> None:
    key = {**LINES, "idempotency-key": "k3"}
    assert push(client, "rooms", '{"row": {"room": "a", "temp": 1.5}}', key).json()["taken"] == 1
    other = push(client, "rooms", '{"row": {"room": "b", "temp": 1.5}}', key).json()
    assert (other["taken"], other["rejected"][0]["condition"]) == (0, "XSCL_EVENT_ID_REUSED")


def test_csv_with_a_key_adds_nothing_twice(client: httpx2.Client) -> None:
    key = {**CSV, "idempotency-key": "k4"}
    assert push(client, "csv_rows", "a,b\n1,2\n1,2\n", key).json()["taken"] == 2
    again = push(client, "csv_rows", "a,b\n1,2\n1,2\n", key).json()
    assert (again["taken"], again["known"]) == (0, 2)


def test_media_types(client: httpx2.Client) -> None:
    for kind in ("image/png", ""):
        refused = push(client, "docs", "x", {"content-type": kind})
        assert (refused.status_code, refused.json()["type"]) == (415, "urn:xscl:problem:XSCL_MEDIA_TYPE")
    assert push(client, "docs", "<a>atom</a>", {"content-type": "application/atom+xml; charset=utf-8"}).is_success


def test_packed_bodies_are_refused_and_not_unpacked(client: httpx2.Client) -> None:
    refused = push(client, "docs", gzip.compress(b"<a/>"), {**XML, "content-encoding": "gzip"})
    assert refused.status_code == 415


def test_an_empty_push(client: httpx2.Client) -> None:
    assert push(client, "docs", "", LINES).json()["type"] == "urn:xscl:problem:XSCL_NO_RECORDS"
    assert push(client, "docs", "", XML).status_code == 422


@pytest.mark.parametrize("name", ["1a", "a b", "x-", "é" * 201])
def test_names_that_no_channel_has(client: httpx2.Client, name: str) -> None:
    assert push(client, name, "<a/>", XML).status_code == 422


def test_pushes_that_wait_are_taken_in_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    begin = threading.Event()
    take = pushes.take_pushes

    def counted(intake: Intake, given: list[pushes.Push]) -> list[pushes.Pushed]:
        begin.wait()
        sizes.append(len(given))
        return take(intake, given)

    monkeypatch.setattr(arrivals, "take_pushes", counted)
    home = init_home(tmp_path / "home")
    queue = Arrivals(Intake(home), 1_000_000, lambda place: None)
    bad = Rejected("push:1", "XSCL_BAD_EVENT_LINE", "no")
    given = [[Event("S", f"e{n}", 1, xml=f"<a>{n}</a>"), *([bad] if n % 3 == 0 else [])] for n in range(20)]
    answers = [queue.put(each, 10) for each in given]
    begin.set()
    found = [each.result(timeout=120) for each in answers]
    queue.close()
    assert [(each.taken, len(each.rejected)) for each in found] == [(1, int(n % 3 == 0)) for n in range(20)]
    assert len(sizes) <= 3
    assert sum(sizes) == 20
    assert queue.waiting == 0
    with pytest.raises(Refused):
        queue.put(given[0], 10)
    home.catalog.close()


def test_one_push_that_fails_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = pushes.take_pushes

    def failing(intake: Intake, given: list[pushes.Push]) -> list[pushes.Pushed]:
        if any(event.id == "e5" for push in given for event in push if isinstance(event, Event)):
            raise RuntimeError("nobody foresaw this")
        return take(intake, given)

    monkeypatch.setattr(arrivals, "take_pushes", failing)
    home = init_home(tmp_path / "home")
    queue = Arrivals(Intake(home), 1_000_000, lambda place: None)
    answers = [queue.put([Event("S", f"e{n}", 1, xml=f"<a>{n}</a>")], 10) for n in range(10)]
    for number, answer in enumerate(answers):
        if number == 5:
            with pytest.raises(EngineError, match="XSCL_INTAKE"):
                answer.result(timeout=120)
        else:
            assert answer.result(timeout=120).taken == 1
    queue.close()
    home.catalog.close()


def test_too_much_that_waits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Event()
    take = pushes.take_pushes
    monkeypatch.setattr(arrivals, "take_pushes", lambda *given: (begin.wait(), take(*given))[1])
    home = init_home(tmp_path / "home")
    queue = Arrivals(Intake(home), 100, lambda place: None)
    first = queue.put([Event("S", "e1", 1, xml="<a/>")], 500)
    with pytest.raises(Refused, match="more events wait") as refused:
        queue.put([Event("S", "e2", 1, xml="<b/>")], 1)
    assert (refused.value.status, refused.value.after_s) == (503, 1)
    begin.set()
    assert first.result(timeout=120).taken == 1
    queue.close()
    home.catalog.close()


def test_many_clients_push_at_once(served: Running) -> None:
    def work(client_number: int) -> int:
        with served.client("write") as client:
            return sum(
                push(client, "many", f"<a><n>{client_number}</n><k>{number}</k></a>", XML).json()["taken"]
                for number in range(20)
            )

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 160
    served.settled()
    with served.client("read") as client:
        channels = {each["channel"]: each["events"] for each in client.get("/v1/channels").json()["channels"]}
    assert channels["many"] == 160


def test_lines_with_retract_take_events_out(client: httpx2.Client) -> None:
    body = (
        '{"id": "r1", "ts": 1, "xml": "<a/>"}\n{"retract": {"id": "r1"}}\n'
        '{"retract": {"channel": "gone", "id": "r9"}}\n{"retract": {"channel": "else", "id": "r1"}}\n'
    )
    found = push(client, "gone", body, LINES).json()
    assert (found["taken"], found["removed"], found["missing"], found["refused"]) == (1, 1, 1, 1)
    assert [each["line"] for each in found["rejected"]] == [4]
