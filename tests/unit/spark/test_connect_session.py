"""A server of Spark Connect that has gone is told from work that failed."""

from __future__ import annotations

from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from xscl.spark.connect_session import has_gone


def test_which_errors_say_that_a_server_has_gone() -> None:
    gone = (
        'status = StatusCode.UNAVAILABLE details = "failed to connect to all addresses"',
        "[INVALID_HANDLE.SESSION_CHANGED] The handle abc is invalid.",
        "(java.lang.IllegalStateException) Cannot call methods on a stopped SparkContext.",
    )
    assert all(has_gone(SparkConnectGrpcException(text)) for text in gone)
    assert not has_gone(SparkConnectGrpcException("[DIVIDE_BY_ZERO] Division by zero."))
    assert not has_gone(RuntimeError(gone[0]))
