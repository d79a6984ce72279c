"""Printing of matches: as cards for a person, as rows for a program, or their output documents alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.terminal import give, show
from xscl.cli.options import JsonOption, cut, one_line
from xscl.cli.printing import Format, print_rows

if TYPE_CHECKING:
    from xscl.base.types import Match

__all__ = ["MatchFormat", "MatchPrinting", "print_matches", "why_no_longer"]


class MatchFormat(StrEnum):
    """Ways to print matches."""

    cards = "cards"
    table = "table"
    ndjson = "ndjson"
    json = "json"
    csv = "csv"
    documents = "documents"


@dataclass(frozen=True, slots=True)
class MatchPrinting:
    """Options that say how matches are printed."""

    format: Annotated[
        MatchFormat | None, typer.Option("--format", help="How to print.", show_default="cards; on a pipe ndjson")
    ] = None
    json: JsonOption = False
    documents: Annotated[
        bool, typer.Option("--documents", help="Print output documents only, as --format documents.")
    ] = False

    def chosen(self) -> MatchFormat:
        """Choose the format, by the options and by who reads.

        Raises:
            BadParameter: two options ask for different things.
        """
        flags = ((self.json, MatchFormat.json), (self.documents, MatchFormat.documents))
        asked = {wanted for given, wanted in flags if given} | ({self.format} if self.format is not None else set())
        if len(asked) > 1:
            raise typer.BadParameter("--format, --json and --documents exclude each other")
        default = MatchFormat.cards if sys.stdout.isatty() else MatchFormat.ndjson
        return next(iter(asked), default)


def print_matches(found: Iterable[Match], format_: MatchFormat, *, cursors: bool = False) -> int:
    """Print matches one after the other, for a program with the cursors behind them if wanted; returns how many."""
    from xscl.answers.matches.listing import match_json

    if format_ is MatchFormat.cards:
        return _each(found, _card)
    if format_ is MatchFormat.documents:
        return _each(found, _document)
    if format_ is MatchFormat.table:
        return print_rows(map(_short, found), ["match", "query", "ts", "events", "values"], Format.table)
    rows = (match_json(match, cursor=cursors) for match in found)
    more = ["replaces", "retract", "because", "cursor"] if cursors else ["replaces"]
    columns = ["match", "query", "ts", "events", "nodes", "values", "document", *more]
    return print_rows(rows, columns, Format(format_.value))


def _each(found: Iterable[Match], put: Callable[[Match, bool], None]) -> int:
    count = 0
    for match in found:
        put(match, count == 0)
        count += 1
    return count


def _card(match: Match, first: bool) -> None:
    """Print the query, time and id in a line, then the members, the values, and what SELECT puts out."""
    from xscl.answers.matches.cards import member_lines, value_lines
    from xscl.base.types import format_time

    if not first:
        show("")
    show(f"{match.query}  {format_time(match.ts)}  {match.id[:12]}", style="bold")
    if match.retracted is not None:
        show(f"    holds no longer: {why_no_longer(match)}")
        return
    for line in member_lines(match):
        show(f"  {line}")
    for line in value_lines(match):
        show(f"      {line}", style="dim")
    if match.source is not None and match.source.selected:
        show(f"    → {one_line(match.document)}")
    if match.replaces is not None:
        show(f"    replaces {match.replaces[:12]}")


def why_no_longer(match: Match) -> str:
    """Say why a match was taken back."""
    assert match.retracted is not None
    by = match.retracted.by
    return match.retracted.because + ("" if by is None else f", by {by[0]}:{by[1]}")


def _document(match: Match, first: bool) -> None:
    if match.retracted is None:
        give(match.document)


def _short(match: Match) -> dict[str, object]:
    from xscl.answers.matches.cards import value_lines
    from xscl.base.types import format_time

    return {
        "match": match.id[:12],
        "query": match.query,
        "ts": format_time(match.ts),
        "events": "  ".join(f"{event.channel}:{event.id}" for event in match.events),
        "values": "  ".join(map(cut, value_lines(match)))
        if match.retracted is None
        else f"no more: {why_no_longer(match)}",
    }
