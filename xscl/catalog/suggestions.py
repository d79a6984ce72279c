"""Names that a person may have meant: the one place where a misspelt name is answered by the nearest known one."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.ways import way
from xscl.catalog.prepared import prepared
from xscl.catalog.steps import groups_by_steps, is_step
from xscl.catalog.tables import CHANNELS, FEEDS, NEVER, QUERIES, STREAMS, TEMPLATES

__all__ = [
    "channel_names",
    "find_template",
    "how_created",
    "nearest",
    "no_channel",
    "no_feed",
    "no_query",
    "no_template",
    "suggestion",
    "unknown_notes",
]

_ALIKE = 0.6
"""The least likeness of two names, as ``difflib`` has it: 1 is equal."""
_LISTED = "'xscl channel list' and the relation channels have those there are"
_MOST = 2_000
"""Names that are compared, of each way to look for them."""
_SHOWN = 5
"""Templates that are named where several have the beginning of an id."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like another one, in whatever case; None if none is alike.

    >>> nearest("titel", ["author", "title"]), nearest("Title", ["title"]), nearest("x", ["title"])
    ('title', 'title', None)
    """
    from difflib import get_close_matches  # rarely needed

    folded: dict[str, str] = {}
    for each in known:
        if each != name:
            folded.setdefault(each.casefold(), each)
    found = get_close_matches(name.casefold(), folded, 1, _ALIKE)
    return folded[found[0]] if found else None


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for an unknown name: the nearest known one, and what else to do.

    >>> suggestion("itmes", ["items"], "list them")
    "did you mean 'items'? list them"
    """
    found = nearest(name, known)
    return otherwise if found is None else f"did you mean {found!r}? {otherwise}"


def channel_names(connection: Connection) -> list[str]:
    """Return the names of channels and streams, and of channels that live queries publish to, without order."""
    return list(connection.scalars(*_channel_names()))


@prepared
def _channel_names() -> sa.CompoundSelect[Any]:
    published = sa.select(QUERIES.c.publish).where(QUERIES.c.publish.is_not(None), QUERIES.c.docid_until == NEVER)
    return sa.union(sa.select(CHANNELS.c.name), sa.select(STREAMS.c.name), published).limit(_MOST)


def how_created(channel: str, *, strict: bool = False) -> str:
    """Tell how a channel is made, by command and by call; ``strict``: or how to do without."""
    made = way(f"xscl channel add {channel}", f"engine.add_channel({channel!r})")
    return f"create it with {made}" + (f", or leave out {way('--strict', 'strict=True')}" if strict else "")


def no_channel(connection: Connection, name: str, otherwise: str = _LISTED) -> CatalogError:
    """Return the refusal of a channel's or stream's name that nothing has; ``otherwise`` says what else to do."""
    hint = suggestion(name, channel_names(connection), otherwise)
    return CatalogError("XSCL_UNKNOWN_CHANNEL", f"there is no channel {name!r}", hint=hint)


def no_query(connection: Connection, name: str, *, dropped: bool = False, suggests: bool = True) -> CatalogError:
    """Return the refusal of a query's name that no query has.

    Args:
        connection: to the catalogue.
        name: the name.
        dropped: whether dropped queries are asked for, too.
        suggests: whether a name that is alike is looked for, which takes milliseconds.
    """
    listed = f"list them with {way('xscl query list', 'engine.queries()')}"
    if not suggests:
        return CatalogError("XSCL_QUERY_NOT_FOUND", f"there is no query {name!r}", hint=listed)
    wanted = sa.true() if dropped else QUERIES.c.docid_until == NEVER
    names = sa.select(QUERIES.c.qid).where(wanted)
    # Of a million names the ones that begin alike stand beside it in the index.
    ways = (
        names.order_by(QUERIES.c.qid).limit(_MOST),
        names.where(QUERIES.c.qid > name).order_by(QUERIES.c.qid).limit(_MOST),
        names.where(QUERIES.c.qid < name).order_by(QUERIES.c.qid.desc()).limit(_MOST),
    )
    known = itertools.chain.from_iterable(connection.scalars(way) for way in ways)
    hint = suggestion(name, known, listed)
    return CatalogError("XSCL_QUERY_NOT_FOUND", f"there is no query {name!r}", hint=hint)


def find_template(connection: Connection, name: str) -> str | None:
    """Return the id of a template or step that is a name, or the only one that begins with it; None where no id does.

    Raises:
        CatalogError: ``XSCL_TEMPLATE_NOT_FOUND``: several ids begin so.
    """
    if is_step(name):
        return _only(connection, name, _begun(name, groups_by_steps(connection, -1, NEVER - 1)))
    ids = sa.select(TEMPLATES.c.template)
    if not name or connection.scalar(ids.where(TEMPLATES.c.template == name)) is not None:
        return name or None
    begins = ids.where(TEMPLATES.c.template.startswith(name, autoescape=True))
    return _only(connection, name, connection.scalars(begins.order_by(TEMPLATES.c.template).limit(_SHOWN)).all())


def _begun(name: str, known: Collection[str]) -> list[str]:
    return [name] if name in known else sorted(each for each in known if each.startswith(name))


def _only(connection: Connection, name: str, found: Sequence[str]) -> str | None:
    if len(found) > 1:
        raise no_template(connection, name, found[:_SHOWN])
    return found[0] if found else None


def no_template(connection: Connection, name: str, begins: Sequence[str] = ()) -> CatalogError:
    """Return the refusal of a template's id that none has; or that is the beginning of several, which are given."""
    listed = "'xscl template list' and the relation templates have them"
    if begins:
        told = f"several templates begin with {name!r}: {', '.join(begins)}"
        return CatalogError("XSCL_TEMPLATE_NOT_FOUND", told, hint=listed)
    known = connection.scalars(sa.select(TEMPLATES.c.template).limit(_MOST))
    hint = suggestion(name, known, listed)
    return CatalogError("XSCL_TEMPLATE_NOT_FOUND", f"there is no template {name!r}", hint=hint)


def no_feed(connection: Connection, url: str) -> CatalogError:
    """Return the refusal of an address that is not subscribed."""
    subscribed = sa.select(FEEDS.c.url).where(FEEDS.c.url.is_not(None), FEEDS.c.status.is_not(None)).limit(_MOST)
    hint = suggestion(url, connection.scalars(subscribed), "'xscl feed list' and the relation feeds have what is")
    return CatalogError("XSCL_FEED_NOT_FOUND", f"{url} is not subscribed", hint=hint)


def unknown_notes(connection: Connection, channel: str | None, template: str | None) -> list[str]:
    """Return notes on names that a listing is filtered by and that nothing has."""
    found = []
    if channel is not None and channel not in (known := channel_names(connection)):
        meant = nearest(channel, known)
        found.append(f"there is no channel {channel!r}" + ("" if meant is None else f"; did you mean {meant!r}?"))
    if template is not None and find_template(connection, template) is None:
        meant = nearest(template, connection.scalars(sa.select(TEMPLATES.c.template).limit(_MOST)))
        found.append(f"there is no template {template!r}" + ("" if meant is None else f"; did you mean {meant!r}?"))
    return found
