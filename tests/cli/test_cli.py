"""Every command as a person types it; those that need no Spark here, the others in one walk at the end."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_line import Ran, exit_code

from xscl.base.settings import Settings
from xscl.base.types import Event
from xscl.engine import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

EVENTS = """\
{"channel": "S", "id": "d1", "ts": 1, "xml": "<book><author>A</author></book>"}
{"channel": "S", "id": "bad", "ts": 2, "xml": "<book>"}
nonsense
{"channel": "S", "id": "d2", "ts": 3, "xml": "<blog><author>A</author></blog>"}
{"channel": "ticks", "id": "t1", "ts": "2026-06-01T09:30:00Z", "row": {"sym": "IBM", "price": 101.5}}
{"channel": "ticks", "id": "t2", "ts": "2026-06-01T09:30:00Z", "row": {"sym": "IBM", "price": "high"}}
"""
FOLLOWS = "S//book->x1[./author->x2] FOLLOWED BY {x2=x5, 7 days} S//blog->x4[./author->x5]"


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))

    def run_(*arguments: str) -> Ran:
        code = exit_code(monkeypatch, *arguments)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run_


@pytest.fixture
def home(run: Run, tmp_path: Path) -> Run:
    assert run("init").code == 0
    (tmp_path / "events.ndjson").write_text(EVENTS)
    return run


def test_many_rejections_for_one_reason_are_said_a_few_times(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "hot.csv").write_text("a,b\n" + "1\n" * 200)
    ran = run("ingest", "hot.csv")
    assert ran.code == 1
    lines = ran.err.splitlines()
    assert [line.split(" ")[1] for line in lines[:5]] == [f"hot.csv:{number}:" for number in range(2, 7)]
    assert lines[5:] == ["… and more; xscl sql 'SELECT * FROM rejected' has them", "0 events taken, 200 rejected"]


def test_places_in_messages_are_no_emoji(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "e.ndjson").write_text(EVENTS + "\n" * 93 + "nonsense\n")
    assert "e.ndjson:100: [" in run("ingest", "e.ndjson").err


def test_query_test_reads_rows_and_records_as_ingest_does(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "hot.csv").write_text("room;temp\nhall;26.5\nattic;-\n")
    run("query", "add", "Q", "hot[./temp > 25][./room->a] FOLLOWED BY {a = b, 1 d} docs/r[./room->b]")
    found = run("query", "test", "Q", "hot.csv", "--delimiter", ";", "--null", "-", "--json")
    assert [row["bindings"]["a"]["value"] for row in json.loads(found.out)] == ["hall"]
    (tmp_path / "set.xml").write_text("<set><r n='1'><room>hall</room></r><r n='2'><room>attic</room></r></set>")
    found = run("query", "test", "Q", "set.xml", "--channel", "docs", "--split", "//r", "--id", "@n", "--json")
    rows = json.loads(found.out)
    assert [(row["document"], row["bindings"]["b"]["value"]) for row in rows] == [("1", "hall"), ("2", "attic")]


def test_urls_are_no_files(run: Run) -> None:
    run("init")
    ran = run("ingest", "sqlite:///plant.db")
    assert ran.code == 2 and "--table" in ran.err
    ran = run("ingest", "sqlite:///p.db", "--table", "t", "--key", "id", "--channel", "c", "--follow")
    assert ran.code == 2 and "--follow" in ran.err


def test_without_a_home_the_message_says_what_to_do(run: Run) -> None:
    for command in (["query", "list"], ["stats"], ["ingest", "x.xml"], ["match", "list"], ["run", "--once"]):
        ran = run(*command)
        assert ran.code == 1 and "XSCL_NO_HOME" in ran.err and "xscl init" in ran.err, command


def test_tokens_with_limits(home: Run) -> None:
    made = home("token", "add", "guest", "--queries", "1", "--cost", "9")
    assert made.code == 0 and made.out.startswith("xscl_")
    assert home("query", "add", "a", FOLLOWS, "--owner", "guest").code == 0
    assert "XSCL_TOO_MANY_QUERIES" in home("query", "add", "b", FOLLOWS, "--owner", "guest").err
    assert home("token", "set", "guest", "--queries", "none", "--cost", "5").code == 0
    assert "XSCL_QUERY_COST" in home("query", "add", "b", FOLLOWS, "--owner", "guest").err
    [row] = json.loads(home("token", "list", "--json").out)
    assert (row["token"], row["queries"], row["cost"]) == ("guest", None, 5)
    assert home("token", "set", "guest", "--cost", "much").code == 2
    assert "XSCL_TOKEN_NOT_FOUND" in home("token", "set", "nobody", "--cost", "1").err


def test_places_that_cannot_be_homes(run: Run) -> None:
    for arguments in (["init", "--home", "/dev/null/x"], ["init", "--catalog", "foo"]):
        ran = run(*arguments)
        assert ran.code == 1 and "error: [XSCL_NO_" in ran.err, arguments


def test_advice_where_many_events_come_late(home: Run, tmp_path: Path) -> None:
    home("channel", "add", "A", "--lateness", "1 min")
    for count, late, is_advised in ((3, 2, False), (12, 11, True)):
        lines = [{"channel": "A", "id": f"{count}-{n}", "ts": 9000 - 600 * n, "xml": "<a/>"} for n in range(count)]
        (tmp_path / "archive.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        ran = home("ingest", "archive.ndjson")
        assert f"{count} events taken, {late} late" in ran.err
        assert ("xscl late replay" in ran.err) == is_advised


def test_homes_are_packed_unpacked_and_replayed(home: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home("channel", "add", "S", "--lateness", "1 h")
    ran = home("channel", "add", "wire-a", "--of", "wire", "--source", "the agency")
    assert ran.err == "stream wire-a of wire\nnote: there was no channel 'wire', so it was made, for documents\n"
    home("query", "add", "Q", FOLLOWS)
    home("ingest", "events.ndjson")
    ran = home("export", "all.tar.gz")
    assert ran.code == 0 and ran.err.startswith("all.tar.gz: 3 events, 1 query, 0 batches; 1 file of ")
    ran = home("import", "all.tar.gz")
    assert ran.code == 1 and "XSCL_HOME_NOT_EMPTY" in ran.err
    ran = home("import", "all.tar.gz", "--home", "copy")
    assert ran.code == 0 and "3 events, 1 query" in ran.err
    assert home("query", "list", "--home", "copy").out == home("query", "list").out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "all.tar.gz").read_bytes())))
    assert home("import", "-", "--home", "other").code == 0
    assert "XSCL_SOURCE_UNREADABLE" in home("import", "none.tar.gz", "--home", "another").err
    assert "XSCL_CANNOT_WRITE" in home("export", "nowhere/all.tar.gz").err
    (tmp_path / "cut.tar.gz").write_bytes((tmp_path / "all.tar.gz").read_bytes()[:-20])
    ran = home("import", "cut.tar.gz", "--home", "another")
    assert ran.code == 1 and ran.err.startswith("error: [XSCL_BAD_ARCHIVE] cut.tar.gz: the archive cannot be taken: ")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["copy", "home", "other"]

    ran = home("export", "--events", "events.gz")
    assert "xscl channel add S --lateness '1 h'" in ran.err.splitlines()
    assert "xscl channel add wire-a --of wire --source 'the agency'" in ran.err.splitlines()
    lines = home("export", "--events", "-").out.splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["register", *["channel"] * 3]
    home("init", "--home", "fresh")
    assert home("ingest", "events.gz", "--home", "fresh").err.startswith("3 events taken, 1 query registered")


def test_doctor_repairs(home: Run, tmp_path: Path) -> None:
    home("query", "add", "Q", FOLLOWS)
    home("ingest", "events.ndjson")
    assert home("doctor", "--repair").err == "there is nothing to repair\n"
    assert home("doctor", "--dry-run").code == 2
    for path in (tmp_path / "home" / "events").iterdir():
        path.unlink()
    ran = home("doctor", "--repair", "--dry-run", "--json")
    assert ran.code == 3 and json.loads(ran.out)[0]["lost"]
    ran = home("doctor", "--repair", "--format", "ndjson")
    assert ran.code == 3 and "3 events are lost (2 of S, 1 of ticks); they can be taken in again" in ran.out
    assert home("doctor", "--repair").code == 0
    assert home("ingest", "events.ndjson").err.splitlines()[-1].startswith("3 events taken")


def test_eval_of_nothing_fails_without_spark(run: Run, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text(EVENTS)
    assert run("eval", "-q", "S//[", "events.ndjson").code == 1
    assert run("eval", "-q", "S//a", "nowhere.xml").code == 1


def test_init_may_be_repeated(home: Run) -> None:
    home("query", "add", "Q", FOLLOWS)
    assert home("init").code == 0
    assert "Q" in home("query", "list").out


def test_channels(home: Run) -> None:
    added = ["channel", "add", "room", "--kind", "rows", "--schema", "room string, temp double", "--lateness", "1 h"]
    assert home(*added).code == 0
    assert home(*added).code == 1
    (row,) = json.loads(home("channel", "list", "--json").out)
    assert (row["schema"], row["lateness"], row["kind"]) == ("room string, temp double", "1 h", "rows")
    assert home("channel", "set", "room", "--lateness", "none", "--clock", "wall").code == 0
    (row,) = json.loads(home("channel", "list", "--json").out)
    assert (row["lateness"], row["clock"], row["schema"]) == ("no limit", "wall", "room string, temp double")
    for wrong in (
        ["set", "nope"],
        ["add", "a", "--kind", "tree"],
        ["add", "a", "--schema", "x string"],
        ["add", "a", "--kind", "rows", "--schema", "x blob"],
        ["add", "a", "--lateness", "soon"],
    ):
        ran = home("channel", *wrong)
        assert ran.code == 1 and "XSCL_" in ran.err, wrong


def test_a_bad_query_gets_line_column_and_caret(home: Run) -> None:
    ran = home("query", "add", "Q", "S//book->x FOLLOWED BY {x=z, 7 days} S//blog->y")
    assert ran.code == 1
    assert "[XSCL_UNBOUND_VARIABLE] line 1, column 27" in ran.err
    assert "\n" + " " * 28 + "^\n" in ran.err
    assert "bound here: x, y" in ran.err
    assert json.loads(home("query", "list", "--json").out) == []


def test_a_file_of_queries_reports_every_bad_one_and_keeps_the_good(home: Run, tmp_path: Path) -> None:
    text = (
        f"CREATE QUERY one AS {FOLLOWS};\nCREATE QUERY two AS S//book[;\nCREATE QUERY three AS S//a;\nDROP QUERY four;"
    )
    (tmp_path / "q.xscl").write_text(text)
    ran = home("query", "load", "q.xscl")
    assert ran.code == 3
    assert (
        "q.xscl:2:29: two: [XSCL_SYNTAX] expected a name, '*', '@name' or 'text()', found ';'\n"
        "  CREATE QUERY two AS S//book[;\n"
        "                              ^\n"
    ) in ran.err
    assert "q.xscl:4:12: four: [XSCL_QUERY_NOT_FOUND] there is no query 'four'\n" in ran.err
    assert [q["query"] for q in json.loads(home("query", "list", "--json").out)] == ["one", "three"]


def test_a_file_of_queries_names_what_nothing_has(home: Run, tmp_path: Path) -> None:
    home("ingest", "events.ndjson")
    (tmp_path / "q.xscl").write_text(
        "CREATE QUERY a AS S//titel;\nCREATE QUERY b AS S//autor\nCREATE QUERY c AS S//autor;\nnowhere[. > 'x'];\n"
        "CREATE QUERY d AS S//autor JOIN {1 h} tick;\nCREATE QUERY a AS S//c"
    )
    ran = home("query", "load", "q.xscl")
    assert ran.code == 3
    never = "this can never hold: '>' compares numbers, so nothing is > 'x'"
    assert ran.err.splitlines() == [
        "registered a",
        "q.xscl:2:27: b: [XSCL_SYNTAX] a ';' is missing behind this statement",
        "  CREATE QUERY b AS S//autor",
        "                            ^",
        "  hint: statements end with ';'",
        "registered c",
        f"q.xscl:4:9: unnamed query: [XSCL_NEVER_HOLDS] {never}",
        "  nowhere[. > 'x'];",
        "          ^^^^^^^",
        "  hint: 'x' is no number; texts are compared by = and !=",
        "registered d",
        "q.xscl:6:14: a: [XSCL_NAME_TAKEN] there is a query 'a' already",
        "  CREATE QUERY a AS S//c",
        "               ^",
        "  hint: drop it first with 'xscl query drop a', or take another name",
        "note: a: no document of channel S so far has an element titel",
        "note: c, d: no document of channel S so far has an element autor; did you mean author?",
        "note: d: there is no channel 'tick' yet; its first event will create it; did you mean 'ticks'?",
        "3 registered, 3 refused",
    ]


def test_misspelt_names_are_answered_by_what_may_be_meant(home: Run, tmp_path: Path) -> None:
    home("ingest", "events.ndjson")
    ran = home("query", "add", "books", "S//autor[./b > '5']")
    assert ran.code == 0 and ran.err.splitlines() == [
        "note: '5' in quotes is compared as the number 5; write it without quotes",
        "note: no document of channel S so far has an element autor; did you mean author?",
        "note: no document of channel S so far has an element b",
        "query books",
    ]
    (tmp_path / "d.xml").write_text("<book><authors/></book>")
    assert "note: no document of channel S so far has an element autor; did you mean authors?" in (
        home("query", "test", "books", "d.xml").err
    )
    home("feed", "add", "http://example.org/feed.xml")
    template = json.loads(home("query", "list", "--json").out)[0]["template"]
    for command, meant in (
        (["query", "show", "book"], "'books'"),
        (["query", "explain", "Books"], "'books'"),
        (["query", "test", "boks", "d.xml"], "'books'"),
        (["query", "drop", "bokks"], "'books'"),
        (["match", "list", "bookz"], "'books'"),
        (["channel", "set", "tick", "--lateness", "1h"], "'ticks'"),
        (["channel", "drop", "tcks"], "'ticks'"),
        (["late", "list", "--channel", "tics"], "'ticks'"),
        (["late", "replay", "--channel", "tics"], "'ticks'"),
        (["template", "show", template[:-1] + "?"], f"'{template}'"),
        (["template", "sql", template[:-2] + "xy"], f"'{template}'"),
        (["template", "datalog", template[1:]], f"'{template}'"),
        (["feed", "set", "http://example.org/feed", "--pause"], "'http://example.org/feed.xml'"),
        (["feed", "drop", "https://example.org/feed.xml"], "'http://example.org/feed.xml'"),
        (["feed", "fetch", "http://example.com/feed.xml"], "'http://example.org/feed.xml'"),
    ):
        ran = home(*command)
        assert ran.code == 1 and f"did you mean {meant}?" in ran.err, (command, ran)
    ran = home("query", "list", "--channel", "tick", "--template", template[1:])
    assert "there is no channel 'tick'; did you mean 'ticks'?" in ran.err
    assert f"there is no template '{template[1:]}'; did you mean '{template}'?" in ran.err


def test_an_atomic_load_takes_all_or_none(home: Run, tmp_path: Path) -> None:
    (tmp_path / "q.xscl").write_text("CREATE QUERY one AS S//a; CREATE QUERY two AS S//book[;")
    assert home("query", "load", "q.xscl", "--atomic").code == 1
    assert json.loads(home("query", "list", "--json").out) == []
    (tmp_path / "q.xscl").write_text("CREATE QUERY one AS S//a; CREATE QUERY two AS S//b;")
    assert home("query", "load", "q.xscl", "--atomic").code == 0
    assert len(json.loads(home("query", "list", "--json").out)) == 2


def test_queries_are_shown_and_dropped(home: Run) -> None:
    home("query", "add", "Q", FOLLOWS)
    assert home("query", "add", "Q", FOLLOWS).code == 1
    assert home("query", "show", "Q").out == (
        "CREATE QUERY Q AS\nS//book->x1[./author->x2]\n  FOLLOWED BY {x2 = x5, 1 w}\nS//blog->x4[./author->x5];\n"
    )
    (facts,) = json.loads(home("query", "show", "Q", "--json").out)
    assert (facts["text"], facts["windows"], facts["joins"]) == (FOLLOWS, [["x4 - x1 IN [1 us, 1 w]"]], ["x2 = x5"])
    assert (facts["select"], facts["publish"], facts["starting"]) == ("*", None, "NOW")
    assert json.loads(home("query", "show", "Q", "--format", "ndjson").out) == facts
    assert home("query", "drop", "Q").code == 0
    assert "XSCL_QUERY_NOT_FOUND" in home("query", "drop", "Q").err
    assert home("query", "add", "Q", FOLLOWS).code == 0, "a dropped name is free again"


def test_what_is_shown_can_be_loaded_elsewhere(home: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.xscl").write_text(
        "DECLARE NAMESPACE ex = 'urn:ex';\n"
        'CREATE QUERY A AS SELECT <hit by="{x}"/> FROM S//ex:a->x JOIN {x = y, 1 h, ONCE} S//b->y;'
    )
    assert home("query", "load", "q.xscl").code == 0
    shown = home("query", "show", "A").out
    other = str(tmp_path / "other")
    home("init", "--home", other)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(shown.encode())))
    assert home("query", "load", "-", "--home", other).code == 0
    assert home("query", "show", "A", "--home", other).out == shown
    first, second = (json.loads(home("query", "explain", "A", "--json", *at).out)[0] for at in ([], ["--home", other]))
    assert first == second | {"text": first["text"]}


def test_stdin_is_named_where_it_is_refused(home: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "CREATE QUERY one AS S//a;\nCREATE QUERY two AS S//b[;\n\n"
        "CREATE QUERY three AS\n  S//c->x JOIN {x = z, 1 h} S//d;\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    ran = home("query", "load", "-")
    assert ran.code == 3
    assert "-:2:26: two: [XSCL_SYNTAX]" in ran.err
    assert "-:5:21: three: [XSCL_UNBOUND_VARIABLE]" in ran.err
    assert "\n    S//c->x JOIN {x = z, 1 h} S//d;\n" + " " * 22 + "^\n" in ran.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    ran = home("query", "load", "-", "--atomic")
    assert ran.code == 1 and "one: [XSCL_NAME_TAKEN]" in ran.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.replace("QUERY one", "QUERY four").encode())))
    ran = home("query", "load", "-", "--atomic")
    assert ran.code == 1 and "four: [XSCL_NOT_REGISTERED]" in ran.err
    assert home("query", "list", "--count").out == "1\n"


def test_queries_are_explained(home: Run) -> None:
    home("query", "add", "Q", FOLLOWS)
    text = home("query", "explain", "Q").out
    for part in ("/author  x2  joined", "S//book/author", "x4 - x1 IN [1 us, 1 w]", "of 1 query: Q", "SELECT DISTINCT"):
        assert part in text
    (record,) = json.loads(home("query", "explain", "Q", "--json").out)
    assert record["joins"] == [{"edge": "e1", "kind": "EQ", "text": "x2 = x5", "compares": "strings"}]
    assert "XSCL_QUERY_NOT_FOUND" in home("query", "explain", "P").err


def test_queries_are_tried_on_documents(home: Run, tmp_path: Path) -> None:
    home("query", "add", "Q", FOLLOWS)
    before = home("query", "list", "--json").out, home("stats").err
    ran = home("query", "test", "Q", "events.ndjson", "--format", "ndjson")
    assert ran.code == 3 and "rejected events.ndjson:2: [XSCL_MALFORMED_DOCUMENT]" in ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["document"], row["block"], row["bindings"]) for row in rows] == [
        ("d1", 1, {"x1": {"node": 0, "value": "A"}, "x2": {"node": 1, "value": "A"}}),
        ("d2", 2, {"x4": {"node": 0, "value": "A"}, "x5": {"node": 1, "value": "A"}}),
    ]
    assert "block 2 (x4): witnesses 1, documents of channel S 2" in ran.err
    assert "note: the query does not read channel ticks" in ran.err
    (tmp_path / "b.xml").write_text("<book>" + "<author>A</author>" * 5 + "</book>")
    ran = home("query", "test", "Q", "b.xml", "--limit", "2", "--format", "table")
    assert ran.code == 0 and "note: the first 2 witnesses" in ran.err
    assert ran.out.splitlines()[1].split() == ["b.xml", "1", "x1=0", "'AAAAA'", "x2=1", "'A'"]
    assert "does not read channel other" in home("query", "test", "Q", "b.xml", "--channel", "other").err
    assert home("query", "test", "Q", "nowhere.xml").code == 1
    assert (home("query", "list", "--json").out, home("stats").err) == before, "nothing was stored"


def test_queries_are_listed_in_pages_and_by_filters(home: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = [f"CREATE QUERY q{i:03} AS {'S//a' if i % 2 else FOLLOWS};" for i in range(120)]
    (tmp_path / "q.xscl").write_text("\n".join(texts))
    assert home("query", "load", "q.xscl").code == 0
    assert len(home("query", "list").out.splitlines()) == 121, "a program gets all"

    def names(*arguments: str) -> list[str]:
        return [
            json.loads(line)["query"]
            for line in home("query", "list", "--format", "ndjson", *arguments).out.splitlines()
        ]

    assert names("--limit", "2", "--after", "q010") == ["q011", "q012"]
    assert names("--limit", "1", "--offset", "5") == ["q005"]
    assert names("--like", "q11?") == [f"q11{i}" for i in range(10)]
    (row,) = json.loads(home("query", "list", "--json", "--limit", "1").out)
    assert len(names("--template", row["template"])) == len(names("--group", str(row["group"]))) == 60
    beginning = row["template"][:12]
    assert len(names("--template", beginning)) == 60
    assert home("query", "list", "--template", beginning, "--count").out == "60\n"
    assert "there is no template" not in home("query", "list", "--template", beginning).err
    refused = home("query", "list", "--template", "t")
    assert refused.code == 1 and "several templates begin with 't': " in refused.err and row["template"] in refused.err
    assert names("--channel", "T") == []
    assert home("query", "list", "--count").out == "120\n"
    assert home("query", "list", "--count", "--channel", "S", "--like", "q0*").out == "100\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    ran = home("query", "list")
    assert "q099" in ran.out and "q100" not in ran.out and "note: 20 more; go on with --after q099" in ran.err
    assert home("query", "list", "--after", "q099").err == ""


def test_what_a_query_publishes_and_sees_is_kept(home: Run) -> None:
    ran = home("query", "add", "Q", "S//a PUBLISH out STARTING ALL")
    assert ran.code == 0 and "PUBLISH" not in ran.err and "STARTING" not in ran.err
    (shown,) = json.loads(home("query", "show", "Q", "--json").out)
    assert (shown["publish"], shown["starting"]) == ("out", "ALL")
    ran = home("query", "add", "P", "out//a PUBLISH S")
    assert ran.code == 1 and "XSCL_CYCLIC_PUBLISH" in ran.err and "S → out → S" not in ran.out


def test_unknown_channels(home: Run) -> None:
    ran = home("query", "add", "Q", "Nope//a", "--strict")
    assert ran.code == 1 and "XSCL_UNKNOWN_CHANNEL" in ran.err and "'Nope'" in ran.err
    ran = home("query", "add", "Q", "Nope//a")
    assert ran.code == 0 and "no channel 'Nope' yet" in ran.err
    ran = home("ingest", "events.ndjson", "--strict")
    assert ran.code == 1 and "XSCL_UNKNOWN_CHANNEL" in ran.err


def test_ingest_takes_the_good_and_names_the_bad(home: Run) -> None:
    ran = home("ingest", "events.ndjson", "nowhere.xml")
    assert ran.code == 3
    assert "3 events taken, 4 rejected" in ran.err
    for line in (
        "events.ndjson:2: [XSCL_MALFORMED_DOCUMENT] line 1, column 7",
        "events.ndjson:3: [XSCL_BAD_EVENT_LINE]",
        "events.ndjson:6: [XSCL_ROW_SCHEMA] column 'price'",
        "nowhere.xml: [XSCL_SOURCE_UNREADABLE]",
    ):
        assert line in ran.err
    again = home("ingest", "events.ndjson")
    assert "0 events taken, 3 known already" in again.err


def test_ingest_takes_rows(home: Run, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("time,room,temp\n2026-06-01 09:30:00,a,21.50\n2026-06-01 09:31:00,NA,x\n")
    options = (
        "--ts",
        "time",
        "--ts-zone",
        "Europe/Berlin",
        "--null",
        "NA",
        "--schema",
        "time text, room text, temp double",
    )
    ran = home("ingest", "r.csv", *options)
    assert (ran.code, ran.err.splitlines()[-1]) == (3, "1 event taken, 1 rejected")
    assert "r.csv:3: [XSCL_ROW_SCHEMA]" in ran.err
    assert "1 known already" in home("ingest", "r.csv", *options).err
    (tmp_path / "t.txt").write_text("1;2\n")
    ran = home("ingest", "t.txt", "--format", "csv", "--no-header", "--schema", "a int, b int", "--delimiter", ";")
    assert ran.err == "1 event taken\n"
    channels = json.loads(home("channel", "list", "--json").out)
    assert [(row["channel"], row["events"]) for row in channels if row["channel"] in ("r", "t")] == [("r", 1), ("t", 1)]
    assert "no column 'when'" in home("ingest", "r.csv", "--ts", "when").err
    assert home("ingest", "r.csv", "--schema", "a").code == 1


def test_ingest_takes_tables_of_databases(home: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("create table r (id integer primary key, v real)")
        database.execute("insert into r values (1, 1.5), (2, null)")
    database.close()
    command = ("ingest", f"sqlite:///{tmp_path / 'x.db'}", "--table", "r", "--key", "id", "--channel", "R")
    assert home(*command).err == "2 events taken\n"
    assert home(*command).err == "0 events taken\n"
    assert home(*command[:4], "--channel", "R").code == 2
    assert "XSCL_NO_COLUMN" in home(*command[:5], "nr", *command[6:]).err


def test_ingest_raises_limits(home: Run, tmp_path: Path) -> None:
    (tmp_path / "large.xml").write_text(f"<a>{'<b/>' * 500_000}</a>")
    ran = home("ingest", "large.xml")
    assert ran.code == 1 and "max_nodes is 500,000" in ran.err
    assert "max_bytes is 1,000" in home("ingest", "large.xml", "--max-bytes", "1000").err
    assert home("ingest", "large.xml", "--max-nodes", "500001").code == 0


def test_records_of_a_file(home: Run, tmp_path: Path) -> None:
    (tmp_path / "set.xml").write_text("<set><r n='1' t='2026-06-01'/>\n<r n='2' t='soon'/></set>")
    ran = home("ingest", "set.xml", "--split", "//r", "--id", "@n", "--ts", "@t")
    assert ran.code == 3 and "1 event taken, 1 rejected" in ran.err
    assert "set.xml:2: [XSCL_BAD_EVENT_TIME] 'soon'" in ran.err
    for wrong in (["--split", "//r[1]"], ["--split", "//r", "--id", "../x"], ["--split", "//q:r"]):
        ran = home("ingest", "set.xml", *wrong)
        assert ran.code == 1 and "XSCL_" in ran.err and "hint" in ran.err, wrong


def ignoring() -> None:
    """As a shell starts what runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("before", [None, ignoring])
