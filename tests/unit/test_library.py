"""The library as a person at a prompt or in a notebook meets it: what it refuses, what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import xscl
from xscl.answers.matches.listing import Listing
from xscl.base.types import Event
from xscl.catalog.channels import read_channels
from xscl.engine import Engine
from xscl.registry.query_list import QueryFilter
from xscl.store.home import init_home


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as engine:
        yield engine


@pytest.fixture
def matched(opened: Engine) -> Engine:
    opened.register("S/a->x", name="Q")
    opened.ingest([{"channel": "S", "id": f"<{n}>", "ts": n, "xml": f"<a>&lt;i>{n}</a>"} for n in range(25)])
    opened.run_once()
    return opened


@pytest.mark.parametrize("given", ["folder", "some/folder", Path("folder"), r"C:\some\folder"])
def test_a_folder_is_no_address_of_a_catalogue(given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(xscl.CatalogError, match="is no address of a catalogue") as refused:
        xscl.connect(given)
    assert refused.value.condition == "XSCL_NO_CATALOG" and "home=" in (refused.value.hint or "")
    assert not [*tmp_path.iterdir()], "nothing is made"


@pytest.mark.parametrize(
    "given", ["nosql://u:secret@host/x", "sqlite+nodriver:///x", "postgresql://u:secret@host:port/x"]
)
def test_an_address_without_a_driver_makes_no_home(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(xscl.CatalogError, match="is no address of a catalogue") as refused:
        xscl.connect(given)
    assert "home=" not in (refused.value.hint or "") and "secret" not in str(refused.value)
    assert not [*tmp_path.iterdir()], "nothing is made"


def test_dicts_are_events_as_lines_are(opened: Engine) -> None:
    zone = datetime(2026, 1, 1, tzinfo=UTC)
    report = opened.ingest(
        [
            {"channel": "S", "xml": "<a/>"},
            {"channel": "S", "id": "d1", "ts": 1.5, "xml": "<a/>"},
            {"channel": "S", "id": "d2", "ts": zone, "xml": "<a/>"},
            {"channel": "R", "id": 7, "ts": "2026-06-01T09:30:00Z", "row": {"sym": "IBM", "price": 101.5}},
            {"register": {"name": "Q", "text": "S/a"}},
            {"flush": True},
            {"channel": "S", "xlm": "<a/>"},
            {"channel": "S", "ts": datetime(2026, 1, 1), "xml": "<a/>"},
            {"channel": "S", "ts": float("nan"), "xml": "<a/>"},
        ]
    )
    assert (report.taken, report.registered, report.rejected) == (4, 1, 3)
    assert "item 7" in report.problems[0].source and "xlm" in report.problems[0].message
    with pytest.raises(xscl.SourceError, match=r"item 7.*xlm.*\(and 2 more\)") as refused:
        report.raise_if_rejected()
    assert refused.value.condition == "XSCL_BAD_EVENT_LINE"
    opened.ingest([{"channel": "S", "xml": "<a/>"}]).raise_if_rejected()


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        ("missing.xml", "XSCL_SOURCE_UNREADABLE"),
        (Path("missing.xml"), "XSCL_SOURCE_UNREADABLE"),
        ("<a/>", "XSCL_SOURCE_UNREADABLE"),
        ("a\0b", "XSCL_SOURCE_UNREADABLE"),
        (["there.xml", "missing.xml"], "XSCL_SOURCE_UNREADABLE"),
        (["there.xml", 3], "XSCL_BAD_OPTION"),
        (3, "XSCL_BAD_OPTION"),
        (None, "XSCL_BAD_OPTION"),
        (b"<a/>", "XSCL_BAD_OPTION"),
        ({"channel": "S", "xml": "<a/>"}, "XSCL_BAD_OPTION"),
        ([3], "XSCL_BAD_EVENT"),
        ([("S", "<a/>")], "XSCL_BAD_EVENT"),
    ],
)
def test_a_call_that_is_wrong_raises_and_takes_nothing(
    opened: Engine, source: object, condition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.xml").write_text("<a/>", encoding="utf-8")
    with pytest.raises(xscl.XsclError) as refused:
        opened.ingest(source, channel="S")  # type: ignore[arg-type]
    assert refused.value.condition == condition
    assert opened.run_once() == []


@pytest.mark.parametrize(
    ("options", "condition", "message"),
    [
        ({"id": "seqq"}, "XSCL_NO_COLUMN", "'seqq' for ids.*did you mean 'seq'"),
        ({"ts": "tme"}, "XSCL_NO_COLUMN", "'tme' for times.*did you mean 'time'"),
        ({"ts": "time tmie"}, "XSCL_NO_COLUMN", "'tmie' for times"),
        ({"columns": "vlaue"}, "XSCL_NO_COLUMN", "'vlaue'.*did you mean 'value'"),
        ({"id": "value"}, "XSCL_BAD_OPTION", "'value'.*double"),
        ({"id": "flag"}, "XSCL_BAD_OPTION", "'flag'.*boolean"),
        ({"id": "nothing"}, "XSCL_BAD_OPTION", "'nothing'.*NULL"),
        ({"id": "parts"}, "XSCL_COLUMN_TYPE", "list"),
        ({"ts": "flag"}, "XSCL_BAD_OPTION", "'flag'.*bool"),
        ({"ts": "parts"}, "XSCL_BAD_OPTION", "'parts'.*list"),
        ({"ts": "value", "ts_format": "%Y"}, "XSCL_BAD_OPTION", "'value'.*%Y"),
    ],
)
@pytest.mark.parametrize("library", ["pyarrow", "pandas", "empty"])
def test_tables_without_what_the_call_names(
    opened: Engine, options: dict[str, str], condition: str, message: str, library: str
) -> None:
    table = pa.table(
        {"seq": [1], "time": [1.0], "value": [0.5], "flag": [True], "parts": [[1]], "nothing": pa.nulls(1)}
    )
    if library == "pandas":
        # Pandas has no type of a column of NULLs; such a column comes as objects, which Arrow takes for NULLs again.
        given: object = table.to_pandas()
    else:
        given = table.schema.empty_table() if library == "empty" else table
    with pytest.raises(xscl.SourceError, match=f"(?s){message}") as refused:
        opened.ingest(given, channel="R", **options)  # type: ignore[arg-type]
    assert refused.value.condition == condition
    assert opened.run_once() == [] and opened.home.catalog.ask(read_channels) == {}


@pytest.mark.parametrize(
    ("options", "message"), [({"id": "seqq"}, "did you mean 'seq'"), ({"ts": "tme"}, "did you mean 'time'")]
)
@pytest.mark.parametrize(
    ("name", "text"),
    [("r.csv", "seq,time\n1,2\n"), ("r.jsonl", '{"seq": 1, "time": 2}\n'), ("r.tsv", "seq\ttime\n1\t2\n")],
)
def test_files_without_what_the_call_names(
    opened: Engine, tmp_path: Path, options: dict[str, str], message: str, name: str, text: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(xscl.SourceError, match=f"(?s){message}") as refused:
        opened.ingest(file, **options)  # type: ignore[arg-type]
    assert refused.value.condition == "XSCL_NO_COLUMN" and opened.run_once() == []
    (folder / "other.csv").write_text("seqq,tme\n1,2\n", encoding="utf-8")
    report = opened.ingest(folder, **options)  # type: ignore[arg-type]
    assert (report.taken, report.rejected) == (1, 1), "of a folder, the files that have it are taken"
    assert opened.ingest(file, id="seq", ts="time").taken == 1


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        pass
    engine.close()
    for call in (
        lambda: engine.ingest([]),
        lambda: engine.register("S/a"),
        engine.run_once,
        engine.matches,
        engine.queries,
        lambda: engine.query_once("S/a"),
        lambda: engine.add_channel("S"),
        lambda: engine.sql("SELECT 1"),
        engine.fetch_feeds,
        engine.start,
    ):
        with pytest.raises(xscl.EngineError, match="closed") as refused:
            call()
        assert refused.value.condition == "XSCL_ENGINE_CLOSED"
    assert "closed" in repr(engine) and "closed" in engine._repr_html_()


def test_listings_have_a_length_and_slices(matched: Engine) -> None:
    ids = [match.id for match in matched.matches()]
    listing = matched.matches()
    assert next(listing).id == ids[0]
    assert len(listing) == 25 and len(matched.matches(limit=3)) == 3
    for part in (slice(3), slice(5, 9), slice(-4, None), slice(None), slice(20, 90), slice(None, None, 7)):
        assert [match.id for match in listing[part]] == ids[part], part
    assert [match.id for match in listing[::-2]] == ids[::-2]
    assert [match.id for match in listing[10:3:-3]] == ids[10:3:-3]
    assert (listing[0].id, listing[24].id, listing[-1].id) == (ids[0], ids[24], ids[-1])
    assert [match.id for match in matched.matches(limit=3)[1:]] == ids[1:3]
    for place in (25, -26):
        with pytest.raises(IndexError):
            listing[place]
    assert [match.id for match in listing] == ids[1:], "what was looked at is still handed out"
    assert bool(matched.matches()) and not matched.matches(limit=0)
    with pytest.raises(xscl.EngineError, match="limit") as refused:
        matched.matches(limit=-1)
    assert refused.value.condition == "XSCL_BAD_OPTION"


def test_times_are_datetimes_too(matched: Engine) -> None:
    at = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    found = [match.ts for match in matched.matches(since=at, until=at + timedelta(seconds=2))]
    assert found == [5_000_000, 6_000_000, 7_000_000]
    texts = matched.matches(since="1970-01-01T00:00:05Z", until="1970-01-01T00:00:07Z")
    assert [match.ts for match in texts] == found
    call: Callable[..., object]
    for call in (
        matched.matches,
        partial(matched.query_once, "S/a"),
        matched.replay_late,
    ):
        for wrong in (at.replace(tzinfo=None), "1970-01-01T00:00:05", "yesterday", 5.0, True):
            with pytest.raises(xscl.EngineError, match="since") as refused:
                call(since=wrong)
            assert refused.value.condition == "XSCL_BAD_OPTION"
    assert len(list(matched.query_once("S/a->x", since=at))) == 20


def test_options_are_records_or_their_fields(matched: Engine, tmp_path: Path) -> None:
    since = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=5)
    wanted = Listing(since=since, limit=3)
    assert list(matched.matches("Q", wanted)) == list(matched.matches("Q", since=5_000_000, limit=3))
    assert len(matched.matches(listing=wanted, limit=2)) == 2
    assert [q.name for q in matched.queries(QueryFilter(like="Q*"))] == [q.name for q in matched.queries(like="Q*")]
    file = tmp_path / "rooms.csv"
    file.write_text("seq;room\n1;NA\n2;b\n")
    reading = xscl.Reading("rooms", id="seq", delimiter=";", null=["NA"])
    assert matched.ingest(file, reading=reading).taken == 2
    assert matched.ingest(file, channel="rooms", id="seq", delimiter=";", null="NA").duplicates == 2
    assert matched.ingest(file, reading=reading, channel="others").taken == 2
    options = xscl.ChannelOptions("rows", schema="v bigint")
    matched.add_channel("first", options)
    matched.add_channel("second", kind="rows", schema="v bigint")
    matched.add_channel("third", options, schema="v double")
    with matched.home.catalog.read() as connection:
        channels = read_channels(connection)
    shapes = [channels[name].schema for name in ("first", "second", "third")]
    assert shapes == [{"v": "bigint"}, {"v": "bigint"}, {"v": "double"}]
    for call in (partial(matched.ingest, "x"), matched.matches, matched.queries, partial(matched.add_channel, "x")):
        with pytest.raises(xscl.EngineError, match="nosuch") as refused:
            call(nosuch=1)  # type: ignore[operator]
        assert refused.value.condition == "XSCL_BAD_OPTION"


def test_slips_of_a_caller_are_told_what_to_do(matched: Engine) -> None:
    with pytest.raises(xscl.EngineError, match="did you mean ts"):
        matched.ingest("x.csv", tss="time")
    with pytest.raises(xscl.EngineError, match="wrap it in a list"):
        matched.ingest({"channel": "S", "xml": "<a/>"})
    with pytest.raises(xscl.CatalogError, match=r"engine\.drop\('Q'\)"):
        matched.register("S//a", name="Q")


def test_what_a_caller_prints_says_what_happened(matched: Engine) -> None:
    report = matched.ingest([{"channel": "S"}])
    assert "rejected=1, first='item 1: [XSCL_BAD_EVENT_LINE] an event has" in repr(report)
    answer = matched.query_once("S/a->x")
    assert "list(answer)" in repr(answer) and "generator" not in repr(answer)
    assert len(list(answer)) == 25


@pytest.mark.parametrize(
    ("wrong", "condition"),
    [
        ({"format": "xls"}, "XSCL_BAD_OPTION"),
        ({"schema": "a nosuch"}, "XSCL_BAD_SCHEMA"),
        ({"ts_zone": "Mars/Phobos"}, "XSCL_BAD_OPTION"),
        ({"split": "item["}, "XSCL_BAD_OPTION"),
    ],
)
def test_a_reading_is_sound_or_refused(wrong: dict[str, str], condition: str) -> None:
    with pytest.raises(xscl.SourceError) as refused:
        xscl.Reading(**wrong)  # type: ignore[arg-type]
    assert refused.value.condition == condition


def test_late_events_are_chosen_by_datetimes(opened: Engine) -> None:
    opened.add_channel("S", lateness="1 s")
    opened.ingest([{"channel": "S", "id": f"{n}", "ts": n, "xml": "<a/>"} for n in (100, 5, 6, 7)])
    at = datetime(1970, 1, 1, 0, 0, 6, tzinfo=UTC)
    assert opened.replay_late(since=at + timedelta(seconds=2)).events == 0
    assert opened.replay_late(since=at, until=at).events == 1
    taken = opened.replay_late(until=at)
    assert (taken.events, taken.before) == (1, 1)


def test_a_given_session_that_was_stopped_is_named(tmp_path: Path) -> None:
    class Stopped:
        sparkContext = SimpleNamespace(_jsc=None)  # noqa: N815 - pyspark's name
        dataSource = SimpleNamespace(register=lambda source: None)  # noqa: N815

    session: Any = Stopped()
    with Engine(init_home(tmp_path / "home"), spark=session) as engine, pytest.raises(xscl.EngineError) as refused:
        engine.sql("SELECT 1")
    assert refused.value.condition == "XSCL_SPARK_GONE" and "has been stopped" in str(refused.value)


def test_a_rejected_event_of_a_program_is_named(matched: Engine) -> None:
    report = matched.ingest([xscl.Event("S", "<9>", 1), xscl.Event("S", xml="<a>")])
    assert 'IntakeReport(rejected=2, first="S:<9>: [XSCL_BAD_EVENT] ' in repr(report)
    assert "S: XSCL_MALFORMED_DOCUMENT" in report._repr_html_()
    with pytest.raises(xscl.SourceError, match="S:<9>: an event has either"):
        report.raise_if_rejected()


def test_what_a_notebook_shows_is_escaped(matched: Engine) -> None:
    report = matched.ingest([{"channel": "S", "<script>": 1}])
    (batch,) = matched.ingest([{"channel": "S", "xml": "<a/>"}]) and matched.run_once()
    handle = matched.start(every="1 h", name="<mine>")
    shown = (matched, matched.matches(), report, batch, handle)
    for thing in shown:
        html = thing._repr_html_()
        assert html.startswith("<table>") and "<script>" not in html and "<mine>" not in html and "<b>" not in html
        assert len(repr(thing)) < 2_000 and repr(thing)
    assert "S/&lt;3&gt;" in matched.matches()._repr_html_() and "S/<3>" in repr(matched.matches())
    assert "&lt;script&gt;" in report._repr_html_() and repr(report).startswith("IntakeReport(rejected=1, first=")
    assert handle.name == "<mine>" and handle.id != matched.home and handle.status["isActive"]
    handle.stop()
    assert handle.status == {"message": "stopped", "isActive": False} and "stopped" in repr(handle)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Event("S", "a", 1, xml=1), "the document is int, and not a text or bytes"),  # type: ignore[arg-type]
        (Event("S", "a", 1, xml=["<a/>"]), "the document is list, and not a text or bytes"),  # type: ignore[arg-type]
        (Event("R", "a", 1, row=[1]), "the row is list, and not a mapping from columns to values"),  # type: ignore[arg-type]
        (Event("R", "a", 1, row="x"), "the row is str, and not a mapping from columns to values"),  # type: ignore[arg-type]
    ],
)
def test_an_event_without_a_document_or_a_row_is_refused_by_itself(engine: Engine, event: Event, told: str) -> None:
    report = engine.ingest([Event("S", "before", 1, xml="<a/>"), event, Event("S", "behind", 2, xml=b"<a/>")])
    (problem,) = report.problems
    assert report.taken == 2
    assert (problem.condition, problem.message, problem.id) == ("XSCL_BAD_EVENT", told, "a")
