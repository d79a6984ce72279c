"""The engine on a home, and connecting to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from xscl.base.errors import EngineError
from xscl.base.own_functions import OwnFunction, load_functions
from xscl.base.settings import DEFAULT_SETTINGS, Settings
from xscl.engine.answering import Answering
from xscl.engine.ingesting import Ingesting
from xscl.engine.registering import Registering
from xscl.engine.running import Running
from xscl.spark.session_options import SessionOptions
from xscl.store.home import init_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Engine", "connect"]


def connect(
    catalog: str | None = None,
    *,
    home: str | Path = "xscl-home",
    spark: SparkSession | None = None,
    master: str | None = None,
    remote: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    functions: Iterable[OwnFunction] = (),
) -> Engine:
    """Open a home, creating it if need be.

    Without ``spark`` a session is started when it is first needed, by default on this machine.

    Args:
        catalog: SQLAlchemy URL of the catalogue; by default a SQLite file in the home.
        home: folder of the home.
        spark: an existing session, classic or of Spark Connect.
        master: Spark's master for a session of ours, such as ``spark://host:7077`` or ``local-cluster[2,1,1024]``.
        remote: a server of Spark Connect for a session of ours, such as ``sc://host:15002``.
        spark_conf: settings of Spark for a session of ours.
        settings: where work is done; no setting changes an answer.
        functions: functions of one's own that queries call, made by ``xscl.function``.  This process knows them from
            now on.

    Raises:
        CatalogError: ``XSCL_NO_CATALOG``: ``catalog`` is no address, such as a folder; ``XSCL_NO_HOME``.
        EngineError: ``XSCL_BAD_OPTION``: there are two of ``spark``, ``master`` and ``remote``, or one is no address;
            ``XSCL_BAD_FUNCTION``: something in ``functions`` is none, or another one has its name and version.
    """
    load_functions(functions)
    if spark is not None and (master is not None or remote is not None or spark_conf):
        raise EngineError("XSCL_BAD_OPTION", "spark is a session, so master, remote and spark_conf have no meaning")
    options = SessionOptions(master, remote, MappingProxyType(dict(spark_conf or {})))
    # Whoever gives the path of a folder for an address is told so.
    return Engine(init_home(home, None if catalog is None else str(catalog)), spark, settings, options)


class Engine(Registering, Ingesting, Running, Answering):
    """Registers queries, takes in events, runs batches and lists matches of one home.

    Each base has the calls of one subject, and all of them work on the same open home.
    """
