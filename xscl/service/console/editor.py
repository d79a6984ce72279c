"""Pages on which a query is written: it is checked and drawn as one types, and registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from xscl.answers.channel_listing import channel_rows
from xscl.answers.channel_paths import channel_paths
from xscl.answers.document_listing import latest_documents
from xscl.answers.explaining.facts import CaseFacts, case_facts
from xscl.base.errors import CatalogError, QueryError, XsclError
from xscl.base.types import format_time, now_micros
from xscl.catalog.queries import read_query
from xscl.catalog.records import QueryInfo
from xscl.language.compiled import CompiledQuery
from xscl.service.api.calls import Reader, Running, Writer
from xscl.service.console.drawing import Drawing, query_drawing
from xscl.service.console.pages import Form, is_part, new_router, page
from xscl.service.console.trial import Given, Trial, try_query
from xscl.service.problems import problem_of, status_of
from xscl.service.runtime import Service

__all__ = ["router"]

router = new_router()

_DOCUMENTS = 2
_CHANNELS = 100
"""Channels that are offered."""
_NAMES = 60
"""Names of a channel that are offered."""
_PATHS = 500
"""Paths of a channel that are offered while one types."""
_MINUTE = 60_000_000


@dataclass(frozen=True, slots=True)
class Offer:
    """A channel that a query may read, with names that occur in its documents."""

    channel: str
    events: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """Outcome of checking a text."""

    problem: Mapping[str, object] | None = None
    start: int = 0
    """Place of the fault in the text."""
    end: int = 0
    name: str = ""
    template: str = ""
    cost: int = 0
    channels: tuple[str, ...] = ()
    cases: tuple[CaseFacts, ...] = ()
    drawing: Drawing | None = None
    notes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    """The channels of the query."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A document of the form."""

    number: int
    channel: str
    time: str
    text: str


def _samples(form: Mapping[str, str]) -> list[Sample]:
    """Return the documents of a form; new ones are a minute apart."""
    now = now_micros() // _MINUTE * _MINUTE
    found = []
    for number in range(1, _DOCUMENTS + 1):
        time = format_time(now - _MINUTE * (_DOCUMENTS - number))
        fields = [form.get(f"{field}{number}", "") for field in ("channel", "time", "document")]
        found.append(Sample(number, fields[0].strip(), fields[1].strip() or time, fields[2]))
    return found


def _page(
    request: Request, service: Service, form: Mapping[str, str], *, status: int = 200, **told: object
) -> Response:
    """Make the page of the editor with what a form has, and what was found."""
    listed = [str(row["channel"]) for row in channel_rows(service.home.catalog)]
    values = {"checked": None, "trial": None, "trial_problem": None, "refused": None, **told}
    return page(
        request,
        "editor.html",
        values,
        status=status,
        has_editor=True,
        name=form.get("name", ""),
        text=form.get("text", ""),
        samples=_samples(form),
        channels=listed[:_CHANNELS],
    )


@router.get("/editor")
def editor(
    request: Request,
    service: Running,
    holder: Reader,
    like: Annotated[str, Query(max_length=200, description="Query whose text to begin with.")] = "",
) -> Response:
    """Show the editor, empty or with the text of a query."""
    text = ""
    if like:
        text = service.home.catalog.ask(read_query, like).text
    form = {"text": text}
    return _page(request, service, form, checked=_checked(service, form) if text else None)


@router.post("/editor/check")
def check(request: Request, form: Form, service: Running, holder: Reader) -> Response:
    """Say whether a text is a query, and draw it."""
    checked = _checked(service, form) if form.get("text", "").strip() else None
    if is_part(request):
        return page(request, "part_check.html", checked=checked)
    return _page(request, service, form, checked=checked)


@router.get("/editor/paths")
def paths(
    service: Running, holder: Reader, channel: Annotated[str, Query(max_length=200, description="A channel.")]
) -> list[str]:
    """List the paths that occur in a channel, for the completion of names."""
    return [path for path, _ in channel_paths(service.home, channel, _PATHS)]


@router.post("/editor/try")
def try_(request: Request, form: Form, service: Running, holder: Reader) -> Response:
    """Try a query on the documents of the form."""
    trial: Trial | None = None
    problem = None
    try:
        info, _, _ = _compiled(service, form)
        given = [
            Given(f"document {each.number}", each.channel, each.time, each.text)
            for each in _samples(form)
            if each.text.strip()
        ]
        trial = try_query(service, info, given)
    except XsclError as error:
        problem = problem_of(error)
    if is_part(request):
        return page(request, "part_trial.html", trial=trial, trial_problem=problem)
    return _page(request, service, form, checked=_checked(service, form), trial=trial, trial_problem=problem)


@router.post("/editor/samples")
def samples(request: Request, form: Form, service: Running, holder: Reader) -> Response:
    """Take the latest documents of a channel into the form."""
    channel = form.get("latest", "").strip()
    found = latest_documents(service.home, channel, _DOCUMENTS) if channel else []
    filled = dict(form)
    for number, document in enumerate(reversed(found), start=1):
        filled[f"channel{number}"] = document.channel
        filled[f"time{number}"] = format_time(document.ts)
        filled[f"document{number}"] = document.row or document.document
    if is_part(request):
        return page(request, "part_samples.html", samples=_samples(filled))
    return _page(request, service, filled)


@router.post("/editor/register")
def register(request: Request, form: Form, service: Running, holder: Writer) -> Response:
    """Register the query, and show it."""
    try:
        with service.registering:
            name = service.engine.register(
                form.get("text", ""), name=form.get("name", "").strip() or None, owner=holder.name or None
            )
    except XsclError as error:
        checked = _checked(service, form)
        refused = None if checked.problem else problem_of(error)
        return _page(request, service, form, status=status_of(error), checked=checked, refused=refused)
    service.wake()
    return RedirectResponse(f"/queries/{name}", status_code=303)


def _compiled(service: Service, form: Mapping[str, str]) -> tuple[QueryInfo, CompiledQuery, tuple[str, ...]]:
    return service.unregistered(form.get("text", ""), form.get("name", "").strip() or None)


def _checked(service: Service, form: Mapping[str, str]) -> Checked:
    """Check the text of a form; a fault has its place in the text."""
    try:
        info, compiled, notes = _compiled(service, form)
    except XsclError as error:
        span = error.span if isinstance(error, (QueryError, CatalogError)) else None
        start, end = (0, 0) if span is None else (span.start, max(span.end, span.start + 1))
        return Checked(problem_of(error), start, end)
    channels = tuple(dict.fromkeys(block.channel for block in compiled.normal.blocks))
    return Checked(
        name=info.name,
        template=compiled.template.id,
        cost=compiled.cost,
        channels=channels,
        cases=tuple(case_facts(compiled)),
        drawing=query_drawing(compiled),
        notes=notes,
        offers=tuple(_offers(service, compiled)),
    )


def _offers(service: Service, compiled: CompiledQuery) -> list[Offer]:
    """Return the channels of a query with the names of elements that occur there."""
    names = service.engine.registry.names
    found = []
    with service.home.catalog.read() as connection:
        for channel in dict.fromkeys(compiled.channels):
            known = None if names is None else names.of(connection, channel)
            elements = sorted({local for _, local in known.elements}) if known is not None else []
            attributes = sorted({f"@{local}" for _, local in known.attributes}) if known is not None else []
            found.append(Offer(channel, 0, (*elements, *attributes)[:_NAMES]))
    return found
