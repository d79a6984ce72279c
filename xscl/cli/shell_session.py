"""A session of the shell: statements and commands, one after another."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.answers.sql.comments import relation_comment
from xscl.base.errors import CatalogError, EngineError, QueryError, SourceError, XsclError
from xscl.base.terminal import show
from xscl.cli.options import ServedOptions, complain, report_outcomes, say
from xscl.cli.printing import Format, print_rows
from xscl.cli.remote import MOST_ROWS
from xscl.cli.shell_input import Input, first_statement
from xscl.cli.shell_terminal import paged
from xscl.cli.shell_words import COMMANDS, Words, candidates, home_words, service_words
from xscl.cli.sql import Answering, print_answer

if TYPE_CHECKING:
    from xscl.base.types import QueryOutcome

__all__ = ["Shell"]

_PROMPT, _MORE = "xscl> ", "  ... "
_PLACE = re.compile(r"\bline (?P<line>\d+),? (?:column|pos) (?P<column>\d+)")
_DECLARE = re.compile(r"\s*declare\b", re.IGNORECASE)
_NAMED = re.compile(r"\s*(?:create|drop|declare)\b", re.IGNORECASE)
_WORDS = {"exit": r"\q", "quit": r"\q", "help": r"\?"}
"""Words that people try, and the commands that they mean."""


class _Left(Exception):
    """The end of the shell is asked for."""


@dataclass(slots=True)
class Shell:
    """Statements and commands, one after another."""

    answering: Answering
    at: ServedOptions
    limit: int
    printed: Format
    times: bool = False
    words: Words | None = None
    declared: str = ""
    """Declarations of namespaces, for the queries behind them."""
    reading: list[Path] = field(default_factory=list)
    """Files that are read now, one from within another."""

    # -- reading -----------------------------------------------------------------------------------------------

    def converse(self) -> None:
        """Read statements of a person until the end is asked for; Ctrl-C gives up a statement."""
        text = ""
        while True:
            try:
                line = input(_MORE if text.strip() else _PROMPT) + "\n"
                # A command leaves the statement that is being written as it is.
                if text.strip() and line.lstrip().startswith("\\"):
                    self._take(line, None, 1)
                else:
                    text = self._take(text + line, None, 1)
            except (EOFError, _Left):
                return
            except KeyboardInterrupt:
                show("")
                say("cancelled")
                text = ""

    def run(self, lines: Iterator[str] | io.TextIOBase, file: str) -> None:
        """Run the statements of a file; the first error ends them.

        Raises:
            XsclError: a statement is refused; the message has its place.
        """
        text, begin = "", 1
        try:
            for number, line in enumerate(lines, start=1):
                if not text.strip():
                    text, begin = "", number
                whole = text + line
                text = self._take(whole, file, begin)
                begin += whole[: len(whole) - len(text)].count("\n")
            if text.strip():
                self._take(text, file, begin, is_all=True)
        except _Left:
            return

    def _take(self, text: str, file: str | None, begin: int, *, is_all: bool = False) -> str:
        """Do what is complete of a text, whose first line is ``begin``; return the rest."""
        word = _WORDS.get(text.strip().rstrip(";").lower())
        if word is not None or text.lstrip().startswith("\\"):
            with self._tell_errors(file, begin):
                self._command(word or text.strip())
            return ""
        while (found := first_statement(text)) is not None and (found.is_ended or is_all):
            line = begin + found.line - 1
            with self._tell_errors(file, line):
                self._statement(found, line if file else 1, file)
            begin += text[: found.end].count("\n")
            text = text[found.end :]
        return text if text.strip() else ""

    @contextmanager
    def _tell_errors(self, file: str | None, line: int) -> Iterator[None]:
        """Tell a person of an error; the error of a file gets its place.

        Raises:
            EngineError: something of a file is refused.
        """
        began, was_timed = time.monotonic(), self.times
        try:
            yield
        except XsclError as error:
            if file is None:
                complain(f"error: {error}")
                return
            is_placed = isinstance(error, (QueryError, CatalogError)) and error.has_place
            told = error.details() if is_placed else error.message  # type: ignore[attr-defined]
            hint = None if is_placed else error.hint
            raise EngineError(error.condition, f"{file}:{line}: {told}", hint=hint) from None
        finally:
            if was_timed and self.times:
                say(f"time: {(time.monotonic() - began) * 1e3:,.0f} ms")

    # -- statements --------------------------------------------------------------------------------------------

    def _statement(self, found: Input, line: int, file: str | None) -> None:
        if not found.text.strip():
            return
        if not found.is_sql:
            self._query(found.text, file or "input")
            return
        placed = "\n" * (line - 1) + found.text
        try:
            answer = self.answering.ask_interruptibly(placed, self.limit)
        except EngineError as error:
            raise _with_caret(error, placed) from None
        if self.printed is Format.table:
            self._page(lambda: print_answer(answer, self.printed))
        else:
            print_answer(answer, self.printed)

    def _query(self, text: str, file: str) -> None:
        """Take a statement of XSCL.

        Raises:
            XsclError: it is refused, ``XSCL_UNNAMED_QUERY`` if it has no name.
        """
        if not _NAMED.match(text):
            raise EngineError(
                "XSCL_UNNAMED_QUERY",
                "the shell registers queries by name",
                hint="CREATE QUERY name AS … registers it; 'xscl query run' answers it once",
            )
        if _DECLARE.match(text):
            self.declared += f"{text.strip()} "
        outcomes = self._load(self.declared + text if not _DECLARE.match(text) else text)
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        report_outcomes(outcomes, file)
        self.words = None

    def _load(self, text: str) -> list[QueryOutcome]:
        if self.answering.client is not None:
            from xscl.cli.remote import load_queries

            return load_queries(self.answering.client, text, None, strict=False, atomic=False)
        from xscl.registry.channel_names import ChannelNames
        from xscl.registry.registry import Registry

        opened = self.at.open()
        return Registry(opened.catalog, ChannelNames(opened.root)).load(text)

    def _page(self, work: Callable[[], object]) -> None:
        kept = io.StringIO()
        with redirect_stdout(kept):
            work()
        paged(kept.getvalue())

    # -- commands ----------------------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        r"""Do what a line that begins with ``\`` asks for.

        Raises:
            EngineError: ``XSCL_BAD_OPTION``: there is no such command.
        """
        name, _, rest = text.rstrip(";").partition(" ")
        rest = rest.strip()
        match name:
            case r"\q":
                raise _Left
            case r"\?":
                show("\n".join(COMMANDS.values()))
            case r"\timing":
                self.times = {"on": True, "off": False}.get(rest, not self.times)
                say(f"times are {'told' if self.times else 'not told'}")
            case r"\d" if rest:
                answer = self.answering.ask_interruptibly(f"DESCRIBE `{rest.strip('`')}`", MOST_ROWS)
                self._page(lambda: print_answer(answer, Format.table))
            case r"\d":
                rows = [{"relation": each, "rows": relation_comment(each)} for each in self._words().relations]
                self._page(lambda: print_rows(rows, ["relation", "rows"], Format.table))
            case r"\i" if rest:
                self._include(Path(rest))
            case _:
                told = f"there is no command {name}" if name not in COMMANDS else f"{name} needs a file"
                raise EngineError("XSCL_BAD_OPTION", told, hint=r"\? lists them")

    def _include(self, file: Path) -> None:
        if file.resolve() in self.reading:
            raise EngineError("XSCL_BAD_OPTION", f"{file} is being read already")
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(
                "XSCL_SOURCE_UNREADABLE", f"{file}: {getattr(error, 'strerror', None) or error}"
            ) from None
        self.reading.append(file.resolve())
        try:
            self.run(io.StringIO(text), str(file))
        finally:
            self.reading.pop()

    # -- completion --------------------------------------------------------------------------------------------

    def _words(self) -> Words:
        if self.words is None:
            client = self.answering.client
            self.words = home_words(self.at.open()) if client is None else service_words(client)
        return self.words

    def complete(self, word: str, before: str) -> list[str]:
        """Return what a word of a line may become."""
        return candidates(word, before, self._words())


def _with_caret(error: EngineError, statement: str) -> EngineError:
    """Return the error of a statement with the line of its place and a caret."""
    found = _PLACE.search(error.message)
    lines = statement.split("\n")
    if found is None or not 1 <= int(found["line"]) <= len(lines) or "^" in error.message:
        return error
    line = lines[int(found["line"]) - 1]
    column = max(0, int(found["column"]) - ("column" in found[0]))
    if column > len(line) or len(line) > 200:
        return error
    return EngineError(error.condition, f"{error.message}\n    {line}\n    {' ' * column}^", hint=error.hint)
