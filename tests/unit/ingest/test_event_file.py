"""Event files: what each kind of line becomes, and what a line that cannot be taken says."""

import io
import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.types import Event, to_micros
from xscl.ingest import event_file
from xscl.ingest.event_file import read_event_lines
from xscl.ingest.lines import bounded_lines
from xscl.ingest.records import Drop, Flush, Register, Rejected


def read(*lines):
    return list(read_event_lines(lines, source="f.ndjson"))


def check_rejected(line, *words):
    good = '{"channel": "S", "xml": "<a/>"}'
    before, refused, after = read(good, line, good)
    assert isinstance(before, Event) and isinstance(after, Event)
    assert isinstance(refused, Rejected)
    assert (refused.source, refused.condition) == ("f.ndjson:2", "XSCL_BAD_EVENT_LINE")
    for word in words:
        assert word in refused.message
    refused.message.encode("utf-8")
    return refused


def test_xml_event():
    assert read('{"channel": "S", "id": "d1", "ts": 1, "xml": "<book/>"}') == [
        Event("S", "d1", 1, xml="<book/>", source="f.ndjson:1")
    ]


def test_row_event_keeps_integers_and_makes_floats():
    line = '{"channel": "t.x-1", "row": {"s": "a", "i": 12345678901234567890, "f": 1.50, "b": true, "n": null}}'
    (event,) = read(line)
    assert event.row == {"s": "a", "i": 12345678901234567890, "f": 1.5, "b": True, "n": None}
    assert [type(value) for value in event.row.values()] == [str, int, float, bool, type(None)]
    assert event.id is None and event.ts is None and event.xml is None


def test_control_lines_stay_in_order():
    assert read(
        '{"register": {"name": "Q4", "text": "S//a"}}',
        "",
        '{"register": {"text": "S//b"}}',
        '{"drop": "Q4"}',
        '{"flush": true}',
    ) == [
        Register("S//a", "Q4", "f.ndjson:1"),
        Register("S//b", None, "f.ndjson:3"),
        Drop("Q4", "f.ndjson:4"),
        Flush("f.ndjson:5"),
    ]


def test_blank_lines_count_but_give_nothing():
    (event,) = read(b"\n", b"  \t\r\n", b'{"channel": "S", "xml": "<a/>"}\r\n')
    assert event.source == "f.ndjson:3"


def test_byte_order_mark_opens_the_first_line_only():
    line = '\ufeff{"channel": "S", "xml": "<a/>"}'
    assert isinstance(read(line.encode())[0], Event) and isinstance(read(line)[0], Event)
    assert isinstance(read("{}", line)[1], Rejected)


def test_integer_ids_become_text():
    assert read('{"channel": "S", "id": 7, "xml": "<a/>"}')[0].id == "7"


def test_no_digit_of_a_time_is_lost():
    (event,) = read('{"channel": "S", "ts": 1748770200.0000015, "xml": "<a/>"}')
    assert event.ts == Decimal("1748770200.0000015")
    assert to_micros(event.ts) == 1748770200000002


@pytest.mark.parametrize("ts", ['"2026-06-01T09:30:00Z"', '"2026-06-01T11:30:00.5+02:00"', "0", "-1.5", "1e3"])
def test_times(ts):
    (event,) = read(f'{{"channel": "S", "ts": {ts}, "xml": "<a/>"}}')
    assert isinstance(event, Event) and to_micros(event.ts) is not None


@pytest.mark.parametrize(
    "ts",
    ['"2026-06-01T09:30:00"', '"2026-06-01"', '"yesterday"', "true", "null", "[1]", "1e99", "1e999999", '""'],
)
def test_what_is_no_time(ts):
    refused = check_rejected(f'{{"channel": "S", "id": "d", "ts": {ts}, "xml": "<a/>"}}', "ts must be ISO 8601")
    assert (refused.channel, refused.id, refused.ts) == ("S", "d", None)


@pytest.mark.parametrize("name", ["S", "_a", "größe", "items.raw", "a-b", "a1"])
def test_channel_names(name):
    assert read(json.dumps({"channel": name, "xml": "<a/>"}))[0].channel == name


