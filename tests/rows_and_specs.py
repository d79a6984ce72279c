"""Random row channels, rows and specs for them, from a seeded generator."""

from __future__ import annotations

import random

from xscl.base.values import time_key
from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Definition,
    Exists,
    Expression,
    Here,
    Negation,
    NodeTest,
    OfColumns,
    Step,
    Truth,
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
PLAIN = ("0", "1", "1.5", "7", "-0.5", "5", "12345678901234567890.1", "0.1", "3")
"""Numbers as queries write them; some of ``NUMBERS`` are equal to them, or as doubles."""
FRACTIONS = (
    *PLAIN,
    "1/3",
    "-7/2",
    "1000000000000000055511151231257827021181583404541015625/10000000000000000000000000000000000000000000000000000000",
)
FUNCTIONS = (
    ("",),
    (None,),
    ("number",),
    ("", "number"),
    ("number", None),
    ("",),
    ("lower", ""),
    ("number lower", "host"),
    ("", "equal-same|s a=n é=n"),
    ("order-own-low lower|n r-1=s b=t", "order-any-time-high|t", None),
)


TIMES = ("2026-01-01", "2026-01-01T00:00:00.25Z", "2026-01-01T01:00:00+01:00", "2026-01-02", "2025-12-31")


def random_text(generator: random.Random) -> str:
    match generator.randrange(7):
        case 6:
            return generator.choice(TIMES)
        case 5:
            return generator.choice((*PLAIN, "x", "1", " x ", "X"))
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
    while depth < 3 and generator.random() < 0.3:
        found.append(random_condition(generator, shape, depth))
    return conditions(found)


def random_condition(generator: random.Random, shape: RowShape, depth: int, nested: int = 0) -> Condition:
    match generator.randrange(10 if nested < 2 else 7):
        case 0 | 1 | 2 | 3:
            return Exists(random_step(generator, shape, depth))
        case 4 | 5:
            return random_comparison(generator, shape)
        case 6 if generator.random() < 0.3:
            asked = sorted(generator.sample(("x", "1", "nan", "1.2.3", "1e3", "é", "5"), generator.choice((1, 1, 2))))
            words = (Constant(word, False) for word in asked)
            return Truth(Call("contains-word", (random_operand(generator, shape), *words)))
        case 6:
            texts = (
                random_operand(generator, shape),
                Constant(generator.choice(("x", "1", "", "5", "-", "true")), False),
            )
            return Truth(Call(generator.choice(("contains", "starts-with")), texts))
        case 7:
            return Negation(random_condition(generator, shape, depth, nested + 1))
        case kind:
            parts = tuple(random_condition(generator, shape, depth, nested + 1) for _ in range(2))
            return AllOf(parts) if kind == 8 else AnyOf(parts)


def random_comparison(generator: random.Random, shape: RowShape) -> Condition:
    if generator.random() < 0.1:
        names = tuple(sorted(generator.sample((*NAMES, shape.element), 2)))
        return OfColumns(names, *(random_condition(generator, shape, 2, 1) for _ in range(2)))
    op = generator.choice(("=", "=", "!=", "<", "<=", ">", ">="))
    if generator.random() < 0.1:
        key = time_key(generator.choice(TIMES))
        assert key is not None
        return Compared("time", op, Constant(key, is_number=False), numeric=False)
    if generator.random() < 0.5:
        functions = generator.choice(("", "", "", "lower", "normalize-space", "lower normalize-space", "host"))
        is_number = generator.random() < 0.6
        text = generator.choice(FRACTIONS) if is_number else random_text(generator)
        return Compared(functions, op, Constant(text, is_number), is_number or generator.random() < 0.3)
    is_number = generator.random() < 0.6
    right = Constant(generator.choice(PLAIN) if is_number else random_text(generator), is_number)
    return Comparison(generator.choice((Here(), Here(), random_operand(generator, shape))), op, right)


def random_operand(generator: random.Random, shape: RowShape) -> Expression:
    """What a condition computes; the condition may stand on any node."""
    column = Here((Step("child", NodeTest("element", "", generator.choice((*shape.columns, *NAMES)))),))
    inner = generator.choice((Here(), column))
    match generator.randrange(6):
        case 0:
            return Call("lower", (Call("normalize-space", (inner,)),))
        case 1:
            return Call("string-length", (inner,))
        case 2 if inner is column:
            return Call("count", (inner,))
        case 3:
            return Call(generator.choice(("lower", "normalize-space")), ())
        case 4:
            return Call("lower", (inner,))
        case _:
            return inner


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
