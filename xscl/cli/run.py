"""``xscl run``, ``stats``, ``demo`` and ``bench``: what works on a home, and what it cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.errors import XsclError
from xscl.base.settings import DEFAULT_BATCH_DOCS
from xscl.base.shown import counted
from xscl.base.terminal import give, show
from xscl.cli.options import (
    BatchDocsOption,
    HomeOptions,
    Printing,
    ServedOptions,
    SparkOptions,
    WorkOptions,
    complain,
    exit_partly,
    report_losses,
    say,
)
from xscl.cli.polls import ContactOption, poll_settings, report_poll
from xscl.cli.printing import Format, print_rows
from xscl.cli.progress import shown_progress
from xscl.cli.signals import ended_by_signals

if TYPE_CHECKING:
    from xscl.batches.report import BatchReport
    from xscl.bench.report import Report
    from xscl.cli.signals import End
    from xscl.engine import Engine
    from xscl.intake.polling import PollReport, PollSettings

    _Did = tuple[PollReport | None, list[BatchReport]]
    """Reports of one round: of the feeds, if it asked them, and of the batches."""

__all__ = ["bench", "demo", "run", "stats"]

_EVERY = "30s"
"""Time between two looks for new events."""


def run(
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then stop.")] = False,
    every: Annotated[str | None, typer.Option(help="How often to look for new events.", show_default=_EVERY)] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Before that, ask the feeds that are due.")] = False,
    contact: ContactOption = None,
    batch_docs: BatchDocsOption = DEFAULT_BATCH_DOCS,
    *,
    work: WorkOptions,
    on: SparkOptions,
    at: HomeOptions,
) -> None:
    """Process what was taken in: once, or until stopped.

    Example: xscl run --once
    xscl run --every 10s --fetch
    xscl run --every 1min --master spark://host:7077
    """
    from xscl.engine import Engine

    if once and every is not None:
        raise typer.BadParameter("--once and --every exclude each other")
    pause = _seconds(every or _EVERY)
    settings, session_options = work.settings(), on.session()
    polling = poll_settings(contact, patience_s=pause) if fetch else None
    lost = failed = done = 0

    def then(report: BatchReport) -> None:
        # A batch that fails later takes nothing from what this one has to say.
        nonlocal lost
        _report_batch(report)
        lost += report_losses([report])

    with (
        ended_by_signals() as end,
        Engine(at.open(), settings=settings, session_options=session_options) as engine,
        engine.alone(),
    ):
        one_round = partial(_round, engine, polling, batch_docs, lambda: end.wanted, then)
        if once:
            done, failed = _outcome(*one_round())
        else:
            _go_on(one_round, pause, end)
    if end.code:
        raise typer.Exit(end.code)
    exit_partly(done if failed else 1, lost + failed)


def _go_on(one_round: Callable[[], _Did], pause_s: float, end: End) -> None:
    """Do rounds until a signal ends them, also after faults that pass by themselves."""
    from xscl.base.system_errors import Patience

    patience = Patience(complain)
    told = not sys.stderr.isatty()
    while not end.wanted:
        began = time.monotonic()
        try:
            _, reports = one_round()
            if not reports and not told:
                say("waiting for events; Ctrl-C ends")
                told = True
            patience.went_well()
            wait_s = max(0.0, pause_s - (time.monotonic() - began))
        except XsclError as error:
            tried_again = patience.wait_s(error)
            if tried_again is None:
                raise
            wait_s = tried_again
        end.wait(wait_s)


def _seconds(every: str) -> float:
    from xscl.base.durations import parse_pause

    try:
        return parse_pause(every)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from None


def _outcome(polled: PollReport | None, reports: Iterable[BatchReport]) -> tuple[int, int]:
    """Count what a command that runs once has done, feeds and batches, and the feeds that failed; say so if no batch
    had something to do.

    A command that runs without end asks again: a feed that fails now and then is no failure of that one.
    """
    failed = 0 if polled is None else len(polled.problems)
    done = 0 if polled is None else polled.feeds - failed
    busy = sum(bool(report.events or report.filled or report.replayed or report.matches) for report in reports)
    if not busy:
        say("nothing new: no feed could be read" if failed and not done else "nothing new")
    return done + busy, failed


def _round(
    engine: Engine,
    polling: PollSettings | None,
    batch_docs: int,
    stop: Callable[[], bool],
    then: Callable[[BatchReport], None],
) -> _Did:
    """Ask the feeds that are due, process what is there, and say what came of it; ``then`` tells of each batch."""
    from xscl.answers.status import skipped_notes
    from xscl.catalog.intake_order import read_last_places

    polled = None
    if polling is not None:
        with shown_progress():
            polled = engine.fetch_feeds(settings=polling)
        report_poll(polled, only_news=True)
    first = engine.home.catalog.ask(read_last_places)[0] + 1
    with shown_progress():
        reports = engine.run_once(batch_docs=batch_docs, stop=stop, then=then)
    for note in skipped_notes(engine.home.catalog, first):
        say(note)
    return polled, reports


def stats(
    consistency: Annotated[
        bool,
        typer.Option(
            "--consistency",
            help="A row for each query about absence or with steps: what it told, took back and missed.",
        ),
    ] = False,
    *,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Print what each batch did, and what the home holds (columns: docs/explanation/architecture.md, What stats
    shows).

    Example: xscl stats --format csv
    """
    from xscl.answers.status import batch_columns, batch_rows, state_notes
    from xscl.cli.next_steps import no_batches

    if consistency:
        from xscl.answers.consistency import CONSISTENCY, consistency_rows

        client = at.client(only_home=True)
        if client is not None:
            from xscl.cli.remote_answers import remote_consistency

            told: Iterable[dict[str, object]] = remote_consistency(client)
        else:
            told = consistency_rows(at.open())
        if not print_rows(told, CONSISTENCY, printing.chosen()):
            say("no query is about absence or has steps")
        return

    short = ["batch", "events", "pairs", "matches", "joined_in", "jobs", "stage1_s", "join_s", "commit_s"]
    if (client := at.client()) is not None:
        from xscl.cli.remote import stats as remote_stats

        remote_stats(client, batch_columns(), short, printing.chosen())
        return
    opened = at.open()
    if not print_rows(batch_rows(opened.catalog), batch_columns(), printing.chosen(), short=short):
        say(no_batches(opened.catalog))
    for note in state_notes(opened):
        say(note)


