"""A service that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from http_service import SETTINGS, Running, running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "home", SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[httpx2.Client]:
    with served.client() as found:
        yield found
