"""Workers and Java that end in the middle of a batch or a statement, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from budget import THOROUGH
from quick_java import FEW_ROWS, use_kept_classes

_KILLED = """
import json, os, signal, subprocess, sys
from pyspark import SparkContext
import xscl
import xscl.batches.level
from xscl.base.errors import EngineError
from xscl.base.settings import Settings
from xscl.answers.sql.views import sql_errors
from xscl.base.failpoints import hooked

def children(process):
    found = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()]
    return [(int(pid), args) for pid, parent, args in rows if int(parent) == process]

def kill_java():
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    SparkContext._gateway.proc.wait()

def kill_workers():
    # The daemon is what starts workers.
    below = [(SparkContext._gateway.proc.pid, "")]
    while below:
        below = [child for pid, _ in below for child in children(pid)]
        for pid, args in below:
            if "pyspark" in args:
                os.kill(pid, signal.SIGKILL)

def run(engine, at, kill):
    left = [kill]
    def hook(name):
        if name == at and left:
            left.pop()()
    # A task may meet one of the workers that have ended, and so may the next batch: there are no more than tasks.
    for _ in range(3):
        try:
            with hooked(hook):
                engine.run_once()
            break
        except EngineError as error:
            print(error.condition)
    else:
        raise AssertionError("the batch fails again and again")
    print(len(list(engine.matches())))

# Walked in one job of two tasks, joined in another, and killed between the two.
xscl.batches.level._SMALL, xscl.batches.level._PART, xscl.batches.level._JOB_SECONDS = 0, 1, 0
with xscl.connect(home=sys.argv[1], spark_conf=json.loads(sys.argv[3]), settings=Settings("spark")) as engine:
    engine.register("S/a/k->x JOIN {x = y, 1 h} S/b/k->y", name="Q")
    for number, kill in enumerate((kill_workers, kill_java), start=1):
        xml = f"<k>{number}</k>"
        engine.ingest([xscl.Event("S", f"{n}{number}", number, xml=f"<{n}>{xml}</{n}>") for n in "ab"])
        run(engine, "tasks.witnesses", kill)
    print(len(engine.sql("SELECT * FROM events").toArrow()))
    # A statement that gathers more than Java has.
    try:
        with sql_errors():
            engine.sql("SELECT size(collect_list(concat(id, repeat('x', 1000000)))) FROM range(2000)").toArrow()
    except EngineError as error:
        print(error.condition)
    if sys.argv[2] == "again":
        print(len(engine.sql("SELECT * FROM events").toArrow()))
    print(len(os.listdir(os.environ["TMPDIR"])))
"""


@pytest.mark.spark
def test_batches_and_statements_after_workers_and_java_have_ended(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    use_kept_classes()
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "SPARK_DRIVER_MEMORY": "512m",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    often, conf = ("again", {}) if THOROUGH else ("once", FEW_ROWS)
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "home"), often, json.dumps(conf)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2_000:]
    told = ended.stdout.split()
    # Spark may start workers anew before it asks them.
    told = [line for line in told if line != "XSCL_BATCH"]
    assert told == ["1", "XSCL_SPARK_GONE", "2", "4", "XSCL_SPARK_GONE", *["4"] * THOROUGH, "1"]
