"""Answers of windows over matches that were found once in held events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xscl.base.docids import place_of
from xscl.base.errors import XsclError
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.types import LAST_TIME, Match, MatchEvent, MatchSource
from xscl.batches.failing_queries import Failing
from xscl.batches.windows.answers import Answer, Frontier, answers
from xscl.batches.windows.documents import answer_documents, window_answer_id
from xscl.batches.windows.families import Member, families
from xscl.batches.windows.groups import Matches
from xscl.batches.windows.rows import Found, in_order, members_of, rows_of
from xscl.batches.windows.values import text_of
from xscl.catalog.channels import read_channels
from xscl.catalog.records import QueryInfo
from xscl.language.aggregates import variable_blocks
from xscl.language.facts import ANSWERS
from xscl.language.outlines.windows import known_definition
from xscl.store.home import Home
from xscl.store.results import StoredMatch, match_id

__all__ = ["of_windows"]

_NEVER = -(1 << 62)


def of_windows(
    home: Home, info: QueryInfo, key: str, part: str, found: Sequence[StoredMatch]
) -> Iterator[Match | XsclError]:
    """Yield the answers of a query with windows, as if nothing came any more, or why one is no document.

    Args:
        home: the home.
        info: the query.
        key: what its group asks for.
        part: text of its part.
        found: matches of its part.
    """
    namespaces = tuple(sorted(info.namespaces.items()))
    definition = known_definition(info.text, namespaces, part)
    if not found:
        return
    with home.catalog.read() as connection:
        channels = read_channels(connection)
    docs = np.array([match.docids for match in found], dtype=np.int64)
    nodes = np.array([match.nodes for match in found], dtype=np.int64)
    whole = Found(docs, nodes, variable_blocks(part, namespaces))
    rows = in_order(rows_of(whole, members_of(home, [whole]), channels))
    last = int(place_of(docs).max())
    settled = Frontier(_NEVER, np.array([last]), np.array([LAST_TIME + 1]))
    (family,) = families([Member(0, definition, (-1,))])
    failing = Failing()
    told = sorted(
        (answer for _, answer in answers(family, Matches(rows), settled, {0: {}}, failing)),
        key=lambda each: (each.ts, each.values.group),
    )
    failing.end()
    documents = in_fresh_dictionary(answer_documents, [(definition, answer) for answer in told])
    seen = set()
    for answer, document in zip(told, documents, strict=True):
        if isinstance(document, XsclError):
            yield document
            continue
        id_ = window_answer_id(key, answer, document)
        if id_ not in seen:
            seen.add(id_)
            values = {name: text_of(answer.values.value(term)) for name, term in definition.columns}
            yield _match(info, id_, answer, values, document)


def _match(info: QueryInfo, id_: str, answer: Answer, values: dict[str, str], document: str) -> Match:
    return Match(
        match_id(info.digest, [(ANSWERS, id_)], (0,)),
        info.name,
        answer.ts,
        (MatchEvent(ANSWERS, id_, answer.ts),),
        {},
        values,
        document,
        source=MatchSource((document,), (0,), False),
    )
