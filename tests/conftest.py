"""One Spark session for the whole run, and homes that clean up after themselves."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from budget import THOROUGH, examples
from compiled_once import share_compiled_statements, share_texts_of_tables
from corpora import DATA, lacks
from hypothesis import HealthCheck, settings
from quick_disks import keep_files_in_memory, leave_memory, wait_for_no_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine
    from xscl.store.home import Home

# ``make test`` tries the same examples each time, ``make test-all`` others; a busy machine is no failure of either.
settings.register_profile(
    "xscl",
    max_examples=examples(40),
    deadline=None,
    derandomize=not THOROUGH,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("xscl")

# Tests leave nothing in the user's cache, and no process behind them.
os.environ["XSCL_CLASS_ARCHIVE"] = "off"
# A home is opened in a third of a second otherwise, and most tests open one.
share_compiled_statements()
share_texts_of_tables()
wait_for_no_disk()
keep_files_in_memory()
# Until all tests are collected, almost nothing that is made goes.
gc.disable()
# A shell starts what runs in the background with Ctrl-C's signal ignored, and programs that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Few cores are shared by many small Javas.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long values are called after their argument: the processes of a run must agree on every test's name, and a packed
    file, for one, may say when it was packed."""
    return argname if isinstance(val, str | bytes) and len(val) > 60 else None


# Before xdist looks for groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("thorough") and not THOROUGH:
            item.add_marker(pytest.mark.skip(reason="takes long: make test-all runs it"))
        shares_session = "spark" in getattr(item, "fixturenames", ())
        if shares_session:
            item.add_marker(pytest.mark.spark)
        # One process of the run has what these tests share.
        if shares_session or item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.xdist_group("spark" if shares_session else "postgres"))
        elif _shares_with_its_file(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _shares_with_its_file(item: pytest.Item) -> bool:
    """Whether a test uses what all tests of its file use, such as a service, and finds there what earlier ones left."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info is not None else ()
    return any(fixture.scope == "module" for fixtures in found for fixture in fixtures)


def pytest_collection_finish() -> None:
    """Spare the collector the modules and tests, which stay until the end."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish(exitstatus: int) -> None:
    """Files of tests that fail stay."""
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        leave_memory()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from quick_java import FEW_ROWS, use_kept_classes

    from xscl.spark.session import start_session
    from xscl.spark.session_options import SessionOptions

    use_kept_classes()
    # One task does a shuffle's work.  ``make test-all`` has the settings that users have.
    quick = {**FEW_ROWS, "spark.sql.shuffle.partitions": "1"}
    session = start_session(SessionOptions(conf={} if THOROUGH else quick))
    yield session
    session.stop()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """An empty home."""
    from xscl.store.home import init_home

    opened = init_home(tmp_path / "home")
    yield opened
    opened.catalog.close()


@pytest.fixture
def engine(tmp_path: Path, spark: SparkSession) -> Iterator[Engine]:
    import xscl

    with xscl.connect(home=tmp_path / "home", spark=spark) as opened:
        yield opened


@pytest.fixture
def executor_engine(tmp_path: Path, spark: SparkSession) -> Iterator[Engine]:
    """An engine that does everything in Spark."""
    import xscl
    from xscl.base.settings import Settings

    with xscl.connect(home=tmp_path / "home", spark=spark, settings=Settings("spark")) as opened:
        yield opened


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home that has something of everything, and the files that it follows; tests copy it."""
    import sample_home

    from xscl.engine import Engine
    from xscl.store.home import init_home

    folder = tmp_path_factory.mktemp("rich")
    with Engine(init_home(folder / "home")) as engine:
        sample_home.fill(engine, folder)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real corpora, on the machines that have them."""
    if not DATA.is_dir():
        pytest.skip(lacks(DATA))
    return DATA
