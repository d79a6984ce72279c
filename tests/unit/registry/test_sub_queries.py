"""Queries in parentheses: what they answer, who shares them, and how long they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.answers.explaining.explain import explain
from xscl.answers.status import state_notes
from xscl.base.errors import CatalogError, QueryError
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import QUERIES
from xscl.engine import Engine
from xscl.language.syntax.format import format_query
from xscl.language.syntax.parser import parse_query
from xscl.upkeep.event_export import export_events

LOADS = {1: [10, 12, 28, 60, 96, 40], 2: [50, 55, 50, 95, 99]}
SMOOTH = "(SELECT p AS pid, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 5 s GROUP BY p)"


def ramp(below: str) -> str:
    """RUMOR's Query 1."""
    return (
        f"SELECT p AS pid, a AS low, b AS high FROM {SMOOTH}[./load < {below}][./pid->p][./load->a]"
        f" FOLD {{p = q WHILE b > last(b, a)}} {SMOOTH}[./pid->q][./load->b] FILTER {{b > 70}}"
    )


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        opened.add_channel("cpu", kind="rows", schema="pid bigint, load double", lateness="0s")
        yield opened


def loads(first: int = 0, last: int = 100) -> list[xscl.Event]:
    rows = [(5 * at, pid, load) for pid, of in LOADS.items() for at, load in enumerate(of)] + [(99, 9, 1)]
    return [
        xscl.Event("cpu", f"{pid}@{ts}", ts, row={"pid": pid, "load": float(load)})
        for ts, pid, load in sorted(rows)
        if first <= ts < last
    ]


def hidden(engine: Engine) -> list[str]:
    return [info.name for info in engine.queries(like="xscl.sub.*")]


def lows(engine: Engine, name: str) -> list[str]:
    return sorted(match.values["a"] for match in engine.matches(name))


def test_who_comes_later_has_a_sub_query_of_its_own(engine: Engine) -> None:
    """Nobody's registration changes what another one is told."""
    engine.register(ramp("20"), name="first")
    engine.register(ramp("20"), name="second")
    assert len(hidden(engine)) == 1
    engine.ingest(loads(last=3))
    engine.register(ramp("20"), name="later")
    assert len(hidden(engine)) == 2
    engine.ingest(loads(first=3))
    engine.run_once()
    assert lows(engine, "first") == lows(engine, "second") == ["10", "11"]
    assert lows(engine, "later") == ["12"]  # the load at 0 is in no window that it sees
    engine.drop("later")
    assert len(hidden(engine)) == 1
    engine.drop("first")
    assert len(hidden(engine)) == 1
    engine.drop("second")
    assert hidden(engine) == []
    engine.register(ramp("20"), name="again")
    (name,) = hidden(engine)
    assert name.endswith(".3")


def test_ids_are_the_same_whoever_was_registered_before(tmp_path: Path) -> None:
    texts = [
        "(S/d[./k->k] FOLLOWED BY {k = l, 1 h} S/d[./k->l])->x JOIN {x/d = y/k, 1 h} T->y",
        "(SELECT k AS k FROM S/d[./k->k])->x[./k->a] NEXT {a = b, 1 h} T[./k->b]",
        "(SELECT a, n FROM (SELECT k AS k, count() AS n FROM S/d[./k->k] WINDOW 1 h GROUP BY k)[./k->a][./n->n])"
        "->x[./a->a] JOIN {a = b, 1 h} T[./k->b]",
        "(SELECT k AS k FROM S/d[./k->k])->x[./k->a] NOT FOLLOWED BY {a = b, 1 s} T[./k->b] CONSISTENCY MIDDLE",
    ]
    found: list[dict[str, set[str]]] = []
    for others in (0, 2):
        with xscl.connect(home=tmp_path / f"{others}") as engine:
            for number in range(others):
                engine.register_many(f"CREATE QUERY o{number}{at} AS {text}" for at, text in enumerate(texts))
                engine.ingest([xscl.Event("S", f"before{number}", number, xml="<d><k>2</k></d>")])
            engine.register_many(f"CREATE QUERY q{at} AS {text}" for at, text in enumerate(texts))
            engine.ingest(
                xscl.Event(channel, f"{channel}{ts}", ts, xml="<d><k>1</k></d>")
                for ts, channel in enumerate("SSTST", start=10)
            )
            for channel in "ST":
                engine.heartbeat(channel, "1970-01-01T03:00:00Z")
            engine.run_once()
            ids: dict[str, set[str]] = {}
            for match in engine.matches(since="1970-01-01T00:00:05Z"):
                ids.setdefault(match.query, set()).add(match.id)
            found.append({name: ids[name] for name in ("q0", "q1", "q2", "q3")})
            # Queries beside each other are told all of their own.
            assert all(len(of) == len(ids["q" + name[-1]]) for name, of in ids.items())
            assert len(ids) == (others + 1) * len(texts)
    assert found[0] == found[1]