def demo(
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Make the demonstration's home here.", show_default="a new temporary folder"),
    ] = None,
) -> None:
    """Run the main job on bundled real feeds and print matches a person can read.

    Example: xscl demo --home demo-home
    """
    from xscl.demo.show import run_demo

    run_demo(home)


def bench(
    name: Annotated[str, typer.Argument(help="Which (docs/reference/benchmarks.md); or all.")],
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
    """Measure, with baselines in the same run (docs/reference/benchmarks.md).

    Example: xscl bench rows --quick --out figures
    """
    from json import dumps

    from xscl.bench.bench import Options, run_bench
    from xscl.bench.benches import BENCHES
    from xscl.bench.workload import SCHEMAS, Windows

    if name != "all" and name not in BENCHES:
        raise typer.BadParameter(f"there is no bench {name!r}; there are: all, {', '.join(BENCHES)}")
    if workload not in SCHEMAS:
        raise typer.BadParameter(f"there is no workload {workload!r}; there are: {', '.join(SCHEMAS)}")
    try:
        Windows.parse(windows)
    except ValueError as error:
        raise typer.BadParameter(f"--windows: {error}") from None
    options = Options(quick, queries, items, batch_docs, seed, workload, windows)
    reports = [run_bench(each, options, say) for bench, each in BENCHES.items() if name in ("all", bench)]
    for report in reports:
        if out is not None:
            _write_report(report, out)
        if not json:
            print_rows(report.table, list(report.table[0]), Format.table)
            show()
            rows = [{"figure": figure, "value": value} for figure, value in report.figures.items()]
            print_rows(rows, ["figure", "value"], Format.table)
    if json:
        figures = {r.bench: {**r.figures, "table": [dict(row) for row in r.table]} for r in reports}
        give(dumps(figures if name == "all" else figures[name]))
    if wrong := [report.bench for report in reports if report.figures.get("digest_equal") is False]:
        complain(f"error: the variants of {', '.join(wrong)} gave different results: their figures compare nothing")
        raise typer.Exit(1)


def _write_report(report: Report, folder: Path) -> None:
    from xscl.bench.plot import can_draw
    from xscl.bench.report import write_report

    say("written: " + ", ".join(map(str, write_report(report, folder))))
    if not can_draw():
        say("no plots: matplotlib is not installed (pip install 'xscl[bench]')")


def _report_batch(report: BatchReport) -> None:
    if report.filled:
        say(
            f"batch {report.batch}: {counted(report.filled, 'query')} answered from retained events, "
            f"{counted(report.matches, 'stored match')}"
        )
    if report.replayed:
        say(
            f"batch {report.batch}: {counted(report.replayed, 'late event')} taken again, "
            f"{counted(report.matches, 'stored match')}"
        )
    if report.events:
        published = f", {report.published:,} published" if report.published else ""
        where = "in Spark" if report.joined_in == "spark" else "in the driver"
        jobs = "" if report.jobs is None else f", {counted(report.jobs, 'Spark job')}"
        say(
            f"batch {report.batch}: {counted(report.events, 'event')}, {counted(report.witnesses, 'witness')}, "
            f"{counted(report.pairs, 'candidate pair')}, {counted(report.matches, 'stored match')}{published}, "
            f"joined {where}{jobs}; stage 1 {report.stage1_s:.2f} s, joins {report.join_s:.2f} s"
        )
    elif report.matches and not report.filled and not report.replayed:
        say(f"batch {report.batch}: heartbeats, {counted(report.matches, 'stored match')}")
    if report.late_for:
        say(
            f"batch {report.batch}: {counted(report.late_for, 'event')} came too late for the memory of queries; "
            "'xscl query list' counts them"
        )
    if report.unmerged is not None:
        say(f"batch {report.batch}: files of join state stay small, the next batch merges them: {report.unmerged}")
