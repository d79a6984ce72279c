"""One query never costs another its answers: what a query exceeds is refused to it alone, by name
(docs/reference/limits.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

import xscl.templates.joins.solve
from xscl.base.errors import EngineError
from xscl.base.failpoints import hooked
from xscl.base.types import Event
from xscl.catalog.tables import REJECTED
from xscl.cli.app import app
from xscl.cli.printing import Format
from xscl.engine import Engine, connect
from xscl.xpath.automaton import chains

QUIET = {
    "plain": "S//a->x[.//c->v] JOIN {v = w, 1 h} T//b->y[.//c->w]",
    "alone": "S//c->x",
}
GREEDY = "SELECT o FROM S//a[.//c->v]//d->o JOIN {v = w, 1 h} T//b->y[.//c->w]"
"""Each of its joined nodes has all results beside it."""
LARGE = f"<a>{'<c>1</c>' * 6}{'<d/>' * 6}</a>"
SMALL = "<a><c>1</c><d/></a>"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with connect(home=tmp_path / "home") as opened:
        yield opened


def feed(engine: Engine) -> None:
    for number, text in enumerate((LARGE, SMALL)):
        engine.ingest([Event("S", f"s{number}", number, xml=text)])
    engine.ingest([Event("T", "t", 3, xml="<b><c>1</c></b>")])


def found(engine: Engine) -> dict[str, list[tuple[str, ...]]]:
    listed: dict[str, list[tuple[str, ...]]] = {}
    for match in engine.matches():
        listed.setdefault(match.query, []).append(tuple(event.id for event in match.events))
    return {name: sorted(matches) for name, matches in listed.items()}


def test_a_query_that_exceeds_a_limit_loses_the_document(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    for name, text in {**QUIET, "greedy": GREEDY}.items():
        engine.register(text, name=name)
    feed(engine)
    (report,) = engine.run_once()
    assert found(engine) == {
        "plain": [("s0", "t"), ("s1", "t")],
        "alone": [("s0",)] * 6 + [("s1",)],
        "greedy": [("s1", "t")],
    }
    (rejection,) = report.rejected
    assert (rejection.query, rejection.channel, rejection.id) == ("greedy", "S", "s0")
    assert rejection.condition == "XSCL_MATCH_LIMIT" and "20 pairs" in rejection.message
    (row,) = engine.home.catalog.rows(REJECTED)
    assert (row["query"], row["id"], row["message"]) == ("greedy", "s0", rejection.message)


def test_what_others_ask_for_does_not_answer_for_a_refused_query(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables, and the pairs of bindings it would need, are all there for the sake of other queries."""
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    engine.register(GREEDY, name="greedy")
    engine.register("S//a->x[.//c->v] JOIN {v = w, 1 h} T//b->y[.//c->w]", name="nodes")
    engine.register("SELECT o FROM S//a[./e->v]//d->o JOIN {v = w, 1 h} T//b->y[./e->w]", name="hanging")
    engine.ingest([Event("S", "s", 1, xml=f"<a><e>9</e>{'<c>1</c>' * 6}{'<d/>' * 6}</a>")])
    engine.ingest([Event("T", "t", 2, xml="<b><c>1</c><e>9</e></b>")])
    (report,) = engine.run_once()
    assert {name: len(matches) for name, matches in found(engine).items()} == {"nodes": 1, "hanging": 6}
    assert [each.query for each in report.rejected] == ["greedy"]


