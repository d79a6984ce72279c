"""Options of the session that a process starts: on this machine, on a cluster, or with a server of Spark Connect."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from xscl.base.errors import EngineError
from xscl.base.shown import masked

__all__ = ["LOCAL", "MASTER_VARIABLE", "REMOTE_VARIABLE", "SessionOptions", "parse_conf", "refuse_unanswered"]

MASTER_VARIABLE = "XSCL_MASTER"
"""Environment variable of the command line: a master, where no option names one."""
REMOTE_VARIABLE = "XSCL_REMOTE"
"""Environment variable of the command line: a server of Spark Connect, where no option names one."""
_CONNECT_PORT = 15002
"""Port of Spark Connect where the address has none."""
_ANSWER_S = 10.0
"""Seconds in which a host takes a connection."""
_MASTERS = ("local", "spark://", "yarn", "k8s://")
_PLACE = re.compile(r"(\[[^\]]+\]|[^:/;,\s]+)(?::(\d{1,5}))?")
"""A host, in brackets where it is an address of IPv6, and a port."""
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that send gRPC another way than straight to its host."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The session that a process starts when it needs one."""

    master: str | None = None
    """Spark's master, such as ``spark://host:7077``; None: this machine, on all cores."""
    remote: str | None = None
    """Address of a server of Spark Connect, such as ``sc://host:15002``."""
    conf: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Settings of Spark, which go before ours."""

    def __post_init__(self) -> None:
        if self.master is not None and self.remote is not None:
            raise EngineError(
                "XSCL_BAD_OPTION",
                "a session has a master or a remote server, and both are given",
                hint="give one of them",
            )
        if self.remote is not None and not self.remote.startswith("sc://"):
            raise EngineError(
                "XSCL_BAD_OPTION",
                f"remote is {masked(self.remote)!r}, and no address of Spark Connect",
                hint="it looks like sc://host:15002",
            )
        if self.master is not None and not self.master.startswith(_MASTERS):
            raise EngineError(
                "XSCL_BAD_OPTION",
                f"master is {masked(self.master)!r}, and no master of Spark",
                hint="it looks like spark://host:7077, local[4], local-cluster[2,1,1024], yarn or k8s://…; "
                "sc://… is a remote server",
            )

    def with_conf(self, conf: Mapping[str, str]) -> SessionOptions:
        """Return the options with more settings, which go behind those that are given."""
        return replace(self, conf=MappingProxyType({**conf, **self.conf}))

    @property
    def on_this_machine(self) -> bool:
        """Whether all processes of the session run here."""
        return self.remote is None and (self.master is None or self.master.startswith("local"))

    @property
    def where(self) -> str:
        """Place of the session, for messages."""
        return masked(self.remote or self.master or "this machine")


LOCAL = SessionOptions()


def parse_conf(texts: Iterable[str]) -> dict[str, str]:
    """Parse settings of Spark, each ``KEY=VALUE``.

    Raises:
        ValueError: a text is none.

    >>> parse_conf(["spark.executor.memory=2g", "spark.archives=a.tar.gz#b"])
    {'spark.executor.memory': '2g', 'spark.archives': 'a.tar.gz#b'}
    """
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.startswith("spark."):
            raise ValueError(f"{masked(text)!r} is no setting; write it as spark.executor.memory=2g")
        found[key] = value
    return found


def refuse_unanswered(options: SessionOptions) -> None:
    """Refuse an address at which nobody takes a connection: Spark itself would try for minutes.

    Raises:
        EngineError: ``XSCL_NO_SPARK``.
    """
    if options.remote is not None and not any(os.environ.get(name) for name in _PROXIES):
        places = _places(options.remote.removeprefix("sc://").partition("/")[0].partition(";")[0], _CONNECT_PORT)
        what, hint = "server of Spark Connect", "start one there (sbin/start-connect-server.sh), or correct --remote"
    elif options.master is not None and options.master.startswith("spark://"):
        places = _places(options.master.removeprefix("spark://"), 7077)
        what, hint = "master of Spark", "start one there (sbin/start-master.sh), or correct --master"
    else:
        return
    failures = []
    for host, port in places:
        try:
            socket.create_connection((host, port), timeout=_ANSWER_S).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
    raise EngineError("XSCL_NO_SPARK", f"no {what} answers at {', '.join(failures) or options.where}", hint=hint)


def _places(text: str, port: int) -> list[tuple[str, int]]:
    """Return hosts and ports of an address; the standalone master may have several, with commas between them."""
    found = [_PLACE.fullmatch(each.strip()) for each in text.split(",")]
    return [(each[1].strip("[]"), int(each[2] or port)) for each in found if each is not None]
