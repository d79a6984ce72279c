"""``xscl ingest --url`` has a service take what a home would take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from http_service import SETTINGS, Running, running
from played_wire import PlayedWire, answered
from typer.testing import CliRunner, Result

from xscl.base.errors import EngineError, SourceError
from xscl.base.types import Event
from xscl.catalog.tables import HEARTBEATS
from xscl.cli import pushed_changes, pushing
from xscl.cli.app import app
from xscl.cli.client import Client
from xscl.cli.pushing import Pusher
from xscl.cli.wire import CallFailed, Request, Response
from xscl.ingest.records import Register

EVENTS = """\
{"channel": "S", "id": "d1", "ts": 1, "xml": "<book><author>Ann</author></book>"}
{"channel": "ticks", "ts": "2026-06-01T09:30:00Z", "row": {"sym": "IBM", "price": 101.5, "n": 3}}
{"register": {"name": "dear", "text": "ticks->t[./price > 100]"}}
{"channel": "ticks", "ts": "2026-06-01T09:30:01Z", "row": {"sym": "x", "price": 99, "n": null}}
{"flush": true}
{"channel": "S", "id": "d2", "ts": 2.5, "xml": "<blog>\\u00e9 &amp; <!-- c --></blog>"}
{"channel": "S", "id": "d1", "ts": 1, "xml": "<book><author>Ann</author></book>"}
"""
CSV = """\
seq,time,room,temp,code
1,1970-01-01T00:00:07Z,a,20.5,01
2,1970-01-01T00:00:08Z,,21,2
3,1970-01-01T00:00:09Z,c,,3
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "home", SETTINGS) as found:
        yield found


