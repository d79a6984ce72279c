"""The engine on Spark: cuts into batches, numbers of jobs, random workloads against the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count as numbers_from
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from budget import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from oracle.evaluate import Answer, Doc, answers
from oracle.nodes import NAMESPACES
from strategies import event_streams, one_block_queries, two_block_queries

import xscl
from xscl.base.settings import Settings
from xscl.base.types import to_micros
from xscl.language.syntax.parser import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

DECLARED = "DECLARE NAMESPACE n = 'urn:n'; "
SPARK = Settings("spark")


def events(docs: Sequence[Doc]) -> list[xscl.Event]:
    return [xscl.Event(doc.channel, doc.id, doc.ts / 1e6, xml=doc.xml) for doc in docs]


def found(engine: Engine) -> dict[str, dict[str, Answer]]:
    """Query to match id to documents and result nodes, from the relations that SQL shows."""
    event = {row.docid: (row.channel, row.id) for row in engine.sql("SELECT docid, channel, id FROM events").collect()}
    answered: dict[str, dict[str, Answer]] = {}
    for row in engine.sql("SELECT match, qid, docids, nodes FROM matches").collect():
        of_query = answered.setdefault(row.qid, {})
        assert row.match not in of_query, "a match was emitted twice"
        of_query[row.match] = (tuple(event[docid] for docid in row.docids), tuple(row.nodes))
    return answered


def random_workload(seed: int, queries: int, documents: int) -> tuple[list[str], list[Doc]]:
    """Many random queries and documents at once, so that one Spark run checks them all."""
    texts: list[str] = []
    docs: list[Doc] = []

    @settings(
        max_examples=examples(24),
        deadline=None,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(two_block_queries() | one_block_queries(), min_size=6, max_size=6), event_streams(least=6))
    def draw(some_texts: list[str], some_docs: list[Doc]) -> None:
        texts.extend(some_texts)
        docs.extend(some_docs)

    for number in numbers_from(seed):
        hypothesis.seed(number)(draw)()
        if len(set(texts)) >= queries:
            break
    generator = random.Random(seed)
    texts = generator.sample(sorted(set(texts)), queries)
    picked = generator.sample(docs, documents)
    return texts, [Doc(d.channel, f"e{i}", d.ts, d.xml) for i, d in enumerate(picked)]


def test_random_queries_equal_the_oracle_for_all_cuts_into_batches(tmp_path: Path, spark: SparkSession) -> None:
    texts, docs = random_workload(7, queries=40, documents=12)
    expected = {
        f"Q{i}": answers(parse_query(t), docs, namespaces={**NAMESPACES, "n": "urn:n"}) for i, t in enumerate(texts)
    }
    assert sum(map(len, expected.values())) > 100, "the workload must find something"
    listings = []
    for batch_docs, sizes in ((5, SPARK), (len(docs), SPARK), (5, Settings("driver"))):
        folder = tmp_path / f"by-{batch_docs}-{sizes.where}"
        with xscl.connect(home=folder, spark=spark, settings=sizes) as engine:
            outcomes = engine.register_many((f"Q{i}", DECLARED + t) for i, t in enumerate(texts))
            assert all(outcome.ok for outcome in outcomes)
            engine.ingest(events(docs))
            reports = engine.run_once(batch_docs=batch_docs)
            assert len(reports) == -(-len(docs) // batch_docs)
            assert {report.joined_in for report in reports} == {sizes.where}
            listings.append({(m.query, m.id, tuple((e.channel, e.id) for e in m.events)) for m in engine.matches()})
            if len(listings) > 1:  # ids tell documents and nodes
                assert listings[-1] == listings[0], (batch_docs, sizes)
                continue
            in_sql = found(engine)
            for name, answer in expected.items():
                assert set(in_sql.get(name, {}).values()) == answer, name
            assert listings[0] == {(q, m, members) for q, of_q in in_sql.items() for m, (members, _) in of_q.items()}


def test_documents_of_one_batch_join_with_each_other(tmp_path: Path, spark: SparkSession) -> None:
    docs = [Doc("S", f"d{i}", i * 1_000_000, f"<a><k>{i % 2}</k></a>") for i in range(5)]
    text = "S/a[./k->x] FOLLOWED BY {x=y, 10 s} S/a[./k->y]"
    expected = answers(parse_query(text), docs)
    assert len(expected) == 4
    seen = []
    for batch_docs, sizes in ((1, Settings("driver")), (2, SPARK), (100, Settings())):
        with xscl.connect(home=tmp_path / str(batch_docs), spark=spark, settings=sizes) as engine:
            engine.register(text, name="Q")
            engine.ingest(events(docs))
            engine.run_once(batch_docs=batch_docs)
            seen.append([(m.id, m.events, m.document) for m in engine.matches("Q")])
            assert {tuple((e.channel, e.id) for e in m[1]) for m in seen[-1]} == {members for members, _ in expected}
    assert seen[0] == seen[1] == seen[2], "matches and their ids do not depend on the cut"


def test_the_number_of_jobs_does_not_depend_on_the_queries(tmp_path: Path, spark: SparkSession) -> None:
    texts, docs = random_workload(11, queries=60, documents=6)
    jobs = {}
    for count in (1, 60):
        with xscl.connect(home=tmp_path / str(count), spark=spark, settings=SPARK) as engine:
            assert all(outcome.ok for outcome in engine.register_many(DECLARED + t for t in texts[:count]))
            engine.ingest(events(docs))
            (report,) = engine.run_once()
            jobs[count] = report.jobs
            assert engine.sql("SELECT jobs FROM batches").collect()[0].jobs == report.jobs
    assert jobs == {1: 1, 60: 1}, "few documents are walked where they are joined"


def test_a_large_batch_has_one_job_or_two(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.batches.level._SMALL", 4)
    monkeypatch.setattr("xscl.batches.level._PART", 3)
    with xscl.connect(home=tmp_path / "home", spark=spark, settings=SPARK) as engine:
        engine.register("S/a[./k->x] JOIN {x = y, 1 h, ONCE} S/a[./k->y] JOIN {y = z, 1 h, ONCE} S/a[./k->z]", name="Q")
        engine.ingest(xscl.Event("S", f"d{n}", n, xml=f"<a><k>{n % 4}</k></a>") for n in range(12))
        (report,) = engine.run_once()
        assert (report.jobs, report.joined_in) == (1, "spark")
        assert report.links > 0 and len(list(engine.matches())) == 4
        # Pairs of documents of two tasks are found in tasks, too, where there are many.
        monkeypatch.setattr("xscl.batches.level._JOB_SECONDS", 0)
        engine.ingest(xscl.Event("S", f"e{n}", 7_200 + n, xml=f"<a><k>{n % 4}</k></a>") for n in range(12))
        (report,) = engine.run_once()
        assert (report.jobs, report.joined_in) == (2, "spark")
        assert report.links > 0 and len(list(engine.matches())) == 8


def test_two_nodes_of_one_element_are_two_nodes(engine: Engine) -> None:
    engine.register(
        "S//link[./@href->h1][./text()->t1] JOIN {h1 = h2 AND t1 = t2, 1 h, ONCE} S//link[./@href->h2][./text()->t2]",
        name="both",
    )
    engine.register("S//link/@href->h JOIN {h = g, 1 h, ONCE} S//link/@href->g", name="attribute")
    engine.ingest(
        [
            xscl.Event("S", "a", 1, xml='<link href="x">y</link>'),
            xscl.Event("S", "b", 2, xml='<link href="y">x</link>'),
            xscl.Event("S", "c", 3, xml='<link href="x">y</link>'),
        ]
    )
    engine.run_once()
    assert [[e.id for e in m.events] for m in engine.matches("both")] == [["a", "c"]]
    (match,) = engine.matches("attribute")
    assert [e.id for e in match.events] == ["a", "c"]
    assert match.nodes == {"h": "0/@href", "g": "0/@href"}
    assert match.document == '<result><result href="x"/><result href="x"/></result>'


def test_variables_of_one_definition_are_bound_independently(engine: Engine) -> None:
    engine.register(
        "S//book[./author->a][./author->b] JOIN {a = c AND b = d, 1 h, ONCE} S//blog[./first->c][./second->d]",
        name="two",
    )
    engine.ingest(
        [
            xscl.Event("S", "book", 1, xml="<book><author>A</author><author>B</author></book>"),
            xscl.Event("S", "blog", 2, xml="<blog><first>A</first><second>B</second></blog>"),
        ]
    )
    engine.run_once()
    (match,) = engine.matches("two")
    assert match.values == {"a": "A", "b": "B", "c": "A", "d": "B"}


def test_nested_result_nodes_give_one_match_each(engine: Engine) -> None:
    engine.register("S//a", name="one")
    engine.register("S//a->x[.//k->k1] FOLLOWED BY {k1 = k2, 1 h} T/k->k2", name="joined")
    engine.ingest(
        [
            xscl.Event("S", "s", 1, xml="<a><a><k>1</k></a></a>"),
            xscl.Event("T", "t", 2, xml="<k>1</k>"),
        ]
    )
    engine.run_once()
    assert [m.document for m in engine.matches("one")] in (
        ["<a><a><k>1</k></a></a>", "<a><k>1</k></a>"],
        ["<a><k>1</k></a>", "<a><a><k>1</k></a></a>"],
    )
    assert sorted(m.nodes["x"] for m in engine.matches("joined")) == [0, 1]


def test_a_query_sees_what_comes_between_its_registration_and_its_drop(tmp_path: Path, spark: SparkSession) -> None:
    lines = [
        '{"channel": "S", "id": "1", "ts": 1, "xml": "<a>k</a>"}',
        '{"register": {"name": "Q", "text": "S/a->x FOLLOWED BY {x = y} S/a->y"}}',
        '{"channel": "S", "id": "2", "ts": 2, "xml": "<a>k</a>"}',
        '{"channel": "S", "id": "3", "ts": 3, "xml": "<a>k</a>"}',
        '{"drop": "Q"}',
        '{"channel": "S", "id": "4", "ts": 4, "xml": "<a>k</a>"}',
    ]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    for batch_docs in (1, 100):
        with xscl.connect(home=tmp_path / str(batch_docs), spark=spark) as engine:
            report = engine.ingest(tmp_path / "events.ndjson")
            assert (report.taken, report.registered, report.dropped) == (4, 1, 1)
            engine.run_once(batch_docs=batch_docs)
            assert [[e.id for e in m.events] for m in engine.matches("Q")] == [["2", "3"]]
            assert engine.sql("SELECT count(*) AS n FROM matches").collect()[0].n == 1


def test_rows_join_with_documents_as_numbers(executor_engine: Engine) -> None:
    executor_engine.register("ticks[./price->p] JOIN {p = q, 1 h} S/quote->q", name="numbers")
    executor_engine.register("ticks[./price > 100][./sym->s] JOIN {s = t, 1 h} S/quote/@sym->t", name="strings")
    executor_engine.register("ticks[./price->p] JOIN {p != q, 1 h} S/quote->q", name="unequal")
    # Any column: a price compares as a number, a symbol as a text.
    executor_engine.register("ticks/ticks/*->v JOIN {v = w, 1 h} S/quote->w", name="any")
    executor_engine.register("ticks/ticks/*->v JOIN {v < w, 1 h} S/quote->w", name="less")
    executor_engine.ingest(
        [
            xscl.Event("S", "q1", 1, xml='<quote sym="IBM">101.50</quote>'),
            xscl.Event("S", "q2", 1, xml='<quote sym="X">none</quote>'),
            xscl.Event("ticks", "t1", 2, row={"sym": "IBM", "price": 101.5}),
            xscl.Event("ticks", "t2", 3, row={"sym": "IBM", "price": 99.0}),
        ]
    )
    executor_engine.run_once()
    first, second = [["t1", "q1"]], [["t2", "q1"]]
    wanted = {"numbers": first, "strings": first, "unequal": second, "any": first, "less": second}
    assert {name: [[e.id for e in m.events] for m in executor_engine.matches(name)] for name in wanted} == wanted


def test_the_answer_does_not_depend_on_other_queries_or_later_events(engine: Engine) -> None:
    engine.register("S/a[./k->x] JOIN {x = y, 1 h, ONCE} S/a[./k->y]", name="first")
    engine.ingest([xscl.Event("S", "1", 1, xml="<a><k>v</k></a>")])
    engine.run_once()
    engine.register("S/a[./k->x][./m] JOIN {x = y, 1 h, ONCE} S/a[./k->y]", name="second")
    engine.ingest([xscl.Event("S", "2", 2, xml="<a><k>v</k><m/></a>"), xscl.Event("S", "3", 3, xml="<a><k>v</k></a>")])
    engine.run_once()
    assert sorted(tuple(e.id for e in m.events) for m in engine.matches("first")) == [
        ("1", "2"),
        ("1", "3"),
        ("2", "3"),
    ]
    assert [[e.id for e in m.events] for m in engine.matches("second")] == [["2", "3"]]


def test_sql_refuses_what_is_no_query(engine: Engine) -> None:
    engine.ingest([xscl.Event("S", "1", 1, xml="<a/>")])
    for statement in (
        "DROP VIEW events",
        "CREATE TABLE t (a int)",
        "SELECT 1; SELECT 2",
        "SELECT nothing FROM events",
        "SELECT * FROM text.`/etc/hostname`",
        "INSERT INTO events SELECT * FROM events",
        "SELECT TRANSFORM(1) USING 'id' AS (a)",
        "SELECT * FROM (SELECT /* */ TRANSFORM(id) USING\n'cat' AS (a) FROM events)",
        "WITH x AS (MAP id USING 'cat' AS (a) FROM events) SELECT * FROM x",
        "SELECT reflect('java.lang.System', 'getenv', 'PATH')",
        "SELECT `java_method` ('java.lang.System', 'getenv', 'PATH')",
        "SELECT try_reflect('java.lang.System', 'getenv', 'PATH')",
    ):
        with pytest.raises(xscl.EngineError) as refused:
            engine.sql(statement).collect()
        assert refused.value.condition == "XSCL_SQL", statement
    assert engine.sql("SELECT transform(array(1), x -> x + 1) AS a FROM events").collect()[0].a == [2]
    assert engine.sql("SELECT count(*) FROM events").collect()[0][0] == 1
    assert {row.viewName for row in engine.sql("SHOW VIEWS").collect()} >= {"events", "r_bin", "matches", "queries"}


def test_a_handle_runs_until_stopped(engine: Engine) -> None:
    engine.register("S/a", name="Q")
    handle = engine.start(every="100 ms")
    engine.ingest([xscl.Event("S", "1", 1, xml="<a/>")])
    handle.processAllAvailable()
    assert handle.isActive and handle.exception() is None
    handle.stop()
    assert handle.awaitTermination(1) and not handle.isActive
    assert [m.events[0].id for m in engine.matches("Q")] == ["1"]


def test_frames_feed_the_intake(engine: Engine, tmp_path: Path) -> None:
    spark = engine.spark
    engine.register("S/a", name="Q")
    frame = spark.createDataFrame(
        [("S", "1", 1.0, "<a/>"), ("S", "2", 2.0, "<b")], "channel string, id string, ts double, xml string"
    )
    report = engine.ingest(frame)
    assert (report.taken, report.rejected) == (1, 1)
    (tmp_path / "in").mkdir()
    frame.limit(1).selectExpr("channel", "'3' AS id", "ts", "xml").write.mode("overwrite").json(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).json(str(tmp_path / "in"))
    query = engine.ingest_stream(stream, checkpoint=str(tmp_path / "checkpoint"))
    query.processAllAvailable()
    query.stop()
    engine.run_once()
    assert [m.events[0].id for m in engine.matches("Q")] == ["1", "3"]
    assert engine.matches_df("Q").count() == 2


def test_matches_are_a_frame_with_all_that_listings_show(engine: Engine) -> None:
    engine.add_channel("R", kind="rows", schema="k string, v double")
    engine.register("S//a->x[./k->y] FOLLOWED BY {y = z, 1 h} R/R->w[./k->z]", name="pair")
    engine.register("DECLARE NAMESPACE n = 'urn:n'; SELECT <o>{x}</o> FROM S//a->x", name="shown")
    engine.ingest(
        [xscl.Event("S", f"d{n}", n + 0.25, xml=f"<r><a><k>{n % 2}</k>\u00e4&amp;</a><a/></r>") for n in range(6)]
    )
    engine.ingest([xscl.Event("R", f"r{n}", 10 + n, row={"k": str(n % 2), "v": None}) for n in range(3)])
    engine.run_once()
    for _ in range(2):  # a query that has its matches again
        engine.register("S//k->x STARTING ALL", name="held")
        engine.run_once()
        engine.drop("held")

    def micros(time: datetime) -> int:
        return to_micros(time.astimezone())

    def rows(**asked: Any) -> list[tuple[object, ...]]:
        frame = engine.matches_df(**asked)
        assert [type_ for _, type_ in frame.dtypes] == [
            *["string"] * 2, *["timestamp"] * 3, *["array<string>"] * 2, "array<timestamp>",
            *["map<string,string>"] * 2, *["string"] * 2,
        ]  # fmt: skip
        return sorted(
            (row.match, row.query, micros(row.ts), micros(row.ts_min), micros(row.ts_max), row.channels, row.ids,
             [micros(time) for time in row.times], row.nodes, row["values"], row.document, row.replaces)
            for row in frame.collect()
        )  # fmt: skip

    def listed(**asked: Any) -> list[tuple[object, ...]]:
        return sorted(
            (match.id, match.query, match.ts, min(e.ts for e in match.events), max(e.ts for e in match.events),
             [e.channel for e in match.events], [e.id for e in match.events], [e.ts for e in match.events],
             {name: str(node) for name, node in match.nodes.items()}, dict(match.values), match.document,
             match.replaces)
            for match in engine.matches(**asked)
        )  # fmt: skip

    assert rows() == listed() and len(listed()) == 12 + 9 + 6
    assert rows(query="shown") == listed(query="shown")
    at = datetime(1970, 1, 1, 0, 0, 11, tzinfo=UTC)
    assert rows(query="pair", since=at, until=at) == listed(query="pair", since=at, until=at) != []
    with pytest.raises(xscl.CatalogError, match="pairr"):
        engine.matches_df("pairr")


def test_a_home_may_be_called_anything(tmp_path: Path, spark: SparkSession) -> None:
    with xscl.connect(home=tmp_path / "a b [x] {y}*? 'ü", spark=spark) as engine:
        engine.register("S/a->x JOIN {x = y, 1 h, ONCE} S/a->y", name="Q")
        for number in (1, 2):
            engine.ingest([xscl.Event("S", str(number), number, xml="<a>k</a>")])
            engine.run_once()
        assert len(list(engine.matches("Q"))) == engine.sql("SELECT * FROM matches").count() == 1


def test_bindings_that_multiply_are_one_match(engine: Engine) -> None:
    """Seven variables of six equal nodes have 6 ** 7 bindings."""
    brackets = "".join(f"[./c->v{i}]" for i in range(7))
    atoms = " AND ".join(f"v{i} = y" for i in range(7))
    engine.register(f"S//a{brackets} FOLLOWED BY {{{atoms}, 1 h}} S//b->y", name="many")
    engine.register("S//c->x FOLLOWED BY {x = y, 1 h} S//b->y", name="one")
    events = [xscl.Event("S", "six", 1, xml=f"<a>{'<c>1</c>' * 6}</a>"), xscl.Event("S", "b", 3, xml="<b>1</b>")]
    engine.ingest([*events, xscl.Event("S", "two", 2, xml="<a><c>1</c><c>1</c></a>")])
    (report,) = engine.run_once()
    assert sorted([e.id for e in m.events] for m in engine.matches("many")) == [["six", "b"], ["two", "b"]]
    assert len(list(engine.matches("one"))) == 8
    assert report.rejected == ()


def test_one_document_that_cannot_be_matched_costs_itself_only(engine: Engine) -> None:
    engine.register("S//d[.//a->x]//b FOLLOWED BY {x = y, 1 h} S//t->y", name="wide")
    engine.register("S//t->x JOIN {x = y, 1 h, ONCE} S//t->y", name="narrow")
    many = "<d>" + "<a>1</a>" * 1_100 + "<b/>" * 1_100 + "</d>"
    events = [xscl.Event("S", "t1", 1, xml="<t>1</t>"), xscl.Event("S", "wide", 2, xml=many)]
    engine.ingest([*events, xscl.Event("S", "t2", 3, xml="<t>1</t>")])
    (report,) = engine.run_once()
    assert [[e.id for e in m.events] for m in engine.matches("narrow")] == [["t1", "t2"]]
    (refused,) = engine.sql("SELECT query, id, condition, message FROM rejected").collect()
    assert (refused.query, refused.id, refused.condition) == ("wide", "wide", "XSCL_MATCH_LIMIT")
    assert "1,000,000" in refused.message
    assert [(each.query, each.message) for each in report.rejected] == [("wide", refused.message)]
    assert engine.sql("SELECT count(*) AS n FROM r_bin WHERE docid = 2").collect()[0].n == 0
