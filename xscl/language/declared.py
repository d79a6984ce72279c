"""Declarations for a text: prefixes of namespaces, and the functions of one's own that the text calls.

Both are kept with a text as one JSON object.  A function stands in it by its name with brackets, ``ticker()``, which no
prefix is, and with the version that the text was registered with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from xscl.base.errors import QueryError, Span
from xscl.base.own_functions import shown_name
from xscl.base.ways import way
from xscl.language.syntax import ast
from xscl.language.syntax.atom_parser import ATOM_FUNCTIONS
from xscl.language.syntax.tokens import Token

__all__ = ["atom_function", "declared_json", "own_function", "own_functions", "prefixes"]

_CALL = "()"


def declared_json(namespaces: Mapping[str, str], tokens: Sequence[Token], functions: Mapping[str, str]) -> str:
    """Return what is declared for a text as it is kept.

    Args:
        namespaces: declared prefixes, and functions that are declared already.
        tokens: the text's.
        functions: names with versions of the functions that there are, by names in queries.
    """
    declared = dict(namespaces)
    if functions:
        called = {one.value for one, after in zip(tokens, tokens[1:], strict=False) if after.kind == "("}
        for name in sorted(called.intersection(functions)):
            declared.setdefault(name + _CALL, functions[name])
    return json.dumps(declared)


def own_functions(declared: str) -> tuple[str, ...]:
    """Return the functions of one's own, with versions, that are declared in JSON."""
    if _CALL not in declared:
        return ()
    return tuple(full for name, full in json.loads(declared).items() if name.endswith(_CALL))


def prefixes(declared: Mapping[str, str]) -> dict[str, str]:
    """Return the declared prefixes alone."""
    return {name: uri for name, uri in declared.items() if not name.endswith(_CALL)}


def atom_function(operand: ast.FunctionOperand, declared: Mapping[str, str], text: str) -> str:
    """Return the name in definitions of a function of atoms.

    Raises:
        QueryError: ``XSCL_UNKNOWN_FUNCTION``.
    """
    if operand.name in ATOM_FUNCTIONS:
        return operand.name
    return own_function(operand.name, declared, text, operand.span, ATOM_FUNCTIONS)


def own_function(name: str, declared: Mapping[str, str], text: str, span: Span, supported: Iterable[str]) -> str:
    """Return a function of one's own by its name in a query.

    Raises:
        QueryError: ``XSCL_UNKNOWN_FUNCTION``.
    """
    found = declared.get(name + _CALL)
    if found is not None:
        return found
    own = sorted(shown_name(full) for known, full in declared.items() if known.endswith(_CALL))
    raise QueryError(
        "XSCL_UNKNOWN_FUNCTION",
        f"there is no function {name}()",
        text=text,
        span=span,
        hint="known: "
        + ", ".join([*supported, *own])
        + f"; functions of your own are given by {way('xscl --functions MODULE', 'connect(functions=[…])')}",
    )
