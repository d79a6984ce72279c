"""Nodes that a query joins in the documents of a match, for people who look at both."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from xscl.answers.matches.reader import named_queries
from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.base.types import Match
from xscl.catalog.channels import read_facts
from xscl.language.block_patterns import BlockPattern, assignments, block_pattern
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.registry.recompile import compile_info
from xscl.store.home import Home
from xscl.xpath.conditions.condition import Memo
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode, string_value

__all__ = ["joined_nodes", "node_place", "nodes_of"]

_TRIED = 10_000
"""Assignments of a block that are looked at."""


def joined_nodes(home: Home, match: Match) -> list[dict[str, int | str]]:
    """Find the nodes of the joined variables in each member of a match, as ``Match.nodes`` names them.

    Nothing is found where the query is not known any more, or its channels have other columns now.
    """
    try:
        infos = named_queries(home, match.query)
        facts = home.catalog.ask(read_facts)
        for info in infos:
            if found := nodes_of(compile_info(info, facts), facts, match):
                return found
    except XsclError:
        pass
    return [{} for _ in match.events]


def nodes_of(compiled: CompiledQuery, facts: Mapping[str, ChannelFacts], match: Match) -> list[dict[str, int | str]]:
    """Find the nodes of the joined variables of a query in each member of its match; nothing if one has none."""
    if match.source is None or len(match.source.documents) != len(compiled.normal.blocks):
        return []
    wanted = {name: compiled.normal.variables[name] for name in compiled.joined_names}
    found: list[dict[str, int | str]] = []
    for number, document in enumerate(match.source.documents):
        places = {name: node for name, (block, node) in wanted.items() if block == number}
        if not places:
            found.append({})
            continue
        pattern = block_pattern(compiled.normal, number, facts, set(places.values()))
        nodes = in_fresh_dictionary(_fitting, document, pattern, places, match.values)
        if nodes is None:
            return []
        found.append(nodes)
    return found


def _fitting(
    document: str, pattern: BlockPattern, places: Mapping[str, int], values: Mapping[str, str]
) -> dict[str, int | str] | None:
    """Return the names of the nodes of the first assignment with the values of the match."""
    node = DocumentNode(parse_stored(document))
    for nodes in islice(assignments(pattern, node, Memo()), _TRIED):
        if all(values.get(name, "") == string_value(nodes[place]) for name, place in places.items()):
            number: dict[Node, int] = {element: index for index, element in enumerate(node.root.iter("*"))}
            return {name: node_place(nodes[place], number) for name, place in places.items()}
    return None


def node_place(node: Node, number: Mapping[Node, int]) -> int | str:
    """Return the place of a node by its element's number; that of the document is its root's."""
    match node:
        case AttributeNode(owner, name):
            return f"{number[owner]}/@{name}"
        case TextNode(owner, place):
            return f"{number[owner]}/text()[{place}]"
        case DocumentNode(root):
            return number[root]
    return number[node]
