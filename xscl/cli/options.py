"""Options and messages that commands of several nouns share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.errors import CatalogError, EngineError, QueryError
from xscl.base.settings import Settings, Where
from xscl.base.terminal import tell
from xscl.cli.printing import Format

if TYPE_CHECKING:
    from xscl.base.types import QueryOutcome
    from xscl.batches.report import BatchReport
    from xscl.cli.client import Client
    from xscl.ingest.records import Rejected
    from xscl.spark.session_options import SessionOptions
    from xscl.store.home import Home

__all__ = [
    "LONG",
    "PARTLY",
    "BatchDocsOption",
    "HomeOptions",
    "JsonOption",
    "Output",
    "Printing",
    "ServedOptions",
    "SparkOptions",
    "StrictOption",
    "WorkOptions",
    "complain",
    "cut",
    "exit_partly",
    "held_by_databases",
    "named_text",
    "needs_home",
    "one_line",
    "read_text",
    "rejection",
    "report_losses",
    "report_notes",
    "report_outcomes",
    "say",
    "time_given",
]

PARTLY = 3
"""Exit code where some was done, and some was refused."""

_NAMED = 3
"""Names that are told with a note of several queries."""

_MOST_REJECTED = 100
"""Things that queries did not get of a batch which are said one by one."""
_STATEMENT = re.compile(r"\s*(CREATE\s+QUERY|DECLARE)\b", re.IGNORECASE)
"""Begins a text that may give its name itself."""
_MOST = 2**63 - 1
"""Largest whole number that databases hold."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]

StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse channels that do not exist.")]
BatchDocsOption = Annotated[int, typer.Option("--batch-docs", min=1, help="Documents in a batch at most.")]


def held_by_databases(number: int | None) -> int | None:
    """Check the number of an option, and return it.

    Raises:
        BadParameter: no database holds it.
    """
    if number is not None and number > _MOST:
        raise typer.BadParameter(f"{number} is more than databases hold, which is {_MOST:,}")
    return number


def needs_home(doing: str, why: str | None = None) -> EngineError:
    """Return the refusal of something that no service does for a command."""
    return EngineError(
        "XSCL_NEEDS_HOME",
        f"{doing} works on a home; {why or 'no service does it for the command line'}",
        hint="leave --url out, or name the home by --home",
    )


def named_text(name: str, text: str | None) -> tuple[str | None, str]:
    """Return the name and the text of a query that is to be registered; a statement alone has its name itself.

    Raises:
        BadParameter: there is no text.
    """
    if text is not None:
        return name, text
    if not _STATEMENT.match(name):
        raise typer.BadParameter(f"there is no text: xscl query add {'NAME' if ' ' in name else name} 'TEXT'")
    return None, name


@dataclass(frozen=True, slots=True)
class HomeOptions:
    """Options that name a home."""

    home: Annotated[
        Path | None,
        typer.Option(
            "--home", help="Folder of the home; without it XSCL_HOME of the environment.", show_default="./xscl-home"
        ),
    ] = None
    catalog: Annotated[
        str | None,
        typer.Option("--catalog", help="SQLAlchemy URL of the catalogue.", show_default="SQLite in the home"),
    ] = None
    service_url: Annotated[str | None, typer.Option("--url", metavar="URL", hidden=True)] = None

    @property
    def root(self) -> Path:
        """Folder of the home."""
        from xscl.base.home_folders import default_home

        return self.home or default_home()

    @property
    def is_named(self) -> bool:
        """Whether an option names the home."""
        return self.home is not None or self.catalog is not None

    def works_here(self) -> Path:
        """Return the folder of the home for work on itself; say so where ``XSCL_URL`` names a service.

        Raises:
            EngineError: ``XSCL_NEEDS_HOME``: an option names a service.
        """
        if self.service_url is not None:
            raise needs_home("this command")
        if os.environ.get("XSCL_URL") and not self.is_named:
            say(f"note: this works on the home {self.root}, and not on the service that XSCL_URL names")
        return self.root

    def open(self) -> Home:
        """Open the home."""
        from xscl.store.home import open_home

        return open_home(self.works_here(), self.catalog)


@dataclass(frozen=True, slots=True)
class ServedOptions(HomeOptions):
    """Options that name a home, or a service that runs on one."""

    service_url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="A running service to ask, with the token XSCL_TOKEN; without it and --home, XSCL_URL.",
        ),
    ] = None

    here: Annotated[bool, typer.Option("--here", help="Work on the home itself, also if a service has it open.")] = (
        False
    )

    @property
    def is_named(self) -> bool:
        """Whether an option names the home, or asks for it."""
        return self.here or self.home is not None or self.catalog is not None

    def client(self, *, only_home: bool = False) -> Client | None:
        """Return the client of the service that is named, or that has the home open; None: the command opens the home.

        ``only_home``: options ask for something that only a home does; then nobody looks for a service.

        Raises:
            BadParameter: a service and a home are named.
        """
        if self.service_url is not None and self.is_named:
            raise typer.BadParameter("a service has its own home", param_hint="--url with --home, --catalog or --here")
        url = self.service_url or (None if self.is_named else os.environ.get("XSCL_URL") or None)
        if url is not None:
            from xscl.cli.client import Client

            return Client(url)
        return None if only_home or self.here or self.catalog is not None else _found_service(self.root)


def _found_service(root: Path) -> Client | None:
    """Return the client of the service that has a home open and takes calls from here; None: there is none."""
    from xscl.store.served import read_serving

    serving = read_serving(root)
    if serving is None or (serving.tokens and not os.environ.get("XSCL_TOKEN", "").strip()):
        return None
    from xscl.cli.client import Client

    client = Client(serving.url, is_found=True)
    if (fault := client.fault()) is not None:
        say(f"note: {serving.url} has the home open, but {fault}; this works on the home itself")
        return None
    return client


