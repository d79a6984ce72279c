"""The building stones of tree patterns: node tests, steps and conditions, each with one canonical text.

A *definition* of a variable is the path from the document node to it: a channel and a tuple of steps, each step with
the conditions on its node.  Conditions are kept sorted and without duplicates, ``[a and b]`` as ``[a][b]`` and
``[p > 5]`` as ``[p[. > 5]]``, so that equal texts are equal definitions and share their witnesses, in one query and
across queries (thesis 6.3: "variables with the same definition have the same name").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from xscl.base.own_functions import is_own
from xscl.base.values import hash64

__all__ = [
    "AllOf",
    "AnyOf",
    "Axis",
    "Call",
    "Compared",
    "Comparison",
    "Condition",
    "Constant",
    "Definition",
    "Exists",
    "Expression",
    "Here",
    "Negation",
    "NodeTest",
    "OfColumns",
    "Step",
    "Truth",
    "conditions",
    "exists_chain",
    "own_path",
    "own_paths",
    "uses_own",
]

Axis = Literal["child", "descendant"]


@dataclass(frozen=True, slots=True)
class NodeTest:
    """The kind and name of a node: None as ``uri`` or ``local`` matches any; ``uri`` '' is no namespace."""

    kind: Literal["element", "attribute", "text"]
    uri: str | None = ""
    local: str | None = None

    def __str__(self) -> str:
        if self.kind == "text":
            return "text()"
        space = "*:" if self.uri is None and self.local is not None else f"{{{self.uri}}}" if self.uri else ""
        return ("@" if self.kind == "attribute" else "") + space + (self.local or "*")


@dataclass(frozen=True)
class Step:
    """One step of a path and the conditions on the node it reaches."""

    axis: Axis
    test: NodeTest
    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        return self.text

    @cached_property
    def child(self) -> str | None:
        """Return the name, in Clark's form, of the children that the step reaches without any condition; None: it is
        another step.
        """
        test = self.test
        if self.conditions or self.axis != "child" or test.kind != "element" or test.uri is None or test.local is None:
            return None
        return f"{{{test.uri}}}{test.local}" if test.uri else test.local

    @cached_property
    def text(self) -> str:
        """Return the one text of equal steps."""
        brackets = "".join(f"[{condition}]" for condition in self.conditions)
        return f"{'/' if self.axis == 'child' else '//'}{self.test}{brackets}"


@dataclass(frozen=True, slots=True)
class Here:
    """The nodes a relative path reaches; no step is the node itself."""

    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return "." + "".join(map(str, self.steps))


@dataclass(frozen=True, slots=True)
class Constant:
    """A string or a number; numbers by their one text."""

    value: str
    is_number: bool

    def __str__(self) -> str:
        return self.value if self.is_number else "'" + self.value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of XPath 1.0 (or ``lower``) on paths, constants and other calls."""

    name: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


Expression = Here | Constant | Call


@dataclass(frozen=True, slots=True)
class Exists:
    """At least one node is reached by this step from the node."""

    step: Step

    def __str__(self) -> str:
        # Conditions may be a hundred deep, and Python ends at a thousand calls within calls.
        return "." + self.step.text


@dataclass(frozen=True, slots=True)
class Comparison:
    """XPath 1.0's comparison of an expression with a constant."""

    left: Expression
    op: str
    right: Constant

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A join predicate's comparison of the node's own value with a constant.

    Unlike ``Comparison`` (XPath 1.0) it is exact, and a value that is no number satisfies no numeric comparison, not
    even ``!=`` (docs/explanation/architecture.md, Choices, and what was decided against).  ``functions`` as in
    ``xscl.base.values.apply_functions``; the constant is a string or the text of a fraction.
    """

    functions: str
    op: str
    right: Constant
    numeric: bool
    """A side is a number or a numeric column."""

    @property
    def of_numbers(self) -> bool:
        """Whether numbers are compared; else texts are, for equality, or in the order of times."""
        return self.numeric or self.op not in ("=", "!=") and not self.functions.startswith("time")

    def __str__(self) -> str:
        names = self.functions.split(" ") if self.functions else []
        applied = "".join(f"{name}(" for name in names) + "." + ")" * len(names)
        return f"{'number ' if self.numeric else ''}{applied} {self.op}: {self.right}"


@dataclass(frozen=True, slots=True)
class Truth:
    """XPath 1.0's ``boolean()`` of a call."""

    call: Call

    def __str__(self) -> str:
        return str(self.call)