def test_following_ends_with_a_report(home: Run, tmp_path: Path, before: Callable[[], None] | None) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "e.ndjson").write_text('{"channel": "S", "xml": "<a/>"}\n')
    command = [sys.executable, "-m", "xscl", "ingest", "in", "--follow", "--every", "50ms"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=before) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "1 event taken\n"
        with (folder / "e.ndjson").open("a") as file:
            file.write('{"channel": "S", "xml": "<b/>"}\nx\n')
        assert "e.ndjson:3: [XSCL_BAD_EVENT_LINE]" in process.stderr.readline()
        assert process.stderr.readline() == "1 event taken, 1 rejected\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "stopped; in all:\n2 events taken, 1 rejected\n"
        assert process.wait() == 3


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose lists are longer than a pipe holds."""
    home = tmp_path_factory.mktemp("many")
    with connect(home=home) as engine:
        engine.register_many(["S//a/b"] * 2_000)
        engine.ingest(Event("S", str(number), number, xml="<a><b/></a>") for number in range(300))
        engine.run_once()
    return home


LISTS = (["query", "list"], ["match", "list"], ["match", "list", "--json"], ["channel", "list"], ["item", "list"])


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_a_reader_who_has_seen_enough_is_no_failure(many: Path, command: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "xscl", "-q", *command, "--home", str(many)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        if command != ["channel", "list"]:
            assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_a_list_ends_at_ctrl_c(many: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "xscl", "match", "list", "--home", str(many)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr.read() == ""
        assert process.wait() == 130


def test_eval_answers_queries_in_parentheses(run: Run, tmp_path: Path) -> None:
    """The inputs end, so that nothing is waited for, and answers about absence are final."""
    told = (("A", "a1", 1, "x"), ("A", "a2", 2, "y"), ("B", "b1", 3, "x"), ("A", "a3", 9, "y"))
    lines = (
        json.dumps({"channel": channel, "id": id_, "ts": ts, "xml": f"<e><k>{key}</k></e>"})
        for channel, id_, ts, key in told
    )
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    (tmp_path / "queries.xscl").write_text(
        "CREATE QUERY none AS SELECT z FROM"
        " (SELECT a FROM A->x[./k->a] NOT FOLLOWED BY {a = b, 3 s} B[./k->b])[./a->z];\n"
        "CREATE QUERY many AS SELECT z, m FROM"
        " (SELECT k AS k, count() AS n FROM A[./k->k] WINDOW 9 s EVERY 9 s GROUP BY k)[./n->m][./k->z];\n"
    )
    ran = run("eval", "queries.xscl", "events.ndjson")
    found = sorted((line["query"], *line["values"].values()) for line in map(json.loads, ran.out.splitlines()))
    assert (ran.code, ran.err.count("note")) == (0, 0)
    expected = [("many", "1", "x"), ("many", "1", "y"), ("many", "1", "y"), ("none", "y"), ("none", "y")]
    assert found == expected


def test_eval_notes_names_that_no_document_has(run: Run, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_text('{"channel": "S", "id": "d1", "ts": 1, "xml": "<book><title/></book>"}\n')
    ran = run("eval", "-q", "S//book/titel", "-q", "S//book[./title]", "-q", "SS//book", "events.ndjson")
    notes = [line for line in ran.err.splitlines() if line.startswith("note: ")]
    assert ran.code == 0 and len(notes) == 2
    assert "titel" in notes[0] and "did you mean title" in notes[0]
    assert "no channel 'SS'" in notes[1] and "did you mean 'S'" in notes[1]


def test_templates_are_listed_with_their_sql(home: Run) -> None:
    home("query", "add", "Q", FOLLOWS)
    (row,) = json.loads(home("template", "list", "--json").out)
    assert (row["queries"], row["joins"], row["blocks"]) == (1, 1, 2)
    text = home("template", "sql", row["template"]).out
    note, _, text = text.partition("\n")
    assert note.startswith(f"-- {1 << 62} is 2^62") and text.startswith("SELECT DISTINCT")
    assert f"rt_{row['template']}" in text
    name = row["template"]
    for command in ("sql", "show", "datalog"):
        assert "XSCL_TEMPLATE_NOT_FOUND" in home("template", command, "t0").err
    shown = home("template", "show", name[:5]).out
    assert name in shown and "1 in 1 group: Q" in shown and "  var1           e1 EQ var2" in shown
    assert home("template", "show", name, "--graph", "dot").out.startswith(f'digraph "{name}"')
    assert home("template", "show", name, "--graph", "mermaid").out.startswith("flowchart")
    assert home("template", "show", name, "--graph", "png").code == 2
    (facts,) = json.loads(home("template", "show", name, "--json").out)
    assert (facts["queries"], facts["groups"], facts["examples"]) == (1, 1, ["Q"])
    assert home("template", "datalog", name).out.startswith("R_out(qid, case, docid1, docid2, node1, node2) :-")
    home("query", "drop", "Q")
    assert "queries   none" in home("template", "show", name).out


def test_usage_errors_exit_with_two(home: Run) -> None:
    assert home("bogus").code == 2
    assert home("match", "list", "--since", "yesterday").code == 2
    assert home("run", "--every", "soon").code == 2
    assert home("eval", "only-queries.xscl").code == 2
    assert home("match", "list", "--limit", "-1").code == 2


def test_listings_have_formats(home: Run) -> None:
    home("query", "add", "Q", FOLLOWS)
    assert (
        home("query", "list", "--format", "csv").out.splitlines()[0]
        == "query,owner,template,group,place,state,suspended_from,reason,level,late_for,text"
    )
    assert json.loads(home("query", "list", "--format", "ndjson").out)["query"] == "Q"
    assert home("query", "list", "--format", "table").out.startswith("query")
    assert home("-q", "query", "add", "P", FOLLOWS).err == ""


def test_commands_without_spark_do_not_import_it(tmp_path: Path) -> None:
    code = """
