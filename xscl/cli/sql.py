"""``xscl sql``: statements of SQL over the relations of a home."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.errors import EngineError
from xscl.base.shown import counted
from xscl.base.terminal import show
from xscl.cli.options import Printing, ServedOptions, SparkOptions, read_text, say
from xscl.cli.printing import Format, distinct_names, print_rows
from xscl.cli.remote import MOST_ROWS, NO_TIME, Answer, ask_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.cli.client import Client
    from xscl.engine import Engine

__all__ = ["Answering", "print_answer", "sql"]

_LOOK_S, _PATIENCE_S = 0.2, 30.0
"""Seconds between two looks for Ctrl-C, and until the end of a statement that it cancels."""


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="One statement; '-' reads statements from stdin.", show_default=False)
    ] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", help="A file of statements, which ';' ends.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most this many rows of an answer; 0 for all.")] = 1000,
    show_steps: Annotated[
        bool, typer.Option("--show-steps", help="Only print how the statement's relations are made, as SQL.")
    ] = False,
    *,
    on: SparkOptions,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Run read-only Spark SQL statements over the home's relations; the first error ends a file.

    Example: xscl sql 'SELECT qid, count(*) AS n FROM matches GROUP BY qid'
    xscl sql -f report.sql --format csv
    xscl sql --show-steps 'SELECT * FROM matches'
    """
    if (statement is None) == (file is None):
        raise typer.BadParameter("give one statement, '-', or a file by -f")
    if show_steps:
        from xscl.answers.sql.relations import steps_text

        if statement is None or statement == "-":
            raise typer.BadParameter("--show-steps goes with one statement")
        show(steps_text(at.open(), statement))
        return
    script = None if statement not in (None, "-") else read_text(file or "-")
    answering = Answering.of(at, on, limit)
    if script is None:
        assert statement is not None
        print_answer(answering.ask(statement, limit), printing.chosen())
    else:
        _run_script(answering, script, file or "-", limit, printing.chosen())


def _run_script(answering: Answering, script: str, file: str, limit: int, printed: Format) -> None:
    """Print the answers to the statements of a script.

    Raises:
        EngineError: a statement is refused; the message has its file and line.
    """
    from xscl.answers.sql.scripts import statements

    for number, each in enumerate(statements(script)):
        try:
            answer = answering.ask(each.placed, limit)
        except EngineError as error:
            raise EngineError(error.condition, f"{file}:{each.line}: {error.message}", hint=error.hint) from None
        if number and printed in (Format.table, Format.csv):
            show("")
        print_answer(answer, printed)


def print_answer(answer: Answer, printed: Format) -> None:
    """Print the rows of an answer, and say whether there are more."""
    if answer.more:
        say(f"note: only the first {counted(len(answer.rows), 'row')}; --limit 0 gives all of a home")
    print_rows(answer.rows, answer.columns, printed)


@dataclass(slots=True)
class Answering:
    """Answers to statements: those of a service, else those of an engine that is made for the first one."""

    client: Client | None
    make: Callable[[], Engine]
    engine: Engine | None = None
    session: SparkSession | None = None
    """Session of the statement that the engine answers."""

    @classmethod
    def of(cls, at: ServedOptions, on: SparkOptions, limit: int) -> Answering:
        """Choose by the options of a command."""

        def make() -> Engine:
            from xscl.engine import Engine

            return Engine(at.open(), session_options=on.session())

        return cls(at.client(only_home=on.are_given or limit == 0 or limit > MOST_ROWS), make)

    def ask(self, statement: str, limit: int) -> Answer:
        """Answer a statement with so many rows at most; 0: with all."""
        return self._of_service(statement, limit) or self._of_home(statement, limit)

    def _of_service(self, statement: str, limit: int) -> Answer | None:
        """Have the service answer; return None where the home has to."""
        if self.client is None:
            return None
        try:
            return ask_sql(self.client, statement, limit)
        except EngineError as error:
            if not self.client.is_found or error.condition not in NO_TIME:
                raise
            say(f"note: {self.client.url} has the home open, but {error.message}; this works on the home itself")
            return None

    def _of_home(self, statement: str, limit: int) -> Answer:
        from xscl.answers.sql.views import sql_errors

        if self.engine is None:
            self.engine = self.make()
        frame = self.engine.sql(statement)
        self.session = frame.sparkSession
        # Two columns may have one name, as those of a join.
        names = distinct_names(frame.columns)
        with sql_errors():
            rows = (frame.limit(limit + 1) if limit else frame).toArrow().rename_columns(names).to_pylist()
        more = bool(limit) and len(rows) > limit
        return Answer(names, rows[:limit] if more else rows, more)

    def ask_interruptibly(self, statement: str, limit: int) -> Answer:
        """Answer a statement as ``ask`` does; Ctrl-C cancels it.

        Raises:
            KeyboardInterrupt: Ctrl-C came.
        """
        from concurrent.futures import Future  # the shell's alone

        # A service sees that the call has ended.
        if (answer := self._of_service(statement, limit)) is not None:
            return answer
        found: Future[Answer] = Future()
        # Ctrl-C would spoil a wait for the thread itself.
        done = threading.Event()

        def work() -> None:
            try:
                found.set_result(self._of_home(statement, limit))
            except BaseException as error:
                found.set_exception(error)
            done.set()

        threading.Thread(target=work, daemon=True).start()
        try:
            while not done.wait(_LOOK_S):
                pass
        except KeyboardInterrupt:
            self._interrupt(done)
            raise
        return found.result()

    def _interrupt(self, done: threading.Event) -> None:
        """End the jobs of the statement, until it ends; jobs that have not begun yet cannot be ended."""
        until = time.monotonic() + _PATIENCE_S
        while not done.is_set() and time.monotonic() < until:
            if self.session is not None:
                self.session.interruptAll()
            done.wait(_LOOK_S)