@dataclass(frozen=True, slots=True)
class Negation:
    """``not(…)``."""

    part: Condition

    def __str__(self) -> str:
        return f"not({self.part})"


@dataclass(frozen=True, slots=True)
class AllOf:
    """``and`` below an ``or`` or a ``not``."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """``or``."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class OfColumns:
    """One condition for some columns of a row, and another for all other nodes."""

    columns: tuple[str, ...]
    """Names, rising."""
    condition: Condition
    otherwise: Condition

    def __str__(self) -> str:
        return f"({' | '.join(self.columns)} ? {self.condition} : {self.otherwise})"


Condition = Exists | Comparison | Compared | Truth | Negation | AllOf | AnyOf | OfColumns


@dataclass(frozen=True)
class Definition:
    """The meaning of a variable: a channel and the path from the document node; no step is the document node.

    ``conditions`` are those on the document node itself, left by branches that start there; they are written as the
    absolute paths that they are: ``S[//b]/a``.
    """

    channel: str
    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """Return the one text of equal definitions."""
        brackets = "".join(f"[{str(condition).removeprefix('.')}]" for condition in self.conditions)
        return self.channel + brackets + "".join(map(str, self.steps))

    @cached_property
    def key(self) -> int:
        """Return a 64-bit digest of the text: the variable's name in the witness relations, in every home."""
        # The channel's length keeps "a" + ".b" apart from "a.b".
        return hash64(f"{len(self.channel)}:{self}")


def conditions(parts: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the conditions of one node in canonical order, without duplicates.

    Conditions with functions of one's own come last, so that such a function is called where all else holds.
    """
    parts = tuple(parts)
    if len(parts) <= 1:
        return parts
    found = {str(part): part for part in parts}
    ordered = sorted([(is_own(text) and uses_own(part), text) for text, part in found.items()])
    return tuple([found[text] for _, text in ordered])


def uses_own(part: Condition | Expression) -> bool:
    """Tell whether a condition or an expression calls a function of one's own."""
    match part:
        case Call(name, args):
            return is_own(name) or any(map(uses_own, args))
        case Here(steps):
            return any(uses_own(condition) for step in steps for condition in step.conditions)
        case Exists(step):
            return any(map(uses_own, step.conditions))
        case Compared(functions):
            return is_own(functions)
        case Comparison(left):
            return uses_own(left)
        case Truth(call):
            return uses_own(call)
        case Negation(inner):
            return uses_own(inner)
        case AllOf(parts) | AnyOf(parts):
            return any(map(uses_own, parts))
        case OfColumns(_, one, other):
            return uses_own(one) or uses_own(other)
    return False


def own_path(expression: Expression) -> Here | None:
    """Return the path that an argument of a function of one's own reads; None: it reads none, or counts nodes."""
    while isinstance(expression, Call) and expression.args and expression.name != "count":
        expression = expression.args[0]
    return expression if isinstance(expression, Here) else None


def own_paths(expression: Expression) -> tuple[Here, ...]:
    """Return the paths that reach a node wherever the functions of one's own in an expression have a value."""
    if not isinstance(expression, Call):
        return ()
    below = tuple(path for arg in expression.args for path in own_paths(arg))
    path = own_path(expression) if is_own(expression.name) else None
    return below if path is None or not path.steps else (path, *below)


def exists_chain(steps: tuple[Step, ...], extra: tuple[Condition, ...] = ()) -> Exists:
    """Return a path with ``extra`` conditions on its last node as nested brackets: ``a/b`` is ``a[./b]``."""
    *before, last = steps
    found = Exists(Step(last.axis, last.test, conditions([*last.conditions, *extra])))
    for step in reversed(before):
        found = Exists(Step(step.axis, step.test, conditions([*step.conditions, found])))
    return found
