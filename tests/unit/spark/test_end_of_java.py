"""Failures by which a process notices that its Java has ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from py4j.protocol import ERROR, Py4JError, Py4JNetworkError, get_return_value
from pyspark import SparkContext

from xscl.spark.session import spark_has_gone


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Java that still runs when its connections have ended."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield


def call_cut_off() -> Exception:
    """Return what py4j raises where the connection of a call ends under way."""
    with pytest.raises(Py4JError) as caught:
        get_return_value(ERROR, None, "o149", "getResult")
    return caught.value


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("error", [call_cut_off(), Py4JNetworkError("Answer from Java side is empty"), EOFError()])
def test_a_connection_that_ends_before_java_does_tells_of_its_end(error: Exception) -> None:
    assert spark_has_gone(error)


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize("error", [ValueError("x"), Py4JError("An error occurred while calling o1.f. Trace:\nx")])
def test_other_failures_do_not_wait_for_an_end(error: Exception) -> None:
    assert not spark_has_gone(error)
