"""Rules of sharing: which operators of all queries run as one (M. Hong, RUMOR).

Every query is a few operators, which read channels or other operators of the query.  A rule has a key: the
operators with equal keys run as one, an *m-op*.  Keys are pure functions of an operator and of the streams that it
reads, so a plan depends on nothing but the queries.

Rules with ``s`` come first, from the sources up: they put operators together that read the same streams.  Rules with
``c`` follow: they put m-ops together that do the same to several streams of one m-op, which are one channel then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["KINDS", "RULES", "Input", "Kind", "MOp", "Operator", "Placed", "Rule", "named_rules", "planned"]

Kind = Literal["select", "aggregate", "join", "next", "fold", "absence"]
KINDS: Mapping[Kind, str] = {
    "select": "σ",
    "aggregate": "α",
    "join": "⋈",
    "next": ";",
    "fold": "μ",
    "absence": "∖",
}
"""Kinds of operators with their signs in the papers."""


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of one query."""

    query: str
    number: int
    """Place among the operators of its query; those that it reads come before it."""
    kind: Kind
    shape: Hashable
    """Definition without constants and windows: operators of one shape can run as one."""
    own: Hashable
    """Constants and windows, which columns tell apart; with the shape it is the definition."""
    inputs: tuple[str | int, ...]
    """Channels by name, and operators of the same query by number."""
    text: str = field(default="", compare=False)
    """Words for people, in which {} stands for the constants."""
    constants: str = field(default="", compare=False)
    is_last: bool = field(default=False, compare=False)
    """Whether its events are the answers of the query."""
    channel: str = ""
    """Channel of the query in parentheses whose answers these are; the events of another one are others."""