def test_what_is_shown_is_what_was_written(engine: Engine) -> None:
    engine.register(ramp("20"), name="q")
    (info,) = engine.queries()
    assert info.said == ramp("20") and "xscl.sub." in info.text
    assert format_query(parse_query(info.said)) == format_query(parse_query(ramp("20")))
    facts = explain(engine.home.catalog, "q")
    assert facts.text == ramp("20") and "xscl.sub" not in facts.canonical


TEXTS = [
    # Documents that a query in parentheses finds, with absence, constructors and parentheses in parentheses.
    ("(SELECT <pair k='{x}'/> FROM A/e/k->x JOIN {x = y, 9 s} B/e/k->y)/pair[./@k->z]", {"k1": 1}),
    ("(A/e/k->x FOLLOWED BY {x = y, 9 s} B/e/k->y)/result->z", {"k1k1": 1}),
    ("SELECT z FROM (SELECT w AS v FROM (SELECT x AS w FROM A/e/k->x)[./w->w])[./v->z]", {"k1": 1, "k2": 1}),
    ("A/e/k->x JOIN {x = z, 9 s} (SELECT y FROM B[./k->y])[./y->z]", {"k1": 1}),
    ("A/e/k->x WITHOUT {x = z, z - x IN [0 s, 9 s]} (SELECT y FROM B[./k->y])[./y->z]", {"k2": 1}),
]


@pytest.mark.parametrize(("text", "found"), TEXTS)
def test_documents_and_rows(engine: Engine, text: str, found: dict[str, int]) -> None:
    assert text.count("(") > 0
    engine.register(text, name="q")
    told = {"a": ("A", 1, "k1"), "b": ("A", 2, "k2"), "c": ("B", 3, "k1")}
    engine.ingest([xscl.Event(at, id_, ts, xml=f"<e><k>{value}</k></e>") for id_, (at, ts, value) in told.items()])
    for channel in "AB":
        engine.heartbeat(channel, 100_000_000)
    engine.run_once()
    values = [next(iter(match.values.values())) for match in engine.matches("q")]
    assert {value: values.count(value) for value in values} == found


def test_sub_queries_span_their_members(engine: Engine) -> None:
    """G-CAY-5: S1;(S2;S3) is not (S1;S2);S3."""
    texts = {
        "right": "S1 NEXT (SELECT a, b FROM S2[./n->a] NEXT S3[./n->b])[./a->x]",
        "left": "(SELECT a FROM S1 NEXT S2[./n->a])[./a->x] NEXT S3",
        "crossed": "S2 NEXT (SELECT b FROM S1 NEXT S3[./n->b])[./b->x]",
    }
    for name, text in texts.items():
        engine.register(text, name=name)
    told = [("S1", 1, 80), ("S2", 2, 50), ("S2", 3, 49), ("S3", 4, 24)]
    engine.ingest([xscl.Event(at, f"e{ts}", ts, xml=f"<e><n>{n}</n></e>") for at, ts, n in told])
    for channel in ("S1", "S2", "S3"):
        engine.heartbeat(channel, 100_000_000)
    engine.run_once()
    values = {name: sorted(match.values["x"] for match in engine.matches(name)) for name in texts}
    assert values == {"right": ["49", "50"], "left": ["50"], "crossed": []}


@pytest.mark.parametrize("inside", ["NEXT {k = l}", "NOT FOLLOWED BY {k = l, 5 s}"])
def test_what_a_reader_keeps_is_final(engine: Engine, inside: str) -> None:
    """Nothing settles A and B, so the same text has other answers for who takes matches back."""
    inner = f"(SELECT k FROM A[./k->k] {inside} B[./k->l])[./k->n]"
    engine.register(f"{inner} JOIN {{n = m, 5 s}} A[./k->m]", name="keeps")
    engine.register(f"{inner} JOIN {{n = m, 5 s}} A[./k->m] ON CHANGE RETRACT", name="corrects")
    engine.register(f"{inner.replace(' B[./k->l]', ' B[./k->l] CONSISTENCY MIDDLE')} ON CHANGE RETRACT", name="says")
    queries = engine.home.catalog.rows(QUERIES)
    levels = [row["level"] for row in queries if row["qid"].startswith("xscl.sub.")]
    assert sorted(levels) == ["MIDDLE", "MIDDLE", "STRONG"]


BAD = [
    ("A JOIN {1 h} (SELECT ¦z¦ FROM B->y)->x", "XSCL_UNBOUND_VARIABLE"),
    ("A JOIN {1 h} (SELECT y FROM B->y PUBLISH ¦c¦)->x", "XSCL_SUB_QUERY_LIMIT"),
    ("A JOIN {1 h} (SELECT y, ¦y¦ FROM B->y)->x", "XSCL_PUBLISH_COLUMNS"),
    ("A JOIN {1 h} ¦(SELECT y FROM B->y)¦->x STARTING ALL", "XSCL_SUB_QUERY_LIMIT"),
    ("A JOIN {1 h} (SELECT y FROM B->y)->x JOIN {¦w¦ = x} C", "XSCL_UNBOUND_VARIABLE"),
]


