"""Laws of steps that the oracle keeps on random queries and events, whatever their order of arrival."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from budget import examples
from oracle.steps import at_last
from step_queries import step_query, step_stream

from xscl.base.errors import UnsatisfiableWindowError
from xscl.language.steps.parts import parts_of
from xscl.language.steps.steps import steps_of
from xscl.language.syntax.format import format_query
from xscl.language.syntax.parser import parse_query


def test_random_queries_are_sound_and_have_matches_in_any_order_of_arrival() -> None:
    found = 0
    for seed in range(examples(150)):
        choose = Random(seed)
        text = step_query(choose)
        query = parse_query(text)
        assert parse_query(format_query(query)) == query
        try:
            definition = steps_of(query, text)
        except UnsatisfiableWindowError:
            continue
        assert len(definition.parts) == len(parts_of(query))
        docs = step_stream(choose, 16)
        matches = at_last(query, docs)
        found += bool(matches)
        choose.shuffle(docs)
        assert {(each.answer, each.values, each.ts) for each in at_last(query, docs)} == {
            (each.answer, each.values, each.ts) for each in matches
        }, text
    assert found > examples(150) // 4


def test_a_fold_of_one_iteration_is_next_and_a_longest_one_is_among_all() -> None:
    for seed in range(examples(60)):
        choose = Random(seed)
        docs = step_stream(choose, 10)
        left, right = "SELECT v, w FROM A[./k->k][./v->v]", "A[./k->l][./v->w]"
        one = at_last(parse_query(f"{left} FOLD {{k = l, 6, AT MOST 1}} {right}"), docs)
        assert one == at_last(parse_query(f"{left} NEXT {{k = l, 6}} {right}"), docs)
        every = at_last(parse_query(f"{left} FOLD {{k = l WHILE w > last(w, v)}} {right}"), docs)
        longest = at_last(parse_query(f"{left} FOLD {{k = l WHILE w > last(w, v), LONGEST}} {right}"), docs)
        longest, every = ({replace(each, place=0) for each in found} for found in (longest, every))
        assert longest <= every and bool(longest) == bool(every)
