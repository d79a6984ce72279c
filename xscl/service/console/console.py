"""The console: all its pages."""

from __future__ import annotations

from fastapi import APIRouter

from xscl.service.console import deliveries as console_deliveries
from xscl.service.console import editor as console_editor
from xscl.service.console import feeds as console_feeds
from xscl.service.console import home as console_home
from xscl.service.console import login as console_login
from xscl.service.console import matches as console_matches
from xscl.service.console import pages as console_pages
from xscl.service.console import queries as console_queries
from xscl.service.console import sql as console_sql

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
for _part in (
    console_pages,
    console_login,
    console_home,
    console_feeds,
    console_deliveries,
    console_matches,
    console_queries,
    console_editor,
    console_sql,
):
    router.include_router(_part.router)
