"""Creating, changing and listing channels."""

from __future__ import annotations

import pytest

from xscl.answers.channel_listing import channel_rows
from xscl.base.errors import CatalogError, SourceError
from xscl.base.types import Event
from xscl.catalog.channels import read_channels, read_facts
from xscl.catalog.groups import read_rt_rows, read_template_use
from xscl.catalog.records import ChannelInfo
from xscl.catalog.subscriptions import add_feed
from xscl.intake.heartbeats import take_heartbeat
from xscl.intake.intake import Intake
from xscl.language.facts import ANSWERS
from xscl.registry.channels import add_channel, set_channel
from xscl.registry.registry import Registry
from xscl.store.home import Home


def channel(home: Home, name: str = "T") -> ChannelInfo:
    return home.catalog.ask(read_channels)[name]


def refusal(home: Home, change, name: str = "T", **settings: str) -> str:
    with pytest.raises((CatalogError, SourceError)) as caught:
        change(home.catalog, name, **settings)
    return caught.value.condition


def test_defaults(home: Home) -> None:
    add_channel(home.catalog, "T")
    assert channel(home) == ChannelInfo("T", "xml", False, "T", None, None, "T")


def test_settings(home: Home) -> None:
    add_channel(home.catalog, "T", kind="rows", element="r", schema="p double, q text", lateness="90 s", clock="c")
    schema = {"p": "double", "q": "string"}
    assert channel(home) == ChannelInfo("T", "rows", False, "r", schema, 90_000_000, "c")
    assert home.catalog.ask(read_facts)["T"].numeric == {"p"}
    set_channel(home.catalog, "T", lateness="none")
    assert channel(home).lateness is None
    set_channel(home.catalog, "T", lateness="PT5M", element="s", clock="d")
    assert channel(home) == ChannelInfo("T", "rows", False, "s", schema, 300_000_000, "d")


def test_refusals(home: Home) -> None:
    assert refusal(home, set_channel) == "XSCL_UNKNOWN_CHANNEL"
    add_channel(home.catalog, "T")
    assert refusal(home, add_channel) == "XSCL_NAME_TAKEN"
    assert refusal(home, set_channel, kind="table") == "XSCL_BAD_CHANNEL"
    assert refusal(home, set_channel, schema="p double") == "XSCL_BAD_CHANNEL"
    assert refusal(home, set_channel, element="r") == "XSCL_BAD_CHANNEL"
    assert refusal(home, set_channel, lateness="soon") == "XSCL_BAD_CHANNEL"
    assert refusal(home, set_channel, lateness="-5 s") == "XSCL_BAD_CHANNEL"
    assert refusal(home, set_channel, clock=" ") == "XSCL_BAD_CHANNEL"
    assert refusal(home, set_channel, kind="rows", schema="p money") == "XSCL_BAD_SCHEMA"
    assert channel(home) == ChannelInfo("T", "xml", False, "T", None, None, "T")


def test_a_channel_that_is_made_for_its_first_stream_is_told(home: Home) -> None:
    assert add_channel(home.catalog, "news") == []
    assert add_channel(home.catalog, "bbc", of="news") == []
    (note,) = add_channel(home.catalog, "sky", of="newz")
    assert note == "there was no channel 'newz', so it was made, for documents; did you mean 'news'?"
    assert add_channel(home.catalog, "cnn", of="wire") == ["there was no channel 'wire', so it was made, for documents"]


def test_events_fix_the_shape(home: Home) -> None:
    add_channel(home.catalog, "T", kind="rows")
    Intake(home).take([Event("T", "1", 1, row={"p": 1})])
    for settings in ({"kind": "xml"}, {"element": "r"}, {"schema": "p double"}):
        assert refusal(home, set_channel, **settings) == "XSCL_BAD_CHANNEL"
    set_channel(home.catalog, "T", lateness="1 s", clock="c")
    assert (channel(home).lateness, channel(home).clock) == (1_000_000, "c")


