"""The application: all calls of the API and the console, behind the gate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool

from xscl import __version__
from xscl.service.access import OPEN_PATHS, Gate
from xscl.service.api import deliveries as deliveries_api
from xscl.service.api import events as events_api
from xscl.service.api import feeds as feeds_api
from xscl.service.api import health as health_api
from xscl.service.api import home as home_api
from xscl.service.api import items as items_api
from xscl.service.api import listing as listing_api
from xscl.service.api import matches as matches_api
from xscl.service.api import once as once_api
from xscl.service.api import queries as queries_api
from xscl.service.api import sql as sql_api
from xscl.service.api import subscriptions as subscriptions_api
from xscl.service.api.calls import Problem
from xscl.service.api.request_checks import check_request
from xscl.service.console import console
from xscl.service.head_answers import HeadAnswers
from xscl.service.problems import add_handlers
from xscl.service.runtime import Service

__all__ = ["make_app"]

_CALLS = (
    events_api.router,
    queries_api.router,
    once_api.router,
    listing_api.router,
    matches_api.router,
    subscriptions_api.router,
    items_api.router,
    home_api.router,
    sql_api.router,
    deliveries_api.router,
)
"""Calls below ``/v1``."""
_ROUTERS = (
    feeds_api.router,
    health_api.router,
    console.router,
)
_TOKENS = {"type": "http", "scheme": "bearer", "description": "A token of 'xscl token add'."}


def make_app(service: Service, log: Callable[[str], None]) -> FastAPI:
    """Make the application of a service; ``log`` takes the lines of the access log."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        if service.handle is None:
            service.start()
        try:
            yield
        finally:
            await run_in_threadpool(service.stop)

    app = FastAPI(
        title="xscl",
        version=__version__,
        summary="Standing queries that join XML documents, feeds and rows by value inside time windows.",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=running,
        separate_input_output_schemas=False,
    )
    app.state.service = service
    app.state.described_calls = {}
    app.add_middleware(HeadAnswers)
    app.add_middleware(Gate, service=service, log=log)
    add_handlers(app)
    app.router.routes.append(events_api.DocumentRoute())
    for router in _CALLS:
        app.include_router(router, dependencies=[Depends(check_request)])
    for router in _ROUTERS:
        app.include_router(router)
    _complete_description(app)
    return app


def _complete_description(app: FastAPI) -> None:
    """Have the description of the API name tokens, and the schema of problems, which no call returns as its answer."""
    describe = app.openapi

    def described() -> dict[str, object]:
        if app.openapi_schema is None:
            schema = describe()
            parts = schema.setdefault("components", {})
            parts["securitySchemes"] = {"token": _TOKENS}
            schema["security"] = [{"token": []}]
            for path in OPEN_PATHS & schema["paths"].keys():
                schema["paths"][path]["get"]["security"] = []
            schemas = parts.setdefault("schemas", {})
            schemas["Problem"] = Problem.model_json_schema()
            # Requests that do not fit are problems, too.
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
