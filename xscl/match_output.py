"""The output documents of matches, and what else their members' documents say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lxml import etree

from xscl.catalog import QueryInfo
from xscl.output import Selection, output_document, prepare_select, selected_document
from xscl.parser import parse_query
from xscl.safexml import parse_stored
from xscl.stored_matches import StoredMatch
from xscl.xpath.nodes import Node, locator, node_at, string_value

__all__ = ["MatchOutput", "Wanted", "match_document", "match_outputs", "selection_of"]


class Wanted(NamedTuple):
    """A match whose output is wanted."""

    query: QueryInfo
    blocks: Sequence[int]
    """Of each meta-variable of the query's template, the block."""
    selection: Selection | None
    """The query's."""
    match: StoredMatch


class MatchOutput(NamedTuple):
    """What a match has from the documents of its members."""

    nodes: Mapping[str, int | str]
    values: Mapping[str, str]
    document: str


def match_outputs(wanted: Sequence[Wanted], documents: Mapping[int, str]) -> list[MatchOutput]:
    """The outputs of some matches, from the documents of their members by number."""
    roots = {docid: parse_stored(document) for docid, document in documents.items()}
    return [_output(*one, roots) for one in wanted]


def _output(
    query: QueryInfo,
    blocks: Sequence[int],
    selection: Selection | None,
    match: StoredMatch,
    roots: Mapping[int, etree._Element],
) -> MatchOutput:
    docids = [match.docids[block] for block in query.names["result_blocks"]]
    places = [locator(roots[docid], node) for docid, node in zip(docids, match.nodes, strict=True)]
    nodes = {name: place for name, place in zip(query.names["results"], places, strict=True) if name is not None}
    document = match_document(query, selection, match.docids, match.nodes, roots)
    return MatchOutput(nodes, _values(query, blocks, match, roots), document)


def match_document(
    query: QueryInfo,
    selection: Selection | None,
    docids: Sequence[int],
    nodes: Sequence[int],
    roots: Mapping[int, etree._Element],
) -> str:
    """The output document of a match: ``selection`` is the query's, ``roots`` are its documents."""
    results: list[Node] = []
    for block, node in zip(query.names["result_blocks"], nodes, strict=True):
        root = roots[docids[block]]
        results.append(node_at(root, locator(root, node)))
    if selection is None:
        return output_document(results)
    selected = zip(query.names["results"], results, strict=True)
    return selected_document(selection, {name: node for name, node in selected if name is not None})


def selection_of(query: QueryInfo) -> Selection | None:
    """What a query selects; None if it outputs its result nodes."""
    select = parse_query(query.text).select
    return None if select is None else prepare_select(select, query.text, query.namespaces)


def _values(
    query: QueryInfo, blocks: Sequence[int], match: StoredMatch, roots: Mapping[int, etree._Element]
) -> dict[str, str]:
    """String values of the joined variables in the match's witness."""
    joined = set(query.names["joined"])
    values = {}
    for place, (name, node) in enumerate(zip(query.names["meta"], match.witness, strict=True)):
        if name in joined and name is not None:
            root = roots[match.docids[blocks[place]]]
            values[name] = string_value(node_at(root, locator(root, node)))
    return values
