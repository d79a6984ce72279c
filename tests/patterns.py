"""Random definitions, specs and documents for stage 1: small worlds, walks of real documents, families of constants.

``Patterns`` draws from a ``Vocabulary``; ``walk`` takes a path that exists in a document and loosens it.  Conditions on
a walk's nodes are mostly true there, so rows are found; those drawn from a vocabulary are true or false by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from lxml import etree
from strategies import Choices

from xscl.base.values import number_text
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
    exists_chain,
)

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "=", "=")
FUNCTIONS: tuple[tuple[str | None, ...], ...] = (
    ("",),
    ("",),
    (None,),
    ("", "number"),
    ("lower", None),
    ("lower normalize-space", "host", "url"),
    ("", "equal-same|s a=n b=n", "order-own-low lower|n"),
)
TEXT = NodeTest("text")
ANY = NodeTest("element", None, None)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What tests and conditions are made of; repeated entries are likelier."""

    elements: Sequence[NodeTest]
    attributes: Sequence[NodeTest]
    strings: Sequence[str]
    numbers: Sequence[str]
    """By their one text, as the compiler writes them."""
    words: Sequence[str] = ("x", "8", "y", "8.5", "it's")
    """Words, folded."""


def named(local: str, uri: str = "") -> NodeTest:
    return NodeTest("element", uri, local)


def attribute(local: str, uri: str = "") -> NodeTest:
    return NodeTest("attribute", uri, local)


NUMERALS = ("8", "8.0", " 8 ", "08", "-8", "8.5", "3", "7", "7.0", ".5", "0", "-0", "5.", "100", "9007199254740993")
WORDS = ("", "x", "X", "y", "xy", " x  y ", "NaN", "-", "Infinity", "+5", "é", "it's", 'a"b')
SMALL = Vocabulary(
    elements=(
        *(named("a"), named("b")) * 4,
        *(named("c"), named("d")) * 2,
        *(ANY, ANY, named("a", "urn:n"), named("b", "urn:m")),
        *(NodeTest("element", None, "a"), NodeTest("element", None, "b"), NodeTest("element", "urn:n", None)),
    ),
    attributes=(
        *(attribute("k"), attribute("m")) * 2,
        *(attribute("k", "urn:n"), NodeTest("attribute", None, None), NodeTest("attribute", None, "k")),
        NodeTest("attribute", "urn:n", None),
    ),
    strings=(*("x", "8", "") * 2, "y", "8.0", " 8 ", " x  y ", "xy", "NaN", "it's", 'it\'s a "b"'),
    numbers=("8", "8", "3", "7", "0", "-8", "8.5", "0.5", "100", "9007199254740992"),
)
"""For the documents of ``document``."""


# -- documents -------------------------------------------------------------------------------------------------


def document(choose: Choices, *, depth: int = 5, width: int = 3) -> str:
    """Nested elements of the same few names, three namespaces, and texts cut by comments and instructions."""
    before = choose.one("", "", "<!--before-->", "<?p before?>")
    after = choose.one("", "", "<!--after-->", "\n<?p after?>\n")
    return before + _element(choose, depth, width, ' xmlns:n="urn:n" xmlns:m="urn:m"') + after


def _element(choose: Choices, depth: int, width: int, declared: str = "") -> str:
    name = choose.one("a", "a", "a", "b", "b", "c", "d", "n:a", "m:b")
    if ":" not in name and choose.chance(3):
        declared += ' xmlns="urn:n"'
    attributes = ""
    for key in choose.one((), (), (), ("k",), ("k", "m"), ("n:k",), ("m", "n:k"), ("k", "n:k", "m:k"), ("xml:lang",)):
        attributes += f' {key}="{_text(choose)}"'
    content = _content(choose, depth, width)
    if not content:
        return choose.one(f"<{name}{declared}{attributes}/>", f"<{name}{declared}{attributes}></{name}>")
    return f"<{name}{declared}{attributes}>{content}</{name}>"


