"""Runs of rows of links: in memory, in files, merged and kept in part, against the rows one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from budget import examples
from strategies import Dice

from xscl.base.values import value_hashes
from xscl.templates.many_blocks.runs import LINK_SCHEMA, LinkRun, counted, kept, merged_links, rows_of
from xscl.templates.many_blocks.state import UNBOUND, Asked, LinkState
from xscl.templates.retention import EVER, Floors

Row = dict[str, object]
WIDTHS = {-7: 1, 3: 0, 1 << 60: 3}
"""Nodes of a row of each link."""


def member(doc: int) -> Row:
    """Two documents each are copies of one event."""
    place = f"S\0{doc // 2 * 2}"
    return {"docid": doc, "item": doc // 3, "ts": (doc // 2) * 10, "place": place, "membership": doc % 4}


def link_row(link: int, left: int, right: int, nodes: Sequence[int]) -> Row:
    ends = member(left), member(right)
    return {"link": link, "ts1": ends[0]["ts"], "ts2": ends[1]["ts"], "members": list(ends), "nodes": list(nodes)}


def random_rows(choose: Dice, most: int) -> list[Row]:
    rows = []
    for _ in range(choose.count(0, most)):
        link = choose.one(*WIDTHS)
        nodes = [choose.count(0, 2) for _ in range(WIDTHS[link])]
        rows.append(link_row(link, choose.count(0, 9), choose.count(0, 9), nodes))
    return rows


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=LINK_SCHEMA)


def counts(rows: Sequence[Row]) -> Counter[str]:
    return Counter(map(repr, rows))


def docids(row: Row) -> tuple[int, int]:
    left, right = row["members"]  # type: ignore[misc]
    return left["docid"], right["docid"]


def placed(run: LinkRun, choose: Dice, folder: Path) -> LinkRun:
    if choose.chance(50):
        return run
    path = folder / "a.run"
    path.unlink(missing_ok=True)
    run.save(path)
    return LinkRun.open(path)


def random_floors(choose: Dice) -> Floors:
    rows = sorted((choose.one(*WIDTHS), choose.one(EVER, 10, 20, 30), choose.one(EVER, 10, 20)) for _ in range(4))
    links, left, right = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Floors(np.zeros(0, np.int64), np.zeros(0, np.int64), links, left, right)


def kept_one_by_one(rows: Sequence[Row], *floors: Floors) -> list[Row]:
    def is_kept(row: Row, rule: Floors) -> bool:
        columns = zip(rule.links.tolist(), rule.left.tolist(), rule.right.tolist(), strict=True)
        return any(
            row["link"] == link and row["ts1"] >= left and row["ts2"] >= right  # type: ignore[operator]
            for link, left, right in columns
        )

    return [row for row in rows if all(is_kept(row, rule) for rule in floors)]


def test_rows_come_back_from_runs_files_and_merges(tmp_path: Path) -> None:
    for seed in range(examples(30)):
        choose = Dice(seed)
        rows = [random_rows(choose, 20) for _ in range(3)]
        runs = [placed(LinkRun.of(table(part)), choose, tmp_path) for part in rows]
        assert [len(run) for run in runs] == [len(part) for part in rows]
        masks = [np.array([choose.chance(50) for _ in part], np.bool_) for part in rows]
        some = [row for run, mask in zip(runs, masks, strict=True) for row in rows_of(run, mask).to_pylist()]
        for run, part in zip(runs, rows, strict=True):
            assert rows_of(run).schema == LINK_SCHEMA
            assert counts(rows_of(run).to_pylist()) == counts(part), seed
        assert counts(rows_of(merged_links(runs, [None] * 3)).to_pylist()) == counts(sum(rows, [])), seed
        assert counts(rows_of(merged_links(runs, masks)).to_pylist()) == counts(some), seed


def test_kept_rows(tmp_path: Path) -> None:
    in_part = 0
    for seed in range(examples(113)):
        choose = Dice(seed)
        run = placed(LinkRun.of(table(random_rows(choose, 20))), choose, tmp_path)
        rows, now, before = rows_of(run).to_pylist(), random_floors(choose), random_floors(choose)
        for floors in ((now,), (now, before)):
            expected = kept_one_by_one(rows, *floors)
            assert rows_of(run, kept(run, *floors)).to_pylist() == expected, seed
            out_of_sight = len(kept_one_by_one(rows, now)) - len(expected)
            held, lower = counted(run, *floors)
            assert held == len(expected)
            assert not lower or out_of_sight, seed
            in_part += 0 < held < len(rows)
        # Rows that floors bring back are told, as far as some of their link are in sight or would be in part.
        if counted(run, now, before)[0] == 0 and kept_one_by_one(rows, now):
            assert counted(run, now, before)[1], seed
    assert in_part > 20


def test_look_ups(tmp_path: Path) -> None:
    met = 0
    for seed in range(examples(150)):
        choose = Dice(seed)
        parts = [random_rows(choose, 15) for _ in range(choose.count(0, 4))]
        runs = [placed(LinkRun.of(table(part)), choose, tmp_path) for part in parts]
        split, floors = choose.count(0, len(runs)), random_floors(choose) if choose.chance(50) else None
        state = LinkState(runs[:split], floors, runs[split:])
        held = [row for run in runs[:split] for row in rows_of(run).to_pylist()]
        rows = kept_one_by_one(held, *([] if floors is None else [floors]))
        rows += [row for run in runs[split:] for row in rows_of(run).to_pylist()]
        asked = [(choose.one(*WIDTHS, 99), choose.one(UNBOUND, 1, 5, 11), choose.one(2, 4, 6)) for _ in range(12)]
        asked += [(link, right, left) for link, left, right in asked]
        found: Counter[tuple[int, int, int, str]] = Counter()
        columns = Asked(*(np.array(column, np.int64) for column in zip(*asked, strict=True)))
        most = choose.one(1, 3, 100)
        for at, some in state.met(columns, most):
            assert len(at) == len(some.link) <= most
            nodes = np.split(some.nodes, np.cumsum(some.widths))[: len(at)]
            for which, left, right, own in zip(at.tolist(), *some.docid, nodes, strict=True):
                found[which, int(left), int(right), repr(own.tolist())] += 1
        expected = Counter(
            (which, *docids(row), repr(row["nodes"]))
            for which, (link, left, right) in enumerate(asked)
            for row in rows
            if row["link"] == link and all(a in (UNBOUND, b) for a, b in zip((left, right), docids(row), strict=True))
        )
        assert found == expected, seed
        met += sum(found.values())
        place = "S\0" + str(choose.one(2, 4, 5))
        here = {doc for run in runs for row in rows_of(run).to_pylist() for doc in docids(row)}
        of_event = {doc for doc in here if member(doc)["place"] == place}
        assert state.of_event(place, int(value_hashes([place])[0])) == of_event
        assert not state.of_event("S\0x", int(value_hashes([place])[0])), "texts are compared where hashes meet"
    assert met > 40


def test_a_file_stays_where_it_is(tmp_path: Path) -> None:
    rows = [link_row(3, doc, doc + 1, ()) for doc in range(0, 50_000, 2)]
    LinkRun.of(table(rows)).save(tmp_path / "a.run")
    before = pa.total_allocated_bytes()
    run = LinkRun.open(tmp_path / "a.run")
    assert pa.total_allocated_bytes() - before < 100_000
    assert len(run) == len(rows) and not run.left.flags.owndata
