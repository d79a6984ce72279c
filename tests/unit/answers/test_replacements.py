"""Matches over newer versions name the matches they replace: against the definition, read off the listing itself."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import xscl
from xscl.base.types import Event, Match
from xscl.engine import Engine

QUERIES = {
    "two": "items//a->x[./k->p] JOIN {p = q} items//b->y[./k->q]",
    "three": "items//a->x[./k->p] JOIN {p = q} items//b->y[./k->q] FOLLOWED BY {q = r} more//c->z[./k->r]",
    "one": "items//a[./k = 'v']",
}


def item(id_: str, ts: int, *, key: str = "v", shift: int = 0, channel: str = "items") -> Event:
    """An item with elements a, b and c of one key; ``shift`` elements stand before them."""
    inner = "".join(f"<{name}><k>{key}</k></{name}>" for name in "abc")
    return Event(channel, id_, ts, xml=f"<i>{'<w/>' * shift}{inner}</i>", feed="f")


def listed(folder: str | Path, steps: Sequence[Sequence[Event]], queries: Sequence[str]) -> list[Match]:
    with xscl.connect(home=Path(folder) / "home") as engine:
        for name in queries:
            engine.register(QUERIES[name], name=name)
        for events in steps:
            engine.ingest(events)
            engine.run_once()
        return check(engine)


def check(engine: Engine) -> list[Match]:
    found = list(engine.matches())
    told = {m.id: m.replaces for m in engine.matches(after="start") if m.retracted is None}
    assert {m.id: m.replaces for m in found} == {m.id: told[m.id] for m in found}
    return found


def version_of(id_: str) -> tuple[str, int]:
    base, _, version = id_.partition("#")
    return base, int(version or 1)


def id_of(base: str, version: int) -> str:
    return base if version == 1 else f"{base}#{version}"


def expected(match: Match, found: Sequence[Match], arrived: Sequence[str]) -> str | None:
    """The definition: ``arrived`` has all ids of events in the order in which they came."""
    members = [(event.channel, event.id) for event in match.events]
    newer = [place for place, (_, id_) in enumerate(members) if version_of(id_)[1] > 1]
    if not newer:
        return None
    place = max(newer, key=lambda place: arrived.index(members[place][1]))
    base, version = version_of(members[place][1])
    members[place] = (members[place][0], id_of(base, version - 1))
    older = [
        m for m in found if m.query == match.query and [(event.channel, event.id) for event in m.events] == members
    ]
    same = [m.id for m in older if m.nodes == match.nodes]
    return min(same or [m.id for m in older], default=None)


def replaced_by(found: Sequence[Match]) -> dict[str, str]:
    """Members of matches that replace, and those of what they replace."""
    names = {m.id: "-".join(event.id for event in m.events) for m in found}
    return {names[m.id]: names[m.replaces] for m in found if m.replaces is not None}


def test_a_newer_version_replaces(tmp_path: Path) -> None:
    found = listed(tmp_path, [[item("g", 1), item("h", 2)], [item("g", 3, shift=1)]], ["two"])
    assert replaced_by(found) == {"g#2-h": "g-h", "h-g#2": "h-g"}


def test_a_version_that_changed_its_key_replaces_nothing_and_is_not_replaced(tmp_path: Path) -> None:
    steps = [[item("g", 1), item("h", 2)], [item("g", 3, key="w")], [item("g", 4, shift=1)]]
    assert replaced_by(listed(tmp_path, steps, ["two"])) == {}


def test_of_two_newer_versions_the_one_that_came_last_is_replaced(tmp_path: Path) -> None:
    steps = [[item("g", 1), item("h", 2)], [item("g", 3, shift=1), item("h", 4, shift=1)]]
    found = replaced_by(listed(tmp_path, steps, ["two"]))
    assert found == {
        "g#2-h": "g-h",
        "h-g#2": "h-g",
        "g#2-h#2": "g#2-h",
        "h#2-g#2": "h-g#2",
        "g-h#2": "g-h",
        "h#2-g": "h-g",
    }


def test_the_replaced_match_may_be_of_any_batch_and_outside_the_window(tmp_path: Path) -> None:
    steps = [[item("g", 1), item("g", 2, shift=1), item("h", 3)], [item("g", 4, shift=2)]]
    listed(tmp_path, steps, ["two"])
    with xscl.connect(home=tmp_path / "home") as engine:
        (first, second) = engine.matches("two", since=4_000_000)
        for match in (first, second):
            replaced = next(m for m in engine.matches() if m.id == match.replaces)
            assert {event.id for event in replaced.events} == {"g#2", "h"}


def test_a_query_that_came_later_names_only_what_it_has(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(QUERIES["one"], name="before")
        engine.ingest([item("g", 1)])
        engine.run_once()
        engine.register(QUERIES["one"], name="after")
        engine.ingest([item("g", 2, shift=1), item("g", 3, shift=2)])
        engine.run_once()
        assert [replaced_by(list(engine.matches(name))) for name in ("before", "after")] == [
            {"g#2": "g", "g#3": "g#2"},
            {"g#3": "g#2"},
        ]


def waited(folder: Path, text: str) -> list[Match]:
    """Matches of a query: of an item, and of its next version long after those of the first were decided."""
    with xscl.connect(home=folder / "home") as engine:
        for channel in ("items", "T"):
            engine.add_channel(channel, kind="xml", lateness="3 s")
        engine.register(text, name="q")
        for ts in (1, 21):
            for events in (
                [item("g", ts, shift=ts // 20)],
                [Event("T", f"t{ts}", ts + 10, xml="<i/>"), item(f"h{ts}", ts + 10)],
            ):
                engine.ingest(events)
                engine.run_once()
        return check(engine)


def test_what_is_replaced_may_have_been_decided_later(tmp_path: Path) -> None:
    found = waited(tmp_path, "items//a->x[./k->p] NOT FOLLOWED BY {p = q, 2 s} T//a->y[./k->q]")
    assert replaced_by(found) == {"g#2": "g"}


@pytest.mark.parametrize(
    "text", ["items//a[./k = 'v']", "items//a->x[./k->p] NOT FOLLOWED BY {p = q, 2 s} T//a->y[./k->q]"]
)
def test_what_was_taken_back_is_not_replaced(text: str, tmp_path: Path) -> None:
    found = waited(tmp_path, f"{text} ON CHANGE RETRACT")
    assert "g#2" in {event.id for match in found for event in match.events}
    assert replaced_by(found) == {}


@pytest.mark.parametrize("shift", [0, 1])
def test_equal_nodes_go_first(tmp_path: Path, shift: int) -> None:
    """The older version has two matches; the one with the nodes of the newer one is replaced, or else the least id."""
    two = "<i><w/><a><k>v</k></a><a><k>v</k></a></i>"
    one = f"<i>{'<w/>' * (1 + shift)}<a><k>v</k></a></i>"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("items//a->x[./k = 'v']", name="q")
        engine.ingest([Event("items", "g", 1, xml=two, feed="f"), Event("items", "g", 2, xml=one, feed="f")])
        engine.run_once()
        older, newer = list(engine.matches(until=1_000_000)), list(engine.matches(since=2_000_000))
    same = [m.id for m in older if m.nodes == newer[0].nodes]
    assert len(same) == (shift == 0)
    assert newer[0].replaces == min(same or [m.id for m in older])


events = st.tuples(st.sampled_from("gh"), st.sampled_from(["v", "v", "w"]), st.integers(0, 2), st.booleans())


@settings(max_examples=examples(6), deadline=None)
@given(st.lists(st.lists(events, max_size=4), max_size=3))
def test_what_is_replaced_is_what_the_definition_says(steps: list[list[tuple[str, str, int, bool]]]) -> None:
    ts, taken = 0, []
    for step in steps:
        some = []
        for id_, key, shift, more in step:
            ts += 1
            some.append(
                item(("m" if more else "") + id_, ts, key=key, shift=shift, channel="more" if more else "items")
            )
        taken.append(some)
    with tempfile.TemporaryDirectory() as folder:
        found = listed(folder, taken, list(QUERIES))
        with xscl.connect(home=Path(folder) / "home") as engine:
            rows = [row for channel in ("items", "more") for row in ids_of(engine, channel)]
        arrived = [id_ for _, id_ in sorted(rows)]
        assert {m.id: m.replaces for m in found} == {m.id: expected(m, found, arrived) for m in found}


def ids_of(engine: Engine, channel: str) -> list[tuple[int, str]]:
    from xscl.catalog.tables import EVENT_IDS

    return [(row["docid"], row["id"]) for row in engine.home.catalog.rows(EVENT_IDS) if row["channel"] == channel]
