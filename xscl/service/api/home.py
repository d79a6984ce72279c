"""Calls about what the home holds: channels, templates, batches and figures."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from xscl.answers.channel_listing import channel_rows
from xscl.answers.channel_paths import channel_paths
from xscl.answers.consistency import consistency_rows
from xscl.answers.explaining.plan import MOST_PLANNED, query_plan
from xscl.answers.explaining.templates import template_facts, template_sql_text, template_text
from xscl.answers.lateness import declare_suggested, suggestion_rows
from xscl.answers.status import batch_rows, state_notes, template_rows
from xscl.catalog.groups import read_template
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.retained_from import held_up, held_up_note
from xscl.registry.channels import ChannelOptions, set_channel
from xscl.registry.query_list import count_queries
from xscl.service.api.calls import BODY, Admin, Body, Limit, Name, Reader, Running, problems
from xscl.templates.statements.dialect import Dialect
from xscl.templates.statements.picture import GraphFormat, datalog, join_graph

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["home"])


class ChannelSettings(Body):
    """Settings of a channel; one that is null is the default of a new channel, and no change of another."""

    kind: str | None = Field(None, max_length=100, description="xml or rows.")
    element: str | None = Field(None, max_length=200, description="Root element of a row's document.")
    columns: str | None = Field(None, max_length=100_000, description="Columns of rows: 'room string, temp double'.")
    lateness: str | None = Field(None, max_length=100, description="Such as '1 h'; 'none' for no limit.")
    clock: str | None = Field(None, max_length=200, description="A clock shared with other channels.")
    idle: str | None = Field(None, max_length=100, description="How far its clock may be behind the newest of all.")
    wall: str | None = Field(None, max_length=100, description="Runs say that all is in up to so long before now.")
    retention: str | None = Field(None, max_length=100, description="Such as '30 days'; 'none' for ever.")
    source: str | None = Field(None, max_length=200, description="Of a stream: its source.")

    def options(self, of: str | None = None) -> ChannelOptions:
        """Make the record of all options; ``of``: the channel of a new stream."""
        given = self.model_dump(exclude={"name", "of", "columns"})
        return ChannelOptions(**given, schema=self.columns, of=of)


class NewChannel(ChannelSettings):
    """A channel to make, or a stream of one."""

    name: str = Field(max_length=200)
    of: str | None = Field(None, max_length=200, description="Channel of which this is a stream.")


@router.get("/channels", responses=problems())
def channels(service: Running, holder: Reader) -> dict[str, list[dict[str, Any]]]:
    """List channels and, behind each, its streams."""
    return {"channels": list(channel_rows(service.home.catalog))}


@router.post("/channels", status_code=201, responses=problems(*BODY, 404, 409))
def add_channel(new: NewChannel, service: Running, holder: Admin) -> dict[str, Any]:
    """Make a channel, or a stream of one."""
    return {"channel": new.name, "notes": service.engine.add_channel(new.name, new.options(new.of))}


@router.patch("/channels/{channel}", responses=problems(*BODY, 404, 409))
def change_channel(channel: Name, settings: ChannelSettings, service: Running, holder: Admin) -> dict[str, Any]:
    """Change a channel, or the source of a stream."""
    catalog = service.home.catalog
    set_channel(catalog, channel, settings.options())
    service.wake()
    is_held = settings.retention is not None and channel in held_up(catalog)
    return {"channel": channel, "notes": [held_up_note(channel)] if is_held else []}


@router.delete("/channels/{channel}", status_code=204, responses=problems(404, 409))
def drop_channel(channel: Name, service: Running, holder: Admin) -> None:
    """Remove a channel or a stream that holds no events and that nothing reads."""
    service.engine.drop_channel(channel)


@router.get("/channels/{channel}/paths", responses=problems())
def paths(channel: Name, service: Running, holder: Reader, limit: Limit = 200) -> dict[str, Any]:
    """List the paths that occur in the latest documents of a channel, the most frequent ones first."""
    found = channel_paths(service.home, channel, limit)
    return {"channel": channel, "paths": [{"path": path, "documents": count} for path, count in found]}


@router.get("/lateness", responses=problems(404))
async def lateness(
    service: Running,
    holder: Reader,
    channel: Annotated[str | None, Query(max_length=200, description="Only of this channel.")] = None,
) -> dict[str, list[dict[str, Any]]]:
    """Suggest the lateness of channels and of their feeds, by how far behind their clocks events have come."""
    async with service.turns.turn(holder.name, service.settings.sql_s):
        found = await run_in_threadpool(suggestion_rows, service.home, channel)
    return {"suggestions": [row for row, _ in found]}


class Wanted(Body):
    """The channels whose lateness is to be declared as suggested."""

    channel: str | None = Field(None, max_length=200, description="One channel; null: all with enough events.")


@router.post("/lateness", responses=problems(*BODY, 404, 409))
async def declare_lateness(wanted: Wanted, service: Running, holder: Admin) -> dict[str, list[Any]]:
    """Declare the lateness that is suggested."""

    def declare() -> dict[str, list[Any]]:
        found = suggestion_rows(service.home, wanted.channel)
        notes = list(declare_suggested(service.home, [one for _, one in found], wanted.channel))
        return {"suggestions": [row for row, _ in found], "notes": notes}

    async with service.turns.turn(holder.name, service.settings.sql_s):
        told = await run_in_threadpool(declare)
    service.wake()
    return told


@router.get("/consistency", responses=problems())
async def consistency(service: Running, holder: Reader) -> dict[str, list[dict[str, Any]]]:
    """Tell of each query about absence or with steps what it has told, taken back and missed."""
    async with service.turns.turn(holder.name, service.settings.sql_s):
        found = await run_in_threadpool(lambda: list(consistency_rows(service.home)))
    return {"queries": found}


@router.get("/templates", responses=problems())
def templates(service: Running, holder: Reader) -> dict[str, list[dict[str, Any]]]:
    """List query templates, those with most queries first, and steps that queries share."""
    return {"templates": template_rows(service.home.catalog)}


@router.get("/templates/{template}", responses=problems(404))
def template(template: Name, service: Running, holder: Reader) -> dict[str, Any]:
    """Show a template: variables, joins, and how many queries have it."""
    return template_facts(service.home.catalog, template)


@router.get("/templates/{template}/text", response_class=PlainTextResponse, responses=problems(404))
def template_as_text(template: Name, service: Running, holder: Reader) -> PlainTextResponse:
    """Show a template as a text for people."""
    return PlainTextResponse(template_text(service.home.catalog, template))


@router.get("/templates/{template}/graph", response_class=PlainTextResponse, responses=problems(404))
def template_graph(
    template: Name,
    service: Running,
    holder: Reader,
    language: Annotated[GraphFormat, Query(description="In what it is drawn.")] = GraphFormat.text,
) -> PlainTextResponse:
    """Draw the join graph of a template."""
    return PlainTextResponse(join_graph(service.home.catalog.ask(read_template, template), language))


@router.get("/templates/{template}/sql", response_class=PlainTextResponse, responses=problems(404))
def template_as_sql(
    template: Name,
    service: Running,
    holder: Reader,
    query: Annotated[str | None, Query(max_length=200, description="A query whose constants stand in it.")] = None,
    dialect: Annotated[Dialect, Query(description="For which database.")] = Dialect.spark,
) -> PlainTextResponse:
    """Give the conjunctive query of a template as a statement of SQL."""
    return PlainTextResponse(template_sql_text(service.home.catalog, template, query, dialect))


@router.get("/templates/{template}/datalog", response_class=PlainTextResponse, responses=problems(404))
def template_as_datalog(template: Name, service: Running, holder: Reader) -> PlainTextResponse:
    """Give the conjunctive query of a template as a rule of Datalog."""
    return PlainTextResponse(datalog(service.home.catalog.ask(read_template, template)))


_Like = Annotated[str | None, Query(max_length=200, description="A pattern of names of queries: * and ?.")]
_Rules = Annotated[str, Query(max_length=200, description="all, none, s, c, or names of rules, with commas.")]


@router.get("/plan", responses=problems(400))
def plan(service: Running, holder: Reader, like: _Like = None, rules: _Rules = "all") -> dict[str, Any]:
    """Show the m-ops that run for registered queries, and the rules that made them."""
    return query_plan(service.home.catalog, like, rules, MOST_PLANNED).record()


@router.get("/plan/graph", response_class=PlainTextResponse, responses=problems(400))
def plan_graph(
    service: Running,
    holder: Reader,
    like: _Like = None,
    rules: _Rules = "all",
    language: Annotated[GraphFormat, Query(description="In what it is drawn.")] = GraphFormat.text,
) -> PlainTextResponse:
    """Draw the m-ops that run for registered queries."""
    found = query_plan(service.home.catalog, like, rules, MOST_PLANNED)
    return PlainTextResponse(found.graph(language))


@router.get("/batches", responses=problems())
def batches(
    service: Running,
    holder: Reader,
    after: Annotated[int, Query(ge=0, le=2**62, description="Batches behind this number.")] = 0,
    limit: Limit = 100,
) -> dict[str, list[dict[str, Any]]]:
    """List what each batch did."""
    return {"batches": batch_rows(service.home.catalog, after=after, limit=limit)}


@router.get("/stats", responses=problems())
def stats(service: Running, holder: Reader) -> dict[str, Any]:
    """Tell what the home holds, and how far batches are behind the intake."""
    processed, last = service.home.catalog.ask(read_last_places)
    return {
        "queries": count_queries(service.home.catalog),
        "place": last,
        "processed": processed,
        "lag": last - processed,
        "running": service.is_running,
        "problem": None if service.problem is None else str(service.problem),
        "notes": list(state_notes(service.home)),
    }
