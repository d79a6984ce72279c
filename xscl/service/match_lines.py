"""Lines of matches with the documents of their members, as the command line reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from xscl.answers.matches.listing import match_json
from xscl.base.types import Match, MatchSource

__all__ = ["match_lines"]


def match_lines(found: Iterable[Match]) -> Iterator[str]:
    """Yield a line for each match."""
    for match in found:
        source = match.source
        told = None if source is None else _told(source)
        line = {**match_json(match, cursor=True), "ts_us": match.ts, "source": told}
        if source is None and match.retracted is not None:
            line["events"] = [{"channel": event.channel, "id": event.id} for event in match.events]
        line["times_us"] = [event.ts for event in match.events]
        yield json.dumps(line, ensure_ascii=False) + "\n"


def _told(source: MatchSource) -> dict[str, object]:
    return {"documents": source.documents, "results": source.results, "selected": source.selected}
