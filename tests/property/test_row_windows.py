"""LAST n OF x: random queries over random events under any cut, beside an oracle that counts events one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from both_sides import parse_query
from budget import examples
from local_engine import LocalEngine, UnitsEngine, compiled
from oracle.evaluate import Doc, answers, rout
from sqlite_relations import joined_columns, load, statement_rows

import xscl

S = 1_000_000
CHANNELS = "ABC"


def row_query(choose: Random) -> str:
    """A join of two or three blocks, of which some are among the newest."""
    blocks = choose.choice([2, 2, 2, 3])
    text = ""
    for at in range(blocks):
        channel = choose.choice(CHANNELS[: choose.choice([1, 2, 3])])
        condition = choose.choice(["", "", f"[./v > {choose.randrange(3)}]"])
        block = f"{channel}->x{at}{condition}[./k->k{at}]"
        if not at:
            text = block
            continue
        windows = [f"LAST {choose.randrange(1, 5)} OF {choose.choice('xk')}{choose.randrange(at + 1)}"]
        windows += [f"{choose.randrange(1, 9)} s"] * choose.choice([0, 0, 1])
        windows += [f"LAST {choose.randrange(1, 4)} OF x{at}"] * choose.choice([0, 1])
        choose.shuffle(windows)
        op = choose.choice(["JOIN", "FOLLOWED BY"])
        text += f" {op} {{k{choose.randrange(at)} = k{at}, {', '.join(windows)}}} {block}"
    return text


def row_stream(choose: Random, count: int) -> list[Doc]:
    """Events whose times are not in the order in which they come, some of them late."""

    def doc(at: int) -> Doc:
        xml = f"<e><k>{choose.randrange(2)}</k><v>{choose.randrange(4)}</v></e>"
        ts = (at + choose.randrange(-3, 4) * choose.choice([0, 0, 1])) * S
        return Doc(choose.choice(CHANNELS), str(at), ts, xml, late=choose.random() < 0.05)

    return [doc(at) for at in range(count)]


def cut(docs: list[Doc], choose: Random) -> Iterator[list[Doc]]:
    ends = sorted({*(choose.randrange(len(docs)) for _ in range(choose.randrange(4))), len(docs)})
    for first, last in zip([0, *ends], ends, strict=False):
        yield docs[first:last]


@pytest.mark.parametrize("seed", range(examples(300)))
def test_engine_and_statements_answer_as_the_oracle(seed: int, tmp_path: Path) -> None:
    choose = Random(seed)
    texts = {f"q{number}": row_query(choose) for number in range(choose.choice([1, 3]))}
    docs = row_stream(choose, choose.randrange(4, 24))
    queries = {name: compiled(text) for name, text in texts.items()}
    # Nothing settles times: row windows alone say which rows are kept.
    keeps = {"lateness": {}} if choose.random() < 0.7 else {}
    kind = choose.choice([UnitsEngine, LocalEngine])
    engine = kind(tmp_path, queries, **keeps)
    for batch in cut(docs, choose):
        engine.run(batch)
    for name, text in texts.items():
        assert engine.answers(name) == answers(parse_query(text), docs), text
    if seed % 3 == 0:
        whole = UnitsEngine(tmp_path, queries)
        whole.run(docs)
        found = statement_rows(load(whole), queries, own=seed % 15 == 0)
        ids = [doc.id for doc in docs]
        for name, text in texts.items():
            expected = rout(parse_query(text), docs, queries[name].joined_names)
            assert joined_columns(queries[name], found[name], ids) == expected, text


@pytest.mark.parametrize("seed", range(examples(8)))
def test_homes_answer_as_the_oracle(seed: int, tmp_path: Path) -> None:
    """Queries that come with their events, that start with all that is held, and that are asked once."""
    choose = Random(seed)
    text = row_query(choose)
    docs = [doc for doc in row_stream(choose, 20) if not doc.late]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(text, name="q")
        events = [xscl.Event(doc.channel, doc.id, doc.ts // S, xml=doc.xml) for doc in docs]
        at = 0
        for batch in cut(docs, choose):
            engine.ingest(events[at : at + len(batch)])
            at += len(batch)
            engine.run_once()
            if at > 8 and not any(info.name == "all" for info in engine.queries()):
                engine.register(f"{text} STARTING ALL", name="all")
        engine.run_once()
        expected = {tuple(id_ for _, id_ in members) for members, _ in answers(parse_query(text), docs)}
        for name in ("q", "all"):
            assert {tuple(event.id for event in match.events) for match in engine.matches(name)} == expected, text
        once = engine.query_once(text)
        assert {tuple(event.id for event in match.events) for match in once} == expected
