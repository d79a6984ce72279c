"""Compiling many queries: texts that differ only in the names of variables, or in windows, are compiled once.

A million standing queries are mostly the same few thousand questions asked by different people.  The *form* of a text
is its tokens with brackets and atoms sorted, variables numbered and, where two blocks are joined by value, without
windows; a text of a known form takes what was compiled for the first one and puts in its own names and windows.  Forms
are read off the tokens alone, so anything unusual is simply compiled.  A text that differs from one before in constants
in brackets is parsed, and takes from that one what no guard has a part in.

The law, held by tests: what ``Preparer.prepare`` gives is what ``compile_query`` gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from xscl.base.durations import UNITS
from xscl.base.errors import QueryError
from xscl.language import ast
from xscl.language.compile import CompiledQuery, compile_normal, compile_query
from xscl.language.facts import ChannelFacts
from xscl.language.outlines import Outline, outline_of
from xscl.language.parser import parse_query
from xscl.language.query_rows import names_json
from xscl.language.text_notes import text_notes
from xscl.language.tokens import Token, tokenize
from xscl.language.windows import cases_of, settled_cases

__all__ = ["Prepared", "Preparer"]

_MOST_TEXTS = 50_000
"""Number of texts that are remembered with their compiled forms."""
_MOST_COMPILED = 5_000
"""Compiled queries that are remembered, some 20 kB each."""

# A variable with such a name is left to the parser: in a join's braces the word has a meaning of its own.
_RESERVED = frozenset(("and", "in", "maxwindow", "once", "unbounded", *UNITS))
# Clauses and bindings that forms do not know.
_CLAUSES = frozenset(("as", "create", "declare", "drop", "publish", "select", "starting"))
_COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
# Beside one of these a name is not a variable.
_NAMING = frozenset(("/", "//", "@", ":", "::", "."))
_NAMED = frozenset(("(", ":", "::"))
_OPENING = frozenset("([")
_CLOSING = frozenset(")]")
_ENDS = frozenset(",}")
_NEGATING = re.compile(r"\bwithout\b|\bnot\b.*\bfollowed\b", re.IGNORECASE | re.DOTALL)
_UNKNOWN = frozenset(("bad", "constructor"))

_Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query ready to be registered: what it was compiled to, and its own names of the nodes that have one.

    Queries of one form and windows have the same ``compiled``, whose names are those of the first of them.
    """

    compiled: CompiledQuery
    names: str
    """JSON: names of the meta-variables, of the nodes that make a match with their blocks, of the joined variables."""
    publish: str | None = None
    starting: str = "NOW"


@dataclass(slots=True)
class _Form:
    """The first query of a form, and what the windows of all of them have come to."""

    compiled: CompiledQuery
    variables: tuple[str, ...]
    names: str
    """The JSON of names as a format that takes the quoted names of variables in the order of their numbers."""
    windows: dict[_Key, CompiledQuery]


