"""The Spark session: the caller's own, or one of ours with settings that fit small batches."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.base.errors import EngineError
from xscl.base.pandas_later import let_pandas_in
from xscl.base.private import private_children
from xscl.base.system_errors import spark_reason
from xscl.base.temporary import let_folder_go, scratch_folder
from xscl.spark.class_archive import find_archive, make_in_background, reading_options, writing_options
from xscl.spark.connect_session import connect_session, has_gone, is_remote, server_has_gone, stop_session
from xscl.spark.java import java_version
from xscl.spark.java_output import java_errors, lacks_memory, memory_error
from xscl.spark.session_options import LOCAL, SessionOptions, refuse_unanswered
from xscl.spark.start_cost import cores, note_start
from xscl.spark.worker_daemon import DAEMON, DAEMON_SETTING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "forget_session",
    "is_stopped",
    "session_has_ended",
    "spark_has_gone",
    "start_session",
]

_scratch: list[Path] = []
"""Folders of the Java that runs, and of none that has ended."""
_ENDING_S = 2.0
"""Seconds that a Java takes to end, after its connections have ended."""

# Spark's messages below errors are not for the users of xscl.
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
"""


def start_session(options: SessionOptions = LOCAL, *, classes_to: Path | None = None) -> SparkSession:
    """Return the active session if there is one, else the one that is wanted, by default on all cores of this machine.

    Args:
        options: where the session runs, and its settings.
        classes_to: a file into which Java writes the classes it has loaded when it ends (``class_archive``).

    Raises:
        EngineError: ``XSCL_NO_SPARK``: no session starts there.  ``XSCL_BAD_OPTION``: this process has another one.
    """
    let_pandas_in()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    # Workers otherwise run the python3 of the PATH, which need not have our packages.
    given = options.conf.get("spark.pyspark.python")
    if given is not None:
        os.environ["PYSPARK_PYTHON"] = given
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if session_has_ended():
        forget_session()
    active = SparkSession.getActiveSession()
    if active is not None:
        _refuse_another(active, options)
        return active
    refuse_unanswered(options)
    if options.remote is not None:
        return connect_session(options)
    _, java = java_version()
    # A folder that nobody else can write to: the JVM reads its logging settings from here.
    scratch = scratch_folder("xscl-spark")
    _scratch.append(scratch)
    if options.on_this_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if classes_to is not None:
        return _classic_session(options, scratch, writing_options(classes_to))
    archive = find_archive(java)
    if archive is None:
        return _sure_session(options, scratch)
    made = archive.use()
    if made is not None:
        try:
            return _classic_session(options, scratch, reading_options(made))
        except PySparkRuntimeError:
            # Java trusts what an archive says.  If that is why it did not start, the archive must go.
            made.unlink(missing_ok=True)
    session = _sure_session(options, scratch)
    if archive.is_wanted():
        atexit.register(make_in_background, archive)
    return session


def _sure_session(options: SessionOptions, scratch: Path) -> SparkSession:
    """Start a classic session without an archive; a Java that ends at once is named."""
    from pyspark.errors import PySparkRuntimeError

    try:
        return _classic_session(options, scratch, [])
    except PySparkRuntimeError as error:
        raise EngineError(
            "XSCL_NO_SPARK",
            f"no session of Spark starts on {options.where}: {spark_reason(str(error))}",
            hint="look at what Java says above, and at the settings of Spark that were given",
        ) from error


def _refuse_another(active: SparkSession, options: SessionOptions) -> None:
    """Refuse a place other than that of the session that a process has: Spark would take no notice of the wish."""
    if options.remote is not None:
        fits = is_remote(active)
    else:
        fits = options.master is None or not is_remote(active) and active.sparkContext.master == options.master
    if not fits:
        raise EngineError(
            "XSCL_BAD_OPTION",
            f"this process has a session of Spark elsewhere than {options.where}",
            hint="stop that session first, or give it as spark=…",
        )


