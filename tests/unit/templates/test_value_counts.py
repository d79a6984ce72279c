"""Estimates of how many pairs an edge has, against counting them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from local_engine import compiled
from programs import build_program

from xscl.base.values import value_hash
from xscl.templates.plans import Edge, LiveGroup
from xscl.templates.value_counts import estimated_pairs, kept_counts, value_counts

TEXT = "S/i->p[./t->a][./c->b] FOLLOWED BY {a = d AND b = e AND a = e, 1 h} S/i->q[./t->d][./c->e]"
PROGRAM = build_program([LiveGroup(0, 0, compiled(TEXT).group, 0, 99)])
Row = tuple[int, str, bool]
SCHEMA = pa.schema([("var", pa.int64()), ("fn", pa.string()), ("h", pa.int64()), ("late", pa.bool_())])


def written(path: Path, rows: list[Row]) -> str:
    columns = [{"var": var, "fn": "", "h": value_hash(value), "late": late} for var, value, late in rows]
    pq.write_table(pa.Table.from_pylist(columns, schema=SCHEMA), path)
    return str(path)


def drawn(generator: random.Random, documents: int, values: int, *, common: int = 0) -> list[Row]:
    """A title and a channel for each document; ``common`` of them have the same title."""
    title, channel = sorted({edge.key.lvar for edge in PROGRAM.edges.values()})
    rows = []
    for number in range(documents):
        late = generator.random() < 0.1
        text = "common" if number < common else f"title {generator.randrange(values)}"
        rows += [(title, text, late), (channel, f"channel {generator.randrange(20)}", late)]
    return rows


def pairs_of(edge: Edge, fresh: list[Row], state: list[Row]) -> int:
    def count(rows: list[Row], var: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for row_var, value, late in rows:
            if row_var == var and not late:
                found[value] = found.get(value, 0) + 1
        return found

    new_left, new_right = count(fresh, edge.key.lvar), count(fresh, edge.key.rvar)
    old_left, old_right = count(state, edge.key.lvar), count(state, edge.key.rvar)
    return sum(n * (new_right.get(v, 0) + old_right.get(v, 0)) for v, n in new_left.items()) + sum(
        n * old_left.get(v, 0) for v, n in new_right.items()
    )


def test_pairs_are_estimated_from_a_part_of_the_values(tmp_path: Path) -> None:
    generator = random.Random(3)
    state = [drawn(generator, 20_000, 8_000), drawn(generator, 20_000, 8_000)]
    fresh = drawn(generator, 5_000, 8_000)
    kept = [kept_counts(written(tmp_path / f"{n}", rows)) for n, rows in enumerate(state)]
    assert all(len(counts.keys) < 1_000 for counts in kept)
    found = estimated_pairs(PROGRAM, value_counts(written(tmp_path / "fresh", fresh)), kept)
    assert len(found) == 3
    for number, edge in PROGRAM.edges.items():
        true = pairs_of(edge, fresh, [row for rows in state for row in rows])
        assert 0.7 * true <= found[number] <= 1.4 * true, (edge, true, found[number])
        assert true == 0 or true > 10_000


def test_one_frequent_value_is_counted_wherever_its_hash_lies(tmp_path: Path) -> None:
    generator = random.Random(4)
    state, fresh = drawn(generator, 3_000, 10**9, common=1_000), drawn(generator, 100, 10**9, common=3)
    kept = kept_counts(written(tmp_path / "state", state))
    found = estimated_pairs(PROGRAM, value_counts(written(tmp_path / "fresh", fresh)), [kept])
    for number, edge in PROGRAM.edges.items():
        # Titles that occur once in the batch meet themselves, which is estimated.
        assert abs(found[number] - pairs_of(edge, fresh, state)) <= 100
    assert max(found.values()) > 1_000


def test_no_rows_no_pairs(tmp_path: Path) -> None:
    empty = value_counts(written(tmp_path / "empty", []))
    assert set(estimated_pairs(PROGRAM, empty, []).values()) == {0}
