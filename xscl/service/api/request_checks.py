"""Checks of requests against the description of their call: parameters that it knows, and types of its body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from xscl.catalog.suggestions import suggestion
from xscl.service.problems import Refused

__all__ = ["check_request", "check_type", "media_type"]

_JSON = "application/json"
_SHOWN = 200
"""Characters of a name that are repeated."""


@dataclass(frozen=True, slots=True)
class _Described:
    """Parameters of a call, and whether its body is JSON."""

    once: frozenset[str]
    """Parameters that have one value."""
    often: frozenset[str]
    """Parameters that may be repeated."""
    is_json: bool


async def check_request(request: Request) -> None:
    """Refuse a request with parameters that its call does not know, or a body of JSON under another type.

    Raises:
        Refused: ``XSCL_UNKNOWN_PARAMETER``, ``XSCL_MEDIA_TYPE``.
    """
    if not request.scope["query_string"] and request.method in ("GET", "DELETE"):
        return
    call = _described(request)
    if request.scope["query_string"]:
        _check_parameters(request, call)
    if call.is_json and (request.headers.get("content-length") != "0" or "content-type" in request.headers):
        check_type(request, (_JSON,), suffix="+json")


def check_type(request: Request, types: tuple[str, ...], *, suffix: str = "") -> None:
    """Refuse a body whose type is none of some types, and does not end in ``suffix``.

    Raises:
        Refused: ``XSCL_MEDIA_TYPE``.
    """
    kind = media_type(request.headers)
    if kind in types or suffix and kind.endswith(suffix):
        return
    named = types[0] if len(types) == 1 else f"{', '.join(types[:-1])} or {types[-1]}"
    raise Refused(
        415,
        "XSCL_MEDIA_TYPE",
        f"the body is {kind}, which this call does not take" if kind else "the request does not say what its body is",
        hint=f"send the header Content-Type: {named}",
    )


def media_type(headers: Mapping[str, str]) -> str:
    """Return the media type of a body; empty where none is told."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_parameters(request: Request, call: _Described) -> None:
    counts = Counter(name for name, _ in request.query_params.multi_items())
    known = sorted(call.once | call.often)
    takes = f"the call takes {', '.join(known)}" if known else "the call takes none"
    for name, count in counts.items():
        if name not in known:
            told = f"the call has no parameter {name[:_SHOWN]!r}"
            raise Refused(422, "XSCL_UNKNOWN_PARAMETER", told, hint=suggestion(name[:_SHOWN], known, takes))
        if count > 1 and name in call.once:
            told = f"the parameter {name!r} is given {count} times"
            raise Refused(422, "XSCL_UNKNOWN_PARAMETER", told, hint="give it once")


def _described(request: Request) -> _Described:
    """Return the description of the call that answers a request; each is read once."""
    calls: dict[tuple[str, str], _Described] = request.app.state.described_calls
    key = (request.scope["route"].path_format, request.method)
    if (found := calls.get(key)) is None:
        told = request.app.openapi()["paths"][key[0]][key[1].lower()]
        parameters = [each for each in told.get("parameters", ()) if each["in"] == "query"]
        often = frozenset(each["name"] for each in parameters if _is_list(each["schema"]))
        once = frozenset(each["name"] for each in parameters) - often
        types = set(told.get("requestBody", {}).get("content", ()))
        found = calls[key] = _Described(once, often, types == {_JSON})
    return found


def _is_list(schema: Mapping[str, Any]) -> bool:
    """Tell whether a parameter has several values."""
    kinds = [schema, *schema.get("anyOf", ())]
    return any(kind.get("type") == "array" for kind in kinds)
