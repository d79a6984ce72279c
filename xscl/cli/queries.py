"""``xscl query``: standing queries."""

from __future__ import annotations

import enum
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.shown import counted
from xscl.base.terminal import give, show
from xscl.cli.commands import command
from xscl.cli.dry_runs import dry_run_of, report_dry_run, witness_line, witness_record
from xscl.cli.match_print import MatchPrinting, print_matches
from xscl.cli.options import (
    JsonOption,
    Printing,
    ServedOptions,
    SparkOptions,
    StrictOption,
    WorkOptions,
    complain,
    exit_partly,
    held_by_databases,
    named_text,
    needs_home,
    one_line,
    read_text,
    report_outcomes,
    say,
    time_given,
)
from xscl.cli.printing import Format, print_rows
from xscl.cli.reading_options import WitnessReading

if TYPE_CHECKING:
    from xscl.cli.client import Client

__all__ = ["query_app"]


class Lang(enum.Enum):
    """Languages of queries."""

    xscl = "xscl"
    cel = "cel"


_SCREEN = 100  # rows of a table for a person
_STATE = ["state", "suspended_from", "reason", "level", "late_for"]
_COLUMNS = ["query", "owner", "template", "group", "place", *_STATE, "text"]
_SHORT = ["query", "owner", "template", "suspended_from", "text"]
"""Columns of a person's table."""
_LARGE = 200_000
"""Characters of a script that a service that nobody named does not get."""
_LangOption = Annotated[
    Lang, typer.Option("--lang", help="Language of the text; a file *.cel is in CEL by itself.", case_sensitive=False)
]
_OwnerOption = Annotated[str | None, typer.Option("--owner", help="Who registers it; quotas count by owner.")]


query_app = typer.Typer(no_args_is_help=True, help="Standing queries.")


@command(query_app, "add")
def query_add(
    name: Annotated[str, typer.Argument(help="Its name; a text that begins with CREATE QUERY has it itself.")],
    text: Annotated[str | None, typer.Argument(help="The query; DECLAREs may precede it.")] = None,
    owner: _OwnerOption = None,
    strict: StrictOption = False,
    lang: _LangOption = Lang.xscl,
    *,
    at: ServedOptions,
) -> None:
    """Register a query.

    Example: xscl query add same 'S//book->b[./author->a] FOLLOWED BY {a=c, 7 days} S//blog->g[./author->c]'
    """
    from xscl.cli.remote import add_query
    from xscl.language.syntax.statements import in_cel
    from xscl.registry.channel_names import ChannelNames
    from xscl.registry.registry import Registry

    named, text = named_text(name, text)
    if lang is Lang.cel:
        text = in_cel(text)
    if (client := at.client(only_home=owner is not None or strict)) is not None:
        taken = add_query(client, named, text, owner, strict=strict)
    else:
        opened = at.open()
        registry = Registry(opened.catalog, ChannelNames(opened.root))
        taken = registry.register(text, name=named, owner=owner, strict=strict)
    for note in taken.notes:
        say(f"note: {note}")
    say(f"query {taken}")


@command(query_app, "run")
def query_run(
    text: Annotated[str, typer.Argument(help="A query, which DECLAREs may precede; '-' reads stdin.")],
    since: Annotated[
        str | None,
        typer.Option(
            help="Members of this time or later (ISO 8601, seconds, NOW-7d); by default the text's STARTING says so.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the matches are listed under; ids depend on it.", show_default="once")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, callback=held_by_databases, help="At most this many.")] = None,
    *,
    work: WorkOptions,
    on: SparkOptions,
    at: ServedOptions,
    printing: MatchPrinting,
) -> None:
    """Answer a query once from all that is held; nothing is registered, and nothing is written to the home.

    STARTING NOW, the default of a text, means STARTING ALL here: nothing comes after the question.

    Example: xscl query run 'S//book->b[./author->a] JOIN {a=c, 7 days} S//blog->g[./author->c]' --limit 10
    """
    from xscl.answers.once.once import query_once
    from xscl.spark.session import start_session

    printed = printing.chosen()
    begin, settings, session_options = time_given(since, "--since"), work.settings(), on.session()
    text = read_text(text) if text == "-" else text
    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import run_query

        if on.are_given or work.where != "auto":
            raise needs_home("query run --where, --master, --remote or --conf", "a service answers in a process here")
        found, notes = run_query(client, text, begin, name, limit)
        for note in notes:
            say(f"note: {note}")
        print_matches(found, printed)
        return
    answer = query_once(at.open(), settings, lambda: start_session(session_options), text, since=begin, name=name)
    for note in answer.notes:
        say(f"note: {note}")
    print_matches(itertools.islice(answer.matches, limit), printed)


