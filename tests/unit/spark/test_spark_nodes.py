"""What is said of an executor that lacks something, and the function that tells it."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from pyspark import cloudpickle

from xscl.base.version import VERSION
from xscl.spark.nodes import NEEDED, Node, _node, _probe

PACKAGES = {"xscl": VERSION, **{name: version(name) for name in NEEDED}}
GOOD = Node("h", "/w/0", "/bin/python", "3.11.7", PACKAGES, "", "")


def test_a_node_that_has_all_has_no_problem() -> None:
    assert GOOD.problems() == [] == GOOD.differences() and GOOD.name == "h (/w/0)"


def test_each_problem_has_its_condition_and_advice() -> None:
    poor = replace(GOOD, packages={**PACKAGES, "xscl": "", "lxml": ""}, home="No such file or directory: /home")
    assert [(condition, bool(advice)) for condition, _, advice in poor.problems()] == [
        ("XSCL_WORKER", True),
        ("XSCL_FILE_NOT_SHARED", True),
    ]
    assert "lacks xscl, lxml" in poor.problems()[0][1]
    ((condition, said, _),) = replace(GOOD, packages={**PACKAGES, "xscl": "0.0.1"}).problems()
    assert condition == "XSCL_WORKER" and "has xscl 0.0.1" in said
    ((condition, said, _),) = replace(GOOD, writing="Read-only file system").problems()
    assert condition == "XSCL_READ_ONLY" and "Read-only file system" in said


def test_another_version_of_a_package_is_told() -> None:
    assert replace(GOOD, packages={**PACKAGES, "numpy": "1.0"}).differences() == [f"numpy 1.0, here {version('numpy')}"]


def test_a_node_tells_what_it_has_and_whether_it_sees_the_home(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    # As executors get it: by its code, without our modules.
    packed = cloudpickle.dumps(_probe(str(tmp_path), "t"))  # type: ignore[no-untyped-call]
    assert b"xscl.base" not in packed
    node = _node(json.loads(cloudpickle.loads(packed)(0)), {path.name for path in tmp_path.iterdir()})
    assert node.problems() == [] and node.packages == PACKAGES
    # A folder of its own at the same path: another content, or what it writes there does not come here.
    other = _node(json.loads(_probe(str(tmp_path), "another")(0)), set())
    assert "another content" in other.home
    apart = _node(json.loads(_probe(str(tmp_path), "t")(0)), set())
    assert [condition for condition, _, _ in apart.problems()] == ["XSCL_FILE_NOT_SHARED"]
    gone = _node(json.loads(_probe(str(tmp_path / "no"), "t")(0)), set())
    assert "No such file" in gone.home and not gone.writing