def _content(choose: Choices, depth: int, width: int) -> str:
    if depth <= 1 or choose.chance(20):
        return _text(choose)
    parts = []
    for _ in range(choose.count(1, width)):
        if choose.chance(30):
            parts.append(_text(choose))
        if choose.chance(12):
            parts.append(choose.one("<!--c-->", "<?p i?>", "<!---->", "<![CDATA[8]]>"))
        parts.append(_element(choose, depth - 1, width))
    if choose.chance(20):
        parts.append(_text(choose))
    return "".join(parts)


def _text(choose: Choices) -> str:
    value = choose.one(*NUMERALS, *WORDS, "x", "8", "x", "8", "3")
    escaped = value.replace('"', "&quot;")
    return choose.one(escaped, escaped, escaped, f"{escaped}&#160;", f"&#32;{escaped}")


@st.composite
def documents(draw: Any) -> str:
    return document(Choices(draw))


# -- definitions from a vocabulary -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Patterns:
    """Draws steps, conditions, definitions and specs."""

    choose: Choices
    words: Vocabulary = SMALL
    channel: str = "S"

    def definitions(self, count: int, *, depth: int = 3) -> list[Definition]:
        """Different definitions; most go on where another one branches off."""
        found: dict[Definition, None] = {}
        for _ in range(4 * count):
            if len(found) == count:
                break
            before: tuple[Step, ...] = ()
            at_document: tuple[Condition, ...] = ()
            if found and self.choose.chance(60):
                other = self.choose.one(*found)
                at_document = other.conditions
                before = other.steps[: self.choose.count(0, len(other.steps))]
                before = before if not before or before[-1].test.kind == "element" else before[:-1]
                if before and self.choose.chance(25):
                    before = (*before[:-1], self.revised(before[-1]))
            elif self.choose.chance(8):
                at_document = conditions([self.condition(depth - 1)])
            steps = () if self.choose.chance(2) else self.steps(depth)
            found[Definition(self.channel, (*before, *steps), at_document)] = None
        return list(found)

    def steps(self, depth: int, most: int = 3) -> tuple[Step, ...]:
        """A path of elements whose last node may be an attribute or a text."""
        inner = [self.step(depth, leaf=False) for _ in range(self.choose.count(1, most) - 1)]
        return (*inner, self.step(depth, leaf=self.choose.chance(30)))

    def step(self, depth: int, *, leaf: bool) -> Step:
        test = self.leaf() if leaf else self.choose.one(*self.words.elements)
        parts = [self.condition(depth - 1) for _ in range(self.choose.one(0, 0, 0, 1, 1, 2))] if depth > 0 else []
        return Step(self.choose.one("descendant", "child", "descendant"), test, conditions(parts))

    def leaf(self) -> NodeTest:
        return TEXT if self.choose.chance(40) else self.choose.one(*self.words.attributes)

    def revised(self, step: Step) -> Step:
        """The same step under a condition like one it has, but with another constant, operator or none at all."""
        comparisons = [part for part in step.conditions if isinstance(part, Comparison)]
        if not comparisons:
            return Step(step.axis, step.test, conditions([*step.conditions, self.comparison(0)]))
        old = self.choose.one(*comparisons)
        parts = [part for part in step.conditions if part != old]
        if self.choose.chance(80):
            parts.append(Comparison(old.left, self.choose.one(old.op, *OPERATORS), self.constant()))
        return Step(step.axis, step.test, conditions(parts))

    def condition(self, depth: int) -> Condition:
        kind = self.choose.count(0, 19)
        if kind < 8 or (depth <= 0 and kind < 16):
            return self.comparison(depth)
        if kind < 12 and depth > 0:
            return exists_chain(self.steps(depth - 1, 2))
        if kind < 14 and depth > 0:
            return self.interval(depth)
        if kind < 16:
            parts = conditions([self.condition(depth - 1), self.condition(depth - 1)])
            return self.choose.one(Negation(parts[0]), AllOf(parts), AnyOf(parts))
        if kind < 18:
            return Truth(
                self.call(
                    depth,
                    self.choose.one("contains", "starts-with", "contains-word", "lower", "normalize-space", "count"),
                )
            )
        return self.of_columns(depth) if self.choose.chance(40) else self.atom()

    def of_columns(self, depth: int) -> Condition:
        names = sorted({test.local for test in self.words.elements if not test.uri and test.local})[:2]
        parts = self.condition(depth - 1), self.choose.one(self.atom(), self.comparison(0))
        return OfColumns(tuple(names), *parts) if names else parts[0]

    def comparison(self, depth: int) -> Comparison:
        if self.choose.chance(20):
            name = self.choose.one("count", "string-length", "normalize-space", "lower")
            return Comparison(self.call(depth, name), self.choose.one(*OPERATORS), self.constant())
        return Comparison(Here(self.relative(depth)), self.choose.one(*OPERATORS), self.constant())

    def relative(self, depth: int) -> tuple[Step, ...]:
        """``.`` or ``./a``, ``.//a``, ``./@k``, ``./a/b``; with conditions inside where ``depth`` allows."""
        if self.choose.chance(45):
            return ()
        if self.choose.chance(70):
            return (self.step(depth - 1 if self.choose.chance(20) else 0, leaf=self.choose.chance(35)),)
        return self.steps(max(depth - 1, 0), 2)

    def interval(self, depth: int) -> Condition:
        low, high = self.choose.one(">", ">="), self.choose.one("<", "<=")
        left = Here(self.relative(depth))
        bounds = [Comparison(left, op, Constant(self.choose.one(*self.words.numbers), True)) for op in (low, high)]
        return AllOf(conditions(bounds))

    def constant(self) -> Constant:
        if self.choose.chance(50):
            return Constant(self.choose.one(*self.words.strings), is_number=False)
        return Constant(self.choose.one(*self.words.numbers), is_number=True)

    def call(self, depth: int, name: str) -> Call:
        if name == "count":
            return Call(name, (Here(self.steps(max(depth - 1, 0), 2)),))
        if name in ("contains", "starts-with"):
            sought = Constant(self.choose.one(*self.words.strings), is_number=False)
            return Call(name, (self.argument(depth), sought if self.choose.chance(80) else self.argument(depth)))
        if name == "contains-word":
            asked = sorted({self.choose.one(*self.words.words) for _ in range(self.choose.one(1, 1, 2))})
            return Call(name, (self.argument(depth), *(Constant(word, is_number=False) for word in asked)))
        if name == "lower" or self.choose.chance(60):
            return Call(name, (self.argument(depth),))
        return Call(name, ())

    def argument(self, depth: int) -> Expression:
        kind = self.choose.count(0, 9)
        if kind < 5 or depth <= 0:
            return Here()
        if kind < 8:
            # Of one node by its first in document order; lxml takes the first of several texts in another order.
            steps = self.steps(depth - 1, 2)
            return Here(steps if steps[-1].test.kind != "text" else steps[:-1])
        return self.call(depth - 1, self.choose.one("normalize-space", "lower", "string-length"))

    def atom(self) -> Compared:
        functions = self.choose.one("", "", "lower", "lower normalize-space", "normalize-space")
        op = self.choose.one(*OPERATORS)
        if self.choose.chance(50):
            value = self.choose.one(*self.words.numbers)
            return Compared(
                functions, op, Constant(self.choose.one(value, value, "17/2"), is_number=True), numeric=True
            )
        numeric = op not in ("=", "!=") or self.choose.chance(20)
        return Compared(functions, op, Constant(self.choose.one(*self.words.strings), is_number=False), numeric)

    def specs(self, count: int, *, depth: int = 3) -> list[WitnessSpec]:
        """Definitions with what is wanted of them; some definitions are wanted twice, with other edges."""
        definitions = self.definitions(count, depth=depth)
        found: dict[WitnessSpec, None] = {}
        for place in range(count):
            definition = definitions[place % len(definitions)]
            if place and self.choose.chance(10):
                definition = self.choose.one(*definitions)
            found[self.spec(definition)] = None
        return list(found)

    def spec(self, definition: Definition) -> WitnessSpec:
        """Edges between prefixes of the way, and at times edges that hang off it, one below another."""
        length = len(definition.steps)
        ends = sorted({length, *(self.choose.count(0, length) for _ in range(self.choose.count(0, 3)))})
        edges = [(_prefix(definition, a), _prefix(definition, b)) for a, b in zip(ends, ends[1:], strict=False)]
        if self.choose.chance(20):
            edges.append((_prefix(definition, ends[0]), definition))
        edges = edges or [(definition, definition)]
        hanging: list[tuple[Definition, Definition]] = []
        uppers = [_prefix(definition, end) for end in ends if _below(_prefix(definition, end))]
        while uppers and len(hanging) < 3 and self.choose.chance(30):
            upper = self.choose.one(*uppers)
            lower = Definition(self.channel, (*upper.steps, *self.steps(1, 2)), upper.conditions)
            if self.choose.chance(15) and len(upper.steps) < length and upper == _prefix(definition, len(upper.steps)):
                lower = _prefix(definition, self.choose.count(len(upper.steps) + 1, length))
            hanging.append((upper, lower))
            if _below(lower):
                uppers.append(lower)
        edges = list(dict.fromkeys([*edges, *hanging]))
        # The document node is kept for its edges, never for its value: the compiler asks for the root element instead.
        functions = self.choose.one(*FUNCTIONS) if definition.steps else (None,)
        return WitnessSpec(definition, functions, tuple(edges), tuple(dict.fromkeys(hanging)))


