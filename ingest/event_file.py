"""Event files: newline-delimited JSON, one event, registration, drop, flush, heartbeat or removal a line.

    {"channel": "S", "id": "d1", "ts": 1, "xml": "<book/>"}
    {"channel": "ticks", "ts": "2026-06-01T09:30:00Z", "row": {"sym": "IBM", "price": 101.5}}
    {"register": {"name": "Q4", "text": "…"}}    {"drop": "Q4"}    {"flush": true}
    {"heartbeat": {"channel": "S", "ts": 1}}    {"retract": {"channel": "S", "id": "d1"}}

A line that cannot be taken costs that line only.  XML is not parsed here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

from xscl.base.errors import SourceError
from xscl.base.types import Event, Scalar, to_micros
from xscl.base.values import exact_number
from xscl.ingest.lines import MAX_LINE_BYTES
from xscl.ingest.plain_rows import plain_row
from xscl.ingest.records import Drop, Flush, Heartbeat, Record, Register, Rejected, Removal

_T = TypeVar("_T")

__all__ = [
    "event_of",
    "read_event_lines",
    "read_row_line",
]

_CHANNEL = re.compile(r"[^\W\d](?:[\w.-]*\w)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EVENT_KEYS = ("channel", "id", "ts", "start", "xml", "row")
_CONTROL_KEYS = ("register", "drop", "flush", "heartbeat", "retract")
_QUERY_KEYS = ("text", "name", "owner")
_BEAT_KEYS = ("channel", "ts")
_REMOVAL_KEYS = ("channel", "id")
_JSON_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    Decimal: "a number",
    type(None): "null",
}


def read_event_lines(
    lines: Iterable[bytes | str], *, source: str, first_line: int = 1, channel: str | None = None
) -> Iterator[Record]:
    """Yield the records of an event file, in its order; one for each line that is not blank.

    ``ts`` stays what the line gives: a string with a zone, an int or a Decimal of seconds.  In rows, numbers
    with a fraction or an exponent become floats, and stay Decimals where floats are not exact.  A line that
    cannot be taken becomes a ``Rejected`` with condition ``XSCL_BAD_EVENT_LINE``.

    Args:
        lines: lines with or without their ends; bytes are UTF-8, a byte order mark may open the first.
        source: the path, for ``source`` of the records.
        first_line: the number of the first line.
        channel: channel of all events; a line need not name it, and must not name another.
    """
    for number, line in enumerate(lines, start=first_line):
        where = f"{source}:{number}"
        known: dict[str, object] = {}
        try:
            text = _line_text(line, first=number == 1)
            if text:
                known = _json_object(text) if channel is None else _within(_json_object(text), channel)
                yield _record(known, where)
        except SourceError as error:
            yield _refusal(where, error, known)


def event_of(value: Mapping[str, object], *, source: str) -> Record:
    """Read a dict as the line of an event file that has its keys; what cannot be taken becomes a ``Rejected``.

    Numbers may be floats, and times datetimes with a zone.
    """
    known = {key: _as_in_line(cell) for key, cell in value.items()}
    try:
        return _record(known, source)
    except SourceError as error:
        return _refusal(source, error, known)


def _as_in_line(value: object) -> object:
    match value:
        case float():
            return Decimal(repr(value)) if math.isfinite(value) else value
        case datetime():
            return value.isoformat()
        case Mapping():
            return {key: _as_in_line(cell) for key, cell in value.items()}
    return value


def read_row_line(line: bytes | str, *, first: bool = True) -> dict[str, Scalar] | None:
    """Return the row of a line of JSON lines, a flat object; None for a blank line.

    Raises:
        SourceError: ``XSCL_BAD_EVENT_LINE``.
    """
    text = _line_text(line, first=first)
    if not text:
        return None
    plain = plain_row(text)
    return _row(_json_object(text)) if plain is None else plain


def _bad(message: str) -> SourceError:
    return SourceError("XSCL_BAD_EVENT_LINE", message)


def _line_text(line: bytes | str, *, first: bool) -> str:
    size = len(line.rstrip("\r\n") if isinstance(line, str) else line.rstrip(b"\r\n"))
    if size > MAX_LINE_BYTES:
        raise _bad(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        raise _bad(f"byte {error.start + 1} of the line is not UTF-8") from None
    return (text.removeprefix("\ufeff") if first else text).strip()


def _json_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise _bad(f"not a JSON object on one line: {error.msg} at column {error.colno}") from None
    except SourceError:
        raise
    except RecursionError:
        raise _bad("the JSON nests too deeply") from None
    except (ValueError, ArithmeticError):
        raise _bad("a number of the line has more digits than can be read") from None
    if not isinstance(value, dict):
        raise _bad(f"a line must be one JSON object, found {_kind(value)}")
    return value


def _refuse_constant(name: str) -> object:
    raise _bad(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _bad(f"key {_show(twice)} is given twice")
    return found


def _record(line: dict[str, object], where: str) -> Record:
    control = [key for key in _CONTROL_KEYS if key in line]
    if not control:
        return _event(line, where)
    key = control[0]
    _only(line, (key,), f"a line with {key}")
    if key == "register":
        return _register(line[key], where)
    if key == "drop":
        return Drop(_name(line[key], "drop"), where)
    if key == "heartbeat":
        return _heartbeat(line[key], where)
    if key == "retract":
        return _removal(line[key], where)
    if line[key] is not True:
        raise _bad(f"flush must be true, found {_show(line[key])}")
    return Flush(where)


def _within(line: dict[str, object], channel: str) -> dict[str, object]:
    """Return the line of an event with its channel; a line that is no event stays as it is."""
    if isinstance(removal := line.get("retract"), dict):
        return {**line, "retract": _within(removal, channel)}
    if any(key in line for key in _CONTROL_KEYS):
        return line
    if line.get("channel", channel) != channel:
        raise _bad(f"channel is {_show(line['channel'])}; the events given here are of channel {channel}")
    return {**line, "channel": channel}


def _register(value: object, where: str) -> Register:
    if not isinstance(value, dict):
        raise _bad(f'register must be an object {{"name": …, "text": …}}, found {_kind(value)}')
    _only(value, _QUERY_KEYS, "register")
    text = value.get("text")
    if not isinstance(text, str) or not text.strip():
        raise _bad(f"register.text must be the text of a query, found {_show(text)}")
    name = _name(value["name"], "register.name") if "name" in value else None
    owner = value.get("owner")
    if owner is not None and not isinstance(owner, str):
        raise _bad(f"register.owner must be a text, found {_show(owner)}")
    return Register(_whole(text, "register.text"), name, where, owner=owner)


def _heartbeat(value: object, where: str) -> Heartbeat:
    if not isinstance(value, dict):
        raise _bad(f'heartbeat must be an object {{"channel": …, "ts": …}}, found {_kind(value)}')
    _only(value, _BEAT_KEYS, "heartbeat")
    for key in _BEAT_KEYS:
        if key not in value:
            raise _bad(f"heartbeat.{key} is missing; a heartbeat has a channel and the time up to which all is in")
    return Heartbeat(_channel(value["channel"]), _micros(value["ts"]), where)


def _removal(value: object, where: str) -> Removal:
    if not isinstance(value, dict):
        raise _bad(f'retract must be an object {{"channel": …, "id": …}}, found {_kind(value)}')
    _only(value, _REMOVAL_KEYS, "retract")
    for key in _REMOVAL_KEYS:
        if key not in value:
            raise _bad(f"retract.{key} is missing; a removal has the channel and the id of an event")
    return Removal(_channel(value["channel"]), (_id(value["id"]),), where)


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _bad(f"{field} must be the name of a query, found {_show(value)}")
    return _whole(value, field)


def _event(line: dict[str, object], where: str) -> Event:
    _only(line, _EVENT_KEYS, "an event", also=_CONTROL_KEYS)
    if "channel" not in line:
        raise _bad("channel is missing; an event needs the name of its channel")
    channel = _channel(line["channel"])
    id = _id(line["id"]) if "id" in line else None
    ts = _time(line["ts"]) if "ts" in line else None
    start = _time(line["start"], "start") if "start" in line else None
    if ("xml" in line) == ("row" in line):
        raise _bad("an event has exactly one of xml (a string) and row (an object)")
    if "row" in line:
        return Event(channel, id, ts, row=_row(line["row"]), source=where, start=start)
    xml = line["xml"]
    if not isinstance(xml, str):
        raise _bad(f"xml must be a string, found {_kind(xml)}")
    return Event(channel, id, ts, xml=_whole(xml, "xml"), source=where, start=start)


def _channel(value: object) -> str:
    if not isinstance(value, str) or not _CHANNEL.fullmatch(value):
        raise _bad(
            "channel must be a name: a letter or _, then letters, digits, _ . -, not ending in - or ."
            f"; found {_show(value)}"
        )
    return value


def _id(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise _bad(f"id must be a string that is not empty or an integer, found {_show(value)}")
    if "\0" in value:
        raise _bad("id must not hold the character NUL")
    return _whole(value, "id")


def _time(value: object, key: str = "ts") -> int | Decimal | str:
    expected = f"{key} must be ISO 8601 with a zone or seconds since the epoch"
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
        raise _bad(f"{expected}, found {_show(value)}")
    try:
        to_micros(value)
    except (ValueError, ArithmeticError) as error:
        raise _bad(f"{expected}: {_cut(str(error))}") from None
    return value


def _row(value: object) -> dict[str, Scalar]:
    if not isinstance(value, dict):
        raise _bad(f"row must be an object of scalars, found {_kind(value)}")
    return {_whole(column, "row"): _scalar(column, cell) for column, cell in value.items()}


def _scalar(column: str, value: object) -> Scalar:
    field = f"row.{_cut(column)}"
    if isinstance(value, Decimal):
        return exact_number(str(value))
    if isinstance(value, str):
        return _whole(value, field)
    if value is None or isinstance(value, (bool, int)):
        return value
    raise _bad(f"{field} must be a string, number, boolean or null, found {_kind(value)}")


def _whole(text: str, field: str) -> str:
    """Return ``text``, and refuse one that cannot be stored: JSON can write half a surrogate pair, UTF-8 cannot."""
    if _SURROGATE.search(text):
        raise _bad(f"{_show(field)[1:-1]} holds half a surrogate pair (\\ud800 to \\udfff)")
    return text


def _only(found: dict[str, object], known: tuple[str, ...], where: str, *, also: tuple[str, ...] = ()) -> None:
    unknown = [key for key in found if key not in known]
    if unknown:
        others = f" (or alone on its line: {', '.join(also)})" if also else ""
        raise _bad(f"unknown key {_show(unknown[0])} in {where}; known: {', '.join(known)}{others}")


def _refusal(where: str, error: SourceError, line: dict[str, object]) -> Rejected:
    return Rejected(
        where,
        error.condition,
        error.message,
        channel=_readable(_channel, line.get("channel")),
        id=_readable(_id, line.get("id")),
        ts=_readable(_micros, line.get("ts")),
    )


def _readable(read: Callable[[object], _T], value: object) -> _T | None:
    try:
        return read(value)
    except SourceError:
        return None


def _micros(value: object) -> int:
    return to_micros(_time(value))


def _kind(value: object) -> str:
    return _JSON_NAMES.get(type(value), type(value).__name__)


def _show(value: object) -> str:
    """Return a value in a message: scalars about as JSON writes them, cut; others by kind."""
    if isinstance(value, (str, bool)) or value is None:
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value) if isinstance(value, (int, Decimal)) else _kind(value)
    return _cut(text).encode("utf-8", "backslashreplace").decode()


def _cut(text: str, size: int = 80) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
