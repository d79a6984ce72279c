"""What queries make of published documents does not depend on how batches are cut, though events come late, queries
come and go, and channels get other latenesses.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from absences import S
from budget import examples

import xscl
from xscl.base.errors import XsclError
from xscl.base.settings import Settings
from xscl.ingest.records import Heartbeat
from xscl.registry.channels import set_channel

LEVELS = "", "STRONG", "MIDDLE", "WEAK", "BLOCKING 1 s MEMORY 1 s", "BLOCKING 0 s MEMORY 1 s"
PUBLISHERS = (
    "A->x[./k->k]",
    "A->x[./v > 1][./k->k]",
    "A->x[./k->k] FOLLOWED BY {k = l, 3} B->y[./k->l]",
    "A->x[./k->k] NOT FOLLOWED BY {k = l, 2} B->y[./k->l]",
    "A->x[./k->k] NEXT {k = l} B->y[./k->l]",
    "A->x[./k->k] FOLD {k = l, 4, AT MOST 2} A->y[./k->l]",
)
READERS = (
    "L->x[./k->k] FOLLOWED BY {k = l, 4} R->y[./k->l]",
    "L->x[./k->k] FOLLOWED BY {k = l, 4} R->y[./k->l] WITHOUT {k = m, BETWEEN} P->z[./k->m]",
    "L->x[./k->k] NOT FOLLOWED BY {k = l, 3} R->y[./k->l]",
    "L->x[./k->k] WITHOUT {k = l, y - x IN [-2, 2]} R->y[./k->l]",
    "L->x[./k->k] NEXT {k = l} R->y[./k->l]",
    "L->x[./k->k] NEXT {k = l, 4} R->y[./k->l] WITHOUT {k = m, 2} P->z[./k->m]",
    "L->x[./k->k] FOLD {k = l, 5, LONGEST} R->y[./k->l]",
    "SELECT k, count() AS n FROM L->x[./k->k] FOLD {k = l, 5} R->y[./k->l]",
    "SELECT k, count() AS n FROM P->x[./k->k] WINDOW 4 s EVERY 2 s GROUP BY k",
    "SELECT k, count() AS n FROM P->x[./k->k] WINDOW LAST 2 GROUP BY k",
)
Row = tuple[str, str, int, str | None]


def levelled(choose: random.Random, text: str) -> str:
    """A text with a level of consistency, where it may have one."""
    has_none = "WINDOW" in text or not any(word in text for word in ("NEXT", "FOLD", "NOT ", "WITHOUT"))
    level = "" if has_none else choose.choice(LEVELS)
    return f"{text} CONSISTENCY {level}" if level else text


def publisher(choose: random.Random) -> str:
    document = f"<e><k>{{k}}</k><v>{choose.choice('123')}</v></e>"
    text = f"SELECT {document} FROM {choose.choice(PUBLISHERS)} PUBLISH P{choose.choice(['', ' SPANNING'])}"
    return levelled(choose, text)


def reader(choose: random.Random) -> str:
    left, right = choose.choice(["PA", "AP", "PP", "BP", "PB"])
    text = levelled(choose, choose.choice(READERS).replace("L->", f"{left}->").replace("R->", f"{right}->"))
    keeps = any(word in text for word in ("WINDOW", "NEXT", "FOLD"))
    return text if keeps else text + choose.choice(["", "", " ON CHANGE RETRACT"])


def stream(choose: random.Random) -> list[xscl.Event]:
    """Events of two channels, some far behind those before them."""
    found, clock = [], 0
    for number in range(choose.choice([8, 12, 16])):
        clock += choose.choice([0, 1, 1, 2])
        ts = max(0, clock - choose.choice([0, 0, 0, 1, 2, 3, 5]))
        xml = f"<e><k>{choose.choice('aab')}</k><v>{choose.choice('123')}</v></e>"
        found.append(xscl.Event(choose.choice("AAB"), f"e{number}", Decimal(ts), xml=xml))
    return found


def told(folder: Path, choose: random.Random, size: int, drops: float) -> Mapping[str, Row]:
    """What all queries tell where batches have so many places, and queries are dropped with a chance before an event;
    the rest is what is chosen.
    """
    with xscl.connect(home=folder, settings=Settings(where="driver")) as engine:
        for name in "AB":
            engine.add_channel(name, lateness=f"{choose.choice([0, 1, 2, 3])} s", clock=choose.choice([name, "one"]))
        for number, text in enumerate([publisher(choose), *(reader(choose) for _ in range(3))]):
            register(engine, f"q{number}", text)
        for event in stream(choose):
            if choose.random() < 0.05:
                register(engine, f"later-{event.id}", reader(choose))
            if choose.random() < drops and (live := [info.name for info in engine.queries()]):
                engine.drop(choose.choice(live))
            if choose.random() < 0.08:
                lateness = choose.choice(["none", "0 s", "1 s", "3 s", "6 s"])
                set_channel(engine.home.catalog, choose.choice("AB"), lateness=lateness)
            engine.ingest([event])
        engine.ingest([Heartbeat(name, 100 * S, "test") for name in "AB"])
        engine.run_once(batch_docs=size)
        return {match.id: (match.query, match.document, match.ts, str(match.values)) for match in engine.matches()}


def register(engine: xscl.Engine, name: str, text: str) -> None:
    """Register a query unless it is refused, as readers of what is taken back are."""
    try:
        engine.register(text, name=name)
    except XsclError as error:
        assert error.condition in ("XSCL_KEEPS_RETRACTED", "XSCL_BAD_LEVEL"), (text, error)


def test_cuts_change_no_answer_about_what_is_published(tmp_path: Path) -> None:
    count = 0
    for seed in range(104, 104 + examples(12)):
        one, *others = (told(tmp_path / f"{seed}-{size}", random.Random(seed), size, 0.1) for size in (1, 3, 1_000))
        assert all(other == one for other in others), seed
        count += len(one)
    assert count > 5
