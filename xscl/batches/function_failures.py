"""Functions of one's own that fail on values of matches: who hears of it.

Such a value is as if it were not there; stage 1 tells of those that it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xscl.base.errors import FunctionFailedError
from xscl.base.own_functions import own_parts
from xscl.base.values import apply_functions
from xscl.batches.refusals import Rejection
from xscl.language.terms import Term

__all__ = ["apply_to_match", "failed", "failed_value", "own_terms"]


def apply_to_match(functions: str, text: str) -> str | None:
    """Return what functions give for a value of a match; None: nothing, be it because one fails."""
    try:
        return apply_functions(functions, text)
    except FunctionFailedError:
        return None


def own_terms(terms: Iterable[Term]) -> list[Term]:
    """Return the terms that call functions of one's own, each once."""
    return list(dict.fromkeys(term for term in terms if own_parts(" ".join(term.functions))))


def failed(functions: Sequence[str], texts: Iterable[str | None]) -> Iterator[tuple[int, str]]:
    """Yield the places of the texts on which functions fail, and why."""
    names = " ".join(functions)
    for place, text in enumerate(texts):
        try:
            if text is not None:
                apply_functions(names, text)
        except FunctionFailedError as error:
            yield place, error.message


def failed_value(query: str, channel: str, id_: str, ts: int, reason: str, source: str) -> Rejection:
    """Tell why a match has no value for a query."""
    message = f"{reason}: it has no such value for the query"
    return Rejection(query, channel, id_, ts, "XSCL_FUNCTION_FAILED", message, source)
