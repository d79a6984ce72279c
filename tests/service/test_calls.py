"""Queries, matches and the other calls over HTTP."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import httpx2
import pytest
from budget import THOROUGH
from http_service import SAME, SETTINGS, XML, Running, events, running
from waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def push(client: httpx2.Client, id_: str, body: str, ts: int) -> float:
    response = client.post("/v1/channels/S/events", content=body, headers=XML, params={"id": id_, "ts": ts})
    assert response.json()["taken"] == 1
    return time.monotonic()


def test_parameters_of_any_allowed_length_are_answered(client: httpx2.Client) -> None:
    """Escaped, each character of these takes twelve bytes, which is more than the client of other tests sends."""
    connection = HTTPConnection(client.base_url.host, client.base_url.port)
    for length, status in ((4_000, 404), (4_001, 422)):
        asked = urlencode({"feed": "\U0001f600" * length, "item": "\U0001f600" * length})
        connection.request("GET", f"/v1/items/one?{asked}", headers={"authorization": client.headers["authorization"]})
        found = connection.getresponse()
        assert (found.status, found.headers["content-type"]) == (status, "application/problem+json")
        found.read()
    connection.close()


def test_registering_listing_and_dropping(client: httpx2.Client) -> None:
    made = client.post("/v1/queries", json={"name": "one", "text": SAME})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/queries/one")
    shown = client.get("/v1/queries/one").json()
    assert (shown["owner"], shown["state"], shown["text"]) == ("adminer", "live", SAME)
    again = client.post("/v1/queries", json={"name": "one", "text": SAME})
    assert (again.status_code, again.json()["type"]) == (409, "urn:xscl:problem:XSCL_NAME_TAKEN")
    explained = client.get("/v1/queries/one/explain").json()
    assert explained["template"] == shown["template"]
    assert client.get(f"/v1/templates/{shown['template']}").json()["examples"] == ["one"]
    assert [each["template"] for each in client.get("/v1/templates").json()["templates"]] == [shown["template"]]
    assert client.delete("/v1/queries/one").status_code == 204
    gone = client.get("/v1/queries/one")
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:xscl:problem:XSCL_QUERY_NOT_FOUND")


def test_a_refused_text_has_its_place(client: httpx2.Client) -> None:
    text = "S//book->b[./author->a]\nFOLLOWED {a=c, 7 days} S//blog->g[./author->c]"
    for path in ("/v1/queries", "/v1/queries/validate"):
        refused = client.post(path, json={"name": "bad", "text": text})
        found = refused.json()
        assert (refused.status_code, found["type"]) == (422, "urn:xscl:problem:XSCL_SYNTAX")
        assert (found["line"], found["column"]) == (2, 10)
        assert found["caret"] == "FOLLOWED {a=c, 7 days} S//blog->g[./author->c]\n         ^"


def test_a_query_is_answered_once(served: Running, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for id_, name in (("o1", "book"), ("o2", "blog")):
        push(client, id_, f"<{name}><author>Once</author></{name}>", 40)
    asked = {"text": SAME.replace("FOLLOWED BY", "JOIN"), "name": "ever"}
    with served.client("read") as reader:
        found = reader.post("/v1/queries/run", json=asked)
        assert found.headers["content-type"].startswith("application/x-ndjson"), found.text
        first, *_, end = map(json.loads, found.text.splitlines())
        assert (first["query"], [each["id"] for each in first["events"]]) == ("ever", ["o1", "o2"])
        assert end == {"end": None, "notes": []}
        assert [*map(json.loads, reader.post("/v1/queries/run", json=asked | {"limit": 0}).text.splitlines())] == [end]
        wrong = reader.post("/v1/queries/run", json={"text": "S//["}).json()
        assert (wrong["type"], wrong["column"]) == ("urn:xscl:problem:XSCL_SYNTAX", 4)
    # A process that takes too long, says too much or lacks memory ends, and the service goes on.
    for limits, status, condition in (
        ({"sql_s": 0.01}, 504, "XSCL_RUN_TIME"),
        ({"answer_bytes": 10}, 422, "XSCL_RUN_SIZE"),
        ({"run_bytes": 1024 * 1024}, 422, "XSCL_RUN_SIZE"),
    ):
        monkeypatch.setattr(served.service, "settings", replace(SETTINGS, **limits))
        refused = client.post("/v1/queries/run", json=asked)
        assert (refused.status_code, refused.json()["type"]) == (status, f"urn:xscl:problem:{condition}")
    assert client.get("/v1/queries").status_code == 200
    assert "ever" not in client.get("/v1/queries").text


def test_names_of_any_letters(client: httpx2.Client) -> None:
    for name in ("Ⱥ", "é", "名"):
        found = client.post("/v1/queries", json={"name": name, "text": "S//letters"})
        assert found.status_code == 201, found.text
        assert client.get(found.headers["location"]).json()["name"] == name
        assert client.delete(found.headers["location"]).status_code == 204


def test_validating_registers_nothing(client: httpx2.Client, served: Running) -> None:
    with served.service.registering:  # nothing waits for it that only checks a text
        found = client.post("/v1/queries/validate", json={"text": SAME}, timeout=20).json()
    assert found["channels"] == ["S"]
    assert client.get("/v1/queries", params={"like": "once*"}).json() == {"queries": [], "after": None}


def test_a_text_has_no_code_imported(client: httpx2.Client) -> None:
    """Functions are those that the service was given; a text names no others."""
    for text in ("S[os.system(./a) = 'x']", "S[antigravity(./a) = 'x']", "S->x JOIN {this(x) = y, 1 h} S->y"):
        for path in ("/v1/queries/validate", "/v1/queries/run"):
            found = client.post(path, json={"text": text}, timeout=20)
            assert found.json()["type"] == "urn:xscl:problem:XSCL_UNKNOWN_FUNCTION", found.text
    assert sys.modules.keys().isdisjoint({"antigravity", "this"})


def test_many_queries_and_pages(client: httpx2.Client) -> None:
    given = [{"name": f"page{n}", "text": SAME.replace("7 days", f"{n + 1} days")} for n in range(7)]
    found = client.post("/v1/queries/bulk", json={"queries": [*given, {"name": "page7", "text": "(nonsense"}]}).json()
    assert (found["taken"], found["refused"]) == (7, 1)
    assert found["outcomes"][7]["problem"]["type"] == "urn:xscl:problem:XSCL_SYNTAX"
    names, after = [], None
    while True:
        page = client.get("/v1/queries", params={"like": "page*", "limit": 3, **({"after": after} if after else {})})
        names += [each["name"] for each in page.json()["queries"]]
        after = page.json()["after"]
        if after is None:
            break
    assert names == [f"page{n}" for n in range(7)]
    script = "".join(f"DROP QUERY page{n};\n" for n in range(7))
    assert client.post("/v1/queries/bulk", json={"script": script}).json()["taken"] == 7


def test_all_or_none(client: httpx2.Client) -> None:
    given = [{"name": "good", "text": SAME}, {"name": "bad", "text": "(nonsense"}]
    found = client.post("/v1/queries/bulk", json={"queries": given, "atomic": True}).json()
    assert found["taken"] == 0
    assert client.get("/v1/queries/good").status_code == 404


def test_matches_come_live_and_streams_go_on(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.service.api.matches._QUIET_S", 3_600.0)  # a stream that is not told would wait
    with served.client() as client, served.client("read") as reader:
        client.post("/v1/queries", json={"name": "live", "text": SAME})
        with reader.stream("GET", "/v1/queries/live/matches/stream") as stream:
            found = events(stream)
            push(client, "b1", "<book><author>A</author></book>", 1)
            push(client, "g1", "<blog><author>A</author></blog>", 2)
            first = next(found)
        assert first["event"] == "match"
        assert [each["id"] for each in first["data"]["events"]] == ["b1", "g1"]
        push(client, "g2", "<blog><author>A</author></blog>", 3)
        served.settled()
        with reader.stream(
            "GET", "/v1/queries/live/matches/stream", headers={"last-event-id": first["id"]}
        ) as stream:  # fmt: skip
            second = next(events(stream))
        assert [each["id"] for each in second["data"]["events"]] == ["b1", "g2"]
        page = reader.get("/v1/queries/live/matches", params={"limit": 1}).json()
        assert [each["cursor"] for each in page["matches"]] == [first["id"]] == [page["cursor"]]
        page = reader.get("/v1/matches", params={"after": page["cursor"]}).json()
        assert [each["match"] for each in page["matches"]] == [second["data"]["match"]]
        end = reader.get("/v1/queries/live/matches", params={"after": page["cursor"]}).json()
        assert end == {"matches": [], "cursor": page["cursor"]}
        one = reader.get(f"/v1/matches/{second['data']['match'][:12]}").json()
        assert one["match"] == second["data"]["match"]
        assert reader.get("/v1/matches/zzz").status_code == 404
        client.delete("/v1/queries/live")
        assert len(reader.get("/v1/queries/live/matches").json()["matches"]) == 2


def test_streams_and_pages_that_are_refused(client: httpx2.Client) -> None:
    for path in ("/v1/queries/none/matches", "/v1/queries/none/matches/stream"):
        assert client.get(path).json()["type"] == "urn:xscl:problem:XSCL_QUERY_NOT_FOUND"
    for path in ("/v1/matches", "/v1/matches/stream"):
        assert client.get(path, params={"after": "c1;drop"}).json()["type"] == "urn:xscl:problem:XSCL_BAD_CURSOR"


def test_channels(client: httpx2.Client) -> None:
    new = {"name": "readings", "kind": "rows", "columns": "room string, temp double", "lateness": "1 h"}
    assert client.post("/v1/channels", json=new).status_code == 201
    found = {each["channel"]: each for each in client.get("/v1/channels").json()["channels"]}
    assert found["readings"]["schema"] == "room string, temp double"
    assert client.post("/v1/channels", json=new).status_code == 409
    assert client.post("/v1/channels", json={**new, "name": "r2", "columns": "room nothing"}).status_code == 400
    assert client.delete("/v1/channels/readings").status_code == 204
    assert client.delete("/v1/channels/readings").status_code == 404
    made = client.post("/v1/channels", json={"name": "bbc", "of": "news"}).json()
    assert made == {"channel": "bbc", "notes": ["there was no channel 'news', so it was made, for documents"]}


def test_feeds(client: httpx2.Client) -> None:
    assert client.post("/v1/feeds", json={"url": "https://example.org/a.xml", "interval": "30 min"}).status_code == 201
    assert client.post("/v1/feeds", json={"url": "https://example.org/a.xml"}).status_code == 409
    assert client.post("/v1/feeds", json={"url": "http://127.0.0.1/a.xml"}).status_code == 403
    assert client.post("/v1/feeds", json={"url": "file:///etc/passwd"}).status_code == 400
    opml = '<opml version="2.0"><body><outline type="rss" xmlUrl="https://example.org/b.xml" text="b"/></body></opml>'
    found = client.post("/v1/feeds/import", content=opml, headers={"content-type": "text/x-opml"}).json()
    assert [each["action"] for each in found["feeds"]] == ["added"]
    listed = [each["feed"] for each in client.get("/v1/feeds").json()["feeds"]]
    assert listed == ["https://example.org/a.xml", "https://example.org/b.xml"]
    assert client.post("/v1/feeds/fetch", json={"urls": ["https://example.org/c.xml"]}).status_code == 404
    for url in listed:
        assert client.delete("/v1/feeds", params={"url": url}).status_code == 204


def test_batches_stats_and_figures(served: Running, client: httpx2.Client) -> None:
    push(client, "figures", "<book><author>Z</author></book>", 9)
    served.settled()
    # No batch is listed that takes a registration alone, and none is counted.
    client.post("/v1/queries", json={"name": "figures", "text": "S//nothing"})
    served.settled()
    listed = client.get("/v1/batches", params={"limit": 1000}).json()["batches"]
    last = listed[-1]
    assert client.get("/v1/batches", params={"after": last["batch"] - 1}).json()["batches"] == [last]
    stats = client.get("/v1/stats").json()
    assert (stats["lag"], stats["running"], stats["problem"]) == (0, True, None)

    def told() -> dict[str, str]:
        lines = client.get("/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    wait_for(lambda: float(told()["xscl_batches_total"]) >= len(listed))  # counted behind the commit
    figures = told()
    assert float(figures["xscl_lag_places"]) == 0
    assert float(figures["xscl_engine_running"]) == 1
    assert float(figures['xscl_pushed_events_total{outcome="taken"}']) >= 1
    assert float(figures["xscl_batches_total"]) == float(figures["xscl_batch_seconds_count"]) == len(listed)
    assert float(figures["xscl_matches_total"]) == sum(each["matches"] for each in listed)


def test_health(served: Running) -> None:
    with served.client(None) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").json() == {"status": "ready"}


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/queries/a/b/c", "/v1"])
def test_calls_that_do_not_exist(client: httpx2.Client, path: str) -> None:
    found = client.get(path)
    assert (found.status_code, found.json()["type"]) == (404, "urn:xscl:problem:XSCL_NO_SUCH_CALL")
    assert "/openapi.json" in found.json()["hint"]


def test_the_nearest_call_is_named(client: httpx2.Client) -> None:
    assert "'/v1/queries'" in client.get("/v1/query").json()["hint"]


def test_methods_that_do_not_exist(client: httpx2.Client) -> None:
    found = client.put("/v1/queries")
    assert (found.status_code, found.json()["type"]) == (405, "urn:xscl:problem:XSCL_BAD_METHOD")
    assert found.headers["allow"] == "GET, HEAD, POST" and "GET, HEAD, POST" in found.json()["hint"]


def test_what_answers_get_answers_head(client: httpx2.Client) -> None:
    for path in ("/readyz", "/v1/channels", "/v1/matches.ndjson", "/openapi.json", "/login", "/v1/queries/nobody"):
        whole, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert head.headers.get("content-length") == whole.headers.get("content-length")
    for path in ("/v1/matches/stream", "/v1/sql"):
        refused = client.head(path)
        assert refused.status_code == 405 and "HEAD" not in refused.headers["allow"], path


def test_parameters_that_no_call_knows(client: httpx2.Client) -> None:
    """Each call that is described is asked with one, and one more that stands twice."""
    asked = 0
    for path, calls in client.get("/openapi.json").json()["paths"].items():
        for method, call in calls.items():
            if not path.startswith("/v1/"):
                continue
            asked += 1
            where = re.sub(r"\{\w+\}", "x", path)
            found = client.request(method, where, params={"limitt": "1"})
            assert (found.status_code, found.json()["type"]) == (422, "urn:xscl:problem:XSCL_UNKNOWN_PARAMETER"), path
            assert "422" in call["responses"]
            single = [each["name"] for each in call.get("parameters", ()) if each["in"] == "query"]
            if single and single != ["by", "agg"]:
                found = client.request(method, f"{where}?{single[0]}=1&{single[0]}=1")
                assert found.json()["type"].endswith(("UNKNOWN_PARAMETER", "MEDIA_TYPE")), path
    assert asked > 35
    assert "did you mean 'limit'? the call takes after" in client.get("/v1/queries?limitt=1").json()["hint"]
    assert client.get("/v1/matches/count", params={"query": "none", "by": ["a", "b"]}).status_code == 404


def test_types_of_bodies(client: httpx2.Client) -> None:
    for path, named in (("/v1/queries", "application/json"), ("/v1/feeds/import", "text/x-opml")):
        for kind in ("application/x-www-form-urlencoded", ""):
            found = client.post(path, content='{"text": "S//a"}', headers={"content-type": kind})
            assert (found.status_code, found.json()["type"]) == (415, "urn:xscl:problem:XSCL_MEDIA_TYPE")
            assert f"Content-Type: {named}" in found.json()["hint"]
    found = client.post(
        "/v1/queries/validate", content='{"text": "S//a"}', headers={"content-type": "application/x+json"}
    )
    assert found.status_code == 200


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"name": 1,\n "text" x}', (2, 9)),
        ("{", (1, 2)),
        (b'{"name": "\xff"}', (None, None)),
        ("[" * 100_000, (None, None)),
    ],
)
def test_bodies_that_are_no_json(client: httpx2.Client, body: str | bytes, place: tuple[int | None, ...]) -> None:
    found = client.post("/v1/queries", content=body, headers={"content-type": "application/json"})
    told = found.json()
    assert (found.status_code, told["type"]) == (400, "urn:xscl:problem:XSCL_BAD_JSON")
    assert (told.get("line"), told.get("column")) == place and told["hint"]


@pytest.mark.parametrize(
    "body", ["", "[]", '{"name": 1}', '{"text": ""}', '{"text": "\\ud800"}', '{"name": "n", "text": null}']
)
def test_bodies_that_do_not_fit(client: httpx2.Client, body: str) -> None:
    found = client.post("/v1/queries", content=body, headers={"content-type": "application/json"})
    assert found.status_code == 422
    assert found.headers["content-type"] == "application/problem+json"


def test_sql(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    asked, answer = re.findall(r"v1/sql .* -d '(.*)'\n```\n\n```json\n(.*)\n", page)[0]
    with running(tmp_path / "home", SETTINGS, spark) as served, served.client() as client:
        client.post("/v1/queries", json={"name": "same", "text": SAME})
        push(client, "b1", "<book><author>A</author></book>", 1)
        push(client, "g1", "<blog><author>A</author></blog>", 2)
        served.settled()
        assert client.post("/v1/sql", json=json.loads(asked)).json() == json.loads(answer)
        found = client.post("/v1/sql", json={"sql": "SELECT qid, qid, ts_max FROM matches"}).json()
        assert [each["name"] for each in found["columns"]] == ["qid", "qid", "ts_max"]
        assert (found["rows"], found["more"]) == ([["same", "same", 2_000_000]], False)
        cut = client.post("/v1/sql", json={"sql": "SELECT id FROM ch_s", "limit": 1}).json()
        assert (len(cut["rows"]), cut["more"]) == (1, True)
        refused = client.post("/v1/sql", json={"sql": "DROP TABLE x"})
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:xscl:problem:XSCL_SQL")
        for bomb in ("SELECT sequence(1, 1000000000)", "SELECT repeat(id, 1000000000) FROM ch_s"):
            refused = client.post("/v1/sql", json={"sql": bomb})
            assert (refused.status_code, refused.json()["type"]) == (422, "urn:xscl:problem:XSCL_SQL_SIZE")
        monkeypatch.setattr("xscl.service.api.sql.MOST_BYTES", 1_000)
        large = client.post("/v1/sql", json={"sql": "SELECT lpad(id, 1000, 'x') FROM ch_s"})
        assert (large.status_code, large.json()["type"]) == (422, "urn:xscl:problem:XSCL_SQL_SIZE")
        served.service.settings = replace(SETTINGS, sql_s=1)
        # Spark's tasks end by themselves some seconds later: within a join they do not look whether they are to end.
        # So a statement is long by as few rows as may be, or it disturbs tests that follow for minutes.
        many = f"(SELECT explode(sequence(1, {500 if THOROUGH else 200})) AS i)"
        long = f"SELECT sum(a.i * b.i * c.i) FROM {many} a, {many} b, {many} c"
        late = client.post("/v1/sql", json={"sql": long})
        assert (late.status_code, late.json()["type"]) == (504, "urn:xscl:problem:XSCL_SQL_TIME")
        served.service.settings = SETTINGS
        with served.client() as hasty, pytest.raises(httpx2.ReadTimeout):
            hasty.post("/v1/sql", json={"sql": long}, timeout=2)
        # The statement of whoever hangs up ends, and gives its turn back long before its time is over.
        wait_for(lambda: not served.service.turns._asked)
