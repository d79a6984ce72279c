"""Random queries with steps, and random events for them: ties, intervals, several keys, and any order of arrival."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

from oracle.evaluate import Doc
from step_answers import doc

CHANNELS = ("A", "A", "A", "A", "B")
_NUMBERS = re.compile(r"(v\d* (?:[<>]=?|!?=) |\) (?:[<>]=?) )(-?\d+(?:\.\d+)?)(?! (?:ms|s|\.))")
_TEXTS = re.compile(r"(k\d+ !?= )'\w'")
_LENGTHS = re.compile(r"(DUR >=? )(\d+)")
_ITERATIONS = re.compile(r"(AT MOST )\d")
_SPANS = re.compile(r"(MAXWINDOW )\d+")
_RANGES = re.compile(r"(\d)\.\.(\d)")
_KEPT = re.compile(r"(last\(n\d+, |[*/] )(\d)(\) |(?= AS))")
"""Numbers in what FOLDs keep."""
_WINDOWS = re.compile(r"(?<=[{ ])\d+(?=[,}])(?<!MOST \d)(?<!WINDOW \d)(?<![<>=] \d)")
"""Numbers on the right of conditions on values, or the factors there."""
OPS = ("<", "<", ">", ">", "<=", ">=", "=", "!=")


@dataclass
class StepQueries:
    """Makes one query; its blocks bind a key ``kN`` and a value ``vN`` each, and their roots ``xN``."""

    choose: Random
    with_values: bool = True
    """Whether FOLDs keep values and SELECT may list them."""
    with_absence: bool = False
    """Whether something must not be there."""
    blocks: int = 0
    kept: list[str] = field(default_factory=list)
    """Values of FOLDs that SELECT may list."""

    def text(self, steps: int = 2) -> str:
        """A query of one to some steps."""
        tree, known = self.tree(self.choose.randint(1, steps))
        items = [f"{kind}{number}" for number in known for kind in "kv"]
        items = self.choose.sample(items, self.choose.randint(1, len(items)))
        if self.kept and self.choose.random() < 0.6:
            items += self.choose.sample(self.kept, self.choose.randint(1, len(self.kept)))
        if self.with_absence:
            tree = f"{tree} {self.absence(known)}"
        if self.choose.random() < 0.1 and not self.kept:
            return tree
        named = ", ".join(f"{item} AS c{number}" for number, item in enumerate(dict.fromkeys(items)))
        return f"SELECT {named} FROM {tree}"

    def absence(self, known: list[int]) -> str:
        """What must not be there, once or twice."""
        choose, found = self.choose, []
        for _ in range(choose.choice([1, 1, 1, 2])):
            block, number = self.block()
            one, other = choose.choice(known), choose.choice(known)
            atoms = [f"k{one} = k{number}"] if choose.random() < 0.8 else []
            atoms += [self.compared(other, number)] if choose.random() < 0.3 else []
            atoms += [f"v{number} > {choose.randint(1, 3)}"] if choose.random() < 0.3 else []
            low = choose.randint(-3, 1)
            ends = [
                ("WITHOUT", f"{choose.randint(1, 5)}"),
                ("WITHOUT", "BETWEEN"),
                ("WITHOUT", f"x{number} - x{other} IN [{low}, {low + choose.randint(1, 4)})"),
                ("WITHOUT", f"x{other} - x{number} IN [{-low}, 4]"),
                ("NOT FOLLOWED BY", f"{choose.randint(1, 5)}"),
                ("NOT FOLLOWED BY", f"{choose.randint(0, 2)}..{choose.randint(2, 5)}"),
            ]
            op, window = choose.choice(ends)
            found.append(f"{op} {{{', '.join([' AND '.join(atoms)] * bool(atoms) + [window])}}} {block}")
        return " ".join(found)

    def tree(self, steps: int) -> tuple[str, list[int]]:
        """A tree, and the numbers of its blocks."""
        if steps == 0:
            return self.part()
        inside = self.choose.randint(0, steps - 1) if self.choose.random() < 0.3 else 0
        left, mine = self.tree(steps - 1 - inside)
        right, others = self.tree(inside)
        if inside or len(others) > 1:
            right = f"({right})"
        step = self.fold(mine, others) if self.choose.random() < 0.5 else f"NEXT {{{self.params(mine, others)}}}"
        text = f"{left} {step} {right}"
        both = [*mine, *others]
        return (f"{text} FILTER {{{self.filter(both)}}}" if self.choose.random() < 0.3 else text), both

    def part(self) -> tuple[str, list[int]]:
        """A block, or a join of two."""
        first, one = self.block()
        if self.choose.random() < 0.85:
            return first, [one]
        second, two = self.block()
        op = self.choose.choice(["JOIN", "FOLLOWED BY"])
        return f"({first} {op} {{k{one} = k{two}, {self.choose.randint(1, 4)}}} {second})", [one, two]

    def block(self) -> tuple[str, int]:
        self.blocks += 1
        number = self.blocks
        condition = self.choose.choice([""] * 6 + ["[./v > 2]", "[./k = 'a']"])
        channel = self.choose.choice(CHANNELS)
        return f"{channel}->x{number}{condition}[./k->k{number}][./v->v{number}]", number

    # -- conditions --------------------------------------------------------------------------------------------

    def params(self, mine: list[int], others: list[int]) -> str:
        """Conditions and windows of a step."""
        choose = self.choose
        one, two = choose.choice(mine), choose.choice(others)
        atoms = []
        if choose.random() < 0.75:
            function = choose.choice(["", "", "", "lower"])
            atoms.append(f"k{one} = {function}(k{two})" if function else f"k{two} = k{one}")
        if choose.random() < 0.35:
            atoms.append(self.compared(choose.choice(mine), choose.choice(others)))
        if choose.random() < 0.1:
            op, number = choose.choice(OPS), choose.randint(1, 4)
            atoms.append(f"k{two} {op} '{'aabA'[number - 1]}'" if op in ("=", "!=") else f"v{two} {op} {number}")
        windows = []
        if choose.random() < 0.3:
            low = choose.randint(1, 2)
            windows.append(choose.choice([f"{choose.randint(2, 9)}", f"{low}..{low + choose.randint(0, 3)}"]))
        if choose.random() < 0.15:
            windows.append(f"MAXWINDOW {choose.randint(4, 12)}")
        if choose.random() < 0.1:
            windows.append(f"x{two} - x{one} IN [{choose.randint(0, 2)}, {choose.randint(2, 6)}]")
        return ", ".join([" AND ".join(atoms)] * bool(atoms) + windows)

    def compared(self, one: int, two: int) -> str:
        factor = self.choose.choice(["", "", "2 * ", "0.5 * ", "-1 * "])
        added = self.choose.choice(["", "", " + 1", " - 1.5"])
        return f"v{two} {self.choose.choice(OPS)} {factor}v{one}{added}"

    def filter(self, known: list[int]) -> str:
        choose = self.choose
        found = []
        if choose.random() < 0.6:
            found.append(f"DUR {choose.choice(['>=', '<=', '<', '>', '='])} {choose.randint(0, 6)}")
        if choose.random() < 0.4 or not found:
            one, two = choose.choice(known), choose.choice(known)
            compared = self.compared(one, two)
            # A block is compared with a text instead of itself.
            found.append(f"k{one} {'!=' if '!' in compared else '='} 'a'" if one == two else compared)
        if choose.random() < 0.1 and len(known) > 1:
            one, two = choose.sample(known, 2)
            return f"{' AND '.join(found)}, x{two} - x{one} IN [-1, 4]"
        return " AND ".join(found)

    def fold(self, mine: list[int], others: list[int]) -> str:
        """A FOLD with what it asks for."""
        choose = self.choose
        one, two = choose.choice(mine), choose.choice(others)
        last = f"last(v{two}, v{one})"
        conditions = []
        if choose.random() < 0.6:
            factor = choose.choice(["", "", "1.5 * ", "0.5 * "])
            conditions.append(f"v{two} {choose.choice(OPS)} {factor}{last}")
        if choose.random() < 0.2:
            conditions.append(f"last(k{two}, k{one}) {choose.choice(['=', '!='])} k{two}")
        if choose.random() < 0.2 and self.with_values:
            function = choose.choice(["count()", f"sum(v{two})", f"max(v{two}, v{one})", f"avg(v{two}, v{one})"])
            conditions.append(f"{function} < {choose.randint(2, 6)}")
        params = self.params(mine, others)
        if choose.random() < 0.1:
            chain = f"k{two} = last(k{two}, k{one})"
            params = f"{chain} AND {params}" if params[:1] in ("k", "v") else ", ".join(filter(None, (chain, params)))
        text = " ".join(filter(None, (params, f"WHILE {' AND '.join(conditions)}" if conditions else "")))
        kept = []
        if self.with_values and choose.random() < 0.3:
            name = f"n{two}"
            kept.append(
                choose.choice(
                    [
                        f"last({name}, 0) + v{two} AS {name}",
                        f"last({name}, 1) * 2 AS {name}",
                        f"(last({name}, v{one}) + v{two}) / 2 AS {name}",
                        f"v{two} AS {name}",
                        f"lower(k{two}) AS {name}",
                    ]
                )
            )
            self.kept.append(name)
        if self.with_values and choose.random() < 0.4:
            self.kept += [f"sum(v{two}, v{one})", "count()", f"min(v{two})", f"first(k{two}, k{one})"]
        if choose.random() < 0.2:
            kept.append("LONGEST")
        if choose.random() < 0.25:
            kept.append(f"AT MOST {choose.randint(1, 3)}")
        return f"FOLD {{{', '.join(filter(None, (text, *kept)))}}}"


def step_query(choose: Random, *, steps: int = 2, with_values: bool = True, with_absence: bool = False) -> str:
    """A random query with steps."""
    return StepQueries(choose, with_values, with_absence).text(steps)


def other_numbers(choose: Random, text: str) -> str:
    """The same query with other numbers in some of its conditions, windows and lengths."""

    def other(found: re.Match[str]) -> str:
        number = choose.choice(["0.5", "1", "2", "3", "4", "-1"]) if choose.random() < 0.5 else found[2]
        return f"{found[1]}{number}"

    def window(found: re.Match[str]) -> str:
        return choose.choice(["1", "2", "3", "5"]) if choose.random() < 0.5 else found[0]

    def length(found: re.Match[str]) -> str:
        return found[1] + (choose.choice("01234") if choose.random() < 0.5 else found[2])

    def ends(found: re.Match[str]) -> str:
        low = choose.choice([int(found[1]), 1, 2, 3])
        return f"{low}..{max(low, 1) + choose.randint(0, 4)}" if choose.random() < 0.7 else found[0]

    found = _SPANS.sub(lambda each: f"{each[1]}{choose.choice('4567')}", text)
    found = _LENGTHS.sub(length, _WINDOWS.sub(window, _NUMBERS.sub(other, found)))
    found = _ITERATIONS.sub(lambda each: f"{each[1]}{choose.randint(1, 4)}", found)
    found = _RANGES.sub(ends, found)
    found = _KEPT.sub(lambda each: f"{each[1]}{choose.choice('0123')}{each[3]}", found)
    found = _TEXTS.sub(lambda each: f"{each[1]}'{choose.choice('abA')}'", found)
    return found.replace("[./k = 'a']", f"[./k = '{choose.choice('ab')}']")


def step_stream(choose: Random, count: int, *, intervals: bool = True, disorder: int = 3) -> list[Doc]:
    """Random events in the order in which they come, each at most so many seconds behind those before it."""
    found = []
    clock = 0
    for number in range(count):
        clock += choose.choice([0, 0, 1, 1, 2])
        ts = max(clock - choose.choice([0, 0, 0, 1, disorder] if disorder else [0]), 0)
        start = ts - choose.choice([0, 0, 0, 1, 2, 4]) if intervals else ts
        keys = [choose.choice("aaaaabA") for _ in range(choose.choice([1, 1, 1, 1, 2]))]
        value = choose.choice(["1", "2", "3", "4", "2.5", "5", "2", "3", "x", "0.1"])
        begun = max(start, 0) if start != ts else None
        found.append(doc(choose.choice(CHANNELS), ts, begun, id=f"e{number}", k=keys, v=value))
    return found
