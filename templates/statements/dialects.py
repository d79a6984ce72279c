"""Statements of templates as texts of Spark SQL, SQLite and DuckDB, a line for every relation and every condition."""

from __future__ import annotations

from sqlalchemy import CompoundSelect, Select
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.compiler import IdentifierPreparer

from xscl.base.docids import place_words
from xscl.templates.statements.dialect import Dialect
from xscl.templates.statements.layout import laid_out

__all__ = ["SparkDialect", "spark_text", "statement_text"]


class _BacktickPreparer(IdentifierPreparer):
    def __init__(self, dialect: DefaultDialect) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`")


class SparkDialect(DefaultDialect):
    """Enough of Spark SQL to print a SELECT."""

    name = "spark"
    supports_native_boolean = True
    preparer: type[IdentifierPreparer] = _BacktickPreparer
    supports_statement_cache = True


class _DuckDbDialect(DefaultDialect):
    """Enough of DuckDB to print a SELECT."""

    name = "duckdb"
    supports_native_boolean = True
    supports_statement_cache = True


_DIALECTS = {Dialect.spark: SparkDialect, Dialect.sqlite: SQLiteDialect, Dialect.duckdb: _DuckDbDialect}

Statement = Select[tuple[object, ...]] | CompoundSelect[tuple[object, ...]]


def spark_text(statement: Statement) -> str:
    """Return the statement as Spark SQL, with its constants written out."""
    return statement_text(statement, Dialect.spark)


def statement_text(statement: Statement, dialect: Dialect) -> str:
    """Return the statement in a dialect, with its constants written out."""
    parts = statement.selects if isinstance(statement, CompoundSelect) else [statement]
    return place_words("\nUNION ALL\n".join(_select_text(part, dialect) for part in parts))


def _select_text(statement: object, dialect: Dialect) -> str:
    assert isinstance(statement, Select)
    text = str(statement.compile(dialect=_DIALECTS[dialect](), compile_kwargs={"literal_binds": True}))
    return laid_out(text)
