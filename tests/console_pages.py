"""Pages of the console as trees of HTML, and clients that ask for them as browsers do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import lxml.html
from http_service import SETTINGS, Running, running


@contextmanager
def opened(home: Path, *, auth: bool = False) -> Iterator[Running]:
    """Serve a home as a browser finds it: by default without tokens."""
    with running(home, replace(SETTINGS, auth=auth)) as found:
        yield found


def browser_client(service: Running, **headers: str) -> httpx2.Client:
    """A client that says as browsers do where its forms come from."""
    return httpx2.Client(base_url=service.address, headers={"Origin": service.address, **headers}, timeout=120)


def page(client: httpx2.Client, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, (path, answer.text[:500])
    return checked(answer)


def checked(answer: httpx2.Response) -> Any:
    """A page as a tree; whatever every page has to be is looked at here."""
    assert answer.headers["content-type"].startswith("text/html")
    assert "unsafe-" not in answer.headers["content-security-policy"]
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    tree = lxml.html.document_fromstring(answer.text)
    assert not tree.xpath("//style | //@style | //script[not(@src)] | //@*[starts-with(name(), 'on')]")
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    for control in tree.xpath("//input[not(@type = 'hidden')] | //textarea | //select"):
        assert tree.xpath("//label[@for = $id]", id=control.get("id")), control.get("name")
    for address in tree.xpath("//a/@href | //form/@action | //@formaction | //link/@href | //script/@src"):
        assert address == "" or address.startswith(("/", "#", "http://", "https://")), address
    return tree


def part(client: httpx2.Client, path: str, **form: str) -> Any:
    answer = client.post(path, data=form, headers={"HX-Request": "true"})
    assert answer.status_code == 200, answer.text
    return lxml.html.fragment_fromstring(answer.text, create_parent="div")


def text_of(tree: Any) -> str:
    return " ".join(tree.text_content().split())
