"""Drawings of the console: join graphs of queries and templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xscl.answers.explaining.facts import block_facts
from xscl.language.compiled import CompiledQuery
from xscl.language.normalize import NormalJoin
from xscl.templates.template import Template

__all__ = ["Drawing", "query_drawing", "template_drawing"]

_CHARACTER, _LINE, _INDENT = 7.3, 22, 14
"""Width of a character, height of a line and indent of a level, in pixels."""
_LONGEST = 34
"""Characters of a line that are shown."""
_GAP, _EDGE, _HEAD = 110, 12, 30
"""Width between blocks, space inside their borders, and height of their heads."""
_COLOURS = 6
"""Colours of joins."""


@dataclass(frozen=True, slots=True)
class Line:
    """A node of a block."""

    x: float
    y: float
    text: str
    whole: str
    """Its text as it would be if it were not cut."""
    variable: str
    colour: int
    """Colour of the join of its variable, from 1; 0: it has none."""


@dataclass(frozen=True, slots=True)
class Box:
    """A block."""

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: tuple[Line, ...]
    is_absent: bool = False
    """Whether it must not be there."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A comparison of two variables."""

    path: str
    x: float
    y: float
    """Place of its label."""
    label: str
    colour: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """A join graph, in pixels."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    told: str
    """The graph in words."""


@dataclass(frozen=True, slots=True)
class _Node:
    depth: int
    text: str
    variable: str


@dataclass(frozen=True, slots=True)
class _Join:
    left: tuple[int, str]
    """Block and variable."""
    right: tuple[int, str]
    label: str


_Blocks = list[tuple[str, list[_Node]]]
"""Titles of blocks, and their nodes."""


def query_drawing(compiled: CompiledQuery) -> Drawing:
    """Draw the blocks of a query, and the comparisons between them; blocks that must not be there go last."""
    blocks, joins = _graph(compiled)
    there = len(blocks)
    seen = []
    for part in compiled.absence.forbidden if compiled.absence else ():
        # The last block is the one that must not be there; a text may need several parts for it.
        others, atoms = _graph(part.compiled)
        last, place = len(others) - 1, len(blocks)
        mine = [join for join in atoms if last in (join.left[0], join.right[0])]
        if (others[last], mine) not in seen:
            seen.append((others[last], mine))
            blocks.append(others[last])
            joins += [
                _Join(_moved(join.left, last, place), _moved(join.right, last, place), join.label) for join in mine
            ]
    return _drawing(blocks, joins, there)


def _moved(end: tuple[int, str], block: int, place: int) -> tuple[int, str]:
    return (place, end[1]) if end[0] == block else end


def _graph(compiled: CompiledQuery) -> tuple[_Blocks, list[_Join]]:
    """Return the blocks of a query, and the comparisons between them."""
    normal = compiled.normal
    blocks: _Blocks = []
    for name, block in zip(compiled.block_names, block_facts(compiled), strict=True):
        title = block.channel if name.endswith(block.channel) else f"{name}: {block.channel}"
        blocks.append((title, [_Node(node.depth, node.step, node.variable or "") for node in block.nodes]))

    def end(name: str) -> tuple[int, str]:
        block, node = normal.variables[name]
        return block, normal.blocks[block].nodes[node].variable or name

    return blocks, [_Join(end(join.left), end(join.right), _label(join)) for join in normal.joins]


def template_drawing(template: Template) -> Drawing:
    """Draw the blocks of a template, and the edges between its meta-variables."""
    blocks: _Blocks = [(f"block {number + 1}", []) for number in range(template.block_count)]

    def add(parent: int, depth: int, block: int) -> None:
        for place in range(template.width):
            if template.blocks[place] == block and template.parents[place] == parent:
                blocks[block][1].append(_Node(depth, "•", f"var{place + 1}"))
                add(place, depth + 1, block)

    for block in range(template.block_count):
        add(-1, 0, block)
    kinds = {"EQ": "=", "NE": "!=", "BAND": "op"}
    joins = [
        _Join((template.blocks[left], f"var{left + 1}"), (template.blocks[right], f"var{right + 1}"), kinds[kind])
        for left, right, kind in template.joins
    ]
    return _drawing(blocks, joins, len(blocks))


def _label(join: NormalJoin) -> str:
    """Write a comparison without its variables: functions that both sides have are written once."""
    functions = " and ".join(dict.fromkeys(each for each in (join.fn_l, join.fn_r) if each))
    label = f"{join.op} {functions}".rstrip()
    if join.f != 1:
        label += f" ×{float(join.f):g}"
    return f"{label} {float(join.add):+g}" if join.add else label


def _drawing(blocks: _Blocks, joins: Sequence[_Join], there: int) -> Drawing:
    """Draw blocks, and comparisons between them; blocks from the place ``there`` on must not be there."""
    colours: dict[tuple[int, str], int] = {}
    for number, join in enumerate(joins):
        for end in (join.left, join.right):
            colours.setdefault(end, number % _COLOURS + 1)
    boxes: list[Box] = []
    x = 1.0
    for number, (title, nodes) in enumerate(blocks):
        boxes.append(_box(x, number, title, nodes, colours, is_absent=number >= there))
        x += boxes[-1].width + _GAP
    edges = [_edge(boxes, join, number % _COLOURS + 1) for number, join in enumerate(joins)]
    height = max(box.height for box in boxes) + 2
    told = f"{len(boxes)} blocks: " + ", ".join(f"{'no ' if box.is_absent else ''}{box.title}" for box in boxes)
    if joins:
        told += "; joined by " + ", ".join(f"{each.left[1]} {each.label} {each.right[1]}" for each in joins)
    return Drawing(x - _GAP + 1, height, tuple(boxes), tuple(edges), told)


def _box(
    x: float, number: int, title: str, nodes: Sequence[_Node], colours: dict[tuple[int, str], int], *, is_absent: bool
) -> Box:
    lines = []
    widest = len(f"{'no ' if is_absent else ''}{title}") * (_CHARACTER + 0.4)
    for place, node in enumerate(nodes):
        text = node.text if len(node.text) <= _LONGEST else f"{node.text[:_LONGEST]}…"
        left = x + _EDGE + _INDENT * node.depth
        y = 1 + _HEAD + _LINE * (place + 0.5)
        colour = colours.get((number, node.variable), 0)
        lines.append(Line(left, y, text, node.text, node.variable, colour))
        characters = len(text) + (len(node.variable) + 2 if node.variable else 0)
        widest = max(widest, left - x - _EDGE + characters * _CHARACTER)
    return Box(x, 1, widest + 2 * _EDGE, _HEAD + _LINE * len(nodes) + 8, title, tuple(lines), is_absent)


def _edge(boxes: Sequence[Box], join: _Join, colour: int) -> Edge:
    (left, from_), (right, to) = sorted((join.left, join.right))
    ends = []
    for block, variable in ((left, from_), (right, to)):
        box = boxes[block]
        ends.append(next((line.y for line in box.lines if line.variable == variable), box.y + _HEAD / 2))
    x1, x2 = boxes[left].x + boxes[left].width, boxes[right].x
    bend = min(60.0, (x2 - x1) / 2)
    path = (
        f"M{x1:.0f},{ends[0]:.0f} C{x1 + bend:.0f},{ends[0]:.0f} {x2 - bend:.0f},{ends[1]:.0f} {x2:.0f},{ends[1]:.0f}"
    )
    return Edge(path, (x1 + min(x2, x1 + _GAP)) / 2, sum(ends) / 2 - 5, join.label, colour)
