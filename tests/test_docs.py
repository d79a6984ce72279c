"""What the documentation says is so: conditions, queries, the library's example with its output."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xscl.language.parser import parse_query, parse_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SOURCES = (ROOT / "docs" / "how-to" / "sources.md").read_text(encoding="utf-8")


def test_every_condition_is_documented_and_every_documented_one_exists() -> None:
    sources = [path for folder in ("xscl", "xpath", "templates", "ingest") for path in (ROOT / folder).glob("**/*.py")]
    used = {name for path in sources for name in re.findall(r'"(XSCL_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    used -= {"XSCL_HOME", "XSCL_CRASH_AT", "XSCL_CLASS_ARCHIVE", "XSCL_CONTACT", "XSCL_ALLOW_PRIVATE"}
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(XSCL_[A-Z_]+)`", page))
    for first, rest in re.findall(r"`(XSCL_UNSUPPORTED)_[A-Z]+`((?:, `…_[A-Z]+`)+)", page):
        documented |= {first + name for name in re.findall(r"…(_[A-Z]+)", rest)}
    assert used - documented == set()
    assert documented - used == set()


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(page: Path) -> list[str]:
    return [title.replace("`", "") for title in re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)]


def unknown_places(text: str) -> list[str]:
    """Where a source cites a page of docs, as ``docs/page.md, Heading, Heading``: those that are not there.

    Instead of a heading, the words may be those with which a paragraph begins, in italics.
    """
    wrong = []
    # Comments and documentation strings go on in the next line.
    flowing = re.sub(r"\s+(?:# |// )?", " ", text)
    for name, places in re.findall(r"([\w./-]*\w\.md\b)((?:,[^.;:)\"]*)?)", flowing):
        page = ROOT / name
        if not name.startswith("docs/") or not page.is_file():
            wrong.append(name)
            continue
        leads = re.findall(r"^\*([^*\n]+?)\.?\*", page.read_text(encoding="utf-8"), re.MULTILINE)
        known = sorted([*headings(page), *leads], key=len, reverse=True)
        while places.startswith(", "):
            found = next((title for title in known if places.startswith(f", {title}")), None)
            if found is None:
                # What begins small is no heading; only numbers of sections are meant for one.
                if re.match(r", (?:[A-Z0-9]|sections? )", places):
                    wrong.append(name + places)
                break
            places = places[2 + len(found) :]
    return wrong


def test_pages_and_headings_that_sources_cite_exist() -> None:
    assert unknown_places("(docs/reference/language.md, Joins, Output), docs/explanation/time.md") == []
    assert unknown_places("(language.md, section 4; docs/reference/language.md, section\n    5; docs/no.md)") == [
        "language.md",
        "docs/reference/language.md, section 5",
        "docs/no.md",
    ]
    folders = ("xscl", "xpath", "templates", "ingest", "tests")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".lark")]
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in paths
        # Of code only what is said in it: pages of benchmarks' reports are files of their own.
        if path != Path(__file__) and (found := unknown_places(said(path)))
    }
    assert wrong == {}


def said(path: Path) -> str:
    """The comments and documentation strings of a source."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    comments = re.findall(r"^ *(# .*(?:\n *# .*)*)", text, re.MULTILINE)
    return "\n\n".join([*re.findall(r'"""(.*?)"""', text, re.DOTALL), *comments])


def test_links_between_pages_lead_somewhere() -> None:
    wrong = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if "://" in target:
                continue
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            if not linked.exists() or (anchor and anchor not in map(slug, headings(linked))):
                wrong.append(f"{page.name}: {target}")
    assert wrong == []


def test_columns_of_stats_are_described() -> None:
    from xscl.answers.status import batch_columns

    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("*What stats shows.*")[1].split("\n\n")[1]
    assert sorted(re.findall(r"`([a-z0-9_]+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))) == sorted(
        batch_columns()
    )


def test_the_architecture_has_a_line_for_each_room() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("| room |", 1)[1].split("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)[/.]", row.split("|")[1])]
    rooms = {path.parent.name for path in (ROOT / "xscl").glob("*/__init__.py")} | {"engine"}
    assert sorted(named) == sorted(rooms)


def test_types_of_columns_are_named() -> None:
    from xscl.ingest.rows import COLUMN_TYPES

    for name, heading in (("channels", "| `--schema`"), ("rows", "| type | also |")):
        page = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
        table = page[page.index(heading) :].split("\n" if name == "channels" else "\n\n")[0]
        assert {type_ for type_ in COLUMN_TYPES if f"`{type_}`" in table} == set(COLUMN_TYPES), name


def test_queries_of_the_readme_are_queries() -> None:
    blocks = [block.partition("\n") for block in README.split("```")[1::2]]
    queries = [text for language, _, text in blocks if not language and "FOLLOWED BY" in text]
    assert len(queries) == 4
    for text in queries:
        assert all(item.error is None for item in parse_script(text))
    for text in re.findall(r"`((?:items|ticks|rooms)[./\[][^`…]*)`", README):
        if text != "items.raw":
            parse_query(text)


def test_the_picture_names_the_folders() -> None:
    picture = README.split("## How it works")[1].split("```")[1]
    for folder in ("ingest/", "xpath/", "templates/", "xscl/"):
        assert folder in picture and (ROOT / folder).is_dir()


def test_the_library_example_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    section = README.split("## As a library")[1]
    code, output = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_the_example_of_the_readme_puts_out_what_it_shows(engine: Engine, tmp_path: Path) -> None:
    section = README.split("## How a query reads")[1].split("\n## ")[0]
    script, events, documents = re.findall(r"```(?:json|xml)?\n(.*?)```", section, re.DOTALL)[-3:]
    (tmp_path / "market.ndjson").write_text(events, encoding="utf-8")
    assert all(outcome.ok for outcome in engine.load(script))
    assert engine.ingest(tmp_path / "market.ndjson").rejected == 0
    engine.run_once()
    assert [match.document for match in engine.matches()] == documents.splitlines()


def test_the_house_of_the_readme_puts_out_what_it_shows(engine: Engine) -> None:
    section = README.split("## What comes in")[1].split("\n## ")[0]
    script, documents = (block.partition("\n")[2] for block in section.split("```")[3::2])
    house = ROOT / "docs" / "examples" / "house"
    assert script == (house / "house.xscl").read_text(encoding="utf-8")
    assert all(outcome.ok for outcome in engine.load(script))
    assert engine.ingest(house / "notices.atom", channel="notices").rejected == 0
    assert engine.ingest(house / "rooms.csv", ts="time").rejected == 0
    engine.run_once()
    assert [match.document for match in engine.matches()] == documents.splitlines()


def test_commands_of_the_readme_are_commands() -> None:
    import typer.main
    from typer.core import TyperGroup

    from xscl.cli.app import app

    group = typer.main.get_command(app)
    lines = [line for block in README.split("```sh\n")[1:] for line in block.partition("```")[0].splitlines()]
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] != ["xscl"]:
            continue
        command: object = group
        for word in words[1:3]:
            if isinstance(command, TyperGroup):
                command = command.get_command(typer.Context(command), word) or command
        assert not isinstance(command, TyperGroup), line
        options = {option for parameter in command.params for option in parameter.opts}  # type: ignore[attr-defined]
        assert {word for word in words if word.startswith("-")} <= options, line


