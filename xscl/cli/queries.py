"""``xscl query``: standing queries."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from xscl.base.settings import DEFAULT_SETTINGS
from xscl.base.terminal import give, show
from xscl.cli.match_print import DocumentsOption, MatchFormatOption, match_format, print_matches
from xscl.cli.options import (
    CACHE,
    MOST,
    CacheOption,
    CatalogOption,
    DriverRowsOption,
    FormatOption,
    HomeOption,
    JsonOption,
    StrictOption,
    complain,
    cut,
    exit_partly,
    format_of,
    one_line,
    open_given,
    read_text,
    report_outcomes,
    say,
    settings_of,
    time_given,
)
from xscl.cli.printing import Format, print_rows
from xscl.cli.row_options import (
    ColumnsOption,
    DelimiterOption,
    HeaderOption,
    IdOption,
    NullOption,
    SchemaOption,
    SplitOption,
    WholeOption,
    delimiter_of,
    rejection,
)

if TYPE_CHECKING:
    from xscl.answers.try_query import BlockWitness

__all__ = ["query_app"]

_SCREEN = 100  # rows of a table for a person


query_app = typer.Typer(no_args_is_help=True, help="Standing queries.")


@query_app.command("add")
def query_add(
    name: str, text: str, strict: StrictOption = False, home: HomeOption = None, catalog: CatalogOption = None
) -> None:
    """Register a query."""
    from xscl.registry.channel_names import ChannelNames
    from xscl.registry.registry import Registry

    opened = open_given(home, catalog)
    taken = Registry(opened.catalog, ChannelNames(opened.root)).register(text, name=name, strict=strict)
    for note in taken.notes:
        say(f"note: {note}")
    say(f"query {taken}")


@query_app.command("run")
def query_run(
    text: Annotated[str, typer.Argument(help="A query, which DECLAREs may precede; '-' reads stdin.")],
    since: Annotated[
        str | None,
        typer.Option(
            help="Members of this event time or later (ISO 8601 or seconds); by default the text's STARTING says so.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the matches are listed under; ids depend on it.", show_default="once")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, max=MOST, help="At most so many.")] = None,
    driver_rows: DriverRowsOption = DEFAULT_SETTINGS.driver_rows,
    cache: CacheOption = CACHE,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: MatchFormatOption = None,
    json: JsonOption = False,
    documents: DocumentsOption = False,
) -> None:
    """Answer a query once from all that is held; nothing is registered, and nothing is written to the home.

    STARTING NOW, the default of a text, means STARTING ALL here: nothing comes after the question.
    """
    from xscl.answers.ask_once import query_once
    from xscl.spark.session import start_session

    printed = match_format(format, json, documents)
    begin, settings = time_given(since, "--since"), settings_of(driver_rows, cache)
    answer = query_once(
        open_given(home, catalog),
        settings,
        start_session,
        read_text(text) if text == "-" else text,
        since=begin,
        name=name,
    )
    for note in answer.notes:
        say(f"note: {note}")
    print_matches(itertools.islice(answer.matches, limit), printed)


@query_app.command("load")
def query_load(
    file: Annotated[str, typer.Argument(help="A file of statements; '-' reads stdin.")],
    strict: StrictOption = False,
    atomic: Annotated[bool, typer.Option("--atomic", help="All statements or none.")] = False,
    home: HomeOption = None,
    catalog: CatalogOption = None,
) -> None:
    """Register the queries of a file; every bad statement is reported, the good ones are kept."""
    from xscl.registry.channel_names import ChannelNames
    from xscl.registry.registry import Registry

    text = read_text(file)
    opened = open_given(home, catalog)
    registry = Registry(opened.catalog, ChannelNames(opened.root))
    try:
        outcomes = registry.load(text, strict=strict, atomic=atomic)
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


@query_app.command("list")
def query_list(
    like: Annotated[str | None, typer.Option(help="Names that fit a pattern of '*' and '?'.")] = None,
    template: Annotated[str | None, typer.Option(help="Queries of a template.")] = None,
    group: Annotated[int | None, typer.Option(min=1, max=MOST, help="Queries of a group: they ask the same.")] = None,
    channel: Annotated[str | None, typer.Option(help="Queries that read a channel.")] = None,
    after: Annotated[str | None, typer.Option(metavar="NAME", help="Names after this one.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, max=MOST, help="At most so many.")] = None,
    offset: Annotated[int, typer.Option(min=0, max=MOST, help="Leave out the first so many.")] = 0,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """List queries by name; for a person the first hundred, for a program all."""
    from xscl.catalog.suggestions import unknown_notes
    from xscl.cli.next_steps import no_queries
    from xscl.registry.query_list import QueryFilter, count_queries, list_queries

    opened = open_given(home, catalog)
    wanted = QueryFilter(like, template, group, channel, after, limit, offset)
    if channel is not None or template is not None:
        with opened.catalog.read() as connection:
            for note in unknown_notes(connection, channel, template):
                say(f"note: {note}")
    if count:
        show(str(count_queries(opened.catalog, wanted)))
        return
    printed = format_of(format, json)
    if limit is None and printed is Format.table and sys.stdout.isatty():
        wanted = replace(wanted, limit=_SCREEN)
    last = None

    def rows() -> Iterator[dict[str, object]]:
        nonlocal last
        for q in list_queries(opened.catalog, wanted):
            last = q.name
            text = one_line(q.text)
            yield {"query": q.name, "template": q.template, "group": q.gid, "place": q.docid_from, "text": text}

    columns = ["query", "template", "group", "place", "text"]
    shown = print_rows(rows(), columns, printed, short=["query", "template", "text"])
    if not shown:
        say(no_queries() if wanted in (QueryFilter(), QueryFilter(limit=_SCREEN)) else "no query fits")
    if limit is None and shown == wanted.limit:
        more = count_queries(opened.catalog, replace(wanted, after=last))
        if more:
            say(f"note: {more:,} more; go on with --after {last}, or take all with --format ndjson")


@query_app.command("show")
def query_show(
    name: str,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Print a query in canonical text, which 'xscl query load -' takes in another home."""
    from xscl.answers.explain import canonical_text, query_facts

    opened = open_given(home, catalog)
    if json or format is not None:
        facts = query_facts(opened.catalog, name)
        print_rows([facts], [*facts], format_of(format, json))
        return
    give(canonical_text(opened.catalog.query(name)))


