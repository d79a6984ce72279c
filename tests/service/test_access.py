"""Who may do what: tokens, hosts, rates and sizes."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from time import sleep
from typing import Any

import httpx2
import pytest
from http_service import SAME, SETTINGS, XML, Running, running
from waiting import wait_for

from xscl.base.errors import CatalogError, EngineError
from xscl.catalog.tokens import add_token, revoke_token, set_limits
from xscl.engine import Engine
from xscl.service.access import _Rates
from xscl.service.api import matches
from xscl.service.server import make_server, serve
from xscl.store.home import init_home, open_home


def refusal(response: httpx2.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("urn:xscl:problem:")


def test_calls_without_a_token(served: Running) -> None:
    with served.client(None) as client:
        paths = client.get("/healthz").status_code, client.get("/readyz").status_code
        assert paths == (200, 200)
        for path in ("/v1/queries", "/metrics", "/openapi.json", "/v1/nothing"):
            found = client.get(path)
            assert refusal(found) == (401, "XSCL_UNAUTHORIZED")
            assert found.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("given", ["Bearer xscl_guess", "Bearer", "Basic eA==", "xscl_x", "Bearer \x80", "bearer a b"])
def test_tokens_that_are_none(served: Running, given: str) -> None:
    with served.client(None) as client:
        found = client.get("/v1/queries", headers=[(b"authorization", given.encode("latin-1"))])
        assert refusal(found) == (401, "XSCL_UNAUTHORIZED")


def test_scopes(served: Running) -> None:
    with served.client("read") as reader, served.client("write") as writer:
        assert reader.get("/v1/queries").status_code == 200
        assert refusal(reader.post("/v1/queries", json={"text": SAME})) == (403, "XSCL_FORBIDDEN")
        event = {"content": "<a/>", "headers": XML}
        assert refusal(reader.post("/v1/channels/S/events", **event)) == (403, "XSCL_FORBIDDEN")
        assert writer.post("/v1/channels/S/events", **event).status_code == 202
        assert refusal(writer.get("/v1/matches")) == (403, "XSCL_FORBIDDEN")
        assert refusal(writer.post("/v1/feeds", json={"url": "https://example.org"})) == (403, "XSCL_FORBIDDEN")


def test_a_revoked_token_is_refused_at_once(served: Running) -> None:
    catalog = served.service.home.catalog
    with catalog.begin() as connection:
        text = add_token(connection, "leaver", ["read"], 0)
    with httpx2.Client(base_url=served.address, headers={"authorization": f"Bearer {text}"}, timeout=120) as client:
        assert client.get("/v1/queries").status_code == 200
        with catalog.begin() as connection:
            revoke_token(connection, "leaver")
        assert refusal(client.get("/v1/queries")) == (401, "XSCL_UNAUTHORIZED")


def test_tokens_are_not_kept(served: Running) -> None:
    kept = "".join(str(row) for row in served.service.home.catalog.rows(_table()))
    assert "adminer" in kept
    assert not any(text in kept or text.removeprefix("xscl_") in kept for text in served.tokens.values())
    assert not any(text in line for line in served.log for text in served.tokens.values())


def _table() -> object:
    from xscl.catalog.tables import TOKENS

    return TOKENS


def test_queries_belong_to_the_holder_and_quotas_count_them(served: Running) -> None:
    served.service.engine.set_quotas(queries=1)
    try:
        with served.client("write") as writer:
            assert writer.post("/v1/queries", json={"name": "mine", "text": SAME}).status_code == 201
            assert refusal(writer.post("/v1/queries", json={"text": SAME})) == (403, "XSCL_TOO_MANY_QUERIES")
            assert writer.delete("/v1/queries/mine").status_code == 204
    finally:
        served.service.engine.set_quotas(queries=None)


def test_a_token_limits_queries_and_their_cost(served: Running) -> None:
    catalog = served.service.home.catalog
    with catalog.begin() as connection:
        text = add_token(connection, "guest", ["read", "write"], 0, queries=3, cost=10)
    with httpx2.Client(base_url=served.address, headers={"authorization": f"Bearer {text}"}, timeout=120) as guest:
        # Two values and a join of them.
        assert guest.post("/v1/queries/validate", json={"text": SAME}).json()["cost"] == 3
        for name in ("g1", "g2"):
            assert guest.post("/v1/queries", json={"name": name, "text": SAME}).status_code == 201
        two = "S//book->b[./author->a][./title->t] JOIN {a=c AND t=u, 1 h} S//blog->g[./author->c][./title->u]"
        refused = guest.post("/v1/queries", json={"text": two})
        assert refusal(refused) == (403, "XSCL_QUERY_COST")
        assert "live ones of owner 'guest' 6; the token allows 10" in refused.json()["detail"]
        # One text after another is counted; what is refused costs nothing.
        many = {"queries": [{"name": f"g{n}", "text": "S//book->b"} for n in (3, 4)]}
        found = guest.post("/v1/queries/bulk", json=many).json()
        assert [each["action"] for each in found["outcomes"]] == ["registered", "refused"]
        assert found["outcomes"][1]["problem"]["type"].endswith("XSCL_TOO_MANY_QUERIES")
        assert guest.delete("/v1/queries/g1").status_code == 204
        with catalog.begin() as connection:
            set_limits(connection, "guest", {"queries": None, "cost": 8})
        assert guest.post("/v1/queries", json={"name": "g5", "text": SAME}).status_code == 201
        assert refusal(guest.post("/v1/queries", json={"text": SAME})) == (403, "XSCL_QUERY_COST")
        # Others have what they had.
        with served.client("write") as writer:
            assert writer.post("/v1/queries", json={"name": "w1", "text": two}).status_code == 201


def test_lines_of_the_log(served: Running) -> None:
    with served.client("read") as client:
        client.get("/v1/queries%1b[31m", params={"after": "secret"})
    # The line is written behind the answer.
    wait_for(lambda: any("[31m" in line for line in served.log))
    line = next(line for line in reversed(served.log) if "[31m" in line)
    assert "secret" not in line
    assert "\x1b" not in line
    assert json.loads(line)["who"] == "reader"


def test_headers(client: httpx2.Client) -> None:
    headers = client.get("/v1/queries").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_bodies_over_the_limit(tmp_path: Path) -> None:
    with running(tmp_path / "home", replace(SETTINGS, max_body=1_000)) as served, served.client() as client:
        told = client.post("/v1/channels/S/events", content=b"x" * 1_001, headers=XML)
        assert refusal(told) == (413, "XSCL_BODY_LIMIT")
        in_chunks = client.post("/v1/channels/S/events", content=iter([b"x" * 600, b"x" * 600]), headers=XML)
        assert refusal(in_chunks) == (413, "XSCL_BODY_LIMIT")
        kind = {"content-type": "application/json"}
        as_json = client.post("/v1/queries", content=iter([b"x" * 600, b"x" * 600]), headers=kind)
        assert refusal(as_json) == (413, "XSCL_BODY_LIMIT")


def test_rates_and_streams(tmp_path: Path) -> None:
    settings = replace(SETTINGS, requests_per_s=2, streams=1)
    with running(tmp_path / "home", settings) as served, served.client("read") as client:
        with client.stream("GET", "/v1/matches/stream") as stream:
            lines = stream.iter_lines()  # the stream is closed with it
            next(lines)
            refused = client.get("/v1/matches/stream")
            assert refusal(refused) == (429, "XSCL_TOO_MANY_STREAMS")
        answers = (client.get("/v1/queries") for _ in range(200))
        late = next(response for response in answers if response.status_code == 429)
        assert refusal(late) == (429, "XSCL_TOO_MANY_REQUESTS")
        assert int(late.headers["retry-after"]) >= 1
        with served.client("write") as other:
            assert other.get("/v1/queries").status_code == 403  # tokens have rates of their own


def test_streams_that_are_opened_at_once_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_page, all_told = matches.read_page, Barrier(6)

    def slow_page(*given: Any) -> object:
        sleep(0.2)  # so that all are asked for before the first one begins
        return read_page(*given)

    monkeypatch.setattr(matches, "read_page", slow_page)
    with running(tmp_path / "home", replace(SETTINGS, streams=2)) as served, ThreadPoolExecutor(6) as threads:

        def status(_: int) -> int:
            with served.client("read") as client, client.stream("GET", "/v1/matches/stream") as stream:
                all_told.wait(60)
                return stream.status_code

        assert sorted(threads.map(status, range(6))) == [200] * 2 + [429] * 4
        wait_for(lambda: not +served.service.open_streams)


def test_guesses_are_slowed_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.service.access._GUESSES_PER_S", 1.0)  # also a busy machine guesses more
    with running(tmp_path / "home", SETTINGS) as served, served.client(None) as client, served.client("read") as known:
        answers = (client.get("/v1/queries", headers={"authorization": f"Bearer xscl_{n}"}) for n in range(20))
        late = next(response for response in answers if response.status_code != 401)
        assert refusal(late) == (429, "XSCL_TOO_MANY_REQUESTS")
        assert known.get("/healthz").status_code == 200


def test_a_rate_by_the_clock() -> None:
    now = 0.0
    rates = _Rates(10, lambda: now)
    assert [rates.wait_s("a") for _ in range(20)] == [0.0] * 20
    assert rates.wait_s("a") == pytest.approx(0.1)
    assert rates.wait_s("b") == 0
    now = 0.1
    assert [rates.wait_s("a") > 0 for _ in range(2)] == [False, True]


def test_without_tokens_other_hosts_and_sites_are_refused(tmp_path: Path) -> None:
    with running(tmp_path / "home", replace(SETTINGS, auth=False)) as served, served.client(None) as client:
        assert client.get("/v1/queries").status_code == 200
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}, {"host": ""}):
            assert refusal(client.get("/v1/queries", headers=headers)) == (403, "XSCL_FORBIDDEN_HOST")
        port = served.address.rpartition(":")[2]
        for headers in ({"host": f"localhost:{port}"}, {"host": f"[::1]:{port}", "origin": f"http://localhost:{port}"}):
            assert client.get("/v1/queries", headers=headers).status_code == 200


def test_without_tokens_the_service_stays_on_this_machine(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        with pytest.raises(EngineError, match="XSCL_BAD_OPTION"):
            make_server(engine, replace(SETTINGS, auth=False, host="0.0.0.0"), print)
        taken = socket.create_server(("127.0.0.1", 0))
        with taken, pytest.raises(EngineError, match="XSCL_ADDRESS_IN_USE"):
            make_server(engine, replace(SETTINGS, port=taken.getsockname()[1]), print)


def test_a_service_that_cannot_begin_says_why(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = init_home(tmp_path / "home")
    in_use = pytest.raises(CatalogError, match="XSCL_HOME_IN_USE")
    with Engine(home) as batches, batches.alone(), Engine(open_home(home.root)) as engine, in_use:
        serve(engine, SETTINGS, log=print, ready=print)
    with Engine(open_home(home.root)) as engine, pytest.raises(EngineError, match="'3x' is no duration"):
        serve(engine, replace(SETTINGS, every="3x"), log=print, ready=print)
    assert "Traceback" not in capfd.readouterr().err
