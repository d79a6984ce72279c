"""Matches that are taken back: live streams call them so, and the pages of the console follow."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest
from command_line import exit_code
from console_pages import browser_client, opened, page, text_of
from waiting import wait_for

from xscl.base.types import Event

TEXT = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A service with an answer that is taken back, and one that holds."""
    with opened(tmp_path_factory.mktemp("taken") / "home") as found, browser_client(found) as client:
        engine = found.service.engine
        engine.register(f"{TEXT} CONSISTENCY MIDDLE", name="unmet")
        for count, events in enumerate([[("A", 1, 7), ("A", 2, 8), ("B", 60, 9)], [("B", 5, 7)]]):
            engine.ingest(Event(name, f"{name}{ts}", ts, xml=f"<e><k>{key}</k></e>") for name, ts, key in events)
            found.service.wake()
            wait_for(lambda count=count: len(log(client)) == 2 + count)  # type: ignore[misc]
        yield client


def log(client: httpx2.Client) -> list[dict[str, object]]:
    """All lines of the change log."""
    return list(client.get("/v1/matches").json()["matches"])


def streamed(client: httpx2.Client, path: str) -> list[tuple[str, dict[str, object]]]:
    """Kinds and data of the first three events of a stream."""
    found: list[tuple[str, dict[str, object]]] = []
    with client.stream("GET", path) as answer:
        kind = ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            kind = value if name == "event" else kind
            if name == "data":
                found.append((kind, json.loads(value)))
            if len(found) == 3:
                break
    return found


def test_streams_name_what_is_taken_back(client: httpx2.Client) -> None:
    *came, (kind, gone) = streamed(client, "/v1/queries/unmet/matches/stream?after=start")
    assert [name for name, _ in came] == ["match", "match"] and kind == "retract"
    assert gone["retract"] in [line["match"] for _, line in came]
    assert (gone["because"], gone["by"]) == ("late", {"channel": "B", "id": "B5"})


def test_pages_follow(client: httpx2.Client) -> None:
    *came, (kind, gone) = streamed(client, "/queries/unmet/stream?after=start")
    assert [name for name, _ in came] == ["match", "match"] and kind == "retract"
    assert f'data-match="{gone["retract"]}"' in "".join(str(line["html"]) for _, line in came)
    listed = page(client, "/matches")
    assert len(listed.xpath("//li[@data-match]")) == 2
    [taken] = listed.xpath("//li[contains(@class, 'gone')]")
    assert f"Taken back (late): {gone['retract']}, by B B5" in text_of(taken)
    [link] = taken.xpath(".//a[@class = 'channel']/@href")
    assert "B5" in text_of(page(client, link))
    for path in ("/", "/queries/unmet"):
        assert len(page(client, path).xpath("//li[@data-match]")) == 1


def test_a_match_says_that_it_was_taken_back(
    client: httpx2.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *came, gone = log(client)
    why = {"because": gone["because"], "by": gone["by"]}
    [kept] = [line for line in came if line["match"] != gone["retract"]]
    for line in came:
        id_, wanted = line["match"], {"retracted": why} if line is not kept else {}
        shown = client.get(f"/v1/matches/{id_}").json()
        assert shown == {**{name: value for name, value in line.items() if name != "cursor"}, **wanted}
        at = "match", "show", str(id_), "--url", str(client.base_url)
        assert exit_code(monkeypatch, *at, "--json") == 0
        assert json.loads(capsys.readouterr().out) == shown
        assert exit_code(monkeypatch, *at) == 0
        assert ("holds no longer: late, by B:B5" in capsys.readouterr().out) == (line is not kept)
        told = text_of(page(client, f"/matches/{id_}").xpath("//main")[0])
        assert ("This match was taken back (late), by B B5, and holds no longer." in told) == (line is not kept)


def test_queries_show_what_must_not_be_there(client: httpx2.Client) -> None:
    shown = page(client, "/queries/unmet")
    [title] = shown.xpath("//*[local-name() = 'svg']/*[local-name() = 'title']")
    assert title.text == "2 blocks: x: A, no y: B; joined by a = b"
    assert len(shown.xpath("//*[local-name() = 'rect'][contains(@class, 'absent')]")) == 1
    facts = {text_of(each[0]): text_of(each[1]) for each in shown.xpath("//dl[@class = 'facts']/div")}
    assert facts["Forbidden"].startswith("B up to 10 s after the latest member; nothing settles")
    assert facts["Consistency"] == "MIDDLE" and facts["Template"].endswith(", of 1 query")
