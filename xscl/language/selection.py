"""Output documents: what a match shows of its members (docs/reference/language.md, Output).

Without SELECT it is the result nodes.  A SELECT list or a constructor is prepared once for its query, where names and
prefixes are resolved, and filled with the nodes of every match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from xscl.base.errors import QueryError, Span
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.safe_xml import serialize
from xscl.language.conditions import Brackets
from xscl.language.syntax import ast
from xscl.xpath.conditions.condition import select
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode, nodes_within, string_value
from xscl.xpath.pattern import Step

__all__ = [
    "Element",
    "Item",
    "Path",
    "Selection",
    "output_document",
    "prepare_select",
    "selected_document",
    "selected_values",
    "told_document",
    "told_values",
]

_XML = DEFAULT_NAMESPACES["xml"]


@dataclass(frozen=True, slots=True)
class Path:
    """A variable and the steps from its node; no step is the node itself."""

    variable: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a SELECT list; ``name`` renames what it outputs."""

    path: Path
    name: str | None


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a constructor, names in Clark's form; ``prefixes`` are those that its names are written with."""

    name: str
    prefixes: Mapping[str, str]
    attributes: tuple[tuple[str, tuple[str | Path, ...]], ...]
    content: tuple[str | Path | Element, ...]


Selection = tuple[Item, ...] | Element


def output_document(results: Sequence[Node]) -> str:
    """Build the default output: the result node itself for one block, a new root over the result nodes for a join.

    A result that is no element is wrapped: ``<result href="…"/>``, ``<result>text</result>``.
    """
    if len(results) == 1:
        return serialize(_wrapped(results[0]))
    root = etree.Element("result")
    root.extend(_copy(node) for node in results)
    return serialize(root)


def prepare_select(
    select: tuple[ast.SelectItem, ...] | ast.Constructor, text: str, namespaces: Mapping[str, str] | None = None
) -> Selection:
    """Prepare a SELECT for ``selected_document``; its spans speak of ``text``.

    Raises:
        QueryError: an undeclared prefix, a name or a namespace that XML has no place for, a variable bound in SELECT.
    """
    known = {**DEFAULT_NAMESPACES, **(namespaces or {})}
    if isinstance(select, tuple):
        return tuple(Item(_path(item.path, text, namespaces), item.name) for item in select)
    return _element(select, text, known)


def selected_document(selection: Selection, nodes: Mapping[str, Node]) -> str:
    """Build the output of a query with a SELECT; ``nodes`` holds the node of every variable that it mentions.

    A list gives a root ``result`` with copies of all nodes that each item's path reaches, in document order.  In a
    constructor, a hole in an attribute or beside text gives string values (several joined by a space), any other hole
    copies of elements and the string values of other nodes.
    """
    if isinstance(selection, Element):
        return serialize(_built(selection, nodes))
    root = etree.Element("result")
    for item in selection:
        root.extend(_copy(node, item.name) for node in _reached(item.path, nodes))
    return serialize(root)


def selected_values(item: Item, nodes: Mapping[str, Node]) -> list[str]:
    """Return the string values of all nodes that an item reaches; ``nodes`` are those of ``selected_document``."""
    return [string_value(node) for node in _reached(item.path, nodes)]


def told_document(selection: Element | None, values: Mapping[str, str]) -> str:
    """Build the document of what is told of many matches: ``values`` are of its holes, or of the elements of a list."""
    if selection is None:
        root = etree.Element("result")
        for name, value in values.items():
            etree.SubElement(root, name).text = value
        return serialize(root)
    owner = etree.Element("result")
    return serialize(_built(selection, {name: TextNode(owner, 1, value) for name, value in values.items()}))


def told_values(answer: Node) -> dict[str, str]:
    """Return the values that ``told_document`` has made a document of, by the names of their elements."""
    assert isinstance(answer, etree._Element)
    return {str(child.tag): child.text or "" for child in answer}


# -- preparing -------------------------------------------------------------------------------------------------


def _path(path: ast.VarPath, text: str, namespaces: Mapping[str, str] | None) -> Path:
    return Path(path.name, Brackets(text, namespaces).steps(path.steps))


def _element(element: ast.Constructor, text: str, namespaces: Mapping[str, str]) -> Element:
    prefixes: dict[str, str] = {}
    start = element.span.start + 1
    place = Span(start, start + len(element.name))
    name = _clark_name(element.name, place, text, namespaces, prefixes)
    attributes: list[tuple[str, tuple[str | Path, ...]]] = []
    for attribute in element.attributes:
        clark = _clark_name(attribute.name, attribute.span, text, namespaces, prefixes)
        if any(clark == other for other, _ in attributes):
            raise QueryError(
                "XSCL_SYNTAX",
                f"the attribute {attribute.name} is given twice, under two prefixes of one namespace",
                text=text,
                span=attribute.span,
                hint="leave one of them out",
            )
        attributes.append((clark, tuple(_part(part, text, namespaces) for part in attribute.parts)))
    try:
        _new_element(name, prefixes, dict.fromkeys((clark for clark, _ in attributes), ""))
    except ValueError as error:
        raise QueryError("XSCL_SYNTAX", f"no element of XML: {error}", text=text, span=place) from None
    content = tuple(
        _element(part, text, namespaces) if isinstance(part, ast.Constructor) else _part(part, text, namespaces)
        for part in element.content
    )
    return Element(name, prefixes, tuple(attributes), content)


