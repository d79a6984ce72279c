"""Files that grow are sent to a service, and nothing is lost or there twice, whenever the sender ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_service import SETTINGS, XML, Running, running
from typer.testing import CliRunner, Result

from xscl.base.errors import EngineError
from xscl.cli.app import app
from xscl.cli.client import Client
from xscl.cli.following import FollowedService
from xscl.ingest.reading import Reading
from xscl.ingest.records import Position
from xscl.intake.inputs import follow_paths
from xscl.intake.report import IntakeReport


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "home", SETTINGS) as found:
        yield found


@pytest.fixture(autouse=True)
def sender(service: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSCL_TOKEN", service.tokens["admin"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def rows(channel: str, numbers: range) -> str:
    """Rows without ids, which get those of their places."""
    return "".join(json.dumps({"channel": channel, "ts": n, "row": {"n": n}}) + "\n" for n in numbers)


def held(service: Running, channel: str) -> list[int]:
    """Numbers of the rows that the home of the service has of a channel."""
    home = str(service.service.home.root)
    lines = CliRunner().invoke(app, ["export", "--events", "-", "--home", home]).stdout.splitlines()
    events = map(json.loads, lines)
    return sorted(event["row"]["n"] for event in events if event.get("channel") == channel)


def looks(service: Running, paths: list[Path]) -> Iterator[IntakeReport]:
    """Follow paths; one report a look."""
    taker = FollowedService(Client(service.address), Reading().limits)
    parts = follow_paths(taker, paths, Reading("items", keeps_feeds=True), every="1ms")
    report = IntakeReport()
    for part in parts:
        if part != IntakeReport():
            report.add(part)
            continue
        yield report
        report = IntakeReport()


def test_what_is_added_is_sent_once(service: Running, tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(rows("grown", range(1, 4)), encoding="utf-8")
    look = looks(service, [tmp_path])
    assert [next(look).taken for _ in range(2)] == [3, 0]
    with log.open("a", encoding="utf-8") as file:
        file.write(rows("grown", range(4, 7)) + '{"channel": "grown", "ts"')
    assert next(look).taken == 3, "half a line waits for its end"
    # Another process goes on where this one was; a file that was renamed is read on under its new name.
    log.rename(tmp_path / "log.ndjson.1")
    log.write_text(rows("grown", range(7, 9)), encoding="utf-8")
    report = next(looks(service, [tmp_path]))
    assert (report.taken, report.duplicates) == (2, 0)
    assert held(service, "grown") == [*range(1, 9)]


def test_what_was_not_noted_is_sent_again_and_known(
    service: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(rows("again", range(600)), encoding="utf-8")

    def ends(taker: FollowedService, position: Position) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(FollowedService, "_put", ends)
        next(looks(service, [log]))
    report = next(looks(service, [log]))
    assert (report.taken, report.duplicates) == (344, 256)
    # Without the notes everything is sent again.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    report = next(looks(service, [log]))
    assert (report.taken, report.duplicates) == (0, 600)
    assert held(service, "again") == [*range(600)]


def test_damaged_notes_are_told_and_left_out(
    service: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(rows("noted", range(3)), encoding="utf-8")
    next(looks(service, [log]))
    [note] = (tmp_path / "state").rglob("*.json")
    note.write_text("{", encoding="utf-8")
    assert next(looks(service, [log])).duplicates == 3
    assert str(note) in capsys.readouterr().err


def test_a_sender_that_is_killed_goes_on(service: Running, tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    command = [
        sys.executable,
        "-m",
        "xscl",
        "ingest",
        str(log),
        "--follow",
        "--every",
        "20ms",
        "--url",
        service.address,
    ]
    count = 0
    with log.open("a", encoding="utf-8") as file:
        for _ in range(2):
            sender = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            seen = len(held(service, "killed"))
            while len(held(service, "killed")) == seen:
                assert sender.poll() is None
                file.write(rows("killed", range(count, count := count + 50)))
                file.flush()
                time.sleep(0.05)
            os.kill(sender.pid, signal.SIGKILL)
            sender.wait()
    next(looks(service, [log]))
    assert held(service, "killed") == [*range(count)]


def test_rows_of_other_machines_have_their_own_ids(
    service: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.ndjson"
    log.write_text(rows("machines", range(2)), encoding="utf-8")
    for machine in ("one", "two"):
        monkeypatch.setattr("socket.gethostname", lambda name=machine: name)
        client = Client(service.address)
        client.is_here = False
        taker = FollowedService(client, Reading().limits)
        monkeypatch.setattr(taker, "positions", lambda start: {})
        assert next(follow_paths(taker, [log], Reading(), every="1ms")).taken == 2
    assert held(service, "machines") == [0, 0, 1, 1]


def test_a_feed_is_sent_as_it_was_published(service: Running, tmp_path: Path) -> None:
    feed = tmp_path / "feed.xml"
    item = "<item><guid>{}</guid><title>{}</title></item>"
    for title in ("one", "two"):
        text = item.format(1, title) + item.format(2, "same")
        feed.write_text(f"<rss version='2.0'><channel><title>f</title>{text}</channel></rss>", encoding="utf-8")
        result = CliRunner().invoke(app, ["ingest", str(feed), "--channel", "pushed", "--url", service.address])
        assert result.exit_code == 0, result.output
        told = "4 events taken" if title == "one" else "2 events taken, of them 2 new versions, 2 known already"
        assert told in result.stderr
    with service.client("read") as client:
        rows = client.get("/v1/feeds", params={"channel": "pushed", "health": "file"}).json()["feeds"]
        assert [(row["items"], row["versions"]) for row in rows] == [(3, 1)]
        shown = client.get("/v1/feeds/one", params={"feed": "feed.xml"}).json()
        assert {row["title"] for row in shown["items"]} == {"two", "same"}


def test_what_is_no_feed(service: Running) -> None:
    with service.client("write") as client:
        for body, condition in (
            ("<a/>", "XSCL_NOT_A_FEED"),
            ("{}", "XSCL_NOT_A_FEED"),
            ("<rss", "XSCL_MALFORMED_DOCUMENT"),
        ):
            refused = client.post("/v1/channels/c/feed?source=x", content=body, headers=XML)
            assert refused.status_code == 422 and refused.json()["type"].endswith(condition), refused.text
        for source in ("", "%00", "a%0A%00b"):
            refused = client.post(f"/v1/channels/c/feed?source={source}", content="<rss/>", headers=XML)
            assert refused.status_code == 422 and refused.json()["type"].endswith("XSCL_BAD_REQUEST"), refused.text


def test_channels_of_a_service(service: Running) -> None:
    def asked(*words: str, where: list[str] | None = None) -> Result:
        result = CliRunner().invoke(app, ["channel", *words, *(where or ["--url", service.address])])
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    columns = ["--kind", "rows", "--schema", "room string, temp double", "--lateness", "1 h", "--element", "reading"]
    assert "channel rooms" in asked("add", "rooms", *columns, "--clock", "wall", "--wall", "1 min").stderr
    assert "stream north of weather" in asked("add", "north", "--of", "weather").stderr
    assert "channel rooms" in asked("set", "rooms", "--lateness", "2 h", "--retention", "30 days").stderr
    asked("set", "north", "--source", "wire")
    of_service = json.loads(asked("list", "--json").stdout)
    assert of_service == json.loads(asked("list", "--json", where=["--home", str(service.service.home.root)]).stdout)
    [rooms] = [row for row in of_service if row["channel"] == "rooms"]
    kept = {"lateness": "2 h", "retention": "30 d", "clock": "wall", "wall": "1 min", "element": "reading"}
    assert {name: rooms[name] for name in kept} == kept
    assert "dropped rooms" in asked("drop", "rooms").stderr
    error = CliRunner().invoke(app, ["channel", "drop", "rooms", "--url", service.address]).exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_UNKNOWN_CHANNEL"


def test_deliveries_and_templates_of_a_service(service: Running) -> None:
    def asked(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [*words, "--url", service.address])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    asked("query", "add", "delivered", "S//book->b[./author->a]")
    added = asked("deliver", "add", "shop", "--query", "delivered", "--to", "https://shop.example/hook")
    assert added.stdout.strip() and "delivery shop" in added.stderr
    [row] = json.loads(asked("deliver", "list", "--json").stdout)
    here = CliRunner().invoke(app, ["deliver", "list", "--json", "--home", str(service.service.home.root)])
    assert row == {**json.loads(here.stdout)[0]} and row["target"] == "https://shop.example/hook"
    assert "shop sends 0 matches again" in asked("deliver", "replay", "shop").stderr
    for own in (["--file", "out"], ["--to", "https://10.0.0.1/", "--allow-private"]):
        error = asked("deliver", "add", "own", "--query", "delivered", *own, code=1).exception
        assert isinstance(error, EngineError) and error.condition == "XSCL_NEEDS_HOME"
    assert "dropped shop" in asked("deliver", "drop", "shop").stderr
    assert len(json.loads(asked("template", "list", "--json").stdout)) == 1


def test_subscriptions_of_a_service(service: Running, tmp_path: Path) -> None:
    def asked(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["feed", *words, "--url", service.address])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def refused(*words: str) -> str:
        error = asked(*words, code=1).exception
        assert isinstance(error, EngineError)
        return error.condition

    url = "https://example.org/a.xml"
    assert url in asked("add", url, "--channel", "news", "--interval", "30 min", "--folder", "News").stderr
    assert refused("add", url) == "XSCL_NAME_TAKEN"
    listed = tmp_path / "list.opml"
    listed.write_text(
        '<opml version="2.0"><body><outline type="rss" text="b" xmlUrl="https://example.org/b.xml"/>\n'
        '<outline type="rss" text="c" xmlUrl="ftp://example.org/c.xml"/></body></opml>',
        encoding="utf-8",
    )
    imported = asked("import", str(listed), code=3).stderr
    assert f"{listed}:1: added https://example.org/b.xml" in imported and f"{listed}:2: refused" in imported
    here = CliRunner().invoke(app, ["feed", "list", "--json", "--home", str(service.service.home.root)])
    assert json.loads(asked("list", "--json").stdout) == json.loads(here.stdout)
    assert [row["feed"] for row in json.loads(asked("list", "--json", "--folder", "News").stdout)] == [url]
    asked("set", url, "--pause", "--interval", "2 h")
    shown = json.loads(asked("show", "a.xml", "--json").stdout)
    assert (shown[0]["status"], shown[0]["interval"]) == ("paused", "2 h")
    assert "2 h" in asked("show", "a.xml").stdout
    # A feed that rests is asked for nothing, and nothing goes out.
    assert "is paused and was not asked" in asked("fetch", url).stderr
    assert refused("fetch", "https://example.org/none.xml") == "XSCL_FEED_NOT_FOUND"
    for own in (["fetch", "--contact", "me"], ["add", url, "--allow-private"], ["set", url, "--no-private"]):
        assert refused(*own) == "XSCL_NEEDS_HOME"
    assert asked("set", url, code=2)
    assert "a.xml" in asked("export").stdout
    asked("drop", url)
    assert url not in asked("list", "--json", "--health", "paused").stdout