def _prefix(definition: Definition, length: int) -> Definition:
    return Definition(definition.channel, definition.steps[:length], definition.conditions)


def _below(definition: Definition) -> bool:
    return not definition.steps or definition.steps[-1].test.kind == "element"


def plain_spec(definition: Definition, *functions: str | None) -> WitnessSpec:
    """The nodes of one definition and nothing around them."""
    return WitnessSpec(definition, functions or ("",), ((definition, definition),))


@st.composite
def spec_sets(draw: Any, most: int = 8) -> list[WitnessSpec]:
    choose = Choices(draw)
    return Patterns(choose).specs(choose.count(1, most))


# -- families of constants -------------------------------------------------------------------------------------


def family(choose: Choices, size: int, *, channel: str = "S") -> list[Definition]:
    """Definitions that differ in constants and operators alone, as many queries of one form do.

    The values they ask for are those of ``family_document`` of the same size, each written in several ways.
    """
    element, other = Step("descendant", named("a")), Step("child", named("b"))
    lefts = [Here(), Here((other,)), Here((Step("child", attribute("k")),)), Here((Step("descendant", named("b")),))]
    lefts += [Here((Step("child", named("a")), other)), Here((Step("child", TEXT),))]
    calls = [Call("string-length", (Here(),)), Call("normalize-space", (Here((other,)),))]
    calls += [Call("lower", (Here(),)), Call("count", (Here((other,)),))]
    found: dict[Definition, None] = {}
    for _ in range(8 * size):
        if len(found) == size:
            break
        left = choose.one(*lefts, *lefts, *calls)
        kind = choose.count(0, 9)
        if kind < 3:
            parts: list[Condition] = [Comparison(left, choose.one("=", "=", "!="), _family_string(choose, size))]
        elif kind < 6:
            parts = [Comparison(left, choose.one(*OPERATORS), _family_number(choose, size))]
        elif kind < 8:
            parts = [Comparison(left, choose.one(">", ">="), _family_number(choose, size))]
            parts.append(Comparison(left, choose.one("<", "<="), _family_number(choose, size)))
        elif kind == 8:
            parts = [Comparison(left, "=", _family_string(choose, size)), Exists(Step("child", attribute("k")))]
        else:
            number, op = _family_number(choose, size), choose.one(*OPERATORS)
            text = _family_string(choose, size)
            numeric = Compared("", op, number, numeric=True)
            parts = [choose.one(numeric, Compared("normalize-space", choose.one("=", "!="), text, numeric=False))]
        conditioned = Step(element.axis, element.test, conditions(parts))
        ways: list[tuple[Step, ...]] = [(conditioned,), (conditioned, other)]
        if left == Here():
            ways.append((element, Step("child", attribute("k"), conditions(parts))))
        found[Definition(channel, choose.one(*ways))] = None
    return list(found)