def _clark_name(name: str, span: Span, text: str, namespaces: Mapping[str, str], prefixes: dict[str, str]) -> str:
    """Return a name in Clark's form, and note its prefix among those that its element has to declare."""
    prefix, colon, local = name.partition(":")
    if not colon:
        return name
    uri = namespaces.get(prefix)
    if uri is None:
        raise QueryError(
            "XSCL_UNDECLARED_PREFIX",
            f"the prefix {prefix} is not declared",
            text=text,
            span=span,
            hint=f"declare it: DECLARE NAMESPACE {prefix} = '…'; "
            f"known without declaration: {' '.join(sorted(DEFAULT_NAMESPACES))}",
        )
    if not uri:
        return local
    if uri != _XML:
        prefixes[prefix] = uri
    return f"{{{uri}}}{local}"


def _part(part: str | ast.VarPath, text: str, namespaces: Mapping[str, str]) -> str | Path:
    return part if isinstance(part, str) else _path(part, text, namespaces)


# -- building --------------------------------------------------------------------------------------------------


def _reached(path: Path, nodes: Mapping[str, Node]) -> list[Node]:
    """Return the nodes of a path, each once, in document order."""
    found = [nodes[path.variable]]
    for step in path.steps:
        found = list(dict.fromkeys(low for high in found for low in select(step, high)))
    if len(found) > 1:
        # Steps lead down, so what they reach is inside the element of the variable.
        wanted, within = set(found), nodes[path.variable]
        assert isinstance(within, etree._Element)
        found = [node for node in nodes_within(within) if node in wanted]
    return found


def _built(element: Element, nodes: Mapping[str, Node]) -> etree._Element:
    values = {name: "".join(_texts(parts, nodes)) for name, parts in element.attributes}
    built = _new_element(element.name, element.prefixes, values)
    beside_text = any(isinstance(part, str) and part.strip(" \t\r\n") for part in element.content)
    children: list[etree._Element] = []
    text: list[str] = []

    def end_text() -> None:
        """Put the text since the last child in, once: lxml would copy all of it with each piece."""
        if text and children:
            children[-1].tail = "".join(text)
        elif text:
            built.text = "".join(text)
        text.clear()

    def add(child: etree._Element) -> None:
        end_text()
        built.append(child)
        children.append(child)

    for part in element.content:
        match part:
            case Element():
                add(_built(part, nodes))
            case Path() if not beside_text:
                for node in _reached(part, nodes):
                    if isinstance(node, (AttributeNode, TextNode)):
                        text.append(string_value(node))
                    else:
                        add(_copy(node))
            case _:
                text.extend(_texts([part], nodes))
    end_text()
    return built


def _texts(parts: Iterable[str | Path], nodes: Mapping[str, Node]) -> Iterator[str]:
    for part in parts:
        yield part if isinstance(part, str) else " ".join(map(string_value, _reached(part, nodes)))


def _new_element(name: str, prefixes: Mapping[str, str], attributes: Mapping[str, str]) -> etree._Element:
    made = etree.Element(name, nsmap=dict(prefixes))
    for key, value in attributes.items():
        made.set(key, value)
    return made


def _copy(node: Node, name: str | None = None) -> etree._Element:
    """Return a copy of an element, under another name if one is given; other nodes wrapped."""
    if name is None:
        copy = deepcopy(_wrapped(node))
        copy.tail = None
        return copy
    renamed = etree.Element(name)
    if isinstance(node, (AttributeNode, TextNode)):
        renamed.text = string_value(node)
        return renamed
    assert not isinstance(node, DocumentNode)
    uris = {etree.QName(str(key)).namespace for key in node.attrib}
    renamed = _new_element(
        name, {p: u for p, u in node.nsmap.items() if p is not None and u in uris}, dict(node.attrib)
    )
    renamed.text = node.text
    renamed.extend(deepcopy(child) for child in node)
    return renamed


def _wrapped(node: Node) -> etree._Element:
    """Return the element itself; an attribute or a text inside a ``result``."""
    if isinstance(node, (AttributeNode, TextNode)):
        wrapped = etree.Element("result")
        if isinstance(node, AttributeNode):
            wrapped.set(node.name, string_value(node))
        else:
            wrapped.text = node.text
        return wrapped
    assert not isinstance(node, DocumentNode)  # no variable is bound to the document node
    return node
