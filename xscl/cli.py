"""The command line: ``xscl noun verb`` (contract: command line).

Data goes to stdout, messages to stderr; exit 0 ok, 1 failure, 2 usage, 3 partly done.  Only ``run``, ``eval``, ``sql``,
``demo`` and ``doctor`` import Spark, and start it if they need it.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from xscl import __version__
from xscl.cli_common import CatalogOption, FormatOption, HomeOption, JsonOption, Output
from xscl.cli_common import complain as _complain
from xscl.cli_common import exit_partly as _exit_partly
from xscl.cli_common import format_of as _format
from xscl.cli_common import open_given as _open
from xscl.cli_common import say as _say
from xscl.cli_feeds import ContactOption, feed_app, poll_settings, report_poll
from xscl.errors import CatalogError, XsclError
from xscl.listing import Format, print_rows
from xscl.settings import DEFAULT_SETTINGS, Settings, parse_size
from xscl.templates.picture import GraphFormat

if TYPE_CHECKING:
    from xscl.batch import BatchReport
    from xscl.ingest.records import Record, Rejected
    from xscl.intake import IntakeReport
    from xscl.trial import BlockWitness
    from xscl.types import Match, QueryOutcome

__all__ = ["app", "main"]

_FEW = 1_000
"""Queries whose channels are looked at for a note."""
_MOST = 2**63 - 1
"""What databases hold."""
_SCREEN = 100  # rows of a table for a person
_SAME = 5
"""Rejections for the same reason that are shown."""
_REPORTED = 100
"""Rejections in a report."""

app = typer.Typer(
    no_args_is_help=True,
    help="Standing queries that join XML documents, feeds and rows by value inside time windows, on Spark.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
channel_app = typer.Typer(no_args_is_help=True, help="Channels: named streams of documents or rows.")
query_app = typer.Typer(no_args_is_help=True, help="Standing queries.")
match_app = typer.Typer(no_args_is_help=True, help="Matches of standing queries.")
template_app = typer.Typer(no_args_is_help=True, help="Query templates: queries grouped by the shape of their joins.")
app.add_typer(channel_app, name="channel")
app.add_typer(feed_app, name="feed")
app.add_typer(query_app, name="query")
app.add_typer(match_app, name="match")
app.add_typer(template_app, name="template")

StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse channels that do not exist.")]
BatchDocsOption = Annotated[int, typer.Option("--batch-docs", min=1, help="Documents in a batch at most.")]
DriverRowsOption = Annotated[
    int,
    typer.Option(
        "--driver-rows",
        min=0,
        max=_MOST,
        help="Batches with more rows or pairs of rows are joined by Spark's executors; with 0 all are.",
    ),
]
CacheOption = Annotated[
    str,
    typer.Option("--cache", metavar="SIZE", help="Memory for join state in this process: bytes, or with k, m or g."),
]


SplitOption = Annotated[
    str | None, typer.Option(help="Take these elements of documents as documents: //item, /set/record, //*:entry.")
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="Where a document has its id: @id, ./head/code; of rows: a column.")
]
TsOption = Annotated[
    str | None, typer.Option(help="Where a document has its event time: pubDate, @date; of rows: 'Date Time'.")
]
DelimiterOption = Annotated[
    str | None, typer.Option(help="Between the values of CSV.", show_default="a comma, in .tsv a tab")
]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether CSV begins with the names of its columns.")
]
NullOption = Annotated[list[str] | None, typer.Option(help="A text of CSV that stands for NULL, such as NA.")]
SchemaOption = Annotated[
    str | None, typer.Option(help="Columns of rows, 'room string, temp double', for a channel without.")
]
ColumnsOption = Annotated[str | None, typer.Option(help="Only these columns of rows, by commas.")]
TsFormatOption = Annotated[
    str | None, typer.Option(help="How times are written: '%m/%d/%Y %H:%M:%S.%f'; or s, ms, us, ns since 1970.")
]
TsZoneOption = Annotated[str, typer.Option(help="Where times without a zone were written.")]
WholeOption = Annotated[bool, typer.Option("--whole", help="Take feeds as documents, do not split them.")]


class RowsFormat(StrEnum):
    """Files of rows."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


