"""Which groups some members satisfy, and rows of results."""

from __future__ import annotations

import pytest
from local_engine import compiled

from xscl.templates.bounds import Bounds
from xscl.templates.program import LiveGroup
from xscl.templates.results import RESULT_SCHEMA, Admitted, Member, ResultColumns, admitted, different
from xscl.templates.template import Group

SECOND = 1_000_000
INSTANCE = compiled("S//a->x JOIN {x = y, 1 h} T//b->y JOIN {y = z, 1 h} U//c->z").group.instance


def member(docid: int, seconds: int, *, item: int | None = None, place: str = "") -> Member:
    return Member(docid, docid if item is None else item, seconds * SECOND, place or f"S\0{docid}")


def live(gid: int, *cases: tuple[Bounds, ...], first: int = 0, last: int = 99) -> LiveGroup:
    return LiveGroup(gid, 0, Group(INSTANCE, cases, ((),) * len(cases)), first, last)


def within(seconds: int, order: int = 0) -> Bounds:
    return Bounds(-seconds * SECOND, seconds * SECOND, order)


def test_versions_of_one_item_and_one_document_twice() -> None:
    assert different([member(1, 0), member(2, 0), member(3, 0)])
    assert not different([member(1, 0), member(2, 0), member(1, 0)])
    assert not different([member(1, 0), member(2, 0, item=1)])
    assert different([])


def test_all_pairs_have_to_be_close() -> None:
    case = (within(5), within(7), within(3))
    assert admitted([live(4, case)], [member(1, 0), member(2, 5), member(3, 7)]) == Admitted((4,), (1,))
    assert admitted([live(4, case)], [member(1, 0), member(2, 5), member(3, 8)]) == Admitted((), ())
    assert admitted([live(4, case)], [member(1, 0), member(2, 3), member(3, 7)]) == Admitted((), ())
    assert admitted([live(4, case)], [member(1, 0), member(2, 6), member(3, 7)]) == Admitted((), ())


def test_each_group_by_its_own_case() -> None:
    narrow, wide, other = (within(1),), (within(9),), (Bounds(20 * SECOND, 30 * SECOND),)
    groups = [live(1, narrow), live(2, wide), live(3, other, wide), live(4)]
    assert admitted(groups, [member(1, 0), member(2, 5)]) == Admitted((2, 3), (1, 2))
    assert admitted(groups, [member(1, 0), member(2, 25)]) == Admitted((3,), (1,))


def test_groups_see_what_comes_while_they_live() -> None:
    groups = [live(1, (within(9),), first=3, last=8)]
    for docs, seen in (((3, 8), True), ((8, 3), True), ((2, 5), False), ((5, 9), False), ((9, 2), False)):
        assert bool(admitted(groups, [member(doc, 0) for doc in docs]).groups) == seen


@pytest.mark.parametrize(("left", "right", "order"), [("S\0a", "S\0b", 1), ("S\0b", "S\0a", -1), ("S\0z", "T\0a", 1)])
def test_equal_times_are_ordered_by_channel_and_id(left: str, right: str, order: int) -> None:
    members = [member(1, 4, place=left), member(2, 4, place=right)]
    groups = [live(1, (within(0, order=1),)), live(-1, (within(0, order=-1),)), live(0, (within(0),))]
    assert set(admitted(groups, members).groups) == {0, order}


def test_one_block_has_no_windows() -> None:
    assert admitted([live(1, ()), live(2, (), first=8)], [member(5, 3)]) == Admitted((1,), (1,))


def test_rows_of_all_kinds_in_one_relation() -> None:
    columns = ResultColumns()
    by = Admitted((7, 8), (1, 2))
    columns.add_rout(3, (1, 2), (10, 20), by)
    columns.add_match(3, (1, 2), (10,), (10, 20), by)
    columns.add_link(99, [member(1, 0), member(2, 1, item=1)], [10, 20])
    columns.add_count(5)
    batch = columns.take()
    assert batch.schema == RESULT_SCHEMA
    rows = [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]
    groups = {"groups": [7, 8], "cases": [1, 2]}
    assert rows == [
        {"relation": "rout", "instance": 3, "docs": [1, 2], "nodes": [10, 20], **groups},
        {"relation": "match", "instance": 3, "docs": [1, 2], "nodes": [10], "witness": [10, 20], **groups},
        {
            "relation": "link",
            "link": 99,
            "docs": [1, 2],
            "nodes": [10, 20],
            "members": [
                {"docid": 1, "item": 1, "ts": 0, "place": "S\0001"},
                {"docid": 2, "item": 1, "ts": SECOND, "place": "S\0002"},
            ],
        },
        {"relation": "pairs", "docs": [5]},
    ]
    assert columns.take().num_rows == 0
    assert columns.take().schema == RESULT_SCHEMA


def test_batches_are_handed_out_when_they_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResultColumns, "_BATCH", 2)
    columns = ResultColumns()
    columns.add_count(1)
    assert list(columns.full()) == []
    columns.add_count(2)
    assert [batch.num_rows for batch in columns.full()] == [2]
    assert list(columns.full()) == []
