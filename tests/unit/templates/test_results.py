"""Which groups some members satisfy, and rows of results."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from local_engine import compiled

from xscl.base.docids import published_docid
from xscl.store.results import Results, stored_matches
from xscl.templates.bounds import Bounds
from xscl.templates.class_columns import ClassColumns
from xscl.templates.many_blocks.runs import LINK_SCHEMA
from xscl.templates.ordinals import Ordinals
from xscl.templates.origins import ABSENCE_LEVEL, CHANGES_LEVEL, STEPS_LEVEL, WINDOWS_LEVEL, batch_of, origin_of
from xscl.templates.plans import LiveGroup
from xscl.templates.results import RESULT_SCHEMA, Admitted, ClassRow, Member, ResultColumns, admitted
from xscl.templates.template import Group

SECOND = 1_000_000
INSTANCE = compiled("S//a->x JOIN {x = y, 1 h} T//b->y JOIN {y = z, 1 h} U//c->z").group.instance


def member(docid: int, seconds: int, *, item: int | None = None, place: str = "") -> Member:
    return Member(docid, docid if item is None else item, seconds * SECOND, place or f"S\0{docid}")


def links(*rows: dict[str, object]) -> pa.Table:
    """Rows of links as joins find them."""
    return pa.Table.from_pylist(
        list(rows), schema=pa.schema([LINK_SCHEMA.field(n) for n in ("link", "members", "nodes")])
    )


CHAIN = (0, 1), (1, 2)
"""The pairs of blocks that are linked."""


def live(
    gid: int,
    *cases: tuple[Bounds, ...],
    first: int = 0,
    last: int = 99,
    links: tuple[tuple[tuple[int, int], ...], ...] | None = None,
) -> LiveGroup:
    return LiveGroup(gid, 0, Group(INSTANCE, cases, links or (CHAIN,) * len(cases)), first, last)


def within(seconds: int, order: int = 0) -> Bounds:
    return Bounds(-seconds * SECOND, seconds * SECOND, order)


def test_all_pairs_have_to_be_close() -> None:
    case = (within(5), within(7), within(3))
    for times, groups in (((0, 5, 7), (4,)), ((0, 5, 8), ()), ((0, 3, 7), ()), ((0, 6, 7), ())):
        members = [member(docid, ts) for docid, ts in enumerate(times, start=1)]
        assert admitted([live(4, case)], members, CHAIN, {}, Ordinals()) == Admitted(groups, (1,) * len(groups))


def test_each_group_by_its_own_case() -> None:
    narrow, wide, other = ((within(n),) * 3 for n in (1, 9, 0))
    later = Bounds(20 * SECOND, 30 * SECOND)
    far = (later, later, within(0))
    groups = [live(1, narrow), live(2, wide), live(3, far, wide), live(4), live(5, other, narrow)]
    assert admitted(groups, [member(1, 0), member(2, 5), member(3, 5)], CHAIN, {}, Ordinals()) == Admitted(
        (2, 3), (1, 2)
    )
    assert admitted(groups, [member(1, 0), member(2, 25), member(3, 25)], CHAIN, {}, Ordinals()) == Admitted((3,), (1,))
    assert admitted(groups, [member(1, 0), member(2, 1), member(3, 1)], CHAIN, {}, Ordinals()) == Admitted(
        (1, 2, 3, 5), (1, 1, 2, 2)
    )


def test_a_case_counts_for_its_own_links() -> None:
    wide, star = (within(9),) * 3, ((0, 1), (0, 2))
    groups = [live(1, wide), live(2, wide, links=(star,)), live(3, wide, (within(5),) * 3, links=(star, CHAIN))]
    members = [member(docid, 0) for docid in (1, 2, 3)]
    assert admitted(groups, members, CHAIN, {}, Ordinals()) == Admitted((1, 3), (1, 2))
    assert admitted(groups, members, star, {}, Ordinals()) == Admitted((2, 3), (1, 1))


def test_groups_see_what_comes_while_they_live() -> None:
    groups = [live(1, (within(9),) * 3, first=3, last=8)]
    for docs, seen in (
        ((3, 5, 8), True),
        ((8, 3, 4), True),
        ((2, 5, 6), False),
        ((5, 9, 6), False),
        ((9, 2, 5), False),
    ):
        assert bool(admitted(groups, [member(doc, 0) for doc in docs], CHAIN, {}, Ordinals()).groups) == seen


def test_published_documents_are_as_old_as_the_last_member_of_their_match() -> None:
    groups = [live(1, (within(9),) * 3, first=3, last=8)]
    for place, seen in ((2, False), (3, True), (8, True), (9, False)):
        published = published_docid(place, 3)
        assert (
            bool(admitted(groups, [member(doc, 0) for doc in (4, published, 5)], CHAIN, {}, Ordinals()).groups) == seen
        )


@pytest.mark.parametrize(("left", "right", "order"), [("S\0a", "S\0b", 1), ("S\0b", "S\0a", -1), ("S\0z", "T\0a", 1)])
def test_equal_times_are_ordered_by_channel_and_id(left: str, right: str, order: int) -> None:
    members = [member(1, 4, place=left), member(2, 4, place=right), member(3, 4)]
    groups = [live(of, (within(0, order=of), within(0), within(0))) for of in (1, -1, 0)]
    assert set(admitted(groups, members, CHAIN, {}, Ordinals()).groups) == {0, order}


# -- rows ------------------------------------------------------------------------------------------------------


def test_origins_of_all_parts_are_different() -> None:
    reserved = (CHANGES_LEVEL, STEPS_LEVEL, WINDOWS_LEVEL, ABSENCE_LEVEL)
    batches, levels, parts = (0, 1, 70_000), (0, 255, 60_000, *reserved), (0, 1, 1 << 15, (1 << 16) - 1)
    origins = [origin_of(*which) for which in product(batches, levels, parts)]
    assert origins == sorted(set(origins))
    assert [batch_of(origin) for origin in origins] == sorted(batches * 28)


def told(columns: ResultColumns) -> list[dict[str, object]]:
    """The rows, without NULLs."""
    batches = list(columns.take())
    assert all(batch.schema == RESULT_SCHEMA for batch in batches)
    return [
        {name: value for name, value in row.items() if value is not None}
        for batch in batches
        for row in batch.to_pylist()
    ]


BY = Admitted((7, 8), (1, 2))
ROUT, MATCH = ClassRow("rout", 3, (10, 20), None, BY), ClassRow("match", 3, (10,), (10, 20), BY)


def test_rows_of_all_kinds_in_one_relation() -> None:
    columns = ResultColumns(77)
    assert [columns.add_class([ROUT, MATCH]), columns.add_class([MATCH])] == [0, 1]
    columns.add_pairs(np.array([1, 5]), np.array([2, -1]), np.array([0, 1], dtype=np.int32))
    columns.add_documents((1, 2, 3), 0)
    link = {"link": 99, "members": [member(n, n - 1, item=1)._asdict() for n in (1, 2)], "nodes": [10, 20]}
    columns.add_links(links(link))
    columns.add_refused([member(4, 2)], [7], "matches")
    columns.add_count(5)
    groups = {"groups": [7, 8], "cases": [1, 2], "instance": 3}
    first, second = {"origin": 77, "class": 0}, {"origin": 77, "class": 1}
    match = {"relation": "match", "nodes": [10], "witness": [10, 20], **groups}
    rows = [
        {"relation": "docs", "d1": 1, "d2": 2, **first},
        {"relation": "docs", "d1": 5, **second},
        {"relation": "rout", "nodes": [10, 20], **groups, **first},
        {**match, **first},
        {**match, **second},
        {"relation": "docs", "docs": [1, 2, 3], **first},
        {
            "relation": "refused",
            "docs": [4],
            "groups": [7],
            "reason": "matches",
            "members": [{"docid": 4, "item": 4, "ts": 2 * SECOND, "place": "S\0004", "membership": 0}],
        },
        {"relation": "pairs", "docs": [5]},
    ]
    assert columns.take_links().to_pylist() == [link]
    assert told(columns) == rows
    assert told(columns) == []


def test_counts_are_of_every_combination_of_documents() -> None:
    columns = ResultColumns(1)
    columns.add_class([ROUT, ROUT._replace(others=[[10], [20]]), MATCH])
    columns.add_class([ROUT])
    assert columns.counts == Counter()
    columns.add_pairs(np.array([1, 2, 3]), np.array([4, 4, 4]), np.array([0, 1, 0], dtype=np.int32))
    columns.add_pairs(np.array([], dtype=np.int64), np.array([], dtype=np.int64), np.array([], dtype=np.int32))
    assert columns.counts == {"rout": 5, "match": 2}
    columns.add_documents((1, 2, 3), 0)
    row = {"link": 9, "members": [member(n, 0)._asdict() for n in (1, 2)], "nodes": []}
    columns.add_links(links(row, row))
    columns.add_links(links(row))
    columns.add_count(3)
    list(columns.take())
    columns.add_count(4)
    assert columns.counts == {"rout": 7, "match": 3, "link": 3, "pairs": 7}


@pytest.mark.parametrize("seed", range(5))
def test_classes_in_columns_are_those_that_are_told_one_by_one(seed: int) -> None:
    chance = np.random.default_rng(seed)
    one_by_one, in_columns = ResultColumns(7), ResultColumns(7)
    for columns in (one_by_one, in_columns):
        assert columns.add_class([MATCH]) == 0
    count = 6
    parts, expected = [], [[] for _ in range(count)]  # type: list[ClassColumns], list[list[ClassRow]]
    for row in (ROUT, MATCH, ROUT._replace(others=[[1], [2, 3]])):
        classes = np.flatnonzero(chance.random(count) < 0.6)
        sizes = chance.integers(1, 4, len(classes))
        groups, cases = chance.integers(0, 99, sizes.sum()), chance.integers(1, 3, sizes.sum()).astype(np.int32)
        starts = np.append(0, np.cumsum(sizes))
        said = row.relation, row.instance, row.nodes, row.witness, row.others
        parts.append(ClassColumns(*said, classes, starts, groups, cases))
        for number, begin, end in zip(classes.tolist(), starts[:-1], starts[1:], strict=True):
            expected[number].append(row._replace(by=Admitted(groups[begin:end], cases[begin:end])))
    numbers = in_columns.add_classes(count, parts)
    assert numbers.tolist() == [one_by_one.add_class(rows) if rows else -1 for rows in expected]
    known = numbers[numbers >= 0]
    for columns in (one_by_one, in_columns):
        columns.add_pairs(known.astype(np.int64), known.astype(np.int64) + 1, known)
    assert in_columns.counts == one_by_one.counts
    assert sorted(map(repr, told(in_columns))) == sorted(map(repr, told(one_by_one)))


def test_classes_are_numbered_on_after_rows_were_handed_out() -> None:
    columns = ResultColumns(1)
    assert columns.add_class([ROUT]) == 0
    list(columns.take())
    assert columns.add_class([MATCH]) == 1
    columns.add_pairs(np.array([1]), np.array([2]), np.array([0], dtype=np.int32))
    assert [row["class"] for row in told(columns)] == [0, 1]


def test_many_pairs_are_written_before_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.templates.results._MOST_WAITING", 4)
    columns = ResultColumns(1, tmp_path / "new")
    columns.add_class([ROUT])
    two = np.array([1, 2])
    for written in (0, 1, 1, 2):
        columns.add_pairs(two, two, np.zeros(2, dtype=np.int32))
        columns.spill()
        assert len(list(tmp_path.glob("new/docs-*.parquet"))) == written
    assert columns.write() == tmp_path / "new"
    found = ds.dataset(tmp_path / "new", schema=RESULT_SCHEMA)
    assert found.count_rows(filter=ds.field("relation") == "docs") == 8 and columns.counts["rout"] == 8


def test_nothing_is_written_where_nothing_was_found(tmp_path: Path) -> None:
    assert ResultColumns(1, tmp_path / "new").write() is None and not (tmp_path / "new").exists()


def test_files_lack_the_columns_that_no_row_has(tmp_path: Path) -> None:
    columns = ResultColumns(1, tmp_path)
    columns.add_class([ROUT])
    columns.add_pairs(np.array([1]), np.array([2]), np.zeros(1, dtype=np.int32))
    columns.write()
    (file,) = tmp_path.iterdir()
    rows = pq.read_table(file)
    assert 0 < rows.num_columns < len(RESULT_SCHEMA) and all(each.null_count < 2 for each in rows.columns)


@pytest.mark.parametrize("most", [1, 3, 1_000_000])
def test_files_hold_what_would_be_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("xscl.templates.results._FEW_PAIRS", most)

    def filled() -> ResultColumns:
        columns = ResultColumns(4, tmp_path)
        columns.add_class([ROUT, MATCH])
        for start in range(3):
            docs = np.arange(start, start + 1 + start)
            columns.add_pairs(docs, docs - 1, np.zeros(len(docs), dtype=np.int32))
        columns.add_documents((1, 2, 3), 0)
        columns.add_combinations(np.array([[7, 8], [9, 8]]), np.zeros(2, dtype=np.int32))
        columns.add_combinations(np.array([[4, 5, 6], [5, 6, 7]]), np.zeros(2, dtype=np.int32))
        columns.add_combinations(np.empty((0, 3), np.int64), np.empty(0, np.int32))
        assert columns.counts["match"] == 11
        return columns

    assert filled().write() == tmp_path
    read = ds.dataset(tmp_path, schema=RESULT_SCHEMA).to_table().to_pylist()
    taken = [row for batch in filled().take() for row in batch.to_pylist()]
    assert sorted(map(repr, read)) == sorted(map(repr, taken))


# -- set apart ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
def test_what_some_groups_alone_have_is_set_apart(tmp_path: Path, several: bool) -> None:
    """With ``several`` classes whose groups differ are told by columns."""
    columns = ResultColumns(9, tmp_path / "new")
    by = [Admitted([1], [1]), Admitted([1, 2], [1, 1]), Admitted([2], [1])]
    if several:
        starts, groups = np.array([0, 1, 3, 4]), np.array([1, 1, 2, 2])
        cases = np.ones(4, dtype=np.int32)
        for relation, nodes in (("rout", (10, 20)), ("match", (10,))):
            said = ClassColumns(relation, 3, nodes, (10, 20), None, np.arange(3), starts, groups, cases)
            if relation == "rout":
                first = said
        columns.add_classes(3, [first, said])
    else:
        for each in by:
            columns.add_class([ROUT._replace(by=each), MATCH._replace(by=each)])
    three = np.arange(3, dtype=np.int32)
    columns.add_pairs(np.array([5, 6, 7]), np.full(3, -1), three)
    columns.add_pairs(np.array([8, 9]), np.array([18, 19]), np.array([0, 0], dtype=np.int32))
    columns.add_combinations(np.array([[1, 2, 3], [2, 3, 4]]), three[:2])
    columns.add_count(8)
    found = columns.set_apart([1])
    assert found is not None
    assert [(docs.tolist(), of.tolist()) for docs, of in found.docs] == [
        ([[5, -1]], [0]),
        ([[8, 18], [9, 19]], [0, 0]),
        ([[1, 2, 3]], [0]),
    ]
    assert found.origin == 9 and columns.counts == {"rout": 7, "match": 3, "apart": 4, "pairs": 8}
    assert {(row["relation"], row["class"]) for row in found.meant.to_pylist()} == {("rout", 0), ("match", 0)}
    # What is read of both is what would be read without.
    path = columns.write()
    assert path is not None
    results = Results([*path.glob("*.parquet")], apart=[found])
    docs = {results.combinations().docids(row) for row in range(7)}
    assert docs == {(5,), (6,), (7,), (8, 18), (9, 19), (1, 2, 3), (2, 3, 4)}
    meanings = results.meanings([1])
    assert sorted(map(repr, results.combinations(meanings).docs.tolist())) == sorted(
        map(repr, ([5, -1, -1], [6, -1, -1], [8, 18, -1], [9, 19, -1], [1, 2, 3], [2, 3, 4]))
    )
    assert len(results.classes().origin) == 7 and sorted(results.class_groups()[2].tolist()) == [1, 1, 2, 2]
    assert not Results([*path.glob("*.parquet")]).meanings([3])
    assert {each.docids for each in stored_matches([*path.glob("*.parquet")])} == {(6,), (7,), (2, 3, 4)}


def test_nothing_is_written_where_all_is_set_apart(tmp_path: Path) -> None:
    columns = ResultColumns(1, tmp_path / "new")
    columns.add_class([ROUT, MATCH])
    columns.add_pairs(np.array([1, 2]), np.array([2, 3]), np.zeros(2, dtype=np.int32))
    columns.add_count(2)
    assert columns.set_apart([7, 8, 9]) is not None
    assert columns.write() is None and not (tmp_path / "new").exists()


@pytest.mark.parametrize("groups", [[7], [9], []])
def test_what_others_have_too_stays(tmp_path: Path, groups: list[int]) -> None:
    columns = ResultColumns(1, tmp_path / "new")
    columns.add_class([ROUT, MATCH])
    columns.add_pairs(np.array([1, 2]), np.array([2, 3]), np.zeros(2, dtype=np.int32))
    assert columns.set_apart(groups) is None
    assert {row["relation"] for row in told(columns)} == {"docs", "rout", "match"}


def test_pairs_that_are_partly_in_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.templates.results._MOST_WAITING", 1)
    columns = ResultColumns(1, tmp_path / "new")
    columns.add_class([MATCH])
    for _ in range(2):
        columns.add_pairs(np.array([1]), np.array([2]), np.zeros(1, dtype=np.int32))
        columns.spill()
    assert columns.set_apart([7, 8]) is None and columns.counts["match"] == 2


def test_what_is_told_of_documents_one_by_one_stays(tmp_path: Path) -> None:
    columns = ResultColumns(1, tmp_path / "new")
    for _ in range(2):
        columns.add_class([MATCH])
    columns.add_pairs(np.array([1, 4]), np.array([2, 5]), np.array([0, 1], dtype=np.int32))
    columns.add_documents((1, 2, 3), 0)
    found = columns.set_apart([7, 8])
    assert found is not None and [(docs.tolist(), of.tolist()) for docs, of in found.docs] == [([[4, 5]], [1])]
    assert {(row["relation"], row["class"]) for row in told(columns)} == {("docs", 0), ("match", 0)}
    assert columns.counts["match"] == 2
