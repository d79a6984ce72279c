"""Functions of one's own: what a program gives xscl to compute values with, beside those of the language.

Whoever opens a home gives them (``xscl.connect(functions=…)``, ``xscl --functions MODULE``).  No text of a query names
a module, so nobody who sends one has code imported.  A definition names a function with its version: ``ticker@1``, or
``score#1`` where it returns numbers.

A function is pure, so a process calls it once for a text and remembers what it gave, be that an error.
"""

from __future__ import annotations

import importlib
import os
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

from xscl.base.errors import EngineError, FunctionFailedError, XsclError
from xscl.base.pandas_later import let_pandas_in
from xscl.base.ways import way
from xscl.base.xml_characters import NO_CHARACTER

__all__ = [
    "FAILED",
    "RESERVED",
    "VARIABLE",
    "OwnFunction",
    "declared_functions",
    "function",
    "is_own",
    "load_functions",
    "load_module",
    "load_named",
    "loaded_functions",
    "loaded_modules",
    "own_parts",
    "own_text",
    "refusal_text",
    "require_functions",
    "returns_numbers",
    "shown_name",
]

VARIABLE = "XSCL_FUNCTIONS"
"""Variable of the environment with names of modules, between commas."""

FAILED = "\0"
"""Begins what stands for a value where a function failed; the reason follows.  No value of a document begins so."""

Returns = Literal["text", "number"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?<!-)\Z")
_VERSION = re.compile(r"[A-Za-z0-9._]+\Z")
_OWN = re.compile(r"[@#]")
_MOST_CHARACTERS = 1_000_000
"""Characters of what a function returns."""
_MOST_KNOWN, _MOST_KEPT = 1 << 17, 1 << 25
"""Texts, and characters of texts, whose values are remembered for a function."""

