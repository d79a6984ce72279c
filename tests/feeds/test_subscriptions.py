"""Subscriptions in the catalogue, lists in OPML, and the commands over them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from budget import examples
from command_line import Ran, exit_code
from feed_server import FeedServer, reply, rss, serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xscl.answers.feed_listing import feed_rows
from xscl.base.errors import CatalogError, SourceError, XsclError
from xscl.catalog.subscriptions import (
    add_feed,
    drop_feed,
    folder_parts,
    folder_text,
    import_outlines,
    outlines,
    parse_interval,
    set_feed,
)
from xscl.engine import connect
from xscl.ingest.opml import Outline, read_opml, write_opml
from xscl.ingest.sources import read_paths
from xscl.intake.intake import Intake
from xscl.store.home import Home, init_home

NOW = 1_780_000_000_000_000
A = "http://a.example/feed"


def urls(home: Home, status: str | None = None) -> list[object]:
    return [row["feed"] for row in feed_rows(home.catalog) if status in (None, row["status"])]


def test_adding_twice(home: Home) -> None:
    assert add_feed(home.catalog, "HTTP://A.example:80/feed#x", now=NOW) == A
    with pytest.raises(CatalogError, match="XSCL_NAME_TAKEN"):
        add_feed(home.catalog, A, now=NOW)
    drop_feed(home.catalog, A)
    assert urls(home, "not subscribed") == [A]
    add_feed(home.catalog, A, now=NOW, channel="news")
    assert [row["channel"] for row in feed_rows(home.catalog)] == ["news"]


@pytest.mark.parametrize(
    ("url", "options", "condition"),
    [
        ("file:///etc/passwd", {}, "XSCL_BAD_URL"),
        ("http://user:pw@a.example/", {}, "XSCL_BAD_URL"),
        ("http://localhost/feed", {}, "XSCL_PRIVATE_ADDRESS"),
        ("http://127.0.0.1/feed", {}, "XSCL_PRIVATE_ADDRESS"),
        ("http://[::1]/feed", {}, "XSCL_PRIVATE_ADDRESS"),
        ("http://169.254.169.254/", {"allow_private": True}, "XSCL_PRIVATE_ADDRESS"),
        (A, {"channel": "1x"}, "XSCL_BAD_NAME"),
        (A, {"channel": "ticks"}, "XSCL_CHANNEL_KIND"),
    ],
)
def test_what_cannot_be_added(home: Home, url: str, options: dict[str, object], condition: str) -> None:
    from xscl.registry.channels import add_channel

    add_channel(home.catalog, "ticks", kind="rows")
    with pytest.raises(XsclError, match=condition):
        add_feed(home.catalog, url, now=NOW, **options)  # type: ignore[arg-type]
    assert urls(home) == []


def test_private_hosts_that_are_wanted(home: Home) -> None:
    assert add_feed(home.catalog, "http://10.0.0.1/feed", now=NOW, allow_private=True) == "http://10.0.0.1/feed"


@pytest.mark.parametrize("text", ["4 min", "25 h", "soon", "0"])
def test_intervals_out_of_bounds(text: str) -> None:
    with pytest.raises(CatalogError, match="XSCL_BAD_OPTION"):
        parse_interval(text)


def test_changing(home: Home) -> None:
    add_feed(home.catalog, A, now=NOW)
    set_feed(home.catalog, A, now=NOW, channel="news", interval="2h", folder="X/Y", status="paused", allow_private=True)
    (row,) = feed_rows(home.catalog)
    assert (row["channel"], row["interval"], row["folder"], row["status"]) == ("news", "2 h", "X/Y", "paused")
    set_feed(home.catalog, A, now=NOW, interval="none", folder="")
    (row,) = feed_rows(home.catalog)
    assert (row["interval"], row["folder"], row["status"]) == (None, None, "paused")
    with pytest.raises(CatalogError, match="XSCL_FEED_NOT_FOUND"):
        set_feed(home.catalog, "http://b.example/", now=NOW)


PARTS = st.lists(st.text(st.sampled_from("ab/\\ "), min_size=1, max_size=4), max_size=3).map(tuple)


@given(PARTS)
def test_folders_are_stored_whole(parts: tuple[str, ...]) -> None:
    assert folder_parts(folder_text(parts)) == parts


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
OUTLINES = st.builds(
    Outline,
    st.from_regex(r"https?://[a-z]{1,3}\.example/[a-z]{0,3}", fullmatch=True),
    st.none() | WORDS,
    st.none() | st.from_regex(r"http://[a-z]{1,3}\.example/", fullmatch=True),
    st.lists(WORDS, max_size=3).map(tuple),
    st.fixed_dictionaries(
        {},
        optional={
            "channel": st.sampled_from(["news", "a.b"]),
            "interval": st.sampled_from(["2 h", "5 min", "1 d"]),
            "status": st.sampled_from(["paused", "stopped"]),
        },
    ),
    st.dictionaries(st.sampled_from(["category", "language", "{urn:other}x"]), WORDS),
)


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(OUTLINES, max_size=5, unique_by=lambda outline: outline.url))
def test_a_list_that_is_exported_is_imported(tmp_path_factory: pytest.TempPathFactory, listed: list[Outline]) -> None:
    first, second = (init_home(tmp_path_factory.mktemp("home") / "home") for _ in range(2))
    assert [what for _, what, _ in import_outlines(first.catalog, listed, now=NOW)] == ["added"] * len(listed)
    written = write_opml(outlines(first.catalog))
    found = list(read_opml(written, source="x"))
    assert {what for _, what, _ in import_outlines(second.catalog, found, now=NOW)} <= {"added"}
    assert write_opml(outlines(second.catalog)) == written
    assert sorted(outlines(second.catalog), key=lambda o: o.url) == sorted(listed, key=lambda o: o.url)
    # Again: nothing changes.
    assert {what for _, what, _ in import_outlines(second.catalog, found, now=NOW)} <= {"known"}
    assert write_opml(outlines(second.catalog)) == written
    for opened in (first, second):
        opened.catalog.close()


def test_lines_that_cannot_be_taken_cost_only_themselves(home: Home) -> None:
    listed = [
        Outline(A),
        Outline("ftp://b.example/"),
        Outline("http://c.example/", own={"interval": "1 s"}),
        Outline("http://d.example/", own={"status": "odd"}),
        Outline("http://192.168.0.1/"),
        Outline(A),
        Outline("http://e.example/"),
    ]
    found = [
        (what, getattr(error, "condition", None)) for _, what, error in import_outlines(home.catalog, listed, now=NOW)
    ]
    assert found == [
        ("added", None),
        ("refused", "XSCL_BAD_URL"),
        ("refused", "XSCL_BAD_OPTION"),
        ("refused", "XSCL_BAD_OPTION"),
        ("refused", "XSCL_PRIVATE_ADDRESS"),
        ("known", None),
        ("added", None),
    ]
    assert urls(home) == [A, "http://e.example/"]


def test_no_list_gives_a_permission(home: Home) -> None:
    """Who sends a list of feeds must not open the operator's network."""
    listed = read_opml(
        b'<opml xmlns:x="urn:xscl:opml"><body>'
        b'<outline xmlUrl="http://10.0.0.1/" x:allow-private="true"/></body></opml>',
        source="x",
    )
    ((_, what, error),) = import_outlines(home.catalog, listed, now=NOW)
    assert what == "refused" and isinstance(error, SourceError)


