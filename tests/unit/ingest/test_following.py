"""Directories and event files that grow, with clocks of our own."""

import gzip
import os
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.types import Event
from xscl.ingest.following import PATIENCE, FilePosition, Follower, Signature, source_name, unchanged_s
from xscl.ingest.reading import Reading
from xscl.ingest.records import Flush, Position, Register, Rejected

EVERY = 5.0


class Home:
    """A folder, a clock, and what is kept of it."""

    def __init__(self, folder):
        self.folder = folder
        self.time = 1_000_000.0
        self.kept = {}
        self.begin()

    def begin(self, **options):
        """Another process goes on with what was kept."""
        self.follower = Follower(
            [self.folder],
            Reading(**options),
            self.kept,
            every_s=EVERY,
            clock=lambda: self.time - 900_000,
            now=lambda: self.time,
        )

    def write(self, name, data, mode="wb"):
        with (self.folder / name).open(mode) as file:
            file.write(data)
        os.utime(self.folder / name, (self.time, self.time))

    def records(self):
        return list(self.follower.look())

    def look(self, wait=EVERY):
        """What a look gives after a while: contents and refusals."""
        self.time += wait
        found = []
        for record in self.records():
            if isinstance(record, Position):
                self.kept[record.source] = record.position
            elif isinstance(record, Rejected):
                found.append(record.condition)
            elif isinstance(record, Event):
                content = record.id or record.xml.decode()
                found.append((content, os.path.relpath(record.source, self.folder)))
            else:
                found.append(type(record).__name__)
        return found


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def line(id_):
    return b'{"channel": "S", "id": "%s", "xml": "<a/>"}\n' % id_.encode()


def test_files_that_an_option_does_not_go_with_are_taken_later_without_it(home):
    home.begin(split="//a")
    home.write("e.ndjson", line("d1"))
    home.write("r.csv", b"a,b\n1,2\n")
    home.write("x.xml", b"<x><a>1</a></x>")
    assert home.look() == ["XSCL_BAD_OPTION", "XSCL_BAD_OPTION", ("<a>1</a>", "x.xml:1")]
    assert home.look() == home.look() == []
    home.begin()
    assert home.look() == [("d1", "e.ndjson:1"), "RowTable"]
    assert home.look() == []


def test_documents_are_taken_once_they_are_quiet(home):
    home.write("a.xml", b"<a>")
    assert home.look(1) == []
    home.write("a.xml", b"<a>1</a>")
    assert home.look(1) == []
    assert home.look(4) == [("<a>1</a>", "a.xml")]
    assert home.look() == home.look() == []
    home.write("a.xml", b"<a>2</a>")
    home.write("b.xml", b"<b/>")
    assert home.look() == [("<a>2</a>", "a.xml"), ("<b/>", "b.xml")]


def test_what_was_there_long_before_is_taken_at_once(home):
    home.write("a.xml", b"<a/>")
    home.write("b.xml", b"<b>")
    home.time += 3600
    assert home.look(0) == [("<a/>", "a.xml"), "XSCL_MALFORMED_DOCUMENT"]


def test_half_written_documents_are_tried_again_when_they_change(home):
    home.write("a.xml", b"<a>")
    home.write("b.xml.gz", gzip.compress(b"<b/>")[:-3])
    home.write("c.xml", b"")
    assert home.look() == home.look() == []
    for name, data in (("a.xml", b"<a>1</a>"), ("b.xml.gz", gzip.compress(b"<b/>"))):
        home.write(name, data)
    assert home.look() == [("<a>1</a>", "a.xml"), ("<b/>", "b.xml.gz")]
    found = [home.look() for _ in range(PATIENCE)]
    assert [refused for refused in found if refused] == [["XSCL_UNKNOWN_FORMAT"]]
    home.write("c.xml", b"<c/>")
    assert home.look() == [("<c/>", "c.xml")]


def test_feeds_that_are_not_well_formed_may_be_half_written(home):
    feed = b"<rss><channel><title>T</title><item><guid>g</guid></item>"
    home.write("f.xml", feed)
    assert home.look() == []
    home.write("f.xml", feed + b"</channel></rss>")
    assert home.look() == ["FeedDocument"]
    home.write("g.xml", feed)
    assert [taken for _ in range(PATIENCE + 1) for taken in home.look()] == ["FeedDocument"]


def test_a_json_feed_is_a_document(home):
    home.write("f.json", b'{"version": "https://jsonfeed.org/version/1.1",\n"title": "T", "items": [{"id": "1"}]}')
    assert home.look(1) == []
    assert home.look() == ["FeedDocument"]


def test_other_refusals_do_not_wait(home):
    home.write("a.xml", b"<a>" * 300 + b"</a>" * 300)
    assert home.look() == ["XSCL_DOCUMENT_LIMIT"]
    assert home.look(1000) == []


def test_times_in_the_future_and_clocks_that_differ(home):
    home.write("a.xml", b"<a/>")
    os.utime(home.folder / "a.xml", (home.time + 1e6, home.time + 1e6))
    assert home.look(1) == home.look(4.9) == []
    assert home.look(0.1) == [("<a/>", "a.xml")]


def test_event_files_are_read_from_where_they_were_left(home):
    home.write("e.ndjson", line("1") + line("2")[:20])
    assert home.look(0) == [("1", "e.ndjson:1")]
    assert home.look(0) == []
    home.write("e.ndjson", line("2")[20:] + line("3"), "ab")
    home.begin()
    assert home.look(0) == [("2", "e.ndjson:2"), ("3", "e.ndjson:3")]
    home.begin()
    assert home.look() == []