def test_matches_shown_in_the_readme_come_from_the_bundled_feeds() -> None:
    import gzip

    corpus = ROOT / "xscl" / "demo" / "corpus"
    feeds = "".join(gzip.decompress(path.read_bytes()).decode() for path in corpus.glob("earthquakes*"))
    for title in re.findall(r"quakes      (M .*)", README):
        assert f"<title>{title}</title>" in feeds


def test_commands_of_sources_are_understood() -> None:
    import typer.main

    from xscl.cli.app import app
    from xscl.intake.inputs import reading_of

    group = typer.main.get_command(app)
    command = group.get_command(typer.Context(group), "ingest")  # type: ignore[attr-defined]
    lines = [line.split() for line in SOURCES.splitlines() if line.startswith("    xscl ingest ") and "…" not in line]
    assert len(lines) == 3
    for _, _, *words in lines:
        given = command.make_context("ingest", words).params
        found = reading_of(split=given["split"], id=given["id"], ts=given["ts"])
        assert found.split is not None and given["channel"] and given["paths"]


def test_python_of_sources_runs(engine: Engine, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", SOURCES, re.DOTALL)
    assert len(blocks) == 3
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_text("<r><item id='1'/><item id='2'/></r>")
    (tmp_path / "feeds").mkdir()
    (tmp_path / "feeds" / "f.xml").write_text(
        "<rss><channel><title>T</title><item><guid>g</guid></item></channel></rss>"
    )
    for block in blocks[1:]:
        time.sleep(1.1)  # until files are settled
        # Spark's workers are in the folder in which Spark was started.
        for name in ("in", "feeds", "checkpoint"):
            block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
        exec(compile(block, "sources.md", "exec"), {"spark": engine.spark, "engine": engine})
    found = engine.sql("SELECT channel, count(*) FROM events GROUP BY channel ORDER BY channel").collect()
    assert [tuple(row) for row in found] == [("documents", 3), ("news", 1), ("news.raw", 1)]


def test_commands_of_history_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No Spark is needed."""
    import shlex

    from xscl.cli.app import main

    page = (ROOT / "docs" / "how-to" / "history.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "examples" / "history" / "cold.xscl").read_text(encoding="utf-8") in page
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))
    shown = "".join(block.partition("```")[0] for block in page.split("```console\n")[1:])
    for part in shown.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        monkeypatch.setattr("sys.argv", shlex.split(command))
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code in (0, None), command
        printed = capsys.readouterr().out
        assert [line.rstrip() for line in printed.splitlines()] == output.splitlines(), command


def test_the_example_of_delivery_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "explanation" / "delivery.md").read_text(encoding="utf-8")
    code, output = re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "delivery.md", "exec"), {})
    assert capsys.readouterr().out == output
