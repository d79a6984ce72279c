"""The console: all its pages."""

from __future__ import annotations

from fastapi import APIRouter

from xscl.service import (
    console_deliveries,
    console_editor,
    console_feeds,
    console_home,
    console_login,
    console_matches,
    console_pages,
    console_queries,
    console_sql,
)

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
