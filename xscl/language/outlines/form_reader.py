"""Forms of texts, read off their tokens: texts of one form differ in names, windows and the order of conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xscl.base.durations import UNITS
from xscl.language.syntax.tokens import Token

__all__ = ["FormKey", "FormRead", "read_form"]

# A variable with such a name is left to the parser: in a join's braces the word has a meaning of its own.
_RESERVED = frozenset(("and", "in", "last", "maxwindow", "of", "once", "unbounded", *UNITS))
# Clauses and bindings that forms do not know.
_CLAUSES = frozenset(("as", "change", "consistency", "create", "declare", "drop", "publish", "select", "starting"))
_COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
# Beside one of these a name is not a variable.
_NAMING = frozenset(("/", "//", "@", ":", "::", "."))
_NAMED = frozenset(("(", ":", "::"))
_OPENING = frozenset("([")
_CLOSING = frozenset(")]")
_ENDS = frozenset(",}")
_UNKNOWN = frozenset(("bad", "constructor"))

FormKey = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FormRead:
    """A text as its form, its windows and its variables in the order in which the form numbers them."""

    form: FormKey
    windows: FormKey
    """Empty where windows are part of the form."""
    variables: tuple[str, ...]
    separate: bool
    """Whether windows are not part of the form."""


def read_form(tokens: Sequence[Token]) -> FormRead | None:
    """Read the form of a text off its tokens; None: the text has something that forms do not know."""
    bound: set[str] = set()
    joins = 0
    before = ""
    for kind, value, _, _ in tokens:
        if kind == "name":
            if before == "->":
                if value in bound or value.lower() in _RESERVED:
                    return None
                bound.add(value)
            elif value.lower() in _CLAUSES:
                return None
        elif kind == "{":
            joins += 1
        elif kind in _UNKNOWN:
            return None
        before = kind
    reader = _Reader(bound)
    if not reader.read(tokens):
        return None
    form, windows, variables = reader.numbered()
    # Which blocks of three and more are tied to which depends on the windows, and so does what is compiled.
    if joins == 1:
        return FormRead(tuple(form), tuple(windows), variables, True)
    return FormRead((*form, "|", *windows), (), variables, False)


class _Reader:
    """Sorts the words of a text: brackets side by side and atoms may stand in any order.

    Until they are numbered, variables are words that begin with a NUL, which no other word does.
    """

    def __init__(self, bound: set[str]) -> None:
        self.bound = bound
        self.patterns: list[list[str]] = [[]]
        """The words before, between and after the braces."""
        self.atoms: list[list[list[str]]] = []
        """The atoms in each pair of braces."""
        self.windows: list[str] = []
        # Brackets that are open: the words so far, what may be told of them without names, and the brackets inside
        # that stand side by side and wait to be sorted.
        self._words: list[str] = self.patterns[0]
        self._told: list[str] = []
        self._beside: list[tuple[list[str], list[str]]] = []
        self._open: list[tuple[list[str], list[str], list[tuple[list[str], list[str]]]]] = []

    def read(self, tokens: Sequence[Token]) -> bool:
        place = 0
        while place < len(tokens):
            kind, value = tokens[place][:2]
            if kind == "[":
                self._open.append((self._words, self._told, self._beside))
                self._words, self._told, self._beside = [], [], []
            elif kind == "]":
                if not self._open:
                    return False
                self._settle()
                inner = (self._told, self._words)
                self._words, self._told, self._beside = self._open.pop()
                self._beside.append(inner)
            elif kind == "{":
                if self._open:
                    return False
                self._settle()
                place = self._braces(tokens, place + 1)
                if place < 0:
                    return False
                self.patterns.append([])
                self._words, self._told = self.patterns[-1], []
            else:
                if self._beside:
                    self._settle()
                if kind == "name" and value in self.bound and place and tokens[place - 1][0] == "->":
                    self._words.append("\0" + value)
                else:
                    word = "'" + value if kind == "string" else value
                    self._words.append(word)
                    self._told.append(word)
            place += 1
        self._settle()
        return not self._open

    def _settle(self) -> None:
        """Put brackets that stand side by side in the order of what they say."""
        if len(self._beside) > 1:
            self._beside.sort(key=_told)
        for told, words in self._beside:
            self._words += ("[", *words, "]")
            self._told += ("[", *told, "]")
        self._beside.clear()

    def _braces(self, tokens: Sequence[Token], place: int) -> int:
        """Return the atoms and windows of a join from behind its ``{``; the place of its ``}``, or -1."""
        atoms: list[list[str]] = [[]]
        part: list[str] = atoms[0]
        compares, first, nested = False, True, 0
        while place < len(tokens):
            kind, value = tokens[place][:2]
            if kind == "name":
                if value in self.bound:
                    if place + 1 == len(tokens):
                        return -1
                    if tokens[place - 1][0] in _NAMING or tokens[place + 1][0] in _NAMED:
                        return -1  # a name that is also something else
                    part.append("\0" + value)
                elif nested == 0 and compares and value.lower() == "and":
                    part = []
                    atoms.append(part)
                else:
                    part.append(value)
            elif kind == "string":
                part.append("'" + value)
            elif kind in _ENDS and nested == 0:
                if compares:
                    if not first:
                        return -1  # predicates come first
                    self.atoms.append(atoms)
                else:
                    self.windows += part
                    if first:
                        self.atoms.append([])
                self.windows.append(value)
                if kind == "}":
                    return place
                atoms = [[]]
                part = atoms[0]
                compares = first = False
            else:
                if kind in _COMPARISONS:
                    compares = True
                elif kind in _OPENING:
                    nested += 1
                elif kind in _CLOSING:
                    nested -= 1
                part.append(value)
            place += 1
        return -1

    def numbered(self) -> tuple[list[str | int], list[str | int], tuple[str, ...]]:
        """Return the form, the windows and the variables, which are numbered where the sorted patterns bind them."""
        number: dict[str, int] = {}
        for words in self.patterns:
            for word in words:
                if word[:1] == "\0":
                    number[word] = len(number)
        get = number.get
        # In atoms numbers are strings, so that atoms can be sorted, and no other word looks like them.
        marked = {word: f"\0{place}" for word, place in number.items()}.get
        form: list[str | int] = []
        for place, words in enumerate(self.patterns):
            if place:
                form.append("{")
                for atom in sorted([[marked(word, word) for word in atom] for atom in self.atoms[place - 1]]):
                    form += atom
                    form.append("\0")
                form.append("}")
            form += [get(word, word) for word in words]
        return form, [get(word, word) for word in self.windows], tuple(word[1:] for word in number)


def _told(bracket: tuple[list[str], list[str]]) -> list[str]:
    return bracket[0]
