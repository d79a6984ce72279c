"""Specs that together ask too much of a document, cut up so that each that asks too much alone is found.

A limit of the walk is a limit of a spec with one function.  The spec is refused a document iff it would be refused the
document if it were the only spec.  Where all specs together exceed a limit on a document, the document is walked again
for parts of them, down to single ones.  Refused specs are walked for alone from then on, so the next document is walked
a few times only.

The law: the rows of a document are those of each spec that exceeds no limit alone, whatever the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.automaton.states import SpecKey, WitnessSpec, spec_key

__all__ = ["Part", "Parts"]


class Part:
    """Some specs with one function each."""

    def __init__(self, specs: Mapping[SpecKey, WitnessSpec]) -> None:
        self.specs = dict(specs)
        self.automaton = Automaton(specs.values())
        self._halves: tuple[Part, Part] | None = None

    @property
    def spec(self) -> WitnessSpec | None:
        """Return the only spec; None: there are several."""
        return next(iter(self.specs.values())) if len(self.specs) == 1 else None

    @property
    def halves(self) -> tuple[Part, Part]:
        """Cut the specs, two or more, into two parts; the specs of one channel stand together."""
        if self._halves is None:
            ordered = sorted(self.specs.items(), key=lambda item: (item[1].definition.channel, item[0][0]))
            middle = len(ordered) // 2
            self._halves = Part(dict(ordered[:middle])), Part(dict(ordered[middle:]))
        return self._halves

    def put(self, key: SpecKey, spec: WitnessSpec) -> None:
        """Take in a spec that is not here."""
        self.specs[key] = spec
        self.automaton.add(spec)
        self._halves = None

    def take_out(self, key: SpecKey) -> None:
        """Let go of a spec."""
        self.automaton.remove(self.specs.pop(key))
        self._halves = None


class Parts:
    """The specs of an automaton: those that have been refused alone, and all others together."""

    def __init__(self, specs: Iterable[WitnessSpec]) -> None:
        single = [one for spec in specs for one in _single(spec)]
        self._uses = Counter(key for key, _ in single)
        self._rest = Part(dict(single))
        self._alone: dict[SpecKey, Part] = {}

    def of(self, channel: str) -> list[Part]:
        """Return parts that together have all the specs that read a channel."""
        alone = [part for part in self._alone.values() if part.spec and part.spec.definition.channel == channel]
        return [*alone, self._rest]

    def put(self, spec: WitnessSpec) -> None:
        """Take in a spec."""
        for key, one in _single(spec):
            self._uses[key] += 1
            if self._uses[key] == 1:
                self._rest.put(key, one)

    def take_out(self, spec: WitnessSpec) -> None:
        """Let go of a spec."""
        for key, _ in _single(spec):
            self._uses[key] -= 1
            if not self._uses[key]:
                del self._uses[key]
                if self._alone.pop(key, None) is None:
                    self._rest.take_out(key)

    def refuse(self, keys: Collection[SpecKey]) -> None:
        """Walk for these specs alone from now on."""
        for key in keys:
            if key in self._rest.specs:
                self._alone[key] = Part({key: self._rest.specs[key]})
                self._rest.take_out(key)


def _single(spec: WitnessSpec) -> Iterator[tuple[SpecKey, WitnessSpec]]:
    """Yield a spec for each of the functions of one."""
    for function in spec.functions:
        one = replace(spec, functions=(function,))
        yield spec_key(one), one
