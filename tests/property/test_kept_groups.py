"""What texts are compiled to, as data and back, against what they are compiled to."""

from __future__ import annotations

import json

from both_sides import channel_facts
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    NAMESPACES,
    NUMERIC,
    TEXTS,
    Dice,
    many_block_query,
    one_block_queries,
    query_texts,
    two_block_queries,
)

from xscl.base.errors import QueryError
from xscl.language.compile import compile_query
from xscl.language.facts import ChannelFacts, asks_kind, deciding
from xscl.language.group_data import GroupForm, GroupReader, groups_text
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.xpath.pattern import Definition

FACTS = channel_facts(NUMERIC, TEXTS)


def check(texts: list[str]) -> int:
    forms = {}
    for number, text in enumerate(texts):
        try:
            compiled = compile_query(parse_query(text), text, namespaces=NAMESPACES, channels=FACTS)
        except QueryError:
            continue
        forms[str(number)] = GroupForm.of(compiled)
    data = json.loads(groups_text(forms.items()))
    found = dict(GroupReader().read(data, forms.keys()))
    assert found.keys() == forms.keys()
    for name, form in forms.items():
        made = found[name]
        assert (made.group, made.channels, made.specs, made.facts) == (
            form.group,
            form.channels,
            form.specs,
            form.facts,
        )
        assert made.group.key == form.group.key
        for one, other in zip((*made.specs, *made.facts), (*form.specs, *form.facts), strict=True):
            definition = one.definition
            # The key that was read is the one that its text gives.
            fresh = Definition(definition.channel, definition.steps, definition.conditions)
            assert (definition.key, definition.text) == (fresh.key, other.definition.text)
    return len(forms)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(two_block_queries() | one_block_queries() | query_texts(), min_size=1, max_size=5))
def test_groups_are_what_their_data_says(texts: list[str]) -> None:
    check([*texts, texts[0]])


def test_groups_of_many_blocks_are_what_their_data_says() -> None:
    count = 0
    for seed in range(examples(40)):
        count += check([many_block_query(Dice(seed), ("R", "Q", "S"), least=2, most=4)])
    assert count > examples(40) / 3


@settings(max_examples=examples(120), deadline=None)
@given(two_block_queries() | one_block_queries())
def test_documents_of_an_unknown_channel_change_only_groups_that_ask_for_its_kind(text: str) -> None:
    query = parse_query(text)
    names = {block.channel for block in ast.blocks(query.source)}
    made: list[GroupForm | str] = []
    for kind in (None, "xml"):
        try:
            facts = {name: ChannelFacts(kind) for name in names}
            made.append(GroupForm.of(compile_query(query, text, namespaces=NAMESPACES, channels=facts)))
        except QueryError as error:
            made.append(error.condition)
    one, other = made
    assert isinstance(one, GroupForm) == isinstance(other, GroupForm)
    is_asked = asks_kind(text, names)
    assert is_asked or deciding(ChannelFacts("xml"), is_asked) == deciding(None, is_asked)
    if isinstance(one, GroupForm) and isinstance(other, GroupForm) and not is_asked:
        parts = [(each.group, each.channels, each.specs, each.facts) for each in (one, other)]
        assert parts[0] == parts[1], text