def test_feeds_met_in_files_are_listed_too(home: Home, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(rss("one", "two"))
    Intake(home).take(read_paths([tmp_path / "a.xml"]))
    (row,) = feed_rows(home.catalog)
    assert (row["status"], row["items"], row["policy"], row["title"]) == ("not subscribed", 2, "guid", "Feed")


# -- commands ----------------------------------------------------------------------------------------------------


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XSCL_CONTACT", raising=False)
    monkeypatch.delenv("XSCL_ALLOW_PRIVATE", raising=False)

    def run_(*arguments: str) -> Ran:
        code = exit_code(monkeypatch, *arguments)
        sys.stdout.flush()
        printed = capfd.readouterr()
        return Ran(code, printed.out, printed.err)

    assert run_("init").code == 0
    return run_


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with serving() as (found, _):
        yield found


def test_commands(run: Run, server: FeedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = f"127.0.0.1:{server.port}"
    url, gone = f"http://{host}/feed", f"http://{host}/gone"
    server.routes[f"{host}/feed"] = reply(200, rss("one", "two"), etag='"1"')
    server.routes[f"{host}/gone"] = reply(410)
    refused = run("feed", "add", url)
    assert refused.code == 1 and "XSCL_PRIVATE_ADDRESS" in refused.err and server.log == []
    assert run("feed", "add", url, "--allow-private", "--folder", "News/World", "--interval", "2h").code == 0
    assert run("feed", "add", url, "--allow-private").code == 1
    assert run("feed", "add", url, "--interval", "1s").code == 1

    fetched = run("feed", "fetch")
    assert fetched.code == 0 and "1 × 200" in fetched.err and "XSCL_CONTACT" in fetched.err
    assert server.log[0].headers["user-agent"].startswith("xscl/")
    assert "+" not in server.log[0].headers["user-agent"]
    assert "0 feeds asked" in run("feed", "fetch").err

    monkeypatch.setenv("XSCL_CONTACT", "https://example.org/us")
    added = run("feed", "add", gone, "--allow-private", "--fetch")
    assert added.code == 1 and "410" in added.err and "XSCL_CONTACT" not in added.err
    assert server.log[-1].headers["user-agent"].endswith(" (+https://example.org/us)")

    listed = run("feed", "list")
    assert url in listed.out and "stopped" in listed.out
    rows = json.loads(run("feed", "list", "--json").out)
    assert [(row["feed"], row["status"], row["items"], row["policy"]) for row in rows] == [
        (url, "active", 2, "guid"),
        (gone, "stopped", 0, "guid"),
    ]
    assert rows[0]["next"] and rows[0]["last"] == "200" and rows[0]["title"] == "Feed"

    exported = run("feed", "export")
    assert exported.code == 0 and url in exported.out
    assert run("feed", "export", "list.opml").code == 0
    assert "[XSCL_CANNOT_WRITE] none/list.opml" in run("feed", "export", "none/list.opml").err
    again = run("feed", "import", "list.opml", "--allow-private")
    assert again.code == 0 and "known" in again.err and "2 feeds, 0 refused" in again.err
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "other"))
    run("init")
    partly = run("feed", "import", "list.opml")
    assert partly.code == 1 and f"list.opml:10: refused {url}" in partly.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "list.opml").read_bytes())))
    assert run("feed", "import", "-", "--allow-private").code == 0
    assert run("feed", "export").out == exported.out
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))

    assert run("feed", "set", url, "--pause").code == 0
    assert "is paused and was not asked" in run("feed", "fetch", url).err
    assert run("feed", "set", url, "--pause", "--resume").code == 2
    assert "the interval counts from the next poll on" in run("feed", "set", url, "--interval", "2 h").err
    assert run("feed", "drop", gone).code == 0
    assert run("feed", "drop", gone).code == 1
    assert [row["status"] for row in json.loads(run("feed", "list", "--json").out)] == ["paused", "not subscribed"]
    assert len(server.log) == 2
    assert run("feed", "fetch", "--wait", "x").code == 2
    missing = run("feed", "import", "none.opml")
    assert missing.code == 1 and "[XSCL_SOURCE_UNREADABLE] none.opml: No such file" in missing.err


