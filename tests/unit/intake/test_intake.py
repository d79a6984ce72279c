"""Taking in: ids, versions, times, lateness, rows, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal

import pytest
from stored_events import stored_events

from xscl.base.document_limits import Limits
from xscl.base.types import Event
from xscl.base.values import digest_text
from xscl.catalog.channels import read_channels
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import FLUSHES, INTAKE_FILES, LATE, REJECTED
from xscl.ingest.records import Drop, Flush, Register, Rejected
from xscl.intake.intake import Intake, IntakeReport
from xscl.registry.channels import add_channel, set_channel
from xscl.store.event_files import event_document
from xscl.store.home import Home

S = 1_000_000


def intake(home: Home, *times: int) -> Intake:
    """Its clock gives these times, and then stands still."""
    ticks = itertools.chain(times, itertools.repeat(times[-1] if times else 1_000 * S))
    return Intake(home, now=lambda: next(ticks))


def column(home: Home, name: str) -> list[object]:
    return [row[name] for row in stored_events(home)]


def take(home: Home, *items: Event) -> IntakeReport:
    return intake(home).take(items)


def conditions(home: Home) -> list[str]:
    return [str(row["condition"]) for row in home.catalog.rows(REJECTED)]


def doc(id_: str | None = "d", ts: float | None = 1, xml: str = "<a/>", channel: str = "S", **more: str) -> Event:
    return Event(channel, id_, ts, xml=xml, **more)


def item(guid: str, xml: str = "<item/>", feed: str = "f", ts: float | None = 1, digest: str | None = None) -> Event:
    return Event("items", guid, ts, xml=xml, feed=feed, digest=digest)


# -- ids -------------------------------------------------------------------------------------------------------


def test_ids_of_documents_without_one(home: Home) -> None:
    content = digest_text("xml", "<a/>")
    report = take(
        home, doc(None, None), doc(None, 1), doc(None, 2), doc(None, 2), doc(None, None), doc(None, None, "<b/>")
    )
    ids = [content, digest_text(content, "1000000"), digest_text(content, "2000000"), digest_text("xml", "<b/>")]
    assert column(home, "id") == ids
    assert (report.taken, report.duplicates) == (4, 2)


def test_the_same_content_adds_nothing(home: Home) -> None:
    assert take(home, doc(), doc()).duplicates == 1
    assert take(home, doc(), doc("e"), doc(channel="T")).taken == 2
    assert [(row["channel"], row["id"]) for row in stored_events(home)] == [("S", "d"), ("S", "e"), ("T", "d")]


def test_an_id_of_other_content(home: Home) -> None:
    report = take(home, doc(), doc(xml="<b/>"), doc("e"))
    assert (report.taken, report.rejected) == (2, 1)
    assert take(home, doc(xml="<c/>")).problems[0].condition == "XSCL_EVENT_ID_REUSED"
    assert conditions(home) == ["XSCL_EVENT_ID_REUSED"] * 2
    assert column(home, "content") == ["<a/>", "<a/>"]


def test_versions_of_feed_items(home: Home) -> None:
    report = take(home, item("g"), item("g", "<b/>"), item("g"), item("h"), item("g", "<c/>"))
    assert (report.taken, report.versions, report.duplicates) == (4, 2, 1)
    take(home, item("g", "<d/>"), item("g", "<b/>"))
    found = [(row["id"], row["version"], row["item"]) for row in stored_events(home)]
    first = found[0][2]
    assert found == [
        ("g", 1, first),
        ("g#2", 2, first),
        ("h", 1, column(home, "docid")[2]),
        ("g#3", 3, first),
        ("g#4", 4, first),
    ]
    assert home.catalog.ask(read_channels)["items"].feed


def test_a_digest_given_with_an_item_tells_versions(home: Home) -> None:
    assert take(home, item("g", "<a/>", digest="1"), item("g", "<b/>", digest="1")).duplicates == 1
    assert take(home, item("g", "<a/>", digest="2")).versions == 1


def test_one_guid_in_two_feeds_is_two_items(home: Home) -> None:
    report = take(home, item("g"), item("g", feed="h"), item("g", "<b/>", feed="h"), item("g", feed="h"))
    assert (report.taken, report.versions, report.duplicates) == (3, 1, 1)
    found = stored_events(home)
    assert [row["id"] for row in found] == ["g", "g (h)", "g (h)#2"]
    assert found[0]["item"] != found[1]["item"] == found[2]["item"]
    take(home, item("g", "<c/>"), item("g", "<c/>", feed="h"))
    assert column(home, "id")[3:] == ["g#2", "g (h)#3"]
    assert len(set(column(home, "id"))) == 5


def test_feed_items_without_id_have_their_content_for_one(home: Home) -> None:
    assert (
        take(home, Event("items", None, 1, xml="<i/>", feed="f"), Event("items", None, 2, xml="<i/>", feed="f")).taken
        == 1
    )


@pytest.mark.parametrize("taken", ["g#2", "g (h)"])
def test_a_guid_that_looks_like_a_version(home: Home, taken: str) -> None:
    take(home, item(taken, "<x/>"))
    report = take(home, item("before"), item("g"), item("g", "<b/>"), item("g", feed="h"), item("after"))
    assert report.taken + report.rejected == 5
    assert len(set(column(home, "id"))) == len(stored_events(home)) == report.taken + 1


@pytest.mark.parametrize("bad", [doc("\ud800"), doc("\ud800", xml="<a"), doc("d", xml="<a", source="\udcff")])
def test_half_a_surrogate_pair(home: Home, bad: Event) -> None:
    report = take(home, doc("before"), bad, doc("after"))
    assert (report.taken, report.rejected) == (2, 1)


# -- times -----------------------------------------------------------------------------------------------------


def test_received_grows_strictly(home: Home) -> None:
    """The clock goes on, stands still, and goes back."""
    clock = intake(home, 10 * S, 10 * S, 3 * S, 20 * S)
    for batch in ("ab", "cd", "ef", "gh"):
        clock.take(doc(name, None) for name in batch)
    assert column(home, "received") == [10 * S + i for i in range(6)] + [20 * S, 20 * S + 1]
    assert column(home, "ts") == column(home, "received")
    docids = column(home, "docid")
    assert docids == sorted(set(docids))


def test_registrations_and_drops_have_a_place(home: Home) -> None:
    found = intake(home, 10 * S).take(
        [doc("a"), Register("S//a", "q", "f:2"), doc("b"), Drop("q", "f:4"), doc("c"), Flush("f:6"), doc("d")]
    )
    assert (found.taken, found.registered, found.dropped, found.rejected) == (4, 1, 1, 0)
    (info,) = home.catalog.ask(read_queries, live_only=False)
    (flush,) = home.catalog.rows(FLUSHES)
    a, b, c, d = column(home, "docid")
    order = [a, info.docid_from, b, info.docid_until, c, flush["place"], d]
    assert order == sorted(set(order))


def test_a_time_of_the_source(home: Home) -> None:
    take(home, doc("a", 1.5), doc("b", "1970-01-01T00:00:02.0000019Z"), doc("c", Decimal("3.25")))  # type: ignore[arg-type]
    assert column(home, "ts") == [1_500_000, 2_000_001, 3_250_000]


def test_future_dates_of_feed_items_are_clamped(home: Home) -> None:
    clock = intake(home, 10 * S)
    clock.take([item("past", ts=9), item("future", ts=11), doc("future", 11)])
    assert column(home, "ts") == [9 * S, column(home, "received")[1], 11 * S]


def late(home: Home, *items: Event) -> list[str]:
    """The ids of those that are late."""
    before = len(home.catalog.rows(LATE))
    report = take(home, *items)
    found = [str(row["id"]) for row in home.catalog.rows(LATE)[before:]]
    assert report.late == len(found)
    assert [row["id"] for row in stored_events(home) if row["late"]] == [row["id"] for row in home.catalog.rows(LATE)]
    return found


def test_nothing_is_late_by_default(home: Home) -> None:
    assert late(home, doc("a", 100), doc("b", -100)) == []


def test_lateness(home: Home) -> None:
    add_channel(home.catalog, "S", lateness="10 s")
    assert late(home, doc("a", 100), doc("b", 90), doc("c", 89.999999), doc("d", 110), doc("e", 99)) == ["c", "e"]
    assert late(home, doc("f", 99.5), doc("g", 100)) == ["f"]
    (row, *_) = home.catalog.rows(LATE)
    assert (row["channel"], row["id"], row["ts"], row["condition"]) == ("S", "c", 89_999_999, "XSCL_LATE")
    assert row["message"]


def test_late_events_do_not_turn_the_clock_back(home: Home) -> None:
    add_channel(home.catalog, "S", lateness="0 s")
    assert late(home, doc("a", 5), doc("b", 3), doc("c", 4), doc("d", 5)) == ["b", "c"]


def test_repetitions_and_refusals_do_not_move_the_clock(home: Home) -> None:
    add_channel(home.catalog, "S", lateness="1 s")
    report = take(home, doc("a", 1), doc("b", 100, "<b"), doc("a", 100))
    assert (report.taken, report.rejected, report.duplicates) == (1, 1, 1)
    assert late(home, doc("c", 1)) == []


def test_clocks_of_channels_are_their_own(home: Home) -> None:
    for name in "ST":
        add_channel(home.catalog, name, lateness="1 s")
    assert late(home, doc("a", 100), doc("b", 5, channel="T"), doc("c", 4, channel="T")) == []


def test_shared_clocks(home: Home) -> None:
    add_channel(home.catalog, "S", lateness="1 s", clock="both")
    add_channel(home.catalog, "T", lateness="5 s", clock="both")
    add_channel(home.catalog, "U", clock="both")
    found = late(
        home,
        doc("a", 10),
        doc("b", 5, channel="T"),
        doc("c", 4, channel="T"),
        doc("d", 20, channel="U"),
        doc("e", 18),
        doc("f", 19),
        doc("g", 1, channel="U"),
    )
    assert found == ["c", "e"]


def test_a_clock_joined_later_knows_what_came_before(home: Home) -> None:
    add_channel(home.catalog, "S")
    take(home, doc("a", 100))
    set_channel(home.catalog, "S", lateness="1 s", clock="both")
    assert late(home, doc("b", 5)) == ["b"]


# -- rows ------------------------------------------------------------------------------------------------------


def row(id_: str | None, source: str | None = None, **columns: object) -> Event:
    return Event("T", id_, 1, row=columns, source=source)  # type: ignore[arg-type]


def test_rows_are_kept_as_cells(home: Home) -> None:
    take(home, row("1", p=1.50, q="a<b", r=None), row("2", q="x"), row("3", r=True, p=7))
    assert column(home, "content") == [None, None, None]
    assert column(home, "cells") == [["1.5", "a<b", None], [None, "x", None], ["7", None, "true"]]
    channel = home.catalog.ask(read_channels)["T"]
    assert [event_document(None, cells, channel) for cells in column(home, "cells")] == [
        "<T><p>1.5</p><q>a&lt;b</q></T>",
        "<T><q>x</q></T>",
        "<T><p>7</p><r>true</r></T>",
    ]
    assert home.catalog.ask(read_channels)["T"].schema == {"p": "double", "q": "string", "r": "boolean"}


def test_the_root_of_a_row(home: Home) -> None:
    add_channel(home.catalog, "T", kind="rows", element="reading", schema="p int")
    take(home, row("1", p=1))
    (cells,) = column(home, "cells")
    assert event_document(None, cells, home.catalog.ask(read_channels)["T"]) == "<reading><p>1</p></reading>"


def test_rows_have_the_limits_of_documents(home: Home) -> None:
    limits = Limits(max_bytes=30, max_text=20, max_names=3)
    rows = [
        row("a", p="x" * 20, q="y"),
        row("b", p="x" * 21, q="y"),
        row("c", p="ä" * 15, q="y"),
        row("d", p="z", q="z"),
    ]
    report = Intake(home, limits=limits).take(rows)
    assert (report.taken, column(home, "id")) == (2, ["a", "d"])
    assert [(problem.id, problem.condition, problem.message) for problem in report.problems] == [
        ("b", "XSCL_DOCUMENT_LIMIT", "column p: 21 characters; the limit max_text is 20"),
        ("c", "XSCL_DOCUMENT_LIMIT", "the row has 31 bytes; the limit max_bytes is 30"),
    ]
    wide = Intake(home, limits=limits).take([Event("U", "a", 1, row=dict.fromkeys("pqrs", 1))])
    assert [problem.message for problem in wide.problems] == ["4 columns; the limit max_names is 3"]


def test_names_too_long_for_a_parser(home: Home) -> None:
    name = "p" * 50_001
    report = take(home, Event("T", "1", 1, row={name: 1}), Event("U", "1", 1, row={"p" * 40_000: 1}))
    assert (report.taken, conditions(home)) == (1, ["XSCL_DOCUMENT_LIMIT"])


def test_documents_have_no_cells(home: Home) -> None:
    take(home, doc("1"), row("1", p=1))
    assert column(home, "cells") == [None, ["1"]]


def test_the_first_row_fixes_the_columns(home: Home) -> None:
    report = take(home, row("1", p=1), row("2", p="x"), row("3", p=1, q=2), row("4", p=2.5), row("5", p=2))
    assert (report.taken, report.rejected) == (2, 3)
    assert conditions(home) == ["XSCL_ROW_SCHEMA"] * 3
    assert column(home, "id") == ["1", "5"]


def test_a_first_row_that_does_not_fit_fixes_nothing(home: Home) -> None:
    assert take(home, row("1", p=float("nan")), row("2", p=1)).rejected == 1
    assert home.catalog.ask(read_channels)["T"].schema == {"p": "bigint"}


def test_ids_of_rows_without_one(home: Home) -> None:
    take(home, row(None, "f.csv:1", p=1), row(None, "f.csv:2", p=1), row(None, p=1), row(None, p=1))
    ids = column(home, "id")
    assert ids[:2] == ["f.csv:1", "f.csv:2"]
    assert len(set(ids)) == 4
    assert take(home, row(None, "f.csv:1", p=1)).duplicates == 1


def test_null_columns_are_no_content(home: Home) -> None:
    assert take(home, row("1", p=1, q=None), row("1", p=1)).duplicates == 1


def test_kinds_of_channels(home: Home) -> None:
    report = take(home, doc("1"), Event("S", "2", 1, row={"p": 1}), row("1", p=1), doc("2", channel="T"))
    assert (report.taken, report.rejected) == (2, 2)
    assert conditions(home) == ["XSCL_CHANNEL_KIND"] * 2


# -- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "condition"),
    [
        (doc(xml="<a"), "XSCL_MALFORMED_DOCUMENT"),
        (doc(xml=""), "XSCL_MALFORMED_DOCUMENT"),
        (doc(channel="a b"), "XSCL_BAD_CHANNEL_NAME"),
        (doc(channel=""), "XSCL_BAD_CHANNEL_NAME"),
        (doc(channel="a-"), "XSCL_BAD_CHANNEL_NAME"),
        (doc(channel="a" * 129), "XSCL_BAD_CHANNEL_NAME"),
        (doc(channel="xscl.answers.raw"), "XSCL_BAD_CHANNEL_NAME"),
        (doc(channel="xscl.rejected.raw"), "XSCL_BAD_CHANNEL_NAME"),
        (doc(""), "XSCL_BAD_EVENT_ID"),
        (doc("a\0b"), "XSCL_BAD_EVENT_ID"),
        (Event("S", "d", 1), "XSCL_BAD_EVENT"),
        (Event("S", "d", 1, xml="<a/>", row={"p": 1}), "XSCL_BAD_EVENT"),
        (doc(ts="yesterday"), "XSCL_BAD_EVENT_TIME"),  # type: ignore[arg-type]
        (doc(ts=float("nan")), "XSCL_BAD_EVENT_TIME"),
        (Event("T", "d", 1, row={}), "XSCL_ROW_SCHEMA"),
        (Event("T", "d", 1, row={"a b": 1}), "XSCL_ROW_SCHEMA"),
        (Event("T", "d", 1, row={"p": "\x01"}), "XSCL_MALFORMED_DOCUMENT"),
    ],
)
def test_a_refused_event_loses_nothing_else(home: Home, event: Event, condition: str) -> None:
    report = take(home, doc("before"), event, doc("after"))
    assert (report.taken, report.rejected) == (2, 1)
    assert report.problems[0].condition == condition
    (found,) = home.catalog.rows(REJECTED)
    assert (found["condition"], found["message"]) == (condition, report.problems[0].message)
    assert (found["channel"], found["id"]) == (event.channel, event.id and event.id.replace("\0", "\\x00"))
    assert column(home, "id") == ["before", "after"]


@pytest.mark.parametrize(
    ("event", "condition"),
    [(doc(1.5), "XSCL_BAD_EVENT_ID"), (doc(ts=[1]), "XSCL_BAD_EVENT_TIME")],  # type: ignore[arg-type]
)
def test_an_event_with_a_field_of_another_type_loses_nothing_else(home: Home, event: Event, condition: str) -> None:
    report = take(home, doc("before"), event, doc("after"))
    assert (report.taken, report.rejected, report.problems[0].condition) == (2, 1, condition)
    assert [r["condition"] for r in home.catalog.rows(REJECTED)] == [condition]


def test_what_readers_refused_is_counted(home: Home) -> None:
    given = Rejected("f:3", "XSCL_BAD_LINE", "no JSON", "S", "x", 5)
    report = intake(home).take([doc("a"), given, Drop("nobody", "f:4"), Register("S//[", None, "f:5")])
    assert (report.taken, report.rejected, report.dropped, report.registered) == (1, 3, 0, 0)
    found = home.catalog.rows(REJECTED)
    assert [r["condition"] for r in found] == ["XSCL_BAD_LINE", "XSCL_QUERY_NOT_FOUND", "XSCL_SYNTAX"]
    assert [r["source"] for r in found] == ["f:3", "f:4", "f:5"]
    assert (found[0]["channel"], found[0]["id"], found[0]["ts"]) == ("S", "x", 5)


def test_the_first_hundred_problems_are_kept(home: Home) -> None:
    report = take(home, *(doc(str(i), xml="<") for i in range(120)))
    assert (report.rejected, len(report.problems)) == (120, 100)
    assert len(conditions(home)) == 120


def test_strict(home: Home) -> None:
    add_channel(home.catalog, "S")
    report = Intake(home, strict=True).take([doc("a"), doc("b", channel="U"), Register("U//a", None, "f")])
    assert (report.taken, report.rejected) == (1, 2)
    assert conditions(home) == ["XSCL_UNKNOWN_CHANNEL"] * 2
    assert list(home.catalog.ask(read_channels)) == ["S"]


def test_contents_are_written_again(home: Home) -> None:
    text = "<?xml version='1.0' encoding='iso-8859-1'?><!-- c --><a k='1'><![CDATA[<]]>é</a>".encode("latin-1")
    take(home, Event("S", "d", 1, xml=text))
    assert column(home, "content") == ['<a k="1">&lt;é</a>']


def test_everything_else_of_an_event(home: Home) -> None:
    take(home, doc())
    (found,) = stored_events(home)
    assert (found["version"], found["item"], found["late"], found["membership"]) == (1, found["docid"], False, 0)
    (file,) = home.catalog.rows(INTAKE_FILES)
    assert (file["first"], file["last"], file["rows"]) == (found["docid"], found["docid"], 1)


def test_nothing_taken_writes_no_file(home: Home) -> None:
    take(home)
    take(home, doc(xml="<"))
    assert home.catalog.rows(INTAKE_FILES) == []
    assert list(home.folder("events").iterdir()) == []


def test_an_error_inside_leaves_nothing_behind(home: Home) -> None:
    def broken() -> Iterator[Event]:
        yield doc("a")
        raise OSError("the reader failed")

    with pytest.raises(OSError, match="the reader failed"):
        intake(home).take(broken())
    assert take(home, doc("a")).taken == 1


def test_the_wall_clock_is_the_default(home: Home) -> None:
    Intake(home).take([doc("a", None)])
    (ts,) = column(home, "ts")
    assert isinstance(ts, int)
    assert ts > 1_700_000_000 * S


def test_an_intake_that_fails_leaves_no_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr("xscl.intake.transaction.note_rejected", fails)
        with pytest.raises(OSError, match="disk full"):
            take(home, doc("a"))
    assert list(home.folder("events").iterdir()) == []
    assert take(home, doc("a")).taken == 1


def test_a_document_over_a_limit_is_refused_alone(home: Home) -> None:
    documents = doc("a", xml="<a><b/></a>"), doc("b", xml="<a>\n<b c=''/></a>"), doc("c", xml="<a/>")
    report = Intake(home, limits=Limits(max_nodes=2)).take(documents)
    assert (report.taken, report.rejected, column(home, "id")) == (2, 1, ["a", "c"])
    (problem,) = report.problems
    assert problem.condition == "XSCL_DOCUMENT_LIMIT"
    assert problem.message == "line 2: 3 elements, attributes and other nodes; the limit max_nodes is 2"


def test_a_document_that_grows_over_a_limit_when_written_out(home: Home) -> None:
    growing = doc("a", xml="<a b='>>>>'/>")
    assert Intake(home, limits=Limits(max_bytes=20)).take([growing]).rejected == 1
    assert Intake(home, limits=Limits(max_bytes=25)).take([growing]).taken == 1
