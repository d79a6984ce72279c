"""The call that answers a query once from held events: a process of its own does it, in bounded time and memory."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from xscl.answers.matches.window import parse_moment
from xscl.base.errors import EngineError
from xscl.base.own_functions import loaded_modules
from xscl.base.types import now_micros
from xscl.service.api.calls import BODY, Body, Reader, Running, problems
from xscl.service.once_worker import Question
from xscl.service.problems import Refused, answer
from xscl.service.runtime import Service

__all__ = ["router"]

router = APIRouter(prefix="/v1/queries", tags=["queries"])

_LINES = "application/x-ndjson"
_LOOK_S = 0.5
"""Seconds between two looks whether anybody waits."""
_PART = 64 * 1024
_ANSWERS: dict[int | str, dict[str, Any]] = {
    **problems(*BODY, 404, 504),
    200: {"description": "Lines of matches; the last line has notes.", "content": {_LINES: {"schema": {}}}},
}


class Asked(Body):
    """A query to answer once."""

    text: str = Field(min_length=1, max_length=1_000_000, description="XSCL; DECLAREs may precede the query.")
    name: str | None = Field(None, max_length=200, description="Name of its matches, with which their ids are made.")
    since: str | None = Field(
        None, max_length=100, description="Members of this time or later (ISO 8601, NOW-7d); default: as STARTING says."
    )
    limit: Annotated[int | None, Field(ge=0, le=2**62, description="Matches at most.")] = None


@router.post("/run", response_class=Response, responses=_ANSWERS)
async def run(asked: Asked, request: Request, service: Running, holder: Reader) -> Response:
    """Answer a query from all that is held, once: nothing is registered; whoever hangs up ends it."""
    catalog = service.home.catalog.engine.url.render_as_string(hide_password=False)
    question = Question(
        str(service.home.root),
        catalog,
        asked.text,
        asked.name,
        _since(asked.since),
        asked.limit,
        service.settings.run_bytes,
        loaded_modules(),
    )
    # A wrong text needs no process.
    await run_in_threadpool(service.unregistered, asked.text, asked.name)
    async with service.turns.turn(holder.name, service.settings.sql_s):
        lines = await _asked(question, request, service)
    last = json.loads(lines[lines.rindex(b"\n", 0, -1) + 1 if lines.count(b"\n") > 1 else 0 :])
    if "problem" in last:
        return answer(last["problem"])
    return Response(lines, media_type=_LINES)


def _since(text: str | None) -> int | None:
    """Read the time of members.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``.
    """
    try:
        return None if text is None else parse_moment(text, now_micros())
    except ValueError as error:
        raise EngineError("XSCL_BAD_OPTION", f"since: {error}") from None


async def _asked(question: Question, request: Request, service: Service) -> bytes:
    """Have a process answer; return its lines.

    Raises:
        Refused: ``XSCL_RUN_TIME``, ``XSCL_RUN_SIZE``.
    """
    seconds, most = service.settings.sql_s, service.settings.answer_bytes
    # Modules of the folder in which the service was started are none of its own.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "xscl.service.once_worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    reading = asyncio.create_task(_lines(process, question, most))
    try:
        async with asyncio.timeout(seconds):
            while not reading.done():
                await asyncio.wait([reading], timeout=_LOOK_S)
                if await request.is_disconnected():
                    break
        if not reading.done():
            raise Refused(400, "XSCL_BAD_REQUEST", "nobody waits for the answer")
        lines = await reading
    except TimeoutError:
        told = f"the query ran for more than {seconds:g} s"
        raise Refused(504, "XSCL_RUN_TIME", told, hint="ask for a later 'since', or register it") from None
    finally:
        reading.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()
    if len(lines) > most:
        told = f"the answer has more than {most:,} bytes"
        raise Refused(422, "XSCL_RUN_SIZE", told, hint="ask with a limit, or for a later 'since'")
    if process.returncode == 1:
        raise RuntimeError("the process that answers a query once has failed")
    if process.returncode or not lines.endswith(b"\n"):
        told = f"the query takes more than {question.most_bytes:,} bytes of memory, or its process was ended"
        raise Refused(422, "XSCL_RUN_SIZE", told, hint="ask for a later 'since', or register it")
    return lines


async def _lines(process: asyncio.subprocess.Process, question: Question, most: int) -> bytes:
    """Ask a process, and read what it says, no more than a little above a limit."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(question.written())
    process.stdin.close()
    lines = bytearray()
    while len(lines) <= most and (part := await process.stdout.read(_PART)):
        lines += part
    if len(lines) <= most:
        await process.wait()
    return bytes(lines)
