"""Plans that join in two steps by PUBLISH give what one query of four blocks gives (J23, G8).

The query is the first of the running example (Figure 3.3) of A. Silva, *Multiple Continuous Query Processing with
Relative Window Predicates* (Juggler), 2004.
"""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
from golden.test_juggler import ICU_2, Q1, Q1_ANSWER

import xscl
from xscl.engine import Engine

VALUES = {"B": ("at", "pressure", "temp"), "H": ("at", "vib"), "K": ("at", "fluid"), "T": ("at", "fluct")}
BRACKETS = {"B": "", "H": "[./beatrate = 52]", "K": "", "T": ""}
ATOMS = {("B", "H"): "B_temp > H_vib", ("B", "T"): "B_pressure > T_fluct"}
TIGHTENED = {"BT": (1, 4), "BH": (-3, 4), "BK": (-3, 4), "HT": (-3, 4), "KT": (-3, 4), "HK": (-4, 4)}
"""Seconds by which the second stream of each pair may be after the first: G7."""
PLANS = {"BH_TK": 12, "BK_TH": 15, "TB_HK": 11, "BHT_K": 6, "BKT_H": 11, "BHK_T": 9}
"""Rows that the last join is fed with by joins (G8)."""


def block(channel: str) -> str:
    """A stream with its values as variables."""
    bound = "".join(f"[./{value}->{channel}_{value}]" for value in VALUES[channel])
    return f"{channel}->{channel}{BRACKETS[channel]}{bound}"


def atoms(pairs: set[tuple[str, str]]) -> list[str]:
    return [atom for (a, b), atom in ATOMS.items() if {(a, b), (b, a)} & pairs]


def inner(channels: str) -> str:
    """A join of some of the streams that publishes their values."""
    windows = [f"{b} - {a} IN [{lo} s, {hi} s]" for (a, b), (lo, hi) in TIGHTENED.items() if {a, b} <= set(channels)]
    last = ", ".join([*filter(None, [" AND ".join(atoms(set(combinations(channels, 2))))]), *windows])
    text = block(channels[0])
    for channel in channels[1:-1]:
        text += f" JOIN {{4 s}} {block(channel)}"
    text += f" JOIN {{{last}}} {block(channels[-1])}"
    values = " ".join(f'{c}_{value}="{{{c}_{value}}}"' for c in channels for value in VALUES[c])
    return f"SELECT <row {values}/> FROM {text} PUBLISH {channels}"


def outer(left: str, right: str) -> str:
    """The last join; composites count by their latest member, so the rest of the windows is asked of values."""

    def side(channels: str) -> str:
        if len(channels) == 1:
            return block(channels)
        bound = "".join(f"[./@{c}_{value}->{c}_{value}]" for c in channels for value in VALUES[c])
        return f"{channels}/row{bound}"

    across = set(product(left, right))
    times = [f"{a}_at <= {b}_at + 4 AND {b}_at <= {a}_at + 4" for a, b in sorted(across)]
    later = ["T_at >= B_at + 1"] if {("B", "T"), ("T", "B")} & across else []
    return f"{side(left)} JOIN {{{' AND '.join([*atoms(across), *times, *later])}, MAXWINDOW 4 s}} {side(right)}"


def taken_apart(engine: Engine, query: str) -> list[frozenset[str]]:
    """The members of each match, those of published documents in their place."""
    inside = {match.id: [event.id for event in match.events] for match in engine.matches()}
    return [
        frozenset(id_ for event in match.events for id_ in inside.get(event.id, [event.id]))
        for match in engine.matches(query)
    ]


@pytest.mark.parametrize("batch_docs", [5, 100])
def test_g8_all_plans_give_the_same(batch_docs: int, tmp_path: Path) -> None:
    docs = [
        xscl.Event(d.channel, d.id, d.ts / 1e6, xml=d.xml.replace(">", f"><at>{d.ts // 1_000_000}</at>", 1))
        for d in sorted(ICU_2, key=lambda doc: doc.ts)
    ]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(Q1, name="one")
        parts = {part for plan in PLANS for part in plan.split("_") if len(part) > 1}
        for part in sorted(parts):
            engine.register(inner(part), name=part)
        for plan in PLANS:
            engine.register(outer(*plan.split("_")), name=plan)
        engine.ingest(docs)
        engine.run_once(batch_docs=batch_docs)
        answer = {frozenset(match) for match in Q1_ANSWER}
        assert len(answer) == 9 and answer == set(taken_apart(engine, "one"))
        published = {part: len(list(engine.matches(part))) for part in parts}
        fed = {plan: sum(published.get(part, 0) for part in plan.split("_")) for plan in PLANS}
        assert fed == PLANS
        for plan in PLANS:
            found = taken_apart(engine, plan)
            assert len(found) == 9 and set(found) == answer, plan
