"""A cluster for real: a master and two workers as processes of their own, each with a folder and a Python of its own.

One node lacks xscl and does not see the home.  Then xscl is sent along, and the node sees the home.  ``make test`` asks
and joins so in one session of a process that runs on; ``make test-all`` also with a process for each command, on a
session that serves Spark Connect.
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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from quick_java import FEW_ROWS, kept_classes, use_kept_classes

import xscl
from xscl.base.local_copies import FOLDER

pytestmark = pytest.mark.spark

PACKAGE = Path(xscl.__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
_APART = ("unshare", "--mount")
"""Command that runs another one with mounts of its own."""
_THRIFTY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Javas that have few cores together."""
_COUNT = "SELECT qid, count(*) AS n FROM matches GROUP BY qid"
_CONF = {
    "spark.pyspark.python": "node-python",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "1",
    **FEW_ROWS,
}
_SESSION = """
import sys
from xscl.spark.session import start_session
from xscl.spark.session_options import SessionOptions, parse_conf
session = start_session(SessionOptions(sys.argv[1], conf=parse_conf(sys.argv[2:])))
print("up", flush=True)
sys.stdin.read()
"""
_COMMANDS = """
import io, json, sys
from pyspark import SparkContext
from xscl.cli.app import main
told = sys.stdout
for line in sys.stdin:
    first, *words = json.loads(line)
    if first == "send":
        SparkContext._active_spark_context.addPyFile(*words)
        continue
    sys.argv, sys.stdout = ["xscl", first, *words], io.TextIOWrapper(io.BytesIO(), write_through=True)
    try:
        main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    said = sys.stdout.buffer.getvalue().decode()
    print(json.dumps([code, said]), file=told, flush=True)
"""
"""A process that runs commands which it is told, one after the other, with the same session."""


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
        hides = [*_APART, "mount", "-t", "tmpfs", "none", str(folder)]
        return subprocess.run(hides, capture_output=True, check=False).returncode == 0
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
    """A running cluster with a good node and a poor one, which does not see homes that are hidden from it."""

    root: Path
    url: str
    environment: Mapping[str, str]
    conf: Mapping[str, str]
    good: Node
    poor: Node
    poor_worker: int

    def hidden_home(self, name: str) -> Path:
        """Make a home that the poor node does not see."""
        home = self.root / name
        home.mkdir()
        self._on_poor("mount", "-t", "tmpfs", "none", str(home))
        fill(home)
        return home

    def show(self, home: Path) -> None:
        """Have the poor node see a home."""
        self._on_poor("umount", str(home))

    def _on_poor(self, *command: str) -> None:
        subprocess.run(["nsenter", "--mount", "--target", str(self.poor_worker), *command], check=True)

    def found(self, rows: str) -> dict[str, list[str]]:
        """Give, by node, what doctor has found."""
        found: dict[str, list[str]] = {}
        for row in json.loads(rows):
            for node in (self.good, self.poor):
                if row["check"].startswith("node") and str(node.root) in row["check"]:
                    assert row["advice"] or row["state"] == "ok"
                    found.setdefault(node.root.name, []).append(row["found"] if row["state"] == "FAILS" else "ok")
        return found

    def check_found(self, rows: str, home: Path) -> None:
        """Assert that doctor names what the poor node lacks, and nothing else."""
        found = self.found(rows)
        assert found["good"] == ["ok"]
        lacks, unseen = found["poor"]
        assert "[XSCL_WORKER]" in lacks and "lacks xscl" in lacks and str(self.poor.root) in lacks
        assert "[XSCL_FILE_NOT_SHARED]" in unseen and str(home) in unseen

    def copied(self) -> set[str]:
        """Give the names of the run files that nodes have copied."""
        return {path.name for node in (self.good, self.poor) for path in node.root.glob("copies/*/*.run")}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as executors are sent it."""
    target = tmp_path_factory.mktemp("package") / "xscl.zip"
    with zipfile.ZipFile(target, "w") as package:
        for folder, _, names in os.walk(PACKAGE, followlinks=True):
            for path in (Path(folder, name) for name in names if name.endswith(".py")):
                package.write(path, path.relative_to(PACKAGE.parent))
    return target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("cluster")
    if not can_hide(root):
        pytest.skip("this user may not hide a folder from a process (unshare --mount)")
    use_kept_classes()
    java = " ".join([_THRIFTY, *kept_classes()])
    good, poor = Node.made(root / "good"), Node.made(root / "poor")
    good.install()
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYTHONPATH", None)
    environment |= {"SPARK_DAEMON_JAVA_OPTS": java, "SPARK_DAEMON_MEMORY": "256m"}
    spark_class = [str(SPARK_HOME / "bin" / "spark-class")]
    with ExitStack() as stack:
        master = "org.apache.spark.deploy.master.Master --host 127.0.0.1 --webui-port 0 --port"
        command = [*spark_class, *master.split(), str(port)]
        stack.enter_context(running(command, root / "master.log", env=environment))
        pids = []
        for node, apart in ((good, ()), (poor, _APART)):
            worker = (
                "org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --webui-port 0 --cores 1 --memory 1g --work-dir"
            )
            path = f"{node.root / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
            command = [*apart, *spark_class, *worker.split(), str(node.root / "work"), url]
            log = root / f"{node.root.name}.log"
            own = {"PATH": path, FOLDER: str(node.root / "copies")}
            options = {"env": {**environment, **own}, "cwd": node.root}
            pids.append(stack.enter_context(running(command, log, **options)).pid)
        wait_for(port)
        conf = _CONF | {"spark.executor.extraJavaOptions": java}
        yield Cluster(root, url, environment, conf, good, poor, pids[1])


@dataclass(frozen=True)
class Commands:
    """A process that runs commands on a cluster, in one session."""

    process: subprocess.Popen[str]
    cluster: Cluster
    home: Path

    def __call__(self, *words: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it has printed."""
        options = [option for pair in self.cluster.conf.items() for option in ("--conf", "=".join(pair))]
        self._tell(*words, "--home", str(self.home), "--master", self.cluster.url, *options)
        assert self.process.stdout is not None
        code, printed = json.loads(self.process.stdout.readline())
        return code, printed

    def send(self, package: Path) -> None:
        """Send executors a package."""
        self._tell("send", str(package))

    def _tell(self, *words: str) -> None:
        assert self.process.stdin is not None
        print(json.dumps(words), file=self.process.stdin, flush=True)


