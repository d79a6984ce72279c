"""Queries that publish, by trying everything (docs/reference/language.md, Published channels).

Until nothing new is published, every query is asked again about all documents that are known.  Knows nothing of levels
and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree
from oracle.evaluate import (
    NO_COLUMNS,
    Answer,
    Columns,
    Doc,
    Env,
    Row,
    World,
    bindings_rows,
    selected_variables,
    variables_of,
)
from oracle.history import NO_RULES, Rules, Standing
from oracle.nodes import NAMESPACES, Namespaces, Node, parse

from xscl.language.syntax import ast

MatchId = Callable[[str, Answer], str]
"""The id of a query's match."""


@dataclass(frozen=True)
class Published:
    """What all queries come to: the answers of each, and the published documents with their places."""

    answers: Mapping[str, set[Answer]]
    documents: Mapping[Doc, int]


def published(
    queries: Mapping[str, Standing],
    events: Mapping[Doc, int],
    match_id: MatchId,
    *,
    rules: Rules = NO_RULES,
    numeric: Columns = NO_COLUMNS,
    namespaces: Namespaces = NAMESPACES,
) -> Published:
    """Answers of all queries over documents at these places; ``match_id`` names what they publish."""
    known = dict(events)
    there = dict(events)
    """From which place on a document is there: later than its own, if it was published of what was held."""
    while True:
        taken = {(doc.channel, doc.id) for doc in known}
        found: dict[str, set[Answer]] = {name: set() for name in queries}
        new: dict[Doc, int] = {}
        for name, standing in queries.items():
            seen = [
                doc
                for doc, place in known.items()
                if standing.sees(
                    doc, place, there[doc], held=doc not in events or rules.is_held(doc, events, standing.since)
                )
            ]
            mentioned = selected_variables(standing.query.select)
            for row in bindings_rows(standing.query, seen, numeric=numeric, namespaces=namespaces):
                nodes = (*row.results, *(row.nodes[variable] for variable in mentioned))
                answer = tuple((doc.channel, doc.id) for doc in row.docs), nodes
                channel = standing.query.publish
                if answer not in found[name] and channel is not None:
                    id_ = match_id(name, answer)
                    if (channel, id_) not in taken:
                        ts = max(doc.ts for doc in row.docs)
                        doc = Doc(channel, id_, ts, output(standing.query, row, namespaces))
                        new[doc] = max(known[member] for member in row.docs)
                        since = max(standing.since, *(there[member] for member in row.docs))
                        # The first of some registrations under one name publishes it.
                        there[doc] = min(since, there.get(doc, since))
                found[name].add(answer)
        if not new:
            return Published(found, {doc: place for doc, place in known.items() if doc not in events})
        known |= new


# -- output documents ----------------------------------------------------------------------------------------


def output(query: ast.Query, row: Row, namespaces: Namespaces = NAMESPACES) -> str:
    """The output document of a match."""
    namespaces = {**NAMESPACES, **namespaces}
    places = ast.blocks(query.source)
    trees = [parse(doc.xml) for doc in row.docs]
    if query.select is None:
        parts = [_copy(_node(tree, n), doc) for tree, n, doc in zip(trees, row.results, row.docs, strict=True)]
        return _text(parts[0] if len(parts) == 1 else _element("result", parts))
    world = World(NO_COLUMNS, NO_COLUMNS, NO_COLUMNS, namespaces)
    owner = {name: place for place, block in enumerate(places) for name in variables_of(block)}
    env: Env = {name: _node(trees[owner[name]], row.nodes[name]) for name in selected_variables(query.select)}

    def reached(path: ast.VarPath) -> list[tuple[Node, Doc]]:
        return [(node, row.docs[owner[path.name]]) for node in world.reach(path, env[path.name])]

    def built(part: ast.Constructor) -> etree._Element:
        made = etree.Element(part.name)
        for attribute in part.attributes:
            made.set(attribute.name, "".join(map(strings, attribute.parts)))
        words = any(isinstance(inner, str) and inner.strip() for inner in part.content)
        for inner in part.content:
            match inner:
                case ast.Constructor():
                    made.append(built(inner))
                case ast.VarPath() if not words:
                    for node, doc in reached(inner):
                        if node.kind == "element":
                            made.append(_copy(node, doc))
                        else:
                            _append(made, node.string())
                case _:
                    _append(made, strings(inner))
        return made

    def strings(part: str | ast.VarPath) -> str:
        return part if isinstance(part, str) else " ".join(node.string() for node, _ in reached(part))

    if isinstance(query.select, ast.Constructor):
        return _text(built(query.select))
    return _text(_element("result", [_copy(*one, item.name) for item in query.select for one in reached(item.path)]))


def _node(document: Node, number: int) -> Node:
    nodes = [one for node in document.branch() for one in (node, *node.attributes)]
    return next(node for node in nodes if node.id == number and node.kind != "document")


def _copy(node: Node, doc: Doc, name: str | None = None) -> etree._Element:
    if node.kind == "element":
        root = etree.fromstring(doc.xml.encode())
        elements = [element for element in root.iter() if isinstance(element.tag, str)]
        copy = deepcopy(elements[node.id])
        copy.tail = None
        copy.tag = name or copy.tag
        return copy
    copy = etree.Element(name or "result")
    if node.kind == "attribute" and name is None:
        copy.set(f"{{{node.uri}}}{node.local}" if node.uri else node.local, node.text)
    else:
        copy.text = node.text
    return copy


def _element(name: str, parts: Sequence[etree._Element]) -> etree._Element:
    made = etree.Element(name)
    made.extend(parts)
    return made


def _append(element: etree._Element, text: str) -> None:
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text


def _text(element: etree._Element) -> str:
    return etree.tostring(element, encoding="unicode")