@dataclass(frozen=True, slots=True)
class Input:
    """A stream that an operator reads."""

    stream: Hashable
    """Streams with the same events are equal."""
    sharable: Hashable
    """Class of streams whose events have one form: a source, what is selected of it, or one operator over either."""
    origin: Hashable
    """Source or m-op whose events they are; what one index selects has the origin of all that it reads."""
    whole: Hashable
    """Source, or stream of another operator, from which they are selected."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An operator with the streams that it reads: what keys of rules are made of."""

    kind: Kind
    shape: Hashable
    own: Hashable
    inputs: tuple[Input, ...]

    @property
    def streams(self) -> tuple[Hashable, ...]:
        """Return the streams that it reads."""
        return tuple(each.stream for each in self.inputs)

    @property
    def channels(self) -> tuple[Hashable, ...]:
        """Return what the streams have in common that are one channel."""
        return tuple((each.sharable, each.origin) for each in self.inputs)


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason for which operators run as one m-op."""

    name: str
    kind: Kind
    key: Callable[[Placed], Hashable]
    target: str
    """Work of the m-op."""

    @property
    def word(self) -> str:
        """Return the name as it is typed."""
        return f"{self.name[0]}_{self.kind}"

    @property
    def is_of_channels(self) -> bool:
        """Whether it puts m-ops together that read streams of one channel."""
        return self.name.startswith("c")


def _of_streams(operator: Placed) -> Hashable:
    return operator.streams


def _shape_of_streams(operator: Placed) -> Hashable:
    return operator.shape, operator.streams


def _same_of_streams(operator: Placed) -> Hashable:
    return operator.shape, operator.own, operator.streams


def _shape_of_channels(operator: Placed) -> Hashable:
    return operator.shape, operator.channels


def _shape_of_selections(operator: Placed) -> Hashable:
    return operator.shape, operator.channels, tuple(each.whole for each in operator.inputs)


def _first_of_channels(operator: Placed) -> Hashable:
    return operator.shape, operator.channels[:1], operator.streams[1:]


RULES: tuple[Rule, ...] = (
    Rule("s_σ", "select", _of_streams, "one index of the conditions on a stream"),
    Rule(
        "s_α", "aggregate", _shape_of_streams, "one evaluation of windows, groups and conditions over the same matches"
    ),
    Rule("s_⋈", "join", _shape_of_streams, "one join, whose windows are columns"),
    Rule("s_;", "next", _same_of_streams, "common subexpression"),
    Rule("s_μ", "fold", _same_of_streams, "common subexpression"),
    Rule("s_∖", "absence", _same_of_streams, "common subexpression"),
    Rule("c_σ", "select", _shape_of_channels, "one test of an event for all streams that have it"),
    Rule("c_α", "aggregate", _shape_of_selections, "one table of matches, whose rows carry the streams that have them"),
    Rule("c_⋈", "join", _shape_of_channels, "one join, whose pairs carry the queries that have both sides"),
    Rule("c_;", "next", _first_of_channels, "one step, whose instances carry the streams that have their left side"),
    Rule(
        "c_μ", "fold", _first_of_channels, "one iteration, whose instances carry the streams that have their left side"
    ),
)
"""All rules, in the order in which they are tried."""


def named_rules(names: str) -> tuple[Rule, ...]:
    """Return rules by their names: ``all``, ``none``, ``s``, ``c``, or a list such as ``s_σ,c_fold``.

    Raises:
        ValueError: there is no rule of a name, which it has.
    """
    known = {each: rule for rule in RULES for each in (rule.name, rule.word)}
    wanted: set[str] = set()
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name in ("s", "c", "all", "none"):
            wanted.update(rule.name for rule in RULES if name == "all" or rule.name[0] == name)
        elif name in known:
            wanted.add(known[name].name)
        else:
            raise ValueError(name)
    return tuple(rule for rule in RULES if rule.name in wanted)


@dataclass(frozen=True, slots=True)
class MOp:
    """Operators that run as one."""

    number: int
    kind: Kind
    rule: str
    """Rule that has put them together; '' for one operator alone."""
    operators: tuple[Operator, ...]
    inputs: tuple[str | int, ...]
    """Channels by name, and other m-ops by number."""
    streams: int
    """Different streams among what the operators make."""

    @property
    def queries(self) -> tuple[str, ...]:
        """Return the queries that it serves."""
        return tuple(dict.fromkeys(operator.query for operator in self.operators))


def planned(
    operators: Iterable[Operator], rules: Sequence[Rule] = RULES, labels: Mapping[str, str] | None = None
) -> tuple[MOp, ...]:
    """Return the m-ops that rules make of operators.

    Args:
        operators: operators of all queries.
        rules: rules that are tried; what none of them puts together runs alone.
        labels: labels of channels: the events of channels with the same label have one form.
    """
    return _Planner(operators, rules, labels or {}).plan()


_Place = tuple[str, int]


@dataclass(slots=True)
class _Bunch:
    """M-op that is being made."""

    members: list[int]
    rule: str = ""


class _Planner:
    def __init__(self, operators: Iterable[Operator], rules: Sequence[Rule], labels: Mapping[str, str]) -> None:
        self.operators = tuple(operators)
        self.rules, self.labels = rules, labels
        self.place: dict[_Place, int] = {(each.query, each.number): at for at, each in enumerate(self.operators)}
        self.bunches = [_Bunch([at]) for at in range(len(self.operators))]
        self.of = list(range(len(self.operators)))
        """Bunch of each operator."""
        self.streams = [0] * len(self.operators)
        """Number of the stream that each operator makes."""
        self._numbers: dict[Hashable, int] = {}
        self.levels = list(self._levels())

    def plan(self) -> tuple[MOp, ...]:
        """Return the m-ops, those that others read before these."""
        # A rule of the first stage that comes behind one of the second is tried behind it.
        stages: list[list[Rule]] = []
        for rule in self.rules:
            if not stages or stages[-1][0].is_of_channels != rule.is_of_channels:
                stages.append([])
            stages[-1].append(rule)
        for level in self.levels:
            self._name(level)
        for stage in stages:
            for level in self.levels:
                for rule in stage:
                    self._apply(rule, level)
                self._name(level)
        return tuple(self._numbered())

    def _levels(self) -> Iterator[list[int]]:
        """Yield the operators by how far they are from their sources."""
        depth: dict[int, int] = {}
        for at, operator in enumerate(self.operators):
            below = [depth[self.place[operator.query, each]] for each in operator.inputs if isinstance(each, int)]
            depth[at] = max(below, default=-1) + 1
        for level in range(max(depth.values(), default=-1) + 1):
            yield [at for at, of in depth.items() if of == level]

    def _read(self, at: int) -> list[int | str]:
        """Return the channels and operators that an operator reads."""
        operator = self.operators[at]
        return [each if isinstance(each, str) else self.place[operator.query, each] for each in operator.inputs]

    def _placed(self, at: int) -> Placed:
        operator = self.operators[at]
        return Placed(operator.kind, operator.shape, operator.own, tuple(map(self._input, self._read(at))))

    def _input(self, of: int | str) -> Input:
        if isinstance(of, str):
            label = "channel", self.labels.get(of, of)
            return Input(("channel", of), label, label, label)
        return Input(self.streams[of], self._sharable(of), self._origin(of), self._whole(of))

    def _sharable(self, of: int) -> Hashable:
        """Return the class of what an operator makes."""
        operator = self.operators[of]
        inputs = tuple(self._input(each).sharable for each in self._read(of))
        return inputs[0] if operator.kind == "select" else (operator.kind, operator.shape, inputs)

    def _origin(self, of: int) -> Hashable:
        """Return whose events an operator makes."""
        bunch, operator = self.of[of], self.operators[of]
        has_index = any(rule.kind == "select" and not rule.is_of_channels for rule in self.rules)
        if operator.kind == "select" and has_index:
            return self._input(self._read(of)[0]).origin
        return "m-op", bunch

    def _whole(self, of: int) -> Hashable:
        """Return from which events those of an operator are selected."""
        whole: int | str = of
        while isinstance(whole, int) and self.operators[whole].kind == "select":
            whole = self._read(whole)[0]
        return ("stream", self.streams[whole]) if isinstance(whole, int) else self._input(whole).whole

    def _name(self, level: Collection[int]) -> None:
        """Give each operator the stream that it makes: equal ones of one m-op make the same."""
        for at in level:
            made = self.of[at], self._placed(at), self.operators[at].channel
            self.streams[at] = self._numbers.setdefault(made, len(self._numbers))

    def _apply(self, rule: Rule, level: Collection[int]) -> None:
        """Put m-ops of a level together whose operators all have one key."""
        keys: dict[int, set[Hashable]] = {}
        for at in level:
            if self.operators[at].kind == rule.kind:
                keys.setdefault(self.of[at], set()).add(rule.key(self._placed(at)))
        alike: dict[Hashable, list[int]] = {}
        for bunch, of in keys.items():
            if len(of) == 1:
                alike.setdefault(next(iter(of)), []).append(bunch)
        for first, *others in alike.values():
            for other in others:
                self.bunches[first].members += self.bunches[other].members
                for at in self.bunches[other].members:
                    self.of[at] = first
                self.bunches[other].members = []
            if others:
                self.bunches[first].rule = rule.name

    def _numbered(self) -> Iterator[MOp]:
        order = list(dict.fromkeys(self.of[at] for level in self.levels for at in level))
        number = {bunch: place for place, bunch in enumerate(order, start=1)}
        for bunch in order:
            members = sorted(self.bunches[bunch].members)
            inputs = dict.fromkeys(
                each if isinstance(each, str) else number[self.of[each]] for at in members for each in self._read(at)
            )
            yield MOp(
                number[bunch],
                self.operators[members[0]].kind,
                self.bunches[bunch].rule,
                tuple(self.operators[at] for at in members),
                tuple(inputs),
                len({self.streams[at] for at in members}),
            )