@query_app.command("explain")
def query_explain(name: str, home: HomeOption = None, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Explain a query: normal form, canonical variables, windows, template, who shares it, SQL."""
    from xscl.answers.explain import explain, explanation_text

    found = explain(open_given(home, catalog).catalog, name)
    if json:
        print_rows([found.record()], [], Format.json)
        return
    show(explanation_text(found))


@query_app.command("test")
def query_test(
    name: str,
    files: Annotated[
        list[str], typer.Argument(help="Event files, XML documents, feeds, files of rows, archives, directories, '-'.")
    ],
    channel: Annotated[
        str | None,
        typer.Option(help="Channel of what is read.", show_default="the query's, if it reads only one"),
    ] = None,
    whole: WholeOption = False,
    split: SplitOption = None,
    id: IdOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    null: NullOption = None,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many witnesses; 0 for all.")] = 100,
    home: HomeOption = None,
    catalog: CatalogOption = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Show which witnesses documents give: the nodes and values of each block's variables.  Nothing is stored."""
    from xscl.answers.try_query import Trial
    from xscl.ingest.sources import read_paths
    from xscl.intake.inputs import reading_of

    opened = open_given(home, catalog)
    trial = Trial(opened.catalog.query(name), opened.catalog.channels(), opened.catalog.streams())
    read = {of_channel.removesuffix(".raw") for _, of_channel in trial.blocks}
    if channel is None:
        channel = next(iter(read)) if len(read) == 1 else None
    reading = reading_of(
        channel=channel,
        whole=whole,
        split=split,
        id=id,
        delimiter=delimiter_of(delimiter),
        header=header,
        null=null or (),
        schema=schema,
        columns=columns,
    )
    found = trial.witnesses(read_paths(files, reading, stdin=sys.stdin.buffer))
    printed = format_of(format, json)
    as_row = _witness_line if printed is Format.table else _witness_record
    rows = (as_row(witness) for witness in itertools.islice(found, limit or None))
    wide = ["document", "channel", "block", "name", "bindings"]
    shown = print_rows(rows, ["document", "block", "witness"] if printed is Format.table else wide, printed)
    if limit and shown == limit:
        say(f"note: the first {limit} witnesses; there may be more, --limit 0 gives all")
    for problem in trial.problems:
        complain(rejection(problem))
    documents = trial.documents.total()
    for number, (block, of_channel) in enumerate(trial.blocks, start=1):
        say(
            f"block {number} ({block}): witnesses {trial.found[number]}, documents of channel {of_channel} "
            f"{trial.documents[of_channel]}"
        )
    for other in sorted(name for name in trial.documents if name.removesuffix(".raw") not in read):
        say(f"note: the query does not read channel {other}, of which {trial.documents[other]} documents came")
    for note in trial.notes():
        say(f"note: {note}")
    exit_partly(documents, len(trial.problems))


@query_app.command("drop")
def query_drop(name: str, home: HomeOption = None, catalog: CatalogOption = None) -> None:
    """End a query; its matches stay."""
    from xscl.registry.registry import Registry

    Registry(open_given(home, catalog).catalog).drop(name)
    say(f"dropped {name}")


def _witness_record(witness: BlockWitness) -> dict[str, object]:
    bindings = {name: {"node": bound.node, "value": bound.value} for name, bound in witness.bindings.items()}
    return {
        "document": witness.document,
        "channel": witness.channel,
        "block": witness.block,
        "name": witness.name,
        "bindings": bindings,
    }


def _witness_line(witness: BlockWitness) -> dict[str, object]:
    bindings = (f"{name}={bound.node} {cut(bound.value, 40)!r}" for name, bound in witness.bindings.items())
    return {"document": witness.document, "block": witness.block, "witness": "  ".join(bindings)}