@pytest.fixture
def ask(service: Running, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("XSCL_TOKEN", service.tokens["admin"])
    return CliRunner()


def told(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def taken(ask: CliRunner, home: object) -> list[str]:
    """Everything a home has taken in, but registrations, and ends of batches, which a service sets itself."""
    lines = told(ask.invoke(app, ["export", "--events", "-", "--home", str(home)])).splitlines()
    return sorted(line for line in lines if "register" not in line and "flush" not in line)


def files(folder: Path) -> list[str]:
    """A folder's files: events, rows of three kinds, documents in two encodings."""
    (folder / "events.ndjson").write_text(EVENTS, encoding="utf-8")
    (folder / "doc.xml").write_text("<?xml version='1.0' encoding='utf-8'?>\n<a ts='4'>ü</a>", encoding="utf-8")
    (folder / "latin.xml").write_bytes("<?xml version='1.0' encoding='iso-8859-1'?><a ts='5'>é</a>".encode("latin-1"))
    (folder / "entities.xml").write_text("<!DOCTYPE a [<!ENTITY e 'x'>]><a ts='6'>&e;</a>", encoding="utf-8")
    return [str(folder / name) for name in ("events.ndjson", "doc.xml", "latin.xml", "entities.xml")]


def test_a_service_takes_what_a_home_takes(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    named, home = files(tmp_path), str(tmp_path / "home")
    ask.invoke(app, ["init", "--home", home])
    here = ["--here", "--home", str(service.service.home.root)]
    rows = tmp_path / "readings.csv"
    rows.write_text(CSV, encoding="utf-8")
    exact = pa.table(
        {"at": pa.array([10, 11], pa.timestamp("s", "UTC")), "price": pa.array([1, 2], pa.decimal128(5, 2))}
    )
    pq.write_table(exact, tmp_path / "exact.parquet")
    for paths, options in (
        (named, ["--channel", "docs", "--ts", "@ts"]),
        ([str(rows)], ["--ts", "time", "--schema", "seq int, time string, room string, temp double, code string"]),
        ([str(tmp_path / "exact.parquet")], ["--ts", "at", "--channel", "exact"]),
    ):
        asked = ["ingest", *paths, *options]
        of_home, of_service = (
            ask.invoke(app, [*asked, *where]) for where in (["--home", home], ["--url", service.address])
        )
        assert told(of_service) == told(of_home)
        notes = [line for line in of_service.stderr.splitlines() if "flush" not in line]
        assert notes == of_home.stderr.splitlines()
        # All of it is known from now on, by whichever way it comes.
        again = ask.invoke(app, ["ingest", *paths[-1:], *options, *here])
        assert "0 events taken" in again.stderr and "known already" in again.stderr
    mine, theirs = taken(ask, home), taken(ask, service.service.home.root)
    assert mine == theirs and len(mine) == 12
    assert "dear" in told(ask.invoke(app, ["query", "list", "--url", service.address]))


def test_refusals_have_their_place(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    lines = ['{"channel": "r", "ts": 1, "xml": "<a>"}', "nothing", '{"channel": "r", "id": "r1", "xml": "<a/>"}']
    bad = tmp_path / "bad.ndjson"
    bad.write_text("\n".join(lines), encoding="utf-8")
    result = ask.invoke(app, ["ingest", str(bad), "--url", service.address])
    told(result, 3)
    assert f"{bad}:1: [XSCL_MALFORMED_DOCUMENT]" in result.stderr
    assert f"{bad}:2: [XSCL_BAD_EVENT_LINE]" in result.stderr
    assert "1 event taken, 2 rejected" in result.stderr
    feed = tmp_path / "feed.xml"
    feed.write_text("<rss version='2.0'><channel><item><guid>1</guid></item></channel></rss>", encoding="utf-8")
    for options in (["--whole", "--channel", "r"], ["--channel", "entries"]):
        told(ask.invoke(app, ["ingest", str(feed), *options, "--url", service.address]))


def test_standard_input(service: Running, ask: CliRunner) -> None:
    line = '{"channel": "piped", "row": {"n": 1}}\n'
    for _ in range(2):
        result = ask.invoke(app, ["ingest", "-", "--url", service.address], input=line)
        # Two inputs without a name are two.
        assert "1 event taken" in result.stderr, result.output


@pytest.mark.parametrize("option", [["--strict"], ["--table", "t", "--key", "k", "--channel", "c"]])
def test_what_no_service_does(service: Running, ask: CliRunner, option: list[str]) -> None:
    error = ask.invoke(app, ["ingest", "x.xml", *option, "--url", service.address]).exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_NEEDS_HOME"


def test_commands_of_a_home_say_so(service: Running, ask: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ask.invoke(app, ["late", "list", "--url", service.address]).exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_NEEDS_HOME"
    monkeypatch.setenv("XSCL_HOME", str(service.service.home.root))
    monkeypatch.setenv("XSCL_URL", service.address)
    result = ask.invoke(app, ["late", "list"])
    told(result)
    assert "not on the service that XSCL_URL names" in result.stderr
    assert "XSCL_URL" not in ask.invoke(app, ["late", "list", "--home", str(service.service.home.root)]).stderr


class Busy(PlayedWire):
    """A service that is busy or away now and then, and keeps what it is sent."""

    def __init__(self, moods: list[int]) -> None:
        super().__init__(self.taken)
        self.moods = moods
        self.bodies: list[bytes] = []

    def taken(self, request: Request) -> Response:
        if request.method == "GET":
            return answered(200, {"channels": []})
        mood = self.moods.pop(0) if self.moods else 202
        if mood == 0:
            raise CallFailed("away", was_sent=False)
        if mood != 202:
            busy = {"type": "urn:xscl:problem:XSCL_BUSY", "detail": "busy"}
            return answered(mood, busy, **{"retry-after": "7"})
        assert request.body is not None
        self.bodies.append(request.body)
        count = request.body.count(b"\n")
        counts = dict.fromkeys(("known", "refused", "versions", "removed", "missing"), 0)
        return answered(202, {**counts, "taken": count, "rejected": [], "place": count})


def test_a_busy_service_is_asked_again_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "_BYTES", 300)
    transport, pauses = Busy([503, 429, 0]), []
    pusher = Pusher(Client("http://service", transport, pauses.append))
    for n in range(20):
        assert pusher.take(Event("S" if n % 3 else "T", f"d{n}", n, xml=f"<a>{'x' * n}</a>"))
    pusher.send()
    assert pauses == [7.0, 7.0, 0.5]
    assert pusher.report.taken == 20
    assert all(len(body) <= 300 for body in transport.bodies)
    ids = [json.loads(line)["id"] for body in transport.bodies for line in body.splitlines()]
    assert sorted(ids) == sorted(f"d{n}" for n in range(20))
    assert [one for one in ids if int(one[1:]) % 3 == 0] == [f"d{n}" for n in range(0, 20, 3)]


def test_a_service_that_stays_away_is_an_error(ask: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<a/>", encoding="utf-8")
    pusher = Pusher(Client("http://service", Busy([0] * 9), lambda _: None))
    pusher.take(Event("S", "d", 1, xml="<a/>"))
    with pytest.raises(EngineError, match="XSCL_NO_ANSWER"):
        pusher.send()


def test_heartbeats_go_to_a_service(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    lines = tmp_path / "beats.ndjson"
    event = {"channel": "beaten", "id": "b", "ts": 7, "xml": "<a/>"}
    beat = {"heartbeat": {"channel": "beaten", "ts": 9}}
    lines.write_text(f"{json.dumps(event)}\n{json.dumps(beat)}\n", encoding="utf-8")
    told(ask.invoke(app, ["ingest", str(lines), "--url", service.address]))
    told(ask.invoke(app, ["heartbeat", "beaten", "12", "--url", service.address]))
    late = ask.invoke(app, ["heartbeat", "beaten", "never", "--url", service.address])
    assert late.exit_code == 2
    with service.service.home.catalog.read() as connection:
        found = connection.execute(sa.select(HEARTBEATS.c.ts).where(HEARTBEATS.c.channel == "beaten")).scalars().all()
    # The first one is superseded, and may be gone.
    assert found in ([9_000_000, 12_000_000], [12_000_000])


def test_removals_go_to_a_service(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    lines = tmp_path / "removals.ndjson"
    event = {"channel": "taken.out", "id": "b", "ts": 7, "xml": "<a/>"}
    removals = [{"retract": {"channel": "taken.out", "id": id_}} for id_ in ("b", "c")]
    lines.write_text("".join(json.dumps(each) + "\n" for each in (event, *removals)), encoding="utf-8")
    result = ask.invoke(app, ["ingest", str(lines), "--url", service.address])
    assert result.exit_code == 0
    assert "1 event taken, 1 removed, 1 not there to remove" in result.output


CHANGES = """\
op,no,at,what,price,note
c,a,2026-06-01T09:00:00Z,"x, ""y""
z",1.50,
c,b,2026-06-01T09:00:01Z,x,2,""
u,a,2026-06-01T09:00:02Z,x,1.75,
zz,q,2026-06-01T09:00:02Z,x,1,
d,b,,,,
c,c,never,x,1,
u,c,2026-06-01T09:00:03Z,x,1,
d,d,,,,
c,a,2026-06-01T09:00:02Z,x,1.75,
"""


def test_changes_of_rows_go_to_a_service(
    service: Running, ask: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed_changes, "_ROWS", 3)
    home = str(tmp_path / "home")
    ask.invoke(app, ["init", "--home", home])
    (tmp_path / "changes.csv").write_text(CHANGES, encoding="utf-8")
    exact = {
        "op": ["c", "-U", "+U", "d"],
        "no": pa.array([1, 1, 1, 2], pa.int32()),
        "at": pa.array([10, 10, 12, None], pa.timestamp("ms", "Europe/Zurich")),
        "price": pa.array([1, 1, 2, 3], pa.decimal128(5, 2)),
        "day": pa.array([1, 2, None, 4], pa.date32()),
        "rate": [0.1, 1e300, None, 2.0],
    }
    pq.write_table(pa.table(exact), tmp_path / "exact.parquet")
    columns = "no bigint, at timestamp, price decimal, day date, rate double"
    for where in (["--home", home], ["--url", service.address]):
        ask.invoke(app, ["channel", "add", "prices", "--kind", "rows", "--schema", columns, *where])
    for file, options, code in (
        ("changes.csv", ["--columns", "no,what,price,note", "--channel", "orders"], 3),
        ("exact.parquet", ["--channel", "prices"], 0),
    ):
        asked = ["ingest", str(tmp_path / file), "--id", "no", "--op", "op", "--ts", "at", *options]
        of_home, of_service = (
            ask.invoke(app, [*asked, *where]) for where in (["--home", home], ["--url", service.address])
        )
        assert of_service.exit_code == of_home.exit_code == code, of_service.output
        # A home tells of rows that go before it tells of those that are refused.
        assert sorted(of_service.stderr.splitlines()) == sorted(
            line for line in of_home.stderr.splitlines() if "to remove" not in line or line.count(",")
        )
    both = [taken(ask, place) for place in (home, service.service.home.root)]
    mine, theirs = ([line for line in lines if '"orders"' in line or '"prices"' in line] for lines in both)
    assert mine == theirs and len(mine) > 5


def test_changes_need_what_a_home_needs(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "changes.csv").write_text(CHANGES, encoding="utf-8")
    asked = ["ingest", str(tmp_path / "changes.csv"), "--channel", "o2", "--op", "kind", "--url", service.address]
    refused = ask.invoke(app, [*asked, "--id", "no"])
    assert refused.exit_code == 1 and "there is no column 'kind' for changes" in refused.stderr
    (tmp_path / "ops.csv").write_text("kind,no\nc,1\n", encoding="utf-8")
    timed = [arg.replace("changes.csv", "ops.csv") for arg in asked]
    refused = ask.invoke(app, [*timed, "--id", "no", "--ts", "at"])
    assert refused.exit_code == 1 and "there is no column 'at' for times" in refused.stderr
    error = ask.invoke(app, asked).exception
    assert isinstance(error, EngineError | SourceError) and error.condition == "XSCL_BAD_OPTION"


def test_a_registration_whose_answer_is_lost_is_not_made_twice() -> None:
    def lost(request: Request) -> Response:
        raise CallFailed("nobody answers", was_sent=True)

    wire = PlayedWire(lost)
    pusher = Pusher(Client("http://service", wire, sleep=lambda seconds: None))
    with pytest.raises(EngineError, match="XSCL_NO_ANSWER"):
        pusher.take(Register("S//a", None, "lines:1"))
    assert len(wire.asked) == 1
