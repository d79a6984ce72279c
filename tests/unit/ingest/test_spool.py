"""Feeds polled into a folder, from hosts that we play ourselves."""

import json

import pytest

from xscl.base.errors import SourceError
from xscl.ingest.fetch import Fetched
from xscl.ingest.fetch_policy import DEFAULT_INTERVAL, Answer
from xscl.ingest.records import FeedDocument, Rejected
from xscl.ingest.spool import Wanted, fetch_all, poll_spool, read_spooled

FEED = b"<rss><channel><title>T</title><link>http://a.example/</link><ttl>120</ttl><item><guid>g</guid></item></channel></rss>"
A, B = "http://a.example/f", "http://b.example/f"
MINUTE = 60_000_000


def answer(url, status, body=None, problem=None, **headers):
    return Fetched(Answer(status, headers), url, body, problem, 1, len(body or b""))


class Hosts:
    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def __call__(self, wanted):
        self.asked += wanted
        return [self.answers[one.url.split("/")[2][0]](one) for one in wanted]


def poll(folder, hosts, minutes, urls=(A, B)):
    before = len(hosts.asked)
    written = poll_spool(folder, urls, hosts, now=10**15 + minutes * MINUTE, chance=lambda: 0.0)
    return written, [one.url for one in hosts.asked[before:]]


def spooled(folder):
    return list(read_spooled(sorted(str(file) for file in folder.glob("*.fetched")), "news"))


def test_feeds_are_asked_when_they_are_due(tmp_path):
    folder = tmp_path / "spool"
    refused = SourceError("XSCL_HTTP_STATUS", "b answered 503")
    hosts = Hosts(
        a=lambda one: answer(A, 304) if one.etag else answer(A, 200, FEED, etag='"1"'),
        b=lambda one: answer(B, 503, problem=refused),
    )
    assert poll(folder, hosts, 0) == (2, [A, B])
    first, second = sorted(spooled(folder), key=lambda record: record.source)
    assert isinstance(first, FeedDocument) and (first.source, first.channel) == (A, "news")
    assert isinstance(second, Rejected) and (second.source, second.condition) == (B, "XSCL_HTTP_STATUS")
    assert poll(folder, hosts, 1) == (0, [])
    assert poll(folder, hosts, DEFAULT_INTERVAL // MINUTE + 1) == (1, [B])
    # The feed asks for two hours; then it is asked by what it sent, and nothing is new.
    assert poll(folder, hosts, 121, urls=(A,)) == (0, [A])
    assert hosts.asked[-1] == Wanted(A, '"1"', None)
    assert len(spooled(folder)) == 3


def test_who_is_gone_is_not_asked_again(tmp_path):
    gone = SourceError("XSCL_HTTP_STATUS", "gone")
    hosts = Hosts(a=lambda one: answer(A, 410, problem=gone))
    assert poll(tmp_path, hosts, 0, urls=(A, A)) == (1, [A])
    assert poll(tmp_path, hosts, 10**6, urls=(A,)) == (0, [])


def test_what_is_no_feed_is_said_and_asked_later(tmp_path):
    hosts = Hosts(a=lambda one: answer(A, 200, b"<html>no</html>", etag='"1"'))
    assert poll(tmp_path, hosts, 0, urls=(A,)) == (1, [A])
    (record,) = spooled(tmp_path)
    assert isinstance(record, Rejected) and record.source == A
    assert poll(tmp_path, hosts, 30, urls=(A,)) == (0, [])
    poll(tmp_path, hosts, 10**4, urls=(A,))
    assert hosts.asked[-1].etag is None


def test_addresses_are_checked_first():
    wanted = [Wanted("file:///etc/passwd"), Wanted("http://169.254.169.254/f"), Wanted("no address")]
    for one, fetched in zip(wanted, fetch_all(wanted, agent="test"), strict=True):
        assert (fetched.url, fetched.body, fetched.requests) == (one.url, None, 0)
        assert fetched.problem is not None


def test_a_poll_that_is_killed_is_made_again(tmp_path, monkeypatch):
    hosts = Hosts(a=lambda one: answer(A, 200, FEED))
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", lambda *given, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            poll(tmp_path, hosts, 0, urls=(A,))
    assert poll(tmp_path, hosts, 1, urls=(A,)) == (1, [A])


def test_files_that_are_no_answers(tmp_path):
    (tmp_path / "x.fetched").write_bytes(b"<a/>")
    (record,) = spooled(tmp_path)
    assert record.condition == "XSCL_SOURCE_UNREADABLE"
