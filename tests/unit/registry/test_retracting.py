"""Channels whose documents may be removed again: who keeps matches is refused, whichever comes first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import XsclError
from xscl.engine import Engine

UNPAID = "orders/no->x NOT FOLLOWED BY {x = y, 1 h} payments/no->y PUBLISH unpaid"
PUBLISHERS = (f"{UNPAID} CONSISTENCY MIDDLE", UNPAID, "orders PUBLISH unpaid ON CHANGE RETRACT")
"""The second one has no level; its channels have no lateness, so it may take answers back."""
READERS = (
    "unpaid/no->a JOIN {a = b, 1 h} orders/no->b",
    "orders/no->a NOT FOLLOWED BY {a = b, 1 h} unpaid/no->b CONSISTENCY MIDDLE",
    "unpaid/no->a NOT FOLLOWED BY {a = b, 1 h} orders/no->b",
    "SELECT count() AS n FROM unpaid WINDOW 1 h EVERY 1 h",
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as engine:
        yield engine


def refused(engine: Engine, text: str, name: str) -> XsclError:
    with pytest.raises(XsclError, match="XSCL_KEEPS_RETRACTED") as found:
        engine.register(text, name=name)
    assert found.value.hint
    return found.value


@pytest.mark.parametrize("publisher", PUBLISHERS)
@pytest.mark.parametrize("reader", READERS)
def test_who_keeps_matches_is_refused(engine: Engine, publisher: str, reader: str) -> None:
    engine.register(publisher, name="p")
    error = refused(engine, reader, "r")
    assert error.span is not None and reader[error.span.start : error.span.end] == "unpaid"
    engine.drop("p")
    engine.register(reader, name="r")
    error = refused(engine, publisher, "p")
    assert error.span is not None and publisher[error.span.start : error.span.end] == "unpaid"
    assert "query r" in error.message


def test_who_follows_removals_is_taken(engine: Engine) -> None:
    engine.register("unpaid/no->a PUBLISH again ON CHANGE RETRACT", name="r")
    engine.register(f"{READERS[2]} ON CHANGE RETRACT", name="absent")
    for number, publisher in enumerate(PUBLISHERS):
        engine.register(publisher, name=f"p{number}")
    engine.register(f"{READERS[1]} ON CHANGE RETRACT", name="absent2")
    refused(engine, "again", "s")
    engine.register("again ON CHANGE RETRACT", name="t")


def test_final_answers_have_any_reader(engine: Engine) -> None:
    engine.register(f"{UNPAID} CONSISTENCY STRONG", name="p")
    engine.register(
        "orders/no->x NOT FOLLOWED BY {x = y, 1 h} payments/no->y PUBLISH unpaid CONSISTENCY WEAK", name="w"
    )
    for number, reader in enumerate(READERS):
        engine.register(reader, name=f"r{number}")


def test_statements_of_one_script_know_each_other(engine: Engine) -> None:
    reader, publisher = f"CREATE QUERY r AS {READERS[0]};", f"CREATE QUERY p AS {PUBLISHERS[0]};"
    for script in (f"{reader}\n{publisher}", f"{publisher}\n{reader}"):
        outcomes = engine.load(script)
        assert [outcome.error is None for outcome in outcomes] == [True, False]
        assert outcomes[1].error is not None and outcomes[1].error.condition == "XSCL_KEEPS_RETRACTED"
        engine.drop(str(outcomes[0].name))
