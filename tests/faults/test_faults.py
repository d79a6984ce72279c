"""Faults that are provoked for real: what they are called, and that nothing is lost or done twice after them."""

from __future__ import annotations

import errno
import gzip
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from budget import THOROUGH
from crashes import Run, differences, outcome_of, workload
from waiting import wait_for

import xscl
from xscl.base.errors import XsclError
from xscl.base.failpoints import hooked
from xscl.base.system_errors import Patience
from xscl.base.types import Event
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import REJECTED
from xscl.cli.app import main
from xscl.engine import Engine
from xscl.store.home import init_home, open_home

NUMBER = 5 if THOROUGH else 4
ROUNDS = workload(1, NUMBER)
JOIN = "S/a/k->x JOIN {x = y, 1 h} S/b/k->y"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    run = Run(tmp_path_factory.mktemp("steady"), ROUNDS)
    run.play()
    return outcome_of(run)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        opened.register(JOIN, name="Q")
        opened.ingest(pair(1))
        yield opened


def pair(number: int) -> list[Event]:
    xml = f"<k>{number}</k>"
    return [Event("S", f"{name}{number}", number, xml=f"<{name}>{xml}</{name}>") for name in "ab"]


def matched(engine: Engine) -> list[tuple[str, ...]]:
    return [tuple(event.id for event in match.events) for match in engine.matches()]


def condition_of(call: Callable[[], object]) -> str:
    with pytest.raises(XsclError) as raised:
        call()
    assert raised.value.hint, "it says what to do"
    return raised.value.condition


INPUTS = {
    ".ndjson": [
        "".join(f'{{"channel": "S", "id": "{n}", "ts": {n}, "xml": "<a/>"}}\n' for n in range(start, start + 7_000))
        for start in (0, 7_000)
    ],
    ".csv": ["k,v\n" + "".join(f"{n},{n % 7}\n" for n in range(start, start + 900)) for start in (0, 900)],
}


@pytest.mark.parametrize("name", INPUTS)
def test_intake_on_a_full_disk_tells_what_was_taken_before(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files, root = [tmp_path / f"{number}{name}" for number in range(2)], tmp_path / "home"
    for file, content in zip(files, INPUTS[name], strict=True):
        file.write_text(content, encoding="utf-8")
    count = sum(content.count("\n") - name.endswith(".csv") for content in INPUTS[name])
    init_home(root).catalog.close()
    words = ["xscl", "ingest", *map(str, files), "--home", str(root), "--channel", "S"]
    monkeypatch.setattr("sys.argv", words)
    with hooked(full_disk("intake.commit", 2, tmp_path)), pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 1 and "[XSCL_DISK_FULL]" in told
    found = re.search(r"([\d,]+) events of the input taken in before", told)
    assert found is not None, told
    before = int(found[1].replace(",", ""))
    assert 0 < before < count
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert f"{count - before:,} events taken" in told and f"{before:,} known already" in told


# -- disks -----------------------------------------------------------------------------------------------------


def test_a_full_disk_wherever_files_are_written(tmp_path: Path, expected: dict[str, list[object]]) -> None:
    """One run meets them all, one after the other."""
    run = Run(tmp_path, ROUNDS)
    for at, left in (
        ("intake.write", 3),
        ("state.write", 3),
        ("batch.joined", 3),
        ("batch.publish", 1),
    ):
        with hooked(full_disk(at, left, tmp_path)):
            assert condition_of(run.play) == "XSCL_DISK_FULL", at
    run.play()
    assert differences(expected, outcome_of(run)) == []


def full_disk(at: str, left: int, folder: Path) -> Callable[[str], None]:
    """The step fails when it is done for the given time."""

    def hook(name: str) -> None:
        nonlocal left
        left -= name == at
        if name == at and left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))

    return hook


_LIMITED = """
import resource, sys
from pathlib import Path
from crashes import Run, workload
from xscl.base.errors import XsclError
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    Run(Path(sys.argv[1]), workload(1, int(sys.argv[3]))).play()
except XsclError as error:
    print(error.condition)
"""