@pytest.mark.parametrize("name", ["", "1a", "a-", "a.", "-a", "a b", "a/b", 5, None, ["S"], "a\n"])
def test_what_is_no_channel_name(name):
    check_rejected(json.dumps({"channel": name, "xml": "<a/>"}), "channel must be a name")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"xml": "<a/>"}', ["channel is missing"]),
        ('{"channel": "S"}', ["exactly one of xml", "row"]),
        ('{"channel": "S", "xml": "<a/>", "row": {}}', ["exactly one of xml", "row"]),
        ('{"channel": "S", "xml": 1}', ["xml must be a string, found a number"]),
        ('{"channel": "S", "row": [1]}', ["row must be an object of scalars, found an array"]),
        ('{"channel": "S", "row": {"a": {"b": 1}}}', ["row.a", "found an object"]),
        ('{"channel": "S", "row": {"a": [1]}}', ["row.a", "found an array"]),
        ('{"channel": "S", "row": {"a": NaN}}', ["NaN is not a JSON number"]),
        ('{"channel": "S", "ts": Infinity, "xml": "<a/>"}', ["Infinity is not a JSON number"]),
        ('{"channel": "S", "ts": -Infinity, "xml": "<a/>"}', ["-Infinity is not a JSON number"]),
        ('{"channel": "S", "id": "", "xml": "<a/>"}', ["id must be a string that is not empty"]),
        ('{"channel": "S", "id": 1.5, "xml": "<a/>"}', ["id must be", "1.5"]),
        ('{"channel": "S", "id": true, "xml": "<a/>"}', ["id must be", "true"]),
        ('{"channel": "S", "id": null, "xml": "<a/>"}', ["id must be", "null"]),
        ('{"channel": "S", "id": "a\\u0000b", "xml": "<a/>"}', ["id", "NUL"]),
        ('{"channel": "S", "id": "\\ud800", "xml": "<a/>"}', ["id", "surrogate"]),
        ('{"channel": "S", "xml": "<a>\\ud800</a>"}', ["xml", "surrogate"]),
        ('{"channel": "S", "row": {"a": "\\udc00"}}', ["row.a", "surrogate"]),
        ('{"channel": "S", "row": {"\\udc00": 1}}', ["row", "surrogate"]),
        ('{"channel": "S", "time": 1, "xml": "<a/>"}', ['"time"', "channel, id, ts, start, xml, row", "register"]),
        ('{"channel": "S", "channel": "T", "xml": "<a/>"}', ['"channel" is given twice']),
        ('{"channel": "S", "row": {"a": 1, "a": 2}}', ['"a" is given twice']),
        ('{"register": "S//a"}', ["register must be an object", "found a string"]),
        ('{"register": {"name": "Q"}}', ["register.text"]),
        ('{"register": {"text": "  "}}', ["register.text"]),
        ('{"register": {"text": "a", "name": ""}}', ["register.name"]),
        ('{"register": {"text": "a", "window": 1}}', ['"window"', "text, name"]),
        ('{"register": {"text": "a"}, "flush": true}', ['"flush"', "register"]),
        ('{"drop": 4}', ["drop must be the name of a query, found 4"]),
        ('{"drop": "\\ud800"}', ["drop", "surrogate"]),
        ('{"flush": 1}', ["flush must be true"]),
        ('{"flush": false}', ["flush must be true"]),
        ("[1]", ["one JSON object", "an array"]),
        ('"text"', ["one JSON object", "a string"]),
        ('{"channel": "S",', ["not a JSON object on one line", "column"]),
        ("<a/>", ["not a JSON object on one line"]),
        (b'{"channel": "S", "xml": "\xff"}', ["byte 26 of the line is not UTF-8"]),
        ('{"a":' * 100_000, ["nests too deeply"]),
        ('{"channel": "S", "id": ' + "9" * 5000 + ', "xml": "<a/>"}', ["more digits"]),
        ('{"channel": "S", "ts": 1e99999999999999999999, "xml": "<a/>"}', ["more digits"]),
        ('{"channel": "S", "xml": "<a/>", "' + "k" * 500 + '": 1}', ["…"]),
    ],
)
def test_rejected_lines(line, words):
    assert len(check_rejected(line, *words).message) < 300


def test_a_rejection_tells_what_could_be_read():
    refused = check_rejected('{"channel": "S", "id": 5, "ts": 1.5, "xml": 1}')
    assert (refused.channel, refused.id, refused.ts) == ("S", "5", 1_500_000)
    refused = check_rejected('{"channel": "1", "id": "", "ts": 2, "xml": "<a/>"}')
    assert (refused.channel, refused.id, refused.ts) == (None, None, 2_000_000)


def test_overlong_lines_are_rejected(monkeypatch):
    monkeypatch.setattr(event_file, "MAX_LINE_BYTES", 40)
    fits = '{"channel": "S", "xml": "<a/>"}'.ljust(40)
    check_rejected(fits + " ", "longer than 40 bytes")
    check_rejected(fits.encode() + b" \n", "longer than 40 bytes")
    assert [type(record) for record in read(fits + "\r\n", fits.encode() + b"\n")] == [Event, Event]


def test_overlong_lines_are_not_held():
    asked = []

    class Stream(io.BytesIO):
        def readline(self, size=-1, /):
            asked.append(size)
            return super().readline(size)

    lines = list(bounded_lines(Stream(b"a" * 10 + b"\n" + b"b" * 5_000_000 + b"\nc\r\n" + b"d" * 5_000_000), limit=10))
    assert lines == [b"a" * 10 + b"\n", b"b" * 12, b"c\r\n", b"d" * 12]
    assert max(asked) <= 1 << 20 and min(asked) > 0


@given(st.binary().map(lambda data: data.split(b"\n")))
def test_any_bytes_are_read(lines):
    records = list(read_event_lines(lines, source="f"))
    assert len(records) <= len(lines)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_KEYS = st.sampled_from(["channel", "id", "ts", "xml", "row", "register", "drop", "flush", "other"])


@settings(deadline=None)
@given(st.dictionaries(_KEYS, _JSON | st.just("S") | st.just("<a/>") | st.just({"text": "q"})))
def test_any_object_is_read(line):
    (record,) = read_event_lines([json.dumps(line)], source="f")
    if isinstance(record, Rejected):
        assert record.condition == "XSCL_BAD_EVENT_LINE"
        record.message.encode("utf-8")
    elif isinstance(record, Event):
        assert (record.xml is None) != (record.row is None)
        assert record.id is None or record.id
