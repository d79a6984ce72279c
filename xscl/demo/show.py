"""The demonstration: real feeds, a handful of standing queries, and their matches as a person reads them."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.answers.matches.cards import member_lines
from xscl.base import terminal
from xscl.base.errors import EngineError
from xscl.base.settings import Settings
from xscl.base.shown import counted
from xscl.base.types import Match
from xscl.catalog.groups import read_template_use
from xscl.catalog.queries import read_query
from xscl.engine import Engine, connect

if TYPE_CHECKING:
    from rich.console import Console


__all__ = ["run_demo"]

_TELLS: Mapping[str, str] = {
    "same_repository": "one repository in two feeds within two days",
    "same_earthquake": "one earthquake in two of three feeds",
    "measured_again": "three feeds of one network disagree: the title of an earthquake changed",
    "trending_developer": "a developer trends, and a repository the developer's page links to",
    "fog_then_delay": "an airport in fog, then flights two hours late or more",
    "late_again": "the same plane late twice in a day",
    "no_follow_up": "a repository that no other list takes up within a day",
    "trending": "every ten minutes, the ten links most shared in six hours",
    "silent_mote": "a sensor sends no reading for five minutes",
    "minutes": "the last price of each minute, published for the next query",
    "rebound": "a price that falls minute after minute, then rises",
    "strong_earthquake": "magnitude 6 or more, one block with a value condition",
}
_SHOWN = 3
_ASKED = "measured_again"
"""The query whose template is asked in SQL."""
_IN_UNTIL = "2026-09-01T00:00:00Z"
"""Time up to which the corpus has the items of its lists."""
_KEPT = "xscl-home-of-demo-"


def run_demo(home: Path | None) -> None:
    """Register the queries, take in the corpus, run, print matches, and ask a template in SQL.

    Args:
        home: where the demonstration's home is made; by default a new temporary folder, which stays.

    Raises:
        EngineError: a query of the demonstration has no match, so something is broken.
    """
    console = terminal.console()
    folder = Path(tempfile.mkdtemp(prefix=_KEPT)) if home is None else home
    with connect(home=folder) as engine, as_file(files("xscl.demo")) as here:
        if next(engine.queries(limit=1), None):
            raise EngineError("XSCL_HOME_IN_USE", f"{folder} has queries already", hint="give the demo an empty home")
        with _timed("registered", console):
            _register(engine, here, console)
        *earlier, last = sorted((here / "corpus").iterdir())
        with _timed("ingested", console):
            _ingest(engine, earlier, console)
        with _timed("processed", console):
            _process(engine, console)
        with (
            _timed("the last file ingested, and processed by Spark, its start included,", console),
            connect(home=folder, spark=engine.spark, settings=Settings(where="spark")) as on_spark,
        ):
            _ingest(on_spark, [last], console)
            on_spark.heartbeat("items", _IN_UNTIL)
            console.print(f"a heartbeat: all items up to {_IN_UNTIL} are in, so what nobody took up is known")
            _process(on_spark, console)
        _show(engine, console)
        with _timed("answered by Spark", console):
            _ask(engine, console)
    _say_what_next(folder, console)
    sys.stdout.flush()


@contextmanager
def _timed(what: str, console: Console) -> Iterator[None]:
    began = time.monotonic()
    yield
    console.print(f"{what} in {time.monotonic() - began:.1f} s", style="dim")


def _process(engine: Engine, console: Console) -> None:
    for report in engine.run_once():
        found = (report.events, "event"), (report.witnesses, "witness"), (report.pairs, "candidate pair")
        place = "in Spark" if report.joined_in == "spark" else "in this process"
        console.print(
            f"\nbatch {report.batch}: {', '.join(counted(count, noun) for count, noun in found)}, "
            f"{counted(report.matches, 'match')}; {place}, {counted(report.jobs or 0, 'Spark job')}; "
            f"stage 1 {report.stage1_s:.1f} s, joins {report.join_s:.1f} s"
        )


def _ask(engine: Engine, console: Console) -> None:
    """Ask the answers of a template's queries in SQL, which Spark runs."""
    statement = _statement(engine.home.catalog.ask(read_query, _ASKED).template)
    console.print("\nEvery template is a relation of its queries' answers; in SQL, on Spark:")
    console.print(f"  {statement}")
    for row in engine.sql(statement).collect():
        console.print("    " + "  ".join(str(value) for value in row))


def _statement(template: str) -> str:
    return f"SELECT qid, count(*) AS answers FROM rout_{template} GROUP BY qid ORDER BY qid"


def _say_what_next(home: Path, console: Console) -> None:
    program, place = _program(), shlex.quote(str(home))
    console.print(f"\nThe home is kept in {home}. Try:")
    for command in (
        f"match list same_earthquake --limit 5 --home {place}",
        f"query explain measured_again --home {place}",
        f"item list --feed 'Past Week' --like '*Alaska*' --limit 5 --home {place}",
    ):
        console.print(f"  {program} {command}")


def _program() -> str:
    """Give the command that calls xscl from this shell."""
    if Path(sys.argv[0]).name != "xscl":
        return f"{shlex.quote(sys.executable)} -m xscl"
    found = shutil.which("xscl")
    same = found is not None and Path(found).resolve() == Path(sys.argv[0]).resolve()
    return "xscl" if same else shlex.quote(sys.argv[0])


def _register(engine: Engine, here: Path, console: Console) -> None:
    outcomes = engine.load((here / "queries.xscl").read_text(encoding="utf-8"))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    templates = [template for template, queries, _ in engine.home.catalog.ask(read_template_use) if queries]
    console.print(f"[bold]{len(outcomes)} standing queries[/bold] of {len(templates)} templates:", markup=True)
    for outcome in outcomes:
        info = engine.home.catalog.ask(read_query, outcome.name or "")
        console.print(f"\n[bold]{info.name}[/bold]  ({info.template})", markup=True)
        console.print(f"  {info.text}")


def _ingest(engine: Engine, paths: Iterable[Path], console: Console) -> None:
    console.print()
    for path in paths:
        channel = "quakes" if path.name.startswith("earthquakes") else None
        report = engine.ingest(path, channel=channel)
        refused = f", {report.rejected} rejected" if report.rejected else ""
        console.print(f"{path.name}: {counted(report.taken, 'event')}{refused}")


def _show(engine: Engine, console: Console) -> None:
    found = {name: list(group) for name, group in groupby(sorted(engine.matches(), key=_by_query), key=_by_query)}
    for name, what in _TELLS.items():
        matches = sorted(found.get(name, []), key=lambda m: (-len({e.ts for e in m.events}), m.ts, m.id))
        console.print(f"\n[bold]{name}[/bold]: {what} — {counted(len(matches), 'match')}", markup=True)
        if not matches:
            raise EngineError("XSCL_DEMO", f"the query {name} found nothing in the bundled feeds")
        for match in matches[:_SHOWN]:
            for line in member_lines(match):
                console.print(f"  {line}")
        if len(matches) > _SHOWN:
            console.print(f"  … and {len(matches) - _SHOWN} more", style="dim")


def _by_query(match: Match) -> str:
    return match.query
