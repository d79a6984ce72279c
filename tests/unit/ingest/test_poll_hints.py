from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.base.safe_xml import parse_xml
from xscl.ingest.http_times import fresh_for, http_date, retry_after
from xscl.ingest.poll_hints import NO_HINTS, Hints, hints_from_json, hints_json, read_hints

MINUTE = 60_000_000
SY = 'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"'


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("", NO_HINTS),
        ("<ttl>60</ttl>", Hints(60 * MINUTE)),
        ("<ttl> 60 </ttl><ttl>90</ttl>", Hints(90 * MINUTE)),
        ("<ttl>soon</ttl><ttl>-1</ttl><ttl>1.5</ttl><ttl>0</ttl>", NO_HINTS),
        ("<ttl>999999999</ttl>", Hints(60 * 24 * 366 * MINUTE)),
        ("<ttl>99999999999999999999</ttl>", NO_HINTS),
        (f"<sy:updatePeriod {SY}>daily</sy:updatePeriod>", Hints(24 * 60 * MINUTE)),
        (
            f"<sy:updatePeriod {SY}>Hourly</sy:updatePeriod><sy:updateFrequency {SY}>2</sy:updateFrequency>",
            Hints(30 * MINUTE),
        ),
        (f"<sy:updateFrequency {SY}>0</sy:updateFrequency><sy:updatePeriod {SY}>x</sy:updatePeriod>", NO_HINTS),
        (
            "<skipHours><hour>0</hour><hour>24</hour><hour>7</hour><hour>x</hour><hour>31</hour></skipHours>",
            Hints(None, frozenset({0, 7})),
        ),
        (
            "<skipDays><day>Saturday</day><day>sunday</day><day>Caturday</day></skipDays>",
            Hints(None, frozenset(), frozenset({5, 6})),
        ),
    ],
)
def test_what_a_feed_asks(head: str, expected: Hints) -> None:
    assert read_hints(parse_xml(f"<rss><channel>{head}<item><ttl>1</ttl></item></channel></rss>")) == expected


def test_atom_has_its_hints_in_the_root() -> None:
    period = f"<sy:updatePeriod {SY}>weekly</sy:updatePeriod>"
    root = parse_xml(f'<feed xmlns="http://www.w3.org/2005/Atom">{period}</feed>')
    assert read_hints(root) == Hints(7 * 24 * 60 * MINUTE)


HINTS = st.builds(
    Hints,
    st.none() | st.integers(1, 10**15),
    st.frozensets(st.integers(0, 23)),
    st.frozensets(st.integers(0, 6)),
)


@given(HINTS)
def test_hints_are_stored_whole(hints: Hints) -> None:
    text = hints_json(hints)
    assert hints_from_json(text) == hints
    assert (text is None) == (hints == NO_HINTS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784111777),
        ("Sun Nov  6 08:49:37 1994", 784111777),
        ("Sun, 06 Nov 1994 10:49:37 +0200", 784111777),
    ],
)
def test_dates_of_http(text: str, seconds: int) -> None:
    assert http_date(text) == seconds * 1_000_000


@given(st.text(), st.text())
def test_any_header_is_read_without_an_error(first: str, second: str) -> None:
    http_date(first)
    headers = {"cache-control": first, "expires": second, "date": first, "retry-after": second}
    for found in (fresh_for(headers, 0), retry_after(headers, 0)):
        assert found is None or found >= 0
