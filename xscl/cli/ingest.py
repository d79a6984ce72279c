"""``xscl ingest`` and ``xscl eval``: what comes in."""

from __future__ import annotations

import itertools
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from xscl.base.errors import XsclError
from xscl.base.settings import DEFAULT_BATCH_DOCS, DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES
from xscl.base.shown import counted, masked
from xscl.cli.match_print import MatchPrinting, print_matches
from xscl.cli.options import (
    BatchDocsOption,
    ServedOptions,
    SparkOptions,
    StrictOption,
    WorkOptions,
    complain,
    exit_partly,
    held_by_databases,
    needs_home,
    read_text,
    rejection,
    report_losses,
    report_notes,
    report_outcomes,
    say,
)
from xscl.cli.progress import shown_progress, shown_records
from xscl.cli.reading_options import ChannelOption, IngestReading, TimedReading
from xscl.cli.signals import interrupted_by_ctrl_c

if TYPE_CHECKING:
    from xscl.base.settings import Where
    from xscl.cli.client import Client
    from xscl.ingest.reading import Reading
    from xscl.intake.inputs import Taker
    from xscl.intake.intake import Intake, IntakeReport
    from xscl.spark.session_options import SessionOptions
    from xscl.store.home import Home

__all__ = ["eval_", "ingest"]


_QUERY = re.compile(r"->|//|\{|\bFROM\b|^\s*(SELECT|CREATE)\b", re.IGNORECASE)
"""Parts of a query's text that hardly a path has."""
_MANY_LATE = 10
"""Late events of one call that call for advice."""
_SAME = 5
"""Rejections for the same reason that are shown."""


_REPORTED = 100
"""Rejections in a report."""


_SMALL = 8 * 1024 * 1024
"""Bytes of inputs that go to a service that nobody named."""


def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Event files, XML documents, feeds, files of rows, archives, directories, '-'; or a database's URL."
        ),
    ],
    channel: ChannelOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is added, until stopped.")] = False,
    every: Annotated[str, typer.Option(help="How often --follow looks.")] = "5s",
    strict: StrictOption = False,
    table: Annotated[str | None, typer.Option(help="A table or view of the database whose URL is given.")] = None,
    key: Annotated[str | None, typer.Option(help="Its growing key; only rows above the last one are read.")] = None,
    *,
    options: IngestReading,
    work: WorkOptions,
    on: SparkOptions,
    at: ServedOptions,
) -> None:
    """Take in documents, feeds, event files and rows; 'xscl run' processes them, and a service by itself.

    Example: xscl ingest feeds/ --channel news
    xscl ingest readings.csv --channel readings --id seq --ts time --null NA
    xscl ingest events.ndjson --url http://127.0.0.1:8080
    """
    reading, session = options.reading(channel), on.session()
    if table is None:
        _refuse_urls(paths)
    own_limits = (options.max_bytes, options.max_nodes) != (DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES)
    only_home = follow or strict or table is not None or own_limits
    only_home = only_home or work.where != "auto" or on.are_given or not _are_small(paths)
    if (client := at.client(only_home=only_home)) is None:
        from xscl.intake.intake import Intake

        intake = Intake(at.open(), strict=strict, limits=reading.limits)
        if table is not None:
            report = _take_table(intake, paths, table, key, reading, follow=follow)
        elif follow:
            report = _follow_home(intake, paths, reading, every)
        else:
            report = _take_files(intake, paths, reading, work.settings().where, session)
        _exit_as(report)
        return
    if table is not None:
        raise needs_home("ingest --table", "how far a table was read stands in the catalogue of the home")
    if strict:
        raise needs_home("ingest --strict", "'xscl serve --strict' says for all whether channels have to be there")
    reading = replace(reading, keeps_feeds=not client.is_found)
    if follow:
        _follow_service(client, paths, reading, every)
    else:
        _exit_as(_push(client, at, paths, reading))


def _take_table(
    intake: Intake, paths: Sequence[str], table: str, key: str | None, reading: Reading, *, follow: bool
) -> IntakeReport:
    """Take in what a table of a database has had since it was read last."""
    from xscl.intake.inputs import take_sql_table

    if key is None or reading.channel is None or len(paths) != 1:
        raise typer.BadParameter("--table goes with one URL of a database, --key and --channel")
    if follow:
        raise typer.BadParameter("--table reads what is there now; to go on, call it again", param_hint="--follow")
    report = take_sql_table(intake, paths[0], table, key=key, reading=reading)
    report_intake(report)
    return report