def test_a_declared_schema_makes_joins_numeric(home: Home) -> None:
    registry = Registry(home.catalog)
    registry.register("S//a->x JOIN {x = y, 1 h} T//p->y", name="q")
    add_channel(home.catalog, "T", kind="rows", schema="p int")
    ((template, _, _),) = [found for found in home.catalog.ask(read_template_use) if found[1]]
    (row,) = home.catalog.ask(read_rt_rows, template)
    assert (row["fn_l_1"], row["fn_r_1"]) == ("number", "number")


def test_columns_that_queries_read_stay_once_there_are_events(home: Home) -> None:
    registry = Registry(home.catalog)
    add_channel(home.catalog, "T", kind="rows", schema="p int")
    registry.register("S//a->x JOIN {x = y, 1 h} T//p->y", name="q")
    set_channel(home.catalog, "T", schema="p double")
    Intake(home).take([Event("S", "1", 1, xml="<a>1</a>")])
    assert refusal(home, set_channel, schema="p string") == "XSCL_BAD_CHANNEL"
    set_channel(home.catalog, "T", lateness="1 s")
    registry.drop("q")
    set_channel(home.catalog, "T", schema="p string")


def test_a_channel_of_documents_has_no_columns(home: Home) -> None:
    add_channel(home.catalog, "T", kind="rows", schema="p int")
    set_channel(home.catalog, "T", kind="xml")
    assert home.catalog.ask(read_facts)["T"].numeric == frozenset()


@pytest.mark.parametrize("name", ["", "a b", "1", "x-"])
def test_names_of_channels(home: Home, name: str) -> None:
    with pytest.raises((CatalogError, SourceError)):
        add_channel(home.catalog, name)


def test_the_channel_of_answers_of_windows_is_no_one_elses(home: Home) -> None:
    assert refusal(home, add_channel, ANSWERS) == "XSCL_BAD_NAME"
    assert refusal(home, add_channel, "s", of=ANSWERS) == "XSCL_BAD_NAME"
    with pytest.raises(CatalogError, match="XSCL_BAD_NAME"):
        add_feed(home.catalog, "https://example.org/f", now=1, channel=ANSWERS)
    with home.catalog.begin() as connection, pytest.raises(CatalogError, match="XSCL_BAD_NAME"):
        take_heartbeat(connection, ANSWERS, 1, 1)
    assert ANSWERS not in home.catalog.ask(read_channels)


def test_names_of_elements(home: Home) -> None:
    assert refusal(home, add_channel, kind="rows", element="a b") == "XSCL_BAD_CHANNEL"


def test_listing(home: Home) -> None:
    add_channel(home.catalog, "T", kind="rows", lateness="1 h", retention="2 days")
    Intake(home).take(
        [Event("T", "1", 1, row={"p": 1, "q": None}), Event("S", "1", 1, xml="<a/>"), Event("S", "2", 1, xml="<a/>")]
    )
    assert list(channel_rows(home.catalog)) == [
        {
            "channel": "S",
            "kind": "xml",
            "events": 2,
            "element": None,
            "schema": None,
            "lateness": "no limit",
            "clock": "S",
            "idle": None,
            "wall": None,
            "retention": "for ever",
            "of": None,
            "source": None,
        },
        {
            "channel": "T",
            "kind": "rows",
            "events": 1,
            "element": "T",
            "schema": "p bigint, q unknown",
            "lateness": "1 h",
            "clock": "T",
            "idle": None,
            "wall": None,
            "retention": "2 d",
            "of": None,
            "source": None,
        },
    ]


@pytest.mark.parametrize("retention", ["soon", "-1 s", "1e30 s"])
def test_a_retention_is_a_duration(home: Home, retention: str) -> None:
    with pytest.raises(CatalogError, match="retention") as raised:
        add_channel(home.catalog, "S", retention=retention)
    assert raised.value.condition == "XSCL_BAD_CHANNEL"
