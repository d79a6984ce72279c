"""Which item an entry is: policies, and what makes a feed change its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.values import digest_text
from xscl.ingest import identity
from xscl.ingest.identity import EMPTY, identify, memory_json, read_memory, remember
from xscl.ingest.records import Entry


def entry(guid=None, link=None, content="text", *, published="2026-06-01", updated=None, extra=""):
    body = digest_text(str(link), content, str(published), str(updated), extra)
    return Entry(guid, link, content and digest_text(content), published, updated, digest_text(body), body, None)


class Feed:
    """A feed that is polled; keeps what a home would."""

    def __init__(self, channel="items"):
        self.memory = EMPTY
        self.channel = channel
        self.versions = {}

    def poll(self, *entries):
        """The ids of the entries that are new or changed."""
        found = identify(self.memory, entries, self.channel)
        self.memory = remember(found, entries, [True] * len(entries))
        stored = read_memory(memory_json(self.memory), self.memory.policy, self.memory.reason)
        assert stored == self.memory
        new = [n for n in range(len(entries)) if not found.known[n] and not found.repeats[n]]
        return [found.ids[n] for n in new]


def test_what_is_known_by_its_guid():
    feed = Feed()
    first = [entry("a", "http://x.org/a"), entry("b", "http://x.org/b", "other")]
    assert feed.poll(*first) == ["a", "b"]
    assert feed.poll(*first) == []
    assert feed.poll(entry("a", "http://x.org/a", "edited"), first[1]) == ["a"]
    assert feed.memory.policy == "guid" and feed.memory.reason is None


def test_feeds_without_guids_go_by_link():
    feed = Feed()
    assert feed.poll(entry(None, "http://x.org/a"), entry(None, "http://x.org/b", "2")) == [
        "http://x.org/a",
        "http://x.org/b",
    ]
    assert feed.memory.policy == "link" and "none of 2" in feed.memory.reason
    assert feed.poll(entry(None, "https://x.org/a/?utm_source=x", "edited")) == ["http://x.org/a"]


def test_places_of_one_page_are_different_links():
    feed = Feed()
    assert len(feed.poll(entry(None, "http://x.org/log#1"), entry(None, "http://x.org/log#2", "2"))) == 2
    assert feed.memory.policy == "link"


def test_feeds_with_neither_go_by_content():
    feed = Feed()
    first = feed.poll(entry(None, "http://x.org/", "1"), entry(None, "http://x.org/", "2"), entry(None, None, "3"))
    assert len(set(first)) == 3 and feed.memory.policy == "digest"
    assert feed.poll(entry(None, "http://x.org/", "2", extra="more")) == [first[1]]
    assert len(feed.poll(entry(None, "http://x.org/", "4"))) == 1


def test_guids_that_change_at_every_poll():
    feed = Feed()
    first = [entry(f"1-{n}", f"http://x.org/{n}", f"text {n}") for n in range(3)]
    ids = feed.poll(*first)
    for turn in range(2, 5):
        again = [entry(f"{turn}-{n}", f"http://x.org/{n}", f"text {n}") for n in range(3)]
        assert feed.poll(*again) == []
    assert feed.memory.policy == "link" and "guids changed" in feed.memory.reason
    assert feed.poll(entry("9", "http://x.org/1", "edited")) == [ids[1]]


def test_one_item_that_gets_another_guid_is_the_same_item():
    feed = Feed()
    others = [entry(f"{n}", f"http://x.org/{n}", f"text {n}") for n in range(5)]
    assert len(feed.poll(*others, entry("old", "http://x.org/z"))) == 6
    assert feed.poll(*others, entry("new", "http://x.org/z")) == []
    assert feed.memory.policy == "guid"
    assert feed.poll(*others, entry("new", "http://x.org/z", "edited")) == ["old"]


def test_a_new_alert_that_says_the_same_is_another_item():
    feed = Feed()
    for n in range(1, 5):
        assert feed.poll(entry(f"{n}", "http://x.org/", "all is well", published=f"2026-06-0{n}")) == [f"{n}"]
    assert feed.memory.policy == "guid"


def test_guids_that_stand_for_several_entries_are_set_aside():
    feed = Feed()
    others = [entry(f"{n}", f"http://x.org/{n}", f"text {n}") for n in range(5)]
    twins = [entry("same", "http://x.org/log", "one"), entry("same", "http://x.org/log", "two")]
    ids = feed.poll(*others, *twins)
    assert len(set(ids)) == 7 and "same" not in ids
    assert feed.memory.policy == "guid" and "stand for several" in feed.memory.reason
    assert feed.poll(*twins, *others) == []
    assert feed.poll(*others, twins[1]) == []
    assert feed.poll(entry("3", "http://x.org/3", "edited"), *twins) == ["3"]


def test_a_known_item_whose_guid_turns_out_to_be_shared_stays():
    feed = Feed()
    others = [entry(f"{n}", f"http://x.org/{n}", f"text {n}") for n in range(5)]
    one, two = entry("same", "http://x.org/log", "one"), entry("same", "http://x.org/log", "two")
    assert "same" in feed.poll(*others, one)
    assert len(feed.poll(*others, one, two)) == 1


def test_feeds_whose_guids_are_all_one():
    feed = Feed()
    ids = feed.poll(*(entry("feed", f"http://x.org/{n}", f"text {n}") for n in range(3)))
    assert ids == [f"http://x.org/{n}" for n in range(3)] and feed.memory.policy == "link"


def test_repeated_entries_are_one():
    feed = Feed()
    assert feed.poll(entry("a", "http://x.org/a"), entry("a", "http://x.org/a", extra="advert")) == ["a"]
    assert feed.memory.apart == ()


def test_atom_entries_with_one_id_and_different_dates_are_versions():
    feed = Feed()
    old, new = (entry("a", "http://x.org/a", f"v{day}", updated=f"2026-06-0{day}") for day in (1, 2))
    assert feed.poll(new, old) == ["a", "a"] and feed.memory.apart == ()


def test_another_channel_has_nothing_yet():
    feed = Feed()
    feed.poll(entry("a", "http://x.org/a"))
    feed.channel = "other"
    assert feed.poll(entry("a", "http://x.org/a")) == ["a"]
    assert feed.poll(entry("a", "http://x.org/a")) == []


def test_what_was_not_taken_is_not_remembered():
    one = entry("a", "http://x.org/a")
    memory = remember(identify(EMPTY, [one], "items"), [one], [False])
    assert memory.items == () and identify(memory, [one], "items").known == (False,)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(identity, "MAX_ITEMS", 3)
    feed = Feed()
    for n in range(10):
        feed.poll(entry(f"{n}", f"http://x.org/{n}", f"text {n}"))
    assert [item.id for item in feed.memory.items] == ["7", "8", "9"]
    feed.poll(entry("x" * 2_000_000, "http://x.org/x"))
    assert feed.memory.items == ()


ENTRIES = st.builds(
    entry,
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from([None, "http://x.org/1", "http://x.org/2", "http://[", "2"]),
    st.sampled_from(["", "one", "two"]),
    published=st.sampled_from([None, "2026-06-01", "2026-06-02"]),
    updated=st.sampled_from([None, "2026-06-01", "2026-06-02"]),
    extra=st.sampled_from(["", "x"]),
)


@settings(deadline=None)
@given(st.lists(st.lists(ENTRIES, max_size=5), max_size=5))
def test_any_polls(polls):
    feed = Feed()
    order = ("guid", "link", "digest")
    for entries in polls:
        before = feed.memory
        found = identify(before, entries, "items")
        feed.poll(*entries)
        assert order.index(feed.memory.policy) >= order.index(before.policy)
        remembered = {item.id for item in feed.memory.items}
        assert set(found.ids) <= remembered and {item.id for item in before.items} <= remembered
        # Of entries that say the same in all, one item is made.
        said = {}
        for id_, one in zip(found.ids, entries, strict=True):
            assert said.setdefault(one, id_) == id_
