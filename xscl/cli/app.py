"""The command line: ``xscl noun verb``.

Data goes to stdout, messages to stderr; exit 0 ok, 1 failure, 2 usage, 3 partly done.  A noun's commands are in the
module of its name.  A module is imported when one of its commands is asked for, and libraries that are slow to load
where a command needs them.  Only ``run``, ``query run``, ``eval``, ``sql``, ``shell``, ``demo``, ``bench``
and ``doctor`` import Spark, and start it if need be.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from xscl import __version__
from xscl.base.errors import XsclError
from xscl.base.own_functions import VARIABLE, load_named
from xscl.base.pandas_later import put_pandas_off
from xscl.base.private import keep_files_private
from xscl.base.terminal import safe_message, show, tell
from xscl.base.ways import commands_alone
from xscl.cli.commands import command
from xscl.cli.options import Output, complain

__all__ = ["app", "main", "start"]

_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "init": "home:init",
        "doctor": "home:doctor",
        "export": "home:export",
        "import": "home:import_",
        "ingest": "ingest:ingest",
        "run": "run:run",
        "serve": "service:serve",
        "sql": "sql:sql",
        "shell": "shell:shell",
        "stats": "run:stats",
        "eval": "ingest:eval_",
        "demo": "run:demo",
        "bench": "run:bench",
        "channel": "channels:channel_app",
        "feed": "feeds:feed_app",
        "item": "items:item_app",
        "query": "queries:query_app",
        "quota": "quotas:quota_app",
        "match": "matches:match_app",
        "late": "late:late_app",
        "heartbeat": "heartbeats:heartbeat",
        "template": "templates:template_app",
        "plan": "plan:plan",
        "deliver": "deliver:deliver_app",
        "token": "service:token_app",
    }
)
"""Commands and nouns in the order of the help: the module of each and its name there."""


@contextmanager
def _safe_errors() -> Iterator[None]:
    """Make the texts of usage errors safe before they are shown."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):
            misplaced = getattr(error, "option_name", None)
            if misplaced in ("-q", "--quiet", "-v", "--verbose", "--functions"):
                context = error.ctx  # type: ignore[attr-defined]
                words = context.command_path.removeprefix(context.find_root().command_path)
                meant = f"xscl {misplaced}{words}"
                told = f"No such option: {misplaced} (it stands before the command: {meant})"
                error.message = told  # type: ignore[attr-defined]
            if misplaced == "--query" and (context := getattr(error, "ctx", None)) is not None:
                words = context.command_path.removeprefix(context.find_root().command_path)
                error.message = f"No such option: --query (the query is an argument: xscl{words} QUERY)"  # type: ignore[attr-defined]
            for name in ("message", "ui_filename"):
                if isinstance(text := getattr(error, name, None), str):
                    setattr(error, name, safe_message(text))
        raise


@contextmanager
def _quiet_end() -> Iterator[None]:
    """End without failure where whoever reads the output has seen enough; typer would call that one."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # rich, which prints the help, ends the process by itself.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


class _Commands(TyperGroup):
    """The commands and nouns, each imported when it is asked for."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments; a usage error that quotes one is safe for terminals."""
        with _quiet_end(), _safe_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with errors as ``make_context`` has them."""
        with _quiet_end(), _safe_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """Give all names, in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None for an unknown one."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            self.add_command(_command(cmd_name), cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; the error of an unknown one has the nearest names, and nothing is imported."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            nearest = ", ".join(map(repr, get_close_matches(name, _COMMANDS)))
            ctx.fail(f"No such command {name!r}. Did you mean {nearest}?" if nearest else f"No such command {name!r}.")
        return super().resolve_command(ctx, args)


def _command(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].partition(":")
    found = getattr(import_module(f"xscl.cli.{module}"), attribute)
    alone = typer.Typer()
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        command(alone, name)(found)
    return get_group(alone).commands[name]


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    help="Standing queries that join XML documents, feeds and rows by value inside time windows, on Spark.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from xscl.spark.java import java_version

        try:
            java = java_version()[1]
        except XsclError as error:
            java = error.message
        show(f"xscl {__version__}\nSpark {version('pyspark')}\nJava: {java}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No messages, only data and errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Errors with their Python traceback.")] = False,
    functions: Annotated[
        list[str] | None,
        typer.Option(
            "--functions",
            metavar="MODULE[:NAME]",
            help="A Python module with functions that queries call, beside those of XSCL_FUNCTIONS; may be repeated.",
        ),
    ] = None,
) -> None:
    Output.quiet = quiet
    Output.verbose = verbose
    if functions or VARIABLE in os.environ:
        load_named(functions or ())


def _tell_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    tell("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def _open_standard_streams() -> None:
    """Put an empty device where a standard stream was closed: another file would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def _tell_notes(error: BaseException) -> None:
    """Tell what was done before an error, such as suspensions of queries."""
    for note in getattr(error, "__notes__", ()):
        complain(f"  {note}")


def start() -> None:
    """Run the command line as a process of its own."""
    _open_standard_streams()
    put_pandas_off()
    main()


def main() -> None:
    """Run the command line."""
    # A home and all that is written for it are the user's own; processes that are started take this over.
    keep_files_private()
    # An error's text may be a stranger's.
    sys.excepthook = _tell_traceback
    # Imports make many objects and no rubbish: looking for some took a quarter of a short command's time, half of it at
    # the very end.
    gc.set_threshold(200_000)
    atexit.register(gc.freeze)
    try:
        with commands_alone():
            app()
    except XsclError as error:
        if Output.verbose:
            raise
        complain(f"error: {error}")
        _tell_notes(error)
        sys.exit(1)
    except UnicodeEncodeError as error:
        if Output.verbose:
            raise
        if error.encoding == "utf-8":
            # Python keeps bytes of arguments that are no UTF-8 as halves of pairs.
            complain(f"error: [XSCL_BAD_OPTION] {ascii(error.object)} has bytes that are no UTF-8")
        else:
            complain(f"error: the encoding {error.encoding} of the output has no {error.object[error.start]!r}")
            complain("  hint: PYTHONIOENCODING=utf-8, or a locale of UTF-8, lets all characters through")
        sys.exit(1)
    except OSError as error:
        if Output.verbose:
            raise
        # Arrow's errors of files have no more than a path as their text.
        text = f"a file is missing or cannot be used: {error}"
        if error.strerror:
            where = "a file, or the output, cannot be used" if error.filename is None else error.filename
            text = f"{where}: {error.strerror}"
        complain(f"error: {text}")
        _tell_notes(error)
        sys.exit(1)