def test_the_environment_allows_private_networks_in_every_command(
    run: Run, server: FeedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = f"127.0.0.1:{server.port}"
    for name in ("added", "listed"):
        server.routes[f"{host}/{name}"] = reply(200, rss(name))
    (tmp_path / "list.opml").write_text(
        f'<opml version="2.0"><body><outline xmlUrl="http://{host}/listed"/></body></opml>'
    )
    assert run("feed", "add", f"http://{host}/added").code == 1
    assert run("feed", "import", "list.opml").code == 1
    monkeypatch.setenv("XSCL_ALLOW_PRIVATE", "1")
    assert run("feed", "add", f"http://{host}/added").code == 0
    assert run("feed", "import", "list.opml").code == 0
    fetched = run("feed", "fetch")
    assert fetched.code == 0 and "2 × 200" in fetched.err
    monkeypatch.delenv("XSCL_ALLOW_PRIVATE")
    # It was said for those commands, and for no feed.
    assert "XSCL_PRIVATE_ADDRESS" in run("feed", "fetch", "--all").err


def test_a_long_title_is_cut_for_a_person(run: Run, tmp_path: Path) -> None:
    (tmp_path / "long.rss").write_bytes(rss("one").replace(b"<title>", b"<title>" + b"x" * 5_000))
    run("ingest", "long.rss")
    for words in (("feed", "list", "--format", "table"), ("feed", "show", "xxx")):
        ran = run(*words)
        assert ran.code == 0 and "x" * 199 + "…" in ran.out and "x" * 200 not in ran.out, words
    assert "x" * 5_000 in run("item", "list", "--json").out


def test_links_without_a_scheme_are_completed_alike(run: Run, tmp_path: Path) -> None:
    added = run("feed", "add", "Example.org/feed")
    assert added.code == 0 and added.err == "feed https://example.org/feed\n"
    (tmp_path / "list.opml").write_text(
        '<opml version="2.0"><body><outline xmlUrl="example.org/feed"/>'
        '<outline xmlUrl="//example.org:81/x"/></body></opml>'
    )
    listed = run("feed", "import", "list.opml")
    assert listed.code == 0 and "known example.org/feed" in listed.err
    assert [row["feed"] for row in json.loads(run("feed", "list", "--json").out)] == [
        "https://example.org/feed",
        "https://example.org:81/x",
    ]
    assert run("feed", "set", "example.org/feed", "--pause").code == 0
    assert "is paused and was not asked" in run("feed", "fetch", "EXAMPLE.org/feed").err
    assert run("feed", "drop", "example.org:81/x").code == 0
    assert run("feed", "drop", "example.org/other").code == 1


def test_running_asks_first(run: Run, server: FeedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = f"127.0.0.1:{server.port}"
    server.routes[f"{host}/feed"] = reply(503, retry_after="7200")
    monkeypatch.setenv("XSCL_ALLOW_PRIVATE", "1")
    run("feed", "add", f"http://{host}/feed", "--allow-private")
    assert run("run", "--once").code == 0 and server.log == []
    ran = run("run", "--once", "--fetch", "--contact", "mailto:us@example.org")
    assert ran.code == 1 and "1 feed asked with 1 request" in ran.err and "503" in ran.err
    assert ran.err.endswith("nothing new: no feed could be read\n")
    assert server.log[0].headers["user-agent"].endswith("(+mailto:us@example.org)")
    assert run("run", "--once", "--fetch").err == "nothing new\n"
    engine = connect(home=tmp_path / "home")
    assert engine.fetch_feeds(everything=True).left == 1
    engine.close()
    assert len(server.log) == 1
