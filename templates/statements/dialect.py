"""Dialects of SQL in which statements are printed, by the names that options have for them."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Dialect"]


class Dialect(StrEnum):
    """Dialects of SQL in which statements are printed."""

    spark = "spark"
    sqlite = "sqlite"
    duckdb = "duckdb"