def test_files_that_may_not_grow(tmp_path: Path, expected: dict[str, list[object]]) -> None:
    run = Run(tmp_path, ROUNDS)
    with hooked(stop_at("run.tidied")), pytest.raises(KeyboardInterrupt):
        run.play()  # there is a catalogue, which is larger than the first limit
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for limit in (100_000, 500_000):
        command = [sys.executable, "-c", _LIMITED, str(tmp_path), str(limit), str(NUMBER)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        # SQLite tells a limit from a full disk.
        assert ended.stdout.strip() in ("XSCL_DISK_FULL", "XSCL_CATALOG_UNREACHABLE"), limit
    run.play()
    assert differences(expected, outcome_of(run)) == []


def stop_at(step: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    return hook


def test_a_catalogue_that_may_not_grow(engine: Engine) -> None:
    with engine.home.catalog.read() as connection:
        pages = connection.exec_driver_sql("pragma page_count").scalar()
        connection.exec_driver_sql(f"pragma max_page_count = {pages}")
    many = [event for number in range(2, 2_000) for event in pair(number)]
    assert condition_of(lambda: engine.ingest(many)) == "XSCL_DISK_FULL"
    assert sorted(path.name[:12] for path in (engine.home.root / "events").iterdir()) == ["000000000002"]
    with engine.home.catalog.read() as connection:
        connection.exec_driver_sql("pragma max_page_count = 1000000")
    assert engine.ingest(many).taken == len(many)
    engine.run_once()
    assert len(matched(engine)) == 1_999


# -- the catalogue ---------------------------------------------------------------------------------------------


def test_a_catalogue_that_another_process_holds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.catalog.catalog._BUSY_TIMEOUT_MS", 50)
    engine.home.catalog.close()  # connections have the new limit
    other = sqlite3.connect(engine.home.root / "catalog.db", isolation_level=None, check_same_thread=False)
    other.execute("begin immediate")
    for call in (lambda: engine.ingest(pair(2)), lambda: engine.register("S//x"), engine.run_once):
        assert condition_of(call) == "XSCL_CATALOG_BUSY"
    handle = engine.start(every="20 ms")
    wait_for(lambda: handle.lastProblem is not None)
    assert handle.isActive and matched(engine) == []
    other.execute("rollback")
    wait_for(lambda: handle.lastProblem is None and len(matched(engine)) == 1)
    handle.stop()
    assert engine.ingest(pair(2)).taken == 2
    engine.run_once()
    assert matched(engine) == [("a1", "b1"), ("a2", "b2")]
    other.close()


def test_a_catalogue_that_is_removed_or_replaced(engine: Engine) -> None:
    file = engine.home.root / "catalog.db"
    away = file.with_suffix(".away")
    handle = engine.start(every="20 ms")
    wait_for(lambda: handle.lastProgress is not None)
    file.rename(away)
    for call in (lambda: engine.ingest(pair(2)), lambda: list(engine.matches()), handle.awaitTermination):
        assert condition_of(call) == "XSCL_CATALOG_GONE"
    assert not handle.isActive, "that does not pass"
    file.write_bytes(away.read_bytes())
    assert condition_of(lambda: engine.ingest(pair(2))) == "XSCL_CATALOG_GONE"
    file.unlink()
    away.rename(file)
    assert engine.ingest(pair(2)).taken == 2
    engine.run_once()
    assert len(matched(engine)) == 2


def test_a_catalogue_that_is_no_database(engine: Engine) -> None:
    engine.run_once()
    root = engine.home.root
    engine.close()
    file = root / "catalog.db"
    for name in ("catalog.db-wal", "catalog.db-shm"):
        (root / name).unlink(missing_ok=True)
    whole = file.read_bytes()
    file.write_bytes(b"x" * len(whole))
    assert condition_of(lambda: xscl.connect(home=root)) == "XSCL_CATALOG_DAMAGED"
    file.write_bytes(whole)
    with xscl.connect(home=root) as again:
        assert len(matched(again)) == 1


# -- files -----------------------------------------------------------------------------------------------------


def test_files_that_are_missing(engine: Engine) -> None:
    engine.run_once()
    root = engine.home.root
    engine.ingest(pair(2))
    for folder in ("witness", "events"):
        for path in sorted((root / folder).rglob("*.parquet")):
            if "-reach." in path.name:
                continue
            away = path.rename(path.with_suffix(".away"))
            with xscl.connect(home=root) as again, pytest.raises(XsclError, match=path.name) as raised:
                again.ingest(pair(3))
                again.run_once()
                list(again.matches())
            assert raised.value.condition == "XSCL_FILE_MISSING" and "doctor" in (raised.value.hint or "")
            away.rename(path)
    with xscl.connect(home=root) as again:
        again.run_once()
        assert len(matched(again)) == 3


def test_files_that_were_changed(engine: Engine) -> None:
    """A byte of the text in which Arrow keeps the schema, and of a page."""
    engine.run_once()
    (path,) = (engine.home.root / "events").glob("*.parquet")
    data = path.read_bytes()
    for at in (data.index(b"ARROW:schema") + 40, 8):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        with xscl.connect(home=engine.home.root) as again:
            assert condition_of(lambda: list(again.query_once("S//a"))) == "XSCL_FILE_DAMAGED"  # noqa: B023
    path.write_bytes(data)


def test_a_home_that_lacks_something(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.ingest(pair(1))
    (tmp_path / "home" / "events").rename(tmp_path / "away")
    with pytest.raises(XsclError, match="lacks its folder events") as raised:
        open_home(tmp_path / "home")
    assert raised.value.condition == "XSCL_NO_HOME"
    (tmp_path / "away").rename(tmp_path / "home" / "events")
    for path in (tmp_path / "home").glob("catalog.db*"):
        path.unlink()
    with pytest.raises(XsclError, match="holds events") as raised:
        open_home(tmp_path / "home")
    assert raised.value.condition == "XSCL_NO_CATALOG" and "init" not in (raised.value.hint or "")


def test_a_catalogue_whose_disk_is_at_fault_is_not_missing(tmp_path: Path) -> None:
    """What stands in the way of its log is a folder here."""
    init_home(tmp_path / "home").catalog.close()
    (tmp_path / "home" / "catalog.db-wal").mkdir()
    assert condition_of(lambda: open_home(tmp_path / "home")) == "XSCL_CATALOG_UNREACHABLE"


def cut(path: Path, data: bytes, part: float = 0.6) -> Path:
    path.write_bytes(data[: int(len(data) * part)])
    return path


def test_inputs_that_are_half_written(tmp_path: Path, engine: Engine) -> None:
    line = b'{"channel": "T", "id": "%d", "xml": "<a/>"}\n'
    lines = b"".join(line % number for number in range(10))
    table = pa.table({"id": [str(number) for number in range(5_000)]})
    pq.write_table(table, tmp_path / "whole.parquet")
    for path, data, taken in (
        (tmp_path / "lines.ndjson", lines + line[:20], 10),
        (tmp_path / "lines.ndjson.gz", gzip.compress(lines + os.urandom(100_000).hex().encode()), 0),
        (tmp_path / "rows.parquet", (tmp_path / "whole.parquet").read_bytes(), 0),
        (tmp_path / "a.xml", b"<a><b/></a>", 0),
    ):
        report = engine.ingest(
            cut(path, data, 1 if path.suffix == ".ndjson" else 0.6), channel="R" if "rows" in path.name else "T"
        )
        assert report.rejected == 1, path
        assert report.taken >= taken
        assert report.problems[0].condition in (
            "XSCL_BAD_EVENT_LINE",
            "XSCL_SOURCE_UNREADABLE",
            "XSCL_MALFORMED_DOCUMENT",
        )


def test_followed_inputs_that_are_half_written_are_waited_for(tmp_path: Path, engine: Engine) -> None:
    pq.write_table(pa.table({"id": ["1", "2"], "v": [1, 2]}), tmp_path / "whole.parquet")
    inputs = {
        "documents": {
            "a.xml.gz": gzip.compress(b"<a><k>9</k></a>"),
            "e.ndjson": b'{"channel": "T", "id": "1", "xml": "<a/>"}\n',
        },
        "rows": {"rows.parquet": (tmp_path / "whole.parquet").read_bytes()},
    }
    for folder, files in inputs.items():
        (tmp_path / folder).mkdir()
        for name, data in files.items():
            cut(tmp_path / folder / name, data)
        looks = engine.follow(tmp_path / folder, every="50 ms", channel=folder)
        for _ in range(4):
            report = next(looks)
            assert (report.taken, report.rejected) == (0, 0)
        for name, data in files.items():
            (tmp_path / folder / name).write_bytes(data)
        reports = [next(looks)]
        while sum(report.taken for report in reports) < 2:
            reports.append(next(looks))
            assert len(reports) < 100
        assert sum(report.rejected for report in reports) == 0, engine.home.catalog.rows(REJECTED)


# -- the end of a run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_behind_its_batch(number: signal.Signals, code: int, ignored: bool, engine: Engine) -> None:
    """Also a run that a shell started in the background, with Ctrl-C's signal ignored."""
    root = engine.home.root
    engine.close()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "xscl", "run", "--every", "1 h", "--home", str(root)]

    def before() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL)

    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=before) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("batch 1: 2 events")
        process.send_signal(number)
        assert "ending" in process.stderr.read()
        assert process.wait(120) == code
    with xscl.connect(home=root) as again:
        assert again.run_once() == [] and len(matched(again)) == 1


