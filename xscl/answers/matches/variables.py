"""Variables that the matches of a query have values of, for who groups and counts matches by them."""

from __future__ import annotations

from collections.abc import Iterable

from xscl.answers.matches.reader import named_queries
from xscl.base.errors import EngineError
from xscl.catalog.records import QueryInfo
from xscl.language.normalize import normalize
from xscl.language.shown import shown
from xscl.language.syntax.parser import parse_query
from xscl.store.home import Home

__all__ = ["check_variables"]


def check_variables(home: Home, query: str | None, names: Iterable[str]) -> None:
    """Refuse names that are no variables of a query.

    Raises:
        CatalogError: there was never a query of that name.
        EngineError: ``XSCL_BAD_AGGREGATE``.
    """
    if query is None:
        told = "variables are those of one query"
        raise EngineError("XSCL_BAD_AGGREGATE", told, hint="name the query: xscl match count QUERY --by x")
    known = list(dict.fromkeys(name for info in named_queries(home, query) for name in _variables(info)))
    for name in names:
        if name not in known:
            told = f"the query {query} binds no variable {name}"
            raise EngineError("XSCL_BAD_AGGREGATE", told, hint=f"it binds {', '.join(known) or 'none'}")


def _variables(query: QueryInfo) -> Iterable[str]:
    return normalize(shown(parse_query(query.text)), query.text, query.namespaces).variables
