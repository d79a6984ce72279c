"""Joins of runs: limits, chunks, edges that nearly all pairs satisfy, programs that change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from local_engine import LocalEngine, compiled
from oracle.evaluate import Doc, answers

from xscl.base.alike_rows import AlikeRows
from xscl.base.arrow_schemas import WITNESS_SCHEMA
from xscl.language.syntax.parser import parse_query
from xscl.templates.columns import Int64s
from xscl.templates.joins.edge_table import EdgeTable as _EdgeTable
from xscl.templates.joins.find import Finder
from xscl.templates.joins.meet import Meeting
from xscl.templates.program_files import load_program
from xscl.templates.results import ResultColumns
from xscl.templates.runs.run import Run

SECOND = 1_000_000
EQUAL = "S//a->x JOIN {x = y, 1 h} T//b->y"


def stream(channel: str, number: int, xml: str, first: int = 0, *, late: bool = False) -> list[Doc]:
    """Documents a second apart; ``{n}`` is the number of each."""
    return [Doc(channel, f"{channel}{n}", n * SECOND, xml.format(n=n), late) for n in range(first, first + number)]


class Recorder(LocalEngine):
    """Keeps the witness rows of each batch instead of joining them."""

    def _join(self, fresh: pa.Table) -> None:
        self.fresh = [*getattr(self, "fresh", []), fresh]


def recorded(folder: Path, texts: Sequence[str], *batches: list[Doc]) -> tuple[str, list[pa.Table]]:
    """The path of the program, and the witness rows of some batches."""
    engine = Recorder(folder, {text: compiled(text) for text in texts})
    for batch in batches:
        engine.run(batch)
    return engine.program, engine.fresh


def joined(finder: Finder, path: str, fresh: pa.Table, state: list[Run]) -> ResultColumns:
    """What new rows find; they become part of the state."""
    out = ResultColumns(0)
    finder.take(load_program(path))
    new = finder.new_run(fresh, out)
    finder.meet(new, [(run, None) for run in state], out, own=True)
    state.append(new)
    return out


def test_what_nearly_all_pairs_satisfy_is_not_enumerated(tmp_path: Path) -> None:
    text = "S->r[./a->x][./c->p] JOIN {x = y AND p = q, 1 h} T->t[./b->y][./d->q]"
    docs = stream("S", 20, "<r><a>same</a><c>{n}</c></r>") + stream("T", 20, "<t><b>same</b><d>{n}</d></t>")
    path, (fresh,) = recorded(tmp_path, [text], docs)
    for limit, spare, pairs in ((1_000, 1_000, 400), (100, 0, 20), (0, 0, 20)):
        finder = Finder(lambda rows, limit=limit: limit, lambda rows, spare=spare: spare)  # type: ignore[misc]
        out = joined(finder, path, fresh, [])
        assert (out.counts["match"], out.counts["pairs"]) == (20, pairs)


def test_the_anchor_is_chosen_anew_in_each_batch(tmp_path: Path) -> None:
    """Which of two values has the fewer pairs changes at half time."""
    text = "S->r[./a->x][./b->p] JOIN {x = y AND p = q, 1 h} S->t[./a->y][./b->q]"
    docs = [
        Doc("S", f"{n}", n * SECOND, f"<r><a>{value[0]}</a><b>{value[1]}</b></r>")
        for n in range(80)
        for value in [("same", n % 10) if n < 40 else (n % 10, "other")]
    ]
    path, tables = recorded(tmp_path, [text], docs[:40], docs[40:])
    finder, pairs = Finder(lambda rows: 100, lambda rows: 0), []
    state: list[Run] = []
    for table in tables:
        out = joined(finder, path, table, state)
        pairs.append((out.counts["pairs"], out.counts["match"]))
    # Each of forty documents has three partners, in both orders; all pairs would be 1,560.
    assert pairs == [(120, 120), (120, 120)]


def test_pairs_are_looked_at_for_anchors_alone_however_many_queries_there_are(tmp_path: Path) -> None:
    """Many queries with an edge of many pairs each, none of them above any limit, which only few pairs satisfy."""
    queries, batch = 60, 300
    text = "S->r[./k='{n}'][./t->x][./c->p] FOLLOWED BY {{x = y AND p = q, 1 h}} S->t[./t->y][./c->q]"  # noqa: RUF027
    docs = [
        Doc("S", f"{n}", n * SECOND, f"<r><k>{n % queries}</k><t>{n // 2 * 2}</t><c>{n // 2 % 2}</c></r>")
        for n in range(2 * batch)
    ]
    path, tables = recorded(tmp_path, [text.format(n=n) for n in range(queries)], docs[:batch], docs[batch:])
    finder, pairs, matches = Finder(spare=lambda rows: 0), 0, 0
    state: list[Run] = []
    for table in tables:
        out = joined(finder, path, table, state)
        pairs, matches = pairs + out.counts["pairs"], matches + out.counts["match"]
    assert matches == batch and pairs <= 2 * matches


@pytest.mark.parametrize("limit", [1 << 40, -1])
@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_pairs_of_a_new_document_stay_together(
    chunk: int, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        EQUAL,
        "S->r[./a->x][./c->p] JOIN {x = y AND p = q, 1 h} T->t[./b->y][./c->q]",
        "S//a->x JOIN {x = y} S//c->y",
    ]
    docs = stream("S", 9, "<r><a>1</a><a>1</a><c>1</c></r>") + stream("T", 9, "<t><b>1</b><c>1</c><c>2</c></t>")
    monkeypatch.setattr("xscl.templates.joins.meet._CHUNK", chunk)
    split: list[list[set[int]]] = []
    chunks = Meeting._chunks

    def told(batch: Meeting, spans: object) -> list[object]:
        found = list(chunks(batch, spans))  # type: ignore[arg-type]
        split.append([set(batch.new.run.doc[part.row].tolist()) for part in found])
        assert sum(len(part.row) for part in found) == len(spans.row)  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(Meeting, "_chunks", told)
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts}, pair_limit=limit)
    for batch in (docs[:6], docs[6:]):
        engine.run(batch)
    assert max(map(len, split)) > 1
    for parts in split:
        assert sum(map(len, parts)) == len(set().union(*parts)), "a document's spans are in several chunks"
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs) != set()


def test_late_documents_are_seen_by_queries_of_one_block_only(tmp_path: Path) -> None:
    texts = [EQUAL, "S//a->x"]
    docs = stream("S", 2, "<a>1</a>") + stream("S", 1, "<a>1</a>", 2, late=True) + stream("T", 1, "<b>1</b>")
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts})
    engine.run(docs)
    assert len(engine.answers(texts[0])) == 2 and len(engine.answers(texts[1])) == 3


def test_rows_that_are_told_by_their_events_are_resolved_as_rows_are(tmp_path: Path) -> None:
    """Queries of one block, of which one asks for a variable that another one joins."""
    texts = ["S//a->x", "S//a->x[. > 3]", "S//c->x", "S//c->x JOIN {x = y} T//b->y"]
    docs = stream("S", 6, "<r><a>{n}</a><c>{n}</c></r>") + stream("S", 1, "<r><a>9</a></r>", 6, late=True)
    path, (fresh,) = recorded(tmp_path, texts, docs)
    program, finder, out = load_program(path), Finder(), ResultColumns(0)
    finder.take(program)
    told = pa.array([variable in finder.lone for variable in fresh.column("var").to_pylist()])
    rows = fresh.filter(told).combine_chunks()
    assert len(rows) == 10
    names = rows.column("place").to_pylist()
    (events,) = (
        rows.select(["docid", "ts", "item", "late", "membership"])
        .append_column("channel", pa.array([name.split("\0")[0] for name in names]))
        .append_column("id", pa.array([name.split("\0")[1] for name in names]))
        .to_batches()
    )
    (kinds,) = rows.select(WITNESS_SCHEMA.names[6:]).to_batches()
    each = np.arange(len(rows))
    alike = AlikeRows(events, each, each, kinds)
    assert pa.Table.from_batches([alike.witnesses()]).equals(rows)
    finder.new_run(fresh.filter(pa.compute.invert(told)), out)
    finder.resolve_alike(alike, out)
    expected = ResultColumns(0)
    finder.new_run(fresh, expected)
    assert found(out) == found(expected)
    assert out.counts == expected.counts and out.counts["match"] == 16


def found(out: ResultColumns) -> set[tuple[object, ...]]:
    """Return the groups of each document."""
    rows = [row for batch in out.take() for row in batch.to_pylist()]
    groups = {row["class"]: tuple(row["groups"]) for row in rows if row["relation"] == "match"}
    return {(row["d1"], groups[row["class"]]) for row in rows if row["relation"] == "docs"}


def test_one_value_of_many_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty variables on either side that are joined in pairs: the others are not looked at."""
    texts = [f"S//a->x[. != '{n}'] JOIN {{x = y, 1 h}} T//b->y[. != '{n}']" for n in range(30)]
    looked_at = 0
    lookup = _EdgeTable.lookup

    def counted(table: _EdgeTable, left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
        nonlocal looked_at
        looked_at += len(left)
        return lookup(table, left, right)

    monkeypatch.setattr(_EdgeTable, "lookup", counted)
    engine = LocalEngine(tmp_path, {text: compiled(text) for text in texts})
    docs = stream("S", 2, "<a>x</a>") + stream("T", 2, "<b>x</b>") + stream("S", 1, "<a>x</a>", 2)
    for doc in docs:
        engine.run([doc])
    assert looked_at < 30 * 30
    for text in texts:
        assert engine.answers(text) == answers(parse_query(text), docs) != set()


def test_another_program_finds_the_state_of_the_one_before(tmp_path: Path) -> None:
    first, (old, fresh) = recorded(
        tmp_path, [EQUAL, "S//c->x JOIN {x = y} T//b->y"], stream("S", 2, "<a>1</a>"), stream("T", 2, "<b>1</b>")
    )
    second, _ = recorded(tmp_path, [EQUAL], stream("S", 1, "<a/>"))
    finder, state = Finder(), list[Run]()
    for path, rows, matches in ((first, old, 0), (second, fresh, 4)):
        assert joined(finder, path, rows, state).counts["match"] == matches


def test_a_batch_without_rows(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, [EQUAL, "S//a->x"], stream("S", 1, "<a/>"))
    state: list[Run] = []
    assert joined(Finder(), path, WITNESS_SCHEMA.empty_table(), state).counts["match"] == 0
    assert [run.size for run in state] == [0]