def _take_files(
    intake: Intake, paths: Sequence[str], reading: Reading, where: Where, session: SessionOptions
) -> IntakeReport:
    """Take in files, in tasks of Spark where that is sooner done."""
    from xscl.ingest.sources import read_paths
    from xscl.intake.where import take_files
    from xscl.spark.session import start_session

    report = take_files(
        intake,
        paths,
        reading,
        where=where,
        session=lambda: start_session(session),
        records=lambda: shown_records(read_paths(paths, reading, stdin=sys.stdin.buffer)),
    )
    report_intake(report)
    return report


def _follow_home(intake: Intake, paths: Sequence[str], reading: Reading, every: str) -> IntakeReport:
    from xscl.base.system_errors import PASSES

    return _follow(intake, paths, reading, every, PASSES)


def _follow_service(client: Client, paths: Sequence[str], reading: Reading, every: str) -> None:
    from xscl.cli.following import AWAY, FollowedService

    _follow(FollowedService(client, reading.limits), paths, reading, every, AWAY)


def _are_small(paths: Sequence[str]) -> bool:
    """Tell whether inputs are standard input and files that a service takes as fast as its home."""
    files = [path for path in paths if path != "-"]
    return all(map(os.path.isfile, files)) and sum(map(os.path.getsize, files)) <= _SMALL


def _push(client: Client, at: ServedOptions, paths: Sequence[str], reading: Reading) -> IntakeReport:
    """Have a service take in files; what it has taken is told also where it ends meanwhile.

    From the first record on that a service does not take, the home takes it and the rest, if it is the service's own.
    """
    from xscl.cli.pushing import Pusher
    from xscl.ingest.sources import read_paths
    from xscl.intake.intake import Intake

    pusher = Pusher(client, reading.limits)
    records = iter(shown_records(read_paths(paths, reading, stdin=sys.stdin.buffer)))
    try:
        for record in records:
            if pusher.take(record):
                continue
            if client.is_found:
                pusher.send()
                rest = itertools.chain([record], records)
                pusher.report.add(Intake(at.open(), limits=reading.limits).take(rest))
            else:
                pusher.refuse(record)
        pusher.send()
    finally:
        report_intake(pusher.report)
    return pusher.report


def _exit_as(report: IntakeReport) -> None:
    """Leave with the code that tells whether some was refused."""
    known = report.duplicates + report.shared + report.removed + report.missing
    done = report.taken + known + report.registered + report.dropped
    exit_partly(done, report.rejected)


def _refuse_urls(paths: Sequence[str]) -> None:
    if urls := [path for path in paths if "://" in path]:
        address = masked(urls[0])
        raise typer.BadParameter(
            f"subscribe to a feed with 'xscl feed add {address}', and fetch it with 'xscl feed fetch'"
            if address.startswith(("http://", "https://"))
            else f"{address} is no file; a database goes with --table, --key and --channel"
        )


def _follow(taker: Taker, paths: Sequence[str], reading: Reading, every: str, passes: frozenset[str]) -> IntakeReport:
    """Take in what is added until Ctrl-C, also after faults that pass by themselves; return what was taken in all."""
    from xscl.intake.intake import IntakeReport

    report = IntakeReport()
    try:
        with interrupted_by_ctrl_c():
            _follow_on(taker, paths, reading, every, passes, report)
    except KeyboardInterrupt:
        say("stopped; in all:")
        say(intake_summary(report))
    return report


def _follow_on(
    taker: Taker, paths: Sequence[str], reading: Reading, every: str, passes: frozenset[str], report: IntakeReport
) -> NoReturn:
    from xscl.base.system_errors import Patience
    from xscl.intake.inputs import follow_paths
    from xscl.intake.intake import IntakeReport

    patience = Patience(complain, passes=passes)
    while True:
        try:
            # What was committed is not read again.
            for part in follow_paths(taker, paths, reading, every=every):
                patience.went_well()
                report.add(part)
                if part != IntakeReport():
                    report_intake(part)
        except XsclError as error:
            pause = patience.wait_s(error)
            if pause is None:
                raise
            time.sleep(pause)


