"""The four folders are one package, and each part imports only what it may."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import xscl

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PARTS = ("xpath", "templates", "ingest")
FLOORS = (
    ("base",),
    PARTS,
    ("spark",),
    ("language",),
    ("catalog",),
    ("planning", "store", "registry"),
    ("batches", "intake"),
    ("answers", "upkeep"),
    ("engine",),
    ("", "demo"),
    ("bench", "service"),
    ("cli",),
)
"""Rooms from the ground up; "" has the public names.  A room imports itself and rooms of lower floors."""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
ALLOWED = {
    "pyspark": {
        "xscl.batches.attempt",
        "xscl.batches.history_walk",
        "xscl.ingest.spark_sources",
        "xscl.spark.session",
        "xscl.spark.connect_session",
        "xscl.spark.class_archive",
        "xscl.spark.start_cost",
        "xscl.spark.start_times",
        "xscl.batches.batch",
        "xscl.answers.sql.frames",
        "xscl.spark.job_counter",
        "xscl.spark.own_functions",
        "xscl.spark.places",
        "xscl.spark.nodes",
        "xscl.spark.worker_daemon",
        "xscl.answers.once.once",
        "xscl.answers.once.sub_queries",
        "xscl.batches.level",
        "xscl.answers.spark_sources.channels",
        "xscl.answers.spark_sources.sessions",
        "xscl.answers.spark_sources.common",
        "xscl.answers.spark_sources.matches",
        "xscl.answers.sql.sources",
        "xscl.answers.sql.views",
        "xscl.cli.make_class_archive",
        "xscl.cli.sql",
        "xscl.engine.answering",
        "xscl.engine.engine",
        "xscl.engine.ingesting",
        "xscl.engine.opened",
        "xscl.engine.registering",
        "xscl.intake.frame_intake",
        "xscl.intake.task_faults",
        "xscl.intake.jdbc",
        "xscl.service.api.sql",
    },
    "lxml": {
        "xscl.base.document_limits",
        "xscl.base.safe_xml",
        "xscl.base.xml_runs",
        "xscl.language.selection",
        "xscl.answers.headline",
        "xscl.answers.marked_document",
        "xscl.bench.matching",
        "xscl.bench.news_joins",
    },
    "matplotlib": {"xscl.bench.plot"},
    "httpx2": {"xscl.intake.polling"},
    "fastapi": set(),
    "uvicorn": {"xscl.service.server", "xscl.service.connections"},
    "jinja2": {"xscl.service.console.pages"},
    "prometheus_client": {"xscl.service.metrics"},
    "sqlglot": {
        "xscl.answers.sql.counts",
        "xscl.answers.sql.guard",
        "xscl.answers.sql.sizes",
        "xscl.answers.sql.times",
        "xscl.answers.sql.tokens",
    },
}
WHOLE = {
    "pyspark": ("xscl.bench.",),
    "lxml": ("xscl.xpath.", "xscl.ingest."),
    "matplotlib": (),
    "httpx2": ("xscl.ingest.",),
    "fastapi": ("xscl.service.",),
    "uvicorn": (),
    "jinja2": (),
    "prometheus_client": (),
    "sqlglot": (),
}


def sources() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for folder, _, files in os.walk(ROOT / "xscl", followlinks=True):
        package = ".".join(Path(folder).relative_to(ROOT).parts)
        for path in (Path(folder, name) for name in files if name.endswith(".py")):
            found[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    return found


SOURCES = sources()
PROGRAMS = {"xscl.__main__"}
"""Modules that do something when they are imported."""


@cache
def nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Assign, ...]:
    """The imports and assignments of a file, anywhere in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign))


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere in it; names taken from a package count as its modules."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path.name}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in SOURCES else node.module for name in names)


of_sources = pytest.mark.xdist_group("sources")
"""Marks tests of a whole run that share what is read of all modules."""


def top(module: str) -> str:
    return module.partition(".")[0]


def test_every_folder_of_modules_is_a_package() -> None:
    assert all((path.parent / "__init__.py").is_file() for path in SOURCES.values())
    outside = {path for part in ("xscl", *PARTS) for path in (ROOT / part).rglob("*.py")}
    assert {path.resolve() for path in SOURCES.values()} == {path.resolve() for path in outside}


