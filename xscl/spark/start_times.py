"""Start times of Spark: a session as Spark makes one by itself and one of ours, from process to first join."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from xscl.base.errors import EngineError
from xscl.base.terminal import write_data
from xscl.spark.class_archive import find_archive
from xscl.spark.java import java_version
from xscl.spark.session import start_session
from xscl.spark.start_cost import cores

__all__ = ["StartTimes", "make_archive_now", "measure_starts"]

PLAIN, OURS = "plain", "ours"


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Seconds from the start of a Python process to the answer of its first small join, one for each round."""

    plain: list[float]
    ours: list[float]

    @property
    def medians(self) -> tuple[float, float]:
        """Return medians of plain sessions and of ours."""
        return median(self.plain), median(self.ours)

    @property
    def ratio(self) -> float:
        """Our time as a part of the plain one."""
        plain, ours = self.medians
        return ours / plain


def make_archive_now() -> Path | None:
    """Make the class archive in a process of its own, if there is none; None where it cannot be made."""
    archive = find_archive(java_version()[1])
    if archive is None:
        return None
    if archive.path() is None:
        subprocess.run([sys.executable, "-m", "xscl.cli.make_class_archive"], capture_output=True, check=False)
    return archive.path()


def measure_starts(rounds: int = 3) -> StartTimes:
    """Start sessions of both kinds in turns, each in a fresh process; some ten seconds a round.

    Raises:
        EngineError: a session does not start.
    """
    times: dict[str, list[float]] = {PLAIN: [], OURS: []}
    for number in range(rounds):
        for kind in (PLAIN, OURS) if number % 2 == 0 else (OURS, PLAIN):
            times[kind].append(_start(kind))
    return StartTimes(times[PLAIN], times[OURS])


def _start(kind: str) -> float:
    # Both with our interpreter for the workers, and neither looks up the name of this host.
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **os.environ}
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "xscl.spark.start_times", kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdout is not None
        answered = any(line.strip() == b"answered" for line in iter(process.stdout.readline, b""))
        taken = time.perf_counter() - began
    if not answered:
        raise EngineError("XSCL_NO_SPARK", f"a {kind} session does not start", hint="look at what 'xscl run' says")
    return taken


def _answer(kind: str) -> None:
    """Measure session, first job, first small join."""
    if kind == OURS:
        session = start_session()
    else:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master(f"local[{cores()}]").getOrCreate()
    session.range(1).collect()
    session.sql("SELECT count(*) FROM range(1000) JOIN range(100) USING (id)").collect()
    write_data("answered\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _answer(sys.argv[1])
