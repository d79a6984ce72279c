"""Calls that register, list, explain and drop queries."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from xscl.answers.explaining.explain import explain
from xscl.base.errors import XsclError
from xscl.base.types import QueryOutcome
from xscl.catalog.queries import read_query
from xscl.catalog.records import QueryInfo
from xscl.registry.query_list import QueryFilter, list_queries, state_facts
from xscl.service.api.calls import BODY, Body, Limit, Name, Reader, Running, Writer, problems
from xscl.service.problems import problem_of

__all__ = ["router"]

router = APIRouter(prefix="/v1/queries", tags=["queries"])

_MAX_TEXT = 1_000_000


class NewQuery(Body):
    """A query to register."""

    name: str | None = Field(None, max_length=200, description="Its name; by default the text's, or one that is given.")
    text: str = Field(min_length=1, max_length=_MAX_TEXT, description="XSCL; DECLAREs may precede the query.")


class Registered(BaseModel):
    """A query that was registered."""

    name: str
    notes: list[str] = Field(description="Sentences on what the text may not say as it was meant.")


class Validated(BaseModel):
    """A text that could be registered."""

    name: str = Field(description="Name that the text gives; 'once' if it gives none.")
    channels: list[str] = Field(description="Channels of its blocks, or of their streams.")
    template: str = Field(description="Template to which the query would belong.")
    cost: int = Field(description="Cost that limits of tokens count: nodes that it keeps, and joins.")
    notes: list[str]


class ManyQueries(Body):
    """Queries to register together, as a list or as a script of statements."""

    queries: list[NewQuery] = Field([], max_length=100_000)
    script: str | None = Field(None, max_length=32_000_000, description="Statements, each ended by a semicolon.")
    atomic: bool = Field(False, description="Whether all are taken, or none.")


class Outcome(BaseModel):
    """Outcome of one statement."""

    name: str | None
    action: str = Field(description="registered, dropped, declared or refused.")
    line: int = Field(description="Line at which the statement begins; of a list, the number of the query.")
    notes: list[str]
    problem: dict[str, Any] | None = Field(None, description="Problem of a refused statement, as of a single one.")


class Outcomes(BaseModel):
    """Outcomes of the statements, in their order."""

    outcomes: list[Outcome]
    taken: int
    refused: int


class ListedQuery(BaseModel):
    """A query of the home."""

    name: str
    owner: str = Field(description="Holder of the token that registered it.")
    template: str
    group: int
    place: int = Field(description="Place of the intake order after which it sees events.")
    state: str = Field(description="live or suspended.")
    suspended_from: int | None = None
    reason: str | None = None
    level: str | None = Field(None, description="Level of consistency of a query about absence or with steps.")
    late_for: int = Field(0, description="Events that came too late for its memory, and in time for others.")
    text: str


class ResumedQuery(BaseModel):
    """A query that goes on."""

    name: str
    suspended: int = Field(description="Place of the intake order from which on it saw nothing.")
    resumed: int = Field(description="Place after which it sees what comes.")
    missed: int = Field(description="Events of its channels between both places.")


class Queries(BaseModel):
    """A page of queries by name."""

    queries: list[ListedQuery]
    after: str | None = Field(description="Value of 'after' for the next page; null at the end.")


@router.post("", status_code=201, response_model=Registered, responses=problems(*BODY, 404, 409))
def register(new: NewQuery, response: Response, service: Running, holder: Writer) -> Registered:
    """Register a query, which belongs to the holder of the token."""
    with service.registering:
        name = service.engine.register(new.text, name=new.name, owner=holder.name or None)
    response.headers["Location"] = f"/v1/queries/{quote(name, safe='')}"
    service.wake()
    return Registered(name=name, notes=list(name.notes))


@router.post("/validate", response_model=Validated, responses=problems(*BODY, 404))
def validate(new: NewQuery, service: Running, holder: Reader) -> Validated:
    """Say whether a text could be registered, and what it would be; nothing is registered."""
    info, compiled, notes = service.unregistered(new.text, new.name)
    return Validated(
        name=info.name,
        channels=sorted(set(compiled.channels)),
        template=compiled.template.id,
        cost=compiled.cost,
        notes=list(notes),
    )


@router.post("/bulk", response_model=Outcomes, responses=problems(*BODY))
def register_many(many: ManyQueries, service: Running, holder: Writer) -> Outcomes:
    """Register many queries; one that is refused does not keep the others from being taken."""
    owner = holder.name or None
    with service.registering:
        found = service.engine.register_many(
            [(new.name, new.text) for new in many.queries], owner=owner, atomic=many.atomic
        )  # fmt: skip
        outcomes = [_outcome(each, number) for number, each in enumerate(found, start=1)]
        if many.script is not None:
            loaded = service.engine.load(many.script, owner=owner, atomic=many.atomic)
            outcomes += [_outcome(each, each.line) for each in loaded]
    service.wake()
    refused = sum(each.problem is not None for each in outcomes)
    return Outcomes(outcomes=outcomes, taken=len(outcomes) - refused, refused=refused)


@router.get("", response_model=Queries, responses=problems(400, 404))
def list_(
    service: Running,
    holder: Reader,
    like: Annotated[str | None, Query(max_length=200, description="Names that fit a pattern of '*' and '?'.")] = None,
    channel: Annotated[str | None, Query(max_length=200, description="Queries that read a channel.")] = None,
    template: Annotated[
        str | None,
        Query(max_length=200, description="Queries of a template: its id, or the beginning that no other has."),
    ] = None,
    group: Annotated[int | None, Query(ge=1, le=2**62, description="Queries of a group.")] = None,
    owner: Annotated[str | None, Query(max_length=200, description="Queries of an owner.")] = None,
    suspended: Annotated[bool | None, Query(description="Only suspended queries, or only live ones.")] = None,
    after: Annotated[str | None, Query(max_length=200, description="Names after this one.")] = None,
    limit: Limit = 100,
) -> Queries:
    """List queries by name, a page at a time."""
    wanted = QueryFilter(
        like=like,
        template=template,
        group=group,
        channel=channel,
        owner=owner,
        suspended=suspended,
        after=after,
        limit=limit + 1,
    )
    found = list(list_queries(service.home.catalog, wanted))
    more = found[limit - 1].name if len(found) > limit else None
    return Queries(queries=[_listed(info) for info in found[:limit]], after=more)


@router.get("/{name}", response_model=ListedQuery, responses=problems(404))
def show(name: Name, service: Running, holder: Reader) -> ListedQuery:
    """Show a query."""
    return _listed(service.home.catalog.ask(read_query, name))


@router.get("/{name}/explain", responses=problems(404))
def explain_(name: Name, service: Running, holder: Reader) -> dict[str, Any]:
    """Explain a query: normal form, variables, windows, guards, template, who shares it, SQL."""
    return explain(service.home.catalog, name).record()


@router.post("/{name}/resume", response_model=ResumedQuery, responses=problems(404, 409))
def resume(name: Name, service: Running, holder: Writer) -> ResumedQuery:
    """Have a suspended query go on from now, with the same ids of matches."""
    with service.registering:
        found = service.engine.resume(name)
    service.wake()
    return ResumedQuery(name=name, suspended=found.suspended, resumed=found.resumed, missed=found.missed)


@router.delete("/{name}", status_code=204, responses=problems(404))
def drop(name: Name, service: Running, holder: Writer) -> None:
    """End a query; its matches stay."""
    with service.registering:
        service.engine.drop(name)
    service.wake()


def _listed(info: QueryInfo) -> ListedQuery:
    return ListedQuery(
        name=info.name,
        owner=info.owner,
        template=info.template,
        group=info.gid,
        place=info.docid_from,
        text=info.said,
        **state_facts(info),  # type: ignore[arg-type]
    )


def _outcome(outcome: QueryOutcome, line: int) -> Outcome:
    error: XsclError | None = outcome.error
    return Outcome(
        name=outcome.name,
        action=outcome.action,
        line=line,
        notes=list(outcome.notes),
        problem=None if error is None else problem_of(error),
    )