def eval_(
    arguments: Annotated[list[str], typer.Argument(metavar="QUERIES PATH…", help="A file of queries, then inputs.")],
    query: Annotated[
        list[str] | None, typer.Option("-q", "--query", help="A query's text; then all arguments are inputs.")
    ] = None,
    channel: ChannelOption = None,
    batch_docs: BatchDocsOption = DEFAULT_BATCH_DOCS,
    bindings: Annotated[
        int | None, typer.Option(min=0, callback=held_by_databases, help="Quota of bindings of one query in one batch.")
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(min=0, callback=held_by_databases, help="Quota of combinations, likewise."),
    ] = None,
    *,
    options: TimedReading,
    work: WorkOptions,
    printing: MatchPrinting,
) -> None:
    """Evaluate queries over inputs in a temporary home, and list the matches.

    Example: xscl eval queries.xscl feeds/ --format documents
    """
    from xscl.base.temporary import temporary_folder
    from xscl.catalog.parts import has_parts
    from xscl.engine import Engine
    from xscl.ingest.sources import read_paths
    from xscl.intake.intake import Intake
    from xscl.registry.registry import Registry
    from xscl.store.home import init_home

    texts, inputs = _queries_and_inputs(query or [], arguments)
    printed, settings = printing.chosen(), work.settings()
    reading = options.reading(channel)
    with temporary_folder("xscl-eval") as folder:
        opened = init_home(folder)
        registry = Registry(opened.catalog, ends=True)
        outcomes = registry.register_many(texts) if texts else registry.load(read_text(arguments[0]))
        refused = [outcome for outcome in outcomes if not outcome.ok]
        report_outcomes(refused, "-q" if texts else arguments[0])
        report = Intake(opened).take(read_paths(inputs, reading, stdin=sys.stdin.buffer))
        if report.rejected or report.notes:
            report_intake(report, kept=False)
        if not report.taken or len(refused) == len(outcomes):
            raise typer.Exit(1 if refused or report.rejected else 0)
        report_notes(_notes(opened))
        engine = Engine(opened, settings=settings)
        engine.set_quotas(bindings=bindings, pairs=pairs)
        if opened.catalog.ask(has_parts):
            engine.end_input()
        with shown_progress():
            reports = engine.run_once(batch_docs=batch_docs)
        lost = report_losses(reports, kept=False)
        print_matches(engine.matches(), printed)
        exit_partly(len(outcomes) - len(refused) + report.taken, len(refused) + report.rejected + lost)


def _queries_and_inputs(query: Sequence[str], arguments: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """Return the texts of queries, none if the first argument is a file of them, and the inputs."""
    if query:
        return list(query), arguments
    if len(arguments) < 2:
        raise typer.BadParameter("give a file of queries and at least one input, or -q TEXT and inputs")
    if _QUERY.search(arguments[0]) and not os.path.lexists(arguments[0]):
        raise typer.BadParameter("the first argument is a file of queries; a query's text goes with -q TEXT")
    return [], arguments[1:]


def _notes(home: Home) -> dict[str, list[str]]:
    """Give the notes on live queries over what is held now, each with the names of its queries."""
    from xscl.catalog.queries import read_queries
    from xscl.language.facts import is_sub_query
    from xscl.registry.canonical_text import canonical_text
    from xscl.registry.channel_names import ChannelNames
    from xscl.registry.registry import Registry

    registry = Registry(home.catalog, ChannelNames(home.root), ends=True)
    noted: dict[str, list[str]] = {}
    for info in home.catalog.ask(read_queries):
        if is_sub_query(info.name):
            continue  # told with the query around it
        for note in registry.unregistered(canonical_text(info))[2]:
            noted.setdefault(note, []).append(info.name)
    return noted


def report_intake(report: IntakeReport, *, kept: bool = True) -> None:
    # A file read with a wrong option is refused a line at a time, for one reason.
    same: Counter[tuple[str, str]] = Counter()
    shown = 0
    for problem in report.problems:
        same[problem.condition, problem.message] += 1
        if same[problem.condition, problem.message] <= _SAME:
            complain(rejection(problem))
            shown += 1
    # One problem may stand for all rows of a table; only the first problems are in the report.
    if shown < len(report.problems) or len(report.problems) >= _REPORTED:
        complain("… and more" + ("; xscl sql 'SELECT * FROM rejected' has them" if kept else ""))
    for flaw in report.flaws:
        complain(f"{flaw}; read tolerantly")
    for note in report.notes:
        say(f"note: {note}")
    say(intake_summary(report))
    if kept and report.late >= _MANY_LATE:
        from xscl.cli.next_steps import many_late

        say(f"note: {many_late()}")


def intake_summary(report: IntakeReport) -> str:
    parts = [f"{counted(report.taken, 'event')} taken"]
    if report.versions:
        parts.append(f"of them {counted(report.versions, 'new version')}")
    for count, what in (
        (report.duplicates, "known already"),
        (report.shared, "known by another stream"),
        (report.late, "late"),
        (report.rejected, "rejected"),
        (report.removed, "removed"),
        (report.missing, "not there to remove"),
    ):
        if count:
            parts.append(f"{count:,} {what}")
    for count, noun, what in (
        (report.tolerant, "feed", "read tolerantly"),
        (report.registered, "query", "registered"),
        (report.dropped, "query", "dropped"),
    ):
        if count:
            parts.append(f"{counted(count, noun)} {what}")
    return ", ".join(parts)
