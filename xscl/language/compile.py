"""Syntax tree to what registration needs: joins, and queries that are made of joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from xscl.base.errors import UnsupportedFeatureError
from xscl.base.replacing import replaced
from xscl.language.absence import AbsenceParts, absence_parts, require_memory
from xscl.language.aggregates import definition_of, whole_part_of
from xscl.language.compile_joins import compile_normal
from xscl.language.compiled import CompiledAbsence, CompiledPart, CompiledQuery, FilledJoins, FilledQuery
from xscl.language.facts import ANSWERS, ChannelFacts
from xscl.language.normalize import normalize
from xscl.language.outlines.steps import said_of
from xscl.language.row_windows import refuse_rows
from xscl.language.selection import prepare_select
from xscl.language.steps.parts import members_of, parts_of, selects_values
from xscl.language.steps.steps import steps_of
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_level, format_query
from xscl.language.windows import MAX_CASES
from xscl.templates.guards import MOST_ALTERNATIVES
from xscl.templates.template import Group

__all__ = ["GUARDED", "at_level", "compile_filled", "compile_query"]

GUARDED = "(: guarded :) "
"""Begins the text of a query of one block whose guard is apart, as guards of two blocks are.

By itself such a query is sooner found without: then documents that it does not want have no rows.
"""
_RETRACTS = "on change retract"
"""Part of the key of a group whose matches are taken back on changes."""


def compile_query(
    query: ast.Query,
    text: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    channels: Mapping[str, ChannelFacts] | None = None,
    like: CompiledQuery | None = None,
    guarded: bool = False,
) -> CompiledQuery:
    """Compile a query to all that registration needs; a pure function of its text and of the channels' schemas.

    Args:
        query: the tree of the text.
        text: the text.
        namespaces: URIs by prefix.
        channels: the channels' schemas.
        like: what a text was compiled to that differs in constants of brackets alone; it changes no result, and saves
            most of the work where these constants are in guards.
        guarded: lift the guard out of one block, too.

    Raises:
        QueryError: as ``normalize``; ``XSCL_BAD_LEVEL``.
    """
    if query.level is not None:
        require_memory(query.level, text)
    _refuse_answers(query, text)
    if query.steps is not None:
        return _compiled_steps(query, text, namespaces, channels)
    if query.aggregate is not None:
        return _compiled_windows(query, text, namespaces, channels)
    if query.retracts:
        _refuse_retracting(query, text)
    if query.negations:
        refuse_rows(query, text, "a query about absence")
        return _compiled_absence(query, text, namespaces, channels)
    if query.retracts:
        refuse_rows(query, text, "a query whose matches are taken back")
        return _compiled_retracting(query, text, namespaces, channels)
    normal = normalize(query, text, namespaces)
    if query.select is not None:
        prepare_select(query.select, text, namespaces)  # refuses what could not be output
    try:
        return compile_normal(normal, channels or {}, like, guarded=guarded)
    except UnsupportedFeatureError as error:
        # What is unsupported about a join graph concerns the query as a whole.
        raise UnsupportedFeatureError(
            error.condition, error.message, text=text, span=query.source.span, hint=error.hint
        ) from None


def _refuse_answers(query: ast.Query, text: str) -> None:
    """Refuse to read or to publish what windows make."""
    named = [(block.channel, block.span) for block in ast.blocks(query.source)]
    named += [(each.right.channel, each.right.span) for each in query.negations]
    for channel, span in (*named, (query.publish, query.publish_span)):
        if channel == ANSWERS:
            raise UnsupportedFeatureError(
                "XSCL_AGGREGATE_LIMIT",
                f"{ANSWERS} has the answers of windows of all queries",
                text=text,
                span=span,
                hint="have the query with windows PUBLISH to a channel, and read that",
            )


def _compiled_windows(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query with windows, and the query whose matches these are over."""
    definition_of(query, text, namespaces)  # refuses what could not be told
    plain = whole_part_of(query, text, namespaces, channels)
    part = CompiledPart(format_query(plain), compile_query(plain, text, namespaces=namespaces, channels=channels))
    return _over(part, said_of(query))


def _over(part: CompiledPart, said: str) -> CompiledQuery:
    """Return a query with windows over the matches of a part; ``said`` is the text by which it is of a group."""
    group = replaced(part.compiled.group, absence=(part.compiled.group.key, said))
    return replaced(part.compiled, group=group, windowed=part, is_made=True, plans=())