def test_a_wheel_has_every_module(tmp_path: Path) -> None:
    tree = shutil.copytree(
        ROOT, tmp_path / "tree", symlinks=True, ignore=shutil.ignore_patterns(".*", "build", "tests")
    )
    made = f"from setuptools.build_meta import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", made], cwd=tree, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if name.endswith(".py")}
        assert any(name.startswith("xscl/service/console/html/") for name in wheel.namelist())
        assert any(name.startswith("xscl/service/console/static/") for name in wheel.namelist())
    assert names == {path.relative_to(ROOT).as_posix() for path in SOURCES.values()}


def test_modules_can_be_imported() -> None:
    for module in sorted(set(SOURCES) - PROGRAMS):
        found = importlib.import_module(module)
        assert found.__name__ == module
        assert found.__doc__, module
        assert Path(str(found.__file__)).resolve() == SOURCES[module].resolve()


@of_sources
def test_folders_are_not_imported_by_their_bare_names() -> None:
    for module, path in SOURCES.items():
        assert not {top(name) for name in imports(path)} & set(PARTS), module
    # To parse all tests takes long.
    bare = re.compile(rf"^\s*(?:from|import)\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*(?:{'|'.join(PARTS)})\b", re.MULTILINE)
    for wrong in ("from xpath.walk import x", "x = 1\n    import os.path as p, templates", "import ingest.csv"):
        assert bare.search(wrong), wrong
    for path in (ROOT / "tests").rglob("*.py"):
        assert not bare.search(path.read_text(encoding="utf-8")), path.name


def room(module: str) -> str:
    name = ".".join(module.split(".")[1:2])
    return name if name in FLOOR or SOURCES[module].stem == "__init__" else ""


def test_every_folder_is_a_room() -> None:
    assert {room(module) for module in SOURCES} == set(FLOOR)


def upward(module: str) -> Iterator[str]:
    """Imports of a module, in functions and for type checkers too, that do not go down."""
    for name in imports(SOURCES[module]):
        if top(name) == "xscl" and room(name) != room(module) and FLOOR[room(name)] >= FLOOR[room(module)]:
            yield f"{module} imports {name}"


@of_sources
def test_imports_go_down() -> None:
    assert [each for module in SOURCES if module not in PROGRAMS for each in upward(module)] == []


@of_sources
def test_no_modules_import_each_other_in_a_circle() -> None:
    after = {module: {name for name in imports(path) if name in SOURCES} for module, path in SOURCES.items()}
    del after["xscl"]  # the names it offers are imported when they are asked for
    while free := [module for module, needs in after.items() if not needs & set(after)]:
        for module in free:
            del after[module]
    assert sorted(after) == []


@of_sources
@pytest.mark.parametrize("library", sorted(ALLOWED))
def test_who_imports_a_library(library: str) -> None:
    found = {
        module
        for module, path in SOURCES.items()
        if library in map(top, imports(path)) and not module.startswith(WHOLE[library])
    }
    assert found == ALLOWED[library]


@of_sources
def test_only_what_is_declared_is_imported() -> None:
    optional = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *optional["bench"], *optional["serve"]]
    declared = {name.partition(">")[0].partition("=")[0].partition("[")[0].replace("-", "_") for name in wanted}
    known = declared | sys.stdlib_module_names | {"xscl", "py4j"}  # py4j is a part of pyspark
    known |= {"ahocorasick"} if "pyahocorasick" in declared else set()
    for module, path in SOURCES.items():
        assert set(map(top, imports(path))) <= known, module


def test_public_names() -> None:
    assert xscl.__all__ == sorted(xscl.__all__)
    assert len(set(xscl.__all__)) == len(xscl.__all__)
    for name in xscl.__all__:
        assert getattr(xscl, name).__name__ == name
    assert set(xscl.__all__) <= set(dir(xscl))
    assert xscl.__version__ == PROJECT["project"]["version"]
    with pytest.raises(AttributeError, match="no_such_name"):
        xscl.no_such_name  # noqa: B018


def test_names_that_a_module_offers() -> None:
    for module in sorted(set(SOURCES) - PROGRAMS - {"xscl"}):
        found = importlib.import_module(module)
        offered = getattr(found, "__all__", [])
        assert len(set(offered)) == len(offered), module
        assert [name for name in offered if not hasattr(found, name)] == [], module