_WORDS = """
    and any as at avg between blocking boolean by ceiling change comment concat consistency contains contains-word count
    create crossing declare distinct drop dur every false filter first floor fold followed from function group having
    host id in join keep lang language last level local-name longest lower lower-case matches max maxwindow memory
    middle min most name namespace namespace-uri next node normalize-space not now number of on once or per position
    processing-instruction publish query range retract round rows select similar spanning standing starting starts-with
    string string-length strong substring substring-after substring-before sum text time tokens top translate true
    unbounded union upper upper-case url weak where while window without
"""
RESERVED = frozenset(_WORDS.split())
"""Words and functions of the language and of XPath, by which no function of one's own is called."""


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function of one text, as queries know it.  Python calls it like the function that was given."""

    name: str
    returns: Returns
    version: str
    call: Callable[[str], Any]

    @property
    def full(self) -> str:
        """Return the name that definitions have, with the version and the kind of what it returns."""
        return f"{self.name}{'#' if self.returns == 'number' else '@'}{self.version}"

    def __call__(self, text: str) -> Any:
        """Call the function."""
        return self.call(text)


def function(name: str | Callable[[str], Any] | None = None, *, returns: Returns = "text", version: str = "1") -> Any:
    """Make a function of one text usable in queries; a decorator.

    The function is pure: it gives the same for the same text, in every process.  None is no value, which satisfies no
    comparison.  Whoever changes what it gives, gives it another ``version``.

    Args:
        name: its name in queries; by default its own.
        returns: ``text`` or ``number``.
        version: letters, digits, dots and underscores.

    Raises:
        EngineError: ``XSCL_BAD_FUNCTION``.
    """
    if callable(name):
        return function()(name)
    given = name

    def made(call: Callable[[str], Any]) -> OwnFunction:
        found = OwnFunction(str(given or getattr(call, "__name__", "")), returns, version, call)
        _require_sound(found)
        return found

    return made


def _require_sound(given: OwnFunction) -> None:
    if not isinstance(given.name, str) or not _NAME.match(given.name) or given.name.lower() in RESERVED:
        why = "the language has it" if str(given.name).lower() in RESERVED else "it is no name of a function"
        raise _bad(f"a function cannot be called {given.name!r}: {why}", "letters, digits, _ and -, as in 'ticker'")
    if given.returns not in ("text", "number"):
        raise _bad(f"{given.name} returns {given.returns!r}", "returns='text' or returns='number'")
    if not isinstance(given.version, str) or not _VERSION.match(given.version):
        raise _bad(
            f"{given.name} has the version {given.version!r}", "letters, digits, dots and underscores, as in '2'"
        )


def _bad(message: str, hint: str) -> EngineError:
    return EngineError("XSCL_BAD_FUNCTION", message, hint=hint)


# -- the functions of a process ------------------------------------------------------------------------------------


class _Loaded:
    """A function with what it has given so far."""

    def __init__(self, given: OwnFunction) -> None:
        self.given = given
        self.known: dict[str, str | FunctionFailedError | None] = {}
        self.kept = 0
        """Characters of the texts whose values are known."""

    def value(self, text: str) -> str | None:
        """Return what the function gives for a text.

        Raises:
            FunctionFailedError: it fails.
        """
        try:
            found = self.known[text]
        except KeyError:
            found = self._called(text)
            self.kept += len(text) + 1
            if len(self.known) >= _MOST_KNOWN or self.kept > _MOST_KEPT:
                self.known.clear()
                self.kept = 0
            self.known[text] = found
        if isinstance(found, FunctionFailedError):
            raise found.with_traceback(None)
        return found

    def _called(self, text: str) -> str | FunctionFailedError | None:
        given = self.given
        try:
            value = given.call(text)
        except MemoryError:
            raise  # that is no fault of the text
        except Exception as error:  # whatever it is, it is told, and costs the queries that ask for this value only
            return _failed(given, text, f"raises {type(error).__name__}: {error}")
        if value is None:
            return None
        found = _number(value) if given.returns == "number" else value
        if not isinstance(found, str):
            return _failed(given, text, f"returns {reprlib.repr(value)}, which is no {given.returns}")
        if len(found) > _MOST_CHARACTERS or NO_CHARACTER.search(found) is not None:
            limit = f"more than {_MOST_CHARACTERS:,} characters, or one that XML does not have"
            return _failed(given, text, f"returns {limit}")
        return found


def _failed(given: OwnFunction, text: str, what: str) -> FunctionFailedError:
    message = f"{given.name}({reprlib.repr(text)}) {what}"
    return FunctionFailedError("XSCL_FUNCTION_FAILED", message, hint=f"version {given.version} of {given.name}")


def _number(value: object) -> str | None:
    """Return the text of a number; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return format(exact, "f") if exact.is_finite() else None


_LOADED: dict[str, _Loaded] = {}
"""Functions by their names with versions."""
_MODULES: dict[str, None] = {}
"""Names of modules, in the order in which they were loaded."""
_NEWEST: dict[str, str] = {}
"""The same names by the names in queries: of each function the version that was loaded last."""


def load_functions(functions: Iterable[OwnFunction]) -> None:
    """Make functions known to this process; for new queries, the last version of a name counts.

    Raises:
        EngineError: ``XSCL_BAD_FUNCTION``: something else has been loaded under this name and version.
    """
    for given in functions:
        if not isinstance(given, OwnFunction):
            raise _bad(f"{reprlib.repr(given)} is no function of one's own", "decorate it with @xscl.function")
        known = _LOADED.get(given.full)
        if known is not None and not _is_same(known.given.call, given.call):
            raise _bad(
                f"version {given.version} of {given.name} is another function in this process already",
                "give the changed function another version: queries tell functions apart by it",
            )
        if known is None:
            _LOADED[given.full] = _Loaded(given)
        _NEWEST[given.name] = given.full


def _is_same(one: Callable[[str], Any], other: Callable[[str], Any]) -> bool:
    """Tell whether two functions are surely one: the same object, or one that was made again of the same code."""
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        cells = [[cell.cell_contents for cell in each.__closure__ or ()] for each in (one, other)]
        return one.__code__ == other.__code__ and one.__defaults__ == other.__defaults__ and cells[0] == cells[1]
    return one is other


