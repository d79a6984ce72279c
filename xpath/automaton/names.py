"""The node tests that a name passes, without trying them one by one."""

from __future__ import annotations

from xscl.xpath.conditions.condition import clark_name, name_parts
from xscl.xpath.pattern import NodeTest

__all__ = ["TEXT", "NodeTests", "attribute"]

TEXT = "text()"
"""The name of all text nodes; no element is called so."""
_OTHER = "\0"
"""Stands for namespaces and local names that no test speaks of; no XML has this character."""


def attribute(name: str) -> str:
    """Return an attribute's name, apart from elements'."""
    return f"@{name}"


class NodeTests:
    """The node tests of all definitions, numbered.  They stay when definitions go."""

    def __init__(self) -> None:
        self.numbers: dict[NodeTest, int] = {}
        self._passed: dict[str, tuple[int, ...]] = {}
        self._uris: dict[str, set[str]] = {"element": set(), "attribute": set()}
        self._locals: dict[str, set[str]] = {"element": set(), "attribute": set()}
        self._exact: set[str] = set()

    def number(self, test: NodeTest) -> int:
        """Return the number of a test, new or known."""
        number = self.numbers.get(test)
        if number is None:
            number = self.numbers[test] = len(self.numbers)
            self._passed.clear()
            if test.kind != "text":
                self._learn(test)
        return number

    def _learn(self, test: NodeTest) -> None:
        name = clark_name(test)
        if name is not None:
            self._exact.add(attribute(name) if test.kind == "attribute" else name)
        elif test.local is not None:
            self._locals[test.kind].add(test.local)
        elif test.uri is not None:
            self._uris[test.kind].add(test.uri)

    def key(self, name: str) -> str:
        """Return the part of a name that tests can tell apart. Strangers' names have few keys, so tables by key stay
        bounded.
        """
        if name in self._exact or name == TEXT:
            return name
        kind, clark = ("attribute", name[1:]) if name[0] == "@" else ("element", name)
        uri, local = name_parts(clark)
        uri = uri if uri in self._uris[kind] else _OTHER
        local = local if local in self._locals[kind] else _OTHER
        # No name of an element or attribute has a blank in it.
        return f"{kind} {uri} {local}"

    def passed(self, name: str) -> tuple[int, ...]:
        """Return the numbers of the tests that a name passes; ``TEXT`` and ``attribute(name)`` are names too."""
        key = self.key(name)
        found = self._passed.get(key)
        if found is None:
            found = self._passed[key] = tuple(self._tried(name))
        return found

    def _tried(self, name: str) -> list[int]:
        if name == TEXT:
            return [number for test, number in self.numbers.items() if test.kind == "text"]
        kind, clark = ("attribute", name[1:]) if name[0] == "@" else ("element", name)
        uri, local = name_parts(clark)
        return [
            self.numbers[test]
            for u in (uri, None)
            for n in (local, None)
            if (test := NodeTest(kind, u, n)) in self.numbers  # type: ignore[arg-type]
        ]
