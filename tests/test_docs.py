"""What the documentation says is so: conditions, queries, the library's example with its output."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xscl.language.syntax.statements import parse_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
sys.path.insert(0, str(ROOT / "docs" / "tools"))
SOURCES = (ROOT / "docs" / "how-to" / "sources.md").read_text(encoding="utf-8")


def test_every_condition_is_documented_and_every_documented_one_exists() -> None:
    sources = [path for folder in ("xscl", "xpath", "templates", "ingest") for path in (ROOT / folder).glob("**/*.py")]
    used = {name for path in sources for name in re.findall(r'"(XSCL_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    used -= {"XSCL_HOME", "XSCL_CRASH_AT", "XSCL_CLASS_ARCHIVE", "XSCL_CONTACT", "XSCL_ALLOW_PRIVATE", "XSCL_MASTER"}
    used -= {"XSCL_REMOTE", "XSCL_TOKEN", "XSCL_URL"}
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


def test_files_of_the_repository_that_pages_name_exist() -> None:
    """Paths in backticks below a folder of the repository: folders end in a slash, files have a suffix."""
    path = r"`((?:xscl|xpath|templates|ingest|tests|docs)/[\w./-]*(?:/|\.\w+))`"
    for page in [ROOT / "README.md", *PAGES]:
        for name in re.findall(path, page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


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
    table = page.split("## What stats shows")[1].split("\n\n")[2]
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


def test_queries_of_the_pages_are_queries() -> None:
    """Blocks of README without a language that hold a query, and all blocks of language xscl."""
    blocks = [block.partition("\n") for block in README.split("```")[1::2]]
    queries = [text for language, _, text in blocks if not language and "FOLLOWED BY" in text]
    assert len(queries) == 2
    for page in PAGES:
        queries += re.findall(r"```xscl\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(queries) > 15
    for text in queries:
        assert [str(item.error) for item in parse_script(text) if item.error] == []


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


def test_scripts_that_pages_show_are_the_files_beside_them() -> None:
    examples = {
        "tutorial/first-match.md": ["tutorial/alerts.xscl"],
        "how-to/join-rows-and-feeds.md": ["house/house.xscl", "market/market.xscl", "market/market.ndjson"],
        "how-to/history.md": ["history/cold.xscl"],
        "explanation/time.md": ["shop/shop.ndjson"],
    }
    for page, files in examples.items():
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for name in files:
            assert f"\n{(ROOT / 'docs' / 'examples' / name).read_text(encoding='utf-8')}```" in text, (page, name)
    # Every example is on a page.
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for path in (ROOT / "docs" / "examples").glob("*/*.*"):
        assert path.name in shown, path


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_commands_of_pages_are_commands(page: Path) -> None:
    import typer.main
    from typer.core import TyperGroup

    from xscl.cli.app import app

    group = typer.main.get_command(app)
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [
        part.partition("\n")[0]
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        for part in block.split("$ ")[1:]
    ]
    lines += re.findall(r"`(xscl [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in lines:
        words = line.partition("  #")[0].split()
        if words[:1] != ["xscl"]:
            continue
        words = [word for word in words if word != "-q"]  # an option of all commands, which stands before them
        if words[1] == "--functions":
            del words[1:3]
        command: object = group
        for word in words[1:3]:
            if isinstance(command, TyperGroup):
                command = command.get_command(typer.Context(command), word) or command
        if command is not group and isinstance(command, TyperGroup) and len(words) == 2 or words[1] == "COMMAND":
            continue  # a group by itself, as "xscl feed"
        assert not isinstance(command, TyperGroup), line
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}  # type: ignore[attr-defined]
        assert {word.strip("[],;") for word in words if re.match(r"\[?--?[a-z]", word)} <= options | {"--help"}, line


CONSOLES = [page for page in PAGES if "```console\n" in page.read_text(encoding="utf-8")]
ON_SPARK = [page for page in CONSOLES if "\n$ xscl sql" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", [page for page in CONSOLES if page not in ON_SPARK], ids=lambda page: page.stem)
def test_commands_of_pages_print_what_they_show(page: Path) -> None:
    from consoles import masked, replayed

    text = page.read_text(encoding="utf-8")
    assert masked(replayed(text)) == masked(text)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", ON_SPARK, ids=lambda page: page.stem)
def test_commands_of_pages_with_sql_print_what_they_show(page: Path) -> None:
    from consoles import masked, replayed

    text = page.read_text(encoding="utf-8")
    assert masked(replayed(text)) == masked(text)


def test_consoles_are_compared() -> None:
    from consoles import masked, replayed

    page = "```console\n$ xscl init\nhome at …/xscl-home\n$ xscl query list --count\n1\n```"
    assert masked(replayed(page)) == page.replace("\n1\n", "\n0\n")
    assert masked("batch 1: 0.25 s, at 2026-11-22T20:34:29.926129Z") == "batch 1: 0 s, at NOW"


def test_the_readme_by_hand_shows_the_match_of_its_example() -> None:
    script, cards = re.findall(r"```\n(.*?)```", README.split("## An example")[1], re.DOTALL)[:2]
    commands = README.split("To do the same by hand")[1].split("```")[1]
    assert commands.count("$F") == 3
    from consoles import in_an_empty_folder, run

    with in_an_empty_folder():
        Path("queries.xscl").write_text(script, encoding="utf-8")
        lines = [line.partition("  #")[0].strip() for line in commands.splitlines() if line.startswith("xscl ")]
        printed = [run(line.replace("$F", "xscl/demo/corpus/earthquakes-past")) for line in lines]
    assert len(printed) == 5
    for line in cards.splitlines()[1:]:
        assert line in printed[-1]


def test_the_english_of_the_pages() -> None:
    from prose import faults, pages

    assert {page.name: found for page in pages() if (found := faults(page))} == {}


def test_the_check_of_english_finds_faults(tmp_path: Path) -> None:
    from prose import faults

    def found(text: str) -> list[str]:
        (tmp_path / "page.md").write_text(text, encoding="utf-8")
        return faults(tmp_path / "page.md")

    assert (
        found("# What is it\n\nWhat is a home? A home is a folder.\n\n| What | it |\n\n```\nIt runs anew.\n```\n") == []
    )
    assert found("A batch ends. What it found stays.\n") == ["begins with 'What': What it found stays."]
    assert found("- Rows are taken in.\n") == ["'taken in', write 'ingest': Rows are taken in."]
    assert len(found("- A row " + "of a table " * 15 + "ends.\n")) == 2


def test_every_command_has_a_section() -> None:
    from commands import commands, commands_text

    text = commands_text()
    assert len(dict(commands())) > 35
    for words, command in commands():
        section = text.split(f"# `{words}`\n", 1)[1].partition("\n#")[0]
        options = {
            name for parameter in command.params if not getattr(parameter, "hidden", False) for name in parameter.opts
        }
        missing = {name for name in options if name.startswith("--") and f"{name}" not in section}
        assert missing <= {"--help"}, words


def test_every_public_name_has_an_entry() -> None:
    import xscl

    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(xscl.__all__) == set(re.findall(r"^::: xscl\.(\w+)$", page, re.MULTILINE))


def test_matches_shown_in_the_readme_come_from_the_bundled_feeds() -> None:
    import gzip

    corpus = ROOT / "xscl" / "demo" / "corpus"
    feeds = "".join(gzip.decompress(path.read_bytes()).decode() for path in corpus.glob("earthquakes*"))
    for title in re.findall(r"quakes      (M .*)", README):
        assert f"<title>{title}</title>" in feeds


def test_commands_of_sources_are_understood() -> None:
    import typer.main

    from xscl.cli.app import app
    from xscl.ingest.reading import Reading

    group = typer.main.get_command(app)
    command = group.get_command(typer.Context(group), "ingest")  # type: ignore[attr-defined]
    lines = [line.split() for line in SOURCES.splitlines() if line.startswith("xscl ingest ") and "…" not in line]
    assert len(lines) == 3
    for _, _, *words in lines:
        given = command.make_context("ingest", words).params
        found = Reading(split=given["split"], id=given["id"], ts=given["ts"])
        assert found.split_path is not None and given["channel"] and given["paths"]


def test_statements_of_sql_in_pages_are_understood(engine: Engine) -> None:
    """All but those over the relations of one template, whose names no other home has."""
    texts = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *PAGES])
    statements = set(re.findall(r"^xscl sql (?:--show-steps )?'([^'\n]+)'", texts, re.MULTILINE))
    statements = {text for text in statements if "rt_" not in text and "owners" not in text}
    assert len(statements) >= 5
    for text in sorted(statements):
        assert engine.sql(text).columns, "Spark has resolved every name"


def test_python_of_sources_runs(engine: Engine, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", SOURCES, re.DOTALL)
    assert len(blocks) == 4
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_text("<r><item id='1'/><item id='2'/></r>")
    (tmp_path / "feeds").mkdir()
    (tmp_path / "feeds" / "f.xml").write_text(
        "<rss><channel><title>T</title><item><guid>g</guid></item></channel></rss>"
    )
    engine.register("news//guid", name="Q1")
    delivered: list[int] = []
    known = {"deliver": lambda batch, number: delivered.append(batch.count()), "spark": engine.spark, "engine": engine}
    for block in blocks[1:]:
        time.sleep(1.1)  # until files are settled
        engine.run_once()
        block = block.replace('"xscl-home"', repr(str(engine.home.root)))
        # Spark's workers are in the folder in which Spark was started.
        for name in ("in", "feeds", "checkpoint", "seen", "delivered"):
            block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
        exec(compile(block, "sources.md", "exec"), known)
    for stream in engine.spark.streams.active:
        stream.processAllAvailable()
        stream.stop()
    assert delivered == [1, 1]
    found = engine.sql("SELECT channel, count(*) FROM events GROUP BY channel ORDER BY channel").collect()
    assert [tuple(row) for row in found] == [("documents", 3), ("news", 1), ("news.raw", 1)]


@pytest.mark.parametrize("name", ["deliver", "library"])
def test_the_example_in_python_prints_what_its_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    code, output = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```", page, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, name, "exec"), {})
    assert capsys.readouterr().out == output