@command(query_app, "load")
def query_load(
    file: Annotated[str, typer.Argument(help="A file of statements; '-' reads stdin.")],
    owner: _OwnerOption = None,
    strict: StrictOption = False,
    atomic: Annotated[bool, typer.Option("--atomic", help="All statements or none.")] = False,
    lang: _LangOption = Lang.xscl,
    *,
    at: ServedOptions,
) -> None:
    """Register the queries of a file; every bad statement is reported, the good ones are kept.

    Example: xscl query load queries.xscl --atomic
    """
    from xscl.catalog.kept_groups import KeptGroups
    from xscl.cli.remote import load_queries
    from xscl.language.syntax.statements import in_cel
    from xscl.registry.channel_names import ChannelNames
    from xscl.registry.registry import Registry

    text = read_text(file)
    if lang is Lang.cel or file.endswith(".cel"):
        text = in_cel(text)
    try:
        large = len(text) > _LARGE
        if (client := at.client(only_home=owner is not None or strict or large)) is not None:
            outcomes = load_queries(client, text, owner, strict=strict, atomic=atomic)
        else:
            opened = at.open()
            registry = Registry(opened.catalog, ChannelNames(opened.root), KeptGroups(opened.folder("programs")))
            outcomes = registry.load(text, owner=owner, strict=strict, atomic=atomic)
    except KeyboardInterrupt:
        kept = "nothing is kept" if atomic else "what was registered until then is kept ('xscl query list --count')"
        complain(f"interrupted; {kept}")
        raise typer.Exit(130) from None
    report_outcomes(outcomes, file)
    taken = [outcome for outcome in outcomes if outcome.ok]
    done = Counter(outcome.action for outcome in taken)
    parts = [f"{count} {action}" for action, count in sorted(done.items(), key=lambda item: -item[1])]
    say(", ".join([*(parts or ["nothing registered"]), f"{len(outcomes) - len(taken)} refused"]))
    exit_partly(len(taken), len(outcomes) - len(taken))


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Options that say which queries are listed, by the names of the fields of ``QueryFilter``."""

    like: Annotated[str | None, typer.Option(help="Names that fit a pattern of '*' and '?'.")] = None
    template: Annotated[
        str | None, typer.Option(help="Queries of a template: its id, or the beginning that no other has.")
    ] = None
    group: Annotated[int | None, typer.Option(min=1, callback=held_by_databases, help="Queries of a group.")] = None
    channel: Annotated[str | None, typer.Option(help="Queries that read a channel.")] = None
    owner: Annotated[str | None, typer.Option(help="Queries of an owner; '' is nobody.")] = None
    suspended: Annotated[
        bool | None, typer.Option("--suspended/--live", help="Only suspended queries, or only live ones.")
    ] = None
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Names after this one.")] = None
    limit: Annotated[int | None, typer.Option(min=0, callback=held_by_databases, help="At most this many.")] = None
    offset: Annotated[int, typer.Option(min=0, callback=held_by_databases, help="Leave out so many at the start.")] = 0


@command(query_app, "list")
def query_list(
    options: FilterOptions,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    *,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """List queries by name; for a person the first hundred, for a program all.

    Example: xscl query list --like 'quake*' --channel items --limit 20
    """
    from xscl.catalog.suggestions import unknown_notes
    from xscl.cli.next_steps import no_queries
    from xscl.registry.query_list import QueryFilter, count_queries, list_queries, state_facts

    if (client := at.client()) is not None:
        _list_served(client, options, count, printing)
        return
    opened = at.open()
    wanted = QueryFilter(**asdict(options))
    for note in opened.catalog.ask(unknown_notes, wanted.channel, wanted.template):
        say(f"note: {note}")
    if count:
        show(str(count_queries(opened.catalog, wanted)))
        return
    printed = printing.chosen()
    if options.limit is None and printed is Format.table and sys.stdout.isatty():
        wanted = replace(wanted, limit=_SCREEN)
    last = None

    def rows() -> Iterator[dict[str, object]]:
        nonlocal last
        for q in list_queries(opened.catalog, wanted):
            last = q.name
            told = {"query": q.name, "owner": q.owner, "template": q.template, "group": q.gid, "place": q.docid_from}
            yield {**told, **state_facts(q), "text": one_line(q.said)}

    shown = print_rows(rows(), _COLUMNS, printed, short=_SHORT)
    if not shown:
        say(no_queries() if wanted in (QueryFilter(), QueryFilter(limit=_SCREEN)) else "no query fits")
    if options.limit is None and shown == wanted.limit:
        more = count_queries(opened.catalog, replace(wanted, after=last))
        if more:
            say(f"note: {more:,} more; go on with --after {last}, or take all with --format ndjson")


def _list_served(client: Client, options: FilterOptions, count: bool, printing: Printing) -> None:
    """List the queries of a service, or print how many there are."""
    from xscl.cli.remote import query_rows

    found = query_rows(client, asdict(options))
    if count:
        show(str(sum(1 for _ in found)))
    elif not print_rows(found, _COLUMNS, printing.chosen(), short=_SHORT):
        say("no query fits")


@command(query_app, "show")
def query_show(
    name: str,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Print a query in canonical text, which 'xscl query load -' takes in another home.

    Example: xscl query show same
    """
    from xscl.answers.explaining.explain import explain
    from xscl.catalog.queries import read_query
    from xscl.registry.canonical_text import canonical_text

    if (client := at.client()) is not None:
        from xscl.cli.remote import show_query

        show_query(client, name, printing.chosen() if printing.given else None)
        return
    opened = at.open()
    if printing.given:
        facts = explain(opened.catalog, name).summary()
        print_rows([facts], [*facts], printing.chosen())
        return
    info = opened.catalog.ask(read_query, name)
    if info.is_suspended:
        say(f"note: suspended from place {info.docid_until} on: {info.suspended}")
    give(canonical_text(info))


