"""Thousands of queries that differ in windows, constants, names of variables and order of conjuncts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from budget import examples
from strategies import Dice

from xscl.catalog.catalog import open_catalog
from xscl.catalog.groups import read_rt_rows, read_template_use
from xscl.catalog.tables import GROUPS, INSTANCES, QUERIES, TEMPLATES, VARIABLES
from xscl.registry.registry import Registry

_MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "days": 86_400 * 10**6}
_SPELLINGS = {1: ("1", "1.0"), 2: ("2", "2.0", "2.00"), 5: ("5", "5.0")}
Window = tuple[str, object, object, bool]
Meaning = tuple[object, ...]


def number(choose: Dice) -> tuple[int, str]:
    value = choose.one(*_SPELLINGS)
    return value, choose.one(*_SPELLINGS[value])


def duration(choose: Dice, most: int) -> tuple[int, str]:
    count = choose.count(1, most)
    unit, written = choose.one(("s", "s"), ("min", "min"), ("h", "hours"), ("ms", "ms"), ("s", "Seconds"), ("h", "H"))
    if choose.chance(10):
        return count * _MICROSECONDS["min"], f"'PT{count}M'"
    if unit != "ms" and choose.chance(20):
        # Some of the same lengths in smaller units.
        smaller = {"h": "min", "min": "s", "s": "ms"}[unit]
        factor = _MICROSECONDS[unit] // _MICROSECONDS[smaller]
        return count * _MICROSECONDS[unit], f"{count * factor} {smaller}"
    return count * _MICROSECONDS[unit], f"{count} {written}"


def operator(choose: Dice) -> tuple[Window, str, str]:
    """What it asks of the times; how it and its windows are written."""
    length, written = duration(choose, 4)
    kind = choose.count(0, 3)
    if kind == 0:
        return ("by", 1, length, False), choose.one("FOLLOWED BY", "followed by"), written
    if kind == 1:
        low = choose.one(0, 1, 5)
        if low * 10**6 > length:
            low = 0
        return ("by", low * 10**6, length, False), "FOLLOWED BY", f"{low} s..{written}"
    if kind == 2:
        return ("join", -length, length, False), choose.one("JOIN", "join"), written
    windows = [written, "ONCE"] if choose.chance(50) else ["ONCE", written]
    # ONCE says nothing of two channels.
    return ("join", -length, length, False), "JOIN", ", ".join(windows)


def shuffled(choose: Dice, parts: list[str]) -> list[str]:
    left = list(parts)
    return [left.pop(choose.count(0, len(left) - 1)) for _ in parts]


def query(choose: Dice) -> tuple[Meaning, str]:
    """A query and what it says, by rules that share nothing with the code."""
    window, op, windows = operator(choose)
    names = [f"{letter}{choose.count(1, 99)}{choose.one('', '', chr(39))}" for letter in "xyzuvw"]
    x, y, z, u, v, w = names
    least, least_written = number(choose)
    word = choose.one("k", "m")
    factor, factor_written = number(choose)
    add = choose.count(0, 1)
    other = choose.one("q", None)
    left = [f"[./a->{x}]", f"[./b->{y}]", f"[./p->{z}]", f"[./year > {least_written}]"]
    right = [f"[./a->{u}]", f"[./b->{v}]", f"[./p->{w}]", f"[./@kind = '{word}']"]
    band = f"{factor_written} * {w}" + (f" + {add}" if add else "")
    atoms = [
        choose.one(f"{x} = {u}", f"{u} = {x}"),
        choose.one(f"{y} = {v}", f"{v} = {y}"),
        choose.one(f"{z} <= {band}", f"{band} >= {z}"),
    ]
    if other is not None:
        atoms.append(choose.one(f"{x} != '{other}'", f"'{other}' != {x}"))
    params = choose.one(" AND ", " and ").join(shuffled(choose, atoms)) + ", " + windows
    text = f"S//book{''.join(shuffled(choose, left))} {op} {{{params}}} T//blog{''.join(shuffled(choose, right))}"
    return (window[1:], least, word, Fraction(factor), add, other), text


def test_thousands(tmp_path: Path) -> None:
    choose, many = Dice(7), examples(2_000)
    made = [query(choose) for _ in range(many)]
    meanings = {meaning for meaning, _ in made}
    texts = {text for _, text in made}
    assert len(texts) > 0.99 * many > len(meanings) > 0.3 * many
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", create=True)
    outcomes = Registry(catalog).register_many(text for _, text in made)
    assert all(outcome.ok for outcome in outcomes)
    assert len(catalog.rows(TEMPLATES)) == 1
    assert len(catalog.rows(GROUPS)) == len(meanings)
    assert len(catalog.rows(INSTANCES)) == len({meaning[1:] for meaning in meanings})
    queries = catalog.rows(QUERIES)
    assert len(queries) == many
    ((template, count, groups),) = catalog.ask(read_template_use)
    assert (count, groups, template.block_count) == (many, len(meanings), 2)
    # Equal meanings are in one group, and others are not.
    meaning_of = {text: meaning for meaning, text in made}
    pairs = {(row["gid"], meaning_of[str(row["text"])]) for row in queries}
    assert len(pairs) == len(meanings)
    # a, b and p with what both sides ask, and the elements above them: those that constants change.
    assert len(catalog.rows(VARIABLES)) < 100
    # One row of R_T for each query.
    rows = catalog.ask(read_rt_rows, template)
    assert len(rows) == many
    assert {(row["lo_1_2"], row["hi_1_2"], row["once_1_2"]) for row in rows} == {meaning[0] for meaning in meanings}
    catalog.close()