def listed_modules(package: str) -> list[str]:
    """The modules and packages that a package lists in its documentation string."""
    lines = re.findall(r"^\* ([^:]*):", str(importlib.import_module(package).__doc__), re.MULTILINE)
    return [f"{package}.{name}" for line in lines for name in re.findall(r"``(\w+)``", line)]


PACKAGES = sorted(name for name, path in SOURCES.items() if path.stem == "__init__")
"""Rooms, and the packages in them."""


@pytest.mark.parametrize("package", [name for name in PACKAGES if name not in ("xscl", "xscl.demo")])
def test_packages_list_all_their_modules(package: str) -> None:
    assert sorted(listed_modules(package)) == sorted(name for name in SOURCES if name.rpartition(".")[0] == package)


def used(package: str) -> dict[str, set[str]]:
    """What each module or package right in a package imports of the others; a package with all that is in it."""
    depth = package.count(".") + 2
    found: dict[str, set[str]] = {name: set() for name in SOURCES if name.rpartition(".")[0] == package}
    for module, path in SOURCES.items():
        if (user := ".".join(module.split(".")[:depth])) in found:
            found[user] |= {".".join(name.split(".")[:depth]) for name in imports(path)} & found.keys() - {user}
    return found


@of_sources
@pytest.mark.parametrize("package", [name for name in PACKAGES if name.startswith(("xscl.xpath", "xscl.templates"))])
def test_modules_come_after_those_that_they_use_in_the_reading_order(package: str) -> None:
    listed, uses = listed_modules(package), used(package)
    for place, module in enumerate(listed):
        assert not uses[module] & set(listed[place:]), module


@of_sources
@pytest.mark.parametrize("room", [name for name in PACKAGES if name.count(".") == 1])
def test_no_packages_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    after = used(room)
    while free := [module for module, needs in after.items() if not needs & set(after)]:
        for module in free:
            del after[module]
    assert sorted(after) == []


def offered(path: Path) -> set[str]:
    """What a file's ``__all__`` lists."""
    assigned = [node for node in nodes(path) if isinstance(node, ast.Assign)]
    lists = [node.value for node in assigned if any(ast.unparse(target) == "__all__" for target in node.targets)]
    return {name for value in lists for name in ast.literal_eval(value)}


@of_sources
def test_modules_take_what_others_offer() -> None:
    names = {module: offered(path) for module, path in SOURCES.items()}
    taken = {
        (module, node.module, alias.name)
        for module, path in SOURCES.items()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module in SOURCES
        for alias in node.names
        if f"{node.module}.{alias.name}" not in SOURCES
    }
    assert len(taken) > 1_000
    wrong = {each for each in taken if each[2] not in names[each[1]] and not each[2].startswith("__")}
    assert wrong == set()


def test_examples_in_documentation_strings() -> None:
    attempted = 0
    # Most modules have none, and to look for them takes long.
    for module in sorted(name for name in set(SOURCES) - PROGRAMS if ">>>" in SOURCES[name].read_text()):
        result = doctest.testmod(importlib.import_module(module))
        assert result.failed == 0, module
        attempted += result.attempted
    assert attempted >= 10


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_importing_the_package_is_cheap() -> None:
    loaded = run("import sys, xscl; print(*sorted({name.partition('.')[0] for name in sys.modules}))").split()
    assert "xscl" in loaded
    assert not {"pyspark", "sqlalchemy", "lxml", "pandas", "pyarrow"} & set(loaded)


@pytest.mark.parametrize("module", ["xscl.xpath.witness", "xscl.templates.joins.find", "xscl.batches.tasks"])
def test_workers_do_without_spark_and_the_catalogue(module: str) -> None:
    loaded = run(f"import sys, {module}; print(*sys.modules)").split()
    assert not {"pyspark", "sqlalchemy"} & set(loaded)


def test_registration_does_without_spark() -> None:
    loaded = run("import sys, xscl.bench.register; print(*sys.modules)").split()
    assert "xscl.registry.registry" in loaded
    assert not {"pyspark", "matplotlib"} & set(loaded)


