"""What people see at a terminal: cards, items, feeds, and what to do next where there is nothing."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import exit_code
from stored_by_hand import store

from xscl.base.types import Event
from xscl.intake.intake import Intake
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

Run = Callable[..., SimpleNamespace]
RSS = """<rss version="2.0"><channel><title>{feed}</title><link>https://{host}/</link>{items}</channel></rss>"""
ITEM = "<item><title>{title}</title><link>https://{host}/{n}</link><guid>g{n}</guid><pubDate>{date}</pubDate></item>"
DATES = ["Tue, 01 Sep 2026 10:00:00 GMT", "Wed, 02 Sep 2026 10:00:00 GMT", "Thu, 03 Sep 2026 10:00:00 GMT"]
TEXT = "S/item->a[./guid->g][./title->t][./note->n] FOLLOWED BY {g = h, 1 h} T->r[./sym->h][./price->p]"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))
    opened = init_home(tmp_path / "home")
    yield opened
    opened.catalog.close()


@pytest.fixture
def run(home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")

    def run_(*arguments: str, person: bool = False, code: int = 0) -> SimpleNamespace:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: person)
        ended = exit_code(monkeypatch, *arguments)
        printed = capsys.readouterr()
        assert ended == code, printed.err
        return SimpleNamespace(out=printed.out, err=printed.err, lines=printed.out.splitlines())

    return run_


@pytest.fixture
def matched(home: Home) -> Home:
    Registry(home.catalog).register(TEXT, name="q")
    item = "<item><title>Prices rise</title><link>https://e.org/1</link><guid>IBM</guid><note>so it is</note></item>"
    rows = Event("T", "r1", 2, row={"sym": "IBM", "price": 4.5})
    Intake(home).take([Event("S", "s1", 1, xml=item), rows])
    store(home, ("q", (2, 3), (0, 0), (3, 1)))
    return home


def feeds(home: Home, folder: Path) -> None:
    from xscl.ingest.sources import read_paths

    for feed, host, order in (("Weather World", "w.org", range(3)), ("Übersee", "u.org", range(2))):
        items = "".join(ITEM.format(title=f"{feed} {n}", host=host, n=n, date=DATES[n]) for n in order)
        (folder / f"{host}.xml").write_text(RSS.format(feed=feed, host=host, items=items), encoding="utf-8")
        assert Intake(home).take(read_paths([folder / f"{host}.xml"])).rejected == 0


def test_a_match_is_a_card(matched: Home, run: Run) -> None:
    shown = run("match", "list", person=True)
    assert shown.lines[0].startswith("q  1970-01-01T00:00:02Z  ")
    assert shown.lines[1:] == [
        "  • 1970-01-01T00:00:01Z  S           Prices rise",
        "      https://e.org/1",
        "    1970-01-01T00:00:02Z  T           sym IBM, price 4.5",
        "      g = h = IBM",
        "      n = so it is",
        "      p = 4.5",
    ]
    assert run("match", "list", "--format", "cards").lines == shown.lines
    [match] = [json.loads(line) for line in run("match", "list").lines]
    assert list(match["values"]) == ["a", "g", "t", "n", "r", "h", "p"]
    assert match["values"]["n"] == "so it is" and match["values"]["p"] == "4.5"
    for command in (["match", "list", "--format", "table"], ["stats"], ["channel", "list"], ["query", "list"]):
        assert all(len(line) <= 80 for line in run(*command, person=True).lines), command


def test_output_documents_alone(matched: Home, run: Run) -> None:
    [document] = run("match", "list", "--documents").lines
    [match] = [json.loads(line) for line in run("match", "list").lines]
    assert document == match["document"]
    assert run("match", "list", "--format", "documents", person=True).lines == [document]
    assert "exclude each other" in run("match", "list", "--documents", "--json", code=2).err


def test_items(home: Home, run: Run, tmp_path: Path) -> None:
    feeds(home, tmp_path)
    rows = [json.loads(line) for line in run("item", "list", "--format", "ndjson").lines]
    assert [row["title"] for row in rows][:2] == ["Weather World 2", rows[1]["title"]]
    assert [row["ts"][:10] for row in rows] == ["2026-09-03", *["2026-09-02"] * 2, *["2026-09-01"] * 2]
    assert {row["feed"] for row in rows} == {"Weather World", "Übersee"}
    assert rows[0]["link"] == "https://w.org/2" and rows[0]["channel"] == "items" and rows[0]["version"] == 1

    def titles(*options: str) -> list[str]:
        return [
            row["title"] for row in csv.DictReader(io.StringIO(run("item", "list", "--format", "csv", *options).out))
        ]

    assert titles("--feed", "ÜBER") == ["Übersee 1", "Übersee 0"]
    assert titles("--like", "*übersee*", "--limit", "1") == ["Übersee 1"]
    assert titles("--since", "2026-09-02T12:00:00Z") == ["Weather World 2"]
    assert titles("--until", "2026-09-01T12:00:00Z", "--feed", "w.org") == ["Weather World 0"]
    assert "XSCL_FEED_NOT_FOUND" in run("item", "list", "--feed", "nobody", code=1).err
    assert "no item fits" in run("item", "list", "--like", "x").err
    card = run("item", "list", "--limit", "1", person=True).lines
    assert card == ["2026-09-03T10:00:00Z  Weather World 2", "    https://w.org/2", "    Weather World"]


