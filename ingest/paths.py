"""The two kinds of paths that readers take: which elements are records, and where a document has its id or time.

``SplitPath``: child and descendant steps from the document node (``//item``, ``/REUTERSSET/REUTERS``, ``//*:entry``).
``ValuePath``: the same from the root element, which may end in an attribute or text (``@id``, ``./head/date``,
``.//pubDate``).  Neither has predicates.  As in queries, a name without a prefix has no namespace, and ``*:name`` any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from lxml import etree

from xscl.base.errors import SourceError

__all__ = ["SplitPath", "Step", "ValuePath", "split_path", "value_path"]

_NAME = r"[^\W\d][\w.\-]*"
_STEP = re.compile(rf"(?P<axis>//?)(?:(?P<prefix>\*|{_NAME}):)?(?P<name>\*|{_NAME})")
_LAST = re.compile(rf"/(?:@(?:(?P<prefix>\*|{_NAME}):)?(?P<name>\*|{_NAME})|text\(\))\Z")
_SPLIT_HELP = "supported are child and descendant steps by name: //item, /set/record, //*:entry, //atom:entry"
_VALUE_HELP = (
    "supported are child and descendant steps by name, and an attribute or text() last: @id, head/date, .//pubDate"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step towards an element; None for any namespace or name."""

    descendant: bool
    namespace: str | None
    name: str | None

    def fits(self, namespace: str, name: str) -> bool:
        """Whether an element of this name is one that the step means; '' is no namespace."""
        return self.namespace in (None, namespace) and self.name in (None, name)


@dataclass(frozen=True, slots=True)
class SplitPath:
    """Path to the elements of a document that are its records."""

    text: str
    steps: tuple[Step, ...]

    def begin(self) -> frozenset[int]:
        """Return the numbers of steps made at the document node."""
        return frozenset([0])

    def follow(self, made: frozenset[int], namespace: str, name: str) -> frozenset[int]:
        """Return the numbers of steps that can have been made at a child element; with all of them it is a record."""
        after = set()
        for count in made:
            if count < len(self.steps):
                step = self.steps[count]
                if step.descendant:
                    after.add(count)
                if step.fits(namespace, name):
                    after.add(count + 1)
        return frozenset(after)

    def is_record(self, made: frozenset[int]) -> bool:
        """Whether all steps were made."""
        return len(self.steps) in made


@dataclass(frozen=True, slots=True)
class ValuePath:
    """Path to a value of a document."""

    text: str
    xpath: str

    def value(self, root: etree._Element) -> str | None:
        """Read the text of the first node there, without white space around it; None without a node or a text."""
        return str(_compiled(self.xpath)(root)).strip() or None


@lru_cache(maxsize=64)
def _compiled(xpath: str) -> etree.XPath:
    return etree.XPath(xpath)


def split_path(text: str, namespaces: Mapping[str, str]) -> SplitPath:
    """Return the records that a text names.

    Args:
        text: such as ``//item``.
        namespaces: what prefixes stand for.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``: another kind of path, or a prefix that stands for nothing.
    """
    steps = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            break
        namespace = _namespace(text, found["prefix"], found["name"], namespaces)
        steps.append(Step(found["axis"] == "//", namespace, None if found["name"] == "*" else found["name"]))
        at = found.end()
    if not steps or at < len(text):
        raise _bad(text, at, _SPLIT_HELP)
    return SplitPath(text, tuple(steps))


def value_path(text: str, namespaces: Mapping[str, str]) -> ValuePath:
    """Return the place of a value that a text names; arguments and errors as of ``split_path``."""
    path = text.removeprefix(".")
    if path and not path.startswith("/"):
        path = f"/{path}"
    elif not text.startswith("."):
        raise _bad(text, 0, _VALUE_HELP)
    parts = ["."]
    last = _LAST.search(path)
    at, end = 0, last.start() if last else len(path)
    while at < end:
        found = _STEP.match(path, at, end)
        if found is None:
            raise _bad(text, at + len(text) - len(path), _VALUE_HELP)
        namespace = _namespace(text, found["prefix"], found["name"], namespaces)
        parts.append(found["axis"] + _node_test(namespace, found["name"]))
        at = found.end()
    if last and last["name"]:
        # Attributes without a prefix have no namespace.
        namespace = _namespace(text, last["prefix"], last["name"], namespaces)
        parts.append("/@" + _node_test(namespace, last["name"]))
    elif last:
        parts.append("/text()")
    return ValuePath(text, f"string({''.join(parts)})")


def _node_test(namespace: str | None, name: str) -> str:
    """Return the XPath of an element or attribute, with the namespace in it, so that no prefix has to be bound."""
    tests = [] if name == "*" else [f"local-name()='{name}'"]
    if namespace is not None:
        tests.append(f"namespace-uri()={_literal(namespace)}")
    return f"*[{' and '.join(tests)}]" if tests else "*"


def _literal(text: str) -> str:
    return f"'{text}'" if "'" not in text else f'"{text}"'


def _namespace(text: str, prefix: str | None, name: str, namespaces: Mapping[str, str]) -> str | None:
    if prefix is None:
        return None if name == "*" else ""
    if prefix == "*":
        return None
    if prefix not in namespaces:
        raise SourceError(
            "XSCL_UNDECLARED_PREFIX",
            f"{text}: the prefix {prefix} stands for no namespace",
            hint=f"known are {', '.join(sorted(namespaces))}; *:{name} takes any namespace",
        )
    return namespaces[prefix]


def _bad(text: str, at: int, help_: str) -> SourceError:
    where = f"{text[at:]!r} is not understood" if at < len(text) else "the path has no step"
    return SourceError("XSCL_BAD_OPTION", f"the path {text!r}: {where}", hint=help_)
