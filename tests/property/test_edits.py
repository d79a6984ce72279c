"""Matches that newer versions and removals take back: after each batch those hold whose members are the newest versions
and were not removed.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from budget import examples

import xscl
from xscl.engine import Engine

TEXTS = [
    "items->x[./k = '1']",
    "items->x[./k->a] JOIN {a = b, 6} items->y[./k->b]",
    "SELECT a FROM items[./k->a] FOLLOWED BY {a = b, 4} other->y[./k->b]",
    "items->x[./k->a] JOIN {a = b, 6, ONCE} items->y[./k->b]",
]
"""Questions whose matches are asked with and without their older versions."""
Told = dict[str, tuple[tuple[str, str], ...]]
"""Members of matches by id."""


def _version(id_: str) -> tuple[str, int]:
    base, _, version = id_.partition("#")
    return base, int(version or 1)


def _newest(
    engine: Engine, name: str, versions: dict[str, int], removed: set[tuple[str, int]]
) -> list[tuple[tuple[str, str], ...]]:
    """The matches of the query that keeps all of them, but for those with an older version or something removed."""
    found = [tuple((event.channel, event.id) for event in match.events) for match in engine.matches(name)]
    held = [
        members
        for members in found
        if all(versions[_version(id_)[0]] == _version(id_)[1] and _version(id_) not in removed for _, id_ in members)
    ]
    return sorted(held)


def play(folder: Path, seed: int) -> int:
    """Play one random stream; return the number of matches that were taken back."""
    choose = random.Random(seed)
    text = choose.choice(TEXTS)
    versions: dict[str, int] = {}
    removed: set[tuple[str, int]] = set()
    gone, count = 0, 0
    cursors: dict[str, str] = {}
    net: dict[str, Told] = {}
    with xscl.connect(home=folder) as engine:
        for number in range(24):
            if number == 0 or choose.random() < 0.08 and count < 3:
                engine.register(text, name=f"keeps{count}")
                engine.register(f"{text} ON CHANGE RETRACT", name=f"q{count}")
                cursors[f"q{count}"], net[f"q{count}"] = "start", {}
                count += 1
            value = "".join(f"<k>{choose.randint(1, 2)}</k>" for _ in range(choose.choice([1, 1, 2])))
            xml = f"<i>{value}<n>{number}</n></i>"
            ts = number // 2 + choose.choice([0, 0, -2])
            if choose.random() < 0.2:
                item = choose.choice(sorted(versions) or ["i1"])
                there = item in versions and (item, versions[item]) not in removed
                channel = "other" if item.startswith("o") else "items"
                report = engine.ingest([{"retract": {"channel": channel, "id": item}}])
                assert bool(report.removed) == there and report.missing == (not there), (seed, item)
                removed |= {(item, versions[item])} if there else set()
            elif choose.random() < 0.3:
                # An id comes again only if it was removed, and is a newer version then.
                free = [f"o{number}", *(id_ for id_, version in sorted(removed) if versions[id_] == version)]
                item = choose.choice([id_ for id_ in free if id_.startswith("o")])
                versions[item] = versions.get(item, 0) + 1
                engine.ingest([xscl.Event("other", item, ts, xml=xml)])
            else:
                item = f"i{choose.randint(1, 8)}"
                versions[item] = versions.get(item, 0) + 1
                engine.ingest([xscl.Event("items", item, ts, xml=xml, feed="f")])
            if number < 23 and choose.random() < 0.5:
                continue
            engine.run_once()
            for name, told in net.items():
                listing = engine.changes(name, after=cursors[name])
                for match in listing:
                    if match.retracted is None:
                        assert match.id not in told
                        told[match.id] = tuple((event.channel, event.id) for event in match.events)
                    else:
                        del told[match.id]
                        gone += 1
                cursors[name] = listing.cursor
                held = [tuple((e.channel, e.id) for e in match.events) for match in engine.matches(name)]
                expected = _newest(engine, name.replace("q", "keeps"), versions, removed)
                assert sorted(held) == sorted(told.values()) == expected, (seed, text)
    return gone


@pytest.mark.parametrize("part", range(2))
def test_what_newer_versions_and_removals_take_back(tmp_path: Path, part: int) -> None:
    assert sum(play(tmp_path / str(seed), 100 * part + seed) for seed in range(examples(2))) > 0
