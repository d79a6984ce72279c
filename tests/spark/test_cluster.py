"""A cluster for real: a master and two workers as processes of their own, each with a folder and a Python of its own.

A session on them serves Spark Connect, so that the commands of this module are what people type, with ``--remote``.
One node lacks xscl and does not see the home.  Then xscl is sent along, and the node sees the home.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

import xscl
from xscl.base.local_copies import FOLDER

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

PACKAGE = Path(xscl.__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
_HIDES = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
"""Command that runs another one where a folder is empty."""
_THRIFTY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SESSION = """
import sys
from xscl.spark.session import start_session
from xscl.spark.session_options import SessionOptions, parse_conf
session = start_session(SessionOptions(sys.argv[1], conf=parse_conf(sys.argv[2:])))
print("up", flush=True)
sys.stdin.read()
"""


def fill(home: Path) -> None:
    """Make a home with a query and enough events for two tasks at least, in files of their own."""
    with xscl.connect(home=home) as engine:
        engine.register("S/a/k->x JOIN {x = y, 1 h} S/b/k->y", name="Q")
        for part in range(4):
            engine.ingest(
                xscl.Event("S", f"{part}-{n}", n, xml=f"<{name}><k>{part}.{n // 2}</k></{name}>")
                for n in range(300)
                for name in "ab"[n % 2]
            )


def add_more(home: Path) -> None:
    """Take in events of which each joins with one that an earlier batch has read."""
    with xscl.connect(home=home) as engine:
        engine.ingest(xscl.Event("S", f"more-{n}", 2 * n + 1, xml=f"<b><k>0.{n}</k></b>") for n in range(60))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def can_hide(folder: Path) -> bool:
    """Whether this user may have a process see another file system."""
    try:
        return subprocess.run([*_HIDES, folder, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def running(command: list[str], log: Path, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, **options) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.terminate()


@dataclass(frozen=True)
class Node:
    """A worker's folder, with a Python that has all but xscl."""

    root: Path

    @property
    def packages(self) -> Path:
        return next((self.root / "venv" / "lib").iterdir()) / "site-packages"

    def install(self) -> None:
        (self.packages / "xscl").symlink_to(PACKAGE)

    @staticmethod
    def made(root: Path) -> Node:
        venv.create(root / "venv", with_pip=False, symlinks=True)
        node = Node(root)
        # The packages of this process without what their .pth files add, as that of an editable install.
        (node.packages / "all.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        (root / "venv" / "bin" / "node-python").symlink_to("python")
        return node


@dataclass(frozen=True)
class Cluster:
    """A running cluster with a good node and a poor one."""

    url: str
    remote: str
    home: Path
    good: Node
    poor: Node
    poor_worker: int

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "xscl", *words, "--home", str(self.home)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def nodes(self) -> dict[str, list[str]]:
        """What doctor finds of each node."""
        done = self.command("doctor", "--remote", self.remote, "--json")
        found: dict[str, list[str]] = {}
        for row in json.loads(done.stdout):
            for node in (self.good, self.poor):
                if row["check"].startswith("node") and str(node.root) in row["check"]:
                    assert row["advice"] or row["state"] == "ok"
                    found.setdefault(node.root.name, []).append(row["found"] if row["state"] == "FAILS" else "ok")
        assert done.returncode == any(each != ["ok"] for each in found.values())
        return found

    def zipped(self) -> Path:
        """The package as executors are sent it."""
        target = self.good.root / "xscl.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
            for folder, _, names in os.walk(PACKAGE, followlinks=True):
                for path in (Path(folder, name) for name in names if name.endswith(".py")):
                    package.write(path, path.relative_to(PACKAGE.parent))
        return target

    def show_home(self) -> None:
        """Have the poor node see the home."""
        enter = ["nsenter", "--mount", "--target", str(self.poor_worker), "umount", str(self.home)]
        subprocess.run(enter, check=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("cluster")
    home = root / "home"
    home.mkdir()
    if not can_hide(home):
        pytest.skip("this user may not hide a folder from a process (unshare --mount)")
    good, poor = Node.made(root / "good"), Node.made(root / "poor")
    good.install()
    port, connect_port = free_port(), free_port()
    url, remote = f"spark://127.0.0.1:{port}", f"sc://127.0.0.1:{connect_port}"
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYTHONPATH", None)
    # Five Javas share few cores.
    environment |= {"SPARK_DAEMON_JAVA_OPTS": _THRIFTY, "SPARK_DAEMON_MEMORY": "256m"}
    spark_class = [str(SPARK_HOME / "bin" / "spark-class")]
    with ExitStack() as stack:
        master = "org.apache.spark.deploy.master.Master --host 127.0.0.1 --webui-port 0 --port"
        command = [*spark_class, *master.split(), str(port)]
        stack.enter_context(running(command, root / "master.log", env=environment))
        pids = []
        for node, hides in ((good, ()), (poor, (*_HIDES, str(home)))):
            worker = (
                "org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --webui-port 0 --cores 1 --memory 1g --work-dir"
            )
            path = f"{node.root / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
            command = [*hides, *spark_class, *worker.split(), str(node.root / "work"), url]
            log = root / f"{node.root.name}.log"
            own = {"PATH": path, FOLDER: str(node.root / "copies")}
            options = {"env": {**environment, **own}, "cwd": node.root}
            pids.append(stack.enter_context(running(command, log, **options)).pid)
        conf = {
            "spark.pyspark.python": "node-python",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _THRIFTY,
            "spark.task.maxFailures": "1",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(connect_port),
        }
        wait_for(port)
        command = [sys.executable, "-c", _SESSION, url, *(f"{key}={value}" for key, value in conf.items())]
        session = running(command, root / "session.log", env=environment, stdin=subprocess.PIPE)
        stack.enter_context(session)
        fill(home)
        wait_for(connect_port)
        yield Cluster(url, remote, home, good, poor, pids[1])


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"nobody listens at {port}")


def run(cluster: Cluster, *words: str) -> str:
    return cluster.command("run", "--once", "--remote", cluster.remote, "--where", "spark", *words).stderr


def test_what_nodes_lack_is_named_until_they_have_it(cluster: Cluster) -> None:
    found = cluster.nodes()
    assert found["good"] == ["ok"]
    lacks, unseen = found["poor"]
    assert "[XSCL_WORKER]" in lacks and "lacks xscl" in lacks and str(cluster.poor.root) in lacks
    assert "[XSCL_FILE_NOT_SHARED]" in unseen and str(cluster.home) in unseen

    sent = ("--conf", f"spark.submit.pyFiles={cluster.zipped()}")
    told = run(cluster, *sent)
    assert "[XSCL_FILE_NOT_SHARED]" in told and "repair" not in told

    cluster.show_home()
    told = run(cluster)
    assert "[XSCL_WORKER]" in told and "No module named 'xscl'" in told
    assert "600 stored matches" in run(cluster, *sent)
    statement = "SELECT qid, count(*) AS n FROM matches GROUP BY qid"
    done = cluster.command("sql", statement, "--json", "--remote", cluster.remote)
    assert json.loads(done.stdout) == [{"qid": "Q", "n": 600}]

    add_more(cluster.home)
    assert "60 events, 60 witnesses, 60 candidate pairs, 60 stored matches, joined in Spark" in run(cluster, *sent)
    copied = {path.name for node in (cluster.good, cluster.poor) for path in node.root.glob("copies/*/*.run")}
    assert copied and copied <= {path.name for path in cluster.home.rglob("*.run")}
