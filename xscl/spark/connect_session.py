"""Sessions with a server of Spark Connect: how one starts, that requests end in time, and how one is given back."""

from __future__ import annotations

import re
import weakref
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from xscl.base.errors import EngineError
from xscl.base.system_errors import spark_reason
from xscl.spark.session_options import SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["connect_session", "has_gone", "is_remote", "own_session", "server_has_gone", "stop_session"]

_TRIES, _LONGEST_PAUSE_MS = 5, 8_000
"""Further tries of a request that nobody answers, within some fifteen seconds; pyspark itself tries for ten minutes."""
_GONE = re.compile(
    r"INVALID_HANDLE\.SESSION_\w+|SESSION_CLOSED|StatusCode\.UNAVAILABLE|failed to connect to all addr"
    r"|stopped SparkContext"
)
"""Words of an error where a server does not answer, or no longer knows a session."""
_FILES = {"spark.submit.pyFiles": "pyfile", "spark.archives": "archive", "spark.files": "file"}
"""Settings that name files for executors, and what a session of Spark Connect calls such a file."""
_OTHER_NAMES = {"spark.pyspark.python": "spark.sql.execution.pyspark.python"}
"""Settings that have another name in a session of Spark Connect."""
_SENT: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()
"""Settings of our sessions."""
_LEFT: deque[Any] = deque()
"""Clients whose sessions nobody holds; a collector of garbage must not send requests itself."""


def is_remote(session: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def connect_session(options: SessionOptions) -> SparkSession:
    """Start a session with the server that the options name.

    Raises:
        EngineError: ``XSCL_NO_SPARK``.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    assert options.remote is not None
    session: SparkSession | None = None
    try:
        session = SparkSession.builder.remote(options.remote).getOrCreate()
        _bounded(session)
        _set(session, options.conf)
        session.conf.get("spark.app.name", "xscl")  # a request, if there was none
    except ImportError as error:
        raise EngineError(
            "XSCL_NO_SPARK",
            f"Spark Connect lacks packages here: {spark_reason(str(error))}",
            hint="pip install 'xscl[connect]'",
        ) from None
    except PySparkException as error:
        if session is not None:
            stop_session(session)
        raise EngineError(
            "XSCL_NO_SPARK",
            f"no session starts with {options.where}: {_reason(error)}",
            hint="the server's version of Spark must be that of pyspark here; an address with a token or use_ssl needs "
            "a server with TLS",
        ) from error
    return session


def _reason(error: Exception) -> str:
    """Return what an error of gRPC tells, or else its first line."""
    found = re.search(r'details = "(.*)"', str(error))
    return found[1] if found else spark_reason(str(error))


def own_session(spark: SparkSession) -> SparkSession:
    """Return a new session of the same application, with views and settings of its own.

    A server of Spark Connect keeps it until its frames are gone here.
    """
    session = spark.newSession()
    if is_remote(spark):
        while _LEFT:
            _let_go(_LEFT.popleft())
        _bounded(session)
        weakref.finalize(session, _LEFT.append, session.client).atexit = False
        _set(session, _SENT.get(spark, {}))
    return session


def server_has_gone(session: SparkSession) -> bool:
    """Return whether a server does not answer a session of ours, or no longer knows it."""
    from pyspark.errors import PySparkException

    try:
        return bool(session.is_stopped) or not session.conf.get("spark.app.name", "xscl")  # type: ignore[attr-defined]
    except PySparkException:
        return True


def has_gone(error: BaseException) -> bool:
    """Return whether an error of Spark Connect says that the server does not answer, or no longer knows the session."""
    return type(error).__module__.endswith("connect") and _GONE.search(str(error)) is not None


def stop_session(session: SparkSession) -> None:
    """Forget a session whose server has gone, so that the next one is a new one."""
    session.release_session_on_close = False  # type: ignore[attr-defined]
    session.stop()


def _bounded(session: SparkSession) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE_MS)])


def _set(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Set what a server lets sessions set, and send the packages and archives along that settings name."""
    _SENT[session] = conf
    for key, value in conf.items():
        if key in _FILES:
            session.addArtifacts(*filter(None, value.split(",")), **{_FILES[key]: True})
        else:
            session.conf.set(_OTHER_NAMES.get(key, key), value)


def _let_go(client: Any) -> None:
    from pyspark.errors import PySparkException

    try:
        client.release_session()
    except PySparkException:
        pass  # the server has gone, and with it the session
    finally:
        client.close()
