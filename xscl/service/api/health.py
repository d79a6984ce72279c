"""Calls for those who watch the service: whether it lives, whether it works, and its figures."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from xscl.base.errors import XsclError
from xscl.catalog.intake_order import read_last_places
from xscl.service.api.calls import Reader, Running, problems

__all__ = ["router"]

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """State of the service."""

    status: str


_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"model": Health, "description": "Batches are not processed, or not yet, or the catalogue does not answer."}
}


@router.get("/healthz", response_model=Health)
async def healthz() -> Health:
    """Tell that the process answers; needs no token."""
    return Health(status="alive")


@router.get("/readyz", response_model=Health, responses=_NOT_READY)
async def readyz(service: Running) -> JSONResponse:
    """Tell whether batches are processed and the catalogue answers; needs no token."""
    status = "ready"
    if service.is_ending:
        status = "ending"
    elif not service.is_running:
        status = f"batches are not processed: {getattr(service.problem, 'condition', 'XSCL_INTERNAL')}"
    elif not service.is_warm:
        status = "queries are being planned for"
    else:
        try:
            await run_in_threadpool(service.home.catalog.ask, read_last_places)
        except XsclError as error:
            status = error.condition
    return JSONResponse({"status": status}, status_code=200 if status == "ready" else 503)


@router.get("/metrics", response_class=PlainTextResponse, responses=problems())
def metrics(service: Running, holder: Reader) -> PlainTextResponse:
    """Give the figures of the service for Prometheus."""
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
