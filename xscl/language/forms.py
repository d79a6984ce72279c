"""Compiling many queries: texts that differ only in the names of variables, or in windows, are compiled once.

A million standing queries are mostly the same few thousand questions asked by different people.  The *form* of a text
is its tokens with brackets and atoms sorted, variables numbered and, where two blocks are joined by value, without
windows; a text of a known form takes what was compiled for the first one and puts in its own names and windows.  Forms
are read off the tokens alone, so anything unusual is simply compiled.  A text that differs from one before in constants
is filled in, or is parsed and takes from that one what no guard has a part in.

The law, held by tests: what ``Preparer.prepare`` gives is what ``compile_query`` gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from xscl.base.errors import QueryError
from xscl.language.compile import GUARDED, compile_filled, compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.outlines.form_reader import FormKey, FormRead, read_form
from xscl.language.outlines.outlines import Outline, Outlines
from xscl.language.query_rows import names_json
from xscl.language.row_windows import rows_of
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import Token, tokenize
from xscl.language.text_notes import text_notes
from xscl.language.windows import cases_of, settled_cases

__all__ = ["Prepared", "Preparer"]

_MOST_TEXTS = 50_000
"""Number of texts that are remembered with their compiled forms."""
_MOST_COMPILED = 5_000
"""Compiled queries that are remembered, some 20 kB each."""

_STEPS = re.compile(
    r"\bwithout\b|\bnot\b.*\bfollowed\b|\bwindow\b|\bnext\b|\bfold\b|\bfilter\b", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query ready to be registered: its compiled form, and its own names of the nodes that have one.

    Queries of one form and windows have the same ``compiled``, whose names are those of the first of them.
    """

    compiled: CompiledQuery
    names: str
    """JSON: names of the meta-variables, of the nodes that make a match with their blocks, of the joined variables."""
    publish: str | None = None
    """Channel to which it publishes."""
    starting: str = "NOW"
    """``NOW``, ``ALL`` or a time, ISO 8601; a text that is filled in says NOW, because others are compiled."""


@dataclass(slots=True)
class _Form:
    """The first query of a form, and the compiled queries of all windows that texts of the form have had."""

    compiled: CompiledQuery
    variables: tuple[str, ...]
    """Names of its variables, in the order of their numbers in the form."""
    names: str
    """The JSON of names as a format that takes the quoted names of variables in the order of their numbers."""
    windows: dict[FormKey, CompiledQuery]


