"""``xscl doctor``: checks of everything that xscl needs, with advice."""

from __future__ import annotations

import operator as op
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from xscl.base.errors import XsclError
from xscl.base.home_folders import CATALOG_FILE, HOME_FOLDERS, is_home
from xscl.base.system_errors import spark_reason, worker_fault
from xscl.catalog.intake_order import read_last_places
from xscl.registry.query_list import count_queries
from xscl.spark.class_archive import SWITCH, find_archive, is_turned_off
from xscl.spark.java import java_version
from xscl.spark.nodes import Node, look_at_nodes
from xscl.spark.session import start_session
from xscl.spark.session_options import LOCAL, SessionOptions
from xscl.spark.start_times import make_archive_now, measure_starts
from xscl.store.home import open_home, require_readable
from xscl.upkeep.health import examine_home, looks_like_a_catalogue

__all__ = ["Check", "examine"]

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?([^();]*)\)?(;.*)?")
_BOUND = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)")
_COMPARE = {">=": op.ge, "<=": op.le, "==": op.eq, "!=": op.ne, ">": op.gt, "<": op.lt}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    what: str
    ok: bool
    found: str
    advice: str = ""
    absent: bool = False
    """Whether it is not there and need not be."""

    @property
    def state(self) -> str:
        """Word that listings have."""
        return "none" if self.absent else "ok" if self.ok else "FAILS"


def examine(
    home: Path,
    catalog_url: str | None,
    *,
    start: bool = False,
    deep: bool = False,
    named: bool = False,
    session: SessionOptions = LOCAL,
    before_spark: Callable[[], None] = lambda: None,
) -> Iterator[Check]:
    """Make all checks, the slow ones last.

    Args:
        home: folder of the home.
        catalog_url: its catalogue, if not the one in the home.
        deep: read every file of the home whole, not only what it says of itself.
        named: somebody gave this home, so that it must be there.
        session: where Spark runs; if it is not simply here, its nodes are looked at.
        start: make the class archive if there is none, and hold starts of our session against plain ones.
        before_spark: is called before the slow checks, in which Spark starts.
    """
    yield _python()
    yield from _packages()
    java = _java() if session.remote is None else None
    if java is not None:
        yield java
    yield from _home(home, catalog_url, deep=deep, named=named)
    before_spark()
    if java is not None and java.ok:
        yield _class_archive(java.found, make=start)
        if start:
            yield _start()
    if session != LOCAL and (java is None or java.ok):
        yield from _cluster(session, home.resolve() if home.is_dir() else None)
    elif java is not None and java.ok:
        yield _spark()


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("Python", ok, platform.python_version(), "" if ok else "xscl needs Python 3.11 or later")


def _packages() -> Iterator[Check]:
    try:
        wanted = requires("xscl") or []
    except PackageNotFoundError:
        yield Check("packages", True, "not looked at: xscl runs from its source and is not installed")
        return
    for requirement in wanted:
        found = _REQUIREMENT.fullmatch(requirement)
        if found is not None and found[3] is None:  # what has a marker is wanted for extras
            yield _package(found[1], found[2].strip())


def _package(name: str, bounds: str) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, False, "missing", "install xscl again: pip install .")
    if _fits(found, bounds):
        return Check(name, True, found)
    if name == "pandas" and _fits(found, ">=3"):
        return Check(name, False, found, "Spark 4.3 needs pandas below 3: pip install 'pandas<3'")
    return Check(name, False, found, f"xscl needs {name} {bounds}: pip install '{name}{bounds}'")


def _fits(found: str, bounds: str) -> bool:
    """Whether a version, whatever it says behind its numbers, is within bounds like ``>=2.2,<3``.

    >>> _fits("2.10.1", ">=2.2,<3"), _fits("3.0rc1", ">=2.2,<3"), _fits("2.2", ">=2.2.0"), _fits("1", "")
    (True, False, True, True)
    """
    return all(_COMPARE[sign](*_numbers(found, bound)) for sign, bound in _BOUND.findall(bounds))


def _numbers(*versions: str) -> list[tuple[int, ...]]:
    """Return the numbers that versions begin with, as many of each."""
    begins = [re.match(r"\d+(?:\.\d+)*", version) for version in versions]
    parts = [[int(part) for part in begin[0].split(".")] if begin else [] for begin in begins]
    most = max(map(len, parts))
    return [(*each, *[0] * (most - len(each))) for each in parts]


def _java() -> Check:
    try:
        major, line = java_version()
    except XsclError as error:
        return Check("Java", False, error.message, error.hint or "")
    advice = "" if major in (17, 21) else "Spark 4.3 is made for Java 17 and 21"
    return Check("Java", True, line, advice)