def test_ctrl_c_while_java_tells_its_version(tmp_path: Path) -> None:
    """A terminal sends the signal to all processes of its group; Java's own end is no lack of Java."""
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\necho started > '" + str(tmp_path / "began") + "'\nsleep 1\necho 'openjdk version \"17.0.1\"' >&2\n"
    )
    java.chmod(0o755)
    program = (
        "import signal; from xscl.spark.java import java_version; signal.signal(signal.SIGINT, lambda *_: None);"
        "print(java_version()[0])"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("JAVA_HOME", None)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_for((tmp_path / "began").exists)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert out.strip() == "17", err


def test_following_goes_on_after_what_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.ndjson").write_text('{"channel": "S", "id": "1", "xml": "<a/>"}\n')
    monkeypatch.setattr("sys.argv", ["xscl", "ingest", "e.ndjson", "--follow", "--every", "1ms"])
    monkeypatch.chdir(tmp_path)
    xscl.connect(home="xscl-home").close()
    tried = []

    def at(name: str) -> None:
        if name == "intake.commit":
            tried.append(name)
            if len(tried) == 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sleep(seconds: float) -> None:
        if len(tried) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    with hooked(at), pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code in (0, None), said
    assert "XSCL_DISK_FULL" in said and "it is tried again" in said
    assert said.endswith("stopped; in all:\n1 event taken\n")
    with xscl.connect(home="xscl-home") as engine:
        assert engine.home.catalog.ask(read_last_places) == (0, 1)


def test_patience_grows_and_has_an_end() -> None:
    said: list[str] = []
    patience = Patience(said.append, most_s=10)
    busy = XsclError("XSCL_CATALOG_BUSY", "locked")
    assert [patience.wait_s(busy) for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert len(said) == 1
    patience.went_well()
    assert said[1:] == ["it goes on after 6 tries"]
    assert patience.wait_s(busy) == 1 and len(said) == 3
    assert patience.wait_s(XsclError("XSCL_CATALOG_GONE", "gone")) is None
    assert patience.wait_s(ValueError()) is None
    patience.went_well()
    batch = XsclError("XSCL_BATCH", "failed")
    assert [patience.wait_s(batch) for _ in range(5)] == [1, 2, 4, 8, None]
