"""Notes on queries that are taken: what in them answers nothing, or means something else than it seems to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from xscl.base.errors import QueryError
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.types import format_time
from xscl.catalog.suggestions import nearest
from xscl.language.compiled import CompiledQuery
from xscl.language.declared import prefixes as prefixes_of
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import normalize
from xscl.language.syntax.statements import RawStatement
from xscl.language.unsatisfiable import impossible
from xscl.registry.channel_names import DocumentNames
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Comparison,
    Condition,
    Exists,
    Expression,
    Here,
    Negation,
    NodeTest,
    Step,
    Truth,
)

__all__ = ["channel_note", "contradiction_notes", "gone_notes", "name_notes", "settling_note"]


def channel_note(name: str, known: Iterable[str], *, registered: bool) -> str:
    """Return the note on a channel that does not exist; a query that is registered waits for its first event."""
    found = nearest(name, known)
    waits = " yet; its first event will create it" if registered else ""
    return f"there is no channel {name!r}{waits}" + ("" if found is None else f"; did you mean {found!r}?")


def settling_note(name: str, *, is_final: bool, is_there: bool) -> str:
    """Return the note on a channel that answers wait for, and whose times nothing settles.

    Args:
        name: the channel's name.
        is_final: whether the query's answers are final (``CONSISTENCY STRONG``, and windows).
        is_there: whether the channel exists.
    """
    so = "answers may be taken back at any time, and their rows stay forever"
    if is_final:
        so = "there is no answer before something does, and what waits stays forever"
    how = f"xscl channel {'set' if is_there else 'add'} {name} --lateness 1h, or --wall 1min, or heartbeats"
    return f"nothing settles the times of {name}, so {so}: {how}"


# -- names that no document has --------------------------------------------------------------------------------


def name_notes(
    compiled: CompiledQuery, namespaces: Mapping[str, str], names: Callable[[str], DocumentNames | None]
) -> Iterator[str]:
    """Yield a note for each element, attribute or column that the documents of its channel do not have.

    Args:
        compiled: the query.
        namespaces: declared prefixes.
        names: gives what is known of a channel.
    """
    prefixes = {uri: prefix for prefix, uri in {**DEFAULT_NAMESPACES, **prefixes_of(namespaces)}.items()}
    seen: set[tuple[str, NodeTest]] = set()
    for block, channel in zip(compiled.normal.blocks, compiled.channels, strict=True):
        known = names(channel)
        if known is None:
            continue
        for test in _tests(node.step for node in block.nodes if node.step is not None):
            if (channel, test) not in seen and not _is_known(test, known):
                seen.add((channel, test))
                yield _name_note(channel, test, known, prefixes)
        for node in block.nodes:
            for test in _tests_of(node.conditions):
                if (channel, test) not in seen and not _is_known(test, known):
                    seen.add((channel, test))
                    yield _name_note(channel, test, known, prefixes)


def _is_known(test: NodeTest, known: DocumentNames) -> bool:
    if test.kind == "text" or test.local is None and test.uri is None:
        return True
    names = known.elements if test.kind == "element" else known.attributes
    if test.uri is not None and test.local is not None:
        return (test.uri, test.local) in names
    return any(test.uri in (None, uri) and test.local in (None, local) for uri, local in names)


def _name_note(channel: str, test: NodeTest, known: DocumentNames, prefixes: Mapping[str, str]) -> str:
    def shown(kind: str, uri: str | None, local: str | None) -> str:
        at = "@" if kind == "attribute" else ""
        prefix = "*:" if uri is None else "" if not uri else f"{prefixes[uri]}:" if uri in prefixes else f"{{{uri}}}"
        return f"{at}{prefix}{local or '*'}"

    there = [("element", *name) for name in sorted(known.elements)]
    there += [("attribute", *name) for name in sorted(known.attributes)]
    # The same name in another namespace, or of the other kind, is meant rather than one spelt alike.
    same = [name for name in there if name[2] == test.local]
    same.sort(key=lambda name: name[0] != test.kind)
    meant = shown(*same[0]) if same else None
    if meant is None and test.local is not None:
        meant = _as_path(test.local, known) if test.kind == "element" else None
        if meant is None:
            by_local = {name[2]: name for name in reversed(there) if name[0] == test.kind or known.is_schema}
            found = nearest(test.local, by_local)
            meant = None if found is None else shown(*by_local[found])
    hint = "" if meant is None else f"; did you mean {meant}?"
    if known.is_schema:
        return f"the rows of channel {channel} have no column {shown(test.kind, test.uri, test.local)}{hint}"
    looked = "" if known.is_all else f" ({known.documents} were looked at)"
    what = f"{test.kind} {shown(test.kind, test.uri, test.local)}"
    return f"no document of channel {channel} so far has an {what}{looked}{hint}"


def _as_path(local: str, known: DocumentNames) -> str | None:
    """Return ``a/b`` for ``a.b``, if both are elements."""
    parts = local.split(".")
    return "/".join(parts) if len(parts) > 1 and all(("", part) in known.elements for part in parts) else None


def _tests(steps: Iterable[Step]) -> Iterator[NodeTest]:
    for step in steps:
        yield step.test
        yield from _tests_of(step.conditions)


def _tests_of(conditions: Iterable[Condition]) -> Iterator[NodeTest]:
    for condition in conditions:
        match condition:
            case Exists(step):
                yield from _tests((step,))
            case Comparison(left):
                yield from _tests_in(left)
            case Truth(call):
                yield from _tests_in(call)
            case Negation(part):
                yield from _tests_of((part,))
            case AllOf(parts) | AnyOf(parts):
                yield from _tests_of(parts)


def _tests_in(expression: Expression) -> Iterator[NodeTest]:
    match expression:
        case Here(steps):
            yield from _tests(steps)
        case Call(_, args):
            for arg in args:
                yield from _tests_in(arg)


# -- events that have gone -------------------------------------------------------------------------------------


def gone_notes(compiled: CompiledQuery, facts: Mapping[str, ChannelFacts], held: Mapping[str, int]) -> Iterator[str]:
    """Yield a note for each channel whose gone events may cost a query that starts in the past an answer.

    ``ONCE`` leaves out a match for the sake of another one, of the same events in the other order.  Such a query does
    not have the other one if an event has gone, and a copy of this event may still come.

    Args:
        compiled: the query.
        facts: of all channels and streams.
        held: the time from which on events are held, of each channel that has let some go.
    """
    pairs = list(combinations(compiled.channels, 2))
    exchanged = {
        left for case in compiled.group.cases for bounds, (left, _) in zip(case, pairs, strict=True) if bounds.exchange
    }
    copied = {known.channel for known in facts.values() if known.channel is not None}
    for channel in sorted(exchanged & copied & held.keys()):
        yield (
            f"events of {channel} from before {format_time(held[channel])} are no longer retained; if a stream brings "
            "a copy of one later, ONCE may leave out the copy's match without having listed the other order"
        )


def contradiction_notes(
    said: Callable[[], RawStatement],
    compiled: CompiledQuery,
    declared: Mapping[str, str],
    facts: Mapping[str, ChannelFacts],
) -> tuple[str, ...]:
    """Note comparisons of a query that contradict each other, so that it finds nothing; ``said`` gives its statement.

    Raises:
        QueryError: ``XSCL_NEVER_HOLDS``: one comparison alone can never hold.
    """
    if impossible(compiled.normal, facts) is None:
        return ()
    # Told of this text, not of the first one of its form.
    statement = said()
    normal = normalize(replace(statement.created().query, select=None), statement.text, declared)
    found = impossible(normal, facts)
    if found is None:
        return ()
    if not found.together:
        reason = f"this can never hold: {found.reason}"
        raise QueryError("XSCL_NEVER_HOLDS", reason, text=statement.text, span=found.span, hint=found.hint)
    at = statement.text[found.span.start : found.span.end]
    return (f"the query finds nothing, whatever comes: {found.reason} ({at})",)
