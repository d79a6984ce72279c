"""The output documents of matches, and what else their members' documents say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xscl.base.safe_xml import parse_stored
from xscl.catalog.records import QueryInfo
from xscl.language.block_patterns import BlockPattern, block_pattern, one_assignment
from xscl.language.facts import ChannelFacts
from xscl.language.normalize import normalize
from xscl.language.selection import Selection, output_document, prepare_select, selected_document
from xscl.language.shown import shown as shown_query
from xscl.language.syntax.parser import parse_query
from xscl.store.results import StoredMatch
from xscl.xpath.conditions.condition import Memo
from xscl.xpath.nodes import DocumentNode, Node, NodeNumbers, string_value

__all__ = [
    "MatchOutput",
    "Shown",
    "Wanted",
    "match_document",
    "match_nodes",
    "match_outputs",
    "selection_of",
    "shown_of",
]


@dataclass(frozen=True, slots=True)
class Shown:
    """Selection and variables of a query, to show its matches."""

    selection: Selection | None
    """Selection of the query; None: it outputs its result nodes."""
    variables: Mapping[str, tuple[int, int]]
    """Its variables, in the order in which they are bound, by block and node of the block."""
    results: tuple[tuple[int, int], ...]
    """Block and node of each node that makes a match."""
    patterns: Mapping[int, BlockPattern]
    """The blocks with variables that no stored match names."""


def shown_of(query: QueryInfo, facts: Mapping[str, ChannelFacts]) -> Shown:
    """Prepare a query; ``facts`` are of the channels and streams."""
    tree = shown_query(parse_query(query.text))
    selection = None if tree.select is None else prepare_select(tree.select, query.text, query.namespaces)
    normal = normalize(tree, query.text, query.namespaces)
    results = [(block, each.result) for block, each in enumerate(normal.blocks)]
    results += [normal.variables[name] for name in normal.selected]
    known = {*query.names["meta"], *query.names["results"]}
    lacking = {block for name, (block, _) in normal.variables.items() if name not in known}
    patterns = {}
    for number in lacking:
        wanted = {node for block, node in (*normal.variables.values(), *results) if block == number}
        patterns[number] = block_pattern(normal, number, facts, wanted)
    return Shown(selection, normal.variables, tuple(results), patterns)


class Wanted(NamedTuple):
    """A match whose output is wanted."""

    query: QueryInfo
    shown: Shown
    """The query's."""
    match: StoredMatch


class MatchOutput(NamedTuple):
    """Output of a match from the documents of its members."""

    nodes: Mapping[str, int | str]
    values: Mapping[str, str]
    document: str
    results: tuple[int | str, ...]
    """The blocks' result nodes."""


class _Member:
    """A parsed document that several matches may have."""

    def __init__(self, content: str) -> None:
        root = parse_stored(content)
        self.document = DocumentNode(root)
        self.memo = Memo()
        self.numbers = NodeNumbers(root)


def match_outputs(wanted: Sequence[Wanted], documents: Mapping[int, str]) -> list[MatchOutput]:
    """Make the outputs of some matches, from the documents of their members by number."""
    members = {docid: _Member(document) for docid, document in documents.items()}
    return [_output(*one, members) for one in wanted]


def _output(query: QueryInfo, shown: Shown, match: StoredMatch, documents: Mapping[int, _Member]) -> MatchOutput:
    members = [documents[docid] for docid in match.docids]
    results = list(zip(query.names["results"], query.names["result_blocks"], match.nodes, strict=True))
    places = [members[block].numbers.locator(node) for _, block, node in results]
    nodes = {name: place for (name, _, _), place in zip(results, places, strict=True) if name is not None}
    found = [members[block].numbers.node(node) for _, block, node in results]
    document = _document(query, shown.selection, found)
    values = _values(query, shown, match, members, found)
    return MatchOutput(nodes, values, document, tuple(places[: len(members)]))


def _values(
    query: QueryInfo, shown: Shown, match: StoredMatch, members: Sequence[_Member], results: Sequence[Node]
) -> dict[str, str]:
    """Return the string values of all variables in one witness of a match."""
    fixed: dict[tuple[int, int], Node] = dict(zip(shown.results, results, strict=True))
    for name, number in zip(query.names["meta"], match.witness, strict=True):
        if name is not None:
            block, place = shown.variables[name]
            fixed[block, place] = members[block].numbers.node(number)
    nodes = dict(fixed)
    for block, pattern in shown.patterns.items():
        of_block = {place: node for (at, place), node in fixed.items() if at == block}
        found = one_assignment(pattern, members[block].document, members[block].memo, of_block)
        nodes |= {(block, place): node for place, node in (found or {}).items()}
    return {name: string_value(nodes[where]) for name, where in shown.variables.items() if where in nodes}


def match_document(
    query: QueryInfo,
    selection: Selection | None,
    docids: Sequence[int],
    nodes: Sequence[int],
    numbered: Mapping[int, NodeNumbers],
) -> str:
    """Make the output document of a match: ``selection`` is the query's, ``numbered`` are its documents."""
    selected, results = match_nodes(query, docids, nodes, numbered)
    return output_document(results) if selection is None else selected_document(selection, selected)


def match_nodes(
    query: QueryInfo, docids: Sequence[int], nodes: Sequence[int], numbered: Mapping[int, NodeNumbers]
) -> tuple[dict[str, Node], list[Node]]:
    """Return the nodes that SELECT mentions by variable, and all nodes that make a match."""
    blocks = query.names["result_blocks"]
    results: list[Node] = [numbered[docids[block]].node(node) for block, node in zip(blocks, nodes, strict=True)]
    selected = zip(query.names["results"], results, strict=True)
    return {name: node for name, node in selected if name is not None}, results


def _document(query: QueryInfo, selection: Selection | None, results: Sequence[Node]) -> str:
    if selection is None:
        return output_document(results)
    selected = zip(query.names["results"], results, strict=True)
    return selected_document(selection, {name: node for name, node in selected if name is not None})


def selection_of(query: QueryInfo) -> Selection | None:
    """Return the selection of a query; None if it outputs its result nodes."""
    select = shown_query(parse_query(query.text)).select
    return None if select is None else prepare_select(select, query.text, query.namespaces)
