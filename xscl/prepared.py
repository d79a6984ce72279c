"""Compiling many queries: texts that differ only in the names of variables, or in windows, are compiled once.

A million standing queries are mostly the same few thousand questions asked by different people.  The *form* of a text
is its tokens with variables numbered in the order of their bindings and, where two blocks are joined by value, without
windows; a text of a known form takes what was compiled for the first one and puts in its own names and windows.  Forms
are read off the tokens alone, so anything unusual is simply compiled.

The law, held by tests: what ``Preparer.prepare`` gives is what ``compile_query`` gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from xscl.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.durations import UNITS
from xscl.parser import parse_query
from xscl.tokens import Token
from xscl.windows import cases_of

__all__ = ["Prepared", "Preparer", "names_json"]

_MOST_REMEMBERED = 200_000
"""Forms and windows; some 10 kB each."""

# A variable with such a name is left to the parser: in a join's braces the word has a meaning of its own.
_RESERVED = frozenset(("and", "in", "maxwindow", "once", "unbounded", *UNITS))
# Clauses and bindings that forms do not know.
_CLAUSES = frozenset(("as", "create", "declare", "drop", "publish", "select", "starting"))
_COMPARISONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
# After one of these a name is not a variable.
_NAMING = frozenset(("/", "//", "@", ":", "::", "."))
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
    """The JSON of names as a format that takes the quoted names of variables in the order of their bindings."""
    windows: dict[_Key, CompiledQuery]


class Preparer:
    """Compiles texts for one set of namespaces and channels; it remembers forms, so use one for many texts."""

    def __init__(
        self, namespaces: Mapping[str, str] | None = None, channels: Mapping[str, ChannelFacts] | None = None
    ) -> None:
        self.namespaces = dict(namespaces or {})
        self.channels = dict(channels or {})
        self._forms: dict[_Key, _Form] = {}
        self._remembered = 0

    def prepare(self, text: str, tokens: Sequence[Token]) -> Prepared:
        """The compiled query of a text, given its tokens.

        Raises:
            QueryError: as ``compile_query``.
        """
        read = _read(tokens)
        if read is None:
            return self._compiled(text)
        form = self._forms.get(read.form)
        if form is None:
            prepared = self._compiled(text)
            self._remember(read, prepared)
            return prepared
        compiled = form.windows.get(read.windows)
        if compiled is None:
            compiled = self._with_windows(form, text, read.variables)
            form.windows[read.windows] = compiled
            self._count()
        return Prepared(compiled, form.names.format(*map(_quoted, read.variables)))

    def _compiled(self, text: str) -> Prepared:
        query = parse_query(text)
        compiled = compile_query(query, text, namespaces=self.namespaces, channels=self.channels)
        return Prepared(compiled, names_json(compiled), query.publish, query.starting)

    def _with_windows(self, form: _Form, text: str, variables: Sequence[str]) -> CompiledQuery:
        """What was compiled for a form of two blocks, with the windows of another of its queries."""
        places = form.compiled.normal.variables
        block_of = {name: places[known][0] for name, known in zip(variables, form.variables, strict=True)}
        names = dict(zip(form.variables, variables, strict=True))
        block_names = [names.get(name, name) for name in form.compiled.block_names]
        cases = cases_of(parse_query(text).source, text, block_of, block_names)
        return replace(
            form.compiled,
            normal=replace(form.compiled.normal, cases=cases),
            group=replace(form.compiled.group, cases=cases),
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
        self._count()

    def _count(self) -> None:
        """Forget everything now and then rather than grow without end."""
        self._remembered += 1
        if self._remembered > _MOST_REMEMBERED:
            self._forms.clear()
            self._remembered = 0


def names_json(compiled: CompiledQuery) -> str:
    """A query's own names of its meta-variables and of the nodes that make a match, as they are kept."""
    return json.dumps(
        {
            "meta": compiled.meta_names,
            "results": compiled.result_names,
            "result_blocks": compiled.result_blocks,
            "joined": compiled.joined_names,
        }
    )


@lru_cache(maxsize=100_000)
def _quoted(name: str) -> str:
    return json.dumps(name)


# -- forms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """A text as its form, its windows and its variables in the order of their bindings."""

    form: _Key
    windows: _Key
    """Empty where windows are part of the form."""
    variables: tuple[str, ...]
    separate: bool
    """Whether windows are not part of the form."""


def _read(tokens: Sequence[Token]) -> _Read | None:
    """None: the text has something that forms do not know."""
    variables: dict[str, int] = {}
    joins = 0
    before = ""
    for token in tokens:
        kind, value = token.kind, token.value
        if kind == "name":
            if before == "->":
                if value in variables or value.lower() in _RESERVED:
                    return None
                variables[value] = len(variables)
            elif value.lower() in _CLAUSES:
                return None
        elif kind == "{":
            joins += 1
        elif kind in _UNKNOWN:
            return None
        before = value
    words = _words(tokens, variables)
    if words is None:
        return None
    form, windows = words
    names = tuple(variables)
    # Which blocks of three and more are tied to which depends on the windows, and so does what is compiled.
    if joins == 1:
        return _Read(tuple(form), tuple(windows), names, True)
    return _Read((*form, "|", *windows), (), names, False)


def _words(tokens: Sequence[Token], variables: Mapping[str, int]) -> tuple[list[str | int], list[str | int]] | None:
    """The words of the form and of the windows."""
    form: list[str | int] = []
    windows: list[str | int] = []
    part: list[str | int] = form
    inside = compares = first = False
    nested = 0
    before = ""
    for place, token in enumerate(tokens):
        kind, value = token.kind, token.value
        word: str | int = value
        if kind == "name":
            if value in variables:
                if before != "->" and not (
                    inside and before not in _NAMING and not tokens[place + 1].is_op("(", ":", "::")
                ):
                    return None  # a name that is also something else here
                word = variables[value]
        elif kind == "string":
            word = "'" + value
        elif kind != "number":
            if inside:
                if value in _COMPARISONS:
                    compares = True
                elif value in "([":
                    nested += 1
                elif value in ")]" and nested:
                    nested -= 1
                elif nested == 0 and value in ",}":
                    if compares and not first:
                        return None  # predicates come first
                    (form if compares else windows).extend(part)
                    windows.append(value)
                    part, compares, first = [], False, False
                    if value == "}":
                        inside = False
                        part = form
                        form.append(value)
                    before = value
                    continue
            elif value == "{":
                inside = first = True
                form.append(value)
                part = []
                before = value
                continue
        part.append(word)
        before = value
    return None if inside else (form, windows)
