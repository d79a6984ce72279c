"""Javas of tests start from the classes that earlier sessions on this machine have kept, and prepare for few rows."""

from __future__ import annotations

import os

import pytest

from xscl.base.errors import EngineError
from xscl.spark.class_archive import SWITCH, find_archive, reading_options
from xscl.spark.java import java_version

FEW_ROWS = {
    # Rows are sooner walked than code for them is compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Pages of 32 megabytes, which Spark takes otherwise, soon fill the heap, and queries wait for the collector.
    "spark.buffer.pageSize": "1m",
}
"""Settings of sessions that have few rows."""
_OPTIONS = "SPARK_SUBMIT_OPTS"


def use_kept_classes() -> None:
    """Have every Java that this process and its programs start from now on read the user's archive of classes.

    Tests make none and change none: they leave nothing in the user's cache.
    """
    options = kept_classes()
    if options and "SharedArchiveFile" not in os.environ.get(_OPTIONS, ""):
        os.environ[_OPTIONS] = " ".join([os.environ.get(_OPTIONS, ""), *options])


def kept_classes() -> list[str]:
    """Return the options with which a Java of Spark reads the user's archive of classes, if there is one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(SWITCH, raising=False)
        try:
            archive = find_archive(java_version()[1])
        except EngineError:
            return []
    made = archive.path() if archive is not None else None
    return [] if made is None else list(reading_options(made))
