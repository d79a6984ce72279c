"""Suggested lateness: against a loop over events, with shared clocks, idle channels and feeds."""

from __future__ import annotations

import random
from math import ceil
from pathlib import Path

import pytest

import xscl
from xscl.answers.lateness import declare_suggested, round_up, suggestion_rows, suggestions
from xscl.base.durations import format_duration
from xscl.cli.app import main

S = 1_000_000
FEED = """<rss version="2.0"><channel><title>T</title><link>http://a.example</link>{items}</channel></rss>"""
ITEM = "<item><title>{name}</title><guid>{name}</guid><pubDate>{day:02d} Nov 2026 10:00:00 GMT</pubDate></item>"


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_those_of_a_loop(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    clocks = {"A": "one", "B": "one", "C": "C"}
    events = [(choose.choice("ABC"), choose.randrange(-20, 1) + number) for number in range(200)]
    behind: dict[str, list[int]] = {name: [] for name in clocks}
    newest: dict[str, int] = {}
    for channel, ts in events:
        shown = newest.get(clocks[channel], ts)
        if channel == "C":
            shown = max(shown, max(newest.values(), default=ts) - 5)
        behind[channel].append(max(0, shown - ts))
        newest[clocks[channel]] = max(ts, newest.get(clocks[channel], ts))
    with xscl.connect(home=tmp_path / "home") as engine:
        for name, clock in clocks.items():
            engine.add_channel(name, clock=clock, idle="5 s" if name == "C" else None)
        for part in (events[:70], events[70:]):
            numbered = enumerate(part, start=0 if part is events[:70] else 100)
            engine.ingest(xscl.Event(name, f"{len(part)}-{at}", 10_000 + ts, xml="<e/>") for at, (name, ts) in numbered)
        found = {each.channel: each for each in suggestions(engine.home)}
    for name, times in behind.items():
        ordered = sorted(times)
        mine = found[name]
        assert mine.feed is None and (mine.events, mine.behind) == (len(times), sum(time > 0 for time in times))
        assert mine.longest == ordered[-1] * S
        assert mine.p50 == ordered[ceil(len(times) / 2) - 1] * S and mine.p999 == ordered[-1] * S
        assert mine.suggested is not None and mine.suggested == round_up(mine.p999) >= mine.p999


def test_feeds_are_judged_by_their_own_times_behind_their_first_document(tmp_path: Path) -> None:
    def document(*items: tuple[str, int]) -> Path:
        path = tmp_path / f"{items[0][0]}.rss"
        path.write_text(FEED.format(items="".join(ITEM.format(name=name, day=day) for name, day in items)))
        return path

    with xscl.connect(home=tmp_path / "home") as engine:
        engine.ingest(document(("a", 12), ("b", 1)))
        engine.ingest(document(("c", 14), ("d", 11)))
        found = list(suggestions(engine.home))
    items = [each for each in found if each.channel == "items"]
    assert [each.feed is None for each in items] == [True, False]
    for each in items:
        assert (each.events, each.behind, each.longest) == (2, 1, 3 * 86_400 * S)
        assert each.suggested is not None and format_duration(each.suggested) == "3 d"


def test_nothing_is_set_where_no_event_says_how_late_others_come(tmp_path: Path) -> None:
    feed = (
        "<rss version='2.0'><channel><title>t</title><link>https://e.org/</link><item><guid>a</guid>"
        "<pubDate>Mon, 01 Jan 2001 00:00:00 GMT</pubDate></item></channel></rss>"
    )
    (tmp_path / "first.xml").write_text(feed)
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("items", lateness="1 h")
        # The items that come together with a feed's first one say nothing.
        engine.ingest(str(tmp_path / "first.xml"))
        found = list(suggestions(engine.home))
        told = list(declare_suggested(engine.home, found, "items"))
        (row,) = (row for row, _ in suggestion_rows(engine.home, "items"))
        again = next(each for each in suggestions(engine.home) if each.channel == "items")
    assert [each.events for each in found if each.channel == "items"] == [0]
    assert row["lateness"] == "1 h" and row["events"] == row["behind"] == 0
    assert [row[name] for name in ("p50", "p999", "longest", "suggested")] == [None] * 4
    assert "channel items: no event says how late others come, so its lateness stays" in told
    assert again.lateness == 3_600 * S


def test_a_suggestion_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    with xscl.connect(home=home) as engine:
        engine.ingest([xscl.Event("A", str(ts), ts, xml="<e/>") for ts in (100, 52, 101)])
    for words, told in (
        ([], "too few events"),
        (["A"], "channel A: lateness 1 min"),
        (["A"], ""),
    ):
        monkeypatch.setattr("sys.argv", ["xscl", "channel", "suggest", *words, "--apply", "--home", str(home)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert not ended.value.code and told in err and ("1 min" in out), (out, err)
    with xscl.connect(home=home) as engine:
        report = engine.ingest([xscl.Event("A", "late", 40, xml="<e/>"), xscl.Event("A", "in", 41, xml="<e/>")])
    assert report.late == 1
