"""What people read is safe for their terminals, whoever wrote it; what programs read is exact."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st

import xscl
from xscl.base import terminal
from xscl.base.errors import MalformedDocumentError, QueryError, SourceError, Span
from xscl.base.shown import dotted, for_terminal, json_escaped, masked, shortened
from xscl.cli.printing import Format, print_rows

ROOT = Path(xscl.__file__).resolve().parent
HOSTILE = (
    "\x1b]0;pwned\x07 \x1b[31mred\x1b[0m \x9b31m \x90q\x9c a\u202eb\u2066c\u2069 z\u200bw \ufeff\u2060 \u00ad "
    "x\r\x08\x08\x7f [red]bold[/red] [link=http://e.org]l[/link] \U000e0041\u3164\u115f :smile:"
)
ALLOWED = {"Cc": "\n\t", "Cf": "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"}


def is_safe(text: str) -> bool:
    """Whether no character is one that terminals obey or hide."""
    return all(
        (kind := unicodedata.category(c)) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or c in ALLOWED.get(kind, "")
        or 0x110BD <= ord(c) <= 0x110CD
        or 0x13430 <= ord(c) <= 0x1343F
        for c in text
    )


# -- the function ------------------------------------------------------------------------------------------------


@given(st.text(st.characters()))
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    assert is_safe(for_terminal(text)) and is_safe(dotted(text)) and len(dotted(text)) == len(text)
    assert for_terminal(for_terminal(text)) == for_terminal(text)
    plain = "".join(c for c in text if c.isascii() and c.isprintable())
    assert for_terminal(plain) == plain


@given(st.text(st.characters()))
def test_json_stays_the_same_json(text: str) -> None:
    written = json_escaped(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text and is_safe(written)


def test_writing_of_the_world_stays() -> None:
    for text in (
        "e\u0301t\u00e9",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "👩\u200d🚀",
        "❤\ufe0f",
        "日本\u3000",
        "a\u00a0b",
    ):
        assert for_terminal(text) == text
    assert for_terminal("pay\u200cpal \u200d") == "pay\\u200cpal \\u200d"


# -- passwords and long names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:SECRET@db.example/x",
        "postgresql+psycopg://ann:SECRET@db:5432/x",
        "postgresql://ann:SE/CRET@db/x",
        "postgresql://ann:SE@CRET@db/x",
        "postgresql://:SECRET@db/x",
        "postgresql://db/x?user=ann&password=SECRET",
        "jdbc:postgresql://db/x?user=ann&password=SECRET&ssl=true",
        "jdbc:sqlserver://db;databaseName=x;user=ann;password=SECRET;encrypt=true",
        "jdbc:oracle:thin:ann/SECRET@//db:1521/x",
        "jdbc:mysql://ann:SECRET@db/x",
        "http://ann:SECRET@a.org/feed",
        "https://SECRET@a.org/feed",
        "HTTPS://Ann:SECRET@a.org:8080/feed?x=1",
        "https://a.org/feed?token=SECRET&b=1",
        "https://a.org/feed?b=1&access_token=SECRET#x",
        "https://a.org/feed?api_key=SECRET",
        "https://a.org/feed?X-Amz-Signature=SECRET",
        "connection refused: 'postgresql://ann:SECRET@db/x' (attempt 2)",
        "ftp://SECRET@a.org/",
        "https://a.org/feed?sslpassword=SECRET",
    ],
)
def test_passwords_are_masked(text: str) -> None:
    assert "SECRET" not in masked(text) and "***" in masked(text)
    assert "CRET" not in masked(text)
    assert masked(masked(text)) == masked(text)
    error = SourceError("XSCL_FETCH", f"cannot read {text}", hint=f"try {text}")
    for shown in (str(error), repr(error), error.message, error.hint or ""):
        assert "SECRET" not in shown
    assert "SECRET" not in str(error.__reduce__())


@pytest.mark.parametrize(
    "text",
    [
        "http://a.org:8080/@user/feed",
        "http://a.org/feed?a=b&page=2",
        "mail ann@example.org: at 10:30",
        "x:a@b",
        "FROM S/r->x[@password='y']->y JOIN {token=x5, 7 days} S/a[token=b]",
        "http://[::1]:80/",
        "a=b",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert masked(text) == text


def test_long_names_are_cut() -> None:
    assert shortened("a" * 1_000_000) == "a" * 199 + "…"
    error = MalformedDocumentError("XSCL_X", f"{'a' * 1_000_000}: the end")
    assert len(error.message) < 5_000 and error.message.endswith(": the end")
    text = "SELECT " + "\u202e" * 10 + "a" * 100_000 + " FROM"
    bad = QueryError("XSCL_SYNTAX", "no", text=text, span=Span(9, 10))
    assert len(str(bad)) < 1_000 and is_safe(str(bad))
    line, caret = str(bad).splitlines()[1:3]
    assert line[caret.index("^")] == "·"


# -- who writes --------------------------------------------------------------------------------------------------

WRITERS = {"print", "pprint"}
METHODS = {"echo", "secho", "print_exc", "print_exception", "print_stack", "confirm", "prompt", "writelines"}
MAKERS = {"Console", "Live", "RichHandler", "StreamHandler", "basicConfig"}
EXACT = {
    ("xscl.cli.printing", "sys.stdout"),  # for CSV
    ("xscl.cli.home", "sys.stdout.buffer"),  # for archives
}


def modules() -> list[tuple[str, str]]:
    found = []
    for folder, name in (
        (ROOT, "xscl"),
        *((ROOT.parent / part, f"xscl.{part}") for part in ("ingest", "xpath", "templates")),
    ):
        for path in sorted(folder.rglob("*.py")):
            dotted_name = ".".join([name, *path.relative_to(folder).with_suffix("").parts])
            found.append((dotted_name, path.read_text(encoding="utf-8")))
    return found


def test_one_module_writes_to_standard_output_and_error() -> None:
    wrong: list[str] = []
    streams: set[tuple[str, str]] = set()
    seen = modules()
    assert len(seen) > 100
    telling = re.compile("|".join({*WRITERS, *METHODS, *MAKERS, "stdout", "stderr"}))
    for name, text in seen:
        if name == "xscl.base.terminal" or not telling.search(text):
            continue
        every = [*ast.walk(ast.parse(text))]
        for node in every:
            if isinstance(node, ast.Call):
                function = node.func
                called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                plain = isinstance(function, ast.Name)
                if (plain and called in WRITERS) or called in MAKERS or (not plain and called in METHODS):
                    wrong.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
            streamed = isinstance(node, ast.Attribute) and node.attr.strip("_") in ("stdout", "stderr")
            if streamed and (stream := ast.unparse(node)).startswith("sys."):
                above = next(one for one in every if node in ast.iter_child_nodes(one))
                use = above.attr if isinstance(above, ast.Attribute) else ""
                if use not in ("isatty", "flush", "fileno"):
                    streams.add((name, ast.unparse(above) if use else stream))
    assert wrong == []
    assert streams <= EXACT


# -- every way out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("notes", [(), ("note",)])
def test_tables(tty: bool, notes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return tty

    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdout", stream := Stream())
    for cell in (HOSTILE, [HOSTILE], {HOSTILE: 1}):
        print_rows([{"a": cell, "note": HOSTILE}], ["a"], Format.table, notes=notes)
    print_rows([{HOSTILE: 1}], [HOSTILE], Format.table, notes=notes)
    shown = stream.getvalue()
    assert is_safe(shown) and "[red]bold[/red]" in shown and "[link=http://e.org]" in shown and ":smile:" in shown
    assert "\\x1b]0;pwned\\x07" in shown


def test_data_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": HOSTILE}]
    for format_ in (Format.json, Format.ndjson, Format.csv):
        monkeypatch.setattr(sys, "stdout", stream := io.StringIO(newline=""))
        print_rows(rows, ["a"], format_)
        written = stream.getvalue()
        if format_ is Format.csv:
            assert list(csv.reader(io.StringIO(written, newline="")))[1:] == [[HOSTILE]]
        else:
            assert is_safe(written)
            read = json.loads(written)
            assert (read[0] if format_ is Format.json else read) == rows[0]


def test_texts_that_may_be_kept_are_exact_but_on_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        tty = False

        def isatty(self) -> bool:
            return self.tty

    monkeypatch.setattr(sys, "stdout", stream := Stream())
    terminal.give(HOSTILE)
    assert stream.getvalue() == HOSTILE + "\n"
    stream.tty = True
    terminal.give(HOSTILE)
    terminal.give_bytes(HOSTILE.encode())
    assert is_safe(stream.getvalue()[len(HOSTILE) + 1 :])


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def run_(*arguments: str) -> tuple[int, str, str]:
        try:
            code = exit_code(monkeypatch, *arguments)
        except Exception as error:
            code = 1
            sys.excepthook(type(error), error, error.__traceback__)
        out, err = capsys.readouterr()
        return code, out, err

    mask = os.umask(0o022)
    assert run_("init")[0] == 0
    yield run_
    os.umask(mask)


BAD = HOSTILE.replace("/", "|")


@pytest.mark.parametrize(
    "arguments",
    [
        (BAD,),
        ("query", BAD),
        ("query", "list", f"--{BAD}"),
        ("query", "list", "--limit", BAD),
        ("query", "list", "--format", BAD),
        ("query", "show", BAD),
        ("query", "drop", BAD),
        ("query", "explain", BAD),
        ("query", "add", "q", f"SELECT * FROM {BAD}"),
        ("query", "add", BAD, "SELECT * FROM S/r->x"),
        ("query", "load", BAD),
        ("ingest", BAD),
        ("ingest", "--channel", BAD, "events.ndjson"),
        ("ingest", "events.ndjson"),
        ("ingest", f"file{BAD}.ndjson"),
        ("ingest", f"feed{BAD}.xml"),
        ("ingest", f"broken{BAD}.xml"),
        ("channel", "list"),
        ("channel", "show", BAD),
        ("feed", "list"),
        ("feed", "add", f"http://a.org|{BAD}"),
        ("feed", "import", "list.opml"),
        ("feed", "drop", BAD),
        ("feed", "fetch", "--wait", BAD),
        ("match", "list", "--query", BAD),
        ("match", "show", BAD),
        ("match", "list", "--since", BAD),
        ("late", "list"),
        ("template", "show", BAD),
        ("stats", "--home", BAD),
        ("export", f"no|{BAD}.tar"),
        ("-v", "query", "show", BAD),
        ("-v", "ingest", BAD),
    ],
)
def test_hostile_arguments_files_and_contents(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    event = {"channel": "S", "id": HOSTILE, "xml": f"<r>{HOSTILE.encode('ascii', 'ignore').decode()}"}
    good = {"channel": "S", "id": HOSTILE, "ts": 1, "xml": "<r/>"}
    for name in ("events.ndjson", f"file{BAD}.ndjson"):
        (tmp_path / name).write_text(
            "\n".join(map(json.dumps, (event, good, {**good, "channel": HOSTILE}))) + "\nx\x1b[31m\n"
        )
    title = "".join(c for c in HOSTILE if c >= " " or c in "\n\t").replace("\x7f", "")
    feed = (
        f"<rss><channel><title>{title}</title><item><title>{title}</title><guid>{title}</guid></item></channel></rss>"
    )
    (tmp_path / f"feed{BAD}.xml").write_text(feed)
    (tmp_path / f"broken{BAD}.xml").write_text(f"<r><{title}")
    (tmp_path / "list.opml").write_text(f'<opml><body><outline text="{title}" xmlUrl="ftp:{title}"/></body></opml>')
    run("ingest", f"feed{BAD}.xml")
    _, out, err = run(*arguments)
    assert is_safe(out) and is_safe(err)
    assert out or err


def test_errors_that_nobody_expected(tmp_path: Path) -> None:
    script = (
        "import sys, xscl.cli.app as c\n"
        "class Bad(Exception): pass\n"
        f"def app(): raise Bad({HOSTILE!r} + ' postgresql://u:SECRET@h/x') from ValueError('x\\x1b[31m u://a:SECRET@b')\n"
        "c.app = app\n"
        "c.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 1 and "Bad" in ended.stderr and "ValueError" in ended.stderr
    assert is_safe(ended.stderr) and "SECRET@" not in ended.stderr.replace("'u://a:SECRET@b'", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("init", "--catalog", "postgresql://ann:SECRET@localhost:1/x?connect_timeout=1"),
        ("-v", "query", "list", "--catalog", "postgresql://ann:SECRET@localhost:1/x"),
        ("query", "list", "--catalog", "postgresql://ann:SECRET@local:host:x/x"),
        ("query", "list", "--catalog", "nosuch://ann:SECRET@localhost/x"),
        ("query", "list", "--catalog", "nosuch:ann:SECRET@localhost/x"),
        ("-v", "feed", "add", "http://ann:SECRET@a.org/"),
        ("feed", "add", "http://ann:SECRET@a.org:99999/"),
        ("feed", "add", "ftp://ann:SECRET@a.org/"),
        ("feed", "add", "http://ann:SECRET@/"),
        ("feed", "add", "http://ann:SECRET@[::1/"),
        ("feed", "drop", "http://ann:SECRET@a.org/"),
        ("feed", "set", "http://ann:SECRET@a.org/", "--pause"),
        ("feed", "fetch", "http://ann:SECRET@a.org/"),
        ("feed", "import", "list.opml"),
        ("feed", "add", "https://a.org/?token=SECRET"),
        ("ingest", "--sql", "postgresql://ann:SECRET@localhost:1/x", "--table", "t", "--channel", "c", "--key", "k"),
    ],
)
def test_passwords_reach_no_output(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "list.opml").write_text(
        '<opml><body><outline text="a" xmlUrl="http://ann:SECRET@a.org/"/><outline xmlUrl="ftp://SECRET@h"/></body></opml>'
    )
    _, out, err = run(*arguments)
    assert out + err
    assert "SECRET" not in out + err


def test_a_feed_with_a_password_is_stored_nowhere(run: Run) -> None:
    run("feed", "add", "http://ann:SECRET@a.org/")
    for command in (("feed", "list", "--json"), ("feed", "export"), ("feed", "list")):
        assert "SECRET" not in "".join(map(str, run(*command)))


TOKENED = "https://a.org/feed?token=SECRET"


def test_listings_for_people_mask_tokens_of_addresses(run: Run) -> None:
    for address in (TOKENED, "https://a.org/feed?token=OTHERSECRET&b=1"):
        assert run("feed", "add", address, "--folder", "News")[0] == 0
    for command in (("feed", "list"), ("feed", "show", "b=1"), ("feed", "list", "--like", "*SECRET")):
        _, out, err = run(*command)
        assert "https://a.org/feed?token=***" in out
        assert "SECRET" not in out + err
    # Programs need the names as they are.
    assert {row["feed"] for row in json.loads(run("feed", "list", "--json")[1])} > {TOKENED}
    assert TOKENED in run("feed", "list", "--format", "csv")[1]
    assert TOKENED in run("feed", "export")[1]


def test_a_feed_is_named_by_its_address_as_a_listing_shows_it(run: Run) -> None:
    run("feed", "add", TOKENED)
    shown = "https://a.org/feed?token=***"
    assert run("feed", "set", shown, "--interval", "2 h")[0] == 0
    assert shown in run("feed", "show", shown)[1]
    run("feed", "add", "https://a.org/feed?token=OTHERSECRET")
    code, _, err = run("feed", "drop", shown)
    assert code == 1 and "2 feeds" in err and "SECRET" not in err
    assert run("feed", "drop", TOKENED)[0] == 0
    assert run("feed", "drop", shown)[0] == 0
    assert run("feed", "drop", shown)[0] == 1


# -- modes -------------------------------------------------------------------------------------------------------


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}


def check_modes(folder: Path) -> None:
    found = modes(folder)
    assert len(found) > 5
    for name, mode in found.items():
        assert mode == (0o700 if (folder / name).is_dir() else 0o600), name


def test_homes_are_the_users_own(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "home"
    check_modes(home)
    (tmp_path / "e.ndjson").write_text('{"channel": "S", "id": "1", "ts": 1, "xml": "<r/>"}\n')
    assert run("ingest", "e.ndjson")[0] == 0
    assert run("query", "add", "q", "SELECT * FROM S/r->x")[0] == 0
    check_modes(home)
    assert run("export", "home.tar")[0] == 0
    assert run("import", "home.tar", "--home", "second")[0] == 0
    check_modes(tmp_path / "second")
    assert (tmp_path / "home.tar").stat().st_mode & 0o777 == 0o600


def test_homes_of_libraries_are_closed_to_others(tmp_path: Path) -> None:
    from xscl.store.home import init_home

    mask = os.umask(0o022)
    try:
        init_home(tmp_path / "new").catalog.close()
        (tmp_path / "empty").mkdir()
        init_home(tmp_path / "empty").catalog.close()
    finally:
        os.umask(mask)
    check_modes(tmp_path / "new")
    check_modes(tmp_path / "empty")
