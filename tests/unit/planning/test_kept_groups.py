"""Groups that were compiled before and kept in the home: planned without their texts, and never instead of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from xscl.base.types import Event
from xscl.bench.workload import require_all
from xscl.catalog import kept_groups
from xscl.catalog.kept_groups import FILE, KeptGroups
from xscl.catalog.tables import GROUPS, NEVER
from xscl.engine import Engine, connect
from xscl.planning import group_forms
from xscl.planning.planned import Plan
from xscl.planning.planner import Planner
from xscl.registry import registry as registering
from xscl.registry.channels import add_channel
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home
from xscl.xpath.spec_files import load_automaton

TEXTS = [
    "S//a->n[./b = 'x']",
    *(f"S/a[./k > {at}][./b->x] JOIN {{x = y, {at} h}} T/c->y[contains-word(./w, 'p{at % 2}')]" for at in range(1, 5)),
    "S//a[.//b[not(./@d)]/e->x] FOLLOWED BY {x = y AND x != z, 3 d} T//c->z[./f->y][lower(./g) = 'q' or ./h]",
    "S//a->x JOIN {x = y, 2 s} T//b->y JOIN {y = z, 3 s} R//m->z",
    "S//a->x JOIN {x = y, ONCE} S//a->y",
    "R//n->x[. > 3] JOIN {x < 2 * y + 1, 1 h} R//m->y",
]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few groups are kept like many."""
    monkeypatch.setattr(group_forms, "FEW", 0)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = init_home(tmp_path / "home")
    add_channel(opened.catalog, "R", kind="rows", schema="n string, m double")
    require_all(Registry(opened.catalog).register_many(TEXTS))
    yield opened
    opened.catalog.close()


class Opened:
    """A plan of a new planner, and the texts that were compiled for it."""

    def __init__(self, home: Home, monkeypatch: pytest.MonkeyPatch, *, keeps: bool = True) -> None:
        self.compiled: list[str] = []
        compiled = group_forms._compiled

        def counted(rows: list[group_forms.GroupText], facts: group_forms.Facts) -> object:
            self.compiled += [row.text for row in rows]
            return compiled(rows, facts)

        planner = Planner(home.catalog, home.folder("programs"))
        with monkeypatch.context() as patch:
            patch.setattr(group_forms, "_compiled", counted)
            if not keeps:
                patch.setattr(group_forms, "FEW", 1 << 30)
            plan = planner.plan(1, NEVER - 1)
        assert plan is not None
        self.said = said(plan)
        planner.close()


def said(plan: Plan) -> object:
    """All that a plan says."""
    automaton = load_automaton(str(plan.specs_path))
    program = plan.program
    return (
        dict(program.groups),
        dict(program.instances),
        dict(program.links),
        dict(program.assemblies),
        dict(program.edges),
        {gid: (known.values, known.facts) for gid, known in plan.groups.items()},
        {name: matcher.asked for name, matcher in plan.matchers.items()},
        set(automaton.asked),
        (plan.walked, plan.answered, plan.shapes),
    )


def test_a_second_start_compiles_nothing_and_plans_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Opened(home, monkeypatch), Opened(home, monkeypatch)
    assert sorted(first.compiled) == sorted(set(TEXTS)) and second.compiled == []
    assert first.said == second.said == Opened(home, monkeypatch, keeps=False).said
    file = home.folder("programs") / FILE
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:40] + b"9" + content[41:],
        lambda content: content.replace(b'"values"', b'"other"', 1),
        lambda content: b"",
        lambda content: b"\xff\n[]\n\n" + b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_as_if_it_were_not_there(home: Home, monkeypatch: pytest.MonkeyPatch, damage: object) -> None:
    fresh = Opened(home, monkeypatch)
    file = home.folder("programs") / FILE
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    mended = Opened(home, monkeypatch)
    assert len(mended.compiled) == len(fresh.compiled) and mended.said == fresh.said
    again = Opened(home, monkeypatch)
    assert again.compiled == [] and again.said == fresh.said


def test_another_version_compiles_anew(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Opened(home, monkeypatch)
    monkeypatch.setattr(kept_groups, "_program", lambda: "another program")
    other = Opened(home, monkeypatch)
    assert sorted(other.compiled) == sorted(fresh.compiled) and other.said == fresh.said


@pytest.mark.parametrize(
    "forged",
    [
        lambda text: re.sub(r'"groups":\[\[', '"groups":[[[],', text),
        lambda text: text.replace('"values":[[', '"values":[[7,', 1),
        lambda text: re.sub(r'"groups":(.*?)\[[0-9]+\]', r'"groups":\1[0]', text),
        lambda text: text.replace('"Step"', '"__import__"'),
        lambda text: text.replace('"values":[', '"values":{"a":[', 1).replace('],"groups"', ']},"groups"', 1),
        lambda text: "[]",
    ],
)
def test_a_file_with_a_right_digest_and_wrong_data_gives_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, forged: object
) -> None:
    fresh = Opened(home, monkeypatch)
    file = home.folder("programs") / FILE
    text = forged(file.read_text(encoding="utf-8").strip()[kept_groups._DIGEST :])  # type: ignore[operator]
    file.write_text(f"{kept_groups._digest(text)}{text}\n", encoding="utf-8")
    assert Opened(home, monkeypatch).said == fresh.said