def _compiled_steps(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query with steps, and the queries whose matches these are over."""
    steps_of(query, text, namespaces)  # refuses what could not be told
    for each in parts_of(query):
        refuse_rows(each, text, "a query with steps")
    parts = tuple(
        CompiledPart(format_query(part), compile_query(part, text, namespaces=namespaces, channels=channels))
        for part in parts_of(query)
    )
    whole = compile_query(members_of(query), text, namespaces=namespaces, channels=channels)
    group = replace(whole.group, absence=(*(part.compiled.group.key for part in parts), said_of(query)))
    read = whole.read.union(*(part.compiled.read for part in parts))
    compiled = replace(whole, group=group, read=read, stepped=parts, is_made=selects_values(query), level=None)
    return compiled if query.level is None else at_level(compiled, query.level)


def _compiled_absence(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query about absence, and the queries that it is made of."""
    parts = absence_parts(query, text)
    # What is wanted comes first, so that refusals speak of it.
    plain = replace(query, negations=(), retracts=False)
    whole = compile_query(plain, text, namespaces=namespaces, channels=channels, guarded=True)
    wanted, *forbidden = _compiled_parts(query, parts, text, namespaces, channels)
    facts = {name: of.channel or name for name, of in (channels or {}).items()}
    ends = tuple((facts.get(name, name), found) for name, found in parts.ends)
    absence = CompiledAbsence(wanted, tuple(forbidden), ends, parts.shown, query.retracts)
    return _with_absence(whole, absence, query.level)


def _with_absence(whole: CompiledQuery, absence: CompiledAbsence, level: ast.Level | None) -> CompiledQuery:
    """Return a query about absence, made of what is said of the members that are there, and of its parts."""
    group = replaced(whole.group, absence=_said_of_absence(absence))
    read = whole.read.union(*[part.compiled.read for part in absence.parts])
    compiled = replaced(whole, group=group, read=read, absence=absence, level=None)
    return compiled if level is None else at_level(compiled, level)


def _said_of_absence(absence: CompiledAbsence) -> tuple[str, ...]:
    """Return what queries about absence are of one group by."""
    keys = tuple([part.compiled.group.key for part in absence.parts])
    if not absence.ends:
        return (*keys, _RETRACTS)
    return (*keys, repr(absence.ends), str(absence.shown), *[_RETRACTS] * absence.retracts)


def _compiled_parts(
    query: ast.Query,
    parts: AbsenceParts,
    text: str,
    namespaces: Mapping[str, str] | None,
    channels: Mapping[str, ChannelFacts] | None,
) -> Iterator[CompiledPart]:
    """Yield the compiled parts of a query about absence, the wanted one first.

    Raises:
        UnsupportedFeatureError: ``XSCL_TOO_MANY_CASES``: they have too many together.
    """
    cases = 0
    for part in (parts.wanted, *parts.forbidden):
        # What is forbidden has the same guard, so documents have its facts.
        compiled = compile_query(part, text, namespaces=namespaces, channels=channels, guarded=True)
        cases += len(compiled.group.cases)
        if cases > MAX_CASES:
            raise UnsupportedFeatureError(
                "XSCL_TOO_MANY_CASES",
                f"which member is the latest leaves more than {MAX_CASES} cases of what is wanted and what must not be "
                "there, together",
                text=text,
                span=query.source.span,
                hint="order the blocks with FOLLOWED BY, or leave out windows on composites",
            )
        yield _part(format_query(part), compiled)


def _part(text: str, compiled: CompiledQuery) -> CompiledPart:
    """Return a part of a query about absence; its text tells what it is compiled to."""
    return CompiledPart(GUARDED + text if compiled.is_guarded_alone else text, compiled)


def _refuse_retracting(query: ast.Query, text: str) -> None:
    """Refuse a query that changes could not correct.

    Raises:
        UnsupportedFeatureError: ``XSCL_RETRACT_LIMIT``.
    """
    for said, what, span, hint in (
        (query.starting != "NOW", "sees what comes after its registration", query.span, "leave out STARTING"),
        (
            bool(query.negations) and query.publish is not None,
            "and is about absence publishes nothing, because an answer that was taken back may come again",
            query.publish_span,
            "leave out PUBLISH, or have a query without ON CHANGE RETRACT publish",
        ),
    ):
        if said:
            message = f"a query that takes matches back on changes {what}"
            raise UnsupportedFeatureError("XSCL_RETRACT_LIMIT", message, text=text, span=span, hint=hint)


def _compiled_retracting(
    query: ast.Query, text: str, namespaces: Mapping[str, str] | None, channels: Mapping[str, ChannelFacts] | None
) -> CompiledQuery:
    """Compile a query whose matches are taken back, and the query that finds them."""
    whole = compile_query(replace(query, retracts=False), text, namespaces=namespaces, channels=channels)
    plain = ast.Query(query.source, query.select, span=query.span)
    part = CompiledPart(format_query(plain), compile_query(plain, text, namespaces=namespaces, channels=channels))
    return _with_absence(whole, CompiledAbsence(part, (), (), 0, retracts=True), None)


def at_level(compiled: CompiledQuery, level: ast.Level) -> CompiledQuery:
    """Return a query about absence, or with steps, of a level; groups of different levels are different ones."""
    if not compiled.waits or compiled.level is not None:
        return compiled
    own = (*compiled.group.absence, format_level(level))
    if compiled.stepped:
        # What is said last is the text, which has no line for final answers.
        own = own[:-1] if level == ast.STRONG else (*own[:-2], f"{own[-2]}\nCONSISTENCY {own[-1]}")
    return replaced(compiled, group=replaced(compiled.group, absence=own), level=level)


def compile_filled(
    filled: FilledQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery, *, guarded: bool = False
) -> CompiledQuery:
    """Compile a text that differs from another one in constants alone; refusals have no place.

    Args:
        filled: the normal form of the text.
        channels: the channels' schemas.
        like: what the other text was compiled to.
        guarded: as of ``compile_query``.
    """
    if like.stepped:
        return _steps_filled(filled, channels, like)
    if like.windowed is not None:
        return _windows_filled(filled, channels, like)
    if like.absence is None:
        return _compile_filled(filled, channels, like, guarded=guarded)
    guarded = bool(like.absence.ends)
    wanted, *forbidden = _parts_filled(filled, channels, like, guarded=guarded)
    ends = tuple([(channel, own) for (channel, _), own in zip(like.absence.ends, filled.ends, strict=True)])
    absence = replaced(like.absence, wanted=wanted, forbidden=tuple(forbidden), ends=ends)
    return _compile_filled(filled, channels, like, guarded=guarded, absence=absence)


def _steps_filled(filled: FilledQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery) -> CompiledQuery:
    """Compile a query with steps; without parts if it differs from the other one in numbers of its steps alone."""
    whole, parts = like, like.stepped
    if filled.parts:
        whole = _compile_filled(filled, channels, like, guarded=False)
        parts = _parts_filled(filled, channels, like, guarded=False)
    group = replaced(whole.group, absence=(*(part.compiled.group.key for part in parts), filled.said))
    compiled = replaced(whole, group=group, read=like.read, stepped=parts, is_made=like.is_made, level=None)
    return compiled if like.level is None else at_level(compiled, like.level)


def _windows_filled(filled: FilledQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery) -> CompiledQuery:
    """Compile a query with windows; without a part if it is over the same matches as the other one."""
    (part,) = _parts_filled(filled, channels, like, guarded=False) if filled.parts else like.parts
    return _over(part, filled.said)


def _parts_filled(
    filled: FilledQuery, channels: Mapping[str, ChannelFacts], like: CompiledQuery, *, guarded: bool
) -> tuple[CompiledPart, ...]:
    """Compile the queries that a query is made of; one without constants that differ is that of the other query.

    Windows with other numbers may have equal bounds, and so the text of a part may be all that differs.
    """
    return tuple(
        [
            known
            if part.normal is known.compiled.normal and part.text == known.text
            else _part(part.text, _compile_filled(part, channels, known.compiled, guarded=guarded))
            for part, known in zip(filled.parts, like.parts, strict=True)
        ]
    )


def _compile_filled(
    filled: FilledQuery,
    channels: Mapping[str, ChannelFacts],
    like: CompiledQuery,
    *,
    guarded: bool,
    absence: CompiledAbsence | None = None,
) -> CompiledQuery:
    if filled.guards is None and (filled.joins is not None or filled.normal is like.normal):
        group = like.group if filled.joins is None else _with_joins(like.group, filled.joins)
        made = replaced(like, normal=filled.normal, group=group)
        return made if absence is None else _with_absence(made, absence, like.level)
    if (
        filled.guards is None
        or prod(len(guard.alternatives) for guard, _ in filled.guards if guard) > MOST_ALTERNATIVES
    ):
        made = compile_normal(filled.normal, channels, like, guarded=guarded)
        return made if absence is None else _with_absence(made, absence, like.level)
    guards = tuple([guard for guard, _ in filled.guards])
    # Specs of guards have no edges, and keys are hashed sooner than definitions.
    facts = tuple(
        {(spec.definition.key, spec.functions): spec for _, specs in filled.guards for spec in specs}.values()
    )
    said = like.group.absence
    if absence is not None:
        said = _said_of_absence(absence) + (() if like.level is None else (format_level(like.level),))
    group = like.group if filled.joins is None else _with_joins(like.group, filled.joins)
    group = replaced(group, guards=guards, absence=said)
    return replaced(like, normal=filled.normal, group=group, facts=facts, absence=absence)


def _with_joins(group: Group, filled: FilledJoins) -> Group:
    return replaced(group, instance=replaced(group.instance, joins=filled.joins), cases=filled.cases)