@command(query_app, "explain")
def query_explain(name: str, json: JsonOption = False, *, at: ServedOptions) -> None:
    """Explain a query: normal form, canonical variables, windows, template, who shares it, SQL.

    Example: xscl query explain same
    """
    from xscl.answers.explaining.explain import explain
    from xscl.answers.explaining.text import explanation_text

    if (client := at.client()) is not None:
        from xscl.cli.remote import explain_query

        explain_query(client, name, json=json)
        return
    found = explain(at.open().catalog, name)
    if json:
        print_rows([found.record()], [], Format.json)
        return
    show(explanation_text(found))


@command(query_app, "test")
def query_test(
    name: str,
    files: Annotated[
        list[str], typer.Argument(help="Event files, XML documents, feeds, files of rows, archives, directories, '-'.")
    ],
    channel: Annotated[
        str | None,
        typer.Option(help="Channel of what is read.", show_default="the query's, if it reads only one"),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most this many witnesses; 0 for all.")] = 100,
    *,
    options: WitnessReading,
    at: ServedOptions,
    printing: Printing,
) -> None:
    """Show which witnesses documents give: the nodes and values of each block's variables.  Nothing is stored.

    Example: xscl query test same book.xml
    xscl query test hot readings.csv --null NA
    """
    from xscl.ingest.sources import read_paths

    dry_run = dry_run_of(at, name)
    read = {of_channel.removesuffix(".raw") for _, of_channel in dry_run.blocks}
    if channel is None:
        channel = next(iter(read)) if len(read) == 1 else None
    found = dry_run.witnesses(read_paths(files, options.reading(channel), stdin=sys.stdin.buffer))
    printed = printing.chosen()
    as_row = witness_line if printed is Format.table else witness_record
    rows = (as_row(witness) for witness in itertools.islice(found, limit or None))
    wide = ["document", "channel", "block", "name", "bindings"]
    shown = print_rows(rows, ["document", "block", "witness"] if printed is Format.table else wide, printed)
    if limit and shown == limit:
        say(f"note: the first {counted(limit, 'witness')}; there may be more, --limit 0 gives all")
    report_dry_run(dry_run, read)
    exit_partly(dry_run.documents.total(), len(dry_run.problems))


@command(query_app, "drop")
def query_drop(name: str, at: ServedOptions) -> None:
    """End a query; its matches stay.

    Example: xscl query drop same
    """
    from xscl.registry.registry import Registry

    if (client := at.client()) is not None:
        from xscl.cli.remote import drop_query

        drop_query(client, name)
    else:
        Registry(at.open().catalog).drop(name)
    say(f"dropped {name}")


@command(query_app, "resume")
def query_resume(name: str, at: ServedOptions) -> None:
    """Have a suspended query go on from now, with the same ids of matches.

    Example: xscl query resume same
    """
    from xscl.registry.registry import Registry

    if (client := at.client()) is not None:
        from xscl.cli.remote_answers import resume_query

        resumed = resume_query(client, name)
    else:
        resumed = Registry(at.open().catalog).resume(name)
    say(f"query {name} goes on from place {resumed.resumed} on")
    if resumed.missed:
        missed = counted(resumed.missed, "event")
        say(
            f"note: not for it were {missed} of its channels from place {resumed.suspended} on; "
            f"'xscl query run TEXT --name {name}' asks for all that is held, with the same ids of matches"
        )
