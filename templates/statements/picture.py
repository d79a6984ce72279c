"""Templates for people: the join graph as text, for Graphviz and for Mermaid, and the conjunctive query in Datalog.

Names are those of the SQL statement: ``var3`` is the third meta-variable, ``e1`` the first value join.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from xscl.templates.graph import EdgeKind
from xscl.templates.template import Template

__all__ = ["GraphFormat", "datalog", "join_graph"]


class GraphFormat(StrEnum):
    """The language in which a join graph is drawn."""

    text = "text"
    dot = "dot"
    mermaid = "mermaid"


def join_graph(template: Template, format_: GraphFormat = GraphFormat.text) -> str:
    """Return the reduced patterns of a template's blocks and the value joins between them."""
    match format_:
        case GraphFormat.text:
            return "\n".join(_text(template))
        case GraphFormat.dot:
            return "\n".join(_dot(template))
        case GraphFormat.mermaid:
            return "\n".join(_mermaid(template))


def _nodes(template: Template, block: int) -> Iterator[tuple[int, int]]:
    """Yield (meta-variable, depth) of a block's tree, each node behind its parent and before its siblings."""

    def below(parent: int, depth: int) -> Iterator[tuple[int, int]]:
        for place in range(template.width):
            if template.blocks[place] == block and template.parents[place] == parent:
                yield place, depth
                yield from below(place, depth + 1)

    yield from below(-1, 0)


def _text(template: Template) -> Iterator[str]:
    for block in range(template.block_count):
        yield f"block {block + 1}"
        for place, depth in _nodes(template, block):
            name = "  " * (depth + 1) + _var(place)
            ends = [
                f"e{edge} {kind} {_var(right if place == left else left)}"
                for edge, (left, right, kind) in enumerate(template.joins, start=1)
                if place in (left, right)
            ]
            yield f"{name:<16} {', '.join(ends)}".rstrip()


def _dot(template: Template) -> Iterator[str]:
    yield f'digraph "{template.id}" {{'
    for block in range(template.block_count):
        names = " ".join(f"{_var(place)};" for place, _ in _nodes(template, block))
        yield f'  subgraph cluster_{block + 1} {{ label="block {block + 1}"; {names} }}'
    for upper, lower in template.tree_edges:
        yield f"  {_var(upper)} -> {_var(lower)};"
    for edge, (left, right, kind) in enumerate(template.joins, start=1):
        label = f"e{edge} {kind}"
        yield f'  {_var(left)} -> {_var(right)} [label="{label}", style=dashed, dir=none, constraint=false];'
    yield "}"


def _mermaid(template: Template) -> Iterator[str]:
    yield "flowchart TB"
    for block in range(template.block_count):
        yield f'  subgraph b{block + 1}["block {block + 1}"]'
        yield from (f"    {_var(place)}" for place, _ in _nodes(template, block))
        yield "  end"
    yield from (f"  {_var(upper)} --> {_var(lower)}" for upper, lower in template.tree_edges)
    for edge, (left, right, kind) in enumerate(template.joins, start=1):
        yield f"  {_var(left)} -. e{edge} {kind} .- {_var(right)}"


def _var(place: int) -> str:
    return f"var{place + 1}"


# -- Datalog ---------------------------------------------------------------------------------------------------


def datalog(template: Template) -> str:
    """Return the conjunctive query CQ_T as one rule in the manner of the thesis (6.4).

    Columns of R_T have the names they have in SQL.  ``R_docTS`` stands for the time of a document, ``R_docM`` for the
    streams that it belongs to, NULL for its channel.  That members are different documents, and ONCE, are columns and
    conditions of the SQL statement that the rule leaves out.
    """
    head = ["qid", "case", *_each("docid", template.block_count), *_each("node", template.width)]
    body = [_atom("R_T", _rt_columns(template))]
    for block in range(template.block_count):
        body += _structure(template, block)
    for edge, (left, right, kind) in enumerate(template.joins, start=1):
        body.append(", ".join(_value_join(template, edge, left, right, kind)))
    if template.block_count > 1:
        body.append(", ".join(f"R_docTS(docid{i}, ts{i})" for i in range(1, template.block_count + 1)))
    body.append(", ".join(f"R_docM(docid{i}, stream{i})" for i in range(1, template.block_count + 1)))
    body += [f"lo_{i}_{j} <= ts{j} - ts{i} <= hi_{i}_{j}" for i, j in template.pairs]
    return f"{_atom('R_out', head)} :-\n  " + ",\n  ".join(body) + "."


def _rt_columns(template: Template) -> list[str]:
    columns = ["qid", "case", *_each("var", template.width)]
    for edge, (_, _, kind) in enumerate(template.joins, start=1):
        columns += [f"fn_l_{edge}", f"fn_r_{edge}"]
        if kind == "BAND":
            columns += [f"f_{edge}", f"add_{edge}", f"op_{edge}", f"alone_{edge}"]
    for i, j in template.pairs:
        columns += [f"lo_{i}_{j}", f"hi_{i}_{j}"]
    return columns + _each("stream", template.block_count)


def _structure(template: Template, block: int) -> Iterator[str]:
    docid = f"docid{block + 1}"
    places = [place for place in range(template.width) if template.blocks[place] == block]
    edges = [(template.parents[place], place) for place in places if template.parents[place] >= 0]
    # A block of one variable v has rows (v, v, n, n).
    for upper, lower in edges or [(places[0], places[0])]:
        names = (_var(upper), _var(lower), f"node{upper + 1}", f"node{lower + 1}")
        yield _atom("R_bin", [docid, *names])


def _value_join(template: Template, edge: int, left: int, right: int, kind: EdgeKind) -> Iterator[str]:
    values = (f"s{edge}", f"s{edge}") if kind == "EQ" else (f"s{edge}", f"t{edge}")
    for side, place, value in (("l", left, values[0]), ("r", right, values[1])):
        yield _atom("R_doc", [f"docid{template.blocks[place] + 1}", f"node{place + 1}", f"fn_{side}_{edge}", value])
    if kind == "NE":
        yield f"{values[0]} != {values[1]}"
    elif kind == "BAND":
        one, other = (f"{a} op_{edge} f_{edge} * {b} + add_{edge}" for a, b in (values, values[::-1]))
        yield f"({one} if alone_{edge} = 'l' else {other})"


def _each(name: str, count: int) -> list[str]:
    return [f"{name}{number}" for number in range(1, count + 1)]


def _atom(relation: str, terms: list[str]) -> str:
    return f"{relation}({', '.join(terms)})"
