"""The call that reads the home's relations with SQL."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from xscl.answers.sql.sizes import check_sizes
from xscl.answers.sql.views import sql_errors
from xscl.base.errors import EngineError
from xscl.catalog.tokens import Token
from xscl.service.api.calls import BODY, Body, Reader, Running, problems
from xscl.service.problems import Refused
from xscl.service.runtime import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MOST_BYTES", "Rows", "Statement", "answer", "router"]

router = APIRouter(prefix="/v1", tags=["sql"])

MOST_BYTES = 64 * 1024 * 1024
"""Bytes of an answer at most, as Arrow has them."""
_AGAIN_S = 0.5
"""Time between two looks at whoever waits, and two interruptions of jobs."""


class Statement(Body):
    """A statement that reads."""

    sql: str = Field(min_length=1, max_length=100_000)
    limit: int = Field(1_000, ge=1, le=10_000, description="Rows of the answer at most.")


class Column(BaseModel):
    """A column of an answer."""

    name: str
    type: str = Field(description="Type of Spark SQL.")


class Rows(BaseModel):
    """Answer to a statement."""

    columns: list[Column]
    rows: list[list[Any]] = Field(description="Values by column; times as ISO 8601, decimals and binary as texts.")
    more: bool = Field(description="Whether the limit has cut rows off.")


@router.post("/sql", response_model=Rows, responses=problems(*BODY, 504))
async def sql(statement: Statement, request: Request, service: Running, holder: Reader) -> Rows:
    """Read the home's relations with one statement of Spark SQL; whoever hangs up cancels it."""
    return await answer(statement, request, service, holder)


async def answer(statement: Statement, request: Request, service: Service, holder: Token) -> Rows:
    """Answer a statement in its turn, unless whoever asks hangs up.

    Raises:
        Refused: ``XSCL_BUSY``, ``XSCL_SQL_TIME``.
        EngineError: ``XSCL_SQL``, ``XSCL_SQL_SIZE``, ``XSCL_SPARK_GONE``.
    """
    gone = threading.Event()
    watching = asyncio.create_task(_watch(request, gone))
    try:
        async with service.turns.turn(holder.name, service.settings.sql_s):
            return await run_in_threadpool(_answer, statement, service, gone)
    finally:
        watching.cancel()


async def _watch(request: Request, gone: threading.Event) -> None:
    """Note that whoever asked has hung up."""
    while not await request.is_disconnected():
        await asyncio.sleep(_AGAIN_S)
    gone.set()


def _answer(statement: Statement, service: Service, gone: threading.Event) -> Rows:
    limit = min(statement.limit, service.settings.sql_rows)
    check_sizes(statement.sql)
    frame = service.engine.sql(statement.sql)
    with _interrupted(frame.sparkSession, service.settings.sql_s, gone), sql_errors():
        found = frame.limit(limit + 1).toArrow()
    if found.nbytes > MOST_BYTES:
        told = f"the first {len(found):,} rows of the answer have {found.nbytes:,} bytes, at most {MOST_BYTES:,}"
        raise EngineError("XSCL_SQL_SIZE", told, hint="ask for fewer rows (LIMIT), or for fewer columns")
    columns = [Column(name=field.name, type=field.dataType.simpleString()) for field in frame.schema.fields]
    # By position: two columns may have one name.
    values = [column.to_pylist() for column in found.slice(0, limit).columns]
    rows = [[_plain(value) for value in row] for row in zip(*values, strict=True)]
    return Rows(columns=columns, rows=rows, more=len(found) > limit)


@contextmanager
def _interrupted(spark: SparkSession, seconds: float, gone: threading.Event) -> Iterator[None]:
    """Interrupt the jobs of a session, which has one statement, when they run longer, or when nobody waits for them.

    Raises:
        Refused: ``XSCL_SQL_TIME``.
    """
    done, late = threading.Event(), threading.Event()

    def watch() -> None:
        until = time.monotonic() + seconds
        # Jobs that have not begun yet cannot be interrupted, so the call is made again.
        while not done.wait(_AGAIN_S):
            if gone.is_set() or time.monotonic() > until:
                late.set()
                # Java may have ended.
                with suppress(Exception):
                    spark.interruptAll()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        if not late.is_set():
            raise
        raise Refused(504, "XSCL_SQL_TIME", f"the statement ran for more than {seconds:g} s") from None
    finally:
        done.set()


def _plain(value: object) -> Any:
    """Return a value as JSON has it."""
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case str():
            return value
        case Sequence():
            return [_plain(each) for each in value]
    return value
