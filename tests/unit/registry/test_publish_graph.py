"""What PUBLISH is checked for at registration; what of a query is kept and not done yet."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from xscl.base.errors import CatalogError
from xscl.base.types import Event
from xscl.catalog.queries import read_queries
from xscl.intake.intake import Intake
from xscl.registry.channels import add_channel, set_channel
from xscl.registry.publish_graph import Publications
from xscl.registry.registry import Registry
from xscl.store.home import Home


@pytest.fixture
def registry(home: Home) -> Registry:
    return Registry(home.catalog)


def refusal(registry: Registry, text: str, name: str | None = None) -> CatalogError:
    with pytest.raises(CatalogError) as caught:
        registry.register(text, name=name)
    return caught.value


def test_what_is_written_is_kept(registry: Registry) -> None:
    registry.register("S//a", name="plain")
    registry.register("S//a PUBLISH out STARTING '2026-06-01T00:00:00Z'", name="both")
    registry.register("S//a STARTING ALL", name="all")
    kept = {info.name: (info.publish, info.starting) for info in registry.catalog.ask(read_queries)}
    assert kept == {"plain": (None, "NOW"), "both": ("out", "2026-06-01T00:00:00Z"), "all": (None, "ALL")}
    assert len({info.gid for info in registry.catalog.ask(read_queries)}) == 1, "they ask the same"


# -- cycles ----------------------------------------------------------------------------------------------------


def test_a_query_that_feeds_itself(registry: Registry) -> None:
    error = refusal(registry, "a//x->x JOIN {x = y, 1 h} b//y->y PUBLISH b", "mine")
    assert error.condition == "XSCL_CYCLIC_PUBLISH"
    assert "b → b (mine reads b and publishes b)" in error.message
    assert "this query reads a" in refusal(registry, "a//x PUBLISH a").message
    assert registry.catalog.ask(read_queries) == []


def test_a_chain_written_backwards_looks_nothing_up(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Publications, "_fed_from", None)
        backwards = [f"d{i + 1}//a PUBLISH d{i}" for i in range(20)]
        assert all(outcome.ok for outcome in registry.register_many(backwards))
    first, last = registry.register_many(["d0//a PUBLISH e", "e//a PUBLISH d20"])
    assert first.ok
    assert last.error is not None
    assert last.error.condition == "XSCL_CYCLIC_PUBLISH"


def test_a_cycle_of_queries(registry: Registry) -> None:
    registry.register("a//x PUBLISH b", name="first")
    registry.register("z//x->x JOIN {x = y, 1 h} b//y->y PUBLISH c", name="second")
    registry.register("c//x PUBLISH d", name="third")
    registry.register("b//x PUBLISH d", name="short")
    error = refusal(registry, "d//x PUBLISH a", "fourth")
    assert error.condition == "XSCL_CYCLIC_PUBLISH"
    assert "d → a → b → d (fourth reads d and publishes a, first reads a and publishes b, short " in error.message
    registry.register("d//x PUBLISH e", name="fourth")
    assert refusal(registry, "e//x PUBLISH c").condition == "XSCL_CYCLIC_PUBLISH"
    # Several queries may feed one channel, and a channel several queries.
    registry.register("a//y PUBLISH e")


def test_dropped_queries_feed_nothing(registry: Registry) -> None:
    registry.register("a//x PUBLISH b", name="first")
    assert refusal(registry, "b//x PUBLISH a").condition == "XSCL_CYCLIC_PUBLISH"
    registry.drop("first")
    registry.register("b//x PUBLISH a", name="second")
    assert refusal(registry, "a//x PUBLISH b").condition == "XSCL_CYCLIC_PUBLISH"


def test_cycles_within_one_transaction(registry: Registry) -> None:
    script = "CREATE QUERY p AS a//x PUBLISH b; CREATE QUERY q AS b//x PUBLISH a; DROP QUERY p;"
    script += "CREATE QUERY q AS b//x PUBLISH a; CREATE QUERY r AS b//x PUBLISH c; CREATE QUERY s AS c//x PUBLISH b"
    conditions = [outcome.error and outcome.error.condition for outcome in registry.load(script)]
    assert conditions == [None, "XSCL_CYCLIC_PUBLISH", None, None, None, "XSCL_CYCLIC_PUBLISH"]
    many = registry.register_many(["u//x PUBLISH v", "S//[", "v//x PUBLISH u"])
    assert [outcome.ok for outcome in many] == [True, False, False]


def test_what_was_undone_feeds_nothing(registry: Registry) -> None:
    assert not any(outcome.ok for outcome in registry.load("a//x PUBLISH b; S//[", atomic=True))
    registry.register("b//x PUBLISH a")


# -- targets ---------------------------------------------------------------------------------------------------


def test_rows_are_no_place_for_documents(home: Home, registry: Registry) -> None:
    add_channel(home.catalog, "ticks", kind="rows")
    error = refusal(registry, "S//a PUBLISH ticks")
    assert (error.condition, "takes rows" in error.message) == ("XSCL_CHANNEL_KIND", True)
    registry.register("S//a PUBLISH out", name="q")
    with pytest.raises(CatalogError, match="publish documents"):
        add_channel(home.catalog, "out", kind="rows")
    add_channel(home.catalog, "out")
    with pytest.raises(CatalogError, match="publish documents"):
        set_channel(home.catalog, "out", kind="rows")
    registry.drop("q")
    set_channel(home.catalog, "out", kind="rows")


def test_no_row_makes_a_channel_that_queries_publish_to(home: Home, registry: Registry) -> None:
    registry.register("S//a PUBLISH out", name="q")
    report = Intake(home).take([Event("out", "1", 1, row={"p": 1}), Event("out", "2", 1, xml="<a/>")])
    assert (report.taken, [problem.condition for problem in report.problems]) == (1, ["XSCL_CHANNEL_KIND"])


def test_strict_knows_published_channels(registry: Registry) -> None:
    registry.register("S//a PUBLISH out", name="q")
    registry.register("out//a", strict=True)
    registry.drop("q")
    with pytest.raises(CatalogError) as caught:
        registry.register("out//b", strict=True)
    assert caught.value.condition == "XSCL_UNKNOWN_CHANNEL"


def test_a_dropped_query_publishes_what_waits(tmp_path: Path) -> None:
    """Until its batch has run, its channel is no other's."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("T/a PUBLISH X", name="p")
        engine.ingest([Event("T", "x", 1, xml="<a/>")])
        engine.drop("p")
        assert engine.ingest([Event("X", "r", 1, row={"v": 1})]).rejected == 1
        with pytest.raises(CatalogError, match="XSCL_NAME_TAKEN"):
            engine.add_channel("X", of="T")
        engine.run_once()
        assert [match.query for match in engine.query_once("X/a")] == ["once"]