class Preparer:
    """Compiles texts for one set of namespaces and channels; it remembers forms, so use one for many texts.

    One thread uses it at a time: homes and the service compile under locks.
    """

    def __init__(
        self,
        namespaces: Mapping[str, str] | None = None,
        channels: Mapping[str, ChannelFacts] | None = None,
        *,
        guarded: bool = False,
    ) -> None:
        """``guarded`` is as of ``compile_query``, for all texts."""
        self.namespaces = dict(namespaces or {})
        self.channels = dict(channels or {})
        self.guarded = guarded
        self._of_guarded: Preparer | None = None
        """Compiles texts that begin with ``GUARDED``, without that."""
        self._forms: dict[FormKey, _Form] = {}
        self._outlines = Outlines()
        """Texts that differ in constants alone."""
        self._texts: dict[str, Prepared] = {}
        self._kept = 0
        """Number of queries that were compiled since the memory was emptied."""

    def known(self, text: str) -> Prepared | None:
        """Return the compiled query of a text that was prepared before, or differs from such a text in constants alone;
        None: it is to be prepared.
        """
        found = self._texts.get(text)
        if found is None and (found := self._filled(text)) is not None:
            self._remember_text(text, found)
        return found

    def prepare(self, text: str, tokens: Sequence[Token], parse: Callable[[], tuple[ast.Query, str]]) -> Prepared:
        """Return the compiled query of a text and its tokens; ``parse`` gives its tree, and what spans speak of, if
        need be.

        Raises:
            QueryError: as ``parse`` and ``compile_query``.
        """
        found = self.known(text)
        if found is None:
            found = self._prepared(text, tokens, parse)
            self._remember_text(text, found)
        return found

    def prepare_text(self, text: str) -> Prepared:
        """Prepare a text that is one query and nothing else: the text of a registered query or group."""
        if text.startswith(GUARDED):
            if self._of_guarded is None:
                self._of_guarded = Preparer(self.namespaces, self.channels, guarded=True)
            return self._of_guarded.prepare_text(text.removeprefix(GUARDED))
        found = self.known(text)
        if found is None:
            found = self._prepared(text, tokenize(text)[:-1], lambda: (parse_query(text), text))
            self._remember_text(text, found)
        return found

    def _prepared(self, text: str, tokens: Sequence[Token], parse: Callable[[], tuple[ast.Query, str]]) -> Prepared:
        read = None if _may_have_steps(text) else read_form(tokens)
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
        known = self._outlines.find(text)
        if known is not None:
            return self._compiled(*parse(), like=known[0].first)
        prepared = self._compiled(*parse())
        self._outlines.add(text, tokens, Outline(prepared.compiled, prepared.names, prepared.publish))
        return prepared

    def _filled(self, text: str) -> Prepared | None:
        """Compile a text without parsing it, by means of one that differs in constants; None: that does not do."""
        found = self._outlines.find(text)
        if found is None:
            return None
        known, constants, printed = found
        filled = known.filled(text, constants, printed, self.namespaces, self.channels)
        if filled is None:
            if known.refuses_joins:
                self._outlines.refuse_joins(text)
            return None
        try:
            compiled = compile_filled(filled, self.channels, known.first, guarded=self.guarded)
        except QueryError:
            return None  # the refusal has to name places of this text, so it is parsed
        self._kept += 1
        if compiled.notes != known.first.notes:
            compiled = replace(compiled, notes=known.first.notes)
        return Prepared(compiled, known.names, known.publish)

    def _remember_text(self, text: str, prepared: Prepared) -> None:
        self._forget()
        self._texts[text] = prepared

    def _compiled(self, query: ast.Query, text: str, like: CompiledQuery | None = None) -> Prepared:
        compiled = compile_query(
            query, text, namespaces=self.namespaces, channels=self.channels, like=like, guarded=self.guarded
        )
        compiled = replace(compiled, notes=text_notes(query, compiled.normal.cases))
        self._kept += 1
        return Prepared(compiled, names_json(compiled), query.publish, query.starting)

    def _with_windows(self, form: _Form, query: ast.Query, text: str, variables: Sequence[str]) -> CompiledQuery:
        """Return the compiled query of a form of two blocks, with the windows of another of its queries."""
        places = form.compiled.normal.variables
        block_of = {name: places[known][0] for name, known in zip(variables, form.variables, strict=True)}
        try:
            cases = cases_of(query.source, text, block_of, form.compiled.block_names)
            rows = rows_of(query.source, text, block_of, len(form.compiled.block_names))
        except QueryError:
            # The refusal has to name this query's variables, so it is compiled.
            return self._compiled(query, text).compiled
        group = form.compiled.group
        settled = settled_cases(cases, group.instance, form.compiled.channels, group.streams, group.guards)
        of_stream = any(map(min, zip(rows, group.streams, strict=False)))
        if of_stream or any(bounds.exchange for case in settled for bounds in case) is not group.exchanges:
            # With these windows guards are a part of the pattern, and with the form's they are not, or the reverse.
            return self._compiled(query, text).compiled
        return replace(
            form.compiled,
            normal=replace(form.compiled.normal, cases=cases, rows=rows),
            group=replace(group, cases=settled, rows=rows),
            notes=text_notes(query, cases),
        )

    def _remember(self, read: FormRead, prepared: Prepared) -> None:
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


def _may_have_steps(text: str) -> bool:
    """Tell whether a text may be about absence or windows of matches, which forms do not know."""
    return _STEPS.search(text) is not None
