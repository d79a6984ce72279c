"""Taking in tables of rows: as single events would be, but for how ids are kept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from next_places import places_of_next
from stored_events import stored_events

from xscl.answers.channel_listing import channel_rows
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.errors import CatalogError
from xscl.base.types import Event
from xscl.catalog.event_counts import channel_counts, event_count, nth_event
from xscl.catalog.tables import CHANNELS, EVENT_IDS, INTAKE_FILES, LATE, REJECTED, ROW_RANGES, SOURCES
from xscl.ingest.records import Position, RowOptions, RowTable
from xscl.intake import row_columns
from xscl.intake import rows as row_intake
from xscl.intake.intake import Intake, IntakeReport
from xscl.intake.row_columns import cell_lists
from xscl.registry.channels import add_channel, set_channel
from xscl.store.home import Home, init_home

S = 1_000_000


def take(home: Home, *records: Event | RowTable, now: int = 1_000 * S, strict: bool = False) -> IntakeReport:
    return Intake(home, now=lambda: now, strict=strict).take(records)


def readings(*values: float | None, channel: str = "R", source: str = "r.csv", **more: object) -> RowTable:
    return RowTable(channel, pa.table({"v": pa.array(values, pa.float64())}), source, **more)  # type: ignore[arg-type]


def conditions(home: Home) -> list[tuple[object, object]]:
    return [(row["source"], row["condition"]) for row in home.catalog.rows(REJECTED)]


# -- as single events ------------------------------------------------------------------------------------------

_TYPES = {
    "string": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)),
    "double": (pa.float64(), st.floats(allow_nan=False) | st.integers(0, 3).map(float)),
    "boolean": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(20, 4), st.decimals(-(10**9), 10**9, places=4)),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "date": (pa.date32(), st.dates()),
}
_IDS = st.none() | st.sampled_from(["a", "b", "c", "7", "", "x:3", "n\0l"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, object]], list[int]]:
    """A schema, rows with their ids and times, and where tables are cut."""
    kinds = draw(st.lists(st.sampled_from(sorted(_TYPES)), min_size=1, max_size=3))
    schema = {f"c{place}": kind for place, kind in enumerate(kinds)}
    one = st.fixed_dictionaries(
        {
            **{name: st.none() | _TYPES[kind][1] for name, kind in schema.items()},
            "id": _IDS.filter(bool) if draw(st.booleans()) else _IDS,
            "ts": st.none() | st.integers(0, 20).map(lambda s: s / 2),
        }
    )
    rows = draw(st.lists(one, max_size=8))
    repeated = draw(st.lists(st.sampled_from(rows), max_size=3)) if rows else []
    cuts = draw(st.lists(st.integers(0, len(rows) + len(repeated)), max_size=2).map(sorted))
    return schema, rows + repeated, cuts


def test_an_id_again_with_what_no_document_can_hold(tmp_path: Path) -> None:
    texts, conditions = ["a", "a\1", "b"], []
    for name in ("table", "rows"):
        home = init_home(tmp_path / name)
        add_channel(home.catalog, "R", kind="rows", schema="c string")
        table = pa.table({"c": texts, "id": ["1"] * 3})
        events = [Event("R", "1", row={"c": text}, source="t") for text in texts]
        options = RowOptions(columns=("c",), id="id")
        take(home, *([RowTable("R", table, "t", options=options)] if name == "table" else events))
        conditions.append(sorted(str(row["condition"]) for row in home.catalog.rows(REJECTED)))
        home.catalog.close()
    assert conditions == [["XSCL_EVENT_ID_REUSED", "XSCL_MALFORMED_DOCUMENT"]] * 2


def parts(rows: list[dict[str, object]], cuts: list[int]) -> Iterator[list[dict[str, object]]]:
    for first, last in itertools.pairwise([0, *cuts, len(rows)]):
        yield rows[first:last]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(24))
@given(tables(), st.sampled_from([None, "1 s"]))
def test_a_table_is_its_rows(
    tmp_path_factory: pytest.TempPathFactory,
    given_rows: tuple[dict[str, str], list[dict[str, object]], list[int]],
    lateness: str | None,
) -> None:
    schema, rows, cuts = given_rows
    homes = [init_home(tmp_path_factory.mktemp(name)) for name in ("table", "rows")]
    text = ", ".join(f"{name} {kind}" for name, kind in schema.items())
    for home in homes:
        add_channel(home.catalog, "R", kind="rows", schema=text, lateness=lateness)
    whole, single = homes
    reports = []
    for part in parts(rows, cuts):
        columns = {name: pa.array([row[name] for row in part], _TYPES[kind][0]) for name, kind in schema.items()}
        columns["id"] = pa.array([row["id"] for row in part], pa.string())
        columns["ts"] = pa.array([row["ts"] for row in part], pa.float64())
        options = RowOptions(columns=tuple(schema), id="id", ts="ts")
        table = RowTable("R", pa.table(columns), "t", options=options)
        events = [
            Event(
                "R",
                # An id that is missing is no reason to make one.
                row["id"] or "",  # type: ignore[arg-type]
                row["ts"],  # type: ignore[arg-type]
                row={name: row[name] for name in schema},  # type: ignore[misc]
                source=f"t:{place}",
            )
            for place, row in enumerate(part, start=1)
        ]
        reports.append((take(whole, table), take(single, *events)))
    seen, expected = (
        [
            {name: row[name] for name in ("channel", "id", "version", "ts", "late", "membership", "content", "cells")}
            for row in stored_events(home)
        ]
        for home in homes
    )
    # Times of receipt depend on the places of what was refused.
    for rows_of in (seen, expected):
        for row in rows_of:
            if row["ts"] >= 1_000 * S:  # type: ignore[operator]
                row["ts"] = None
    assert seen == expected
    for mine, theirs in reports:
        assert (mine.taken, mine.duplicates, mine.late, mine.rejected) == (
            theirs.taken,
            theirs.duplicates,
            theirs.late,
            theirs.rejected,
        )
    assert sorted(conditions(whole), key=str) == sorted(conditions(single), key=str)
    assert [row["id"] for row in whole.catalog.rows(LATE)] == [row["id"] for row in single.catalog.rows(LATE)]
    for home in homes:
        home.catalog.close()


# -- ids -------------------------------------------------------------------------------------------------------


def test_rows_without_ids_have_their_source_and_number(home: Home) -> None:
    assert take(home, readings(1, 2, 3)).taken == 3
    assert [row["id"] for row in stored_events(home)] == ["r.csv:1", "r.csv:2", "r.csv:3"]
    [span] = home.catalog.rows(ROW_RANGES)
    assert (span["prefix"], span["first"], span["last"], span["docid"]) == ("r.csv:", 1, 3, 1)
    assert home.catalog.rows(EVENT_IDS) == []


def test_a_longer_file_adds_what_is_new(home: Home) -> None:
    take(home, readings(1, 2, None))
    again = take(home, readings(1, 2, None, 4, 5))
    assert (again.taken, again.duplicates) == (2, 3)
    changed = take(home, readings(1, 7, None, 4, 5, 6))
    assert (changed.taken, changed.duplicates, changed.rejected) == (1, 4, 1)
    assert conditions(home) == [("r.csv:2", "XSCL_EVENT_ID_REUSED")]
    assert [row["cells"] for row in stored_events(home)] == [["1"], ["2"], [None], ["4"], ["5"], ["6"]]


def test_a_row_that_was_refused_can_come_again(home: Home) -> None:
    add_channel(home.catalog, "R", kind="rows", schema="v double")
    assert take(home, readings(1, float("inf"), 3)).taken == 2
    assert conditions(home) == [("r.csv:2", "XSCL_ROW_SCHEMA")]
    again = take(home, readings(1, 2, 3))
    assert (again.taken, again.duplicates) == (1, 2)
    assert take(home, readings(1, 2, 3)).duplicates == 3


def test_events_and_tables_know_each_others_ids(home: Home) -> None:
    take(home, readings(1, 2))
    known = take(home, Event("R", "r.csv:2", row={"v": 2.0}), Event("R", "r.csv:1", row={"v": 5.0}))
    assert (known.taken, known.duplicates, known.rejected) == (0, 1, 1)
    assert take(home, Event("R", "r.csv:4", row={"v": 4.0})).taken == 1
    more = take(home, readings(1, 2, 3, 4))
    assert (more.taken, more.duplicates) == (1, 3)
    named = RowTable("R", pa.table({"v": [2.0, 9.0], "id": ["r.csv:2", "n"]}), "x", options=RowOptions(("v",), "id"))
    assert (take(home, named).taken, take(home, named).duplicates) == (1, 2)


def test_growing_numbers_are_a_range(home: Home) -> None:
    table = pa.table({"v": [1, 2, 3], "seq": [5, 7, 8]})
    options = RowOptions(id="seq")
    assert take(home, RowTable("R", table, "t", options=options)).taken == 3
    [span] = home.catalog.rows(ROW_RANGES)
    assert (span["prefix"], span["first"], span["last"]) == ("", 5, 8)
    assert [row["id"] for row in stored_events(home)] == ["5", "7", "8"]
    assert take(home, RowTable("R", table.slice(1), "t", options=options)).duplicates == 2
    # 6 is in the range, but nobody has it.
    assert take(home, Event("R", "6", row={"v": 1, "seq": 6})).taken == 1
    unsorted = pa.table({"v": [4, 3], "seq": [9, 8]})
    report = take(home, RowTable("R", unsorted, "t", options=options))
    assert (report.taken, report.duplicates) == (1, 1)
    assert [row["id"] for row in home.catalog.rows(EVENT_IDS)] == ["6", "9"]


def test_sources_that_are_not_named_give_ids_of_their_own(home: Home) -> None:
    for _ in range(2):
        assert take(home, readings(1, 1, named=False)).taken == 2
    assert len({row["id"] for row in stored_events(home)}) == 4


# -- columns ---------------------------------------------------------------------------------------------------


def test_types_of_a_new_channel(home: Home) -> None:
    columns = {
        "a": pa.array([None, 1], pa.int32()),
        "b": pa.array([1.5, 2]),
        "c": pa.array([Decimal("1.50"), Decimal("-0.00")]),
        "d": pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC), None]),
        "e": pa.array([date(2026, 1, 1), None]),
        "f": pa.array(["x", "y"]).dictionary_encode(),
        "g": pa.array([True, False]),
        "h": pa.nulls(2),
    }
    take(home, RowTable("R", pa.table(columns), "t"))
    [channel] = channel_rows(home.catalog)
    assert channel["schema"] == ("a bigint, b double, c decimal, d timestamp, e date, f string, g boolean, h unknown")
    assert [row["cells"] for row in stored_events(home)] == [
        [None, "1.5", "1.5", "2026-01-01T12:00:00Z", "2026-01-01", "x", "true", None],
        ["1", "2", "0", None, None, "y", "false", None],
    ]
    assert channel["events"] == 2


def test_texts_are_read_as_the_columns_say(home: Home) -> None:
    table = pa.table({"n": ["1", "2"], "x": ["1.50", "2"], "s": ["a", None]})
    take(home, RowTable("R", table, "t", texts=True))
    more = pa.table({"n": ["3", "three", "4.0"], "x": ["1e3", "0", "1"], "s": ["07", "", "b"]})
    report = take(home, RowTable("R", more, "u", texts=True))
    assert (report.taken, report.rejected) == (1, 2)
    assert [row["cells"] for row in stored_events(home)] == [["1", "1.5", "a"], ["2", "2", None], ["3", "1000", "07"]]
    assert "expected bigint, found 'three'" in str(home.catalog.rows(REJECTED)[0]["message"]).replace("string ", "")


@pytest.mark.parametrize(
    ("columns", "condition"),
    [
        ({"w": [1.0]}, "XSCL_ROW_SCHEMA"),
        ({"v": ["x"]}, "XSCL_ROW_SCHEMA"),
        ({"v": [[1.0]]}, "XSCL_COLUMN_TYPE"),
    ],
)
def test_tables_that_do_not_fit(home: Home, columns: dict[str, list[object]], condition: str) -> None:
    add_channel(home.catalog, "R", kind="rows", schema="v double")
    report = take(home, RowTable("R", pa.table({n: v * 3 for n, v in columns.items()}), "t"))
    assert (report.taken, report.rejected) == (0, 3)
    assert conditions(home) == [("t:1-3", condition)]


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        (RowOptions(ts="t"), "XSCL_NO_COLUMN"),
        (RowOptions(id="i"), "XSCL_NO_COLUMN"),
        (RowOptions(columns=("w",)), "XSCL_NO_COLUMN"),
        (RowOptions(id="v"), "XSCL_BAD_OPTION"),
        (RowOptions(ts="v", ts_zone="Mars/X"), "XSCL_BAD_OPTION"),
    ],
)
def test_options_that_do_not_fit(home: Home, options: RowOptions, condition: str) -> None:
    assert take(home, readings(1.5, options=options)).rejected == 1
    assert conditions(home) == [("r.csv:1", condition)]
    assert list(channel_rows(home.catalog)) == []


def test_channels_of_documents_and_unknown_ones(home: Home) -> None:
    add_channel(home.catalog, "D")
    assert take(home, readings(1, channel="D")).rejected == 1
    assert take(home, readings(1, channel="new"), strict=True).rejected == 1
    assert take(home, readings(1, channel="no-")).rejected == 1
    assert [condition for _, condition in conditions(home)] == [
        "XSCL_CHANNEL_KIND",
        "XSCL_UNKNOWN_CHANNEL",
        "XSCL_BAD_CHANNEL_NAME",
    ]


def test_long_texts_have_the_limits_of_documents(home: Home) -> None:
    table = pa.table({"s": ["a", "b" * (11 * 1024 * 1024), "c" * 100_000]})
    report = take(home, RowTable("R", table, "t"))
    assert (report.taken, report.rejected) == (2, 1)
    assert conditions(home) == [("t:2", "XSCL_DOCUMENT_LIMIT")]


# -- times -----------------------------------------------------------------------------------------------------


def test_lateness_is_that_of_the_rows_before(home: Home) -> None:
    add_channel(home.catalog, "R", kind="rows", lateness="2 s")
    table = pa.table({"v": [1, 2, 3, 4, 5], "at": [10.0, 8.0, 7.9, None, 9.0]})
    report = take(home, RowTable("R", table, "t", options=RowOptions(("v",), ts="at")), now=9_500_000)
    assert [row["late"] for row in stored_events(home)] == [False, False, True, False, False]
    assert (report.late, len(home.catalog.rows(LATE))) == (1, 1)
    assert [row["newest"] for row in home.catalog.rows(CHANNELS)] == [10 * S]
    again = pa.table({"v": [6], "at": [1.0]})
    assert take(home, RowTable("R", again, "u", options=RowOptions(("v",), ts="at"))).late == 1


def test_rows_with_bad_times_are_refused_alone(home: Home) -> None:
    table = pa.table({"at": ["2026-01-01T00:00:00Z", "soon", None]})
    report = take(home, RowTable("R", table, "t", texts=True, options=RowOptions(ts="at")))
    assert (report.taken, report.rejected) == (2, 1)
    assert conditions(home) == [("t:2", "XSCL_BAD_EVENT_TIME")]
    assert [row["ts"] for row in stored_events(home)] == [1_767_225_600 * S, 1_000 * S + 1]


# -- what is kept of it ----------------------------------------------------------------------------------------


def test_a_position_is_kept_with_the_rows(home: Home) -> None:
    take(home, readings(1, position=Position("db:t", "1")), readings(1, 2, position=Position("db:t", "2")))
    assert [(row["source"], row["position"]) for row in home.catalog.rows(SOURCES)] == [("db:t", "2")]


def test_a_chunk_that_fails_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **more: object) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(row_intake, "put_positions", fail)
    with pytest.raises(RuntimeError):
        take(home, readings(1, position=Position("db:t", "1")))
    assert stored_events(home) == home.catalog.rows(ROW_RANGES) == home.catalog.rows(CHANNELS) == []
    assert list(home.folder("events").iterdir()) == []


def test_large_tables_are_taken_in_chunks(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_intake, "CHUNK_ROWS", 4)
    table = readings(*range(10), numbers=np.arange(2, 12), position=Position("db:t", "10"))
    assert take(home, table).taken == 10
    assert [row["rows"] for row in home.catalog.rows(INTAKE_FILES)] == [4, 4, 2]
    assert [row["id"] for row in stored_events(home)] == [f"r.csv:{line}" for line in range(2, 12)]
    assert len(home.catalog.rows(SOURCES)) == 1
    assert take(home, readings(*range(12), numbers=np.arange(2, 14))).duplicates == 10


def test_cells_of_many_rows_become_lists_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_columns, "_PART", 3)
    for count in range(8):
        columns = [[f"{name}{row}" if row % 2 else None for row in range(count)] for name in "ab"]
        lists = cell_lists([pa.array(column, pa.string()) for column in columns], count)
        assert lists.type == EVENT_SCHEMA.field("cells").type
        assert lists.to_pylist() == [list(row) for row in zip(*columns, strict=True)]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=8),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 12),
)
@settings(deadline=None, max_examples=examples(20))
def test_events_are_counted_wherever_their_ids_are(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[bool, int]], first: int, last: int, count: int
) -> None:
    home = init_home(tmp_path_factory.mktemp("home"))
    docids, places = [], itertools.count(1)
    with home.catalog.begin() as connection:
        for number, (is_range, size) in enumerate(runs):
            next(places)  # somebody registers
            mine = list(itertools.islice(places, size))
            docids += mine
            path = f"events/{number}"
            values = {"path": path, "first": mine[0], "last": mine[-1], "rows": size}
            connection.execute(INTAKE_FILES.insert().values(**values))
            if is_range:
                connection.execute(
                    ROW_RANGES.insert().values(
                        docid=mine[0],
                        last_docid=mine[-1],
                        path=path,
                        channel="R",
                        prefix="",
                        first=mine[0],
                        last=mine[-1],
                    )
                )
                continue
            for docid in mine:
                connection.execute(
                    EVENT_IDS.insert().values(
                        channel="S", id=str(docid), base="", feed="", version=1, docid=docid, item=docid, digest=""
                    )
                )
        first, last = min(first, last), max(first, last)
        here = [docid for docid in docids if first <= docid <= last]
        assert nth_event(connection, first, last, count) == (here[count - 1] if count <= len(here) else None)
        assert sum(channel_counts(connection, first, last).values()) == len(here)
        assert event_count(connection) == len(docids) == sum(channel_counts(connection).values())
    home.catalog.close()


def test_batches_are_cut_within_ranges(home: Home) -> None:
    take(home, readings(*range(10)))
    with home.catalog.read() as connection:
        assert places_of_next(connection, 4) == (1, 4)
        assert places_of_next(connection, 10) == places_of_next(connection, 11) == (1, 10)


def test_columns_of_a_channel_with_rows_stay(home: Home) -> None:
    take(home, readings(1))
    with pytest.raises(CatalogError, match="holds events"):
        set_channel(home.catalog, "R", schema="v bigint")
    with home.catalog.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(EVENT_IDS)) == 0


def test_what_arrow_cannot_hold_costs_its_own_rows(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object, **__: object) -> None:
        raise pa.ArrowInvalid("Take operation overflowed binary array capacity")

    monkeypatch.setattr("xscl.intake.row_batch.column_cells", overflow)
    report = take(home, readings(1, 2))
    assert (report.taken, report.rejected) == (0, 2)
    assert [problem.condition for problem in report.problems] == ["XSCL_SOURCE_UNREADABLE"]


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array([10**18, 0], pa.int64()), pa.timestamp("us")),
        (pa.array([-(10**12), 0], pa.int64()), pa.timestamp("s", "America/New_York")),
        (pa.array([10**8, 0], pa.int32()), pa.date32()),
    ],
    ids=["us", "zone", "date"],
)
def test_rows_with_times_that_python_does_not_have_are_refused_alone(
    home: Home, stored: pa.Array, kind: pa.DataType
) -> None:
    times = stored.cast(kind)
    report = take(home, RowTable("R", pa.table({"at": times}), "t", options=RowOptions(ts="at")))
    assert (report.taken, report.rejected) == (1, 1)
    assert conditions(home) == [("t:1", "XSCL_BAD_EVENT_TIME")]
    assert report.problems[0].message == f"{stored[0].as_py()} as {kind} is not in the years 1 to 9999"
    started = pa.table({"begin": times, "at": pa.array([1, 1])})
    report = take(home, RowTable("Q", started, "q", options=RowOptions(("at",), ts="at", start="begin")))
    assert (report.taken, report.rejected) == (1, 1)
    report = take(home, RowTable("D", pa.table({"at": times}), "d"))
    assert (report.taken, report.rejected) == (1, 1)
    assert report.problems[0].source == "d:1" and "at" in report.problems[0].message