def test_an_engine_does_without_spark_and_the_network() -> None:
    """``xscl eval`` and ``xscl run`` start faster by half a second."""
    loaded = run("import sys, xscl.engine; print(*sys.modules)").split()
    assert "xscl.batches.batch" in loaded
    assert not {"pyspark", "sqlglot", "httpx2"} & set(loaded)


LISTINGS = [[noun, "list"] for noun in ("channel", "feed", "query", "late", "template")] + [["stats"]]


@pytest.mark.parametrize("arguments", [["--version"], ["init"], ["feed", "export"], ["--help"], *LISTINGS])
def test_commands_that_only_look_load_no_heavy_library(tmp_path: Path, arguments: list[str]) -> None:
    home = str(tmp_path / "home")
    importlib.import_module("xscl.store.home").init_home(home)
    code = f"""
import os, sys
os.environ["XSCL_HOME"] = {home!r}
sys.argv = ["xscl", *{arguments!r}]
from xscl.cli.app import app
try:
    app()
except SystemExit as ended:
    assert not ended.code
print("loaded", *sorted(sys.modules))
"""
    loaded = set(run(code).splitlines()[-1].split())
    assert {"loaded", "xscl"} <= loaded
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "sqlalchemy.dialects.postgresql"} & loaded
    if arguments in (["--version"], ["--help"]):
        assert "sqlalchemy" not in loaded
    if arguments in LISTINGS:
        assert not {"lxml", "httpx2", "xscl.language.compile", "xscl.language.syntax.parser"} & loaded
        others = {name for name in loaded if name.startswith("xscl.cli.")} - {"xscl.cli.options"}
        assert len(others) <= 10, others  # of forty


@pytest.mark.parametrize("arguments", [["evla"], ["eval"], ["query", "show"]])
def test_mistaken_commands_load_little(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["xscl", *{arguments!r}]
from xscl.cli.app import app
try:
    app()
except SystemExit as ended:
    assert ended.code == 2
print("loaded", *sorted(sys.modules))
"""
    loaded = set(run(code).splitlines()[-1].split())
    assert not {"pyspark", "pandas", "pyarrow", "numpy", "sqlalchemy"} & loaded
    others = {name for name in loaded if name.startswith("xscl.cli.")}
    assert arguments != ["evla"] or len(others) <= 4, others  # of forty


def processor_time(command: list[str]) -> float:
    """The processor time of one run, seconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_a_listing_starts_soon(tmp_path: Path) -> None:
    """Importing its two libraries is nearly all that a listing costs."""
    home = str(tmp_path / "home")
    importlib.import_module("xscl.store.home").init_home(home)
    listing = [sys.executable, "-m", "xscl", "query", "list", "--home", home]
    libraries = [sys.executable, "-c", "import sqlalchemy, typer"]
    listed, imported = [], []
    # The first run writes compiled modules.  What else the machine does slows both, and some runs more than others.
    for _ in range(12):
        listed.append(processor_time(listing))
        imported.append(processor_time(libraries))
        if min(listed) <= 1.4 * min(imported):
            return
    pytest.fail(f"a listing takes {min(listed):.3f} s, importing its libraries {min(imported):.3f} s")


def test_files_that_come_with_the_package() -> None:
    for folder in ("html", "static"):
        assert f"{folder}/*" in PROJECT["tool"]["setuptools"]["package-data"]["xscl.service.console"]
        assert list((ROOT / "xscl" / "service" / "console" / folder).iterdir())
    assert (ROOT / "xscl" / "py.typed").is_file()
    for pattern in PROJECT["tool"]["setuptools"]["package-data"]["xscl.demo"][:3]:
        assert list((ROOT / "xscl" / "demo").glob(pattern)), pattern


@pytest.mark.thorough
def test_type_checkers_see_what_make_installs(tmp_path: Path) -> None:
    text = 'from xscl.ingest.records import Rejected\nfrom xscl import Event\nreveal_type(Event("S"))\nRejected(1)\n'
    (tmp_path / "use.py").write_text(text, encoding="utf-8")
    # A run after another one checks what was changed.
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / "build" / "mypy"), "use.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert 'Revealed type is "xscl.base.types.Event"' in told, told
    assert "import-not-found" not in told and "import-untyped" not in told and "call-arg" in told, told
