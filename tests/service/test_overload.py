"""A service that is sent more than it takes: it refuses for a while, and keeps all that it acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from http_service import SETTINGS, XML, Running, running

from xscl.catalog.tokens import list_tokens
from xscl.service.settings import ServiceSettings
from xscl.service.turns import _OF_HOLDER

SENDERS, ENOUGH = 8, 20
LIMITS = {
    "waiting": (replace(SETTINGS, max_waiting=1), 503, "XSCL_BUSY"),
    "behind": (replace(SETTINGS, max_behind=10, apart_s=0.5), 503, "XSCL_BUSY"),
    "rate": (replace(SETTINGS, requests_per_s=20), 429, "XSCL_TOO_MANY_REQUESTS"),
}


class Flood:
    """Threads that push as fast as they can, and remember what they were told."""

    def __init__(self, served: Running) -> None:
        self.served = served
        self.acknowledged: set[str] = set()
        self.refused: list[httpx2.Response] = []
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, sender: int) -> None:
        with self.served.client("write") as client:
            number = 0
            # A busy machine takes longer until there is overload.
            until = time.monotonic() + 120
            while min(len(self.refused), len(self.acknowledged)) < ENOUGH:
                assert time.monotonic() < until
                id_ = f"{sender}-{number}"
                body = f"<d><key>{id_}</key></d>"
                answer = client.post("/v1/channels/S/events", params={"id": id_}, content=body, headers=XML)
                if answer.status_code == 202:
                    self.acknowledged.add(id_)
                else:
                    self.refused.append(answer)
                    time.sleep(0.01)
                number += 1


@pytest.mark.parametrize("limit", LIMITS)
def test_overload_refuses_and_loses_nothing(limit: str, tmp_path: Path) -> None:
    settings, status, condition = LIMITS[limit]
    assert isinstance(settings, ServiceSettings)
    with running(tmp_path / "home", settings) as served:
        served.service.engine.register("S->s[./key->k]", name="all")
        flood = Flood(served)
        served.settled()
        found = Counter(match.events[0].id for match in served.service.engine.matches("all", after="start"))
    for answer in flood.refused:
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:xscl:problem:{condition}")
        assert int(answer.headers["retry-after"]) >= 1
    # All that was acknowledged is answered once, and nothing that was refused was taken.
    assert found == Counter(flood.acknowledged)


@pytest.mark.parametrize("path", ["/v1/matches/count", "/v1/matches/abc", "/matches/abc"])
def test_calls_that_look_through_all_matches_take_turns(path: str, tmp_path: Path) -> None:
    with running(tmp_path / "home", SETTINGS) as served, served.client() as client:
        assert client.get(path).status_code != 503
        turns = served.service.turns
        holders = Counter({token.name: _OF_HOLDER for token in served.service.home.catalog.ask(list_tokens)})
        turns._asked += holders
        refused = client.get(path)
        assert refused.status_code == 503 and "XSCL_BUSY" in refused.text
        turns._asked -= holders
        assert client.get(path).status_code != 503
