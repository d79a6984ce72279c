"""Parts that all calls share: the service, the scopes, and the problems that their descriptions name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from xscl.catalog.tokens import Token
from xscl.service.access import needs
from xscl.service.problems import PROBLEM_TYPE
from xscl.service.runtime import Service

__all__ = ["BODY", "Admin", "Body", "Limit", "Name", "Problem", "Reader", "Running", "Writer", "problems"]


async def _service(request: Request) -> Service:
    # A function that is not async would take a thread for each request.
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


Running = Annotated[Service, Depends(_service)]
"""The service that answers."""
Reader = Annotated[Token, Depends(needs("read"))]
Writer = Annotated[Token, Depends(needs("write"))]
Admin = Annotated[Token, Depends(needs("admin"))]

Name = Annotated[str, Path(max_length=200, description="A name.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Entries of the page at most.")]


class Body(BaseModel):
    """Body of a request: members have the types that are described, and no others are there."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Problem(BaseModel):
    """A refusal (RFC 9457)."""

    type: str = Field(description="Ends in the condition, such as urn:xscl:problem:XSCL_SYNTAX.")
    title: str
    status: int
    detail: str = Field(description="Says what is wrong, and where.")
    hint: str | None = Field(None, description="Says what to do.")
    line: int | None = Field(None, description="Line of the text, from 1.")
    column: int | None = Field(None, description="Column of the line, from 1.")
    caret: str | None = Field(None, description="The line of the text, and a caret under the place.")


BODY = (400, 413, 415)
"""Statuses of refusals of calls that have a body."""
_ALWAYS = (401, 403, 422, 429, 503)
_TOLD = {
    400: "An option is not understood.",
    401: "The token is missing, unknown or revoked.",
    403: "The token has another scope, or a quota is used up.",
    404: "There is nothing of that name.",
    409: "The name is taken, or something is in use.",
    413: "The body is too large.",
    415: "The media type is not one that the call takes.",
    422: "The content cannot be taken.",
    429: "Too many requests; Retry-After says when to go on.",
    503: "The service cannot do it now; Retry-After says when to try again.",
    504: "It took too long.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the refusals of a call, those of all calls among them."""
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _TOLD[status], "content": content} for status in sorted({*statuses, *_ALWAYS})}