def _family_number(choose: Choices, size: int) -> Constant:
    text = choose.one("{}", "{}", "{}", "{}.5", "-{}").format(choose.count(0, size))
    return Constant(number_text(text) or "0", is_number=True)


def _family_string(choose: Choices, size: int) -> Constant:
    return Constant(_family_value(choose, size), is_number=False)


def _family_value(choose: Choices, size: int) -> str:
    number = choose.count(0, size)
    return choose.one("{}", "{}", "{}", "{}.0", " {} ", "w{}", "W{}", "", "NaN", "-{}", "{}.5").format(number)


def family_document(choose: Choices, size: int, elements: int = 20) -> str:
    parts = []
    for _ in range(elements):
        inner = "".join(f"<b>{_family_value(choose, size)}</b>" for _ in range(choose.one(0, 1, 1, 2)))
        inner += f"<a><b>{_family_value(choose, size)}</b></a>" * choose.one(0, 0, 1)
        key = f' k="{_family_value(choose, size)}"' * choose.one(0, 1)
        parts.append(f"<a{key}>{choose.one(_family_value(choose, size), '')}{inner}</a>")
    return f"<r>{''.join(parts)}</r>"


def many_definitions(choose: Choices, count: int, *, channel: str = "S") -> list[Definition]:
    """``count`` different definitions of about ten shapes, for what must not grow with their number.

    Half ask for names that are in no document of ``family_document``; the others differ in a constant.
    """
    found = []
    for number in range(count):
        constant = Constant(str(number), is_number=number % 4 == 0)
        here = Step("descendant", named("a"), (Comparison(Here(), choose.one("=", "=", ">"), constant),))
        stranger = Step("descendant", named(f"e{number}"))
        ways: list[tuple[Step, ...]] = [(stranger, Step("child", named("b"))), (stranger,)]
        if number % 2:
            ways = [(here,), (here, Step("child", named("b"))), (here, Step("child", attribute("k")))]
            ways.append((Step("child", named("r")), here))
        found.append(Definition(channel, choose.one(*ways)))
    return found


