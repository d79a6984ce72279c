"""``xscl bench consistency``: questions about absence and with steps at each level of consistency, over more disorder.

All levels of all questions answer side by side in one home.  Behind each batch, the answers that hold are compared with
those that a loop tells of the events that came, for a query with so much memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xscl.answers.consistency import kept_rows, pending_bindings
from xscl.base.settings import Settings
from xscl.base.values import digest_text
from xscl.bench.absence import take_part
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.engines import register
from xscl.bench.orders import LATENESS_S, SCHEMAS, Trade
from xscl.bench.plot import Axes, of_value
from xscl.bench.report import Row
from xscl.bench.seen_orders import QUESTIONS, Answers, Question, Seen
from xscl.engine import Engine, connect

__all__ = ["BENCH"]

LEVELS: dict[str, tuple[int, int]] = {
    "STRONG": (LATENESS_S, LATENESS_S),
    "BLOCKING 2 min MEMORY 10 min": (120, LATENESS_S),
    "MIDDLE": (0, LATENESS_S),
    "BLOCKING 2 min MEMORY 2 min": (120, 120),
    "WEAK": (0, 0),
}
"""Levels, each with the seconds behind clocks that it blocks and remembers."""
_GAP_US = 2_000_000
_SHOPS = 20
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    items: int = size(5_000, 300)
    """Orders."""
    disorder: tuple[float, ...] = size((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.3))
    """Parts of the events that come after newer ones."""
    batch: int = size(100, 60)
    """Events of a batch, about."""


@dataclass(slots=True)
class _Measured:
    """Figures of a question at a level so far."""

    question: Question
    level: str
    seen: Seen
    """Events that it remembers."""
    known: Answers = field(default_factory=dict)
    """Right answers to the events that were seen before the batch."""
    cursor: str = "start"
    net: set[tuple[int, ...]] = field(default_factory=set)
    """Orders of the answers that hold, as the change log tells."""
    inserts: int = 0
    retractions: int = 0
    blocked_s: float = 0.0
    """Sum of the seconds by which clocks were beyond answers that were known, and not told."""
    state: int = 0
    """Most pending bindings, or rows of steps, behind a batch."""
    right: bool = True
    """Whether what holds was right behind each batch."""

    @property
    def name(self) -> str:
        """Name of the query."""
        return f"q{QUESTIONS.index(self.question)}_{[*LEVELS].index(self.level)}"

    def note(self, engine: Engine, known: Answers, clock: int, *, ended: bool) -> None:
        """Note the changes of a batch; the clock showed ``clock`` before, and known are the right answers behind it."""
        listing = engine.changes(self.name, after=self.cursor)
        for match in listing:
            orders = tuple(int(event.id) for event in match.events)
            if match.retracted is None:
                self.net.add(orders)
                self.inserts += 1
                if orders in self.known:
                    self.blocked_s += max(0, clock - self.known[orders]) / _SECOND
            else:
                self.net.remove(orders)
                self.retractions += 1
        self.cursor, self.known = listing.cursor, known
        self.right &= self.net == {orders for orders, ts in known.items() if ended or ts < self._until}

    @property
    def _until(self) -> int:
        """Time before which it has answered."""
        blocking, memory = LEVELS[self.level]
        # Answers that are final wait until no event with the clock's own time may come.
        return self.seen.clocks[self.question.clock] - blocking * _SECOND + (blocking == 0 < memory)


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[Trade]]:
    for part in lab.sizes.disorder:
        trade = Trade(lab.sizes.items, _SHOPS, lab.seed, _GAP_US, part)
        yield Case(f"{part:.0%} disorder", trade, {"disorder": part, "orders": trade.orders})


def _measure(lab: Lab[_Sizes], case: Case[Trade]) -> Outcome:
    trade = case.data
    # Levels with one memory have seen the same.
    seen = {memory: Seen(memory) for _, memory in LEVELS.values()}
    found = [_Measured(each, level, seen[memory]) for each in QUESTIONS for level, (_, memory) in LEVELS.items()]
    every = Seen(LATENESS_S)
    with connect(home=lab.new_folder() / "home", settings=Settings("driver")) as engine:
        for channel, schema in SCHEMAS.items():
            engine.add_channel(channel, kind="rows", schema=schema, lateness=f"{LATENESS_S} s")
        register(engine, ((one.name, f"{one.question.text} CONSISTENCY {one.level}") for one in found))
        for number, part in enumerate(trade.parts(lab.sizes.batch)):
            clocks = dict(seen[LATENESS_S].clocks)
            take_part(engine, part, number)
            for each in (*seen.values(), every):
                each.take(part)
            _look(engine, found, clocks)
        engine.end_input()
        _look(engine, found, seen[LATENESS_S].clocks, ended=True)
        late_for = {info.name: info.late_for for info in engine.queries()}
    true = {question.name: {*question.answers(every)} for question in QUESTIONS}
    rows = [{**case.figures, **_row(one, true[one.question.name], late_for[one.name])} for one in found]
    right = all(_is_right(one, row) for one, row in zip(found, rows, strict=True))
    return Outcome({}, rows, digest_text(*(repr(sorted(one.net)) for one in found)), right)


def _look(engine: Engine, found: Sequence[_Measured], clocks: dict[str, int], *, ended: bool = False) -> None:
    """Process what came, and note what each query tells of it; the clocks showed these times before."""
    engine.run_once()
    kept = Counter[int]()
    with engine.home.catalog.read() as connection:
        for counts in (*pending_bindings(engine.home, connection), *kept_rows(engine.home, connection)):
            kept += counts
    groups = {info.name: info.gid for info in engine.queries()}
    known: dict[tuple[str, int], Answers] = {}
    for one in found:
        of = one.question.name, one.seen.memory
        if of not in known:
            known[of] = one.question.answers(one.seen)
        one.note(engine, known[of], clocks[one.question.clock], ended=ended)
        one.state = max(one.state, kept[groups[one.name]])


def _row(one: _Measured, true: set[tuple[int, ...]], late_for: int) -> Row:
    """Return the figures of a query."""
    return {
        "question": one.question.name,
        "level": one.level,
        "quality": len(one.net & true) / len(one.net | true) if one.net | true else 1.0,
        "inserts": one.inserts,
        "retractions": one.retractions,
        "blocking_s": one.blocked_s / max(1, one.inserts),
        "state_rows": one.state,
        "late_for": late_for,
    }


def _is_right(one: _Measured, row: Row) -> bool:
    """Tell whether answers were right at any time, and figures are those that the level promises."""
    blocking, memory = LEVELS[one.level]
    forgotten = sum(one.seen.forgotten[channel] for channel in one.question.reads)
    return (
        one.right
        and row["late_for"] == forgotten
        and (row["quality"] == 1 or memory < LATENESS_S)
        and (one.retractions == 0 or memory > blocking)
        and (one.blocked_s == 0 or blocking > 0)
    )


def _figures(_: _Sizes, results: Sequence[Result[Trade]]) -> Row:
    """Take the least quality and the sums of each level."""
    rows = by_step(results)
    figures: dict[str, float] = {}
    for level in ("STRONG", "MIDDLE", "WEAK"):
        mine = [row for row in rows if row["level"] == level]
        figures[f"least_quality_{level.lower()}"] = min(row["quality"] for row in mine)
        figures[f"retractions_{level.lower()}"] = sum(row["retractions"] for row in mine)
    return figures


_PLOTS = tuple(
    Axes(
        f"{question.name}, {{s.items:,}} orders",
        x="part of the events that come out of order",
        y="quality: right answers of all that are right or told",
        over="disorder",
        lines={"": "quality"},
        by="level",
        chosen=of_value("question", question.name),
    )
    for question in QUESTIONS
)

BENCH = Bench(
    name="consistency",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_step,
    figures=_figures,
    axes=_PLOTS[0],
    beside=_PLOTS[1:],
    notes=(
        "An answer is blocked by the seconds that the clock was beyond it before the batch that told it, if all of "
        "which it is made was there before.",
    ),
    spark=False,
)