@pytest.mark.parametrize(("marked", "condition"), BAD)
def test_refusals_speak_of_the_text_as_it_was_written(engine: Engine, marked: str, condition: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.register(marked.replace("¦", ""), name="q")
    assert caught.value.condition == condition
    assert caught.value.column == marked.index("¦") + 1
    (outcome,) = engine.register_many([marked.replace("¦", "")])
    assert not outcome.ok and hidden(engine) == []


def test_names_of_sub_queries_are_nobodys(engine: Engine) -> None:
    engine.register(ramp("20"), name="q")
    (name,) = hidden(engine)
    for attempt in (
        lambda: engine.register(f"{name}[./load->x]"),
        lambda: engine.register("A", name="xscl.sub.mine"),
        lambda: engine.register("A PUBLISH xscl.sub.mine"),
        lambda: engine.add_channel("xscl.sub.mine"),
        lambda: engine.drop(name),
    ):
        with pytest.raises(CatalogError):
            attempt()
    assert hidden(engine) == [name]


def test_nobody_else_sends_events_to_the_channels_of_sub_queries(engine: Engine) -> None:
    engine.register("(SELECT p AS p, l AS l FROM cpu[./pid->p][./load->l])->x[./p->p]", name="all")
    engine.ingest(loads())
    engine.run_once()
    found = sorted(match.id for match in engine.matches("all"))
    (channel,) = hidden(engine)
    for name in (channel, "xscl.sub.another"):
        report = engine.ingest([xscl.Event(name, "x", 1, row={"p": 1, "l": 1.0}), xscl.Event(name, "y", 1, xml="<a/>")])
        assert [each.condition for each in report.problems] == ["XSCL_BAD_CHANNEL_NAME"] * 2
    engine.run_once()
    assert sorted(match.id for match in engine.matches("all")) == found


def test_input_ends_where_sub_queries_have_ended(engine: Engine) -> None:
    engine.register("(SELECT p AS p FROM cpu[./pid->p])->x[./p->p] JOIN {p = q, 1 h} S->y[./q->q]", name="joined")
    engine.ingest(loads())
    engine.run_once()
    (channel,) = hidden(engine)
    engine.drop("joined")
    assert channel not in " ".join(state_notes(engine.home))
    engine.end_input()
    engine.run_once()


def test_channels_would_feed_themselves_through_a_sub_query(engine: Engine) -> None:
    with pytest.raises(CatalogError) as caught:
        engine.register("SELECT x FROM (SELECT y FROM c[./y->y])[./y->x] PUBLISH c AS ROWS")
    assert caught.value.condition == "XSCL_CYCLIC_PUBLISH"
    assert engine.home.catalog.ask(read_queries) == []


def test_asked_once(engine: Engine) -> None:
    """An answer from held events is that of a query that was there before them."""
    engine.ingest(loads())
    engine.register(ramp("20"), name="other")
    engine.run_once()
    answer = engine.query_once(ramp("20"), name="q")
    told = [(match.query, match.values["a"], match.ts // 1_000_000) for match in answer]
    assert sorted(told) == [("q", "10", 20), ("q", "11", 20)] and answer.notes == ()
    late = engine.query_once(ramp("20"), since=1_000_000)
    assert [match.values["a"] for match in late] == ["12"]
    assert hidden(engine) == [info.name for info in engine.queries(like="xscl.sub.*")]


def test_a_home_that_takes_in_what_another_one_had(engine: Engine, tmp_path: Path) -> None:
    """Registrations of event files register queries in parentheses anew, at their places."""
    engine.register(ramp("20"), name="first")
    engine.ingest(loads(last=3))
    engine.register(ramp("20"), name="later")
    engine.ingest(loads(first=3))
    engine.run_once()
    with (tmp_path / "file.jsonl").open("wb") as stream:
        summary = export_events(engine.home, stream)
    assert summary.queries == 2 and len(summary.channels) == 1
    with xscl.connect(home=tmp_path / "again") as again:
        again.add_channel("cpu", kind="rows", schema="pid bigint, load double", lateness="0s")
        again.ingest(tmp_path / "file.jsonl")
        again.run_once()
        assert {match.id for match in again.matches()} == {match.id for match in engine.matches()}
        assert len([*again.matches()]) == 3


def test_a_quota_that_a_sub_query_exceeds_suspends_the_queries_around_it(engine: Engine) -> None:
    engine.register(ramp("20"), name="q")
    engine.set_quotas(bindings=5)
    engine.ingest(loads())
    (report,) = engine.run_once()
    assert [each.query for each in report.suspended] == ["q"]
    assert [info.name for info in engine.queries(suspended=True)] == ["q"]
    engine.set_quotas(bindings=None)
    engine.resume("q")
    (info,) = engine.queries(suspended=False)
    assert info.name == "q" and hidden(engine) == [info.text.partition("FROM ")[2].partition("[")[0]]
