"""Paths that occur in the documents of a channel, against those that lxml tells."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from xscl.answers.channel_paths import channel_paths
from xscl.base.types import Event
from xscl.engine import Engine
from xscl.store.home import init_home

DOCUMENTS = [
    "<a x='1'><b><c/></b><b y='2'/></a>",
    "<a><atom:entry xmlns:atom='http://www.w3.org/2005/Atom'><own:d xmlns:own='urn:own' own:z='1'/></atom:entry></a>",
    "<a><b/><!-- no path --><?none at all?></a>",
]


def test_paths_are_those_of_the_documents(tmp_path: Path) -> None:
    wanted: dict[str, int] = {}
    for text in DOCUMENTS:
        found: set[str] = set()
        for element in etree.fromstring(text).iter("*"):
            path = "".join(f"/{_written(str(each.tag))}" for each in [*reversed([*element.iterancestors()]), element])
            found.add(path)
            found.update(f"{path}/@{_written(str(name))}" for name in element.attrib)
        for path in found:
            wanted[path] = wanted.get(path, 0) + 1
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.ingest(Event("S", f"d{n}", n, xml=text) for n, text in enumerate(DOCUMENTS))
        engine.ingest([Event("ticks", "t", 1, row={"sym": "IBM"})])
        told = dict(channel_paths(engine.home, "S", 100))
        assert told == wanted
        assert told["/a/atom:entry/*:d/@*:z"] == 1 and told["/a/b"] == 2
        assert channel_paths(engine.home, "S", 1) == [("/a", 3)]
        assert channel_paths(engine.home, "ticks", 9) == [("/ticks", 1), ("/ticks/sym", 1)]
        assert channel_paths(engine.home, "none", 9) == []


def _written(name: str) -> str:
    found = etree.QName(name)
    prefix = {None: "", "http://www.w3.org/2005/Atom": "atom:"}.get(found.namespace, "*:")
    return f"{prefix}{found.localname}"
