"""What a query's blocks find in documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.answers.try_query import RESULT, DryRun
from xscl.base.types import Event
from xscl.catalog.channels import read_channels
from xscl.catalog.queries import read_query
from xscl.ingest.reading import Reading
from xscl.ingest.records import Rejected
from xscl.ingest.sources import read_paths
from xscl.registry.registry import Registry
from xscl.store.home import init_home

BOOK = "<book><author>A</author><author>B</author><title lang='en'>T<b>!</b>?</title></book>"


def found(tmp_path: Path, text: str, *events: Event) -> list[tuple[int, dict[str, tuple[int | str, str]]]]:
    """(block, bindings) of every witness."""
    catalog = init_home(tmp_path / "home").catalog
    Registry(catalog).register(text, name="Q")
    dry_run = DryRun(catalog.ask(read_query, "Q"), catalog.ask(read_channels))
    rows = [
        (w.block, {name: (bound.node, bound.value) for name, bound in w.bindings.items()})
        for w in dry_run.witnesses(events)
    ]
    assert not dry_run.problems
    assert dry_run.found.total() == len(rows)
    return rows


def test_a_row_is_an_assignment_of_all_variables_of_a_block(tmp_path: Path) -> None:
    text = "S//book->x[./author->a][./title] FOLLOWED BY {a = c, 1 d} S/book[./author->c][./author->d]"
    rows = found(tmp_path, text, Event("S", xml=BOOK))
    whole = (0, "ABT!?")
    assert [row for block, row in rows if block == 1] == [{"x": whole, "a": (1, "A")}, {"x": whole, "a": (2, "B")}]
    pairs = {(row["c"][0], row["d"][0]) for block, row in rows if block == 2}
    assert pairs == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert all(row[RESULT] == whole for block, row in rows if block == 2)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("S//title/@lang->x", ["3/@lang"]),
        ("S//title/text()->x", ["3/text()[1]", "3/text()[2]"]),
        ("S//b->x", [4]),
        ("S->x", [0]),
        ("S[.//b]//author->x[. != 'A']", [2]),
        ("S[./nothing]//author->x", []),
        ("T//author->x", []),
        ("S//*//b->x", [4]),
    ],
)
def test_nodes_have_locators(tmp_path: Path, text: str, nodes: list[int | str]) -> None:
    assert [row["x"][0] for _, row in found(tmp_path, text, Event("S", xml=BOOK))] == nodes


def test_branches_that_cannot_be_completed_are_not_begun(tmp_path: Path) -> None:
    many = "".join(f"[./b->v{i}]" for i in range(12))
    document = "<a>" + "<b/>" * 100 + "</a>"
    assert found(tmp_path, f"S/a{many}[./c->w]", Event("S", xml=document)) == []


def test_rows_tell_what_columns_their_channel_has(tmp_path: Path) -> None:
    text = "ticks[./sym->s][./price->p] FOLLOWED BY {p = '7.0' AND s = t, 1 d} ticks[./sym->t]"
    rows = found(tmp_path, text, Event("ticks", row={"sym": "IBM", "price": 7.0}))
    assert [(block, sorted(row)) for block, row in rows] == [(1, [RESULT, "p", "s"]), (2, [RESULT, "t"])]


def test_what_cannot_be_taken_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    catalog = init_home(tmp_path / "home").catalog
    Registry(catalog).register("S//a->x", name="Q")
    dry_run = DryRun(catalog.ask(read_query, "Q"), catalog.ask(read_channels))
    records = [
        Event("S", xml="<a>", source="f:1"),
        Rejected("f:2", "XSCL_BAD_EVENT_LINE", "no"),
        Event("S", "d", xml="<a/>"),
        Event("S", row={"a": 1}),
    ]
    (witness,) = dry_run.witnesses(records)
    assert (witness.document, witness.name, dry_run.documents["S"]) == ("d", "x", 1)
    conditions = [problem.condition for problem in dry_run.problems]
    assert conditions == ["XSCL_MALFORMED_DOCUMENT", "XSCL_BAD_EVENT_LINE", "XSCL_CHANNEL_KIND"]


def test_files_of_rows(tmp_path: Path) -> None:
    catalog = init_home(tmp_path / "home").catalog
    Registry(catalog).register("hot[./temp > 25][./room->a] FOLLOWED BY {a = b, 1 d} hot[./room->b]", name="Q")
    file = tmp_path / "hot.csv"
    file.write_text("room,temp\nkitchen,NA\nhall,26.5\n007,9\n")
    dry_run = DryRun(catalog.ask(read_query, "Q"), catalog.ask(read_channels))
    rows = list(dry_run.witnesses(read_paths([file], Reading(null=["NA"]))))
    assert [(w.document.rpartition(":")[2], w.block, w.bindings["a" if w.block == 1 else "b"].value) for w in rows] == [
        ("2", 2, "kitchen"),
        ("3", 1, "hall"),
        ("3", 2, "hall"),
        ("4", 2, "007"),
    ]
    assert dry_run.documents == {"hot": 3} and not dry_run.problems


def test_rows_without_a_wanted_column_are_a_problem(tmp_path: Path) -> None:
    catalog = init_home(tmp_path / "home").catalog
    Registry(catalog).register("hot[./room->a]", name="Q")
    file = tmp_path / "hot.csv"
    file.write_text("room,temp\nhall,26.5\n")
    dry_run = DryRun(catalog.ask(read_query, "Q"), catalog.ask(read_channels))
    assert list(dry_run.witnesses(read_paths([file], Reading(columns="rome")))) == []
    assert [problem.condition for problem in dry_run.problems] == ["XSCL_NO_COLUMN"]