def test_a_refused_document_stays_so_in_later_batches(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    for name, text in {**QUIET, "greedy": GREEDY}.items():
        engine.register(text, name=name)
    engine.ingest([Event("S", "s", 1, xml=LARGE)])
    engine.run_once()
    engine._driver.forget()
    engine.ingest([Event("T", "t", 2, xml="<b><c>1</c></b>")])
    engine.run_once()
    assert found(engine) == {"plain": [("s", "t")], "alone": [("s",)] * 6}


def test_answers_from_what_is_held_name_their_queries(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    engine.register(QUIET["plain"], name="plain")
    feed(engine)
    engine.run_once()
    engine.register(f"{GREEDY} STARTING ALL", name="late")
    (report,) = engine.run_once()
    assert [(each.query, each.id) for each in report.rejected] == [("late", "s0")]
    engine.ingest([Event("T", "t2", 4, xml="<b><c>1</c></b>")])
    engine.run_once()
    assert found(engine)["late"] == [("s1", "t"), ("s1", "t2")]
    answer = engine.query_once(GREEDY)
    assert [tuple(event.id for event in match.events) for match in answer] == [("s1", "t"), ("s1", "t2")]
    (note,) = answer.notes
    assert note.startswith("S:s0: ")


def test_three_blocks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    rest = "JOIN {w = u, 1 h} T//b->z[.//c->u]"
    engine.register(f"{QUIET['plain']} {rest}", name="plain")
    engine.register(f"{GREEDY} {rest}", name="greedy")
    feed(engine)
    engine.ingest([Event("T", "t2", 4, xml="<b><c>1</c></b>")])
    (report,) = engine.run_once()
    both = [("s1", "t", "t2"), ("s1", "t2", "t")]
    assert found(engine) == {"plain": sorted([("s0", "t", "t2"), ("s0", "t2", "t"), *both]), "greedy": both}
    assert [(each.query, each.id) for each in report.rejected] == [("greedy", "s0")]


def test_matches_that_are_too_many_are_said(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_MATCHES", 5)
    for name, text in {**QUIET, "greedy": GREEDY}.items():
        engine.register(text, name=name)
    feed(engine)
    (report,) = engine.run_once()
    assert found(engine)["greedy"] == [("s1", "t")] and found(engine)["plain"] == [("s0", "t"), ("s1", "t")]
    (rejection,) = [each for each in report.rejected if each.query == "greedy"]
    assert (rejection.channel, rejection.id) == ("T", "t") and "with S:s0" in rejection.message


def test_ways_to_link_two_documents_that_are_too_many_are_said(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks of three are linked once for all queries; who asks for less of the documents keeps the answers."""
    monkeypatch.setattr(xscl.templates.joins.solve, "MAX_ROUT", 5)
    queries = {
        "plain": "S//a->x[.//k->v] JOIN {v = w, 1 h} T//b->y[.//k->w][./u->p] JOIN {p = q, 1 h} U//g->z[./u->q]",
        "greedy": "S//a->x[.//c->v] JOIN {v = w, 1 h} T//b->y[.//c->w][./u->p] JOIN {p = q, 1 h} U//g->z[./u->q]",
    }
    for name, text in queries.items():
        engine.register(text, name=name)
    engine.ingest([Event("S", "s0", 0, xml=f"<a><k>2</k>{'<c>1</c>' * 3}</a>")])
    engine.ingest([Event("S", "s1", 1, xml="<a><k>2</k><c>1</c></a>")])
    engine.ingest([Event("T", "t", 2, xml=f"<b><k>2</k>{'<c>1</c>' * 2}<u>3</u></b>")])
    engine.ingest([Event("U", "u", 3, xml="<g><u>3</u></g>")])
    (report,) = engine.run_once()
    assert found(engine) == {"plain": [("s0", "t", "u"), ("s1", "t", "u")], "greedy": [("s1", "t", "u")]}
    (rejection,) = report.rejected
    assert (rejection.query, rejection.channel, rejection.id) == ("greedy", "T", "t")
    assert "more than" in rejection.message and "ways to link these two documents" in rejection.message
    assert "with S:s0" in rejection.message


def test_run_and_eval_say_it_and_leave_with_3(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    engine.register(GREEDY, name="greedy")
    feed(engine)
    home = str(engine.home.root)
    engine.close()
    told = CliRunner().invoke(app, ["run", "--once", "--home", home])
    assert told.exit_code == 3, told.output
    assert "query greedy: S:s0: [XSCL_MATCH_LIMIT]" in told.stderr
    assert CliRunner().invoke(app, ["run", "--once", "--home", home]).exit_code == 0, "it is said once"
    lines = tmp_path / "lines.ndjson"
    events = [("S", LARGE), ("S", SMALL), ("T", "<b><c>1</c></b>")]
    lines.write_text("".join(json.dumps({"channel": name, "xml": xml, "ts": 1}) + "\n" for name, xml in events))
    told = CliRunner().invoke(app, ["eval", "-q", GREEDY, str(lines), "--format", Format.ndjson])
    assert told.exit_code == 3, told.output
    assert "[XSCL_MATCH_LIMIT]" in told.stderr and "20 pairs" in told.stderr
    assert len(told.stdout.splitlines()) == 1


def test_run_says_it_though_a_later_batch_fails(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 20)
    engine.register(GREEDY, name="greedy")
    feed(engine)
    home = str(engine.home.root)
    engine.close()
    begun = count()

    def fail(name: str) -> None:
        if name == "batch.before" and next(begun):
            raise EngineError("XSCL_BATCH", "made to fail")

    with hooked(fail):
        told = CliRunner().invoke(app, ["run", "--once", "--batch-docs", "1", "--home", home])
    assert "made to fail" in str(told.exception)
    assert "query greedy: S:s0: [XSCL_MATCH_LIMIT]" in told.stderr