# -- walks of documents ----------------------------------------------------------------------------------------


def vocabulary(roots: Sequence[etree._Element]) -> Vocabulary:
    """The names and short values of some documents, as often as they come."""
    elements: list[NodeTest] = [ANY]
    attributes: list[NodeTest] = [NodeTest("attribute", None, None)]
    strings, numbers = [""], ["0"]
    for root in roots:
        for element in root.iter(etree.Element):
            elements.append(_exact(element))
            values = [element.text or ""]
            for name, value in element.attrib.items():
                attributes.append(_exact_attribute(str(name)))
                values.append(str(value))
            for value in filter(_is_short, values):
                strings.append(value)
                number = number_text(value)
                if number is not None:
                    numbers.append(number)
    return Vocabulary(elements, attributes, strings, numbers)


def _is_short(value: str) -> bool:
    return len(value) <= 60 and value.isprintable()


def _exact(element: etree._Element) -> NodeTest:
    name = etree.QName(element)
    return NodeTest("element", name.namespace or "", name.localname)


def _exact_attribute(name: str) -> NodeTest:
    found = etree.QName(name)
    return NodeTest("attribute", found.namespace or "", found.localname)


def walk(choose: Choices, elements: Sequence[etree._Element], *, channel: str = "S") -> Definition:
    """The way to a random node, with steps skipped and names loosened, and conditions that mostly hold there."""
    at = choose.one(*elements)
    way = [*reversed(list(at.iterancestors())), at]
    steps: list[Step] = []
    skipped = False
    for place, element in enumerate(way):
        if element is not at and (skipped or place == 0 or choose.chance(50)) and choose.chance(60):
            skipped = True
            continue
        axis = "descendant" if skipped or choose.chance(15) else "child"
        parts = [
            _fact(choose, element) for _ in range(choose.one(0, 0, 0, 1) if element is not at else choose.one(0, 1))
        ]
        steps.append(Step(axis, _loosened(choose, _exact(element)), conditions(part for part in parts if part)))
        skipped = False
    if choose.chance(30):
        leaf = TEXT
        if at.attrib and choose.chance(60):
            leaf = _loosened(choose, _exact_attribute(str(choose.one(*at.attrib))))
        steps.append(Step("descendant" if choose.chance(20) else "child", leaf))
    return Definition(channel, tuple(steps))


