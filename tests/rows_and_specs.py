"""Random row channels, rows and specs for them, from a seeded generator."""

from __future__ import annotations

import random

from xscl.xpath.automaton import WitnessSpec
from xscl.xpath.pattern import (
    Comparison,
    Condition,
    Constant,
    Definition,
    Exists,
    Here,
    Negation,
    NodeTest,
    Step,
    conditions,
)
from xscl.xpath.relational import RowShape

NAMES = ("a", "b", "c", "é", "r-1")
NUMBERS = (
    "1",
    " 1.50 ",
    "-0",
    "-0.0",
    ".5",
    "-.50",
    "5.",
    "\t7\n",
    "007.0",
    "12345678901234567890.10",
    "9" * 309,
    "1" + "0" * 400,
    "0." + "0" * 330 + "1",
    "4.9e-324",
    "1" * 1_000,
    "1" * 1_001,
    "-" + "1" * 1_000,
    "." + "5" * 999,
    "0" * 990 + ".123456789",
    "179769313486231570000" + "0" * 288,
    "0.1000000000000000055511151231257827021181583404541015625",
)
TEXTS = (
    "",
    " ",
    "x",
    "true",
    "a<b>&\"'c]]>",
    "&amp;&#13;",
    "\r\n\r",
    "é",
    "\u0660\u00a05",
    "\ud7ff\ue000\ufffd",
    "😀\U0010ffff",
    "x" * 5_000,
    "1e3",
    "+5",
    "--1",
    "1.2.3",
    ".",
    "-",
    "- 1",
    "1 2",
    "NaN",
    "Infinity",
    "1d",
    "0x10",
    "\u000b1".replace("\u000b", "\u2003"),
)
FUNCTIONS = (("",), (None,), ("number",), ("", "number"), ("number", None), ("",), ("lower", ""))


def random_text(generator: random.Random) -> str:
    match generator.randrange(5):
        case 0:
            return generator.choice(TEXTS)
        case 1:
            return generator.choice(NUMBERS)
        case 2:
            return "".join(generator.choice("0123456789.- \t") for _ in range(generator.randrange(8)))
        case 3:
            digits = "".join(generator.choice("0123456789") for _ in range(generator.randrange(1, 30)))
            return f"{generator.choice(['', '-'])}{digits}.{generator.randrange(10 ** generator.randrange(1, 20))}"
        case _:
            return "".join(generator.choice("ab<>&\r\né😀'\"]") for _ in range(generator.randrange(6)))


def random_shape(generator: random.Random) -> RowShape:
    columns = generator.sample(NAMES, generator.randrange(1, len(NAMES) + 1))
    return RowShape(generator.choice([*NAMES, "row"]), tuple(columns))


def random_cells(generator: random.Random, shape: RowShape) -> list[str | None]:
    nulls = generator.choice((0, 0, 0.3, 1))
    return [None if generator.random() < nulls else random_text(generator) for _ in shape.columns]


def random_step(generator: random.Random, shape: RowShape, depth: int = 0) -> Step:
    name = generator.choice([shape.element, *shape.columns, *shape.columns, *NAMES])
    test = generator.choice(
        [
            *[NodeTest("element", "", name)] * 8,
            NodeTest("element", None, name),
            NodeTest("element", None, None),
            NodeTest("element", "urn:n", name),
            NodeTest("attribute", "", name),
            NodeTest("text"),
        ]
    )
    axis = generator.choice(("child", "child", "descendant"))
    return Step(axis, test, random_conditions(generator, shape, depth + 1))


def random_conditions(generator: random.Random, shape: RowShape, depth: int) -> tuple[Condition, ...]:
    found: list[Condition] = []
    while depth < 3 and generator.random() < 0.25:
        exists = Exists(random_step(generator, shape, depth))
        compared = Comparison(Here(), "=", Constant("x", False))
        found.append(generator.choice([exists, exists, exists, exists, Negation(exists), compared]))
    return conditions(found)


def random_definition(generator: random.Random, channel: str, shape: RowShape) -> Definition:
    root = Step("child", NodeTest("element", "", shape.element), random_conditions(generator, shape, 1))
    steps = [root] if generator.random() < 0.6 else []
    steps += (random_step(generator, shape) for _ in range(generator.choice((0, 1, 1, 1, 2))))
    at_document = random_conditions(generator, shape, 1) if generator.random() < 0.2 else ()
    return Definition(channel, tuple(steps), at_document)


def random_spec(generator: random.Random, channel: str, shape: RowShape) -> WitnessSpec:
    """A definition with edges on the way to it and, perhaps, edges that hang off that way."""
    definition = random_definition(generator, channel, shape)
    length = len(definition.steps)

    def prefix(count: int) -> Definition:
        return Definition(channel, definition.steps[:count], definition.conditions)

    ends = sorted({length, *(generator.randrange(length + 1) for _ in range(generator.randrange(3)))})
    edges = [(prefix(a), prefix(b)) for a, b in zip(ends, ends[1:], strict=False)] or [(definition, definition)]
    hanging = []
    if generator.random() < 0.4:
        upper = generator.choice([end for edge in edges for end in edge])
        lower = Definition(channel, (*upper.steps, random_step(generator, shape)), upper.conditions)
        edges.append((upper, lower))
        if generator.random() < 0.5:
            hanging.append((upper, lower))
    # No query asks for the value of the document node.
    functions = generator.choice(FUNCTIONS) if length else (None,)
    return WitnessSpec(definition, functions, tuple(edges), tuple(hanging))