@contextmanager
def commands(cluster: Cluster, home: Path) -> Iterator[Commands]:
    """Start a process for commands; it ends with its input."""
    command, pipe = [sys.executable, "-c", _COMMANDS], subprocess.PIPE
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        (cluster.root / "commands.log").open("wb") as log,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=environment) as process,
    ):
        yield Commands(process, cluster, home)


@contextmanager
def connect_server(cluster: Cluster) -> Iterator[str]:
    """Serve Spark Connect from a session on the cluster, and give its address."""
    port = free_port()
    conf = {
        **cluster.conf,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [sys.executable, "-c", _SESSION, cluster.url, *(f"{key}={value}" for key, value in conf.items())]
    with running(command, cluster.root / "session.log", env=dict(cluster.environment), stdin=subprocess.PIPE):
        wait_for(port)
        yield f"sc://127.0.0.1:{port}"


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


def test_nodes_join_once_they_have_what_they_lacked(cluster: Cluster, package: Path) -> None:
    home = cluster.hidden_home("home")
    with commands(cluster, home) as command:
        code, printed = command("doctor", "--json")
        assert code == 1
        cluster.check_found(printed, home)

        command.send(package)
        cluster.show(home)
        for more in (False, True):
            if more:
                add_more(home)
            assert command("run", "--once", "--where", "spark")[0] == 0
    told = (cluster.root / "commands.log").read_text()
    assert "600 stored matches, joined in Spark" in told
    assert "60 events, 60 witnesses, 60 candidate pairs, 60 stored matches, joined in Spark" in told
    copied = cluster.copied()
    assert copied and copied <= {path.name for path in home.rglob("*.run")}


@pytest.mark.thorough
def test_what_nodes_lack_is_named_until_they_have_it(cluster: Cluster, package: Path) -> None:
    home = cluster.hidden_home("remote")
    with connect_server(cluster) as remote:

        def command(*words: str) -> subprocess.CompletedProcess[str]:
            line = [sys.executable, "-m", "xscl", *words, "--home", str(home), "--remote", remote]
            return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)

        def run(*words: str) -> str:
            return command("run", "--once", "--where", "spark", *words).stderr

        looked = command("doctor", "--json")
        assert looked.returncode == 1
        cluster.check_found(looked.stdout, home)

        sent = ("--conf", f"spark.submit.pyFiles={package}")
        told = run(*sent)
        assert "[XSCL_FILE_NOT_SHARED]" in told and "repair" not in told

        cluster.show(home)
        told = run()
        assert "[XSCL_WORKER]" in told and "No module named 'xscl'" in told
        assert "600 stored matches" in run(*sent)
        (row,) = json.loads(command("sql", _COUNT, "--json").stdout)
        assert row == {"qid": "Q", "n": 600}

        add_more(home)
        assert "60 events, 60 witnesses, 60 candidate pairs, 60 stored matches, joined in Spark" in run(*sent)
    copied = cluster.copied()
    assert copied and copied & {path.name for path in home.rglob("*.run")}
