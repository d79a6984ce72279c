"""Dry runs of queries over documents: their witnesses as rows, and what was found."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from xscl.base.shown import counted
from xscl.cli.options import ServedOptions, complain, cut, rejection, say

if TYPE_CHECKING:
    from xscl.answers.try_query import BlockWitness, DryRun

__all__ = ["dry_run_of", "report_dry_run", "witness_line", "witness_record"]


def dry_run_of(at: ServedOptions, name: str) -> DryRun:
    """Return a dry run of a query of a home or of a service."""
    from xscl.answers.try_query import DryRun
    from xscl.base.temporary import temporary_folder
    from xscl.catalog.channels import read_channels, read_streams
    from xscl.catalog.queries import read_query

    if (client := at.client(only_home=True)) is not None:
        from xscl.cli.remote_answers import remote_dry_run

        with temporary_folder("xscl-test") as folder:
            return remote_dry_run(client, name, folder)
    catalog = at.open().catalog
    return DryRun(catalog.ask(read_query, name), catalog.ask(read_channels), catalog.ask(read_streams))


def report_dry_run(dry_run: DryRun, read: Collection[str]) -> None:
    """Say what a dry run found, and what the query does not read."""
    for problem in dry_run.problems:
        complain(rejection(problem))
    for number, (block, of_channel) in enumerate(dry_run.blocks, start=1):
        say(
            f"block {number} ({block}): witnesses {dry_run.found[number]}, documents of channel {of_channel} "
            f"{dry_run.documents[of_channel]}"
        )
    for other in sorted(name for name in dry_run.documents if name.removesuffix(".raw") not in read):
        say(
            f"note: the query does not read channel {other}, of which came "
            f"{counted(dry_run.documents[other], 'document')}"
        )
    for note in dry_run.notes():
        say(f"note: {note}")


def witness_record(witness: BlockWitness) -> dict[str, object]:
    """Return a witness as a row for programs."""
    bindings = {name: {"node": bound.node, "value": bound.value} for name, bound in witness.bindings.items()}
    return {
        "document": witness.document,
        "channel": witness.channel,
        "block": witness.block,
        "name": witness.name,
        "bindings": bindings,
    }


def witness_line(witness: BlockWitness) -> dict[str, object]:
    """Return a witness as a row for people."""
    bindings = (f"{name}={bound.node} {cut(bound.value, 40)!r}" for name, bound in witness.bindings.items())
    return {"document": witness.document, "block": witness.block, "witness": "  ".join(bindings)}
