"""Joins and queries that come and go, of CACQ: seeds/cacq-psoup.md, part A4, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from both_sides import ids, side
from oracle.evaluate import Doc

if TYPE_CHECKING:
    from xscl.engine import Engine

S = 1_000_000
EVERY_SIDE = pytest.mark.parametrize("name", ["oracle", "engine", "driver"])


def cut(docs: Sequence[Doc], batches: int) -> list[Sequence[Doc]]:
    """The documents in that many batches of one size."""
    size = len(docs) // batches
    return [docs[at : at + size] for at in range(0, len(docs), size)]


def answered(found: Iterable[object]) -> set[tuple[int, ...]]:
    return {tuple(map(int, row)) for row in ids(found)}  # type: ignore[arg-type]


# -- G-C8: three sources ------------------------------------------------------------------------------------------

SENSORS = [
    Doc(channel, str(seq), S, f"<{channel}><loc>{loc}</loc><t>1</t><v>{v}</v></{channel}>")
    for seq, channel, loc, v in [
        (1, "Light", "L1", 800),
        (2, "Temp", "L1", 30),
        (3, "Noise", "L1", 35),
        (4, "Light", "L2", 100),
        (5, "Temp", "L2", 28),
        (6, "Noise", "L2", 80),
        (7, "Temp", "L3", 20),
        (8, "Light", "L3", 900),
    ]
]
LIGHT, TEMP, NOISE = "Light[./loc->a][./t->b]", "Temp[./loc->c][./t->d]", "Noise[./loc->e][./t->f]"
SENSOR_QUERIES = {
    "QA": f"{LIGHT}[./v > 500] JOIN {{a = c AND b = d}} {TEMP}[./v > 25]",
    "QB": f"{TEMP}[./v > 25] JOIN {{c = e AND d = f}} {NOISE}[./v < 40]",
    "QC": f"{LIGHT} JOIN {{a = c AND b = d}} {TEMP} JOIN {{c = e AND d = f}} {NOISE}",
}
SENSOR_ANSWERS = {"QA": {2: {(1, 2)}}, "QB": {3: {(2, 3)}}, "QC": {3: {(1, 2, 3)}, 6: {(4, 5, 6)}}}
"""Which event completes which answers."""


@EVERY_SIDE
@pytest.mark.parametrize("batches", [1, 2, 4, 8])
def test_gc8_joins_of_three_sources_whole_and_in_part(name: str, batches: int, tmp_path: Path) -> None:
    after = side(name, tmp_path).ask(SENSOR_QUERIES, cut(SENSORS, batches))
    for number, found in enumerate(after, start=1):
        seen = number * len(SENSORS) // batches
        for query, completed in SENSOR_ANSWERS.items():
            expected = set().union(*(rows for seq, rows in completed.items() if seq <= seen))
            assert answered(found[query]) == expected, (query, seen)


# -- G-C9: both sides in one batch --------------------------------------------------------------------------------

KEYS = [Doc(channel, str(seq), seq * S, f"<{channel}>k</{channel}>") for seq, channel in enumerate("RSSR", start=1)]


@EVERY_SIDE
@pytest.mark.parametrize("batches", [1, 2, 4])
def test_gc9_each_pair_once_however_the_stream_is_cut(name: str, batches: int, tmp_path: Path) -> None:
    *_, found = side(name, tmp_path).ask({"Q": "R->r JOIN {r = s} S->s"}, cut(KEYS, batches))
    assert answered(found["Q"]) == {(1, 2), (1, 3), (4, 2), (4, 3)}
    assert len(found["Q"]) == 4


# -- G-C11: queries that come and go ------------------------------------------------------------------------------

CHANGES: list[int | tuple[str, str]] = [
    95,
    ("Q1", "S[./a > 90]"),
    96,
    40,
    ("Q2", "S[./a > 30]"),
    97,
    50,
    ("Q1", ""),
    99,
    ("Q3", "S[./a > 98]"),
    100,
]


@pytest.mark.parametrize("batch_docs", [1, 4, 100])
def test_gc11_queries_get_what_comes_while_they_are_there(engine: Engine, tmp_path: Path, batch_docs: int) -> None:
    lines: list[dict[str, object]] = []
    for change in CHANGES:
        if isinstance(change, int):
            lines.append({"channel": "S", "id": str(change), "ts": len(lines), "row": {"a": change}})
        elif change[1]:
            lines.append({"register": {"name": change[0], "text": change[1]}})
        else:
            lines.append({"drop": change[0]})
    stream = tmp_path / "stream.ndjson"
    stream.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = engine.ingest(stream)
    assert (report.taken, report.registered, report.dropped, report.rejected) == (7, 3, 1, 0)
    engine.run_once(batch_docs=batch_docs)
    found: dict[str, list[int]] = {}
    for match in engine.matches():
        (event,) = match.events
        found.setdefault(match.query, []).append(int(event.id))
    assert found == {"Q1": [96, 97], "Q2": [97, 50, 99, 100], "Q3": [100]}