import json, sys
from xscl.cli.app import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["xscl", *command, "--home", "home"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
    assert "pyspark" not in sys.modules, command
"""
    (tmp_path / "events.ndjson").write_text('{"channel": "S", "xml": "<a/>"}')
    commands = (
        ["init"],
        ["query", "add", "Q", "S//a"],
        ["ingest", str(tmp_path / "events.ndjson")],
        ["stats"],
        ["match", "list"],
        ["channel", "list"],
        ["query", "show", "Q"],
        ["query", "explain", "Q"],
        ["query", "test", "Q", str(tmp_path / "events.ndjson")],
        ["template", "list"],
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(commands)], check=True, cwd=tmp_path, capture_output=True)


def test_the_main_walk_on_spark(home: Run, spark: SparkSession) -> None:
    home("query", "add", "Q", FOLLOWS)
    home("ingest", "events.ndjson")
    assert "not processed yet: " in home("stats").err
    ran = home("run", "--once", "--where", "spark")
    assert ran.code == 0 and "joined in Spark, 1 Spark job;" in ran.err
    home("query", "add", "late_comer", FOLLOWS)
    (batch,) = json.loads(home("stats", "--json").out)
    assert (batch["events"], batch["matches"], batch["joined_in"]) == (3, 1, "spark") and batch["jobs"] == 1
    (match,) = map(json.loads, home("match", "list", "Q").out.splitlines())
    assert match["document"] == "<result><book><author>A</author></book><blog><author>A</author></blog></result>"
    shown = home("match", "show", match["match"][:8])
    assert match["document"] in shown.out and "S  d1" in shown.out
    assert "XSCL_MATCH_NOT_FOUND" in home("match", "show", "zz").err
    assert home("match", "list", "late_comer").out == ""
    (row,) = json.loads(home("sql", "SELECT qid, count(*) AS n FROM matches GROUP BY qid", "--json").out)
    assert row == {"qid": "Q", "n": 1}
    assert json.loads(home("sql", "SELECT 1 AS a, 2 AS a, 3 AS b", "--json").out) == [{"a": 1, "a_2": 2, "b": 3}]
    counted = json.loads(home("sql", "SELECT count(*) AS n FROM rejected", "--json").out)
    assert counted == [{"n": 3}]
    assert "XSCL_SQL" in home("sql", "SELECT * FROM nothing").err
    ran = home("sql", "SELECT 1 / 0")
    assert ran.code == 1 and "[XSCL_SQL]" in ran.err and "Traceback" not in ran.err
    assert home("run", "--once").err == "nothing new\n"
    assert all(row["state"] == "ok" for row in json.loads(home("doctor", "--json").out))
    made = list(Path(os.environ["XSCL_HOME"]).rglob("*"))
    assert any(path.suffix == ".run" for path in made if path.parent.name == "witness")
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700, 0o600}


def test_a_small_batch_needs_no_spark(home: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.engine.opened.start_session", lambda: pytest.fail("Spark was started"))
    home("query", "add", "Q", FOLLOWS)
    home("ingest", "events.ndjson")
    ran = home("run", "--once", "--batch-docs", "1")
    assert ran.code == 0 and "joined in the driver, 0 Spark jobs" in ran.err
    batches = json.loads(home("stats", "--json").out)
    assert [(batch["joined_in"], batch["jobs"]) for batch in batches] == [("driver", 0)] * 3
    assert [match["query"] for match in map(json.loads, home("match", "list").out.splitlines())] == ["Q"]


def test_settings_of_a_run(home: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    def run_once(engine: Engine, *, batch_docs: int, stop: object = None, then: object = None) -> list[object]:
        seen.append(engine._driver.settings)
        return []

    monkeypatch.setattr("xscl.engine.Engine.run_once", run_once)
    for options in ([], ["--where", "driver"], ["--where", "spark"]):
        assert home("run", "--once", *options).code == 0
        assert home("eval", "-q", FOLLOWS, "events.ndjson", *options).code == 3
    expected = [Settings("auto"), Settings("driver"), Settings("spark")]
    assert seen == [settings for settings in expected for _ in ("run", "eval")]


@pytest.mark.parametrize("value", ["executors", "7", ""])
def test_bad_settings_of_a_run(value: str, home: Run) -> None:
    for command in (["run", "--once"], ["eval", "-q", FOLLOWS, "events.ndjson"]):
        ran = home(*command, "--where", value)
        assert ran.code == 2 and "--where" in ran.err and not ran.out


def test_queries_that_came_after_events_are_told(home: Run, spark: SparkSession) -> None:
    home("ingest", "events.ndjson")
    home("query", "add", "Q", FOLLOWS)
    ran = home("run", "--once")
    assert "2 older events skipped for query Q; STARTING ALL includes older events" in ran.err
    assert home("match", "list").out == ""


def test_eval_with_texts_and_bad_input(run: Run, tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "events.ndjson").write_text(EVENTS)
    ran = run("eval", "-q", FOLLOWS, "-q", "S//[", "events.ndjson", "--batch-docs", "1")
    assert ran.code == 3
    assert json.loads(ran.out)["values"] == dict.fromkeys(("x1", "x2", "x4", "x5"), "A")
    assert "XSCL_SYNTAX" in ran.err and "XSCL_MALFORMED_DOCUMENT" in ran.err


def test_late_events(run: Run, tmp_path: Path) -> None:
    run("init")
    assert run("channel", "add", "S", "--lateness", "1s", "--idle", "1h").code == 0
    (channel,) = json.loads(run("channel", "list", "--json").out)
    assert (channel["lateness"], channel["idle"]) == ("1 s", "1 h")
    assert run("channel", "set", "S", "--idle", "none").code == 0
    assert json.loads(run("channel", "list", "--json").out)[0]["idle"] is None
    assert "XSCL_BAD_CHANNEL" in run("channel", "set", "S", "--idle", "99999999 days").err
    lines = [{"channel": "S", "id": f"d{ts}", "ts": ts, "xml": "<a/>"} for ts in (10, 5, 20, 6)]
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "2 late" in run("ingest", "log.ndjson").err
    listed = [json.loads(line) for line in run("late", "list", "--format", "ndjson").out.splitlines()]
    assert [(row["id"], row["ts"], row["replayed"]) for row in listed] == [
        ("d5", "1970-01-01T00:00:05Z", None),
        ("d6", "1970-01-01T00:00:06Z", None),
    ]
    told = run("late", "list", "--events", "--since", "6")
    assert [json.loads(line)["id"] for line in told.out.splitlines()] == ["d6"]
    assert "takes again: 1" in run("late", "replay", "--until", "5").err
    assert "takes again: 1; taken again before: 1" in run("late", "replay").err
    assert "taken again before: 2" in run("late", "replay", "--channel", "S").err
    missing = run("late", "replay", "d10")
    assert missing.code == 1 and "XSCL_LATE_NOT_FOUND" in missing.err
    assert "no late event fits" in run("late", "replay", "--since", "NOW-1d").err
    refused = run("late", "replay", "--since", "yesterday")
    assert refused.code == 2 and "seconds since the epoch" in " ".join(refused.err.split())
    assert "no late event fits" in run("late", "replay", "--since", "2999-01-01T00:00:00Z").err
    for command in ("list", "replay"):
        assert "XSCL_UNKNOWN_CHANNEL" in run("late", command, "--channel", "nowhere").err


def test_cursors_and_windows_of_matches(run: Run, tmp_path: Path) -> None:
    run("init")
    run("query", "add", "Q", FOLLOWS)
    (tmp_path / "events.ndjson").write_text(EVENTS)
    run("ingest", "events.ndjson")
    run("run", "--once")
    first = run("match", "list", "--cursor", "mine")
    (match,) = map(json.loads, first.out.splitlines())
    written = (tmp_path / "mine").read_text()
    assert run("match", "list", "--cursor", "mine").out == "" and (tmp_path / "mine").read_text() == written
    assert run("match", "list", "--after", match["cursor"]).out == ""
    assert run("match", "list", "--after", "start").out == first.out
    assert f"--after {written.strip()}" in run("match", "list", "--after", "start", "--limit", "5").err
    nowhere = run("match", "list", "--cursor", "nowhere/mine")
    assert nowhere.code == 1 and nowhere.out == "" and "XSCL_CANNOT_WRITE" in nowhere.err
    (tmp_path / "mine").write_bytes(b"nonsense \xff")
    assert "--cursor mine" in run("match", "list", "--cursor", "mine").err
    for arguments, condition in (
        (["--cursor", "mine"], "XSCL_BAD_CURSOR"),
        (["--after", "c99"], "XSCL_BAD_CURSOR"),
        (["--window", "3..2"], "XSCL_BAD_WINDOW"),
    ):
        ran = run("match", "list", *arguments)
        assert (ran.code, condition in ran.err) == (2, True)
    assert run("match", "list", "--after", "start", "--cursor", "mine").code == 2
    assert run("match", "list", "--window", "1..3", "--now", "2").out == ""
    assert "cursor" not in json.loads(run("match", "list", "--window", "1..3").out)


def test_inputs_of_other_kinds_are_told_what_to_do(home: Run, tmp_path: Path) -> None:
    told = " ".join(home("ingest", "https://example.org/feed.xml").err.replace("│", " ").split())
    assert "xscl feed add https://example.org/feed.xml" in told
    assert "[XSCL_SOURCE_UNREADABLE] nosuch.opml" in home("feed", "import", "nosuch.opml").err
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n")
    assert "begins with the bytes 89 50 4e 47" in home("ingest", "x.png").err


def test_a_column_that_a_channel_lacks_says_how_to_take_the_others(home: Run, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("at,no,price\n2026-06-01T00:00:00Z,1,2.5\n")
    home("channel", "add", "prices", "--kind", "rows", "--schema", "no bigint, price double")
    home("query", "add", "Q", "prices[./price > 1]")
    for command in (("ingest", "prices.csv", "--ts", "at"), ("query", "test", "Q", "prices.csv")):
        refused = home(*command)
        assert refused.code in (1, 3) and "column 'at' is unknown; expected no, price" in refused.err, refused
        assert "take the others alone, by --columns no,price" in refused.err
    assert "leave it out of --columns" in home("ingest", "prices.csv", "--columns", "at,no").err
    (tmp_path / "other.csv").write_text("x\n1\n")
    assert "named by --channel" in home("ingest", "other.csv", "--channel", "prices").err
    assert home("ingest", "prices.csv", "--ts", "at", "--columns", "no,price").code == 0