class Preparer:
    """Compiles texts for one set of namespaces and channels; it remembers forms, so use one for many texts."""

    def __init__(
        self, namespaces: Mapping[str, str] | None = None, channels: Mapping[str, ChannelFacts] | None = None
    ) -> None:
        self.namespaces = dict(namespaces or {})
        self.channels = dict(channels or {})
        self._forms: dict[_Key, _Form] = {}
        self._outlines: dict[tuple[str, ...], Outline] = {}
        """Texts that differ in constants of brackets alone."""
        self._texts: dict[str, Prepared] = {}
        self._kept = 0
        """Number of queries that were compiled since the memory was emptied."""

    def known(self, text: str) -> Prepared | None:
        """Return the remembered result for the very same text, or None."""
        return self._texts.get(text)

    def prepare(self, text: str, tokens: Sequence[Token], parse: Callable[[], tuple[ast.Query, str]]) -> Prepared:
        """Return the compiled query of a text and its tokens; ``parse`` gives its tree, and what spans speak of, if
        need be.

        Raises:
            QueryError: as ``parse`` and ``compile_query``.
        """
        found = self._texts.get(text)
        if found is None:
            found = self._prepared(text, tokens, parse)
            self._forget()
            self._texts[text] = found
        return found

    def prepare_text(self, text: str) -> Prepared:
        """Prepare a text that is one query and nothing else: the text of a registered query or group."""
        return self.known(text) or self.prepare(text, tokenize(text)[:-1], lambda: (parse_query(text), text))

    def _prepared(self, text: str, tokens: Sequence[Token], parse: Callable[[], tuple[ast.Query, str]]) -> Prepared:
        if _may_negate(text) and (parsed := parse())[0].negations:
            return self._compiled(*parsed)
        read = _read(tokens)
        if read is None:
            return self._first(text, tokens, parse)
        form = self._forms.get(read.form)
        if form is None:
            prepared = self._first(text, tokens, parse)
            self._remember(read, prepared)
            return prepared
        compiled = form.windows.get(read.windows)
        if compiled is None:
            compiled = self._with_windows(form, *parse(), read.variables)
            form.windows[read.windows] = compiled
        return Prepared(compiled, form.names.format(*map(_quoted, read.variables)))

    def _first(self, text: str, tokens: Sequence[Token], parse: Callable[[], tuple[ast.Query, str]]) -> Prepared:
        """Compile a text of no known form, by means of one that differs in constants if there was one."""
        outline = outline_of(tokens)
        known = self._outlines.get(outline)
        if known is None:
            prepared = self._compiled(*parse())
            self._outlines[outline] = Outline(prepared.compiled, prepared.names)
            return prepared
        return self._filled(known, text, tokens) or self._compiled(*parse(), like=known.first)

    def _filled(self, known: Outline, text: str, tokens: Sequence[Token]) -> Prepared | None:
        """Compile a text without parsing it; None: that does not do."""
        normal = known.filled(text, tokens, self.namespaces)
        if normal is None:
            return None
        try:
            compiled = compile_normal(normal, self.channels, known.first)
        except QueryError:
            return None  # said of this text
        if compiled.plans is not known.first.plans:
            return None
        self._kept += 1
        return Prepared(replace(compiled, notes=known.first.notes), known.names)

    def _compiled(self, query: ast.Query, text: str, like: CompiledQuery | None = None) -> Prepared:
        compiled = compile_query(query, text, namespaces=self.namespaces, channels=self.channels, like=like)
        compiled = replace(compiled, notes=text_notes(query, compiled.normal.cases))
        self._kept += 1
        return Prepared(compiled, names_json(compiled), query.publish, query.starting)

    def _with_windows(self, form: _Form, query: ast.Query, text: str, variables: Sequence[str]) -> CompiledQuery:
        """Return the compiled query of a form of two blocks, with the windows of another of its queries."""
        places = form.compiled.normal.variables
        block_of = {name: places[known][0] for name, known in zip(variables, form.variables, strict=True)}
        try:
            cases = cases_of(query.source, text, block_of, form.compiled.block_names)
        except QueryError:
            # Said again with the names of this query.
            return self._compiled(query, text).compiled
        group = form.compiled.group
        settled = settled_cases(cases, group.instance, form.compiled.channels, group.streams, group.guards)
        if any(bounds.exchange for case in settled for bounds in case) is not group.exchanges:
            # Guards with these windows are a part of the pattern with those, or the other way round.
            return self._compiled(query, text).compiled
        return replace(
            form.compiled,
            normal=replace(form.compiled.normal, cases=cases),
            group=replace(group, cases=settled),
            notes=text_notes(query, cases),
        )

    def _remember(self, read: _Read, prepared: Prepared) -> None:
        compiled = prepared.compiled
        if read.separate and not compiled.normal.joins:
            return  # what ties the blocks are their windows
        number = {name: place for place, name in enumerate(read.variables)}
        named = (*compiled.meta_names, *compiled.result_names, *compiled.joined_names)
        if not {name for name in named if name is not None} <= set(number):
            return  # a path after a variable has a variable of its own
        # The names are put in later: first as numbers that no name can be, with the braces of JSON doubled.
        marked = {
            key: [f"\0{number[name]}\0" if isinstance(name, str) else name for name in found]
            for key, found in json.loads(prepared.names).items()
        }
        format_ = json.dumps(marked).replace("{", "{{").replace("}", "}}")
        for place in range(len(number)):
            format_ = format_.replace(f'"\\u0000{place}\\u0000"', f"{{{place}}}")
        self._forms[read.form] = _Form(compiled, read.variables, format_, {read.windows: compiled})

    def _forget(self) -> None:
        """Forget everything now and then rather than grow without end."""
        if self._kept > _MOST_COMPILED:
            self._forms.clear()
            self._outlines.clear()
            self._kept = 0
            self._texts.clear()
        elif len(self._texts) >= _MOST_TEXTS:
            self._texts.clear()


@lru_cache(maxsize=100_000)
def _quoted(name: str) -> str:
    return json.dumps(name)


# -- forms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """A text as its form, its windows and its variables in the order in which the form numbers them."""

    form: _Key
    windows: _Key
    """Empty where windows are part of the form."""
    variables: tuple[str, ...]
    separate: bool
    """Whether windows are not part of the form."""


def _may_negate(text: str) -> bool:
    """Tell whether a text may be about absence, which forms do not know."""
    return _NEGATING.search(text) is not None


def _read(tokens: Sequence[Token]) -> _Read | None:
    """None: the text has something that forms do not know."""
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
        return _Read(tuple(form), tuple(windows), variables, True)
    return _Read((*form, "|", *windows), (), variables, False)


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
                if value in self.bound and kind == "name":
                    if place == 0 or tokens[place - 1][0] != "->":
                        return False  # a name that is also something else
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
        """Form, windows and variables; variables are numbered where the sorted patterns bind them."""
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