def test_only_the_newest_version_of_an_item_is_listed(home: Home, run: Run, tmp_path: Path) -> None:
    feeds(home, tmp_path)
    path = tmp_path / "w.org.xml"
    path.write_text(path.read_text(encoding="utf-8").replace("Weather World 2<", "Weather changed<"), encoding="utf-8")
    from xscl.ingest.sources import read_paths

    assert Intake(home).take(read_paths([path])).versions
    rows = [json.loads(line) for line in run("item", "list", "--format", "ndjson").lines]
    assert len(rows) == 5 and rows[0]["title"] == "Weather changed" and rows[0]["version"] == 2
    assert json.loads(run("item", "show", "g2", "--format", "ndjson").out)["title"] == "Weather changed"


def test_an_item(home: Home, run: Run, tmp_path: Path) -> None:
    feeds(home, tmp_path)
    told = dict(line.split(maxsplit=1) for line in run("item", "show", "g2").lines)
    assert told["title"] == "Weather World 2" and told["item_url"] == "https://w.org/2"
    assert told["published"] == "2026-09-03T10:00:00Z" and told["time_source"] == "published"
    assert run("item", "show", "w.org/2").lines == run("item", "show", "g2").lines
    assert "2 items" in run("item", "show", "g1", code=1).err
    assert "Übersee 1" in run("item", "show", "g1", "--feed", "Über").out
    assert "XSCL_ITEM_NOT_FOUND" in run("item", "show", "nothing", code=1).err
    assert json.loads(run("item", "show", "g2", "--json").out)[0]["document"].startswith("<item>")


def test_feeds_and_how_they_do(home: Home, run: Run, tmp_path: Path) -> None:
    from xscl.catalog.feeds import update_feed

    feeds(home, tmp_path)
    for name in ("a", "b", "c", "d"):
        run("feed", "add", f"https://{name}.example/feed", "--folder", "News/World" if name < "c" else "Old")
    run("feed", "set", "https://b.example/feed", "--pause")
    with home.catalog.begin() as connection:
        update_feed(connection, 5, {"fetched": 1, "failures": 2, "problem": "[XSCL_FETCH] no answer"})
        update_feed(connection, 6, {"fetched": 1, "http_status": 200, "next_fetch": 1 << 57})
    rows = [json.loads(line) for line in run("feed", "list", "--format", "ndjson").lines]
    assert [row["health"] for row in rows] == ["file", "file", "new", "paused", "failing", "ok"]

    def named(*options: str) -> list[str]:
        found = run("feed", "list", "--format", "csv", *options).out
        return [row["feed"][8:9] for row in csv.DictReader(io.StringIO(found))]

    assert named("--health", "failing") == ["c"]
    assert named("--folder", "News") == named("--folder", "News/World/") == ["a", "b"]
    assert named("--folder", "New") == []
    assert named("--like", "*ÜBER*") == ["u"]
    assert named("--channel", "items", "--like", "*.EXAMPLE/*") == ["a", "b", "c", "d"]
    summary = run("feed", "list", person=True).err.splitlines()[-1]
    assert summary == (
        "6 feeds: 1 ok, 1 new, 1 failing, 1 paused, 2 not subscribed; 2 due ('xscl feed fetch'); 5 items"
    )
    shown = run("feed", "show", "w.org").lines
    assert "health     file" in shown and "2026-09-03T10:00:00Z  Weather World 2" in shown
    assert run("feed", "show", "https://a.example/feed").lines[0].endswith("https://a.example/feed")
    assert json.loads(run("feed", "show", "w.org", "--json").out)[0]["items"] == 3
    assert "4 feeds have 'example'" in run("feed", "show", "example", code=1).err


@pytest.mark.parametrize("noun", ["query", "channel", "feed", "item", "match", "template", "late"])
def test_an_empty_listing_says_what_to_do_next(noun: str, run: Run) -> None:
    shown = run(noun, "list", person=True)
    assert shown.out == "" and "xscl " in shown.err
    assert run("-q", noun, "list", person=True).err == ""
    from xscl.cli.options import Output

    Output.quiet = False
    for format_ in ("ndjson", "csv", "table"):
        assert run(noun, "list", "--format", format_).err.count("\n") <= 1