def _home(home: Path, catalog_url: str | None, *, deep: bool, named: bool) -> Iterator[Check]:
    try:
        require_readable(home, catalog_url)
        damage = looks_like_a_catalogue(home / "catalog.db") if catalog_url is None else None
        if damage is not None:
            yield Check("catalogue", False, f"{home / 'catalog.db'}: {damage}", "'xscl import' the last export")
            return
        opened = open_home(home, catalog_url)
    except XsclError as error:
        none = error.condition == "XSCL_NO_HOME" and not is_home(home)
        absent = none and not named
        yield Check("home", absent, f"none at {home}" if none else error.message, error.hint or "", absent)
        return
    try:
        processed, last = opened.catalog.ask(read_last_places)
        queries = count_queries(opened.catalog)
        health = examine_home(opened, deep=deep)
    finally:
        opened.catalog.close()
    waiting = f", {last - processed} places of the intake order wait for 'xscl run'" if last > processed else ""
    runs = "" if health.runs is None else f", {health.runs} runs batches"
    found = f"{home}: {queries} queries, {health.files} files, last place {last}{waiting}{runs}"
    yield Check("home", True, f"{found}, {health.free / 1e9:.1f} GB free")
    yield from _writing(home)
    if health.unnamed and health.runs is None:
        left = f"{len(health.unnamed)} of {health.unnamed_bytes:,} bytes, of processes that ended while they wrote"
        yield Check("unnamed files", True, left, "the next 'xscl run' removes them")
    for what, problem, advice in health.problems:
        yield Check(what, False, problem, advice)


def _writing(home: Path) -> Iterator[Check]:
    """Look whether this user may write a home; one that is there to be read alone is no fault."""
    files = (home, *(home / name for name in HOME_FOLDERS), home / CATALOG_FILE)
    there = [file for file in files if file.exists()]
    closed = [file for file in there if not os.access(file, os.W_OK)]
    if len(closed) == len(there):
        told = f"{home} cannot be written by this user, or its disk is read-only"
        yield Check("writing", True, told, "listings need no more than reading; its owner runs batches", absent=True)
    elif closed:
        told = f"this user can write some of {home}, but not {', '.join(map(str, closed))}"
        yield Check("writing", False, told, f"give all of it to the home's owner: chown -R USER {home}")


def _class_archive(java: str, *, make: bool) -> Check:
    what = "class archive"
    if is_turned_off():
        return Check(what, True, f"turned off ({SWITCH}=off)")
    archive = find_archive(java)
    if archive is None:
        return Check(what, True, "none", "it wants a cache folder that belongs to you and that nobody else writes to")
    made = make_archive_now() if make else archive.path()
    if made is not None:
        return Check(what, True, f"{made}, {made.stat().st_size / 1e6:.0f} MB")
    if make or archive.given_up.exists():
        return Check(what, True, "it could not be made", "starts take longer, all else is the same")
    return Check(what, True, "not made yet", "made after the next session ends, or now by 'xscl doctor --start'")


def _start() -> Check:
    what = "Spark start"
    try:
        times = measure_starts()
    except XsclError as error:
        return Check(what, False, error.message, error.hint or "")
    plain, ours = times.medians
    found = (
        f"from process to first small join {ours:.1f} s, a plain session {plain:.1f} s: ratio {times.ratio:.2f} "
        f"(medians of {len(times.ours)} fresh processes each)"
    )
    return Check(what, True, found)


def _spark() -> Check:
    began = time.perf_counter()
    try:
        session = start_session()
        started = time.perf_counter()
        session.range(1).collect()
        first = time.perf_counter()
        session.range(1).collect()
        second = time.perf_counter()
    except Exception as error:  # whatever Spark fails with is the finding
        return Check("Spark", False, spark_reason(str(error)), "look at Spark's own messages above")
    found = (
        f"{session.version} starts in {started - began:.1f} s; an empty job takes {first - started:.2f} s the first "
        f"time, then {second - first:.2f} s"
    )
    return Check("Spark", True, found)


def _cluster(options: SessionOptions, home: Path | None) -> Iterator[Check]:
    """Look at each node of a cluster."""
    if options.master is not None:
        # A node that cannot run Python is a finding, and no reason to ask another one.
        options = replace(options, conf={"spark.task.maxFailures": "1", **options.conf})
    try:
        session = start_session(options)
        yield Check("Spark", True, f"{session.version} on {options.where}")
        nodes = look_at_nodes(session, home)
    except XsclError as error:
        yield Check("Spark", False, f"[{error.condition}] {error.message}", error.hint or "")
        return
    except Exception as error:  # whatever Spark fails with is the finding
        named = worker_fault(str(error))
        found = spark_reason(str(error)) if named is None else f"[{named.condition}] {named.message}"
        yield Check("nodes", False, found, (named and named.hint) or "look at Spark's own messages above")
        return
    for node in nodes:
        yield from _node(node, home)


def _node(node: Node, home: Path | None) -> Iterator[Check]:
    problems = node.problems()
    for condition, problem, advice in problems:
        yield Check(f"node {node.name}", False, f"[{condition}] {problem}", advice)
    if problems:
        return
    packages = ", ".join(f"{name} {found}" for name, found in node.packages.items())
    sees = "" if home is None else f"; it reads and writes the home {home}"
    differences = node.differences()
    advice = f"better the same everywhere: {', '.join(differences)}" if differences else ""
    yield Check(f"node {node.name}", True, f"Python {node.python_version}, {packages}{sees}", advice)
