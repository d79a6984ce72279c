"""Functions of one's own on their way to tasks of Spark.

A function goes with the task, with all of its own module that it uses, so that module need not be there where tasks
run.  Other modules that it imports must be.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from xscl.base.own_functions import OwnFunction, load_functions, loaded_functions

__all__ = ["packed_functions", "unpack_functions"]


def packed_functions(full: Collection[str]) -> tuple[bytes, ...]:
    """Return functions as tasks load them, by their names in definitions."""
    return tuple(_packed(each) for each in loaded_functions() if each.full in full)


@lru_cache(maxsize=1_000)
def _packed(function: OwnFunction) -> bytes:
    from pyspark import cloudpickle

    module = sys.modules.get(getattr(function.call, "__module__", None) or "")
    pickles: Any = cloudpickle
    by_value = module is not None and module.__name__ not in pickles.list_registry_pickle_by_value()
    if by_value:
        pickles.register_pickle_by_value(module)
    try:
        packed: bytes = pickles.dumps(function)
    finally:
        if by_value:
            pickles.unregister_pickle_by_value(module)
    return packed


def unpack_functions(packed: tuple[bytes, ...]) -> None:
    """Make functions known to the process of a task."""
    for each in packed:
        _unpack(each)


@lru_cache(maxsize=1_000)
def _unpack(packed: bytes) -> None:
    load_functions([pickle.loads(packed)])
