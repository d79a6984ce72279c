"""Steps over matches of parts: what is decided, and where, is what the oracle says, however batches are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType

import numpy as np
import pytest
from budget import examples
from played_steps import Found, Played
from step_queries import other_numbers

from xscl.base.errors import QueryError
from xscl.batches.deciding import step_parts
from xscl.batches.steps import members as step_members
from xscl.batches.steps.meeting import Meeting
from xscl.batches.steps.rows import Rows, State, joined_rows, layout_of
from xscl.batches.steps.sharing import sharing_of
from xscl.batches.steps.tree import Tree
from xscl.batches.windows.answers import Frontier
from xscl.language.steps.shapes import shape_of
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.parser import parse_query
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import Requests


class Shared:
    """Queries of one shape over the same events, whose steps are moved together."""

    def __init__(self, seed: int) -> None:
        choose = Random(seed)
        with_absence = seed % 3 == 0
        first = Played(seed, with_absence=with_absence)
        self.each = [first]
        for _ in range(choose.randrange(2, 6)):
            text = other_numbers(choose, first.text)
            try:
                self.each.append(Played(seed, text, with_absence=with_absence))
            except QueryError:
                continue
        shapes = [shape_of(played.definition) for played in self.each]
        self.alike = all(shape == shapes[0][0] for shape, _ in shapes)
        if not self.alike:
            return
        self.sharing, self.root = sharing_of(shapes[0][0].root, [numbers for _, numbers in shapes])
        self.layout = replace(first.layout, dimensions=len(self.sharing.dimension))
        self.parts = [self.together(number) for number in range(len(first.parts))]

    def together(self, number: int) -> Rows:
        """Matches of a part, each with the queries that have it."""
        sets, found = self.sharing.sets, []
        for member, played in enumerate(self.each):
            rows = replace(played.parts[number], box=Rows.empty(self.layout, len(played.parts[number])).box)
            rows.base = np.full(len(rows), sets.add(np.array([member])))
            found.append(rows)
        return step_parts._once(joined_rows(found), sets)

    def play(self, cuts: Sequence[int]) -> list[set[Found]]:
        """What is decided for each."""
        told: list[set[Found]] = [set() for _ in self.each]
        for rows in self.each[0].decided(cuts, self.parts, self.layout, self.root, self.sharing):
            for at in range(len(rows)):
                for member in self.sharing.sets.members(int(rows.base[at]), rows.box[at]).tolist():
                    told[member].add(self.each[member].told(rows, at))
        return told


def test_queries_of_one_shape_are_told_what_each_is_alone() -> None:
    several = told = 0
    for seed in range(1_000, 1_000 + examples(150)):
        try:
            shared = Shared(seed)
        except QueryError:
            continue
        if not shared.alike:
            continue
        alone = [set(played.play([])) for played in shared.each]
        several += len(set(map(frozenset, alone))) > 1
        told += sum(map(len, alone))
        texts = [played.text for played in shared.each]
        assert shared.play([]) == alone, texts
        assert shared.play(shared.each[0].cuts) == alone, texts
    assert several > examples(150) // 20 and told


def test_decisions_are_the_oracles() -> None:
    told = 0
    for seed in range(examples(200)):
        try:
            played = Played(seed, with_absence=seed % 3 == 0)
        except QueryError:
            continue
        expected = played.expected()
        whole, cut = played.play([]), played.play(played.cuts)
        assert set(whole) == set(cut) == expected, played.text
        told += bool(expected)
    assert told


@dataclass
class Counted:
    """Queries over a stream of one key and one value: the pairs of rows that each batch asks conditions of, and the
    requests that it makes.
    """

    patch: pytest.MonkeyPatch
    pairs: list[int] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        ask, request = Meeting.pass_, Meeting.requests

        def asked(meeting: Meeting, rows: Rows, at: Int64s, *others: Int64s) -> Bools:
            self.pairs[-1] += len(at)
            return ask(meeting, rows, at, *others)

        def requested(meeting: Meeting, rows: Rows, key: Int64s) -> Requests:
            self.requests += len(rows)
            return request(meeting, rows, key)

        self.patch.setattr(Meeting, "pass_", asked)
        self.patch.setattr(Meeting, "requests", requested)

    def play(self, steps: Sequence[str], each: int = 20, versions: Mapping[int, int] = MappingProxyType({})) -> None:
        """Move the rows of ten batches."""
        texts = [f"SELECT p, q FROM A[./k->k][./v->p] {step} A[./k->l][./v->q]" for step in steps]
        shapes = [shape_of(steps_of(parse_query(text), text)) for text in texts]
        sharing, root = sharing_of(shapes[0][0].root, [numbers for _, numbers in shapes])
        layout, state = replace(layout_of(shapes[0][0]), dimensions=len(sharing.dimension)), State()
        self.pairs, self.requests = [], 0
        for first in range(0, 10 * each, each):
            places = np.arange(first, first + each)
            new = [Rows.empty(layout, each) for _ in range(2)]
            for part, rows in enumerate(new):
                rows.start = rows.ts = rows.place = rows.first = places
                rows.docs[:, part] = rows.times[:, part] = places
                rows.texts[:, [layout.variable(part, 0), layout.variable(part, 1)]] = "k", "1"
            tree = Tree(layout, root, [Frontier(first, places, places + 1)] * 2, state, sharing)
            tree.versions = versions
            self.pairs.append(0)
            tree.move(new)
            state = tree.state


@pytest.mark.parametrize(
    "step", ["NEXT {k = l AND q > p}", "FOLD {k = l AND q > p}", "FOLD {k = l AND q > p, LONGEST}"]
)
def test_lefts_that_wait_look_at_new_rights_alone(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    counted.play([step])
    # 20 lefts more wait in each batch, each for the 20 rights of the batch.
    assert 0 < np.diff(counted.pairs)[1:].max() <= 20 * 20


def test_runs_over_versions_are_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    flattened: list[int] = []
    flat = step_members._flat

    def counted(events: object) -> frozenset[int]:
        found = flat(events)
        flattened.append(len(found))
        return found

    monkeypatch.setattr(step_members, "_flat", counted)
    stream = Counted(monkeypatch)
    stream.play(["FOLD {k = l}"], 10, {doc: doc - 1 for doc in range(1, 100, 2)})
    # 100 runs of up to 50 items are 2,500 iterations.
    assert sum(stream.pairs) > 2_000 and sum(flattened) < 5 * sum(stream.pairs)


@pytest.mark.parametrize(
    "step",
    [
        "NEXT {{k = l AND q = '{}'}}",
        "NEXT {{k = l AND q != {}}}",
        "NEXT {{k = l AND q = {} AND q > {}.5 * p}}",
        "FOLD {{k = l AND q = {} WHILE q < 3}}",
        "FOLD {{k = l AND q != '{}', LONGEST}}",
        "FOLD {{k = l AND q > {} WHILE q < 3}}",
        "FOLD {{k = l AND {} < q, LONGEST}}",
        "NEXT {{k = l AND q <= {} AND q > {}.5}}",
    ],
)
def test_own_values_in_braces_are_one_request(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)

    def played(*own: int) -> tuple[int, int]:
        counted.play([step.format(each, each) for each in own], 5)
        return counted.requests, sum(counted.pairs)

    none, met = played(100), played(1)  # all rows have 1
    requests, pairs = played(*range(100, 150))
    assert requests == none[0] and pairs <= 5 * requests
    requests, pairs = played(*range(1, 51))
    assert requests <= none[0] + met[0] and pairs <= 5 * requests


OVER_A_FOLD = {
    "FOLD {2} {b} FOLD {k2 = k3, MAXWINDOW 4 WHILE v3 != last(v3, v2), LONGEST} {c}": (12, 20, 23, 44),
    "FOLD {2} {b} NEXT {2} {c} FOLD {k3 = k4 WHILE v4 > last(v4, v3), LONGEST} {d}": (12, 13),
    "FOLD {k1 = k2, 2, LONGEST} {b} FOLD {WHILE v3 > last(v3, v2), LONGEST} {c}": (0, 1),
    "FOLD {v3 > v1, AT MOST 1, LONGEST} ({b} FOLD {k2 = k3} {c})": (0, 12),
    "FOLD {k1 = k3 AND v3 > v1, AT MOST 1, LONGEST} ({b} FOLD {k2 = k3} {c})": (12,),
    "FOLD {v3 > v1, AT MOST 1} ({b} FOLD {k2 = k3, 4} {c}) FOLD {v4 > v1, AT MOST 1, LONGEST} {d}": (12,),
}
"""Longest matches over a FOLD on the left or right, with seeds.

Of some, all events of a match are there before the lower FOLD ends: in a run of it, or in one that is half made.
"""


@pytest.mark.parametrize(("steps", "seed"), [(steps, seed) for steps, seeds in OVER_A_FOLD.items() for seed in seeds])
def test_no_match_is_told_that_a_longer_one_may_come_to_contain(steps: str, seed: int) -> None:
    blocks = {letter: f"A->x{n}[./k->k{n}][./v->v{n}]" for n, letter in enumerate("abcd", start=1)}
    for letter, block in blocks.items():
        steps = steps.replace(f"{{{letter}}}", block)
    played = Played(seed, f"SELECT k1 AS c0, v3 AS c1 FROM {blocks['a']} {steps}")
    expected = played.expected()
    for cuts in ([], played.cuts, range(1, len(played.docs))):
        assert set(played.play([*cuts])) == expected, cuts