def _settings(options: SessionOptions, scratch: Path, java_options: list[str]) -> dict[str, str]:
    """Return the settings of our session; a cluster's own settings stand where ours are for one machine."""
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOG4J, encoding="utf-8")
    settings = {
        "spark.app.name": "xscl",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Hadoop gives files its own modes, whatever the process has.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # A Java that is killed leaves its own temporary folders behind.
        "spark.local.dir": str(scratch),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Files are listed here, never by a job of their own.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
        "spark.sql.runSQLOnFiles": "false",
        # The first compiler alone starts faster and compiles small plans sooner; its share of the code cache would
        # run full after some fifty batches.
        "spark.driver.extraJavaOptions": " ".join(
            [
                "-XX:TieredStopAtLevel=1",
                "-XX:ReservedCodeCacheSize=256m",
                # A Java that lacks memory in one thread goes on without it, or stops Spark and stays.
                "-XX:+ExitOnOutOfMemoryError",
                "-XX:+DisplayVMOutputToStderr",
                f"-Dlog4j2.configurationFile={logging.as_uri()}",
                *java_options,
            ]
        ),
    }
    if options.on_this_machine:
        settings |= {
            DAEMON_SETTING: DAEMON,
            # Batches are small: one shuffle partition a core, and plans that do not change under way.
            "spark.sql.shuffle.partitions": str(max(2, cores())),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.files.maxPartitionBytes": "8m",
            "spark.sql.files.openCostInBytes": "512k",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
    return {**settings, **options.conf}


def _classic_session(options: SessionOptions, scratch: Path, java_options: list[str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(options.master or f"local[{cores()}]")
    for key, value in _settings(options, scratch, java_options).items():
        builder = builder.config(key, value)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        # Python's workers inherit it from Java.
        with java_errors() as said, private_children():
            session: SparkSession = builder.getOrCreate()
    except PySparkRuntimeError:
        if lacks_memory(text := "".join(said)):
            raise memory_error(text) from None
        raise
    except Py4JError as error:
        raise EngineError(
            "XSCL_NO_SPARK",
            f"no session of Spark starts on {options.where}: {spark_reason(str(error))}",
            hint="'xscl doctor --master …' looks at the cluster; -v shows the whole trace",
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # Spark has put in its own
    process = _java_process()
    if process is not None:
        note_start(process.pid)
    return session


def session_has_ended(session: SparkSession | None = None) -> bool:
    """Return whether the Java that this process started for its sessions has ended, or a server no longer knows one.

    Args:
        session: a session of ours; one of Spark Connect is asked.
    """
    if session is not None and is_remote(session):
        return server_has_gone(session)
    process = _java_process()
    return process is not None and process.poll() is not None


def is_stopped(session: SparkSession) -> bool:
    """Return whether somebody has stopped the context of a session, which is then of no use."""
    return not is_remote(session) and getattr(session.sparkContext, "_jsc", None) is None


def spark_has_gone(error: BaseException) -> bool:
    """Return whether something failed because Spark is gone."""
    process = _java_process()
    if process is not None and _is_cut_off(error):
        # Its connections end a moment before it does.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
    return session_has_ended() or has_gone(error)


def _is_cut_off(error: BaseException) -> bool:
    """Return whether an error says that a connection to Java ended."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    if isinstance(error, (Py4JNetworkError, OSError, EOFError)):
        return True
    # py4j raises the plain class where a connection ends during a call, and where Java answers with a trace.
    return type(error) is Py4JError and "Trace:" not in str(error)


def _java_process() -> subprocess.Popen[bytes] | None:
    """Return the Java that this process started for its sessions."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def forget_session(session: SparkSession | None = None) -> None:
    """Have the next session start anew where the last one has ended: pyspark keeps the one that it started first."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if session is not None and is_remote(session):
        stop_session(session)
        return
    # Java had no time to remove the files of its shuffles.
    while _scratch:
        let_folder_go(_scratch.pop())
    gateway = SparkContext._gateway
    if gateway is not None:
        with suppress(Exception):  # nobody is there any more
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