@dataclass(frozen=True, slots=True)
class Printing:
    """Options that say how rows are printed."""

    format: Annotated[Format | None, typer.Option("--format", help="How to print.")] = None
    json: JsonOption = False

    @property
    def given(self) -> bool:
        """Whether an option asks for a format."""
        return self.json or self.format is not None

    def chosen(self) -> Format:
        """Choose the format; a table where no option says."""
        return Format.json if self.json else self.format or Format.table


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """Option that says where work is done."""

    where: Annotated[
        Where,
        typer.Option(
            "--where", help="Where work is done: in this process, in tasks of Spark, or where it ends sooner."
        ),
    ] = "auto"

    def settings(self) -> Settings:
        """Return the settings."""
        return Settings(self.where)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Options that say where Spark runs, if it is needed."""

    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Spark's master, such as spark://host:7077; without it XSCL_MASTER of the environment.",
            show_default="this machine",
        ),
    ] = None
    remote: Annotated[
        str | None,
        typer.Option(
            "--remote",
            metavar="URL",
            help="A server of Spark Connect, sc://host:15002; without it XSCL_REMOTE of the environment.",
        ),
    ] = None
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None

    @property
    def are_given(self) -> bool:
        """Whether an option says where Spark runs."""
        return self.master is not None or self.remote is not None or bool(self.conf)

    def session(self) -> SessionOptions:
        """Read the options; the environment counts where neither place is given.

        Raises:
            BadParameter: a setting is none.
        """
        from xscl.spark.session_options import MASTER_VARIABLE, REMOTE_VARIABLE, SessionOptions, parse_conf

        try:
            conf = parse_conf(self.conf or ())
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--conf") from None
        if self.master is not None or self.remote is not None:
            return SessionOptions(self.master, self.remote, conf)
        return SessionOptions(os.environ.get(MASTER_VARIABLE) or None, os.environ.get(REMOTE_VARIABLE) or None, conf)


class Output:
    """Values of the options before the command."""

    quiet = False
    verbose = False


def say(text: str) -> None:
    """Return a message for the person in front."""
    if not Output.quiet:
        complain(text)


def complain(text: str) -> None:
    """Return a message that is always shown."""
    tell(text)


def exit_partly(done: int, failed: int) -> None:
    """Leave with 3 where some failed and some did not, with 1 where all failed."""
    if failed:
        raise typer.Exit(PARTLY if done else 1)


def report_losses(reports: Iterable[BatchReport], *, kept: bool = True) -> int:
    """Say what queries did not get of batches, and which were suspended; return how many times that was.

    ``kept``: the home stays after the command, so that other commands can tell of them and resume queries.
    """
    rejected = [rejection for report in reports for rejection in report.rejected]
    suspended = [suspension for report in reports for suspension in report.suspended]
    for suspension in suspended:
        resume = f"'xscl query resume {suspension.query}' has it go on"
        complain(f"suspended: {suspension}; {resume if kept else 'later batches were not for it'}")
    for rejection in rejected[:_MOST_REJECTED]:
        complain(f"rejected: {rejection}")
    if len(rejected) > _MOST_REJECTED:
        where = "; xscl sql 'SELECT * FROM rejected' has them" if kept else ""
        complain(f"… and {len(rejected) - _MOST_REJECTED} more{where}")
    return len(rejected) + len(suspended)


def read_text(file: str) -> str:
    """Return the statements of a file, or of stdin."""
    from xscl.registry.registry import read_script

    if file != "-":
        return read_script(file)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CatalogError("XSCL_SOURCE_UNREADABLE", "-: it is not UTF-8 text") from None


def time_given(text: str | None, option: str, *, now: int | None = None) -> int | None:
    """Return the time of an option in microseconds since 1970: ISO 8601, seconds, or ``NOW-7d`` as of ``now`` (else the
    clock).
    """
    from xscl.answers.matches.window import parse_moment
    from xscl.base.types import now_micros

    if text is None:
        return None
    try:
        return parse_moment(text, now_micros() if now is None else now)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def one_line(text: str) -> str:
    """Return the text with single spaces only."""
    return " ".join(text.split())


def report_outcomes(outcomes: Iterable[QueryOutcome], file: str) -> None:
    """Say what became of statements, then what is to be noted on those that were taken, once each."""
    noted: dict[str, list[str]] = {}
    for outcome in outcomes:
        name = outcome.name or "unnamed query"
        error = outcome.error
        if error is None:
            say(f"{outcome.action} {name}")
            for note in outcome.notes:
                noted.setdefault(note, []).append(name)
        elif isinstance(error, (QueryError, CatalogError)) and error.has_place:
            complain(f"{file}:{error.line}:{error.column}: {name}: [{error.condition}] {error.details()}")
        else:
            complain(f"{file}:{outcome.line}: {name}: {error}")
    report_notes(noted)


def report_notes(noted: Mapping[str, Sequence[str]]) -> None:
    """Say each note once, with the first queries that it is about."""
    for note, names in noted.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        say(f"note: {', '.join(names[:_NAMED])}{more}: {note}")


LONG = 200
"""Characters of a stranger's title for a person."""


def cut(text: str, size: int = 60) -> str:
    """Return the text in one line, of so many characters at most."""
    text = one_line(text)
    return text if len(text) <= size else text[: size - 1] + "…"


def rejection(problem: Rejected) -> str:
    """Tell a person of a rejected document or row."""
    where = f"{problem.source}: " if problem.source else ""
    return f"rejected {where}[{problem.condition}] {problem.message.removeprefix(where)}"