def load_module(name: str) -> None:
    """Load the functions of a module, ``MODULE`` or ``MODULE:NAME``; the current folder is looked in, too.

    Raises:
        EngineError: ``XSCL_BAD_FUNCTION``: there is no such module, or it has no such function.
    """
    module, _, only = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    # The module, or what it imports, may need pandas.
    let_pandas_in()
    try:
        found = vars(importlib.import_module(module))
    except Exception as error:
        raise _bad(
            f"the module {module!r} cannot be imported: {type(error).__name__}: {error}",
            "--functions takes the name of a module, as in import NAME",
        ) from error
    given = [each for key, each in found.items() if isinstance(each, OwnFunction) and only in ("", key, each.name)]
    if not given:
        raise _bad(f"{name} has no function of one's own", "decorate it with @xscl.function")
    load_functions(given)
    _MODULES.setdefault(name)


def load_named(names: Iterable[str]) -> None:
    """Load the functions of modules, and of those that the environment names.

    Raises:
        EngineError: as ``load_module``.
    """
    for name in (*os.environ.get(VARIABLE, "").split(","), *names):
        if name:
            load_module(name)


def loaded_modules() -> tuple[str, ...]:
    """Return the names by which ``load_module`` was called; another process that loads them has the same functions."""
    return tuple(_MODULES)


def loaded_functions() -> tuple[OwnFunction, ...]:
    """Return the functions of this process."""
    return tuple(each.given for each in _LOADED.values())


def declared_functions() -> Mapping[str, str]:
    """Return the names with versions that new queries mean, by names in queries."""
    return _NEWEST


def require_functions(full: Iterable[str], query: str | None = None) -> None:
    """Refuse to go on without functions that are needed, for whose sake nothing of a query's answers is lost.

    Raises:
        EngineError: ``XSCL_UNKNOWN_FUNCTION``.
    """
    missing = sorted(name for name in full if name not in _LOADED)
    if missing:
        who = "a query" if query is None else f"query {query}"
        raise unknown_function(missing[0], who)


def unknown_function(full: str, who: str) -> EngineError:
    """Return the refusal of a function that is not loaded."""
    name, _, version = _OWN.sub("@", full).partition("@")
    newest = _NEWEST.get(name)
    here = "" if newest is None else f"; this process has version {_OWN.split(newest)[1]}"
    return EngineError(
        "XSCL_UNKNOWN_FUNCTION",
        f"{who} needs version {version} of the function {name}(), which this process was not given{here}",
        hint=f"give it by {way('xscl --functions MODULE', f'connect(functions=[{name}])')}; a query that is registered "
        "again takes the version that is there",
    )


def refusal_text(error: XsclError) -> str:
    """Return the reason of a refusal, as rows of refusals have it: what a failed function says has its condition."""
    if isinstance(error, FunctionFailedError):
        return f"{FAILED}{error.message}"
    return error.message


# -- names in definitions ------------------------------------------------------------------------------------------


def is_own(name: str) -> bool:
    """Tell whether a function's name in a definition is one of a function of one's own."""
    return "@" in name or "#" in name


def own_parts(functions: str | None) -> tuple[str, ...]:
    """Return the functions of one's own among nested functions, as ``apply_functions`` takes them.

    >>> own_parts("number score#2"), own_parts("equal-same|n"), own_parts(None)
    (('score#2',), (), ())
    """
    if functions is None or not is_own(functions):
        return ()
    return tuple(name for name in functions.partition("|")[0].split(" ") if is_own(name))


def returns_numbers(functions: str) -> bool:
    """Tell whether the outermost of nested functions is one's own and returns numbers."""
    return "#" in functions.partition(" ")[0]


def shown_name(name: str) -> str:
    """Return a function's name as a query has it."""
    return _OWN.split(name)[0]


def own_text(full: str, text: str) -> str | None:
    """Return what a function of one's own gives for a text; None: it has no value there.

    Raises:
        FunctionFailedError: it fails.
        EngineError: ``XSCL_UNKNOWN_FUNCTION``: it is not loaded.
    """
    loaded = _LOADED.get(full)
    if loaded is None:
        raise unknown_function(full, "a query")
    return loaded.value(text)
