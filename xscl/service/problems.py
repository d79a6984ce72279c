"""Refusals as problems of RFC 9457: the condition, what is wrong and where, and what to do."""

from __future__ import annotations

import traceback
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import compile_path

from xscl.base.errors import CatalogError, DocumentError, EngineError, QueryError, XsclError
from xscl.base.system_errors import FAULTS, PASSES
from xscl.base.terminal import tell
from xscl.catalog.suggestions import suggestion
from xscl.service.head_answers import has_head

__all__ = ["PROBLEM_TYPE", "Refused", "add_handlers", "answer", "problem", "problem_of", "response_of", "status_of"]

PROBLEM_TYPE = "application/problem+json"
_TYPE = "urn:xscl:problem:"
_AGAIN_S = 5
"""Seconds after which a client may try again where a fault is expected to pass."""
_CONFLICTS = frozenset(
    {"XSCL_CHANNEL_USED", "XSCL_DELIVERY_EXISTS", "XSCL_HOME_IN_USE", "XSCL_NAME_TAKEN", "XSCL_NOT_SUSPENDED"}
)
_FORBIDDEN = frozenset({"XSCL_TOO_MANY_QUERIES", "XSCL_QUERY_COST", "XSCL_READ_ONLY", "XSCL_PRIVATE_ADDRESS"})
_WIDTH = 100
"""Characters of a line that is shown with a caret."""
_SHOWN = 300
"""Characters of a path that is repeated."""
_CALLS = "/openapi.json describes all calls, docs/reference/http.md shows each"
_OWN_WORDS = {404: "XSCL_NO_SUCH_CALL", 405: "XSCL_BAD_METHOD"}


class Refused(XsclError):
    """A request that the service refuses before anything is asked of the engine."""

    def __init__(
        self, status: int, condition: str, message: str, *, hint: str | None = None, after_s: float | None = None
    ) -> None:
        super().__init__(condition, message, hint=hint)
        self.status = status
        self.after_s = after_s
        """Seconds after which the client may try again; None: it need not."""


def status_of(error: XsclError) -> int:
    """Return the status of HTTP that an error stands for."""
    match error:
        case Refused(status=status):
            return status
        case _ if error.condition in PASSES:
            return 503
        case _ if error.condition in FAULTS:
            return 500
        case _ if error.condition in _CONFLICTS:
            return 409
        case _ if error.condition in _FORBIDDEN:
            return 403
        case _ if error.condition.endswith("_NOT_FOUND") or error.condition == "XSCL_UNKNOWN_CHANNEL":
            return 404
        case QueryError() | DocumentError() | EngineError(condition="XSCL_SQL" | "XSCL_SQL_SIZE"):
            return 422
        case CatalogError(condition="XSCL_BAD_REQUEST"):
            return 422
    return 400


def problem(status: int, condition: str, detail: str, **more: object) -> dict[str, object]:
    """Make the body of a problem; members without a value are left out."""
    title = condition.removeprefix("XSCL_").replace("_", " ").capitalize()
    told = {"type": _TYPE + condition, "title": title, "status": status, "detail": detail, **more}
    return {name: value for name, value in told.items() if value is not None}


def problem_of(error: XsclError) -> dict[str, object]:
    """Make the body of the problem that an error is; an error about a text has its place, and a caret."""
    placed: dict[str, object] = {}
    if isinstance(error, (QueryError, CatalogError)) and error.has_place:
        placed = {"line": error.line, "column": error.column, "caret": "\n".join(error.caret()) or None}
    return problem(status_of(error), error.condition, error.message, hint=error.hint, **placed)


def answer(body: dict[str, Any], after_s: float | None = None) -> JSONResponse:
    """Make the response of a problem."""
    headers = {} if after_s is None else {"Retry-After": str(max(1, round(after_s)))}
    if body["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, status_code=body["status"], headers=headers, media_type=PROBLEM_TYPE)


def response_of(error: XsclError) -> JSONResponse:
    """Make the response of an error."""
    after_s = error.after_s if isinstance(error, Refused) else _AGAIN_S if error.condition in PASSES else None
    return answer(problem_of(error), after_s)


def add_handlers(app: FastAPI) -> None:
    """Have an application answer errors of every kind with problems."""

    @app.exception_handler(XsclError)
    async def of_ours(request: Request, error: XsclError) -> JSONResponse:
        return response_of(error)

    @app.exception_handler(RequestValidationError)
    async def of_a_request(request: Request, error: RequestValidationError) -> JSONResponse:
        faults = [
            {"at": ".".join(map(str, fault["loc"])), "message": fault["msg"]} for fault in error.errors()[:20]
        ]  # fmt: skip
        first = faults[0]
        if error.errors()[0]["type"] == "json_invalid":
            return answer(_bad_json(error))
        return answer(problem(422, "XSCL_BAD_REQUEST", f"{first['at']}: {first['message']}", errors=faults))

    @app.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, XsclError):
            # The framework says of every error while it reads a body that it could not be read.
            return response_of(error.__cause__)
        if isinstance(error.__cause__, (ValueError, RecursionError)):
            told = f"the body cannot be read: {error.__cause__}"
            return answer(problem(400, "XSCL_BAD_JSON", told, hint="write JSON in UTF-8, with few levels"))
        condition = _OWN_WORDS.get(error.status_code, "XSCL_BAD_REQUEST")
        told, headers = str(error.detail), dict(error.headers or {})
        hint: str | None = None
        path = request.url.path[:_SHOWN]
        if error.status_code == 404:
            told, hint = "there is no such call", suggestion(path, app.openapi()["paths"], _CALLS)
        elif error.status_code == 405:
            allowed = ", ".join(sorted(_methods(app, request)))
            told, hint = f"the call takes no {request.method}", f"it takes {allowed}; {_CALLS}"
            headers["Allow"] = allowed
        response = answer(problem(error.status_code, condition, f"{request.method} {path}: {told}", hint=hint))
        response.headers.update(headers)
        return response

    @app.exception_handler(Exception)
    async def of_others(request: Request, error: Exception) -> JSONResponse:
        tell("".join(traceback.format_exception(error)).rstrip("\n"))
        told = "the service failed; its log has the details"
        return answer(problem(500, "XSCL_INTERNAL", told))


def _bad_json(error: RequestValidationError) -> dict[str, object]:
    """Make the problem of a body that is no JSON, with its place."""
    fault = error.errors()[0]
    text, at = str(error.body), int(fault["loc"][1])
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    shown = text[at - column + 1 :].partition("\n")[0].replace("\t", " ")
    return problem(
        400,
        "XSCL_BAD_JSON",
        f"the body is no JSON: {fault['ctx']['error']}",
        hint="write one object, with its names and texts in double quotes",
        line=line,
        column=column,
        caret=None if column > _WIDTH else f"{shown[:_WIDTH]}\n{' ' * (column - 1)}^",
    )


def _methods(app: FastAPI, request: Request) -> set[str]:
    """Return the methods of the calls at the path of a request; of several descriptions the one with fewest names."""
    schema = app.openapi()["paths"]
    fitting = [path for path in schema if compile_path(path)[0].match(request.url.path)]
    nearest = min(fitting, key=lambda path: path.count("{"), default=None)
    found = {method.upper() for method in schema.get(nearest, ())}
    return found | {"HEAD"} if "GET" in found and has_head(request.url.path) else found
