"""``xscl shell``: statements of XSCL and SQL in one warm session."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xscl.cli.options import Printing, ServedOptions, SparkOptions, say
from xscl.cli.shell_terminal import edited_lines
from xscl.cli.signals import interrupted_by_ctrl_c
from xscl.cli.sql import Answering

__all__ = ["shell"]


def shell(
    limit: Annotated[int, typer.Option(min=0, help="At most this many rows of an answer; 0 for all.")] = 1000,
    *,
    on: SparkOptions,
    at: ServedOptions,
    printing: Printing,
) -> None:
    r"""Ask and change a home by statements of SQL and XSCL, which ';' ends, in one warm session.

    The session is that of a service that runs, else one of its own. Tab completes, and \? lists the commands.

    Example: xscl shell
    echo 'CREATE QUERY own AS S//own; SELECT qid FROM queries;' | xscl shell
    """
    from xscl.cli.shell_session import Shell

    answering = Answering.of(at, on, limit)
    found = Shell(answering, at, limit, printing.chosen())
    if not sys.stdin.isatty():
        found.run(sys.stdin, "-")
        return
    where = at.open().root if answering.client is None else answering.client.url
    say(rf"xscl on {where}; \? lists commands, \q leaves")
    with interrupted_by_ctrl_c(), edited_lines(found.complete):
        found.converse()
