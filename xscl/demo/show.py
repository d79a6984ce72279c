"""The demonstration: real feeds, a handful of standing queries, and their matches as a person reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from lxml import etree

from xscl import terminal
from xscl.engine import Engine, connect
from xscl.errors import EngineError
from xscl.safexml import parse_xml
from xscl.scratch import temporary_folder
from xscl.types import Match, format_time

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
    "strong_earthquake": "magnitude 6 or more, one block with a value condition",
}
_SHOWN = 3


def run_demo(home: Path | None) -> None:
    """Register the queries, take in the corpus, run, and print matches.

    Raises:
        EngineError: a query of the demonstration has no match, so something is broken.
    """
    console = terminal.console()
    with _home(home) as folder, connect(home=folder) as engine, as_file(files("xscl.demo")) as here:
        if next(engine.queries(limit=1), None):
            raise EngineError("XSCL_HOME_IN_USE", f"{folder} has queries already", hint="give the demo an empty home")
        _register(engine, here, console)
        _ingest(engine, here / "corpus", console)
        console.print("\nrunning …", style="dim")
        for report in engine.run_once():
            console.print(
                f"batch {report.batch}: {report.events} events, {report.witnesses} witnesses, {report.pairs} candidate "
                f"pairs, {report.matches} matches; {report.jobs} Spark jobs; stage 1 {report.stage1_s:.1f} s, joins "
                f"{report.join_s:.1f} s"
            )
        _show(engine, console)
        if home is not None:
            console.print(f"\nThe home is kept: try 'xscl match list same_earthquake --home {home}'")
    sys.stdout.flush()


@contextmanager
def _home(home: Path | None) -> Iterator[Path]:
    if home is not None:
        yield home
        return
    with temporary_folder("xscl-demo") as folder:
        yield folder


def _register(engine: Engine, here: Path, console: Console) -> None:
    outcomes = engine.load((here / "queries.xscl").read_text(encoding="utf-8"))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    templates = [template for template, queries, _ in engine.home.catalog.templates() if queries]
    console.print(f"[bold]{len(outcomes)} standing queries[/bold] of {len(templates)} templates:", markup=True)
    for outcome in outcomes:
        info = engine.home.catalog.query(outcome.name or "")
        console.print(f"\n[bold]{info.name}[/bold]  ({info.template})", markup=True)
        console.print(f"  {info.text}")


def _ingest(engine: Engine, corpus: Path, console: Console) -> None:
    console.print()
    for path in sorted(corpus.iterdir()):
        channel = "quakes" if path.name.startswith("earthquakes") else None
        report = engine.ingest(path, channel=channel)
        refused = f", {report.rejected} rejected" if report.rejected else ""
        console.print(f"{path.name}: {report.taken} events{refused}")


def _show(engine: Engine, console: Console) -> None:
    found = {name: list(group) for name, group in groupby(sorted(engine.matches(), key=_by_query), key=_by_query)}
    for name, what in _TELLS.items():
        matches = sorted(found.get(name, []), key=lambda m: (-len({e.ts for e in m.events}), m.ts, m.id))
        console.print(f"\n[bold]{name}[/bold]: {what} — {len(matches)} matches", markup=True)
        if not matches:
            raise EngineError("XSCL_DEMO", f"the query {name} found nothing in the bundled feeds")
        for match in matches[:_SHOWN]:
            for line in _lines(match):
                console.print(line)
        if len(matches) > _SHOWN:
            console.print(f"  … and {len(matches) - _SHOWN} more", style="dim")


def _by_query(match: Match) -> str:
    return match.query


def _lines(match: Match) -> Iterator[str]:
    """A match in a few lines: for each member its time, channel, title and link."""
    root = parse_xml(match.document)
    parts = list(root) if len(match.events) > 1 else [root]
    for event, part in zip(match.events, parts, strict=True):
        bullet = "•" if event is match.events[0] else " "
        yield f"  {bullet} {format_time(event.ts)}  {event.channel:<10}  {_headline(part)}"
        for extra in (_field(part, "item_url"), _field(part, "channel_title")):
            if extra:
                yield f"      {extra}"


def _headline(part: etree._Element) -> str:
    title = _field(part, "title")
    if title:
        return title
    if len(part) == 0:
        return " ".join((part.text or "").split())
    wanted = ("origin", "dest", "carrier", "flight", "tailnum", "visib", "dep_delay")
    values = ((name, _field(part, name)) for name in wanted)
    return ", ".join(f"{name} {value}" for name, value in values if value)


def _field(part: etree._Element, name: str) -> str:
    found = part.find(name)
    return "" if found is None else " ".join((found.text or "").split())
