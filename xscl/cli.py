"""The command line: ``xscl noun verb``.

Data goes to stdout, messages to stderr; exit 0 ok, 1 failure, 2 usage, 3 partly done.  Commands are in the modules
``cli_*``, those of a noun in one; libraries that are slow to load are imported where a command needs them.  Only
``run``, ``query run``, ``eval``, ``sql``, ``demo``, ``bench`` and ``doctor`` import Spark, and start it if need be.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from xscl import __version__
from xscl.cli_channels import channel_app
from xscl.cli_common import Output, complain
from xscl.cli_feeds import feed_app
from xscl.cli_home import doctor, export, import_, init
from xscl.cli_ingest import eval_, ingest
from xscl.cli_late import late_app
from xscl.cli_matches import match_app
from xscl.cli_queries import query_app
from xscl.cli_run import bench, demo, run, sql, stats
from xscl.cli_templates import template_app
from xscl.errors import XsclError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    help="Standing queries that join XML documents, feeds and rows by value inside time windows, on Spark.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_COMMANDS: tuple[Callable[..., None], ...] = (
    init,
    doctor,
    export,
    import_,
    ingest,
    run,
    sql,
    stats,
    eval_,
    demo,
    bench,
)
"""In the order of the help."""
for _command in _COMMANDS:
    app.command(_command.__name__.rstrip("_"))(_command)
for _noun, _commands in (
    ("channel", channel_app),
    ("feed", feed_app),
    ("query", query_app),
    ("match", match_app),
    ("late", late_app),
    ("template", template_app),
):
    app.add_typer(_commands, name=_noun)


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
        complain(f"error: {error}")
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        complain("interrupted; what was committed stays, and the rest is done when you run it again")
        sys.exit(130)
    except OSError as error:
        if Output.verbose:
            raise
        # Arrow's errors of files have no more than a path as their text.
        text = f"a file is missing or cannot be used: {error}"
        if error.strerror:
            text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        complain(f"error: {text}")
        sys.exit(1)
