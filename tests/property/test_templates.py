"""Template ids against isomorphism of reduced join graphs, by definition and by trying all permutations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, permutations, product

import pytest
from budget import examples
from local_engine import compiled
from preparing import renamed, with_brackets_permuted, with_other_joins, words
from strategies import CHANNELS, NAMESPACES, Dice, many_block_query

from xscl.base.errors import QueryError
from xscl.language.normalize import NormalJoin, NormalQuery, normalize
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import tokenize


@dataclass(frozen=True)
class Reduced:
    """For each block the place of the kept node above each kept node, -1 for none; and the joins between them."""

    parents: tuple[tuple[int, ...], ...]
    joins: tuple[tuple[tuple[int, int], tuple[int, int], str], ...]

    def sizes(self) -> tuple[object, ...]:
        """What isomorphic graphs have in common, to be compared first."""
        kinds = sorted((left[0], right[0], kind) for left, right, kind in self.joins)
        return tuple(len(block) for block in self.parents), tuple(kinds)


def reduced(query: NormalQuery) -> Reduced:
    """The joined nodes of each block and their least common ancestors; a block without joins keeps its result."""
    ends = {query.variables[name] for join in query.joins for name in (join.left, join.right)}
    parents, place = [], {}
    for index, block in enumerate(query.blocks):
        ways = {}
        for node in range(len(block.nodes)):
            way = [node]
            while (above := block.nodes[way[-1]].parent) >= 0:
                way.append(above)
            ways[node] = way
        joined = {node for at, node in ends if at == index} or {block.result}
        lowest = {next(a for a in ways[one] if a in ways[other]) for one in joined for other in joined}
        kept = sorted(joined | lowest)
        place |= {(index, node): number for number, node in enumerate(kept)}
        above_of = [next((a for a in ways[node][1:] if a in kept), None) for node in kept]
        parents.append(tuple(-1 if above is None else kept.index(above) for above in above_of))
    joins = [
        ((left[0], place[left]), (right[0], place[right]), kind(join))
        for join in query.joins
        for left, right in [(query.variables[join.left], query.variables[join.right])]
    ]
    return Reduced(tuple(parents), tuple(joins))


def kind(join: NormalJoin) -> str:
    return "BAND" if join.linear or join.op not in ("=", "!=") else join.op


def isomorphic(one: Reduced, other: Reduced) -> bool:
    """Whether some permutation inside each block makes one the other."""
    if one.sizes() != other.sizes():
        return False
    choices = []
    for mine, others in zip(one.parents, other.parents, strict=True):
        fine = [
            to
            for to in permutations(range(len(mine)))
            if all((to[above] if above >= 0 else -1) == others[to[node]] for node, above in enumerate(mine))
        ]
        choices.append(fine)
    wanted = Counter(other.joins)
    return any(
        Counter(((a, to[a][x]), (b, to[b][y]), label) for (a, x), (b, y), label in one.joins) == wanted
        for to in product(*choices)
    )


def graph(text: str) -> Reduced:
    return reduced(normalize(parse_query(text), text, NAMESPACES))


def template(text: str) -> str | None:
    try:
        return compiled(text).template.id
    except QueryError as error:
        assert error.condition == "XSCL_UNSATISFIABLE_WINDOW", text
        return None


@pytest.mark.parametrize("least", [2, 3, 4])
def test_equal_templates_are_isomorphic_graphs(least: int) -> None:
    found: dict[str, str] = {}
    for seed in range(examples(300)):
        choose = Dice(1000 * least + seed)
        text = many_block_query(choose, choose.one(CHANNELS, ("S", "R", "Q")), least=least, most=least)
        name = template(text)
        if name is None:
            continue
        found[text] = name
        # The same shape in other words.
        other = with_brackets_permuted(choose, renamed(choose, words(tokenize(text))))
        again = " ".join(with_other_joins(choose, other, windows=False))
        if "SELECT" not in again:
            assert template(again) == name, (text, again)
            assert isomorphic(graph(text), graph(again)), (text, again)
    graphs = {text: graph(text) for text in found}
    equal = 0
    for one, other in combinations(found, 2):
        same = isomorphic(graphs[one], graphs[other])
        assert same == (found[one] == found[other]), (one, other)
        equal += same
    assert equal > 5, "some must be alike"


JOINS = (
    "x = u AND y = v AND z = w",
    "x = u AND y = w AND z = v",
    "x = u AND y = u AND z = v",
    "x = u AND x = v AND x = w",
    "x = u AND x = v AND y = w",
    "x = u AND x = v AND z = w",
    "x = u AND y = u AND y = w",
    "x = u AND x != v AND y = w",
    "x = u AND x = v AND y != w",
    "x = u AND lower(x) = u AND y = w",
    "x = u AND x = 2 * u AND y = w",
    "x = u AND x < u AND y = w",
    "x = u AND y = v",
)
BLOCKS = (
    "S//r[./a->{}][./a->{}][./a->{}]",
    "S//r[./a[./b->{}][./b->{}]][./a->{}]",
    "S//r[./a->{}[./b->{}]][./a->{}]",
    # The least common ancestor is the document node.
    "S[./a->{}][./b->{}]//c->{}",
)


def test_alike_and_nearly_alike() -> None:
    """Content tells little here, so the shape has to."""
    texts = [
        f"{left.format(*'xyz')} JOIN {{{joins}, 1 h}} {right.format(*'uvw')}"
        for left in BLOCKS
        for right in BLOCKS
        for joins in JOINS
    ]
    names = {text: template(text) for text in texts}
    graphs = {text: graph(text) for text in texts}
    equal = close = 0
    for one, other in combinations(texts, 2):
        same = isomorphic(graphs[one], graphs[other])
        assert same == (names[one] == names[other]), (one, other)
        equal += same
        close += not same and graphs[one].sizes() == graphs[other].sizes()
    assert equal > 100 and close > 300
