"""What Spark logs of its errors, while our statements run and after."""

from __future__ import annotations

import logging

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger

from xscl.answers.sql.views import sql_errors
from xscl.base.errors import EngineError

NAME = "SQLQueryContextLogger"


def test_sparks_logger_is_of_its_own_class_and_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(logging.Logger.manager.loggerDict, NAME, raising=False)
    records: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    with pytest.raises(EngineError, match="line 2"), sql_errors(moved_by=1):
        logger = PySparkLogger.getLogger(NAME)
        logger.addHandler(Handler())
        logger.exception("ours", errorClass="X")
        raise AnalysisException("it is wrong at line 3 pos 4")
    assert not records, "what we say ourselves is not logged"
    logger = PySparkLogger.getLogger(NAME)
    assert not logger.filters
    logger.exception("theirs", errorClass="X")  # a plain logger knows no such argument
    assert [record.getMessage() for record in records] == ["theirs"]
