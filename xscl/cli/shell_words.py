"""Words that the shell completes: relations, columns, names of queries, keywords and its own commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xscl.answers.sql.channel_views import ChannelNames
from xscl.answers.sql.comments import CHANNEL
from xscl.answers.sql.guard import judge
from xscl.answers.sql.relation_steps import RELATION_NAMES, relation_steps
from xscl.answers.sql.relations import home_relations
from xscl.answers.sql.steps import Needs
from xscl.registry.query_list import QueryFilter, list_queries

if TYPE_CHECKING:
    from xscl.cli.client import Client
    from xscl.store.home import Home

__all__ = ["COMMANDS", "Words", "candidates", "home_words", "service_words"]

COMMANDS: Mapping[str, str] = {
    r"\d": r"\d [RELATION]   relations, or the columns of one",
    r"\i": r"\i FILE         run the statements of a file",
    r"\timing": r"\timing [on|off]  tell how long statements take",
    r"\?": r"\?              these commands",
    r"\q": r"\q              leave the shell (or Ctrl-D)",
}
"""Commands of the shell, with their help."""
_KEYWORDS = tuple(
    """
    SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET JOIN LEFT USING ON AND OR NOT IN IS NULL LIKE BETWEEN
    AS CASE WHEN THEN ELSE END WITH UNION ALL EXCEPT INTERSECT VALUES COUNT SHOW TABLES COLUMNS DESCRIBE CREATE
    STANDING QUERY DROP DECLARE NAMESPACE FOLLOWED PUBLISH STARTING NOW ONCE
    """.split()  # noqa: SIM905  (one word a line would be longer)
)
_OF_RELATIONS = re.compile(r"(?:\b(?:from|join|describe|desc|columns\s+in)|\\d)\s+$", re.IGNORECASE)
_OF_QUERIES = re.compile(r"\bdrop\s+query\s+$", re.IGNORECASE)
_MOST = 1_000
"""Names of queries that are completed."""


@dataclass(frozen=True, slots=True)
class Words:
    """Names of a home that can be completed."""

    relations: Mapping[str, Sequence[str]]
    """Columns by relation."""
    queries: Sequence[str]


def candidates(word: str, before: str, words: Words) -> list[str]:
    """Return what a word may become; ``before`` is the text of the statement before it."""
    if word.startswith("\\") and not before.strip():
        return [command for command in COMMANDS if command.startswith(word)]
    if _OF_QUERIES.search(before):
        return _fitting(word, words.queries)
    if _OF_RELATIONS.search(before):
        return _fitting(word, words.relations)
    alias, dot, begin = word.rpartition(".")
    columns = sorted({column for each in words.relations.values() for column in each})
    if dot:
        return [f"{alias}.{column}" for column in _fitting(begin, words.relations.get(alias, columns))]
    keywords = [each.lower() for each in _KEYWORDS] if word.islower() else _KEYWORDS
    return list(dict.fromkeys(_fitting(word, [*words.relations, *columns, *words.queries, *keywords])))


def _fitting(word: str, names: Mapping[str, object] | Sequence[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(word.lower())]


def home_words(home: Home) -> Words:
    """Read the words of a home; nothing of it needs Spark."""
    found: dict[str, Sequence[str]] = {}
    with home_relations(home) as relations:
        judged = judge("SHOW TABLES", relations.names)
        _, steps = relations.steps(judged)
        for name in sorted(steps):
            found[name] = [column.strip("`") for column in steps[name][-1].columns]
    queries = [info.name for info in list_queries(home.catalog, QueryFilter(limit=_MOST))]
    return Words(found, queries)


def service_words(client: Client) -> Words:
    """Ask a service for the words of its home."""
    found = {
        name: [each.strip("`") for each in relation_steps(name, Needs(), {})[-1].columns] for name in RELATION_NAMES
    }
    rows: dict[str, Any] = {row["channel"]: row for row in client.call("GET", "/v1/channels")["channels"]}
    channels = [name for name, row in rows.items() if row["of"] is None]
    for relation, channel in ChannelNames.of(channels).listed.items():
        own = [part.rsplit(" ", 1)[0] for part in (rows[channel]["schema"] or "").split(", ") if part]
        found[relation] = [*CHANNEL, *own] if not own else [*list(CHANNEL)[:6], *own]
    for template in client.call("GET", "/v1/templates")["templates"]:
        found[f"rt_{template['template']}"] = found[f"rout_{template['template']}"] = ["qid", "case"]
    queries = client.call("GET", "/v1/queries", params={"limit": _MOST})["queries"]
    return Words(dict(sorted(found.items())), [query["name"] for query in queries])