def test_a_changed_text_never_uses_what_another_was_compiled_to(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Opened(home, monkeypatch)
    with home.catalog.begin() as connection:
        changed = GROUPS.c.text == TEXTS[0]
        connection.execute(sa.update(GROUPS).where(changed).values(text=TEXTS[0].replace("'x'", "'z'")))
    opened = Opened(home, monkeypatch)
    assert opened.compiled == [TEXTS[0].replace("'x'", "'z'")]
    assert opened.said == Opened(home, monkeypatch, keeps=False).said


def test_columns_that_become_known_compile_their_queries_anew(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Opened(home, monkeypatch)
    add_channel(home.catalog, "T", kind="rows", schema="y double, c string")
    opened = Opened(home, monkeypatch)
    assert sorted(opened.compiled) == sorted(text for text in TEXTS if "T/" in text)
    assert opened.said == Opened(home, monkeypatch, keeps=False).said


def test_queries_come_and_go_between_starts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, file = Registry(home.catalog), home.folder("programs") / FILE
    sizes = []
    for at in range(5, 25):
        Opened(home, monkeypatch)
        sizes.append(file.stat().st_size)
        registry.drop(f"q{at - 3}")
        registry.register(f"S/a[./k > {at}][./b->x] JOIN {{x = y, {at} h}} T/c->y[./w = 'p']", name=f"q{at + 5}")
    opened = Opened(home, monkeypatch)
    assert len(opened.compiled) == 1
    assert opened.said == Opened(home, monkeypatch, keeps=False).said
    assert max(sizes) < 8 * sizes[0], "groups that nobody asks for go"


def test_registration_keeps_what_it_compiles(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "FEW", 1)
    registry = Registry(home.catalog, kept=KeptGroups(home.folder("programs")))
    texts = [
        "U/a->x[./k = 1] JOIN {x = y, 1 h} T/c->y",
        "DECLARE NAMESPACE p = 'urn:p'; U//p:a",
        "R/n->x JOIN {x = y} U/c->y",
    ]
    require_all(registry.register_many(texts))
    registry.register("U//alone")
    opened = Opened(home, monkeypatch)
    assert sorted(opened.compiled) == sorted({*TEXTS, "U//alone"})
    assert opened.said == Opened(home, monkeypatch, keeps=False).said


def test_groups_that_come_one_by_one_are_kept_together(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Opened(home, monkeypatch)
    monkeypatch.setattr(group_forms, "FEW", 2)
    planner, registry = Planner(home.catalog, home.folder("programs")), Registry(home.catalog)
    assert planner.plan(1, NEVER - 1) is not None
    for at in range(4):
        registry.register(f"U//a{at}")
        assert planner.plan(2 + at, NEVER - 1) is not None
    planner.close()
    assert Opened(home, monkeypatch).compiled == ["U//a3"]


def test_a_home_that_cannot_be_written_is_planned_all_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.folder("programs") / FILE).mkdir()
    first = Opened(home, monkeypatch)
    assert first.said == Opened(home, monkeypatch).said and len(first.compiled) == len(set(TEXTS))


def test_answers_of_a_process_that_compiled_nothing(tmp_path: Path) -> None:
    found = []
    for keeps in (True, False):
        root = tmp_path / str(keeps)
        with connect(home=root) as engine:
            engine.add_channel("R", kind="rows", schema="n string, m double")
            require_all(engine.register_many(TEXTS))
            _batch(engine, 0)
        if not keeps:
            (root / "programs" / FILE).unlink()
        with connect(home=root) as engine:
            _batch(engine, 10)
            found.append(sorted((match.query, *(event.id for event in match.events)) for match in engine.matches()))
    assert found[0] == found[1] and len(found[0]) >= 20


def _batch(engine: Engine, start: int) -> None:
    for at in range(start, start + 8):
        of_s = f"<a><k>{at % 5}</k><b>x</b><b><e>v</e></b></a>"
        of_t = f"<c><w>p{at % 2} p</w><f>v</f>x</c>" if at % 3 else "<c>x</c>"
        engine.ingest([Event("S", f"s{at}", at, xml=of_s), Event("T", f"t{at}", at + 0.5, xml=of_t)])
        engine.ingest([Event("R", f"r{at}", at, row={"n": str(at), "m": at / 2})])
    engine.run_once()