def _loosened(choose: Choices, test: NodeTest) -> NodeTest:
    kind = choose.count(0, 19)
    if kind < 15:
        return test
    if kind < 17:
        return NodeTest(test.kind, None, None)
    return NodeTest(test.kind, None, test.local) if kind < 19 or not test.uri else NodeTest(test.kind, test.uri, None)


def _fact(choose: Choices, element: etree._Element) -> Condition | None:
    """Something true of an element, or, seldom, its opposite; None where it has nothing to say."""
    children = [child for child in element if isinstance(child.tag, str)]
    places: list[tuple[tuple[Step, ...], str]] = []
    places += [((Step("child", _exact_attribute(str(name))),), str(value)) for name, value in element.attrib.items()]
    for child in children[:20]:
        axis = "descendant" if choose.chance(25) else "child"
        places.append(((Step(axis, _loosened(choose, _exact(child))),), str(child.xpath("string()"))))
        for below in list(child)[:2]:
            if isinstance(below.tag, str):
                steps = Step("child", _exact(child)), Step("child", _exact(below))
                places.append((steps, str(below.xpath("string()"))))
    if not children:
        places.append(((), element.text or ""))
    if not places:
        return None
    steps, value = choose.one(*places)
    fact = _fact_of(choose, steps, value)
    if choose.chance(15):
        return Negation(fact)
    if choose.chance(15):
        other = _fact_of(choose, *choose.one(*places))
        return choose.one(AllOf, AnyOf)(conditions([fact, other]))
    return fact


def _fact_of(choose: Choices, steps: tuple[Step, ...], value: str) -> Condition:
    kind = choose.count(0, 9)
    number = number_text(value)
    if number is not None and kind < 5:
        op = choose.one("=", "<=", ">=", "<", ">", "!=")
        shifted = number_text(str(round(float(number)) + choose.one(-1, 0, 1))) or "0"
        return Comparison(Here(steps), op, Constant(choose.one(number, shifted), is_number=True))
    if kind < 5 and _is_short(value):
        return Comparison(Here(steps), choose.one("=", "=", "!="), Constant(value, is_number=False))
    piece = value.strip()[: choose.count(1, 12)]
    if kind < 7 and piece.isprintable():
        name = choose.one("contains", "starts-with")
        spaced = Call("normalize-space", (Here(steps),))
        return Truth(Call(name, (choose.one(Here(steps), spaced), Constant(piece, is_number=False))))
    if kind == 7:
        length = Constant(str(len(value)), is_number=True)
        return Comparison(Call("string-length", (Here(steps),)), choose.one("=", "<=", ">="), length)
    if not steps:
        return Truth(Call("normalize-space", (Here(),)))
    if kind == 8:
        op = choose.one(">=", "=", "<")
        return Comparison(Call("count", (Here(steps),)), op, Constant(choose.one("1", "2"), is_number=True))
    return exists_chain(steps)
