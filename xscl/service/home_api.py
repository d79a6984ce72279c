"""Calls about what the home holds: channels, templates, batches and figures."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from xscl.answers.channel_listing import channel_rows
from xscl.answers.channel_paths import channel_paths
from xscl.answers.status import batch_rows, state_notes, template_rows
from xscl.answers.template_text import template_facts
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.retained_from import held_up, held_up_note
from xscl.registry.channels import ChannelOptions, set_channel
from xscl.registry.query_list import count_queries
from xscl.service.calls import BODY, Admin, Body, Limit, Name, Reader, Running, problems

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
def add_channel(new: NewChannel, service: Running, holder: Admin) -> dict[str, str]:
    """Make a channel, or a stream of one."""
    service.engine.add_channel(new.name, new.options(new.of))
    return {"channel": new.name}


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


@router.get("/templates", responses=problems())
def templates(service: Running, holder: Reader) -> dict[str, list[dict[str, Any]]]:
    """List query templates, those with most queries first."""
    return {"templates": template_rows(service.home.catalog)}


@router.get("/templates/{template}", responses=problems(404))
def template(template: Name, service: Running, holder: Reader) -> dict[str, Any]:
    """Show a template: variables, joins, and how many queries have it."""
    return template_facts(service.home.catalog, template)


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