def test_a_last_line_without_end_is_taken_when_it_stays_so(home):
    home.write("e.ndjson", line("1") + line("2").rstrip())
    assert home.look() == [("1", "e.ndjson:1")]
    found = [taken for _ in range(PATIENCE) for taken in home.look()]
    assert found == [("2", "e.ndjson:2")]
    assert home.look(1000) == []


def test_truncated_and_replaced_files_are_read_from_their_start(home):
    home.write("e.ndjson", line("1") + line("2"))
    home.look()
    home.write("e.ndjson", line("3"))
    assert home.look() == [("3", "e.ndjson#2:1")]
    home.write("e.ndjson", line("4") + line("5"))  # longer than what was read
    home.begin()
    assert home.look() == [("4", "e.ndjson#3:1"), ("5", "e.ndjson#3:2")]


def test_rotated_files_are_read_on_under_their_new_names(home):
    home.write("e.ndjson", line("1"))
    home.look()
    home.write("e.ndjson", line("2"), "ab")
    (home.folder / "e.ndjson").rename(home.folder / "e.ndjson.1")
    home.write("e.ndjson", line("3"))
    home.begin()
    assert home.look() == [("2", "e.ndjson.1:2"), ("3", "e.ndjson#2:1")]
    (home.folder / "e.ndjson.1").rename(home.folder / "e.ndjson.2")
    (home.folder / "e.ndjson").rename(home.folder / "e.ndjson.1")
    assert home.look() == []


def test_positions_stand_behind_what_they_tell(home):
    register = b'{"register": {"name": "Q", "text": "t"}}\n'
    home.write("e.ndjson", line("1") + register + b'{"flush": true}\nx\n' + line("2"))
    kinds = []
    offsets = []
    for record in home.records():
        kinds.append(type(record))
        position = record if isinstance(record, Position) else getattr(record, "position", None)
        if position is not None:
            offsets.append((type(record), FilePosition.of(position.position).lines))
    assert kinds == [Event, Position, Register, Flush, Rejected, Event, Position]
    assert offsets == [(Position, 1), (Register, 2), (Flush, 3), (Position, 5)]


def test_archives_and_hidden_files(home):
    home.write(".x.xml", b"<x/>")
    (home.folder / "d").mkdir()
    home.write("d/a.xml", b"<a/>")
    assert home.look() == [("<a/>", "d/a.xml")]


def test_files_that_go_or_cannot_be_read(home, tmp_path):
    missing = tmp_path / "missing.xml"
    follower = Follower([missing], Reading(), {}, every_s=EVERY, clock=lambda: 0, now=lambda: 2e9)
    (record,) = follower.look()
    assert record.condition == "XSCL_SOURCE_UNREADABLE"
    assert list(follower.look()) == []
    missing.write_bytes(b"<a/>")
    os.utime(missing, (1e9, 1e9))
    assert [type(record) for record in follower.look()] == [Event, Position]
    missing.unlink()
    assert list(follower.look()) == []


def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    follower = Follower([tmp_path / "pipe"], Reading(), {}, every_s=EVERY)
    (record,) = follower.look()
    assert record.condition == "XSCL_SOURCE_UNREADABLE" and "followed" in record.message
    assert list(follower.look()) == []


def test_a_file_that_changes_while_it_is_read_is_read_again(home, monkeypatch):
    home.write("a.xml", b"<a>1</a>")
    home.time += EVERY
    records = home.follower.look()
    assert isinstance(next(records), Event)
    home.write("a.xml", b"<a>2</a>")
    assert list(records) == []
    assert home.look() == [("<a>2</a>", "a.xml")]


def test_names_of_positions():
    assert source_name("x") == str(Path.cwd() / "x") == source_name(Path("./x"))
    signature = Signature(1, 2, "3:4")
    position = FilePosition(signature, 5, 6, 7, "8", 9)
    assert FilePosition.of(position.text()) == position
    assert unchanged_s(Signature(0, 10**9, ""), 5, clock_s=8, now_s=3) == 3
    assert unchanged_s(Signature(0, 10**9, ""), 5, clock_s=6, now_s=3) == 2


STEPS = st.lists(
    st.sampled_from(["append", "half", "look", "look", "restart", "crash", "rotate"]), min_size=1, max_size=30
)


@settings(deadline=None, max_examples=examples(60))
@given(STEPS)
def test_nothing_is_lost_or_taken_twice(tmp_path_factory, steps):
    home = Home(tmp_path_factory.mktemp("grows"))
    file = home.folder / "e.ndjson"
    written, taken, rest, rotated = 0, [], b"", 0

    def look():
        taken.extend(found[0] for found in home.look(0))

    for step in steps:
        if step in ("append", "half"):
            written += 1
            whole = rest + line(str(written))
            cut = len(whole) - (10 if step == "half" else 0)
            home.write("e.ndjson", whole[:cut], "ab")
            rest = whole[cut:]
        elif step == "look":
            look()
        elif step == "restart":
            home.begin()
        elif step == "crash":
            # Read, but not committed.
            home.records()
            home.begin()
        elif step == "rotate" and file.exists() and not rest:
            rotated += 1
            file.rename(home.folder / f"e.ndjson.{rotated}")
    if rest:
        home.write("e.ndjson", rest, "ab")
    look()
    assert sorted(taken, key=int) == [str(number) for number in range(1, written + 1)]