_CACHE = f"{DEFAULT_SETTINGS.cache_bytes >> 20}m"


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from xscl.session import java_version

        try:
            java = java_version()[1]
        except XsclError as error:
            java = error.message
        print(f"xscl {__version__}\nSpark {version('pyspark')}\nJava: {java}")  # noqa: T201
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No messages, only data and errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Errors with their Python traceback.")] = False,
) -> None:
    Output.quiet = quiet
    Output.verbose = verbose


def main() -> None:
    """Run the command line."""
    try:
        app()
    except XsclError as error:
        if Output.verbose:
            raise
        _complain(f"error: {error}")
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        _complain("interrupted; what was committed stays, and the rest is done when you run it again")
        sys.exit(130)
    except OSError as error:
        if Output.verbose:
            raise
        # Arrow's errors of files have no more than a path as their text.
        text = f"a file is missing or cannot be used: {error}"
        if error.strerror:
            text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        _complain(f"error: {text}")
        sys.exit(1)


def _settings(driver_rows: int, cache: str) -> Settings:
    try:
        return Settings(driver_rows, parse_size(cache))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cache") from None


# -- home ------------------------------------------------------------------------------------------------------


@app.command()
def init(home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Create a home: catalogue, tables, folders."""
    from xscl.home import default_home, init_home

    made = init_home(home or default_home(), catalog)
    _say(f"home at {made.root}")


@app.command()
def doctor(
    start: Annotated[
        bool, typer.Option("--start", help="Also measure how fast Spark starts, against a plain session; a minute.")
    ] = False,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Check Java, Python packages, Spark, home and catalogue; say what to do."""
    from xscl.doctor import examine
    from xscl.home import default_home

    checks = list(examine(home or default_home(), catalog, start=start))
    rows = [{"check": c.what, "state": "ok" if c.ok else "FAILS", "found": c.found, "advice": c.advice} for c in checks]
    print_rows(rows, ["check", "state", "found", "advice"], _format(format, json))
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


# -- channels --------------------------------------------------------------------------------------------------


@channel_app.command("add")
def channel_add(
    name: str,
    kind: Annotated[str, typer.Option(help="xml or rows")] = "xml",
    element: Annotated[str | None, typer.Option(help="Root element of a row's document.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns: "room string, temp double".')] = None,
    lateness: Annotated[str | None, typer.Option(help="How late an event may be, e.g. '1 h'.")] = None,
    clock: Annotated[str | None, typer.Option(help="A clock shared with other channels.")] = None,
    of: Annotated[str | None, typer.Option(help="Make it a stream of this channel.")] = None,
    source: Annotated[str | None, typer.Option(help="Of a stream: streams of one source share equal events.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Create a channel, or a stream of one."""
    from xscl.channels import add_channel

    opened = _open(home, catalog)
    shape = {"element": element, "schema": schema, "lateness": lateness, "clock": clock}
    add_channel(opened.catalog, name, kind=kind, **shape, of=of, source=source)
    _say(f"channel {name}" if of is None else f"stream {name} of {of}")


@channel_app.command("set")
def channel_set(
    name: str,
    kind: Annotated[str | None, typer.Option(help="xml or rows; only while the channel is empty")] = None,
    element: Annotated[str | None, typer.Option(help="Root element of a row's document.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns: "room string, temp double".')] = None,
    lateness: Annotated[str | None, typer.Option(help="How late an event may be; 'none' for no limit.")] = None,
    clock: Annotated[str | None, typer.Option(help="A clock shared with other channels.")] = None,
    source: Annotated[str | None, typer.Option(help="Of a stream; 'none' for no source.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Change a channel, or the source of a stream."""
    from xscl.channels import set_channel

    opened = _open(home, catalog)
    shape = {"kind": kind, "element": element, "schema": schema, "lateness": lateness, "clock": clock}
    set_channel(opened.catalog, name, **shape, source=source)
    _say(f"channel {name}")


@channel_app.command("drop")
def channel_drop(name: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Remove a channel or a stream that holds no events and that nothing reads."""
    from xscl.channels import drop_channel

    drop_channel(_open(home, catalog).catalog, name)
    _say(f"dropped {name}")


@channel_app.command("list")
def channel_list(
    home: HomeOption = None, catalog: CatalogOption = None, format: FormatOption = None, json: JsonOption = False
) -> None:
    """List channels and, behind each, its streams."""
    from xscl.channels import channel_rows

    columns = ["channel", "of", "source", "kind", "events", "element", "schema", "lateness", "clock"]
    print_rows(channel_rows(_open(home, catalog).catalog), columns, _format(format, json))


# -- queries ---------------------------------------------------------------------------------------------------


@query_app.command("add")
def query_add(
    name: str, text: str, strict: StrictOption = False, home: HomeOption = None, catalog: CatalogOption = None
) -> None:
    """Register a query."""
    from xscl.publishing import later_note
    from xscl.registry import Registry

    registry = Registry(_open(home, catalog).catalog)
    name = registry.register(text, name=name, strict=strict)
    info = registry.catalog.query(name)
    if note := later_note(info.starting):
        _say(f"note: {note}")
    for channel in registry.unknown_channels(text):
        _say(f"note: there is no channel {channel!r} yet; its first event will create it")
    _say(f"query {name}")


@query_app.command("load")
def query_load(
    file: Annotated[str, typer.Argument(help="A file of statements; '-' reads stdin.")],
    strict: StrictOption = False,
    atomic: Annotated[bool, typer.Option("--atomic", help="All statements or none.")] = False,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Register the queries of a file; every bad statement is reported, the good ones are kept."""
    from xscl.registry import Registry

    text = _read_text(file)
    registry = Registry(_open(home, catalog).catalog)
    try:
        outcomes = registry.load(text, strict=strict, atomic=atomic)
    except KeyboardInterrupt:
        kept = "nothing is kept" if atomic else "what was registered until then is kept ('xscl query list --count')"
        _complain(f"interrupted; {kept}")
        raise typer.Exit(130) from None
    _report_outcomes(outcomes, file)
    taken = [outcome for outcome in outcomes if outcome.ok]
    done = Counter(outcome.action for outcome in taken)
    parts = [f"{count} {action}" for action, count in sorted(done.items(), key=lambda item: -item[1])]
    _say(", ".join([*(parts or ["nothing registered"]), f"{len(outcomes) - len(taken)} refused"]))
    for channel in registry.unknown_channels(text) if len(taken) <= _FEW else ():
        _say(f"note: there is no channel {channel!r} yet; its first event will create it")
    _exit_partly(len(taken), len(outcomes) - len(taken))


@query_app.command("list")
def query_list(
    like: Annotated[str | None, typer.Option(help="Names that fit a pattern of '*' and '?'.")] = None,
    template: Annotated[str | None, typer.Option(help="Queries of a template.")] = None,
    group: Annotated[int | None, typer.Option(min=1, max=_MOST, help="Queries of a group: they ask the same.")] = None,
    channel: Annotated[str | None, typer.Option(help="Queries that read a channel.")] = None,
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Names after this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, max=_MOST, help="At most so many.")] = None,
    offset: Annotated[int, typer.Option(min=0, max=_MOST, help="Leave out the first so many.")] = 0,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """List queries by name; for a person the first hundred, for a program all."""
    from xscl.queries import QueryFilter, count_queries, list_queries

    opened = _open(home, catalog)
    wanted = QueryFilter(like, template, group, channel, after, limit, offset)
    if count:
        print(count_queries(opened.catalog, wanted))  # noqa: T201
        return
    printed = _format(format, json)
    if limit is None and printed is Format.table and sys.stdout.isatty():
        wanted = replace(wanted, limit=_SCREEN)
    last = None

    def rows() -> Iterator[dict[str, object]]:
        nonlocal last
        for q in list_queries(opened.catalog, wanted):
            last = q.name
            text = _one_line(q.text)
            yield {"query": q.name, "template": q.template, "group": q.gid, "place": q.docid_from, "text": text}

    shown = print_rows(rows(), ["query", "template", "group", "place", "text"], printed)
    if limit is None and shown == wanted.limit:
        more = count_queries(opened.catalog, replace(wanted, after=last))
        if more:
            _say(f"note: {more:,} more; go on with --after {last}, or take all with --format ndjson")


@query_app.command("show")
def query_show(
    name: str,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Print a query in canonical text, which 'xscl query load -' takes in another home."""
    from xscl.explain import canonical_text, query_facts

    opened = _open(home, catalog)
    if json or format is not None:
        facts = query_facts(opened.catalog, name)
        print_rows([facts], [*facts], _format(format, json))
        return
    print(canonical_text(opened.catalog.query(name)))  # noqa: T201


@query_app.command("explain")
def query_explain(name: str, home: HomeOption = None, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Explain a query: normal form, canonical variables, windows, template, who shares it, SQL."""
    from xscl.explain import explain, explanation_text

    found = explain(_open(home, catalog).catalog, name)
    if json:
        print_rows([found.record()], [], Format.json)
        return
    print(explanation_text(found))  # noqa: T201


@query_app.command("test")
def query_test(
    name: str,
    files: Annotated[
        list[str], typer.Argument(help="Event files, XML documents, feeds, files of rows, archives, directories, '-'.")
    ],
    channel: Annotated[
        str | None,
        typer.Option(help="Channel of what is read.", show_default="the query's, if it reads only one"),
    ] = None,
    whole: WholeOption = False,
    split: SplitOption = None,
    id: IdOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    null: NullOption = None,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many witnesses; 0 for all.")] = 100,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Show which witnesses documents give: the nodes and values of each block's variables.  Nothing is stored."""
    from xscl.ingest.sources import read_paths
    from xscl.inputs import reading_of
    from xscl.trial import Trial

    opened = _open(home, catalog)
    trial = Trial(opened.catalog.query(name), opened.catalog.channels(), opened.catalog.streams())
    read = {of_channel.removesuffix(".raw") for _, of_channel in trial.blocks}
    if channel is None:
        channel = next(iter(read)) if len(read) == 1 else None
    reading = reading_of(
        channel=channel,
        whole=whole,
        split=split,
        id=id,
        delimiter=_delimiter(delimiter),
        header=header,
        null=null or (),
        schema=schema,
        columns=columns,
    )
    found = trial.witnesses(read_paths(files, reading, stdin=sys.stdin.buffer))
    printed = _format(format, json)
    as_row = _witness_line if printed is Format.table else _witness_record
    rows = (as_row(witness) for witness in itertools.islice(found, limit or None))
    wide = ["document", "channel", "block", "name", "bindings"]
    shown = print_rows(rows, ["document", "block", "witness"] if printed is Format.table else wide, printed)
    if limit and shown == limit:
        _say(f"note: the first {limit} witnesses; there may be more, --limit 0 gives all")
    for problem in trial.problems:
        _complain(_rejection(problem))
    documents = trial.documents.total()
    for number, (block, of_channel) in enumerate(trial.blocks, start=1):
        _say(
            f"block {number} ({block}): witnesses {trial.found[number]}, documents of channel {of_channel} "
            f"{trial.documents[of_channel]}"
        )
    for other in sorted(name for name in trial.documents if name.removesuffix(".raw") not in read):
        _say(f"note: the query does not read channel {other}, of which {trial.documents[other]} documents came")
    _exit_partly(documents, len(trial.problems))


@query_app.command("drop")
def query_drop(name: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """End a query; its matches stay."""
    from xscl.registry import Registry

    Registry(_open(home, catalog).catalog).drop(name)
    _say(f"dropped {name}")


# -- events ----------------------------------------------------------------------------------------------------


@app.command()
def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Event files, XML documents, feeds, files of rows, archives, directories, '-'; or a database's URL."
        ),
    ],
    channel: Annotated[str | None, typer.Option(help="Channel of documents, feed items and rows.")] = None,
    whole: WholeOption = False,
    split: SplitOption = None,
    id: IdOption = None,
    ts: TsOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is added, until stopped.")] = False,
    every: Annotated[str, typer.Option(help="How often --follow looks.")] = "5s",
    strict: StrictOption = False,
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of a document.")] = 16 * 1024 * 1024,
    max_nodes: Annotated[int, typer.Option(min=1, help="Elements, attributes and the like of a document.")] = 500_000,
    format: Annotated[
        RowsFormat | None, typer.Option("--format", help="Rows in this format.", show_default="by name and content")
    ] = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    null: NullOption = None,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    ts_format: TsFormatOption = None,
    ts_zone: TsZoneOption = "UTC",
    table: Annotated[str | None, typer.Option(help="A table or view of the database whose URL is given.")] = None,
    key: Annotated[str | None, typer.Option(help="Its growing key; only rows above the last one are read.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Take in documents, feeds, event files and rows; 'xscl run' processes them."""
    from xscl.ingest.sources import read_paths
    from xscl.inputs import follow_paths, reading_of
    from xscl.intake import Intake, IntakeReport
    from xscl.safexml import Limits

    opened = _open(home, catalog)
    limits = Limits(max_bytes=max_bytes, max_nodes=max_nodes)
    reading = reading_of(
        channel=channel,
        whole=whole,
        split=split,
        id=id,
        ts=ts,
        limits=limits,
        format=format.value if format else None,
        delimiter=_delimiter(delimiter),
        header=header,
        null=null or (),
        schema=schema,
        columns=columns,
        ts_format=ts_format,
        ts_zone=ts_zone,
    )
    if table is None and (urls := [path for path in paths if "://" in path]):
        raise typer.BadParameter(
            f"{urls[0].partition('://')[0]}:// is no file; a database goes with --table, --key and --channel, "
            "a feed with 'xscl feed add URL'"
        )
    intake = Intake(opened, strict=strict, limits=limits)
    if table is not None:
        from xscl.sql_intake import take_sql_table

        if key is None or channel is None or len(paths) != 1:
            raise typer.BadParameter("--table goes with one URL of a database, --key and --channel")
        if follow:
            raise typer.BadParameter("--table reads what is there now; to go on, call it again", param_hint="--follow")
        report = take_sql_table(intake, paths[0], table, key=key, channel=channel, how=reading.rows)
        _report_intake(report)
    elif not follow:
        report = intake.take(_with_progress(read_paths(paths, reading, stdin=sys.stdin.buffer)))
        _report_intake(report)
    else:
        report = IntakeReport()
        try:
            for part in follow_paths(intake, paths, reading, every=every):
                report.add(part)
                if part != IntakeReport():
                    _report_intake(part)
        except KeyboardInterrupt:
            _say("stopped; in all:")
            _say(_summary(report))
    done = report.taken + report.duplicates + report.shared + report.registered + report.dropped
    _exit_partly(done, report.rejected)


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then stop.")] = False,
    every: Annotated[str, typer.Option(help="How often to look for new events.")] = "30s",
    fetch: Annotated[bool, typer.Option("--fetch", help="Before that, ask the feeds that are due.")] = False,
    contact: ContactOption = None,
    batch_docs: BatchDocsOption = 10_000,
    driver_rows: DriverRowsOption = DEFAULT_SETTINGS.driver_rows,
    cache: CacheOption = _CACHE,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Process what was taken in: once, or until stopped."""
    from xscl.durations import parse_duration
    from xscl.engine import Engine
    from xscl.status import skipped_notes

    try:
        pause = parse_duration(every) / 1e6
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from None
    settings = _settings(driver_rows, cache)
    with Engine(_open(home, catalog), settings=settings) as engine, engine.alone():
        while True:
            began = time.monotonic()
            if fetch:
                report_poll(engine.fetch_feeds(settings=poll_settings(contact, patience_s=pause)), only_news=True)
            first = engine.home.catalog.processed()[0] + 1
            for report in engine.run_once(batch_docs=batch_docs):
                _report_batch(report)
            for note in skipped_notes(engine.home.catalog, first):
                _say(note)
            if once:
                return
            time.sleep(max(0.0, pause - (time.monotonic() - began)))


# -- answers ---------------------------------------------------------------------------------------------------


@match_app.command("list")
def match_list(
    query: Annotated[str | None, typer.Argument(help="Only matches of this query.")] = None,
    since: Annotated[str | None, typer.Option(help="Match time at or after (ISO 8601 or seconds).")] = None,
    until: Annotated[str | None, typer.Option(help="Match time at or before.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, max=_MOST, help="At most so many.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """List matches, sorted by time, query and match."""
    from xscl.matches import list_matches

    found = list_matches(
        _open(home, catalog), query=query, since=_time(since, "--since"), until=_time(until, "--until")
    )
    _print_matches(itertools.islice(found, limit), _format(format, json, piped=Format.ndjson))


@match_app.command("show")
def match_show(match: str, home: HomeOption = None, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Show one match with its output document; the first characters of its id suffice."""
    from xscl.matches import find_match, match_json
    from xscl.types import format_time

    found = find_match(_open(home, catalog), match)
    if json:
        print_rows([match_json(found)], [], Format.ndjson)
        return
    lines = [f"match  {found.id}", f"query  {found.query}", f"time   {format_time(found.ts)}"]
    lines += [f"event  {e.channel}  {e.id}  {format_time(e.ts)}" for e in found.events]
    lines += [f"node   {name} = {node}" for name, node in found.nodes.items()]
    lines += [f"value  {name} = {value}" for name, value in found.values.items()]
    print("\n".join([*lines, "", found.document]))  # noqa: T201


@template_app.command("list")
def template_list(
    home: HomeOption = None, catalog: CatalogOption = None, format: FormatOption = None, json: JsonOption = False
) -> None:
    """List templates, those with most queries first."""
    rows = [
        {
            "template": template.id,
            "blocks": template.block_count,
            "variables": template.width,
            "joins": len(template.joins),
            "queries": queries,
            "groups": groups,
            "shape": template.certificate,
        }
        for template, queries, groups in _open(home, catalog).catalog.templates()
    ]
    columns = ["template", "blocks", "variables", "joins", "queries", "groups", "shape"]
    print_rows(rows, columns, _format(format, json))


@template_app.command("show")
def template_show(
    template: str,
    graph: Annotated[GraphFormat | None, typer.Option(help="Print only the join graph, so.")] = None,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    json: JsonOption = False,
) -> None:
    """Show a template: its join graph, and how many queries have it."""
    from xscl.explain import template_facts, template_text
    from xscl.templates.picture import join_graph

    opened = _open(home, catalog)
    if json:
        print_rows([template_facts(opened.catalog, template)], [], Format.json)
    elif graph is not None:
        print(join_graph(opened.catalog.template(template), graph))  # noqa: T201
    else:
        print(template_text(opened.catalog, template))  # noqa: T201


@template_app.command("sql")
def template_sql(template: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Print a template's conjunctive query as Spark SQL; it runs in 'xscl sql' as it is."""
    from xscl.templates.sql import cq_statement, spark_text

    print(spark_text(cq_statement(_open(home, catalog).catalog.template(template))))  # noqa: T201


@template_app.command("datalog")
def template_datalog(template: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """Print a template's conjunctive query as a Datalog rule, as the thesis writes it."""
    from xscl.templates.picture import datalog

    print(datalog(_open(home, catalog).catalog.template(template)))  # noqa: T201


@app.command()
def sql(
    statement: str,
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows; 0 for all.")] = 1000,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Run a read-only Spark SQL statement over the home's relations."""
    from xscl.engine import Engine
    from xscl.views import sql_errors

    frame = Engine(_open(home, catalog)).sql(statement)
    with sql_errors():
        rows = (frame.limit(limit + 1) if limit else frame).toArrow().to_pylist()
    if limit and len(rows) > limit:
        rows = rows[:limit]
        _say(f"note: only the first {limit} rows; --limit 0 gives all")
    print_rows(rows, frame.columns, _format(format, json))


@app.command()
def stats(
    home: HomeOption = None, catalog: CatalogOption = None, format: FormatOption = None, json: JsonOption = False
) -> None:
    """Print what each batch did, and what the home holds (columns: docs/architecture.md, What stats shows)."""
    from xscl.status import batch_columns, batch_rows, state_notes

    opened = _open(home, catalog)
    print_rows(batch_rows(opened.catalog), batch_columns(), _format(format, json))
    for note in state_notes(opened):
        _say(note)


@app.command("eval")
def eval_(
    arguments: Annotated[list[str], typer.Argument(metavar="QUERIES PATH…", help="A file of queries, then inputs.")],
    query: Annotated[
        list[str] | None, typer.Option("-q", "--query", help="A query's text; then all arguments are inputs.")
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Channel of documents, feed items and rows.")] = None,
    whole: WholeOption = False,
    split: SplitOption = None,
    id: IdOption = None,
    ts: TsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    null: NullOption = None,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    ts_format: TsFormatOption = None,
    ts_zone: TsZoneOption = "UTC",
    batch_docs: BatchDocsOption = 10_000,
    driver_rows: DriverRowsOption = DEFAULT_SETTINGS.driver_rows,
    cache: CacheOption = _CACHE,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate queries over inputs in a temporary home, and list the matches."""
    from xscl.engine import Engine
    from xscl.home import init_home
    from xscl.ingest.sources import read_paths
    from xscl.inputs import reading_of
    from xscl.intake import Intake
    from xscl.registry import Registry
    from xscl.scratch import temporary_folder

    texts = list(query or [])
    if not texts and len(arguments) < 2:
        raise typer.BadParameter("give a file of queries and at least one input, or -q TEXT and inputs")
    inputs = arguments if texts else arguments[1:]
    settings = _settings(driver_rows, cache)
    reading = reading_of(
        channel=channel,
        whole=whole,
        split=split,
        id=id,
        ts=ts,
        delimiter=_delimiter(delimiter),
        header=header,
        null=null or (),
        schema=schema,
        columns=columns,
        ts_format=ts_format,
        ts_zone=ts_zone,
    )
    with temporary_folder("xscl-eval") as folder:
        opened = init_home(folder)
        registry = Registry(opened.catalog)
        outcomes = registry.register_many(texts) if texts else registry.load(_read_text(arguments[0]))
        _report_outcomes([o for o in outcomes if not o.ok or o.note], "-q" if texts else arguments[0])
        records = read_paths(inputs, reading, stdin=sys.stdin.buffer)
        report = Intake(opened).take(records)
        if report.rejected:
            _report_intake(report, kept=False)
        if not report.taken or not any(outcome.ok for outcome in outcomes):
            bad = report.rejected or any(not outcome.ok for outcome in outcomes)
            raise typer.Exit(1 if bad else 0)
        engine = Engine(opened, settings=settings)
        engine.run_once(batch_docs=batch_docs)
        _print_matches(engine.matches(), _format(format, json, piped=Format.ndjson))
        bad = len([o for o in outcomes if not o.ok]) + report.rejected
        _exit_partly(len([o for o in outcomes if o.ok]) + report.taken, bad)


@app.command()
def demo(
    home: Annotated[Path | None, typer.Option("--home", help="Keep the demonstration's home here.")] = None,
) -> None:
    """Run the main job on bundled real feeds and print matches a person can read."""
    from xscl.demo.show import run_demo

    run_demo(home)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="Which (docs/benchmarks.md); or all.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write tables, plots and the machine's data here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object of figures.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, within about a minute.")] = False,
    queries: Annotated[int | None, typer.Option(min=1, help="How many queries.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="How many documents.")] = None,
    batch_docs: Annotated[int | None, typer.Option(min=1, help="How many documents in a batch.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 1,
    workload: Annotated[str, typer.Option(help="For register: two-level, three-level or rss.")] = "two-level",
    windows: Annotated[str, typer.Option(help="For register: '7 days'; random: '1 h..30 days'.")] = "unbounded",
) -> None:
    """Measure, with baselines in the same run (docs/benchmarks.md)."""
    from json import dumps

    from xscl.bench.benches import BENCHES, BenchSettings
    from xscl.bench.plot import can_draw
    from xscl.bench.report import write_report
    from xscl.bench.workload import SCHEMAS, Windows

    if name != "all" and name not in BENCHES:
        raise typer.BadParameter(f"there is no bench {name!r}; there are: all, {', '.join(BENCHES)}")
    if workload not in SCHEMAS:
        raise typer.BadParameter(f"there is no workload {workload!r}; there are: {', '.join(SCHEMAS)}")
    try:
        Windows.parse(windows)
    except ValueError as error:
        raise typer.BadParameter(f"--windows: {error}") from None
    settings = BenchSettings(quick, queries, seed, workload, windows, items, batch_docs)
    reports = [run(settings, _say) for bench, run in BENCHES.items() if name in ("all", bench)]
    for report in reports:
        if out is not None:
            written = write_report(report, out)
            _say("written: " + ", ".join(map(str, written)))
            if not can_draw():
                _say("no plots: matplotlib is not installed (pip install 'xscl[bench]')")
        if not json:
            print_rows(report.table, list(report.table[0]), Format.table)
            print()  # noqa: T201
            rows = [{"figure": figure, "value": value} for figure, value in report.figures.items()]
            print_rows(rows, ["figure", "value"], Format.table)
    if json:
        figures = {r.bench: {**r.figures, "table": [dict(row) for row in r.table]} for r in reports}
        print(dumps(figures if name == "all" else figures[name]))  # noqa: T201
    if wrong := [report.bench for report in reports if report.figures.get("digest_equal") is False]:
        _complain(f"error: the variants of {', '.join(wrong)} gave different results: their figures compare nothing")
        raise typer.Exit(1)


# -- printing --------------------------------------------------------------------------------------------------


def _read_text(file: str) -> str:
    from xscl.registry import read_script

    if file != "-":
        return read_script(file)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CatalogError("XSCL_SOURCE_UNREADABLE", "-: it is not UTF-8 text") from None


def _delimiter(text: str | None) -> str | None:
    return "\t" if text == "\\t" else text


def _time(text: str | None, option: str) -> int | None:
    from decimal import Decimal, InvalidOperation

    from xscl.types import to_micros

    if text is None:
        return None
    try:
        try:
            return to_micros(Decimal(text))
        except InvalidOperation:
            return to_micros(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _report_outcomes(outcomes: Iterable[QueryOutcome], file: str) -> None:
    for outcome in outcomes:
        if outcome.error is None:
            _say(f"{outcome.action} {outcome.name}")
            if outcome.note:
                _say(f"note: {outcome.name}: {outcome.note}")
        else:
            _complain(f"{file}:{outcome.line}: {outcome.name or 'unnamed query'}: {outcome.error}")


def _rejection(problem: Rejected) -> str:
    where = f"{problem.source}: " if problem.source else ""
    return f"rejected {where}[{problem.condition}] {problem.message.removeprefix(where)}"


def _report_intake(report: IntakeReport, *, kept: bool = True) -> None:
    # A file read with a wrong option is refused a line at a time, for one reason.
    same: Counter[tuple[str, str]] = Counter()
    shown = 0
    for problem in report.problems:
        same[problem.condition, problem.message] += 1
        if same[problem.condition, problem.message] <= _SAME:
            _complain(_rejection(problem))
            shown += 1
    # One problem may stand for all rows of a table; only the first problems are in the report.
    if shown < len(report.problems) or len(report.problems) >= _REPORTED:
        _complain("… and more" + (", see relation 'rejected'" if kept else ""))
    for flaw in report.flaws:
        _complain(f"{flaw}; read tolerantly")
    _say(_summary(report))


def _summary(report: IntakeReport) -> str:
    parts = [f"{report.taken} events taken"]
    for count, what in (
        (report.versions, "of them new versions"),
        (report.duplicates, "known already"),
        (report.shared, "known by another stream"),
        (report.late, "late"),
        (report.rejected, "rejected"),
        (report.tolerant, "feeds read tolerantly"),
        (report.registered, "queries registered"),
        (report.dropped, "queries dropped"),
    ):
        if count:
            parts.append(f"{count} {what}")
    return ", ".join(parts)


def _report_batch(report: BatchReport) -> None:
    if report.events:
        published = f", {report.published} published" if report.published else ""
        jobs = "" if report.jobs is None else f", {report.jobs} Spark jobs"
        _say(
            f"batch {report.batch}: {report.events} events, {report.witnesses} witnesses, {report.pairs} candidate "
            f"pairs, {report.matches} stored matches{published}, joined in the {report.joined_in}{jobs}; "
            f"stage 1 {report.stage1_s:.2f} s, joins {report.join_s:.2f} s"
        )


def _print_matches(found: Iterator[Match], format_: Format) -> None:
    from xscl.matches import match_json

    rows = (match_json(match) for match in found)
    if format_ is Format.table:
        short = (_short(row) for row in rows)
        print_rows(short, ["match", "query", "ts", "events", "values"], format_)
        return
    print_rows(rows, ["match", "query", "ts", "events", "nodes", "values", "document"], format_)


def _witness_record(witness: BlockWitness) -> dict[str, object]:
    bindings = {name: {"node": bound.node, "value": bound.value} for name, bound in witness.bindings.items()}
    return {
        "document": witness.document,
        "channel": witness.channel,
        "block": witness.block,
        "name": witness.name,
        "bindings": bindings,
    }


def _witness_line(witness: BlockWitness) -> dict[str, object]:
    bindings = (f"{name}={bound.node} {_cut(bound.value, 40)!r}" for name, bound in witness.bindings.items())
    return {"document": witness.document, "block": witness.block, "witness": "  ".join(bindings)}


def _short(row: dict[str, object]) -> dict[str, object]:
    events, values = row["events"], row["values"]
    assert isinstance(events, list) and isinstance(values, dict)
    return {
        "match": str(row["match"])[:12],
        "query": row["query"],
        "ts": row["ts"],
        "events": "  ".join(f"{e['channel']}:{e['id']}" for e in events),
        "values": "  ".join(f"{name}={_cut(str(value))}" for name, value in values.items()),
    }


def _cut(text: str, size: int = 60) -> str:
    text = _one_line(text)
    return text if len(text) <= size else text[: size - 1] + "…"


def _with_progress(records: Iterable[Record]) -> Iterator[Record]:
    """Show a person how far the intake is; programs see nothing."""
    if Output.quiet or not sys.stderr.isatty():
        yield from records
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("intake")
        for record in records:
            progress.advance(task)
            yield record
